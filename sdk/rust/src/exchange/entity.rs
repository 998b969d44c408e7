//! Who exchanges messages.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Process;
use crate::Time;

/// A company.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Company {
    /// Unique.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// A subsystem: one mobile solution, `appSystem` in messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Subsystem {
    /// Unique.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// A database behind an ERP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Database {
    /// `dbId`: unique among all companies, and the name of its folder.
    pub id: String,
    /// Whose it is.
    pub company: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Whether its ERP has a token of its own.
    #[serde(default)]
    pub has_token: bool,
    /// What waits. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// How many messages are elsewhere. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// Bytes of all its messages. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Processes that nobody decided. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_processes: Option<u64>,
    /// The process that keeps it busy, if there is one. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// Messages that wait in a database's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Waiting {
    /// For the ERP.
    pub to_erp: u64,
    /// For devices.
    pub to_devices: u64,
}

/// Messages of a database that are not in its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Places {
    /// Replies of a process that has not committed yet.
    pub prepared: u64,
    /// Processed, or received by their device.
    pub log: u64,
    /// Of processes of which nobody knows whether they committed.
    pub unknown: u64,
    /// Those that could not be processed.
    pub error: u64,
}

/// An account of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Device {
    /// Whose it is.
    pub company: String,
    /// Its address, unique in its company.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What it is part of.
    pub app_system: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// Whether it was activated.
    #[serde(default)]
    pub active: bool,
    /// Whether it is locked out.
    #[serde(default)]
    pub blocked: bool,
    /// Until when a code activates it, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_expires_at: Option<Time>,
    /// Where its messages go; none: there is no route. A device is told so of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Messages that wait for it. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Messages it sent or got that are known. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
}

/// Which database the messages of a company's subsystem go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Route {
    /// The company.
    pub company: String,
    /// The subsystem.
    pub app_system: String,
    /// A database of the company.
    pub database: String,
}

/// A code that activates a device, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Code {
    /// Its text, which is shown nowhere else.
    pub code: String,
    /// Until when.
    pub expires_at: Time,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// A device that has just become active.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Activated {
    /// What it shows from now on; it is told nowhere else.
    pub token: String,
    /// Whose it is.
    pub company: String,
    /// Its address.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What it is part of.
    pub app_system: String,
}

impl fmt::Debug for Activated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activated")
            .field("company", &self.company)
            .field("id", &self.id)
            .field("app_system", &self.app_system)
            .finish_non_exhaustive()
    }
}

/// Something a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeviceEntry {
    /// When, by the device's clock.
    pub at: Time,
    /// When the server got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_at: Option<Time>,
    /// What.
    pub text: String,
}

impl DeviceEntry {
    /// Something to say.
    #[must_use]
    pub fn new(at: Time, text: impl Into<String>) -> Self {
        Self { at, received_at: None, text: text.into() }
    }
}
