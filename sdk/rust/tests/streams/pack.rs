//! MessagePack as another implementation reads and writes it, and the scripted server's answers.

use rmp::Marker;
use rmp::decode::{RmpRead, read_marker};
use serde_json::{Map, Value, json};

use crate::peer::{Asked, Listener, Peer, ok};

/// The value of some octets: octets that are text are text, others an object.
pub(crate) fn unpack(mut octets: &[u8]) -> Value {
    let value = value(&mut octets);
    assert!(octets.is_empty(), "something follows: {octets:?}");
    value
}

fn value(from: &mut &[u8]) -> Value {
    let marker = read_marker(from).unwrap();
    let mut number = |octets: usize| -> usize {
        (0..octets).fold(0, |sum, _| sum << 8 | usize::from(from.read_u8().unwrap()))
    };
    match marker {
        Marker::Null => Value::Null,
        Marker::True => Value::Bool(true),
        Marker::False => Value::Bool(false),
        Marker::FixPos(small) => json!(small),
        Marker::U8 => json!(number(1)),
        Marker::U16 => json!(number(2)),
        Marker::U32 => json!(number(4)),
        Marker::U64 => json!(number(8)),
        Marker::FixStr(length) => data(from, length.into()),
        Marker::Str8 | Marker::Bin8 => {
            let length = number(1);
            data(from, length)
        }
        Marker::Str16 | Marker::Bin16 => {
            let length = number(2);
            data(from, length)
        }
        Marker::Str32 | Marker::Bin32 => {
            let length = number(4);
            data(from, length)
        }
        Marker::FixArray(length) => (0..length).map(|_| value(from)).collect(),
        Marker::Array16 => {
            let length = number(2);
            (0..length).map(|_| value(from)).collect()
        }
        Marker::FixMap(length) => {
            let pairs = (0..length).map(|_| {
                let name = value(from).as_str().unwrap().to_owned();
                (name, value(from))
            });
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        other => panic!("{other:?} is not expected"),
    }
}

fn data(from: &mut &[u8], length: usize) -> Value {
    let (octets, rest) = from.split_at(length);
    *from = rest;
    match std::str::from_utf8(octets) {
        Ok(text) => json!(text),
        Err(_) => json!({ "octets": octets }),
    }
}

pub(crate) fn pack(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

fn write(out: &mut Vec<u8>, value: &Value) {
    let length = |length: usize| u32::try_from(length).unwrap();
    match value {
        Value::Null => rmp::encode::write_nil(out).unwrap(),
        Value::Bool(yes) => rmp::encode::write_bool(out, *yes).unwrap(),
        Value::Number(number) => {
            rmp::encode::write_uint(out, number.as_u64().unwrap()).unwrap();
        }
        Value::String(text) => rmp::encode::write_str(out, text).unwrap(),
        Value::Array(values) => {
            rmp::encode::write_array_len(out, length(values.len())).unwrap();
            values.iter().for_each(|value| write(out, value));
        }
        Value::Object(pairs) => {
            if let Some(octets) = pairs.get("octets") {
                let octets: Vec<u8> = serde_json::from_value(octets.clone()).unwrap();
                return rmp::encode::write_bin(out, &octets).unwrap();
            }
            rmp::encode::write_map_len(out, length(pairs.len())).unwrap();
            for (name, value) in pairs {
                rmp::encode::write_str(out, name).unwrap();
                write(out, value);
            }
        }
    }
}

/// A success with MessagePack.
pub(crate) fn packed(value: &Value) -> Vec<u8> {
    let body = pack(value);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/msgpack\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// A refusal.
pub(crate) fn refusal(status: &str, code: &str) -> String {
    let body = json!({ "title": "no", "code": code }).to_string();
    crate::peer::answer(status, "application/problem+json", &body)
}

/// Results for messages that were stored from an offset on.
pub(crate) fn stored(status: &str, offset: u64, count: usize) -> Vec<u8> {
    let results: Vec<Value> = (offset..)
        .take(count)
        .map(|offset| json!({ "status": status, "partition": 0, "offset": offset }))
        .collect();
    packed(&json!({ "version": 1, "results": results }))
}

/// Messages as they were sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) topic: String,
    pub(crate) sequence: u64,
    pub(crate) payloads: Vec<String>,
    pub(crate) octets: Vec<u8>,
}

impl Batch {
    pub(crate) fn of(asked: Asked) -> Self {
        let topic = asked.line.strip_prefix("POST /v1/streams/topics/").unwrap();
        let topic = topic.strip_suffix("/messages").unwrap().to_owned();
        assert_eq!(asked.header("content-type"), Some("application/msgpack"));
        assert_eq!(asked.header("accept"), Some("application/msgpack"));
        let value = unpack(&asked.body);
        assert_eq!((&value["version"], &value["producer"]), (&json!(1), &json!(GUID)));
        let payload = |message: &Value| message["payload"].as_str().unwrap().to_owned();
        let payloads = value["messages"].as_array().unwrap().iter().map(payload).collect();
        let sequence = value["sequence"].as_u64().unwrap();
        Self { topic, sequence, payloads, octets: asked.body }
    }
}

impl Peer {
    pub(crate) async fn batch(&mut self) -> Batch {
        Batch::of(self.asked().await)
    }

    /// Answers the next batch with success.
    pub(crate) async fn stores(&mut self, offset: u64) -> Batch {
        let batch = self.batch().await;
        self.write(&stored("stored", offset, batch.payloads.len())).await;
        batch
    }
}

pub(crate) const GUID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";

impl Listener {
    /// Answers a registration.
    pub(crate) async fn registers(&self, scope: &str, more: Value) -> Value {
        let mut body = json!({ "version": 1, "producer": GUID, "scope": scope, "last": {} });
        let pairs = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(pairs);
        self.serve(&ok(&body.to_string())).await.json()
    }
}
