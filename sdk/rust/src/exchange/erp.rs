//! What the ERP of a database asks: `API_1` to `API_6`, and what belongs to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::look::database;
use super::page::One;
use super::{Answered, Body, Nothing, Outcome, Page, Process, Resolution, Stored};
use crate::client::{Client, VERSION};
use crate::{Error, Target, Time};

/// What the ERP of a database asks. Its client shows the database's token, or one for the exchange.
#[derive(Clone, Debug)]
pub struct AsErp<'a> {
    client: &'a Client,
    database: String,
}

/// What an ERP wants to be given.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Wish {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    app_systems: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    producers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_files: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_sec: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<Outcome>,
}

impl Wish {
    /// As many as the server gives, of every subsystem and device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked again under the same key, the same process is answered: for when an answer was lost.
    pub fn request_key(mut self, key: impl Into<String>) -> Self {
        self.request_key = Some(key.into());
        self
    }

    /// Only messages of this subsystem, or of another that was named.
    pub fn subsystem(mut self, id: impl Into<String>) -> Self {
        self.app_systems.push(id.into());
        self
    }

    /// Only messages of this device, or of another that was named.
    pub fn producer(mut self, id: impl Into<String>) -> Self {
        self.producers.push(id.into());
        self
    }

    /// At most so many messages.
    pub fn max_files(mut self, messages: u32) -> Self {
        self.max_files = Some(messages);
        self
    }

    /// At most so many MiB, except that the first message is always given.
    pub fn max_mb(mut self, mib: f64) -> Self {
        self.max_mb = Some(mib);
        self
    }

    /// A shorter time than the server grants.
    pub fn lease(mut self, time: Duration) -> Self {
        self.lease_sec = Some(time.as_secs().max(1));
        self
    }

    /// What became of an earlier process, said first.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcomes.push(outcome);
        self
    }
}

/// What a begin leads to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Begun {
    /// A process has begun.
    Started(Started),
    /// There is nothing to process.
    Idle,
    /// Another process of the database is live.
    Busy {
        /// When to ask again, at the latest.
        retry_after: Duration,
    },
}

/// A process that has begun.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Started {
    /// What to call it by.
    pub process_id: String,
    /// When it is given up.
    pub deadline: Option<Time>,
    /// In the order to process them.
    pub messages: Vec<Stored>,
}

impl<'de> Deserialize<'de> for Begun {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            status: String,
            #[serde(default)]
            process_id: String,
            #[serde(default)]
            deadline: Option<Time>,
            #[serde(default)]
            messages: Vec<Stored>,
            #[serde(default)]
            retry_after_ms: u64,
        }
        let answer = Answer::deserialize(deserializer)?;
        let Answer { status, process_id, deadline, messages, retry_after_ms } = answer;
        match status.as_str() {
            "OK" => Ok(Self::Started(Started { process_id, deadline, messages })),
            "IDLE" => Ok(Self::Idle),
            "BUSY" => Ok(Self::Busy { retry_after: Duration::from_millis(retry_after_ms) }),
            other => Err(serde::de::Error::custom(format!("its status is {other}"))),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VerdictStatus {
    /// Its effects are in the transaction.
    Processed,
    /// It met a deadlock, and is to be given out again.
    ProcessedDeadlock,
    /// It cannot be processed.
    ProcessedIncorrect,
}

/// What the ERP says of a message it was given. Each needs one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Verdict {
    message_id: String,
    status: VerdictStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Verdict {
    /// Its effects are in the transaction.
    pub fn processed(message: impl Into<String>) -> Self {
        Self::of(message, VerdictStatus::Processed)
    }

    /// It met a deadlock, and is to be given out again.
    pub fn deadlock(message: impl Into<String>) -> Self {
        Self::of(message, VerdictStatus::ProcessedDeadlock)
    }

    /// It cannot be processed, and why.
    pub fn incorrect(message: impl Into<String>, error: impl Into<String>) -> Self {
        Self::of(message, VerdictStatus::ProcessedIncorrect).error(error)
    }

    /// The number that the database has for what went wrong.
    pub fn code(mut self, code: i64) -> Self {
        self.code = Some(code);
        self
    }

    /// The same in words.
    pub fn error(mut self, words: impl Into<String>) -> Self {
        self.error = Some(words.into());
        self
    }

    fn of(message: impl Into<String>, status: VerdictStatus) -> Self {
        Self { message_id: message.into(), status, code: None, error: None }
    }
}

/// A message from an ERP to a device of its company.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct NewReply {
    id: String,
    to: String,
    created_at: Time,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    payload: Value,
}

impl NewReply {
    /// A message to a device under an id that the database never uses for another.
    pub fn new(
        id: impl Into<String>,
        device: impl Into<String>,
        created_at: Time,
        payload: Value,
    ) -> Self {
        let (id, to) = (id.into(), device.into());
        Self { id, to, created_at, kind: None, reply_to: None, payload }
    }

    /// What kind of message it is: up to 24 letters, digits, dashes and underscores.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// The message it answers.
    pub fn reply_to(mut self, id: impl Into<String>) -> Self {
        self.reply_to = Some(id.into());
        self
    }
}

impl<'a> AsErp<'a> {
    pub(super) fn new(client: &'a Client, database: String) -> Self {
        Self { client, database }
    }

    /// `API_1`: begins a process with messages that wait.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn begin(&self, wish: &Wish) -> Result<Begun, Error> {
        let body = Body { version: VERSION, rest: wish };
        let target = database(&self.database).segment("processes");
        self.client.post_json(target.as_str(), &body).await
    }

    /// `API_2`: takes only these of the messages; the others are given out again.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn keep(&self, process: &str, messages: &[&str]) -> Result<Answered, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            files: &'a [&'a str],
        }
        let body = Body { version: VERSION, rest: These { files: messages } };
        self.client.put_json(self.target(process, "files").as_str(), &body).await
    }

    /// `API_3`: says what became of each message, and what goes to devices if the database commits.
    /// On disk when it answers. Cancelled, or without an answer, the database is to roll back; sent
    /// again as it was, it is answered as the first time.
    ///
    /// # Errors
    /// [`Error`]; `exchange.unfit` if a verdict is missing or too much, or a message has no device.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn prepare(
        &self,
        process: &str,
        verdicts: &[Verdict],
        messages: &[NewReply],
    ) -> Result<Answered, Error> {
        #[derive(Serialize)]
        struct Prepared<'a> {
            verdicts: &'a [Verdict],
            messages: &'a [NewReply],
        }
        let body = Body { version: VERSION, rest: Prepared { verdicts, messages } };
        self.client.put_json(self.target(process, "prepare").as_str(), &body).await
    }

    /// `API_4`: the database has committed. May be repeated.
    ///
    /// # Errors
    /// [`Error`]; `exchange.contradiction` if the opposite was said before.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn commit(&self, process: &str) -> Result<Answered, Error> {
        self.post(process, "commit", Nothing {}).await
    }

    /// `API_5`: the database has rolled back, and why. May be repeated.
    ///
    /// # Errors
    /// [`Error`]; `exchange.contradiction` if the opposite was said before.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn rollback(&self, process: &str, error: &str) -> Result<Answered, Error> {
        #[derive(Serialize)]
        struct Why<'a> {
            error: &'a str,
        }
        self.post(process, "rollback", Why { error }).await
    }

    /// `API_6`: gives a process up before it is prepared, and why.
    ///
    /// # Errors
    /// [`Error`]; `exchange.process_ready` once it is prepared.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn interrupt(&self, process: &str, reason: &str) -> Result<Answered, Error> {
        #[derive(Serialize)]
        struct Why<'a> {
            reason: &'a str,
        }
        self.post(process, "interrupt", Why { reason }).await
    }

    /// Still at work: the process is given up later.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn heartbeat(&self, process: &str) -> Result<Answered, Error> {
        self.post(process, "heartbeat", Nothing {}).await
    }

    /// One process.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn process(&self, id: &str) -> Result<Process, Error> {
        let target = database(&self.database).segment("processes").segment(id);
        let one: One<Process> = self.client.get_json(target.as_str()).await?;
        Ok(one.item)
    }

    /// Processes of which the server does not know whether they committed.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn in_doubt(&self) -> Result<Vec<Process>, Error> {
        let target = database(&self.database).segment("indoubt");
        let page: Page<Process> = self.client.get_json(target.as_str()).await?;
        Ok(page.items)
    }

    /// Says what became of processes that were ready. One that cannot be does not stop the others.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn resolve(&self, outcomes: &[Outcome]) -> Result<Vec<Resolution>, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            outcomes: &'a [Outcome],
        }
        #[derive(Deserialize)]
        struct Answer {
            results: Vec<Resolution>,
        }
        let body = Body { version: VERSION, rest: These { outcomes } };
        let target = database(&self.database).segment("resolve");
        let answer: Answer = self.client.post_json(target.as_str(), &body).await?;
        Ok(answer.results)
    }

    fn target(&self, process: &str, step: &str) -> Target {
        database(&self.database).segment("processes").segment(process).segment(step)
    }

    async fn post(
        &self,
        process: &str,
        step: &str,
        rest: impl Serialize,
    ) -> Result<Answered, Error> {
        let body = Body { version: VERSION, rest };
        self.client.post_json(self.target(process, step).as_str(), &body).await
    }
}
