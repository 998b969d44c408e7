//! The sevent protocol through the real binary, octet by octet, by a client that shares no code
//! with the server: every message, every error, pipelining, options, broken frames, half-closed
//! and slow sessions.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{self, PATIENCE, Served};
use handoff_tests::sevent::{
    Message, Peer, Told, code, event, ids, message, names, option, varint, varstring,
};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

const FORMAT_ERROR: u8 = 1;
const INVALID_PROPERTY: u8 = 2;
const INTERNAL_ERROR: u8 = 3;
const EVENT_NOT_EXISTS: u8 = 4;
const WRONG_MESSAGE: u8 = 5;

const HOUR: f64 = 3600.0;

/// A server with a directory of its own.
struct Bench {
    served: Served,
    lair: Lair,
    _place: Place,
}

fn bench() -> Bench {
    bench_with(|lair| lair)
}

fn bench_with(change: impl Fn(Lair) -> Lair) -> Bench {
    let place = Place::temporary().unwrap();
    let lair = change(served::lair(place.path()).set("HANDOFF_SERVER__DISK_FREE_MIN", "1MiB"));
    let served = Served::start(&lair).unwrap();
    Bench { served, lair, _place: place }
}

impl Bench {
    fn peer(&self) -> Peer {
        Peer::connect(self.served.events, PATIENCE).unwrap()
    }
}

fn register(peer: &mut Peer, description: &str, period: f64, repeat: i32, types: &[&str]) -> i32 {
    let options = [(option::EVENT_TYPES, names(types))];
    let answer =
        peer.ask(code::REGISTER_EVENT, &options, &event(description, period, repeat)).unwrap();
    assert_eq!(answer.code, code::EVENT_REGISTRATION, "{answer:?}");
    answer.id().unwrap()
}

fn list(peer: &mut Peer, options: &[(u8, Vec<u8>)]) -> Vec<i32> {
    let answer = peer.ask(code::LIST_EVENTS, options, &[]).unwrap();
    assert_eq!(answer.code, code::LISTED_EVENTS, "{answer:?}");
    answer.ids().unwrap()
}

fn info(peer: &mut Peer, id: i32) -> Result<Told, (u8, u8)> {
    let answer = peer.ask(code::GET_EVENT, &[(option::EVENT_ID, varint(id))], &[]).unwrap();
    match answer.code {
        code::EVENT_INFO => Ok(answer.told().unwrap()),
        _ => answer.error().map(|(last, error, _)| Err((last, error))).unwrap(),
    }
}

fn refused(answer: &Message) -> (u8, u8) {
    let (last, error, words) = answer.error().unwrap_or_else(|| panic!("{answer:?}"));
    assert!(!words.is_empty(), "an error without words");
    (last, error)
}

fn filter(peer: &mut Peer) -> (Vec<i32>, Vec<String>) {
    let answer = peer.ask(code::GET_FILTER, &[], &[]).unwrap();
    assert_eq!((answer.code, answer.options.len()), (code::FILTER, 2), "{answer:?}");
    assert!(answer.body.is_empty());
    (answer.ids().unwrap(), answer.types().unwrap())
}

#[test]
fn every_answer_is_what_the_protocol_says_octet_by_octet() {
    let bench = bench();
    let mut peer = bench.peer();
    // RegisterEvent: description "a", 3600 s, −1, types x and y.
    let octets = [
        &[0x18, 0x02][..],
        &[0x04, 0x05, 0x02, 0x01, b'x', 0x01, b'y', 0x00],
        &[0x01, b'a'],
        &[0x40, 0xac, 0x20, 0, 0, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ]
    .concat();
    assert_eq!(usize::from(octets[0]), octets.len() - 1);
    peer.send(&octets).unwrap();
    let answer = peer.octets(14).unwrap();
    assert_eq!(answer[..6], [0x0d, 0x03, 0x01, 0x01, 0x00, 0x00]);
    let timestamp = answer[6..].to_vec();
    assert_eq!(timestamp.len(), 8);
    let seconds = i64::from_be_bytes(timestamp.clone().try_into().unwrap());
    assert!(seconds > 1_700_000_000, "{seconds}");

    // ListEvents → ListedEvents [0].
    peer.send(&[0x02, 0x04, 0x00]).unwrap();
    assert_eq!(peer.octets(6).unwrap(), [0x06, 0x05, 0x03, 0x02, 0x01, 0x00, 0x00]);
    // ListEvents of a type nobody has → an empty list.
    peer.send(&[0x05, 0x04, 0x02, 0x01, b'q', 0x00]).unwrap();
    assert_eq!(peer.octets(6).unwrap(), [0x05, 0x05, 0x03, 0x01, 0x00, 0x00]);
    // Subscribe to event 0 → FilterUpdated.
    peer.send(&[0x05, 0x08, 0x01, 0x01, 0x00, 0x00]).unwrap();
    assert_eq!(peer.octets(3).unwrap(), [0x02, 0x0a, 0x00]);
    // GetFilter → Filter with one EventIDs and one EventTypes.
    peer.send(&[0x02, 0x0b, 0x00]).unwrap();
    let expected = [0x09, 0x0c, 0x03, 0x02, 0x01, 0x00, 0x04, 0x01, 0x00, 0x00];
    assert_eq!(peer.octets(expected.len()).unwrap(), expected);
    // Unsubscribe → FilterUpdated.
    peer.send(&[0x05, 0x09, 0x01, 0x01, 0x00, 0x00]).unwrap();
    assert_eq!(peer.octets(3).unwrap(), [0x02, 0x0a, 0x00]);
    // GetEvent 0 → EventInfo.
    peer.send(&[0x05, 0x0d, 0x01, 0x01, 0x00, 0x00]).unwrap();
    let expected = [
        &[0x23, 0x0e, 0x01, 0x01, 0x00][..],
        &[0x04, 0x05, 0x02, 0x01, b'x', 0x01, b'y', 0x00],
        &[0x01, b'a'],
        &[0x40, 0xac, 0x20, 0, 0, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &timestamp,
    ]
    .concat();
    assert_eq!(usize::from(expected[0]), expected.len() - 1);
    assert_eq!(peer.octets(expected.len()).unwrap(), expected);
    // DeleteEvent 0 → DeletedEvents [0]; again → [].
    peer.send(&[0x05, 0x06, 0x01, 0x01, 0x00, 0x00]).unwrap();
    assert_eq!(peer.octets(7).unwrap(), [0x06, 0x07, 0x03, 0x02, 0x01, 0x00, 0x00]);
    peer.send(&[0x05, 0x06, 0x01, 0x01, 0x00, 0x00]).unwrap();
    assert_eq!(peer.octets(6).unwrap(), [0x05, 0x07, 0x03, 0x01, 0x00, 0x00]);
    // GetEvent 0 → Error: code 13, EventNotExists, words.
    peer.send(&[0x05, 0x0d, 0x01, 0x01, 0x00, 0x00]).unwrap();
    let answer = peer.octets(6).unwrap();
    assert_eq!(usize::from(answer[0]), answer.len() - 1);
    assert_eq!(answer[1..5], [0x01, 0x00, 0x0d, 0x04]);
}

#[test]
fn a_notification_tells_the_event_as_it_was_before() {
    let bench = bench();
    let mut peer = bench.peer();
    let answer = peer.ask(code::SUBSCRIBE, &[(option::EVENT_TYPE, b"tick".to_vec())], &[]).unwrap();
    assert_eq!(answer.code, code::FILTER_UPDATED);
    let id = register(&mut peer, "twice", 1.0, 2, &["tick", "tock"]);
    let first = peer.notification().unwrap();
    let last = peer.notification().unwrap();
    assert_eq!(first.options.iter().map(|(id, _)| *id).collect::<BTreeSet<u8>>(), [1, 4].into());
    let (first, last) = (first.told().unwrap(), last.told().unwrap());
    assert_eq!((first.id, first.repeat, first.period), (id, 2, 1.0));
    assert_eq!((last.id, last.repeat, &*last.description), (id, 1, "twice"));
    assert_eq!(first.types, ["tick", "tock"]);
    assert_eq!(last.timestamp, first.timestamp + 1, "the last update is the scheduled time");
    assert_eq!(info(&mut peer, id), Err((code::GET_EVENT, EVENT_NOT_EXISTS)));
    assert_eq!(list(&mut peer, &[]), [] as [i32; 0]);
}

#[test]
fn an_event_that_matches_by_id_and_by_types_is_told_once_and_leaves_the_filter_when_it_is_over() {
    let bench = bench();
    let mut peer = bench.peer();
    let id = register(&mut peer, "x", 0.5, 1, &["a", "b"]);
    let kept = register(&mut peer, "y", HOUR, -1, &["c"]);
    let options =
        [(option::EVENT_IDS, ids(&[id, kept])), (option::EVENT_TYPES, names(&["a", "b"]))];
    assert_eq!(peer.ask(code::SUBSCRIBE, &options, &[]).unwrap().code, code::FILTER_UPDATED);
    assert_eq!(peer.notification().unwrap().told().unwrap().id, id);
    let (left, types) = filter(&mut peer);
    assert_eq!((left, types), (vec![kept], vec!["a".to_owned(), "b".to_owned()]));
    assert!(peer.notified().is_empty());
    let deleted = peer.ask(code::DELETE_EVENT, &[(option::EVENT_ID, varint(kept))], &[]).unwrap();
    assert_eq!(deleted.ids().unwrap(), [kept]);
    assert_eq!(filter(&mut peer).0, [] as [i32; 0]);
}

#[test]
fn filters_change_as_a_whole_or_not_at_all() {
    let bench = bench();
    let mut peer = bench.peer();
    let id = register(&mut peer, "x", HOUR, -1, &[]);
    let by = |ids_: &[i32], types: &[&str]| {
        [(option::EVENT_IDS, ids(ids_)), (option::EVENT_TYPES, names(types))]
    };
    assert_eq!(peer.ask(code::FILTER, &by(&[id], &["a", "nobody"]), &[]).unwrap().code, 10);
    for code in [code::SUBSCRIBE, code::UNSUBSCRIBE, code::FILTER] {
        let answer = peer.ask(code, &by(&[id, 77], &["a", "z"]), &[]).unwrap();
        assert_eq!(refused(&answer), (code, EVENT_NOT_EXISTS));
        let negative = peer.ask(code, &by(&[-1], &["a"]), &[]).unwrap();
        assert_eq!(refused(&negative), (code, EVENT_NOT_EXISTS));
        assert_eq!(filter(&mut peer), (vec![id], vec!["a".to_owned(), "nobody".to_owned()]));
    }
    assert_eq!(peer.ask(code::UNSUBSCRIBE, &by(&[id], &["a", "never"]), &[]).unwrap().code, 10);
    assert_eq!(filter(&mut peer), (vec![], vec!["nobody".to_owned()]));
    assert_eq!(peer.ask(code::FILTER, &[], &[]).unwrap().code, code::FILTER_UPDATED);
    assert_eq!(filter(&mut peer), (vec![], vec![]));
}

#[test]
fn options_may_come_again_and_unknown_ones_are_skipped() {
    let bench = bench();
    let mut peer = bench.peer();
    let options = [
        (99, b"whatever".to_vec()),
        (option::EVENT_TYPE, b"b".to_vec()),
        (option::EVENT_TYPES, names(&["a", "b"])),
        (127, Vec::new()),
        (option::EVENT_TYPE, b"c".to_vec()),
        (option::EVENT_TYPES, names(&[])),
    ];
    let answer = peer.ask(code::REGISTER_EVENT, &options, &event("x", HOUR, -1)).unwrap();
    let id = answer.id().unwrap();
    assert_eq!(info(&mut peer, id).unwrap().types, ["a", "b", "c"]);
    let other = register(&mut peer, "y", HOUR, -1, &[]);
    // By type and by id, in any combination, each once, ascending.
    assert_eq!(list(&mut peer, &[(98, vec![1]), (option::EVENT_TYPE, b"c".to_vec())]), [id]);
    assert_eq!(list(&mut peer, &[(option::EVENT_TYPES, names(&[]))]), [] as [i32; 0]);
    assert_eq!(list(&mut peer, &[]), [id, other]);
    let options = [
        (option::EVENT_ID, varint(other)),
        (option::EVENT_IDS, ids(&[other, 1234, -5])),
        (option::EVENT_TYPE, b"a".to_vec()),
        (option::EVENT_ID, varint(id)),
    ];
    let deleted = peer.ask(code::DELETE_EVENT, &options, &[]).unwrap();
    assert_eq!((deleted.code, deleted.ids().unwrap()), (code::DELETED_EVENTS, vec![id, other]));
}

#[test]
fn properties_that_are_not_allowed_are_refused_and_take_no_id() {
    let bench = bench();
    let mut peer = bench.peer();
    let long = "x".repeat(70_000);
    let bad: [(&str, f64, i32); 9] = [
        ("x", -1.0, 1),
        ("x", -0.001, -1),
        ("x", f64::NAN, 1),
        ("x", f64::INFINITY, 1),
        ("x", 0.0, 1),
        ("x", 0.01, 1),
        ("x", 3.2e9, 1),
        ("x", 1.0, -2),
        (&long, 1.0, 1),
    ];
    for (description, period, repeat) in bad {
        let body = event(description, period, repeat);
        let answer = peer.ask(code::REGISTER_EVENT, &[], &body).unwrap();
        assert_eq!(refused(&answer), (code::REGISTER_EVENT, INVALID_PROPERTY), "{period} {repeat}");
    }
    assert_eq!(register(&mut peer, "first", HOUR, -1, &[]), 0);
    assert_eq!(register(&mut peer, "not at all", HOUR, 0, &[]), 1);
    assert_eq!(register(&mut peer, "third", 0.1, i32::MAX, &[]), 2);
    assert_eq!(list(&mut peer, &[]), [0, 2]);
}

#[test]
fn messages_that_cannot_be_decoded_are_told_and_the_session_goes_on() {
    let bench = bench();
    let mut peer = bench.peer();
    let register = code::REGISTER_EVENT;
    let whole = event("x", 1.0, 1);
    let malformed = [
        (register, message(register, &[], &[])),
        (register, message(register, &[], &whole[..whole.len() - 1])),
        (register, message(register, &[], &[&whole[..], &[0]].concat())),
        (register, message(register, &[], &[vec![2, 0xc3, 0x28], whole[2..].to_vec()].concat())),
        (register, message(register, &[(option::EVENT_TYPE, vec![0xff])], &whole)),
        (register, message(register, &[(option::EVENT_TYPES, vec![9])], &whole)),
        (register, message(register, &[(option::EVENT_TYPES, varint(-1))], &whole)),
        (code::LIST_EVENTS, message(code::LIST_EVENTS, &[], &[1])),
        (code::LIST_EVENTS, vec![1, code::LIST_EVENTS]),
        (code::LIST_EVENTS, vec![4, code::LIST_EVENTS, 2, 0x80, 0]),
        (code::LIST_EVENTS, vec![4, code::LIST_EVENTS, 2, 5, 0]),
        (code::LIST_EVENTS, vec![4, code::LIST_EVENTS, 200, 0, 0]),
        (code::DELETE_EVENT, message(code::DELETE_EVENT, &[(option::EVENT_ID, vec![])], &[])),
        (code::DELETE_EVENT, message(code::DELETE_EVENT, &[(option::EVENT_ID, vec![1, 1])], &[])),
        (code::DELETE_EVENT, message(code::DELETE_EVENT, &[(option::EVENT_IDS, vec![2, 1])], &[])),
        (code::GET_EVENT, message(code::GET_EVENT, &[], &[])),
        (
            code::GET_EVENT,
            message(
                code::GET_EVENT,
                &[(option::EVENT_ID, vec![0]), (option::EVENT_ID, vec![0])],
                &[],
            ),
        ),
        (code::GET_FILTER, message(code::GET_FILTER, &[], &[7, 7])),
    ];
    for (code, octets) in malformed {
        peer.send(&octets).unwrap();
        assert_eq!(refused(&peer.answer().unwrap()), (code, FORMAT_ERROR), "{octets:x?}");
    }
    for code in [0, 1, 3, 5, 7, 10, 14, 15, 16, 77, 127] {
        peer.send(&message(code, &[], &[])).unwrap();
        assert_eq!(refused(&peer.answer().unwrap()), (code, WRONG_MESSAGE), "{code}");
    }
    assert_eq!(list(&mut peer, &[]), [] as [i32; 0]);
}

#[test]
fn a_broken_frame_is_told_and_ends_the_session_and_no_other() {
    let bench = bench();
    let mut other = bench.peer();
    let broken: [&[u8]; 5] = [
        &[0x00],
        &[0x81, 0x80, 0x40, 0x04],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    for octets in broken {
        let mut peer = bench.peer();
        peer.send(octets).unwrap();
        let (_, error, words) = peer.answer().unwrap().error().unwrap();
        assert_eq!(error, FORMAT_ERROR, "{octets:x?}");
        assert!(!words.is_empty());
        assert_eq!(peer.message().unwrap(), None, "the session is closed");
    }
    assert_eq!(list(&mut other, &[]), [] as [i32; 0]);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let bench = bench();
    let mut peer = bench.peer();
    let mut octets = Vec::new();
    for number in 0..2_000 {
        octets.extend(message(code::REGISTER_EVENT, &[], &event(&number.to_string(), HOUR, -1)));
        octets.extend(message(code::GET_EVENT, &[(option::EVENT_ID, varint(number))], &[]));
        octets.extend(message(code::GET_FILTER, &[], &[]));
    }
    let mut sender = peer_stream(&bench);
    drop(sender.write_all(&[0x02])); // a session that never ends its message disturbs nobody
    let sending = std::thread::spawn({
        let mut stream = peer.try_clone().unwrap();
        move || stream.write_all(&octets)
    });
    for number in 0..2_000 {
        assert_eq!(peer.answer().unwrap().id(), Some(number));
        assert_eq!(peer.answer().unwrap().told().unwrap().description, number.to_string());
        assert_eq!(peer.answer().unwrap().code, code::FILTER);
    }
    sending.join().unwrap().unwrap();
}

fn peer_stream(bench: &Bench) -> TcpStream {
    TcpStream::connect(bench.served.events).unwrap()
}

#[test]
fn a_session_that_closes_its_half_still_gets_every_answer() {
    let bench = bench();
    let mut peer = bench.peer();
    let mut octets = Vec::new();
    for _ in 0..300 {
        octets.extend(message(code::REGISTER_EVENT, &[], &event("x", HOUR, -1)));
    }
    peer.send(&octets).unwrap();
    peer.half_close().unwrap();
    for number in 0..300 {
        assert_eq!(peer.answer().unwrap().id(), Some(number));
    }
    assert_eq!(peer.message().unwrap(), None);
}

#[test]
fn octets_may_come_one_by_one() {
    let bench = bench();
    let mut peer = bench.peer();
    let octets = [
        message(code::REGISTER_EVENT, &[(option::EVENT_TYPE, b"a".to_vec())], &event("ü", 1.5, 3)),
        message(code::GET_EVENT, &[(option::EVENT_ID, varint(0))], &[]),
    ]
    .concat();
    for octet in octets {
        peer.send(&[octet]).unwrap();
    }
    assert_eq!(peer.answer().unwrap().id(), Some(0));
    let told = peer.answer().unwrap().told().unwrap();
    assert_eq!((&*told.description, told.period, told.repeat), ("ü", 1.5, 3));
}

#[test]
fn a_session_that_does_not_read_is_closed_and_delays_nobody() {
    let bench = bench();
    let (mut reader, mut deaf) = (bench.peer(), bench.peer());
    let select = [(option::EVENT_TYPE, b"loud".to_vec())];
    for peer in [&mut reader, &mut deaf] {
        assert_eq!(peer.ask(code::SUBSCRIBE, &select, &[]).unwrap().code, code::FILTER_UPDATED);
    }
    let long = "x".repeat(60_000);
    for _ in 0..30 {
        register(&mut reader, &long, 0.1, -1, &["loud"]);
    }
    // The reader reads; the deaf session's socket fills up, then its queue, then it is closed.
    let closed = "handoff_events_slow_sessions_total 1";
    let mut heard = 0;
    while !metrics(&bench).contains(closed) {
        for _ in 0..30 {
            assert!(reader.notification().unwrap().told().is_some());
            heard += 1;
        }
        assert!(heard < 100_000, "the deaf session is never closed");
    }
    assert!(reader.notification().unwrap().told().is_some());
}

fn metrics(bench: &Bench) -> String {
    get(bench, "/metrics")
}

fn get(bench: &Bench, path: &str) -> String {
    let mut stream = TcpStream::connect(bench.served.http).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn events_and_their_ids_survive_a_restart() {
    let mut bench = bench();
    let mut peer = bench.peer();
    let id = register(&mut peer, "kept", HOUR, 5, &["a"]);
    let before = info(&mut peer, id).unwrap();
    let gone = register(&mut peer, "deleted", HOUR, 5, &["a"]);
    peer.ask(code::DELETE_EVENT, &[(option::EVENT_ID, varint(gone))], &[]).unwrap();
    bench.served.stop().unwrap();
    bench.served = Served::start(&bench.lair).unwrap();
    let mut peer = bench.peer();
    assert_eq!(list(&mut peer, &[]), [id]);
    assert_eq!(info(&mut peer, id), Ok(before));
    assert_eq!(register(&mut peer, "next", HOUR, -1, &[]), gone + 1);
}

/// Restarts a server under a policy while a counted event is due many times over; gives the
/// counters that are told late, and what is left.
fn catch_up(policy: &'static str) -> (Vec<i32>, i32) {
    let bench = bench();
    let mut peer = bench.peer();
    let id = register(&mut peer, "missed", 0.1, 1_000_000, &["m"]);
    let left = info(&mut peer, id).unwrap().repeat;
    bench.served.stop().unwrap();
    // The server is down until occurrences were missed: its own clock tells, nobody sleeps.
    let mut told = Vec::new();
    let mut now = left;
    while now > left - 20 {
        let lair = bench.lair.clone().set("HANDOFF_EVENTS__CATCH_UP", policy);
        let served = Served::start(&lair).unwrap();
        let mut peer = Peer::connect(served.events, PATIENCE).unwrap();
        // What is held is given before anything new: a filter that matches asks for it.
        let options = [(option::EVENT_TYPE, b"m".to_vec())];
        assert_eq!(peer.ask(code::SUBSCRIBE, &options, &[]).unwrap().code, 10);
        now = info(&mut peer, id).unwrap().repeat;
        told.extend(peer.notified().iter().map(|message| message.told().unwrap().repeat));
        drop(peer);
        served.stop().unwrap();
    }
    (told, now)
}

#[test]
fn missed_occurrences_are_counted_under_every_policy_and_told_in_order() {
    for policy in ["skip", "once", "all"] {
        let (told, now) = catch_up(policy);
        assert!(now < 1_000_000, "{policy}: nothing was counted");
        assert!(policy == "skip" || !told.is_empty(), "{policy}: nothing was told");
        assert!(told.is_sorted_by(|a, b| a > b), "{policy}: {told:?}");
    }
}

#[test]
fn without_space_new_events_are_refused_and_deletions_go_on() {
    let mut bench = bench();
    let id = register(&mut bench.peer(), "x", HOUR, -1, &[]);
    bench.served.stop().unwrap();
    let lair = bench.lair.clone().set("HANDOFF_SERVER__DISK_FREE_MIN", "1024TiB");
    bench.served = Served::start(&lair).unwrap();
    let mut peer = bench.peer();
    let answer = peer.ask(code::REGISTER_EVENT, &[], &event("y", HOUR, -1)).unwrap();
    assert_eq!(refused(&answer), (code::REGISTER_EVENT, INTERNAL_ERROR));
    let deleted = peer.ask(code::DELETE_EVENT, &[(option::EVENT_ID, varint(id))], &[]).unwrap();
    assert_eq!(deleted.ids().unwrap(), [id]);
}

/// Every start takes a fresh file of the journal's ring, and short lives took no checkpoint: after
/// as many of them as there are files no server became ready any more.
#[test]
fn servers_that_live_shortly_never_use_up_the_journal() {
    let place = Place::temporary().unwrap();
    let lair = served::lair(place.path())
        .set("HANDOFF_SERVER__DISK_FREE_MIN", "1MiB")
        .set("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB")
        .set("HANDOFF_LOG__JOURNAL_BYTES_MAX", "8MiB")
        .set("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "1MiB")
        .set("HANDOFF_LOG__CHANGE_BYTES_MAX", "1MiB");
    for life in 0..24 {
        let mut served = Served::start(&lair).unwrap();
        let mut peer = Peer::connect(served.events, PATIENCE).unwrap();
        // New events may have to wait until a checkpoint has freed a file.
        let taken = (0..10_000).find_map(|_| {
            let answer = peer.ask(code::REGISTER_EVENT, &[], &event("x", HOUR, -1)).unwrap();
            answer.id()
        });
        assert_eq!(taken, Some(life));
        served.prey.kill().unwrap();
        served.prey.ended().unwrap();
    }
}

#[test]
fn a_session_whose_token_is_revoked_does_and_hears_nothing_more() {
    let token = "bootstrap-token-of-this-test";
    let bench = bench_with(|lair| {
        let file = lair.talk.with_file_name("token");
        std::fs::write(&file, token).unwrap();
        lair.set("HANDOFF_AUTH__ENABLED", "true")
            .set("HANDOFF_AUTH__BOOTSTRAP_TOKEN_FILE", file.to_str().unwrap())
    });
    let ask = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(bench.served.http).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: \
             close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<serde_json::Value>(body).unwrap()
    };
    let made = ask("POST", "/v1/tokens", r#"{"version":1,"name":"leaked","scopes":["events"]}"#);
    let (id, leaked) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let mut peer = bench.peer();
    assert_eq!(list(&mut peer, &[(option::TOKEN, leaked.as_bytes().to_vec())]), [] as [i32; 0]);
    ask("DELETE", &format!("/v1/tokens/{id}"), "");
    let answer = peer.ask(code::REGISTER_EVENT, &[], &event("x", HOUR, -1)).unwrap();
    assert_eq!(refused(&answer), (code::REGISTER_EVENT, INVALID_PROPERTY));
    assert_eq!(peer.message().unwrap(), None, "the session is closed");
}

#[test]
fn with_tokens_on_a_session_begins_with_one() {
    let token = "bootstrap-token-of-this-test";
    let bench = bench_with(|lair| {
        let file = lair.talk.with_file_name("token");
        std::fs::write(&file, token).unwrap();
        lair.set("HANDOFF_AUTH__ENABLED", "true")
            .set("HANDOFF_AUTH__BOOTSTRAP_TOKEN_FILE", file.to_str().unwrap())
    });
    for bad in [None, Some("not-the-token-of-this-test")] {
        let mut peer = bench.peer();
        let options: Vec<_> =
            bad.map(|text| (option::TOKEN, text.as_bytes().to_vec())).into_iter().collect();
        let answer = peer.ask(code::LIST_EVENTS, &options, &[]).unwrap();
        assert_eq!(refused(&answer), (code::LIST_EVENTS, INVALID_PROPERTY));
        assert_eq!(peer.message().unwrap(), None, "the session is closed");
    }
    let mut peer = bench.peer();
    assert_eq!(list(&mut peer, &[(option::TOKEN, token.as_bytes().to_vec())]), [] as [i32; 0]);
    assert_eq!(register(&mut peer, "x", HOUR, -1, &[]), 0, "one token is enough");
}

#[test]
fn a_long_description_of_many_octets_comes_back_as_it_was() {
    let bench = bench();
    let mut peer = bench.peer();
    let long = "день ".repeat(7_000);
    let id = register(&mut peer, &long, HOUR, -1, &["ключ"]);
    let told = info(&mut peer, id).unwrap();
    assert_eq!((told.description, told.types), (long, vec!["ключ".to_owned()]));
    assert_eq!(varstring("ключ").len(), 9);
}
