//! Administrative acts: who did what.

use serde::{Deserialize, Serialize};

use crate::{Target, Time};

/// Which acts to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AuditQuery {
    below: Option<u64>,
    limit: Option<u32>,
}

impl AuditQuery {
    /// The latest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those before the act with this number: the next page.
    pub fn below(mut self, number: u64) -> Self {
        self.below = Some(number);
        self
    }

    /// At most this many.
    pub fn limit(mut self, acts: u32) -> Self {
        self.limit = Some(acts);
        self
    }

    pub(crate) fn target(&self) -> Target {
        Target::new("/v1/audit").queries("below", self.below).queries("limit", self.limit)
    }
}

/// Some acts, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Acts {
    /// The latest first.
    pub acts: Vec<Act>,
    /// What [`AuditQuery::below`] takes for the next page; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Act {
    /// Counts from 1, never used again.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Who: a token's id, or `local`.
    pub who: String,
    /// What kind of act.
    pub kind: String,
    /// To what, in words.
    #[serde(default)]
    pub target: String,
}
