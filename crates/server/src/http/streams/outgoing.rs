//! Messages on their way out, as JSON and MessagePack say them.

use bytes::Bytes;
use handoff_streams::batch::Record;
use handoff_streams::{Header, Place, Produced, Status};
use handoff_types::Wall;
use serde::de::Error as _;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{base64, msgpack};
use crate::http::json::V1;
use crate::http::stamp::stamp_millis;
use crate::rooms::streams::{Page, Skipped, Stored, Why};

/// The header that says until when anybody wants a message: milliseconds since 1970.
const EXPIRES: &[u8] = b"handoff.expires";

/// Bytes as JSON has them: a text, or `{"base64": …}` if they are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Octets(pub(super) Bytes);

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        octets(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Base64 { base64: String },
        }
        match Either::deserialize(deserializer)? {
            Either::Text(text) => Ok(Self(text.into())),
            Either::Base64 { base64 } => {
                let bytes = base64::decode(&base64);
                bytes.map(|bytes| Self(bytes.into())).ok_or_else(|| D::Error::custom("no base64"))
            }
        }
    }
}

impl PartialSchema for Octets {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let base64 = ObjectBuilder::new().schema_type(Type::String);
        let bytes = ObjectBuilder::new().property("base64", base64).required("base64");
        let words = "A text, or bytes in base64. In MessagePack: str or bin; bin in answers.";
        OneOfBuilder::new().item(text).item(bytes).description(Some(words)).into()
    }
}

impl ToSchema for Octets {
    fn name() -> std::borrow::Cow<'static, str> {
        "Octets".into()
    }
}

fn octets<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return serializer.serialize_str(text);
    }
    let mut text = String::new();
    base64::encode(bytes, &mut text);
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("base64", &text)?;
    map.end()
}

pub(super) struct AsOctets<'a>(pub(super) &'a [u8]);

impl Serialize for AsOctets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        octets(self.0, serializer)
    }
}

/// What became of messages, in JSON.
pub(super) fn stored_json(stored: &Stored) -> Vec<u8> {
    struct Results<'a>(&'a [Produced]);
    impl Serialize for Results<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut list = serializer.serialize_seq(Some(self.0.len()))?;
            for produced in self.0 {
                list.serialize_element(&One::of(produced))?;
            }
            list.end()
        }
    }

    #[derive(Serialize)]
    struct One {
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        partition: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    }
    impl One {
        fn of(produced: &Produced) -> Self {
            let (partition, offset, id) = place(produced);
            Self { status: status(produced.status), partition, offset, id }
        }
    }

    #[derive(Serialize)]
    struct Body<'a> {
        version: V1,
        results: Results<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        missing: Vec<Range>,
    }
    let missing = stored.missing.iter();
    let missing = missing.map(|range| Range { from: *range.start(), to: *range.end() }).collect();
    let body = Body { version: V1, results: Results(&stored.results), missing };
    json(&body, 48 + stored.results.len() * 48)
}

/// The same in MessagePack.
pub(super) fn stored_msgpack(stored: &Stored) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + stored.results.len() * 40);
    msgpack::map(2 + usize::from(!stored.missing.is_empty()), &mut out);
    msgpack::text("version", &mut out);
    msgpack::unsigned(1, &mut out);
    msgpack::text("results", &mut out);
    msgpack::array(stored.results.len(), &mut out);
    for produced in &stored.results {
        let (partition, offset, id) = place(produced);
        let fields = [partition.is_some(), offset.is_some(), id.is_some()];
        msgpack::map(1 + fields.into_iter().map(usize::from).sum::<usize>(), &mut out);
        msgpack::text("status", &mut out);
        msgpack::text(status(produced.status), &mut out);
        if let Some(partition) = partition {
            msgpack::text("partition", &mut out);
            msgpack::unsigned(partition.into(), &mut out);
        }
        if let Some(offset) = offset {
            msgpack::text("offset", &mut out);
            msgpack::unsigned(offset, &mut out);
        }
        if let Some(id) = id {
            msgpack::text("id", &mut out);
            msgpack::text(&id, &mut out);
        }
    }
    if !stored.missing.is_empty() {
        msgpack::text("missing", &mut out);
        msgpack::array(stored.missing.len(), &mut out);
        for range in &stored.missing {
            pack_range(*range.start(), *range.end(), &mut out);
        }
    }
    out
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Stored => "stored",
        Status::Duplicate => "duplicate",
        Status::StoredAfterGap => "stored_after_gap",
        Status::StoredLate => "stored_late",
        Status::Scheduled => "scheduled",
    }
}

fn place(produced: &Produced) -> (Option<u32>, Option<u64>, Option<String>) {
    match produced.place {
        Some(Place::At(partition, offset)) => (Some(partition.number), Some(offset), None),
        Some(Place::Scheduled(id)) => (None, None, Some(id.to_string())),
        None => (None, None, None),
    }
}

/// A range of sequences or offsets. Both ends are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct Range {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl From<&Skipped> for Range {
    fn from(skipped: &Skipped) -> Self {
        Self { from: skipped.from, to: skipped.to.saturating_sub(1) }
    }
}

fn pack_range(from: u64, to: u64, out: &mut Vec<u8>) {
    msgpack::map(2, out);
    msgpack::text("from", out);
    msgpack::unsigned(from, out);
    msgpack::text("to", out);
    msgpack::unsigned(to, out);
}

/// A page of messages and where it stands.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) page: Page,
    /// What time it is, for those that have expired.
    pub(super) now: Wall,
}

impl Shown {
    fn corrupt(&self) -> Vec<Range> {
        let skipped = self.page.found.skipped.iter();
        skipped.filter(|skipped| skipped.why == Why::Corrupt).map(Range::from).collect()
    }

    /// In JSON.
    pub(super) fn json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            version: V1,
            topic: &'a str,
            partition: u32,
            start: u64,
            end: u64,
            next_offset: u64,
            messages: Messages<'a>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            corrupt: Vec<Range>,
        }
        struct Messages<'a>(&'a [Record], Wall);
        impl Serialize for Messages<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(Some(self.0.len()))?;
                let mut times = Times::default();
                for record in self.0 {
                    let time = times.of(record.timestamp);
                    list.serialize_element(&MessageView { record, time, now: self.1, more: None })?;
                }
                list.end()
            }
        }
        let body = Body {
            version: V1,
            topic: &self.topic,
            partition: self.partition,
            start: self.start,
            end: self.end,
            next_offset: self.page.found.next,
            messages: Messages(&self.page.records, self.now),
            corrupt: self.corrupt(),
        };
        let bytes: usize = self.page.records.iter().map(|record| 80 + weight(record)).sum();
        json(&body, 256 + bytes)
    }

    /// In MessagePack.
    pub(super) fn msgpack(&self) -> Vec<u8> {
        let bytes: usize = self.page.records.iter().map(|record| 64 + weight(record)).sum();
        let mut out = Vec::with_capacity(256 + bytes);
        let corrupt = self.corrupt();
        msgpack::map(7 + usize::from(!corrupt.is_empty()), &mut out);
        msgpack::text("version", &mut out);
        msgpack::unsigned(1, &mut out);
        msgpack::text("topic", &mut out);
        msgpack::text(&self.topic, &mut out);
        let figures = [
            ("partition", u64::from(self.partition)),
            ("start", self.start),
            ("end", self.end),
            ("nextOffset", self.page.found.next),
        ];
        for (name, figure) in figures {
            msgpack::text(name, &mut out);
            msgpack::unsigned(figure, &mut out);
        }
        msgpack::text("messages", &mut out);
        msgpack::array(self.page.records.len(), &mut out);
        let mut times = Times::default();
        for record in &self.page.records {
            pack_message(record, times.of(record.timestamp), self.now, &mut out);
        }
        if !corrupt.is_empty() {
            msgpack::text("corrupt", &mut out);
            msgpack::array(corrupt.len(), &mut out);
            corrupt.iter().for_each(|range| pack_range(range.from, range.to, &mut out));
        }
        out
    }
}

/// A message of a tail, in JSON.
pub(super) fn told_json(
    text: &mut Vec<u8>,
    record: &Record,
    (topic, partition): (&str, u32),
    now: Wall,
) {
    let time = stamp_millis(record.timestamp);
    let more = Some((topic, partition));
    let view = MessageView { record, time: &time, now, more };
    let written = serde_json::to_writer(text, &view);
    debug_assert!(written.is_ok(), "a vector takes everything");
}

/// Messages of one batch have one time: it is written once.
#[derive(Default)]
pub(super) struct Times(Option<(Wall, String)>);

impl Times {
    pub(super) fn of(&mut self, time: Wall) -> &str {
        if self.0.as_ref().is_none_or(|(known, _)| *known != time) {
            self.0 = Some((time, stamp_millis(time)));
        }
        self.0.as_ref().map_or("", |(_, text)| text)
    }
}

struct MessageView<'a> {
    record: &'a Record,
    time: &'a str,
    now: Wall,
    /// Topic and partition, where they are not said elsewhere.
    more: Option<(&'a str, u32)>,
}

impl Serialize for MessageView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.record;
        let mut map = serializer.serialize_map(None)?;
        if let Some((topic, partition)) = self.more {
            map.serialize_entry("version", &V1)?;
            map.serialize_entry("topic", topic)?;
            map.serialize_entry("partition", &partition)?;
        }
        map.serialize_entry("offset", &record.offset)?;
        map.serialize_entry("timestamp", self.time)?;
        if let Some(key) = &record.key {
            map.serialize_entry("key", &AsOctets(key))?;
        }
        map.serialize_entry("payload", &record.payload.as_deref().map(AsOctets))?;
        if !record.headers.is_empty() {
            map.serialize_entry("headers", &HeadersView(&record.headers))?;
        }
        if is_expired(record, self.now) {
            map.serialize_entry("expired", &true)?;
        }
        map.end()
    }
}

pub(super) struct HeadersView<'a>(pub(super) &'a [Header]);

impl Serialize for HeadersView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for header in self.0 {
            map.serialize_entry(&String::from_utf8_lossy(&header.name), &AsOctets(&header.value))?;
        }
        map.end()
    }
}

fn pack_message(record: &Record, time: &str, now: Wall, out: &mut Vec<u8>) {
    let expired = is_expired(record, now);
    let fields = [record.key.is_some(), !record.headers.is_empty(), expired];
    msgpack::map(3 + fields.into_iter().map(usize::from).sum::<usize>(), out);
    msgpack::text("offset", out);
    msgpack::unsigned(record.offset, out);
    msgpack::text("timestamp", out);
    msgpack::text(time, out);
    pack_octets_of(record, out);
    if expired {
        msgpack::text("expired", out);
        msgpack::boolean(true, out);
    }
}

/// Key, payload and headers, as far as there are any.
pub(super) fn pack_octets_of(record: &Record, out: &mut Vec<u8>) {
    if let Some(key) = &record.key {
        msgpack::text("key", out);
        msgpack::octets(key, out);
    }
    msgpack::text("payload", out);
    match &record.payload {
        Some(payload) => msgpack::octets(payload, out),
        None => msgpack::from_json(&serde_json::Value::Null, out),
    }
    if !record.headers.is_empty() {
        msgpack::text("headers", out);
        msgpack::map(record.headers.len(), out);
        for header in &record.headers {
            msgpack::text(&String::from_utf8_lossy(&header.name), out);
            msgpack::octets(&header.value, out);
        }
    }
}

/// Whether nobody wants a message any more.
fn is_expired(record: &Record, now: Wall) -> bool {
    let until = record.headers.iter().find(|header| *header.name == *EXPIRES);
    let until = until.and_then(|header| std::str::from_utf8(&header.value).ok()?.parse().ok());
    until.is_some_and(|until: i64| until.saturating_mul(1_000) <= now.0)
}

pub(super) fn weight(record: &Record) -> usize {
    let headers = record.headers.iter().map(|header| 16 + header.name.len() + header.value.len());
    record.key.as_ref().map_or(0, |key| 16 + key.len())
        + record.payload.as_ref().map_or(0, Bytes::len)
        + headers.sum::<usize>()
}

pub(super) fn json(body: &impl Serialize, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    let written = serde_json::to_writer(&mut out, body);
    debug_assert!(written.is_ok(), "{written:?}");
    out
}

/// A page of messages, as the document describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MessagePage, example = json!({
    "version": 1, "topic": "orders", "partition": 0, "start": 0, "end": 2, "nextOffset": 2,
    "messages": [
        {"offset": 0, "timestamp": "2027-01-01T00:00:00.000Z", "key": "k", "payload": "{}",
         "headers": {"trace": "1"}},
        {"offset": 1, "timestamp": "2027-01-01T00:00:00.000Z", "payload": {"base64": "AP8="},
         "expired": true},
    ],
    "corrupt": [{"from": 5, "to": 6}],
}))]
pub(in crate::http) struct PageBody {
    version: V1,
    topic: String,
    partition: u32,
    /// The first offset that is kept.
    start: u64,
    /// The offset of the next message.
    end: u64,
    /// What `offset` takes to go on.
    next_offset: u64,
    messages: Vec<MessageBody>,
    /// Offsets that the disk lost, both ends included. What stands behind them is served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    corrupt: Vec<Range>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Message)]
pub(in crate::http) struct MessageBody {
    offset: u64,
    timestamp: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Octets>,
    payload: Option<Octets>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<std::collections::BTreeMap<String, Octets>>,
    /// It had a TTL, and that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expired: Option<bool>,
}

/// Messages to be stored, as the document describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewMessages, example = json!({
    "version": 1, "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab", "sequence": 42,
    "messages": [
        {"key": "till 7", "payload": "{\"total\": 3}", "headers": {"trace": "1"}},
        {"payload": {"base64": "AP8="}, "partition": 3},
        {"payload": "wake up", "deliverAt": "2027-01-01T00:00:00.000Z", "ttlMs": 60_000},
    ],
}))]
pub(in crate::http) struct NewMessages {
    version: V1,
    /// Who sends; with `sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    producer: Option<String>,
    /// Of the first message; the others follow one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    /// All of them are stored, or none.
    messages: Vec<NewMessage>,
}

/// A message to be stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct NewMessage {
    /// Messages of one key keep their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Octets>,
    payload: Octets,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<std::collections::BTreeMap<String, Octets>>,
    /// Wins over the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// Not before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
    /// For how long after it got its offset anybody wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

/// What became of messages, as the document describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StoredMessages, example = json!({
    "version": 1,
    "results": [
        {"status": "stored_after_gap", "partition": 3, "offset": 17},
        {"status": "scheduled", "id": "00000000000000000000000000000007"},
    ],
    "missing": [{"from": 40, "to": 41}],
}))]
pub(in crate::http) struct StoredBody {
    version: V1,
    /// One for each message, in order.
    results: Vec<ResultBody>,
    /// Sequences that never came, both ends included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Range>,
}

/// What became of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = MessageResult)]
pub(in crate::http) struct ResultBody {
    status: StatusName,
    /// Absent for a duplicate whose place is forgotten, and for one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Of a message that waits for its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageStatus)]
pub(in crate::http) enum StatusName {
    /// It is stored.
    Stored,
    /// It was stored already; nothing was stored now.
    Duplicate,
    /// It is stored, and some before it never came.
    StoredAfterGap,
    /// It is stored; it had been missing.
    StoredLate,
    /// It waits for its time.
    Scheduled,
}
