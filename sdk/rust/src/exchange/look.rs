//! What is in a database's folders, and what happened.

use serde::{Deserialize, Serialize};

use super::admin::ROOM;
use super::page::{One, Page};
use super::{Body, Exchange, Nothing, Process};
use crate::client::VERSION;
use crate::{Error, Target, Time};

/// Which messages of a database to list, by their place in the order of all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct MessageQuery {
    place: Option<String>,
    device: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

impl MessageQuery {
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those of one folder: `messages`, `prepared`, `log`, `unknown` or `error`.
    pub fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Only those from or to this device.
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// Only those after this place: the next page.
    pub fn after(mut self, after: impl Into<String>) -> Self {
        self.after = Some(after.into());
        self
    }

    /// At most so many a page.
    pub fn limit(mut self, messages: u32) -> Self {
        self.limit = Some(messages);
        self
    }
}

/// A message, as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Entry {
    /// Its place in the order of all messages.
    pub seq: u64,
    /// What its sender calls it.
    pub id: String,
    /// `toErp` or `toDevice`.
    pub direction: String,
    /// Whose, or for whom.
    pub device: String,
    /// What the device is part of.
    pub app_system: String,
    /// What kind of message it is.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// When its sender made it.
    pub created_at: Time,
    /// When the server got it.
    pub received_at: Time,
    /// Bytes of its body.
    pub bytes: u64,
    /// How often it was tried.
    pub attempts: u64,
    /// Its folder: `messages`, `prepared`, `log`, `unknown` or `error`.
    pub place: String,
    /// Since when it is there.
    pub since: Time,
    /// `free`, `late` (it waits after a failure), `served` (a process has it) or `aside`.
    pub standing: String,
    /// The process that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Why it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Something that people should know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogEntry {
    /// Entries are counted.
    pub number: u64,
    /// When.
    pub at: Time,
    /// What happened, such as `deadlock`, `incorrect`, `unknown`.
    pub what: String,
    /// Whether an administrator is to be told.
    #[serde(default)]
    pub alarming: bool,
    /// To which process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// To which message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What its sender calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The number that the ERP's database has for what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// The same in words.
    #[serde(default)]
    pub words: String,
}

/// A file that is in a folder of the exchange, and not of the exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForeignFile {
    /// Where.
    pub path: String,
    /// Why it is not served.
    pub reason: String,
}

/// All of them, as far as they are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Foreigners {
    /// Some, or all.
    pub files: Vec<ForeignFile>,
    /// Whether there are more than are named, of this database or of others.
    #[serde(default)]
    pub more: bool,
    /// Whether the folders were compared since the server started.
    #[serde(default)]
    pub compared: bool,
}

/// Where a database is.
pub(super) fn database(id: &str) -> Target {
    Target::new(ROOM).segment("databases").segment(id)
}

impl Exchange<'_> {
    /// One page of the messages of a database, the oldest first.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn messages(&self, of: &str, query: &MessageQuery) -> Result<Page<Entry>, Error> {
        let MessageQuery { place, device, after, limit } = query;
        let target = database(of).segment("messages");
        let target = target.queries("place", place).queries("device", device);
        Page::ask(self.client, target, "after", after.as_deref(), *limit).await
    }

    /// One message.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn message(&self, of: &str, seq: u64) -> Result<Entry, Error> {
        let target = database(of).segment("messages").segment(seq);
        let one: One<Entry> = self.client.get_json(target.as_str()).await?;
        Ok(one.item)
    }

    /// The body of a message, as it is stored: one JSON object.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn message_body(&self, of: &str, seq: u64) -> Result<String, Error> {
        let target = database(of).segment("messages").segment(seq).segment("body");
        self.client.get_text(target.as_str()).await
    }

    /// Puts messages of Log and Error back into their queues, all or none, and says how many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn requeue(&self, of: &str, messages: &[u64]) -> Result<u64, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            messages: &'a [u64],
        }
        #[derive(Deserialize)]
        struct Done {
            requeued: u64,
        }
        let body = Body { version: VERSION, rest: These { messages } };
        let target = database(of).segment("requeue");
        let done: Done = self.client.post_json(target.as_str(), &body).await?;
        Ok(done.requeued)
    }

    /// Has the folders of a database compared with what the server knows, soon after it answers.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn rescan(&self, of: &str) -> Result<(), Error> {
        let body = Body { version: VERSION, rest: Nothing {} };
        let target = database(of).segment("rescan");
        let _: serde_json::Value = self.client.post_json(target.as_str(), &body).await?;
        Ok(())
    }

    /// One page of the processes of a database, the latest first: those below a number.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn processes(
        &self,
        of: &str,
        below: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<Process>, Error> {
        Page::ask(self.client, database(of).segment("processes"), "below", below, limit).await
    }

    /// One page of what happened in a database, the latest first: entries below a number, and of these
    /// kinds, or of all.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn log(
        &self,
        of: &str,
        what: &[String],
        below: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<LogEntry>, Error> {
        let target = database(of).segment("log").queries("what", what);
        Page::ask(self.client, target, "below", below, limit).await
    }

    /// Files in the folders of a database that are not the exchange's. They are never served.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn foreign(&self, of: &str) -> Result<Foreigners, Error> {
        self.client.get_json(database(of).segment("foreign").as_str()).await
    }

    /// Figures of the whole room.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn stats(&self) -> Result<serde_json::Value, Error> {
        self.client.get_json(Target::new(ROOM).segment("stats").as_str()).await
    }
}
