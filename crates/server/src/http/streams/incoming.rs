//! Messages on their way in, as JSON and MessagePack say them.
//!
//! Payloads, keys and header values share the memory of the request wherever its format has them as
//! they are. The room copies what it keeps longer.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use handoff_streams::{Header, Message, Produce, ProducerId, TopicName};
use handoff_types::{Code, Span, Wall};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::base64;
use super::msgpack::{Bad, Token, Unpack, invalid};
use crate::http::json::{V1, decode};
use crate::http::nearest::nearest;
use crate::http::problem::Problem;
use crate::http::stamp::read_stamp;

impl From<Bad> for Problem {
    fn from(bad: Bad) -> Self {
        match bad {
            Bad::Malformed(words) => {
                Self::new(Code::RequestMalformed, format!("the body is no MessagePack: {words}"))
            }
            Bad::Invalid(words) => Self::new(Code::RequestInvalid, words),
        }
    }
}

/// Messages of one request, whatever the configuration allows: what is read of a body is bounded
/// before it is looked at.
pub(super) const MESSAGES_MAX: usize = 100_000;

/// Reads messages from JSON.
pub(super) fn from_json(topic: TopicName, body: &Bytes) -> Result<Produce, Problem> {
    let ProduceBody { version: V1, producer, sequence, messages } = decode(body)?;
    let mut read = Vec::with_capacity(messages.0.len());
    for (number, message) in messages.0.into_iter().enumerate() {
        let message = message.into_message(body).map_err(|why| wrong(number, &why))?;
        read.push(message);
    }
    finish(topic, producer.as_deref(), sequence, read)
}

/// Reads messages from MessagePack.
pub(super) fn from_msgpack(topic: TopicName, body: Bytes) -> Result<Produce, Problem> {
    let mut unpack = Unpack::new(body);
    let (mut version, mut producer, mut sequence, mut messages) = (None, None, None, None);
    let count = fields(&mut unpack, "the body")?;
    for _ in 0..count {
        let name = unpack.name()?;
        match &*name {
            b"version" => once(&mut version, "version", unpack.next()?)?,
            b"producer" => once(&mut producer, "producer", unpack.next()?)?,
            b"sequence" => once(&mut sequence, "sequence", unpack.next()?)?,
            b"messages" => {
                let read = messages_of(&mut unpack)?;
                once(&mut messages, "messages", read)?;
            }
            other => {
                return Err(unknown(other, &["version", "producer", "sequence", "messages"]).into());
            }
        }
    }
    unpack.end()?;
    match version {
        Some(Token::Unsigned(1)) => {}
        Some(_) => return Err(bad("this version is not known here; write version 1")),
        None => return Err(bad("missing field `version`")),
    }
    let producer = producer.map(|token| text(token, "producer")).transpose()?.flatten();
    let producer = producer.as_ref().map(as_str);
    let sequence = sequence.map(|token| number(token, "sequence")).transpose()?.flatten();
    let messages = messages.ok_or_else(|| bad("missing field `messages`"))?;
    finish(topic, producer, sequence, messages)
}

pub(super) fn finish(
    topic: TopicName,
    producer: Option<&str>,
    sequence: Option<u64>,
    messages: Vec<Message>,
) -> Result<Produce, Problem> {
    let producer = match (producer, sequence) {
        (Some(id), Some(sequence)) => Some((producer_id(id)?, sequence)),
        (None, None) => None,
        _ => return Err(bad("`producer` and `sequence` go together")),
    };
    Ok(Produce { topic, producer, messages })
}

/// A producer's GUID.
pub(super) fn producer_id(text: &str) -> Result<ProducerId, Problem> {
    text.parse().map_err(|why: handoff_streams::BadProducerId| {
        Problem::new(Code::StreamsInvalid, why.to_string())
    })
}

pub(super) fn bad(words: &str) -> Problem {
    Problem::new(Code::RequestInvalid, words)
}

pub(super) fn wrong(number: usize, why: &str) -> Problem {
    Problem::new(Code::RequestInvalid, format!("message {number}: {why}"))
}

fn repeated(headers: &[Header]) -> Option<&Header> {
    let mut rest = headers;
    while let [one, others @ ..] = rest {
        // More than a few are refused anyway.
        if others.iter().take(HEADERS_COMPARED).any(|other| other.name == one.name) {
            return Some(one);
        }
        rest = others;
    }
    None
}

/// Far above `streams.headers_max`; a list that is longer costs no more than its length.
const HEADERS_COMPARED: usize = 1024;

fn checked(message: Message) -> Result<Message, String> {
    if let Some(header) = repeated(&message.headers) {
        return Err(format!("the header `{}` comes twice", as_str(&header.name)));
    }
    Ok(message)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProduceBody<'a> {
    version: V1,
    #[serde(default, borrow)]
    producer: Option<Cow<'a, str>>,
    #[serde(default)]
    sequence: Option<u64>,
    #[serde(borrow)]
    messages: Messages<'a>,
}

pub(super) struct Messages<'a>(pub(super) Vec<MessageBody<'a>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MessageBody<'a> {
    #[serde(default, borrow)]
    key: Option<Octets<'a>>,
    #[serde(borrow)]
    payload: Octets<'a>,
    #[serde(default, borrow)]
    headers: Option<Headers<'a>>,
    #[serde(default)]
    partition: Option<u32>,
    #[serde(default, borrow)]
    deliver_at: Option<Cow<'a, str>>,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

impl MessageBody<'_> {
    pub(super) fn into_message(self, body: &Bytes) -> Result<Message, String> {
        let Self { key, payload, headers, partition, deliver_at, ttl_ms } = self;
        let headers = headers.map_or_else(Vec::new, |Headers(headers)| headers);
        let headers = headers.into_iter().map(|(name, value)| Header {
            name: Octets::Text(name).into_bytes(body),
            value: value.into_bytes(body),
        });
        let due = deliver_at.as_deref().map(read_stamp).transpose()?;
        checked(Message {
            key: key.map(|key| key.into_bytes(body)),
            payload: payload.into_bytes(body),
            headers: headers.collect(),
            partition,
            deliver_at: due,
            ttl: ttl_ms.map(Span::from_millis),
        })
    }
}

/// Text, or `{"base64": …}`.
enum Octets<'a> {
    Text(Cow<'a, str>),
    Decoded(Vec<u8>),
}

impl Octets<'_> {
    fn into_bytes(self, body: &Bytes) -> Bytes {
        match self {
            // What has no escapes in it stands in the body as it is.
            Self::Text(Cow::Borrowed(text)) => body.slice_ref(text.as_bytes()),
            Self::Text(Cow::Owned(text)) => Bytes::from(text),
            Self::Decoded(bytes) => Bytes::from(bytes),
        }
    }
}

struct Headers<'a>(Vec<(Cow<'a, str>, Octets<'a>)>);

/// A text that is borrowed if it can be.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Octets<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Octets<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a text or {"base64": …}"#)
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Octets<'de>, E> {
                Ok(Octets::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Octets<'de>, E> {
                Ok(Octets::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Octets<'de>, A::Error> {
                let Some(Text(name)) = map.next_key()? else {
                    return Err(A::Error::missing_field("base64"));
                };
                if name != "base64" {
                    return Err(A::Error::unknown_field(&name, &["base64"]));
                }
                let Text(text) = map.next_value()?;
                if map.next_key::<Text<'_>>()?.is_some() {
                    return Err(A::Error::custom("`base64` stands alone"));
                }
                let decoded = base64::decode(&text);
                decoded.map(Octets::Decoded).ok_or_else(|| A::Error::custom("this is no base64"))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Headers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("headers: names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers<'de>, A::Error> {
                let mut headers = Vec::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    headers.push((name, value));
                }
                Ok(Headers(headers))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Messages<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Messages<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Messages<'de>, A::Error> {
                let mut messages = Vec::new();
                while let Some(message) = seq.next_element()? {
                    if messages.len() >= MESSAGES_MAX {
                        return Err(A::Error::custom(too_many()));
                    }
                    messages.push(message);
                }
                Ok(Messages(messages))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

fn too_many() -> String {
    format!("a request has at most {MESSAGES_MAX} messages")
}

pub(super) fn messages_of(unpack: &mut Unpack) -> Result<Vec<Message>, Bad> {
    let count = match unpack.next()? {
        Token::Array(count) if count <= MESSAGES_MAX => count,
        Token::Array(_) => return invalid(too_many()),
        other => return invalid(format!("`messages` is {}, not an array", other.word())),
    };
    let mut messages = Vec::with_capacity(count.min(1024));
    for number in 0..count {
        messages.push(message_of(unpack).map_err(|bad| match bad {
            Bad::Invalid(why) => Bad::Invalid(format!("message {number}: {why}")),
            malformed => malformed,
        })?);
    }
    Ok(messages)
}

const FIELDS: [&str; 6] = ["key", "payload", "headers", "partition", "deliverAt", "ttlMs"];

fn message_of(unpack: &mut Unpack) -> Result<Message, Bad> {
    let (mut key, mut payload, mut headers) = (None, None, None);
    let (mut partition, mut due, mut ttl) = (None, None, None);
    for _ in 0..fields(unpack, "a message")? {
        let name = unpack.name()?;
        match &*name {
            b"key" => once(&mut key, "key", unpack.next()?)?,
            b"payload" => once(&mut payload, "payload", unpack.next()?)?,
            b"headers" => {
                let read = headers_of(unpack)?;
                once(&mut headers, "headers", read)?;
            }
            b"partition" => once(&mut partition, "partition", unpack.next()?)?,
            b"deliverAt" => once(&mut due, "deliverAt", unpack.next()?)?,
            b"ttlMs" => once(&mut ttl, "ttlMs", unpack.next()?)?,
            other => return Err(unknown(other, &FIELDS)),
        }
    }
    let partition = partition.map(|token| number(token, "partition")).transpose()?.flatten();
    let partition = match partition.map(u32::try_from) {
        Some(Err(_)) => return invalid("`partition` is too large a number"),
        Some(Ok(partition)) => Some(partition),
        None => None,
    };
    let Some(payload) = payload else { return invalid("missing field `payload`") };
    let ttl = ttl.map(|token| number(token, "ttlMs")).transpose()?.flatten();
    let message = Message {
        key: key.map(|token| octets(token, "key")).transpose()?.flatten(),
        payload: match octets(payload, "payload")? {
            Some(payload) => payload,
            None => return invalid("`payload` is nil; it is a text or bytes"),
        },
        headers: headers.unwrap_or_default(),
        partition,
        deliver_at: due.map(time).transpose()?.flatten(),
        ttl: ttl.map(Span::from_millis),
    };
    checked(message).map_err(Bad::Invalid)
}

fn headers_of(unpack: &mut Unpack) -> Result<Vec<Header>, Bad> {
    let count = match unpack.next()? {
        Token::Nil => 0,
        Token::Map(count) => count,
        other => return invalid(format!("`headers` is {}, not a map", other.word())),
    };
    let mut headers = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let name = unpack.name()?;
        let value = unpack.next()?;
        match octets(value, "a header's value")? {
            Some(value) => headers.push(Header { name, value }),
            None => return invalid("a header's value is nil; it is a text or bytes"),
        }
    }
    Ok(headers)
}

pub(super) fn fields(unpack: &mut Unpack, what: &str) -> Result<usize, Bad> {
    match unpack.next()? {
        Token::Map(count) => Ok(count),
        other => invalid(format!("{what} is {}; it is a map", other.word())),
    }
}

pub(super) fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Bad> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => invalid(format!("duplicate field `{name}`")),
    }
}

pub(super) fn unknown(name: &[u8], known: &[&str]) -> Bad {
    let name = String::from_utf8_lossy(name);
    let name = name.get(..name.floor_char_boundary(64)).unwrap_or_default();
    let meant = nearest(name, known.iter().copied());
    let meant = meant.map_or_else(
        || format!("there are {}", known.join(", ")),
        |meant| format!("did you mean `{meant}`?"),
    );
    Bad::Invalid(format!("unknown field `{name}`; {meant}"))
}

fn octets(token: Token, name: &str) -> Result<Option<Bytes>, Bad> {
    match token {
        Token::Text(bytes) | Token::Octets(bytes) => Ok(Some(bytes)),
        Token::Nil => Ok(None),
        other => invalid(format!("`{name}` is {}; it is a text or bytes", other.word())),
    }
}

pub(super) fn text(token: Token, name: &str) -> Result<Option<Bytes>, Bad> {
    match token {
        Token::Text(text) => Ok(Some(text)),
        Token::Nil => Ok(None),
        other => invalid(format!("`{name}` is {}; it is a text", other.word())),
    }
}

pub(super) fn number(token: Token, name: &str) -> Result<Option<u64>, Bad> {
    match token {
        Token::Unsigned(number) => Ok(Some(number)),
        Token::Nil => Ok(None),
        other => invalid(format!("`{name}` is {}; it is a number from 0 on", other.word())),
    }
}

fn time(token: Token) -> Result<Option<Wall>, Bad> {
    let text = text(token, "deliverAt")?;
    text.map(|text| read_stamp(as_str(&text)).map_err(Bad::Invalid)).transpose()
}

/// What was read as a text is one.
pub(super) fn as_str(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::{from_json, from_msgpack};
    use crate::http::problem::Problem;
    use bytes::Bytes;
    use handoff_streams::{Header, Message, Produce};
    use handoff_types::{Code, Span, Wall};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn json_of(body: &Bytes) -> Result<Produce, Problem> {
        from_json("orders".parse().unwrap(), body)
    }

    fn packed_of(body: &Value) -> Result<Produce, Problem> {
        let mut out = Vec::new();
        super::super::msgpack::from_json(body, &mut out);
        from_msgpack("orders".parse().unwrap(), out.into())
    }

    #[test]
    fn both_formats_say_the_same() {
        let body = json!({
            "version": 1, "producer": "00000000-0000-0000-0000-00000000002a", "sequence": 7,
            "messages": [
                {"payload": "one"},
                {"key": "k", "payload": "", "headers": {"b": "2", "a": "1"}, "partition": 3,
                 "deliverAt": "1970-01-01T00:00:01Z", "ttlMs": 5},
                {"key": null, "payload": "x", "headers": null, "partition": null, "ttlMs": null},
            ],
        });
        let text = Bytes::from(body.to_string());
        let read = json_of(&text).unwrap();
        assert_eq!(packed_of(&body).unwrap(), read);
        assert_eq!(read.producer.map(|(id, sequence)| (id.0, sequence)), Some((42, 7)));
        let second = Message {
            key: Some(Bytes::from_static(b"k")),
            payload: Bytes::new(),
            headers: [("a", "1"), ("b", "2")]
                .map(|(name, value)| Header { name: name.into(), value: value.into() })
                .to_vec(),
            partition: Some(3),
            deliver_at: Some(Wall(1_000_000)),
            ttl: Some(Span::from_millis(5)),
        };
        assert_eq!(read.messages.get(1), Some(&second));
    }

    #[test]
    fn bytes_and_escapes_are_read_and_plain_text_is_not_copied() {
        let body = Bytes::from_static(
            br#"{"version":1,"messages":[{"payload":"plain"},{"payload":"a\nb"},{"payload":{"base64":"AP8="}}]}"#,
        );
        let read = json_of(&body).unwrap();
        let payloads: Vec<&[u8]> = read.messages.iter().map(|m| &*m.payload).collect();
        assert_eq!(payloads, [&b"plain"[..], b"a\nb", &[0, 255]]);
        let place = read.messages.first().unwrap().payload.as_ptr();
        assert!(body.as_ptr_range().contains(&place), "it shares the request's memory");
    }

    #[test]
    fn what_has_another_shape_is_refused_with_words_in_both_formats() {
        for (body, words) in [
            (json!({"messages": []}), "missing field `version`"),
            (json!({"version": 2, "messages": []}), "version"),
            (json!({"version": 1}), "missing field `messages`"),
            (json!({"version": 1, "messages": {}}), "messages"),
            (json!({"version": 1, "message": []}), "did you mean `messages`?"),
            (json!({"version": 1, "messages": [], "sequence": 1}), "go together"),
            (json!({"version": 1, "messages": [], "producer": "x", "sequence": -1}), ""),
            (json!({"version": 1, "messages": [{}]}), "missing field `payload`"),
            (json!({"version": 1, "messages": [{"payload": null}]}), ""),
            (json!({"version": 1, "messages": [{"payload": 5}]}), ""),
            (json!({"version": 1, "messages": [{"payload": "", "partition": -1}]}), ""),
            (
                json!({"version": 1, "messages": [{"payload": "", "partition": 4_294_967_296_u64}]}),
                "",
            ),
            (json!({"version": 1, "messages": [{"payload": "", "ttlMs": 1.5}]}), ""),
            (
                json!({"version": 1, "messages": [{"payload": "", "deliverAt": "noon"}]}),
                "is no time",
            ),
            (json!({"version": 1, "messages": [{"payload": "", "headers": []}]}), ""),
            (json!({"version": 1, "messages": [{"payload": "", "headers": {"a": 1}}]}), ""),
            (
                json!({"version": 1, "messages": [{"payload": "", "keys": ""}]}),
                "did you mean `key`?",
            ),
            (json!({"version": 1, "messages": ["x"]}), ""),
            (json!([]), ""),
            (json!(7), ""),
        ] {
            let text = Bytes::from(body.to_string());
            for problem in [json_of(&text).unwrap_err(), packed_of(&body).unwrap_err()] {
                assert_eq!(problem.code, Code::RequestInvalid, "{body}: {}", problem.detail);
                assert!(problem.detail.contains(words), "{body}: {}", problem.detail);
            }
        }
        for payload in [r#"{"base64":"*"}"#, r#"{"base32":"x"}"#, r#"{"base64":"","x":1}"#, "{}"] {
            let text = format!(r#"{{"version":1,"messages":[{{"payload":{payload}}}]}}"#);
            let problem = json_of(&Bytes::from(text)).unwrap_err();
            assert_eq!(problem.code, Code::RequestInvalid, "{payload}: {}", problem.detail);
        }
        let twice = br#"{"version":1,"messages":[{"payload":"","headers":{"a":"1","a":"2"}}]}"#;
        let problem = json_of(&Bytes::from_static(twice)).unwrap_err();
        assert!(problem.detail.contains("comes twice"), "{}", problem.detail);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(
            body in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                r#"\{"version":1,("(messages|producer)":(\[\{"(payload|key)":("x"|\{"base64":"A"\}|1),?\}\]|null),?){0,3}\}"#
                    .prop_map(String::into_bytes),
            ],
        ) {
            let body = Bytes::from(body);
            drop(json_of(&body));
            drop(from_msgpack("orders".parse().unwrap(), body));
        }

        #[test]
        fn a_body_that_is_cut_or_changed_is_read_or_refused(
            cut in 0_usize..200, at in 0_usize..200, byte: u8,
        ) {
            let mut out = Vec::new();
            let body = json!({"version": 1, "messages": [
                {"payload": "x", "key": "k", "headers": {"a": "b"}, "partition": 1, "ttlMs": 300},
                {"payload": "y".repeat(40), "deliverAt": "2030-01-01T00:00:00Z"},
            ]});
            super::super::msgpack::from_json(&body, &mut out);
            if let Some(place) = out.get_mut(at) {
                *place = byte;
            }
            out.truncate(cut.max(1));
            drop(from_msgpack("orders".parse().unwrap(), out.into()));
        }
    }
}
