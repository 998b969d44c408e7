//! Messages and verdicts on their way in.
//!
//! A body is parsed once. A payload is checked to be one JSON value and kept as it was written; it
//! shares the memory of the request.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_exchange::{
    EntityId, Kind, MessageId, NewMessage, NewReply, Outcome, ProcessId, Status, Step, Verdict,
    WORDS_BYTES_MAX,
};
use handoff_store_embedded::folders::FileName;
use handoff_types::{Code, Wall};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::digest::Digest;
use super::{bad_name, invalid};
use crate::http::json::{V1, decode};
use crate::http::problem::Problem;
use crate::http::stamp::read_stamp;

/// Things in a list, whatever the configuration allows: what is read of a body is bounded before it
/// is looked at.
const MANY_MAX: usize = 10_000;

/// The longest text of a time.
const TIME_BYTES_MAX: usize = 40;

/// How much is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) message_bytes: usize,
    pub(super) many: usize,
}

/// Who sends, and to whom what it sends goes.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) from: EntityId,
    /// None if it goes nowhere, which the room says better.
    pub(super) to: Option<EntityId>,
    pub(super) subsystem: EntityId,
}

/// A list of at most [`MANY_MAX`].
struct Many<T>(Vec<T>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MessageBody<'a> {
    #[serde(default)]
    #[allow(dead_code, reason = "only that it is known")]
    version: Option<V1>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    created_at: Cow<'a, str>,
    #[serde(default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    reply_to: Option<Cow<'a, str>>,
    #[serde(default)]
    from: Option<Cow<'a, str>>,
    #[serde(default)]
    to: Option<Cow<'a, str>>,
    #[serde(default)]
    app_system: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Several messages, or one whose fields stand beside the version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PostBody<'a> {
    version: V1,
    #[serde(default, borrow)]
    messages: Option<Many<MessageBody<'a>>>,
    #[serde(default)]
    id: Option<Cow<'a, str>>,
    #[serde(default)]
    created_at: Option<Cow<'a, str>>,
    #[serde(default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    reply_to: Option<Cow<'a, str>>,
    #[serde(default)]
    from: Option<Cow<'a, str>>,
    #[serde(default)]
    to: Option<Cow<'a, str>>,
    #[serde(default)]
    app_system: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PrepareBody<'a> {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    #[serde(borrow)]
    verdicts: Many<VerdictBody<'a>>,
    #[serde(default, borrow)]
    messages: Option<Many<MessageBody<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VerdictBody<'a> {
    #[serde(borrow)]
    message_id: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    code: Option<i64>,
    #[serde(default)]
    error: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AckBody<'a> {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    #[serde(borrow)]
    ids: Many<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FilesBody<'a> {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    #[serde(borrow)]
    files: Many<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OutcomesBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    outcomes: Vec<OutcomeBody>,
}

/// What became of a process.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProcessOutcome)]
pub(in crate::http) struct OutcomeBody {
    /// Which.
    process_id: String,
    /// `COMMITTED` or `ROLLED_BACK`.
    outcome: String,
}

/// Reads what a device sends: one message, or several.
pub(super) fn posted(
    body: &Bytes,
    sender: &Sender,
    bounds: Bounds,
) -> Result<Vec<NewMessage>, Problem> {
    let messages = decode::<PostBody<'_>>(body)?.into_messages()?;
    if messages.is_empty() {
        return Err(invalid("there is no message in the request"));
    }
    expect_few(messages.len(), bounds.many)?;
    let read = messages.into_iter().map(|message| {
        let to = sender.to.as_ref().map(EntityId::as_str);
        expect_same("from", message.from.as_deref(), Some(sender.from.as_str()))?;
        expect_same("to", message.to.as_deref(), to)?;
        expect_same("appSystem", message.app_system.as_deref(), Some(sender.subsystem.as_str()))?;
        message.read(body, bounds)
    });
    read.collect()
}

/// Reads `API_3`.
pub(super) fn prepared(body: &Bytes, database: &str, bounds: Bounds) -> Result<Step, Problem> {
    let PrepareBody { verdicts, messages, .. } = decode(body)?;
    let messages = messages.map_or_else(Vec::new, |Many(messages)| messages);
    expect_few(verdicts.0.len(), bounds.many)?;
    expect_few(messages.len(), bounds.many)?;
    let mut digest = Digest::new("prepare");
    let verdicts = verdicts.0.into_iter().map(VerdictBody::read);
    let verdicts: Vec<Verdict> = verdicts.collect::<Result<_, Problem>>()?;
    for verdict in &verdicts {
        digest.part(verdict.message.as_str().as_bytes());
        digest.part(verdict.status.text().as_bytes());
        digest.maybe(verdict.code.map(|code| code.to_string()).as_deref());
        digest.maybe(verdict.error.as_deref());
    }
    digest.part(b"messages");
    let mut replies = Vec::with_capacity(messages.len());
    for message in messages {
        expect_same("from", message.from.as_deref(), Some(database))?;
        let Some(to) = message.to.as_deref() else {
            return Err(invalid(format!("message {}: it does not say `to`", shown(&message.id))));
        };
        let to = to.parse::<EntityId>().map_err(bad_name)?;
        if let Some(subsystem) = message.app_system.as_deref() {
            subsystem.parse::<EntityId>().map_err(bad_name)?;
        }
        digest.part(to.as_str().as_bytes());
        let message = message.read(body, bounds)?;
        digest.part(&message.digest.to_le_bytes());
        replies.push(NewReply { to, message });
    }
    Ok(Step::Prepare { verdicts, messages: replies, digest: digest.end() })
}

/// Reads what a device has.
pub(super) fn acked(body: &Bytes, many: usize) -> Result<Vec<MessageId>, Problem> {
    let AckBody { ids, .. } = decode(body)?;
    message_ids(&ids.0, many)
}

/// Reads `API_2`.
pub(super) fn files(body: &Bytes, many: usize) -> Result<Vec<MessageId>, Problem> {
    let FilesBody { files, .. } = decode(body)?;
    message_ids(&files.0, many)
}

fn message_ids(texts: &[Cow<'_, str>], many: usize) -> Result<Vec<MessageId>, Problem> {
    expect_few(texts.len(), many)?;
    texts.iter().map(|id| id.parse::<MessageId>().map_err(bad_name)).collect()
}

/// Reads what became of processes.
pub(super) fn outcomes(body: &Bytes, many: usize) -> Result<Vec<Outcome>, Problem> {
    let OutcomesBody { outcomes, .. } = decode(body)?;
    expect_few(outcomes.len(), many)?;
    outcomes.iter().map(OutcomeBody::read).collect()
}

/// Reads a file that somebody put into a folder: what a message is stored as, whose name says the
/// same.
///
/// # Errors
/// In words.
pub(crate) fn read_file(name: &FileName, content: &Bytes) -> Result<NewMessage, String> {
    let message: MessageBody<'_> =
        serde_json::from_slice(content).map_err(|why| format!("it cannot be read: {why}"))?;
    let says = |field: &str, text: Option<&str>, expected: &str| match text {
        Some(text) if text != expected => Err(format!("its `{field}` is not the one of its name")),
        _ => Ok(()),
    };
    says("id", Some(&message.id), name.id.as_str())?;
    says("from", message.from.as_deref(), name.from.as_str())?;
    says("to", message.to.as_deref(), name.to.as_str())?;
    let kind = name.kind.as_ref().map(|kind| kind.as_str());
    if message.kind.as_deref() != kind {
        return Err("its `type` is not the one of its name".to_owned());
    }
    let bounds = Bounds { message_bytes: usize::MAX, many: 1 };
    message.read(content, bounds).map_err(|problem| problem.detail)
}

impl<'a> PostBody<'a> {
    fn into_messages(self) -> Result<Vec<MessageBody<'a>>, Problem> {
        let Self {
            version,
            messages,
            id,
            created_at,
            kind,
            reply_to,
            from,
            to,
            app_system,
            payload,
        } = self;
        if let Some(Many(messages)) = messages {
            let alone = id.is_none() && created_at.is_none() && payload.is_none();
            let rest = [&kind, &reply_to, &from, &to, &app_system];
            if alone && rest.iter().all(|field| field.is_none()) {
                return Ok(messages);
            }
            let words = "`messages` stands alone: each of them has its own fields";
            return Err(Problem::new(Code::RequestInvalid, words));
        }
        let missing = |name| Problem::new(Code::RequestInvalid, format!("missing field `{name}`"));
        let (id, created_at) =
            (id.ok_or_else(|| missing("id"))?, created_at.ok_or_else(|| missing("createdAt"))?);
        let payload = payload.ok_or_else(|| missing("payload"))?;
        let version = Some(version);
        Ok(vec![MessageBody {
            version,
            id,
            created_at,
            kind,
            reply_to,
            from,
            to,
            app_system,
            payload,
        }])
    }
}

impl MessageBody<'_> {
    fn read(self, body: &Bytes, bounds: Bounds) -> Result<NewMessage, Problem> {
        let id = self.id.parse::<MessageId>().map_err(bad_name)?;
        let payload = self.payload.get();
        if payload.len() > bounds.message_bytes {
            let max = bounds.message_bytes;
            let words = format!("message {id}: a payload has at most {max} bytes");
            return Err(Problem::new(Code::RequestTooLarge, words));
        }
        let kind = self.kind.as_deref().map(str::parse::<Kind>).transpose().map_err(bad_name)?;
        let reply_to = self.reply_to.as_deref().map(str::parse::<MessageId>).transpose();
        let reply_to = reply_to.map_err(bad_name)?;
        let created = read_time(&self.created_at)
            .map_err(|why| invalid(format!("message {id}: `createdAt`: {why}")))?;
        let mut digest = Digest::new("message");
        digest.part(id.as_str().as_bytes());
        digest.maybe(kind.as_ref().map(Kind::as_str));
        digest.part(self.created_at.as_bytes());
        digest.maybe(reply_to.as_ref().map(MessageId::as_str));
        digest.part(payload.as_bytes());
        Ok(NewMessage {
            id,
            kind,
            created,
            created_text: self.created_at.as_ref().into(),
            reply_to,
            payload: body.slice_ref(payload.as_bytes()),
            digest: digest.end(),
        })
    }
}

impl VerdictBody<'_> {
    fn read(self) -> Result<Verdict, Problem> {
        let message = self.message_id.parse::<MessageId>().map_err(bad_name)?;
        let status = self.status.parse::<Status>().map_err(|()| {
            let status = shown(&self.status);
            invalid(format!(
                "message {message}: `{status}` is no verdict; there are PROCESSED, PROCESSED_DEADLOCK, PROCESSED_INCORRECT"
            ))
        })?;
        let error = self.error.as_deref().map(words);
        Ok(Verdict { message, status, code: self.code, error })
    }
}

impl OutcomeBody {
    pub(super) fn read(&self) -> Result<Outcome, Problem> {
        let id = self.process_id.parse::<ProcessId>();
        let id =
            id.map_err(|_| invalid(format!("`{}` is no process id", shown(&self.process_id))))?;
        let committed = match self.outcome.as_str() {
            "COMMITTED" => true,
            "ROLLED_BACK" => false,
            other => {
                let other = shown(other);
                return Err(invalid(format!(
                    "`{other}` is no outcome; there are COMMITTED, ROLLED_BACK"
                )));
            }
        };
        Ok(Outcome { id, committed })
    }
}

/// As much of what somebody says as is kept, and nothing that steers a terminal.
pub(super) fn words(text: &str) -> Box<str> {
    let cut = text.get(..text.floor_char_boundary(WORDS_BYTES_MAX)).unwrap_or_default();
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().into()
}

/// A time that can stand in JSON as it is.
fn read_time(text: &str) -> Result<Wall, String> {
    let plain = |byte: u8| byte.is_ascii_digit() || b"TtZz:.+-".contains(&byte);
    if text.len() > TIME_BYTES_MAX || !text.bytes().all(plain) {
        return Err("it is no time: write it like 2027-01-01T00:00:00Z".to_owned());
    }
    read_stamp(text)
}

fn expect_same(field: &str, said: Option<&str>, is: Option<&str>) -> Result<(), Problem> {
    match (said, is) {
        (Some(said), Some(is)) if said != is => {
            Err(invalid(format!("`{field}` is `{}`; for this token it is `{is}`", shown(said))))
        }
        (Some(said), None) => said.parse::<EntityId>().map(drop).map_err(bad_name),
        _ => Ok(()),
    }
}

fn expect_few(count: usize, many: usize) -> Result<(), Problem> {
    match count > many {
        true => Err(invalid(format!("a request has at most {many} of them, this one has {count}"))),
        false => Ok(()),
    }
}

fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(64)).unwrap_or_default()
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Many<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = seq.next_element()? {
                    if many.len() >= MANY_MAX {
                        let words = format!("a request has at most {MANY_MAX} of them");
                        return Err(A::Error::custom(words));
                    }
                    many.push(one);
                }
                Ok(Many(many))
            }
        }
        deserializer.deserialize_seq(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Sender, acked, files, outcomes, posted, prepared, read_file};
    use bytes::Bytes;
    use handoff_exchange::Step;
    use handoff_store_embedded::folders::FileName;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { message_bytes: 1 << 20, many: 100 };

    fn sender() -> Sender {
        let id = |text: &str| text.parse().unwrap();
        Sender { from: id("phone"), to: Some(id("erp")), subsystem: id("stock") }
    }

    fn digest(body: &str) -> u64 {
        posted(&Bytes::from(body.to_owned()), &sender(), BOUNDS).unwrap()[0].digest
    }

    #[test]
    fn what_a_sender_says_of_itself_or_leaves_out_is_the_same_message() {
        let one = r#"{"version":1,"id":"a","createdAt":"2027-01-01T00:00:00Z","payload":[1, 2]}"#;
        let same = r#"{"payload":[1, 2],"from":"phone","to":"erp","appSystem":"stock","createdAt":"2027-01-01T00:00:00Z","id":"a","version":1}"#;
        let batch = format!(r#"{{"version":1,"messages":[{one}]}}"#);
        assert_eq!(digest(one), digest(same));
        assert_eq!(digest(one), digest(&batch));
        for other in [
            one.replace("[1, 2]", "[1,2]"),
            one.replace("2027", "2028"),
            one.replace(r#""a""#, r#""b""#),
            one.replace("\"payload", "\"type\":\"x\",\"payload"),
            one.replace("\"payload", "\"replyTo\":\"x\",\"payload"),
        ] {
            assert_ne!(digest(one), digest(&other), "{other}");
        }
    }

    #[test]
    fn a_payload_shares_the_memory_of_its_request() {
        let body = Bytes::from_static(
            br#"{"version":1,"id":"a","createdAt":"2027-01-01T00:00:00Z","payload": {"x" : 1} }"#,
        );
        let message = posted(&body, &sender(), BOUNDS).unwrap().remove(0);
        assert_eq!(message.payload, r#"{"x" : 1}"#);
        assert!(body.as_ptr_range().contains(&message.payload.as_ptr()));
    }

    #[test]
    fn the_order_of_verdicts_and_messages_is_part_of_a_call() {
        let of = |body: &str| match prepared(&Bytes::from(body.to_owned()), "erp", BOUNDS).unwrap()
        {
            Step::Prepare { digest, .. } => digest,
            other => panic!("{other:?}"),
        };
        let a = r#"{"messageId":"a","status":"PROCESSED"}"#;
        let b = r#"{"messageId":"b","status":"PROCESSED"}"#;
        let one = format!(r#"{{"version":1,"verdicts":[{a},{b}]}}"#);
        let same = format!(r#"{{"messages":[],"verdicts":[{a},{b}],"version":1}}"#);
        let other = format!(r#"{{"version":1,"verdicts":[{b},{a}]}}"#);
        assert_eq!(of(&one), of(&same));
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn a_file_says_what_its_name_says() {
        let name: FileName = "0000000000000000-a_from_phone_to_erp__DOCS.json".parse().unwrap();
        let read = |text: &str| read_file(&name, &Bytes::from(text.to_owned()));
        let whole = r#"{"version":1,"id":"a","from":"phone","to":"erp","appSystem":"stock","createdAt":"2027-01-01T00:00:00Z","type":"DOCS","payload":1}"#;
        assert_eq!(read(whole).unwrap().id.as_str(), "a");
        for (from, to) in [
            (r#""id":"a""#, r#""id":"b""#),
            (r#""from":"phone""#, r#""from":"other""#),
            (r#""to":"erp""#, r#""to":"other""#),
            ("DOCS", "REFS"),
            (r#""type":"DOCS","#, ""),
            ("}", ""),
            ("2027-01-01T00:00:00Z", "today"),
        ] {
            assert!(read(&whole.replace(from, to)).is_err(), "{from} {to}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(
            body in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                r#"\{("(version|messages|id|createdAt|payload|verdicts|files|ids|outcomes|to)":(1|"2027-01-01T00:00:00Z"|"a"|null|"\.\./x"|\[\]|\{\}|\[\{"id":"a","createdAt":"2027-01-01T00:00:00Z","payload":1\}\]),?){0,6}\}?"#
                    .prop_map(String::into_bytes),
            ],
        ) {
            let body = Bytes::from(body);
            drop(posted(&body, &sender(), BOUNDS));
            drop(prepared(&body, "erp", BOUNDS));
            drop(acked(&body, 10));
            drop(files(&body, 10));
            drop(outcomes(&body, 10));
        }
    }
}
