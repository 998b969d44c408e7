//! An answer before the judge.

use super::Violation;
use crate::room::{Action, Command, Name, Reply};

/// What is being judged.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) command: &'a Command,
    pub(super) reply: &'a Reply,
    pub(super) actions: &'a [Action],
}

impl Case<'_> {
    /// Each value that went from one hundred to another is announced, and nothing else happens.
    pub(super) fn announces(&self, shifts: &[(Name, i64, i64)]) -> Result<(), Violation> {
        let hundred = |value: i64| value.wrapping_sub(value.rem_euclid(100));
        let expected = shifts
            .iter()
            .filter(|(_, before, after)| hundred(*before) != hundred(*after))
            .map(|(key, _, after)| Action::Announce { key: *key, value: *after });
        if expected.eq(self.actions.iter().copied()) { Ok(()) } else { Err(self.wrong_actions()) }
    }

    pub(super) fn silent(&self) -> Result<(), Violation> {
        if self.actions.is_empty() { Ok(()) } else { Err(self.wrong_actions()) }
    }

    pub(super) fn wrong_actions(&self) -> Violation {
        Violation::Actions {
            command: self.command.to_string(),
            answer: self.reply.to_string(),
            actions: match self.actions {
                [] => "nothing".to_owned(),
                some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            },
        }
    }

    pub(super) fn absurd(&self) -> Violation {
        Violation::Absurd { command: self.command.to_string(), answer: self.reply.to_string() }
    }
}
