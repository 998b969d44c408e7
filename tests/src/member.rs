//! Somebody in a group, as its own program sees it: joining, polling, committing, over one
//! connection that it is told.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Answer, Http};

/// Somebody in a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// The group.
    pub group: String,
    /// Its id.
    pub id: String,
    /// Grows whenever partitions change hands.
    pub generation: u64,
    /// What it had when it joined: topic, partition, committed offset.
    pub assigned: Vec<(String, u32, u64)>,
}

/// Messages that were handed out together: consecutive offsets of a partition.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub base: u64,
    /// How often they were handed out, this time included.
    pub attempt: u32,
    /// Under which lease.
    pub lease: u64,
    /// The messages, as JSON says them.
    pub messages: Vec<Value>,
}

/// What is said of messages that were handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// `ok`, `failed`, `retry` or `extend`.
    pub status: String,
    /// Under which lease.
    pub lease: u64,
    /// When it is to be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// What became of a verdict, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// `done`, `late` or `fenced`.
    pub outcome: String,
}

impl Outcome {
    /// Whether what was said counts.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.outcome == "done" || self.outcome == "late"
    }
}

/// Asks to join a group. More is said with `more`: `topics`, `client`, `sessionTimeoutMs`.
///
/// # Errors
/// When the connection is gone.
pub fn join(http: &mut Http, group: &str, more: &Value) -> io::Result<Answer> {
    http.ask("POST", &format!("/v1/streams/groups/{group}/members"), Some(&versioned(more)))
}

impl Member {
    /// Whoever was let in with this answer.
    ///
    /// # Errors
    /// With the answer, if it was not.
    pub fn of(group: &str, answer: &Answer) -> io::Result<Self> {
        let joined = body(answer, 201)?;
        let assigned = joined.get("assignment").and_then(Value::as_array);
        let one = |one: &Value| {
            let (topic, partition) = place(one)?;
            Some((topic, partition, one.get("committed")?.as_u64()?))
        };
        let assigned = assigned.and_then(|all| all.iter().map(one).collect());
        let id = joined.get("member").and_then(Value::as_str).map(str::to_owned);
        let generation = joined.get("generation").and_then(Value::as_u64);
        match (id, generation, assigned) {
            (Some(id), Some(generation), Some(assigned)) => {
                Ok(Self { group: group.to_owned(), id, generation, assigned })
            }
            _ => Err(strange(answer)),
        }
    }

    /// A path of its own.
    #[must_use]
    pub fn path(&self, what: &str) -> String {
        format!("/v1/streams/groups/{}/members/{}{what}", self.group, self.id)
    }

    /// Asks for messages. More is said with `more`: `maxMessages`, `maxBytes`, `waitMs`.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn poll(&self, http: &mut Http, more: &Value) -> io::Result<Answer> {
        http.ask("POST", &self.path("/poll"), Some(&versioned(more)))
    }

    /// Says how it went, and what is stored with it.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn commit(
        &self,
        http: &mut Http,
        results: &[Verdict],
        produce: Option<&Value>,
    ) -> io::Result<Answer> {
        let mut commit = json!({ "version": 1, "results": results });
        if let (Some(produce), Some(commit)) = (produce, commit.as_object_mut()) {
            commit.insert("produce".to_owned(), produce.clone());
        }
        http.ask("POST", &self.path("/commit"), Some(&commit))
    }

    /// Leaves.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn leave(&self, http: &mut Http) -> io::Result<Answer> {
        http.ask("DELETE", &self.path(""), None)
    }
}

impl Batch {
    /// The batches of an answer to a poll.
    ///
    /// # Errors
    /// With the answer, if there are none in it.
    pub fn all(answer: &Answer) -> io::Result<Vec<Self>> {
        let polled = body(answer, 200)?;
        let batches = polled.get("batches").and_then(Value::as_array);
        let batches = batches.and_then(|all| all.iter().map(Self::read).collect());
        batches.ok_or_else(|| strange(answer))
    }

    fn read(batch: &Value) -> Option<Self> {
        let (topic, partition) = place(batch)?;
        let number = |name: &str| batch.get(name)?.as_u64();
        let messages = batch.get("messages")?.as_array()?.clone();
        let attempt = u32::try_from(number("attempt")?).ok()?;
        let (base, lease) = (number("baseOffset")?, number("lease")?);
        let whole = number("count")? == messages.len() as u64;
        whole.then_some(Self { topic, partition, base, attempt, lease, messages })
    }

    /// The offsets.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        (self.base..).take(self.messages.len())
    }

    /// The same said of all of them.
    #[must_use]
    pub fn verdict(&self, status: &str) -> Verdict {
        let last = self.base + (self.messages.len() as u64).saturating_sub(1);
        self.part(self.base, last, status)
    }

    /// Something said of some of them.
    #[must_use]
    pub fn part(&self, from: u64, to: u64, status: &str) -> Verdict {
        let (topic, status) = (self.topic.clone(), status.to_owned());
        let (partition, lease) = (self.partition, self.lease);
        Verdict { topic, partition, from, to, status, lease, delay_ms: None }
    }
}

/// What became of the verdicts of a commit.
///
/// # Errors
/// With the answer, if it was not taken.
pub fn outcomes(answer: &Answer) -> io::Result<Vec<Outcome>> {
    let results = body(answer, 200)?.get("results").cloned();
    let outcomes = results.and_then(|results| serde_json::from_value(results).ok());
    outcomes.ok_or_else(|| strange(answer))
}

/// The code of a refusal; empty if it is none.
#[must_use]
pub fn code(answer: &Answer) -> String {
    let body = answer.json().unwrap_or_default();
    body.get("code").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The topic and the partition something names.
#[must_use]
pub fn place(of: &Value) -> Option<(String, u32)> {
    let partition = u32::try_from(of.get("partition")?.as_u64()?).ok()?;
    Some((of.get("topic")?.as_str()?.to_owned(), partition))
}

fn body(answer: &Answer, status: u16) -> io::Result<Value> {
    if answer.status == status { answer.json() } else { Err(strange(answer)) }
}

fn strange(answer: &Answer) -> io::Error {
    let body = String::from_utf8_lossy(&answer.body);
    io::Error::other(format!("{} was not expected: {body:.500}", answer.status))
}

fn versioned(more: &Value) -> Value {
    let mut body = more.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("version".to_owned(), json!(1));
    }
    body
}
