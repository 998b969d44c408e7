//! Commits on their way in, as JSON and MessagePack say them.

use std::borrow::Cow;

use bytes::Bytes;
use handoff_streams::Produce;
use handoff_streams::groups::{LeaseId, VerdictStatus};
use handoff_types::Span;
use serde::Deserialize;

use crate::http::json::{V1, decode};
use crate::http::problem::Problem;
use crate::http::streams::incoming::{
    Messages, as_str, bad, fields, finish, messages_of, number, once, text, unknown, wrong,
};
use crate::http::streams::msgpack::{Bad, Token, Unpack, invalid};
use crate::http::streams::wire::topic_name;
use crate::rooms::streams::Said;

/// Results of one commit, whatever the configuration allows.
const RESULTS_MAX: usize = 100_000;

/// Requests to store something in one commit.
const PRODUCE_MAX: usize = 1_000;

/// What a commit says.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) results: Vec<Said>,
    pub(super) produce: Vec<Produce>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Commit<'a> {
    version: V1,
    results: Vec<Verdict>,
    #[serde(default, borrow)]
    produce: Option<Vec<Request<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Verdict {
    topic: String,
    partition: u32,
    from: u64,
    to: u64,
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    lease: Option<u64>,
    #[serde(default)]
    delay_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request<'a> {
    topic: String,
    #[serde(default, borrow)]
    producer: Option<Cow<'a, str>>,
    #[serde(default)]
    sequence: Option<u64>,
    #[serde(borrow)]
    messages: Messages<'a>,
}

/// Reads a commit from JSON.
pub(super) fn from_json(body: &Bytes) -> Result<Incoming, Problem> {
    let Commit { version: V1, results, produce } = decode(body)?;
    let produce = produce.unwrap_or_default();
    check(results.len(), produce.len())?;
    let results = results.into_iter().enumerate();
    let results = results.map(|(n, verdict)| said(n, verdict)).collect::<Result<_, _>>()?;
    let mut requests = Vec::with_capacity(produce.len());
    for Request { topic, producer, sequence, messages } in produce {
        let mut read = Vec::with_capacity(messages.0.len());
        for (n, message) in messages.0.into_iter().enumerate() {
            read.push(message.into_message(body).map_err(|why| wrong(n, &why))?);
        }
        requests.push(finish(topic_name(&topic)?, producer.as_deref(), sequence, read)?);
    }
    Ok(Incoming { results, produce: requests })
}

fn check(results: usize, produce: usize) -> Result<(), Problem> {
    if results > RESULTS_MAX {
        return Err(bad(&format!("a commit has at most {RESULTS_MAX} results")));
    }
    if produce > PRODUCE_MAX {
        return Err(bad(&format!(
            "a commit has at most {PRODUCE_MAX} requests to store something"
        )));
    }
    Ok(())
}

fn said(number: usize, verdict: Verdict) -> Result<Said, Problem> {
    let Verdict { topic, partition, from, to, status, error, lease, delay_ms } = verdict;
    let status = match &*status {
        "ok" => VerdictStatus::Ok,
        "failed" => VerdictStatus::Failed,
        "retry" => VerdictStatus::Retry,
        "extend" => VerdictStatus::Extend,
        other => {
            let other = other.get(..other.floor_char_boundary(64)).unwrap_or_default();
            let words = "`status` is ok, failed, retry or extend";
            return Err(bad(&format!("result {number}: {words}, not `{other}`")));
        }
    };
    Ok(Said {
        topic: topic_name(&topic)?,
        partition,
        from,
        to,
        status,
        error,
        lease: lease.map(LeaseId),
        delay: delay_ms.map(Span::from_millis),
    })
}

/// Reads a commit from MessagePack.
pub(super) fn from_msgpack(body: Bytes) -> Result<Incoming, Problem> {
    let mut unpack = Unpack::new(body);
    let (mut version, mut results, mut produce) = (None, None, None);
    for _ in 0..fields(&mut unpack, "the body")? {
        let name = unpack.name()?;
        match &*name {
            b"version" => once(&mut version, "version", unpack.next()?)?,
            b"results" => {
                let read = list(&mut unpack, "results", RESULTS_MAX, verdict_of)?;
                once(&mut results, "results", read)?;
            }
            b"produce" => {
                let read = list(&mut unpack, "produce", PRODUCE_MAX, request_of)?;
                once(&mut produce, "produce", read)?;
            }
            other => return Err(unknown(other, &["version", "results", "produce"]).into()),
        }
    }
    unpack.end()?;
    match version {
        Some(Token::Unsigned(1)) => {}
        Some(_) => return Err(bad("this version is not known here; write version 1")),
        None => return Err(bad("missing field `version`")),
    }
    let results = results.flatten().ok_or_else(|| bad("missing field `results`"))?;
    let results = results.into_iter().enumerate();
    let results = results.map(|(n, verdict)| said(n, verdict)).collect::<Result<_, _>>()?;
    let produce = produce.flatten().unwrap_or_default().into_iter();
    let produce = produce.map(|(topic, producer, sequence, messages)| {
        let producer = producer.as_ref().map(as_str);
        finish(topic_name(&topic)?, producer, sequence, messages)
    });
    Ok(Incoming { results, produce: produce.collect::<Result<_, _>>()? })
}

/// A list; none if it is nil.
fn list<T>(
    unpack: &mut Unpack,
    name: &str,
    max: usize,
    mut read: impl FnMut(&mut Unpack) -> Result<T, Bad>,
) -> Result<Option<Vec<T>>, Bad> {
    let count = match unpack.next()? {
        Token::Nil => return Ok(None),
        Token::Array(count) if count <= max => count,
        Token::Array(_) => return invalid(format!("`{name}` has at most {max} elements")),
        other => return invalid(format!("`{name}` is {}, not an array", other.word())),
    };
    let mut all = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        all.push(read(unpack)?);
    }
    Ok(Some(all))
}

const VERDICT: [&str; 8] =
    ["topic", "partition", "from", "to", "status", "error", "lease", "delayMs"];

fn verdict_of(unpack: &mut Unpack) -> Result<Verdict, Bad> {
    let mut found: [Option<Token>; 8] = Default::default();
    for _ in 0..fields(unpack, "a result")? {
        let name = unpack.name()?;
        let known = VERDICT.iter().zip(&mut found).find(|(known, _)| known.as_bytes() == &*name);
        let Some((known, place)) = known else { return Err(unknown(&name, &VERDICT)) };
        once(place, known, unpack.next()?)?;
    }
    let [topic, partition, from, to, status, error, lease, delay] = found;
    let partition = needed_number(partition, "partition")?;
    Ok(Verdict {
        topic: needed_text(topic, "topic")?,
        partition: match u32::try_from(partition) {
            Ok(partition) => partition,
            Err(_) => return invalid("`partition` is too large a number"),
        },
        from: needed_number(from, "from")?,
        to: needed_number(to, "to")?,
        status: needed_text(status, "status")?,
        error: optional_text(error, "error")?,
        lease: lease.map(|token| number(token, "lease")).transpose()?.flatten(),
        delay_ms: delay.map(|token| number(token, "delayMs")).transpose()?.flatten(),
    })
}

type Packed = (String, Option<Bytes>, Option<u64>, Vec<handoff_streams::Message>);

const REQUEST: [&str; 4] = ["topic", "producer", "sequence", "messages"];

fn request_of(unpack: &mut Unpack) -> Result<Packed, Bad> {
    let (mut topic, mut producer, mut sequence, mut messages) = (None, None, None, None);
    for _ in 0..fields(unpack, "an element of `produce`")? {
        let name = unpack.name()?;
        match &*name {
            b"topic" => once(&mut topic, "topic", unpack.next()?)?,
            b"producer" => once(&mut producer, "producer", unpack.next()?)?,
            b"sequence" => once(&mut sequence, "sequence", unpack.next()?)?,
            b"messages" => {
                let read = messages_of(unpack)?;
                once(&mut messages, "messages", read)?;
            }
            other => return Err(unknown(other, &REQUEST)),
        }
    }
    let producer = producer.map(|token| text(token, "producer")).transpose()?.flatten();
    let sequence = sequence.map(|token| number(token, "sequence")).transpose()?.flatten();
    let Some(messages) = messages else { return invalid("missing field `messages`") };
    Ok((needed_text(topic, "topic")?, producer, sequence, messages))
}

fn optional_text(token: Option<Token>, name: &str) -> Result<Option<String>, Bad> {
    let read = token.map(|token| text(token, name)).transpose()?.flatten();
    Ok(read.map(|bytes| as_str(&bytes).to_owned()))
}

fn needed_text(token: Option<Token>, name: &str) -> Result<String, Bad> {
    match optional_text(token, name)? {
        Some(text) => Ok(text),
        None => invalid(format!("missing field `{name}`")),
    }
}

fn needed_number(token: Option<Token>, name: &str) -> Result<u64, Bad> {
    match token.map(|token| number(token, name)).transpose()?.flatten() {
        Some(number) => Ok(number),
        None => invalid(format!("missing field `{name}`")),
    }
}
