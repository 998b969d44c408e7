//! One promise each.

use handoff_calls::wire::{Fenced, Named, Offer, Pong, Response, Taken, Up};
use tokio::time::Instant;

use super::super::link::Link;
use super::super::{Deed, Down, Finish, Standing, wire};
use super::{
    MS, connect, deeds, ended, greeted, greeting, held, id, json, new_call, new_session, offer,
    pong, reconnect, registered, said,
};

fn response(number: u128, fence: u64) -> Response<super::Body> {
    let answer = Some(json(7));
    let id = id(number);
    Response { id, fence, answer, error: None, terminal: false, retry_after_ms: None }
}

#[test]
fn nothing_is_said_before_the_greeting_is_answered() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.call(new_call(1, None), now);
    session.open();
    assert!(said(&mut session, now).is_empty());
    session.connected(now);
    assert!(matches!(&said(&mut session, now)[..], [Up::Init(_)]));
    session.hear(greeting(), now);
    assert!(matches!(&said(&mut session, now)[..], [Up::Request(_)]));
}

#[test]
fn a_call_is_said_until_it_is_registered_and_seldom_from_then_on() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.call(new_call(1, None), now);
    assert!(matches!(&said(&mut session, now)[..], [Up::Request(_)]));
    session.tick(now + 4999 * MS);
    let again = |frames: &[Up<_>]| frames.iter().filter(|up| matches!(up, Up::Request(_))).count();
    assert_eq!(again(&said(&mut session, now)), 0);
    session.tick(now + 5000 * MS);
    assert_eq!(again(&said(&mut session, now + 5000 * MS)), 1, "it is said again");
    session.hear(registered(1), now + 6000 * MS);
    session.tick(now + 35_999 * MS);
    assert_eq!(again(&said(&mut session, now + 35_999 * MS)), 0, "it is known");
    session.tick(now + 36_000 * MS);
    assert_eq!(again(&said(&mut session, now + 36_000 * MS)), 1, "but how it ended is not");
}

#[test]
fn a_registered_call_is_asked_for_again_over_every_new_connection_until_it_ends() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.call(new_call(1, None), now);
    said(&mut session, now);
    session.hear(registered(1), now);
    for _ in 0..3 {
        now = reconnect(&mut session, now);
        let frames = said(&mut session, now);
        assert!(matches!(&frames[..], [Up::Request(call)] if call.id == id(1)), "{frames:?}");
    }
    session.hear(ended(1, 2), now);
    assert!(matches!(
        &deeds(&mut session)[..],
        [Deed::Registered(_), Deed::Finish(_, Finish::Ended(_))]
            | [Deed::Finish(_, Finish::Ended(_))]
    ));
    now = reconnect(&mut session, now);
    let frames = said(&mut session, now);
    assert_eq!(frames, [Up::ResponseAck(Named { id: id(1) })], "its end is here");
    session.hear(Down::F(Named { id: id(1) }), now);
    now = reconnect(&mut session, now);
    assert!(said(&mut session, now).is_empty());
    assert!(session.is_settled());
}

#[test]
fn an_end_that_is_told_twice_is_told_once_and_acknowledged_twice() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.call(new_call(1, None), now);
    said(&mut session, now);
    for told in [1, 0] {
        session.hear(ended(1, 2), now);
        assert_eq!(deeds(&mut session).len(), told);
        assert_eq!(said(&mut session, now), [Up::ResponseAck(Named { id: id(1) })]);
    }
}

#[test]
fn a_refusal_ends_a_call_and_is_not_acknowledged() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    let refusal = |number| {
        let error = wire::CallError {
            name: "Refused".into(),
            message: "full".into(),
            code: "calls.full".into(),
        };
        let (id, error) = (id(number), Some(error));
        Down::E(wire::Ended { id, status: 1, answer: None, error, executor: None })
    };
    session.call(new_call(1, None), now);
    session.call(new_call(2, None), now);
    said(&mut session, now);
    session.cancel(id(2));
    said(&mut session, now);
    session.hear(refusal(1), now);
    session.hear(refusal(2), now);
    let told = deeds(&mut session);
    assert!(
        matches!(
            &told[..],
            [Deed::Finish(_, Finish::Ended(_)), Deed::Finish(_, Finish::Cancelled)]
        ),
        "{told:?}"
    );
    session.hear(ended(3, 1), now);
    session.hear(refusal(3), now);
    assert!(said(&mut session, now).is_empty());
    assert!(session.is_settled());
}

#[test]
fn an_acknowledgement_that_nobody_confirms_is_given_up() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.hear(ended(1, 2), now);
    let mut many = said(&mut session, now).len();
    for n in 0..600 {
        now += 1000 * MS;
        session.tick(now);
        many += said(&mut session, now).iter().filter(|up| !matches!(up, Up::Ping(_))).count();
        session.hear(pong(n + 1), now);
    }
    assert_eq!(many, 100);
    assert!(session.is_settled());
}

#[test]
fn what_is_left_of_a_calls_time_is_told_however_late_it_is_said() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.call(new_call(1, Some(10_000 * MS)), now);
    let later = now + 4000 * MS;
    let mut session = greeted(session, later);
    let frames = said(&mut session, later);
    assert!(matches!(&frames[..], [Up::Request(call)] if call.timeout_ms == Some(6000)));
}

#[test]
fn when_its_time_is_over_the_server_is_asked_once_more_and_then_nobody_waits() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.call(new_call(1, Some(500 * MS)), now);
    said(&mut session, now);
    session.hear(registered(1), now);
    deeds(&mut session);
    session.tick(now + 1500 * MS);
    let frames = said(&mut session, now + 1500 * MS);
    assert!(frames.iter().any(|up| matches!(up, Up::Request(_))), "{frames:?}");
    session.hear(pong(1), now + 1500 * MS);
    session.tick(now + 3500 * MS);
    let told = deeds(&mut session);
    let unanswered =
        |deed: &Deed| matches!(deed, Deed::Finish(_, Finish::Unanswered { sent: true }));
    assert!(told.iter().any(unanswered), "{told:?}");
}

#[test]
fn a_call_that_never_left_is_known_not_to_have_happened() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.call(new_call(1, Some(500 * MS)), now);
    session.call(new_call(2, None), now);
    session.cancel(id(2));
    session.tick(now + 1500 * MS);
    session.tick(now + 3500 * MS);
    let told = deeds(&mut session);
    assert!(
        matches!(
            &told[..],
            [
                Deed::Finish(_, Finish::Cancelled),
                Deed::Finish(_, Finish::Unanswered { sent: false })
            ]
        ),
        "{told:?}"
    );
}

#[test]
fn a_cancelled_call_is_never_asked_for_again() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.call(new_call(1, None), now);
    said(&mut session, now);
    session.cancel(id(1));
    assert_eq!(said(&mut session, now), [Up::Cancel(Named { id: id(1) })]);
    now = reconnect(&mut session, now);
    assert_eq!(said(&mut session, now), [Up::Cancel(Named { id: id(1) })]);
    session.hear(ended(1, 2), now);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Finish(..)]), "an answer may come first");
}

#[test]
fn what_is_larger_than_the_server_takes_is_not_sent() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    let mut large = new_call(1, None);
    large.params = super::to_raw_value(&"x".repeat(200)).unwrap();
    session.call(large, now);
    assert!(said(&mut session, now).is_empty());
    assert!(matches!(
        &deeds(&mut session)[..],
        [Deed::Finish(_, Finish::TooLarge { max: 100, .. })]
    ));

    session.hear(offer(2, 1), now);
    session.hear(held(2, 1, true), now);
    let mut answer = response(2, 1);
    answer.answer = Some(super::to_raw_value(&"x".repeat(200)).unwrap());
    session.respond(answer);
    let frames = said(&mut session, now);
    let Some(Up::Response(response)) = frames.last() else { panic!("{frames:?}") };
    let code = response.error.as_ref().map(|error| &*error.code);
    assert_eq!((code, response.terminal), (Some("answer_too_large"), true));
}

#[test]
fn a_handler_begins_once_its_acceptance_is_confirmed() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 2), now);
    session.hear(offer(1, 1), now);
    assert_eq!(said(&mut session, now), [Up::RequestAck(Fenced { id: id(1), fence: 1 })]);
    assert!(deeds(&mut session).is_empty(), "it may be somebody else's by now");
    now = reconnect(&mut session, now);
    session.hear(offer(1, 1), now);
    assert_eq!(said(&mut session, now), [Up::RequestAck(Fenced { id: id(1), fence: 1 })]);
    session.hear(held(1, 1, true), now);
    session.hear(held(1, 1, true), now);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Begin(_)]), "once");
    session.hear(offer(2, 1), now);
    session.hear(held(2, 1, false), now);
    assert!(deeds(&mut session).is_empty(), "it is somebody else's");
}

#[test]
fn a_call_that_is_offered_as_this_consumers_begins_at_once_and_is_kept_by_heartbeats() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    let Down::B(offered) = offer(7, 1) else { unreachable!() };
    session.hear(Down::B(Offer { held: true, ..offered }), now);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Begin(_)]));
    assert!(said(&mut session, now).is_empty(), "nobody waits for its acceptance");
    let now = now + 10_000 * MS;
    session.tick(now);
    let beats = said(&mut session, now);
    assert!(beats.iter().any(|frame| matches!(frame, Up::Heartbeat(_))), "{beats:?}");
    session.stop();
    let Down::B(offered) = offer(8, 2) else { unreachable!() };
    session.hear(Down::B(Offer { held: true, ..offered }), now);
    let begun = deeds(&mut session);
    assert!(begun.iter().any(|deed| matches!(deed, Deed::Begin(_))), "it is its to run: {begun:?}");
}

#[test]
fn a_call_that_is_this_consumers_and_finds_no_room_is_given_back() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    for n in 1..=3 {
        let Down::B(offered) = offer(n, 1) else { unreachable!() };
        session.hear(Down::B(Offer { held: true, ..offered }), now);
    }
    let begun = deeds(&mut session).iter().filter(|deed| matches!(deed, Deed::Begin(_))).count();
    let frames = said(&mut session, now);
    let given_back = |frame: &Up<serde_json::Value>| {
        matches!(frame, Up::Response(response) if response.id == id(3) && !response.terminal
            && response.error.as_ref().is_some_and(|error| &*error.code == "worker_busy"))
    };
    assert_eq!((begun, frames.iter().filter(|frame| given_back(frame)).count()), (2, 1));
}

#[test]
fn several_frames_are_one_message_once_the_server_reads_those() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.open();
    deeds(&mut session);
    session.connected(now);
    for n in 1..=3 {
        session.call(new_call(n, None), now);
    }
    let init = session.next_message(now).unwrap();
    assert!(init.starts_with(b"{\"init\""), "nothing else is said before the greeting");
    assert_eq!(session.next_message(now), None);
    session.hear(greeting(), now);
    let calls = session.next_message(now).unwrap();
    let calls: Vec<Up<serde_json::Value>> = serde_json::from_slice(&calls).unwrap();
    assert_eq!(calls.len(), 3);
    assert!(!session.has_frames());
    // One that does not is told one thing after the other.
    session.lost(now, 1.0);
    let now = now + 1000 * MS;
    session.tick(now);
    deeds(&mut session);
    session.connected(now);
    session.next_message(now).unwrap();
    session.hear(Down::A(Pong::default()), now);
    let messages: Vec<_> = std::iter::from_fn(|| session.next_message(now)).collect();
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|text| text.starts_with(b"{")));
}

#[test]
fn a_running_call_is_kept_by_heartbeats_and_said_first_over_a_new_connection() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    session.hear(offer(1, 1), now);
    session.hear(held(1, 1, true), now);
    deeds(&mut session);
    said(&mut session, now);
    let beat = Up::Heartbeat(Fenced { id: id(1), fence: 1 });
    for n in 1..=30 {
        now += 1000 * MS;
        session.tick(now);
        let frames = said(&mut session, now);
        assert_eq!(frames.contains(&beat), n % 10 == 0, "a third of the lease: {n} {frames:?}");
        session.hear(pong(n), now);
    }
    now = reconnect(&mut session, now);
    assert_eq!(said(&mut session, now), [beat]);
    session.hear(held(1, 1, false), now);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Abort(_, 1)]), "it was given away");
    session.respond(response(1, 1));
    assert!(said(&mut session, now).is_empty(), "nobody wants its result");
}

#[test]
fn a_result_is_said_until_it_is_stored() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    session.hear(offer(1, 3), now);
    session.hear(held(1, 3, true), now);
    session.respond(response(1, 3));
    for _ in 0..3 {
        let frames = said(&mut session, now);
        assert!(matches!(frames.last(), Some(Up::Response(one)) if one.fence == 3), "{frames:?}");
        now = reconnect(&mut session, now);
    }
    session.hear(Down::G(Taken { id: id(1), fence: 3, taken: true }), now);
    assert!(session.is_settled());
    now = reconnect(&mut session, now);
    assert!(said(&mut session, now).is_empty());
}

#[test]
fn two_offers_of_one_call_are_two_jobs() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 2), now);
    session.hear(offer(1, 1), now);
    session.hear(held(1, 1, true), now);
    session.hear(offer(1, 2), now);
    session.hear(held(1, 2, true), now);
    deeds(&mut session);
    session.hear(Down::Cancelled(Fenced { id: id(1), fence: 1 }), now);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Abort(_, 1)]));
    session.respond(response(1, 2));
    let frames = said(&mut session, now);
    assert!(matches!(frames.last(), Some(Up::Response(one)) if one.fence == 2), "{frames:?}");
}

#[test]
fn whoever_stops_takes_no_more_calls_and_finishes_what_runs() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 4), now);
    session.hear(offer(1, 1), now);
    session.hear(held(1, 1, true), now);
    session.hear(offer(2, 1), now);
    said(&mut session, now);
    session.stop();
    assert_eq!(said(&mut session, now), [Up::Stop(wire::Empty {})]);
    session.hear(offer(3, 1), now);
    session.hear(held(2, 1, true), now);
    assert!(said(&mut session, now).is_empty(), "what was not begun is not taken");

    session.lost(now, 0.0);
    now += 1000 * MS;
    session.tick(now);
    deeds(&mut session);
    session.connected(now);
    let greeting_of = said(&mut session, now);
    assert!(matches!(&greeting_of[..], [Up::Init(init)] if init.serves.is_empty()));
    session.hear(greeting(), now);
    let frames = said(&mut session, now);
    assert!(matches!(&frames[..], [Up::Stop(_), Up::Heartbeat(_)]), "{frames:?}");
    session.hear(Down::H(wire::Empty {}), now);
    session.respond(response(1, 1));
    assert!(!session.is_settled());
    session.hear(Down::G(Taken { id: id(1), fence: 1, taken: true }), now);
    assert!(session.is_settled());
}

#[test]
fn more_offers_than_twice_the_concurrency_are_passed_over() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 1), now);
    for number in 1..=5 {
        session.hear(offer(number, 1), now);
    }
    assert_eq!(said(&mut session, now).len(), 2);
}

#[test]
fn silence_makes_a_connection_suspect_and_then_dead() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.tick(now + 1000 * MS);
    assert!(matches!(&said(&mut session, now)[..], [Up::Ping(ping)] if ping.n == 1));
    session.tick(now + 2000 * MS);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Standing(Standing::Suspect)]));
    // What the server says by itself proves one way only.
    session.hear(ended(9, 9), now + 2500 * MS);
    session.tick(now + 3000 * MS);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Disconnect]));
    assert!(said(&mut session, now + 3000 * MS).is_empty());
}

#[test]
fn whatever_the_server_answers_proves_the_way_alive() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.tick(now + 1000 * MS);
    session.tick(now + 2000 * MS);
    session.hear(registered(7), now + 2500 * MS);
    let told = deeds(&mut session);
    assert!(matches!(
        &told[..],
        [Deed::Standing(Standing::Suspect), Deed::Standing(Standing::Good)]
    ));
    session.tick(now + 3400 * MS);
    assert!(deeds(&mut session).is_empty());
}

#[test]
fn a_socket_that_takes_nothing_is_as_dead_as_one_that_gives_nothing() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    // Nobody asks for frames.
    for n in 1..=3 {
        session.tick(now + n * 1000 * MS);
    }
    assert!(matches!(deeds(&mut session).last(), Some(Deed::Disconnect)));
}

#[test]
fn whoever_slept_listens_before_it_judges() {
    let now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    session.tick(now + 1000 * MS);
    said(&mut session, now + 1000 * MS);
    // A laptop was closed for an hour.
    let woke = now + 3_600_000 * MS;
    session.tick(woke);
    assert!(deeds(&mut session).is_empty());
    session.hear(pong(u64::MAX), woke + 10 * MS);
    session.tick(woke + 1000 * MS);
    assert!(matches!(session.link, Link::Live { suspect: false, .. }));
}

#[test]
fn the_servers_pace_counts() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.open();
    deeds(&mut session);
    session.connected(now);
    said(&mut session, now);
    let pong = super::Pong {
        n: 0,
        ping_interval_ms: Some(50),
        ping_timeout_ms: Some(0),
        body_bytes_max: None,
        many: false,
    };
    session.hear(Down::A(pong), now);
    session.tick(now + 50 * MS);
    assert!(matches!(said(&mut session, now).last(), Some(Up::Ping(_))));
    assert!(session.pace.ping_timeout >= 20 * MS, "nonsense is not obeyed");
}

#[test]
fn a_greeting_that_is_not_answered_is_no_connection() {
    let now = Instant::now();
    let mut session = new_session(1, 0);
    session.open();
    deeds(&mut session);
    session.connected(now);
    session.tick(now + 5000 * MS);
    assert!(matches!(&deeds(&mut session)[..], [Deed::Disconnect]));
}

#[test]
fn waits_between_connections_grow_and_end_with_a_good_one() {
    let mut now = Instant::now();
    let mut session = greeted(new_session(1, 0), now);
    let mut waits = Vec::new();
    for _ in 0..6 {
        session.lost(now, 1.0);
        let at = session.next_deadline().unwrap();
        waits.push((at - now).as_millis());
        now = at;
        session.tick(now);
        assert!(matches!(deeds(&mut session).last(), Some(Deed::Connect)));
    }
    assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    session.lost(now, 0.0);
    now = session.next_deadline().unwrap();
    session.tick(now);
    connect(&mut session, now);
    session.lost(now, 0.0);
    assert_eq!(session.next_deadline().unwrap() - now, 50 * MS, "half of it by chance");
}
