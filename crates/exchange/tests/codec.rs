//! What the room writes it reads back, and nothing else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use bytes::Bytes;
use handoff_exchange::{
    Aggregate, Change, Code, Company, CompanyNo, Counters, Database, DatabaseNo, Device, DeviceNo,
    EntityId, Happened, Key, Kind, LogEntry, Message, MessageId, Phase, Place, Prepared, Process,
    ProcessId, Route, Seq, Served, Standing, State, Status, Subsystem, SubsystemNo, Way,
    decode_aggregate, decode_change, encode_aggregate, encode_change,
};
use handoff_types::{Span, Steady, Wall};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn entity() -> impl Strategy<Value = EntityId> {
    "[A-Za-z0-9-]{1,16}".prop_map(|text| text.parse().unwrap())
}

fn message_id() -> impl Strategy<Value = MessageId> {
    "[A-Za-z0-9-]{1,36}".prop_map(|text| text.parse().unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    "[A-Za-z0-9_-]{1,24}".prop_map(|text| text.parse().unwrap())
}

fn words() -> impl Strategy<Value = Box<str>> {
    ".{0,20}".prop_map(Box::from)
}

fn wall() -> impl Strategy<Value = Wall> {
    any::<i64>().prop_map(Wall)
}

fn steady() -> impl Strategy<Value = Steady> {
    any::<u64>().prop_map(Steady)
}

fn place() -> impl Strategy<Value = Place> {
    select(vec![Place::Messages, Place::Prepared, Place::Log, Place::Unknown, Place::Error])
}

fn phase() -> impl Strategy<Value = Phase> {
    select(vec![
        Phase::Started,
        Phase::Ready,
        Phase::Cleanup,
        Phase::Failed,
        Phase::Done,
        Phase::RolledBack,
        Phase::Interrupted,
        Phase::Expired,
        Phase::Unknown,
        Phase::Resolved { committed: false },
        Phase::Resolved { committed: true },
    ])
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        Just(Standing::Free),
        steady().prop_map(Standing::Late),
        any::<u64>().prop_map(Standing::Served),
        words().prop_map(|words| Standing::Aside(words.into())),
    ]
}

fn counters() -> impl Strategy<Value = Counters> {
    let all = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
    all.prop_map(|(seq, process, log, entity)| Counters { seq, process, log, entity })
}

fn company() -> impl Strategy<Value = Company> {
    (any::<u32>(), entity(), words(), wall()).prop_map(|(no, id, name, created)| Company {
        no: CompanyNo(no),
        id,
        name,
        created,
    })
}

fn subsystem() -> impl Strategy<Value = Subsystem> {
    (any::<u32>(), entity(), words(), wall()).prop_map(|(no, id, name, created)| Subsystem {
        no: SubsystemNo(no),
        id,
        name,
        created,
    })
}

fn database() -> impl Strategy<Value = Database> {
    let all = (any::<u32>(), entity(), any::<u32>(), words(), of(any::<[u8; 32]>()), wall());
    all.prop_map(|(no, id, company, name, token, created)| Database {
        no: DatabaseNo(no),
        id,
        company: CompanyNo(company),
        name,
        token,
        created,
    })
}

fn device() -> impl Strategy<Value = Device> {
    let code = (any::<[u8; 32]>(), wall()).prop_map(|(digest, expires)| Code { digest, expires });
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    let secrets = (of(any::<[u8; 32]>()), of(code));
    (numbers, entity(), words(), secrets, any::<bool>(), wall()).prop_map(
        |((no, company, subsystem), id, name, (token, code), blocked, created)| Device {
            no: DeviceNo(no),
            id,
            company: CompanyNo(company),
            subsystem: SubsystemNo(subsystem),
            name,
            token,
            code,
            blocked,
            created,
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    any::<(u32, u32, u32)>().prop_map(|(company, subsystem, database)| Route {
        company: CompanyNo(company),
        subsystem: SubsystemNo(subsystem),
        database: DatabaseNo(database),
    })
}

fn message() -> impl Strategy<Value = Message> {
    let who = (message_id(), any::<bool>(), any::<(u32, u32, u32)>(), of(kind()));
    let what = (wall(), wall(), any::<bool>(), any::<(u32, u32, u64)>());
    let now = (any::<(u16, u16)>(), place(), wall(), standing());
    (who, what, now).prop_map(|(who, what, now)| Message {
        id: who.0,
        way: if who.1 { Way::ToErp } else { Way::ToDevice },
        database: DatabaseNo(who.2.0),
        device: DeviceNo(who.2.1),
        subsystem: SubsystemNo(who.2.2),
        kind: who.3,
        created: what.0,
        received: what.1,
        by_created: what.2,
        bytes: what.3.0,
        crc: what.3.1,
        digest: what.3.2,
        attempts: now.0.0,
        silences: now.0.1,
        place: now.1,
        since: now.2,
        standing: now.3,
    })
}

fn served() -> impl Strategy<Value = Vec<Served>> {
    let status = select(vec![
        None,
        Some(Status::Processed),
        Some(Status::Deadlock),
        Some(Status::Incorrect),
    ]);
    let one = (any::<u64>(), status, of(words()));
    vec(one.prop_map(|(seq, status, error)| Served { seq: Seq(seq), status, error }), 0..5)
}

fn prepared() -> impl Strategy<Value = Vec<Prepared>> {
    let one = any::<(u64, bool)>();
    vec(one.prop_map(|(seq, notice)| Prepared { seq: Seq(seq), notice }), 0..5)
}

fn process_id() -> impl Strategy<Value = ProcessId> {
    any::<(u64, u64)>().prop_map(|(number, nonce)| ProcessId { number, nonce })
}

fn process() -> impl Strategy<Value = Process> {
    let who = (process_id(), any::<u32>(), phase());
    let times = (wall(), steady(), any::<u64>(), of(wall()), of(wall()));
    let what = (of(words()), served(), prepared(), any::<u64>());
    let end = (of(words()), any::<bool>(), any::<bool>());
    (who, times, what, end).prop_map(|(who, times, what, end)| Process {
        id: who.0,
        database: DatabaseNo(who.1),
        phase: who.2,
        started: times.0,
        deadline: times.1,
        lease: Span(times.2),
        request_key: what.0,
        to_erp: what.1,
        from_erp: what.2,
        digest: what.3,
        ready: times.3,
        ended: times.4,
        words: end.0,
        settled: end.1,
        contradicted: end.2,
    })
}

fn entry() -> impl Strategy<Value = LogEntry> {
    let message = (any::<u64>().prop_map(Seq), message_id());
    let who = (any::<u32>(), select(Happened::ALL.to_vec()), of(process_id()), of(message));
    (any::<u64>(), wall(), who, of(any::<i64>()), words()).prop_map(
        |(number, at, (database, what, process, message), code, words)| LogEntry {
            number,
            at,
            database: DatabaseNo(database),
            what,
            process,
            message,
            code,
            words,
        },
    )
}

fn entity_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        counters().prop_map(Change::Counted),
        company().prop_map(Change::Company),
        any::<u32>().prop_map(|no| Change::CompanyGone(CompanyNo(no))),
        subsystem().prop_map(Change::Subsystem),
        any::<u32>().prop_map(|no| Change::SubsystemGone(SubsystemNo(no))),
        database().prop_map(Change::Database),
        any::<u32>().prop_map(|no| Change::DatabaseGone(DatabaseNo(no))),
        device().prop_map(Change::Device),
        any::<u32>().prop_map(|no| Change::DeviceGone(DeviceNo(no))),
        route().prop_map(Change::Route),
        any::<(u32, u32)>()
            .prop_map(|(one, other)| Change::RouteGone(CompanyNo(one), SubsystemNo(other))),
    ]
}

fn message_change() -> impl Strategy<Value = Change> {
    let accepted = (any::<u64>(), message()).prop_map(|(seq, message)| Change::Accepted {
        seq: Seq(seq),
        message: Box::new(message),
        body: Bytes::new(),
    });
    let placed = (any::<u64>(), place(), wall(), standing(), any::<(u16, u16)>()).prop_map(
        |(seq, place, since, standing, (attempts, silences))| Change::Placed {
            seq: Seq(seq),
            place,
            since,
            standing,
            attempts,
            silences,
        },
    );
    prop_oneof![
        accepted,
        placed,
        any::<u64>().prop_map(|seq| Change::Forgotten(Seq(seq))),
        entry().prop_map(Change::Logged),
    ]
}

fn process_change() -> impl Strategy<Value = Change> {
    let narrowed = (any::<u64>(), served(), any::<bool>())
        .prop_map(|(number, to_erp, keyed)| Change::Narrowed { number, to_erp, keyed });
    let extended = (any::<u64>(), steady())
        .prop_map(|(number, deadline)| Change::Extended { number, deadline });
    let times = (wall(), steady(), any::<u64>());
    let ready = (any::<u64>(), served(), prepared(), any::<u64>(), times).prop_map(
        |(number, to_erp, from_erp, digest, (ready, deadline, lease))| Change::Ready {
            number,
            to_erp,
            from_erp,
            digest,
            ready,
            deadline,
            lease: Span(lease),
        },
    );
    let turned = (any::<u64>(), phase(), of(wall()), of(words()), any::<bool>()).prop_map(
        |(number, phase, ended, words, settled)| Change::Turned {
            number,
            phase,
            ended,
            words,
            settled,
        },
    );
    prop_oneof![
        process().prop_map(|process| Change::Begun(Box::new(process))),
        narrowed,
        extended,
        ready,
        turned,
        any::<u64>().prop_map(Change::Contradicted),
        any::<u64>().prop_map(Change::ProcessForgotten),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![entity_change(), message_change(), process_change()]
}

fn aggregate() -> impl Strategy<Value = Aggregate> {
    prop_oneof![
        counters().prop_map(Aggregate::Counters),
        company().prop_map(Aggregate::Company),
        subsystem().prop_map(Aggregate::Subsystem),
        database().prop_map(Aggregate::Database),
        device().prop_map(Aggregate::Device),
        route().prop_map(Aggregate::Route),
        (any::<u64>(), message())
            .prop_map(|(seq, message)| Aggregate::Message(Seq(seq), Box::new(message))),
        process().prop_map(|process| Aggregate::Process(Box::new(process))),
        entry().prop_map(Aggregate::Log),
    ]
}

proptest! {
    #[test]
    fn every_change_reads_back_and_says_where_it_ends(change in change(), behind in vec(any::<u8>(), 0..4)) {
        let mut bytes = Vec::new();
        encode_change(&change, &mut bytes);
        let end = bytes.len();
        bytes.extend(&behind);
        prop_assert_eq!(decode_change(&bytes), Ok((change, &behind[..])));
        for cut in 0..end {
            prop_assert!(decode_change(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn every_aggregate_reads_back_and_says_where_it_ends(aggregate in aggregate(), behind in vec(any::<u8>(), 0..4)) {
        let mut bytes = Vec::new();
        encode_aggregate(&aggregate, &mut bytes);
        let end = bytes.len();
        bytes.extend(&behind);
        prop_assert_eq!(decode_aggregate(&bytes), Ok((aggregate, &behind[..])));
        for cut in 0..end {
            prop_assert!(decode_aggregate(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn whatever_else_is_read_is_written_the_same(bytes in vec(any::<u8>(), 0..80), kind in 0u8..24) {
        let mut bytes = bytes;
        bytes.insert(0, kind);
        if let Ok((change, rest)) = decode_change(&bytes) {
            let mut again = Vec::new();
            encode_change(&change, &mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
        }
        if let Ok((aggregate, rest)) = decode_aggregate(&bytes) {
            let mut again = Vec::new();
            encode_aggregate(&aggregate, &mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
        }
    }

    #[test]
    fn a_state_of_any_aggregates_is_taken_apart_and_put_together_again(
        aggregates in vec(aggregate(), 0..30),
    ) {
        let mut state = State::default();
        aggregates.iter().for_each(|one| state.put(one.clone()));
        // And once more, over what is there.
        aggregates.iter().for_each(|one| state.put(one.clone()));
        let keys: Vec<Key> = state.keys_from(&Key::Counters).collect();
        prop_assert!(keys.is_sorted());
        let mut again = State::default();
        for key in &keys {
            prop_assert_eq!(state.keys_from(key).next(), Some(*key));
            let mut bytes = Vec::new();
            encode_aggregate(&state.aggregate(key).unwrap(), &mut bytes);
            again.put(decode_aggregate(&bytes).unwrap().0);
        }
        prop_assert_eq!(state, again);
    }

    #[test]
    fn a_flipped_bit_is_refused_or_read_as_something_else_and_never_a_panic(
        change in change(), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut bytes = Vec::new();
        encode_change(&change, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok((read, _)) = decode_change(&bytes) {
            prop_assert_ne!(read, change);
        }
    }
}

/// A list of so many that memory would end before it is found out that they are not there.
#[test]
fn a_list_longer_than_what_is_left_is_refused_before_anything_is_set_aside_for_it() {
    for (kind, rest) in [(16, &[7][..]), (18, &[7]), (18, &[7, 0])] {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(rest);
        bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        bytes.extend_from_slice(&[0; 64]);
        assert_eq!(decode_change(&bytes).unwrap_err().0, "the bytes end too early");
    }
}

/// Stored bytes of an earlier version must be read for ever. A change of these is a change of format.
#[test]
fn changes_are_written_as_they_always_were() {
    let hex = |change: &Change| {
        let mut bytes = Vec::new();
        encode_change(change, &mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let message = Message {
        id: "a1".parse().unwrap(),
        way: Way::ToDevice,
        database: DatabaseNo(3),
        device: DeviceNo(300),
        subsystem: SubsystemNo(2),
        kind: Some("ORDER".parse().unwrap()),
        created: Wall(-1),
        received: Wall(64),
        by_created: true,
        bytes: 5,
        crc: 0x0102_0304,
        digest: 9,
        attempts: 1,
        silences: 0,
        place: Place::Error,
        since: Wall(1),
        standing: Standing::Aside("no".into()),
    };
    let accepted =
        Change::Accepted { seq: Seq(7), message: Box::new(message), body: Bytes::from("body") };
    assert_eq!(
        hex(&accepted),
        "0c0702613101_03_ac02_02_01054f52444552_01_8001_01_05_04030201_0900000000000000_01_00_04_02_03026e6f"
            .replace('_', "")
    );
    let turned = Change::Turned {
        number: 1,
        phase: Phase::Resolved { committed: true },
        ended: Some(Wall(2)),
        words: None,
        settled: true,
    };
    assert_eq!(hex(&turned), "13010a01040001");
}
