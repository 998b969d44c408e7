//! What a device asks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::admin::ROOM;
use super::{Body, Device, DeviceEntry};
use crate::client::{Client, VERSION};
use crate::{Error, Target, Time};

/// What a device asks. Its client shows the device's token.
#[derive(Clone, Copy, Debug)]
pub struct AsDevice<'a> {
    client: &'a Client,
}

/// A message that a device sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct NewMessage {
    id: String,
    created_at: Time,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    payload: Value,
}

impl NewMessage {
    /// A message under an id that the device never uses for another, of 1 to 36 letters, digits
    /// and dashes.
    pub fn new(id: impl Into<String>, created_at: Time, payload: Value) -> Self {
        Self { id: id.into(), created_at, kind: None, reply_to: None, payload }
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

/// What became of a message that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Receipt {
    /// Which.
    pub id: String,
    /// `stored`, or `duplicate`: it was there already.
    pub status: String,
    /// Its place in the order of all messages.
    pub seq: u64,
    /// When the server got it first.
    pub received_at: Time,
}

/// A message, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stored {
    /// What its sender calls it.
    pub id: String,
    /// The id of a device, or of a database.
    pub from: String,
    /// The other.
    pub to: String,
    /// What the device is part of.
    pub app_system: String,
    /// When its sender made it.
    pub created_at: Time,
    /// The message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What kind of message it is.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it says.
    pub payload: Value,
    /// How often an ERP was given it, this time included. Not for devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
}

/// Messages for a device.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inbox {
    /// The oldest first.
    pub messages: Vec<Stored>,
    /// Whether there are more.
    #[serde(default)]
    pub more: bool,
}

impl<'a> AsDevice<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// What the server knows of this device, and how much waits for it.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn look(&self) -> Result<Device, Error> {
        self.client.get_json(Target::new(ROOM).segment("device").as_str()).await
    }

    /// Sends messages, all or none. On disk when it answers; what was sent before is stored once.
    ///
    /// # Errors
    /// [`Error`]; `exchange.message_reused` if an id stands for another message, `exchange.no_route` if
    /// they have nowhere to go.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn send(&self, messages: &[NewMessage]) -> Result<Vec<Receipt>, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            messages: &'a [NewMessage],
        }
        #[derive(Deserialize)]
        struct Answer {
            results: Vec<Receipt>,
        }
        let body = Body { version: VERSION, rest: These { messages } };
        let target = Target::new(ROOM).segment("messages");
        let answer: Answer = self.client.post_json(target.as_str(), &body).await?;
        Ok(answer.results)
    }

    /// Messages that wait for this device, the oldest first: at most so many, and if there are none
    /// it waits for so many seconds. They come again until [`AsDevice::ack`].
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn receive(&self, limit: Option<u32>, wait_secs: u32) -> Result<Inbox, Error> {
        let target = Target::new(ROOM).segment("messages").queries("limit", limit);
        let target = if wait_secs > 0 { target.query("wait", wait_secs) } else { target };
        self.client.get_json(target.as_str()).await
    }

    /// Says that messages are received; they do not come again. Gives how many were not before.
    ///
    /// # Errors
    /// [`Error`]; `exchange.not_found` if one is not for this device: nothing changed then.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn ack(&self, ids: &[&str]) -> Result<u64, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            ids: &'a [&'a str],
        }
        #[derive(Deserialize)]
        struct Answer {
            acked: u64,
        }
        let body = Body { version: VERSION, rest: These { ids } };
        let target = Target::new(ROOM).segment("messages").segment("ack");
        let answer: Answer = self.client.post_json(target.as_str(), &body).await?;
        Ok(answer.acked)
    }

    /// Tells the administrator something. Kept in memory only.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn tell(&self, entries: &[DeviceEntry]) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            at: &'a Time,
            text: &'a str,
        }
        #[derive(Serialize)]
        struct These<'a> {
            entries: Vec<Line<'a>>,
        }
        let entries =
            entries.iter().map(|entry| Line { at: &entry.at, text: &entry.text }).collect();
        let body = Body { version: VERSION, rest: These { entries } };
        let target = Target::new(ROOM).segment("device").segment("log");
        let _: Value = self.client.post_json(target.as_str(), &body).await?;
        Ok(())
    }
}
