//! A process: one pass of an ERP over messages.

use serde::{Deserialize, Serialize};

use crate::Time;

/// A process, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Process {
    /// What the ERP calls it by.
    pub process_id: String,
    /// Processes are counted.
    pub number: u64,
    /// Of this database.
    pub db_id: String,
    /// How far it is: `STARTED`, `READY_TO_COMMIT`, `CLEANUP`, `FAILED`, `DONE`, `ROLLED_BACK`,
    /// `INTERRUPTED`, `EXPIRED`, `UNKNOWN` or `RESOLVED`.
    pub state: String,
    /// When it began.
    pub started_at: Time,
    /// When it is given up, while it is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// When it was prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// What was said of one that is `RESOLVED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<bool>,
    /// Why it ended, in the words of whoever ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Whether the folders show what it decided.
    #[serde(default)]
    pub settled: bool,
    /// Whether the ERP reported the opposite of what it had reported.
    #[serde(default)]
    pub contradicted: bool,
    /// The messages it was given.
    #[serde(default)]
    pub files_to_erp: Vec<ProcessFile>,
    /// The messages it gave.
    #[serde(default)]
    pub files_from_erp: Vec<ReplyFile>,
}

/// A message that was given to an ERP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProcessFile {
    /// What its device calls it; none if it was forgotten since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Its place in the order of all messages.
    pub seq: u64,
    /// What the ERP said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

/// A message for a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReplyFile {
    /// What the ERP calls it; none if it was forgotten since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Its place in the order of all messages.
    pub seq: u64,
    /// Whether it tells a device that its message could not be processed.
    #[serde(default)]
    pub notice: bool,
}

/// What became of a process that was ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Outcome {
    process_id: String,
    outcome: &'static str,
}

impl Outcome {
    /// The database committed.
    pub fn committed(process: impl Into<String>) -> Self {
        Self { process_id: process.into(), outcome: "COMMITTED" }
    }

    /// It rolled back.
    pub fn rolled_back(process: impl Into<String>) -> Self {
        Self { process_id: process.into(), outcome: "ROLLED_BACK" }
    }
}

/// What the server did with an [`Outcome`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resolution {
    /// Which process.
    pub process_id: String,
    /// `OK` or `CANCELLED`.
    pub status: String,
    /// The stable code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Resolution {
    /// Whether it is as was said.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == "OK"
    }
}

/// The answer to a call about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answered {
    /// It is as the ERP says.
    Ok {
        /// When the process is given up, while it is live.
        deadline: Option<Time>,
    },
    /// The ERP is to roll back and to begin again.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl Answered {
    /// Whether it is as the ERP says.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok { .. })
    }
}

impl<'de> Deserialize<'de> for Answered {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
            #[serde(default)]
            deadline: Option<Time>,
            #[serde(default)]
            reason: Option<String>,
        }
        let Answer { status, deadline, reason } = Answer::deserialize(deserializer)?;
        match status.as_str() {
            "OK" => Ok(Self::Ok { deadline }),
            "CANCELLED" => Ok(Self::Cancelled { reason: reason.unwrap_or_default() }),
            other => Err(serde::de::Error::custom(format!("its status is {other}"))),
        }
    }
}
