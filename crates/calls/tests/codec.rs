//! What the room writes it reads back, and nothing else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use bytes::Bytes;
use handoff_calls::{
    Aggregate, Call, CallId, Change, ChannelName, ChannelSettings, ClientId, Durability, Ended,
    Event, Failure, HandlerError, Happened, OnLost, Outcome, Stage, TimedOut, WithoutConsumer,
    decode_aggregate, decode_change, encode_aggregate, encode_change,
};
use handoff_types::{Span, Steady, Wall};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn call_id() -> impl Strategy<Value = CallId> {
    any::<u128>().prop_map(CallId::from_number)
}

fn client_id() -> impl Strategy<Value = ClientId> {
    any::<u128>().prop_map(ClientId::from_number)
}

fn channel() -> impl Strategy<Value = ChannelName> {
    "[A-Za-z0-9._:-]{1,20}".prop_map(|text| text.parse().unwrap())
}

fn wall() -> impl Strategy<Value = Wall> {
    any::<i64>().prop_map(Wall)
}

fn steady() -> impl Strategy<Value = Steady> {
    any::<u64>().prop_map(Steady)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span)
}

fn body() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn words() -> impl Strategy<Value = Box<str>> {
    ".{0,20}".prop_map(Box::from)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let handler = (words(), words(), words()).prop_map(|(name, message, code)| {
        Outcome::Failed(Failure::Handler(HandlerError { name, message, code }))
    });
    let others = select(vec![
        Outcome::Failed(Failure::ExecutorLost),
        Outcome::Failed(Failure::NoConsumer),
        Outcome::TimedOut(TimedOut::InQueue),
        Outcome::TimedOut(TimedOut::Deadline),
        Outcome::Cancelled,
    ]);
    prop_oneof![body().prop_map(Outcome::Answer), handler, others]
}

fn stage() -> impl Strategy<Value = Stage> {
    let ended = (outcome(), wall(), steady(), any::<bool>(), any::<bool>());
    prop_oneof![
        Just(Stage::Waiting),
        steady().prop_map(Stage::Later),
        (client_id(), steady()).prop_map(|(executor, until)| Stage::Offered { executor, until }),
        (client_id(), steady()).prop_map(|(executor, until)| Stage::Running { executor, until }),
        call_id().prop_map(Stage::Following),
        ended.prop_map(|(outcome, at, forget, acked, dead)| {
            Stage::Ended(Ended { outcome, at, forget, acked, dead })
        }),
    ]
}

fn happened() -> impl Strategy<Value = Happened> {
    select(Happened::ALL.to_vec())
}

fn call() -> impl Strategy<Value = Call> {
    let event =
        (wall(), happened(), of(client_id())).prop_map(|(at, what, who)| Event { at, what, who });
    let names = (
        call_id(),
        any::<u64>(),
        of(client_id()),
        channel(),
        of("[!-~]{1,30}"),
        of("[0-9a-f-]{1,55}"),
        of(call_id()),
    );
    let rest = (body(), any::<u64>(), wall(), steady(), of(steady()), any::<u64>(), any::<u16>());
    let last = (of((client_id(), any::<u64>())), stage(), vec(event, 0..5));
    (names, rest, last).prop_map(|(names, rest, (taken, stage, history))| {
        let (id, seq, caller, channel, key, trace, again_for) = names;
        let (params, digest, created, deadline, begin_by, fence, attempt) = rest;
        Call {
            id,
            seq,
            caller,
            channel,
            params,
            digest,
            key: key.map(|key| key.parse().unwrap()),
            trace: trace.map(|trace| trace.parse().unwrap()),
            again_for,
            durable: true,
            created,
            deadline,
            begin_by,
            fence,
            attempt,
            taken,
            stage,
            history,
        }
    })
}

fn settings() -> impl Strategy<Value = ChannelSettings> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (flags, any::<u16>(), span(), span(), span(), of(span())).prop_map(
        |(flags, attempts_max, backoff_min, backoff_max, lease, queue_timeout)| ChannelSettings {
            on_lost: if flags.0 { OnLost::Fail } else { OnLost::Redeliver },
            attempts_max,
            backoff_min,
            backoff_max,
            lease,
            queue_timeout,
            durability: if flags.1 { Durability::Memory } else { Durability::Disk },
            without_consumer: if flags.2 { WithoutConsumer::Fail } else { WithoutConsumer::Park },
        },
    )
}

/// Every change that is ever kept.
fn change() -> impl Strategy<Value = Change> {
    let ended =
        (call_id(), outcome(), of(client_id()), any::<u16>(), any::<bool>(), steady(), wall());
    prop_oneof![
        call().prop_map(|call| Change::Registered(Box::new(call))),
        (call_id(), client_id(), any::<u64>(), steady(), wall()).prop_map(
            |(call, executor, fence, until, at)| Change::Offered {
                call,
                executor,
                fence,
                until,
                at
            }
        ),
        (call_id(), any::<u16>(), steady(), wall())
            .prop_map(|(call, attempt, until, at)| Change::Accepted { call, attempt, until, at }),
        (call_id(), steady()).prop_map(|(call, until)| Change::Extended { call, until }),
        (call_id(), of(steady()), any::<u16>(), happened(), wall()).prop_map(
            |(call, after, attempt, why, at)| Change::Returned { call, after, attempt, why, at }
        ),
        ended.prop_map(|(call, outcome, by, attempt, dead, forget, at)| Change::Ended {
            call,
            outcome,
            by,
            attempt,
            dead,
            forget,
            at
        }),
        (call_id(), wall()).prop_map(|(call, at)| Change::Acknowledged { call, at }),
        (call_id(), steady()).prop_map(|(call, forget)| Change::Buried { call, forget }),
        call_id().prop_map(Change::Forgotten),
        (channel(), settings()).prop_map(|(name, settings)| Change::Channel(name, settings)),
        channel().prop_map(Change::ChannelGone),
        (any::<u64>(), any::<u64>()).prop_map(|(above, until)| Change::Fences { above, until }),
    ]
}

fn aggregate() -> impl Strategy<Value = Aggregate> {
    prop_oneof![
        call().prop_map(|call| Aggregate::Call(Box::new(call))),
        (channel(), settings()).prop_map(|(name, settings)| Aggregate::Channel(name, settings)),
        any::<u64>().prop_map(Aggregate::Fences),
    ]
}

proptest! {
    #[test]
    fn changes_read_back_one_behind_the_other(changes in vec(change(), 1..4)) {
        let mut bytes = Vec::new();
        changes.iter().for_each(|change| encode_change(change, &mut bytes));
        let mut rest = &bytes[..];
        for change in &changes {
            let (read, behind) = decode_change(rest).unwrap();
            prop_assert_eq!(&read, change);
            rest = behind;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn aggregates_read_back_one_behind_the_other(aggregates in vec(aggregate(), 1..4)) {
        let mut bytes = Vec::new();
        aggregates.iter().for_each(|one| encode_aggregate(one, &mut bytes));
        let mut rest = &bytes[..];
        for aggregate in &aggregates {
            let (read, behind) = decode_aggregate(rest).unwrap();
            prop_assert_eq!(&read, aggregate);
            rest = behind;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_change_that_ends_too_early_is_no_change(change in change(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        encode_change(&change, &mut bytes);
        prop_assert!(decode_change(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn whatever_is_read_is_what_would_be_written(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok((change, rest)) = decode_change(&bytes) {
            let mut written = Vec::new();
            encode_change(&change, &mut written);
            prop_assert_eq!(&written[..], &bytes[..bytes.len() - rest.len()]);
        }
        if let Ok((aggregate, rest)) = decode_aggregate(&bytes) {
            let mut written = Vec::new();
            encode_aggregate(&aggregate, &mut written);
            prop_assert_eq!(&written[..], &bytes[..bytes.len() - rest.len()]);
        }
    }
}
