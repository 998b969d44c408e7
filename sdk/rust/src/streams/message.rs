//! Messages: to be sent, and received.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::base64;
use crate::Time;

/// A message to be sent.
///
/// ```
/// use std::time::Duration;
/// use handoff_sdk::streams::Message;
///
/// let message = Message::new(r#"{"order":7}"#)
///     .key("customer-42")
///     .header("content-type", "application/json")
///     .ttl(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Message {
    /// What it is about.
    pub payload: Bytes,
    /// Messages of one key keep their order.
    pub key: Option<Bytes>,
    /// Names and values beside the payload. A name stands once.
    pub headers: Vec<(String, Bytes)>,
    /// The partition, if it is not to be chosen by the server.
    pub partition: Option<u32>,
    /// Not before this.
    pub deliver_at: Option<Time>,
    /// For how long anybody wants it.
    pub ttl: Option<Duration>,
    /// Its sequence, if the sender numbers its messages itself.
    pub sequence: Option<u64>,
}

impl Message {
    /// A message without a key.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// Messages of one key go to one partition and keep their order.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header, or replaces the one of this name. Names that begin with `handoff.` are the
    /// server's own.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        let (name, value) = (name.into(), value.into());
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.headers.push((name, value)),
        }
        self
    }

    /// Goes to this partition, whatever its key.
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Gets its partition and offset at this time, and is seen by nobody before. It is on disk as
    /// soon as it is answered.
    pub fn deliver_at(mut self, time: impl Into<Time>) -> Self {
        self.deliver_at = Some(time.into());
        self
    }

    /// Counts as expired so long after it got its offset.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.ttl = Some(time);
        self
    }

    /// Gives it a sequence. For whoever has a number for each message that outlives the program,
    /// such as a row of an outbox or a line of a file: then it may be sent any number of times, and
    /// is stored once. See [`super::Producer`].
    pub fn sequence(mut self, sequence: u64) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// Octets it takes on the wire, about.
    pub(super) fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        let key = self.key.as_ref().map_or(0, Bytes::len);
        OVERHEAD + self.payload.len() + key + headers
    }
}

/// Names of fields, lengths and numbers of a message.
const OVERHEAD: usize = 96;

impl From<&'static str> for Message {
    fn from(payload: &'static str) -> Self {
        Self::new(payload)
    }
}

impl From<String> for Message {
    fn from(payload: String) -> Self {
        Self::new(payload)
    }
}

impl From<Vec<u8>> for Message {
    fn from(payload: Vec<u8>) -> Self {
        Self::new(payload)
    }
}

impl From<Bytes> for Message {
    fn from(payload: Bytes) -> Self {
        Self::new(payload)
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// It is stored.
    Stored,
    /// It was stored before; nothing was stored now.
    Duplicate,
    /// It is stored, and sequences before it never came.
    StoredAfterGap,
    /// It is stored; its sequence had been missing.
    StoredLate,
    /// It waits for its time.
    Scheduled,
    /// Something a newer server says; the message is in its hands.
    #[serde(other)]
    Other,
}

impl Status {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "stored" => Self::Stored,
            "duplicate" => Self::Duplicate,
            "stored_after_gap" => Self::StoredAfterGap,
            "stored_late" => Self::StoredLate,
            "scheduled" => Self::Scheduled,
            _ => Self::Other,
        }
    }
}

/// A message that is in the server's hands: on disk, unless its topic says `durability = "os"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sent {
    /// What became of it.
    pub status: Status,
    /// Where it is. None if it waits for its time, or is a duplicate whose place is forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Its offset there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// By what it can be cancelled as long as it waits for its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The sequence it was sent with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// A message of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Received {
    /// The partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// When it got its offset.
    pub timestamp: Time,
    /// Its key.
    #[serde(serialize_with = "maybe_data", skip_serializing_if = "Option::is_none")]
    pub key: Option<Bytes>,
    /// What it is about.
    #[serde(serialize_with = "data")]
    pub payload: Bytes,
    /// Names and values beside the payload.
    #[serde(serialize_with = "named", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Bytes)>,
    /// Whether nobody wants it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

impl Received {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Octets as JSON has them: text, or base64 where they are none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Base64 { base64: String },
}

impl Written {
    fn read(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Base64 { base64 } => base64::decode(&base64).map(Bytes::from),
        }
    }
}

/// A moment, as text or in milliseconds since 1970.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Text(Time),
    Millis(u64),
}

impl Moment {
    fn read(self) -> Time {
        match self {
            Self::Text(time) => time,
            Self::Millis(millis) => Time::from_millis(millis),
        }
    }
}

/// Reads a message that was told as JSON. Partition and offset stand in its id if not in itself.
pub(super) fn of_json(id: &[u8], json: &[u8]) -> Result<Received, String> {
    #[derive(Deserialize)]
    struct Told {
        partition: Option<u32>,
        offset: Option<u64>,
        timestamp: Moment,
        key: Option<Written>,
        payload: Written,
        #[serde(default)]
        headers: BTreeMap<String, Written>,
        #[serde(default)]
        expired: bool,
    }
    let told: Told = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let place = std::str::from_utf8(id).ok().and_then(|id| id.split_once(':'));
    let place = place.and_then(|(p, o)| Some((p.parse::<u32>().ok()?, o.parse::<u64>().ok()?)));
    let no_place = || "it has neither partition nor offset".to_owned();
    let no_data = || NO_BASE64.to_owned();
    let mut headers = Vec::with_capacity(told.headers.len());
    for (name, value) in told.headers {
        headers.push((name, value.read().ok_or_else(no_data)?));
    }
    Ok(Received {
        partition: told.partition.or(place.map(|(p, _)| p)).ok_or_else(no_place)?,
        offset: told.offset.or(place.map(|(_, o)| o)).ok_or_else(no_place)?,
        timestamp: told.timestamp.read(),
        key: told.key.map(|key| key.read().ok_or_else(no_data)).transpose()?,
        payload: told.payload.read().ok_or_else(no_data)?,
        headers,
        expired: told.expired,
    })
}

const NO_BASE64: &str = "its base64 cannot be read";

/// Octets as JSON has them.
pub(super) fn json_data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let octets = Option::<Written>::deserialize(deserializer)?;
    octets
        .map_or(Ok(Bytes::new()), |octets| octets.read().ok_or_else(|| D::Error::custom(NO_BASE64)))
}

pub(super) fn json_maybe_data<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    let octets = Option::<Written>::deserialize(deserializer)?;
    octets.map(|octets| octets.read().ok_or_else(|| D::Error::custom(NO_BASE64))).transpose()
}

pub(super) fn json_headers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, Bytes)>, D::Error> {
    let headers = Option::<BTreeMap<String, Written>>::deserialize(deserializer)?;
    let read = |(name, value): (String, Written)| value.read().map(|value| (name, value));
    let headers = headers.unwrap_or_default().into_iter().map(read);
    headers.collect::<Option<_>>().ok_or_else(|| D::Error::custom(NO_BASE64))
}

pub(super) fn json_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Time>, D::Error> {
    Ok(Option::<Moment>::deserialize(deserializer)?.map(Moment::read))
}

struct Data<'a>(&'a [u8]);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &base64::encode(self.0))?;
        map.end()
    }
}

pub(super) fn data<S: Serializer>(octets: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    Data(octets).serialize(serializer)
}

pub(super) fn maybe_data<S: Serializer>(
    octets: &Option<Bytes>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    octets.as_deref().map(Data).serialize(serializer)
}

pub(super) fn named<S: Serializer>(
    headers: &[(String, Bytes)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, Data(value))))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Message, of_json};

    #[test]
    fn a_message_reads_back_from_the_json_it_is_shown_as() {
        for payload in [&b"plain"[..], b"", &[0xff, 0, 7]] {
            let told = of_json(
                b"",
                br#"{"partition":3,"offset":7,"timestamp":"2027-01-15T08:00:00Z","payload":""}"#,
            );
            let mut message = told.unwrap();
            message.payload = Bytes::copy_from_slice(payload);
            message.key = Some(Bytes::copy_from_slice(payload));
            message.headers = vec![("a".to_owned(), Bytes::copy_from_slice(payload))];
            message.expired = true;
            let json = serde_json::to_vec(&message).unwrap();
            assert_eq!(of_json(b"", &json), Ok(message));
        }
    }

    #[test]
    fn a_place_may_stand_in_the_id() {
        let json = br#"{"timestamp":1800000000000,"payload":{"base64":"/w=="}}"#;
        let told = of_json(b"2:9", json).unwrap();
        assert_eq!((told.partition, told.offset, told.payload.as_ref()), (2, 9, &[0xff][..]));
        assert_eq!(told.timestamp.as_str(), "2027-01-15T08:00:00.000Z");
        for id in ["", "2", "2:", ":9", "a:b"] {
            assert!(of_json(id.as_bytes(), json).unwrap_err().contains("neither"), "{id}");
        }
        assert!(of_json(b"1:1", br#"{"timestamp":1,"payload":{"base64":"/w"}}"#).is_err());
    }

    #[test]
    fn a_header_stands_once() {
        let message = Message::new("a").header("n", "1").header("m", "2").header("n", "3");
        let shown: Vec<_> = message.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(shown, ["n", "m"]);
        assert_eq!(message.headers[0].1, "3");
    }
}
