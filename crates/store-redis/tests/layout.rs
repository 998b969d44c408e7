//! The eight events in three layouts: bytes as the peers' own documents show them, and back.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use bytes::Bytes;
use handoff_store_redis::layout::{Digit, Ended, Event, Id, Layout, NoEvent, Work};
use proptest::prelude::*;

const NODE: &str = "98206706-632c-469b-9064-39ae8a4610b4";
const REQUEST: &str = "6ba04b7c-705f-4f86-9d77-a822d11acdb1";
const SENDER: &str = "6a39ba8a-0400-4d55-b13e-a99b0e966bab";
const EXECUTOR: &str = "f6c68e02-5d84-40f2-8e4d-cf867b43bf7f";

const EVERY: [Layout; 3] = [Layout::Seed, Layout::Early, Layout::Swapped];

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn work(params: &'static str) -> Work {
    Work { sender: id(SENDER), params: Bytes::from_static(params.as_bytes()) }
}

fn ended(digit: Digit, answer: &'static str) -> Ended {
    let executor = (digit != Digit::Timeout).then(|| id(EXECUTOR));
    Ended { digit, executor, answer: Bytes::from_static(answer.as_bytes()) }
}

/// Compares the bytes in the three layouts, in their order.
fn check(event: &Event, channel: &str, messages: [&str; 3]) {
    assert_eq!(event.channel(&id(NODE)), channel);
    for (layout, message) in EVERY.into_iter().zip(messages) {
        let bytes = event.message(layout);
        assert_eq!(String::from_utf8(bytes).unwrap(), message, "{layout:?} {event:?}");
    }
}

#[test]
fn a_and_h_are_a_one_in_every_layout() {
    check(&Event::Pong, &format!("origami.a{NODE}"), ["1"; 3]);
    check(&Event::Stopped, &format!("origami.h{NODE}"), ["1"; 3]);
}

#[test]
fn c_and_g_are_the_request_in_every_layout() {
    check(&Event::Registered { request: id(REQUEST) }, &format!("origami.c{NODE}"), [REQUEST; 3]);
    check(&Event::Stored { request: id(REQUEST) }, &format!("origami.g{NODE}"), [REQUEST; 3]);
}

#[test]
fn b_carries_the_work_until_1_1() {
    let event = Event::Offered {
        request: id(REQUEST),
        channel: "channel_subchannel".to_owned(),
        work: Some(work(r#"{"param":"value"}"#)),
    };
    let full = format!(r#"{REQUEST}{SENDER}{{"param":"value"}}"#);
    check(&event, &format!("origami.b{NODE}channel_subchannel"), [&full, &full, REQUEST]);
}

#[test]
fn d_carries_the_work_from_1_1_on() {
    let granted = Event::Accepted { request: id(REQUEST), granted: true, work: Some(work("null")) };
    let (flag, full) = (format!("1{REQUEST}"), format!("1{REQUEST}{SENDER}null"));
    check(&granted, &format!("origami.d{NODE}"), [&flag, &flag, &full]);
    let refused = Event::Accepted { request: id(REQUEST), granted: false, work: None };
    let flag = format!("0{REQUEST}");
    check(&refused, &format!("origami.d{NODE}"), [&flag, &flag, &flag]);
}

#[test]
fn e_carries_the_answer_until_1_1_and_names_the_executor_in_1_0() {
    for (digit, letter) in [(Digit::Answer, '0'), (Digit::Error, '1')] {
        let end = Some(ended(digit, r#"{"response":"value"}"#));
        let event = Event::Ended { request: id(REQUEST), ended: end };
        let seed = format!(r#"{letter}{REQUEST}{{"response":"value"}}"#);
        let early = format!(r#"{letter}{REQUEST}{EXECUTOR}{{"response":"value"}}"#);
        check(&event, &format!("origami.e{NODE}"), [&seed, &early, REQUEST]);
    }
}

#[test]
fn f_carries_the_answer_and_the_executor_from_1_1_on() {
    let end = Some(ended(Digit::Answer, "[1]"));
    let event = Event::Settled { request: id(REQUEST), ended: end };
    let full = format!("0{REQUEST}{EXECUTOR}[1]");
    check(&event, &format!("origami.f{NODE}"), [REQUEST, REQUEST, &full]);
}

#[test]
fn a_timeout_has_neither_executor_nor_answer() {
    let end = Some(ended(Digit::Timeout, ""));
    let short = format!("2{REQUEST}");
    let event = Event::Ended { request: id(REQUEST), ended: end.clone() };
    check(&event, &format!("origami.e{NODE}"), [&short, &short, REQUEST]);
    let event = Event::Settled { request: id(REQUEST), ended: end };
    check(&event, &format!("origami.f{NODE}"), [REQUEST, REQUEST, &short]);
}

#[test]
fn an_error_of_nobody_keeps_the_place_of_the_executor() {
    let nobody = Ended { executor: None, ..ended(Digit::Error, "{}") };
    let event = Event::Settled { request: id(REQUEST), ended: Some(nobody) };
    let bytes = Bytes::from(event.message(Layout::Swapped));
    assert_eq!(&bytes[37..73], b"00000000-0000-0000-0000-000000000000");
    assert_eq!(Event::read(&event.channel(&id(NODE)), &bytes).unwrap().1, event);
}

#[test]
fn the_layout_follows_from_program_and_version() {
    for (client, version, layout) in [
        ("NodeJS", "1.0.0", Layout::Early),
        ("NodeJS", "1.0.3", Layout::Early),
        ("NodeJS", "0.9", Layout::Early),
        ("NodeJS", "1.1.0", Layout::Swapped),
        ("NodeJS", "1.10.0", Layout::Swapped),
        ("NodeJS", "2.0.0", Layout::Swapped),
        ("NodeJS", "none", Layout::Swapped),
        ("NodeJS", "", Layout::Swapped),
        ("Handoff", "1.0.0", Layout::Seed),
        ("", "1.0.0", Layout::Seed),
    ] {
        assert_eq!(Layout::of(client, version), layout, "{client} {version}");
    }
}

#[test]
fn what_is_no_event_is_refused() {
    let message = |text: &str| Bytes::from(text.to_owned());
    for channel in [
        String::new(),
        "origami".to_owned(),
        "origami.a".to_owned(),
        format!("origami.i{NODE}"),
        format!("origami.A{NODE}"),
        format!("origami.a{NODE}more"),
        format!("other.a{NODE}"),
        "origami.bé".repeat(9),
    ] {
        let read = Event::read(&channel, &message("1"));
        assert!(matches!(read, Err(NoEvent::Channel(_))), "{channel}: {read:?}");
    }
    for (kind, text) in [
        ('b', ""),
        ('b', &REQUEST[1..]),
        ('b', &format!("{REQUEST}short")),
        ('c', ""),
        ('c', &format!("{REQUEST}x")),
        ('d', "1"),
        ('d', &format!("2{REQUEST}")),
        ('d', &format!("1{REQUEST}short")),
        ('e', &format!("3{REQUEST}")),
        ('f', "0"),
        ('g', "zz"),
    ] {
        let read = Event::read(&format!("origami.{kind}{NODE}"), &message(text));
        assert!(matches!(read, Err(NoEvent::Message { .. })), "{kind} {text}: {read:?}");
    }
}

fn any_id() -> impl Strategy<Value = Id> {
    "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        .prop_map(|text| Id::new(&text).unwrap())
}

fn json() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        // Numbers that look like the beginning of an id as long as they can.
        "[1-9][0-9]{0,6}e-[0-9]{1,30}",
        "[ a-zé]{0,40}".prop_map(|text| format!("{text:?}")),
        "[a-z]{0,40}".prop_map(|text| format!("{{\"{text}\":[true,1.5e-3]}}")),
    ]
    .prop_map(Bytes::from)
}

prop_compose! {
    fn any_end()(digit in 0..3, executor in any_id(), answer in json()) -> Ended {
        match digit {
            0 => Ended { digit: Digit::Answer, executor: Some(executor), answer },
            1 => Ended { digit: Digit::Error, executor: Some(executor), answer },
            _ => Ended { digit: Digit::Timeout, executor: None, answer: Bytes::new() },
        }
    }
}

prop_compose! {
    fn any_event()(
        which in 0..8,
        request in any_id(),
        sender in any_id(),
        params in json(),
        ended in any_end(),
        channel in "[a-z_.é]{1,20}",
        granted: bool,
    ) -> Event {
        let work = Work { sender, params };
        match which {
            0 => Event::Pong,
            1 => Event::Offered { request, channel, work: Some(work) },
            2 => Event::Registered { request },
            3 => Event::Accepted { request, granted, work: granted.then_some(work) },
            4 => Event::Ended { request, ended: Some(ended) },
            5 => Event::Settled { request, ended: Some(ended) },
            6 => Event::Stored { request },
            _ => Event::Stopped,
        }
    }
}

/// What of an event a layout has a place for.
fn told(event: Event, layout: Layout) -> Event {
    let swapped = layout == Layout::Swapped;
    match event {
        Event::Offered { request, channel, work } => {
            Event::Offered { request, channel, work: work.filter(|_| !swapped) }
        }
        Event::Accepted { request, granted, work } => {
            Event::Accepted { request, granted, work: work.filter(|_| swapped) }
        }
        Event::Ended { request, ended } => {
            let ended = ended.filter(|_| !swapped).map(|ended| match layout {
                Layout::Early => ended,
                _ => Ended { executor: None, ..ended },
            });
            Event::Ended { request, ended }
        }
        Event::Settled { request, ended } => {
            Event::Settled { request, ended: ended.filter(|_| swapped) }
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn every_event_is_read_back_from_every_layout(event in any_event(), node in any_id()) {
        for layout in EVERY {
            let message = Bytes::from(event.message(layout));
            let read = Event::read(&event.channel(&node), &message).unwrap();
            prop_assert_eq!(read, (node.clone(), told(event.clone(), layout)));
        }
    }

    #[test]
    fn no_message_makes_a_reader_panic(
        kind in "[a-z]",
        channel in "\\PC{0,50}",
        message in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let message = Bytes::from(message);
        drop(Event::read(&channel, &message));
        drop(Event::read(&format!("origami.{kind}{NODE}"), &message));
    }
}
