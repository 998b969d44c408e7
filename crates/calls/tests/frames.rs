//! Frames, as they stand on the wire.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use handoff_calls::wire::{Down, FRAMES_MAX, MANY_BYTES, Many, Up, is_many};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const ID: &str = "c64e9eb3-0295-4506-8d69-86e56b8ecf6f";
const CLIENT: &str = "98206706-632c-469b-9064-39ae8a4610b4";

fn up(frame: &Value) {
    let text = frame.to_string();
    let read: Up<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *frame, "read as {read:?}");
}

fn down(frame: &Value) {
    let text = frame.to_string();
    let read: Down<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *frame, "read as {read:?}");
}

#[test]
fn what_clients_say_reads_back() {
    up(
        &json!({"init": {"client": CLIENT, "name": "stock", "serves": [{"channel": "a", "concurrency": 3}]}}),
    );
    up(&json!({"init": {"client": CLIENT}}));
    up(&json!({"init": {"client": CLIENT, "many": true, "eager": true}}));
    up(&json!({"ping": {"n": 7}}));
    up(&json!({"request": {"id": ID, "channel": "a"}}));
    up(&json!({"request": {
        "id": ID, "channel": "a", "params": {"x": [1, null]}, "key": "k", "timeoutMs": 5,
        "queueTimeoutMs": 6, "onlyWithConsumer": true, "traceparent": "00-ab-cd-01",
    }}));
    up(&json!({"request_ack": {"id": ID, "fence": 1}}));
    up(&json!({"heartbeat": {"id": ID, "fence": 1}}));
    up(&json!({"response": {"id": ID, "fence": 1, "answer": 42}}));
    up(&json!({"response": {
        "id": ID, "fence": 1, "error": {"name": "E", "message": "m", "code": "c"},
        "terminal": true, "retryAfterMs": 9,
    }}));
    up(&json!({"response_ack": {"id": ID}}));
    up(&json!({"cancel": {"id": ID}}));
    up(&json!({"stop": {}}));
}

#[test]
fn what_the_server_says_reads_back() {
    down(&json!({"a": {"n": 0, "pingIntervalMs": 1000, "pingTimeoutMs": 1000, "bodyBytesMax": 1}}));
    down(&json!({"a": {"n": 0, "many": true}}));
    down(&json!({"b": {
        "id": ID, "channel": "a", "caller": CLIENT, "params": null, "fence": 1, "attempt": 1,
        "deadlineMs": 10, "leaseMs": 20, "traceparent": "00-ab-cd-01",
    }}));
    down(&json!({"b": {
        "id": ID, "channel": "a", "params": 1, "fence": 1, "attempt": 1, "deadlineMs": 10,
        "leaseMs": 20, "held": true,
    }}));
    down(&json!({"c": {"id": ID}}));
    down(&json!({"d": {"id": ID, "fence": 1, "held": false}}));
    down(&json!({"e": {"id": ID, "status": 0, "answer": {"ok": 1}, "executor": CLIENT}}));
    down(
        &json!({"e": {"id": ID, "status": 2, "error": {"name": "n", "message": "m", "code": "c"}}}),
    );
    down(&json!({"f": {"id": ID}}));
    down(&json!({"g": {"id": ID, "fence": 1, "taken": true}}));
    down(&json!({"h": {}}));
    down(&json!({"cancelled": {"id": ID, "fence": 1}}));
}

#[test]
fn a_body_passes_through_as_it_is_written() {
    let text = format!(r#"{{"request":{{"id":"{ID}","channel":"a","params":{{ "n" : 1.10 }}}}}}"#);
    let read: Up<Box<RawValue>> = serde_json::from_str(&text).unwrap();
    let Up::Request(request) = &read else { unreachable!("{read:?}") };
    assert_eq!(request.params.as_ref().map(|raw| raw.get()), Some(r#"{ "n" : 1.10 }"#));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[test]
fn members_that_are_not_known_are_passed_over_and_frames_that_are_not_known_are_not() {
    let grown = json!({"ping": {"n": 1, "more": true}}).to_string();
    assert!(serde_json::from_str::<Up<Value>>(&grown).is_ok());
    for bad in
        ["{}", "[]", r#"{"shout":{}}"#, r#"{"ping":{}, "stop":{}}"#, r#"{"cancel":{"id":"1"}}"#]
    {
        assert!(serde_json::from_str::<Up<Value>>(bad).is_err(), "{bad}");
    }
}

#[test]
fn several_frames_are_one_message_up_to_a_number_and_a_size_and_one_is_itself() {
    let mut many = Many::default();
    assert_eq!(many.take(), None);
    many.push_text(br#"{"stop":{}}"#);
    assert_eq!(many.take().unwrap(), br#"{"stop":{}}"#);
    many.push_text(br#"{"stop":{}}"#);
    many.push(&Up::<&[u8]>::Ping(handoff_calls::wire::Ping { n: 1 }));
    let text = many.take().unwrap();
    assert!(is_many(&text) && !is_many(br#" {"stop":{}}"#));
    let read: Vec<Up<Value>> = serde_json::from_slice(&text).unwrap();
    assert!(matches!(&read[..], [Up::Stop(_), Up::Ping(_)]), "{read:?}");
    assert!(many.fits(usize::MAX), "whatever is large goes alone");
    many.push_text(b"1");
    assert!(many.fits(100) && !many.fits(MANY_BYTES));
    (1..FRAMES_MAX).for_each(|_| many.push_text(b"1"));
    assert!(!many.fits(1));
}
