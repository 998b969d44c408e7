//! Administrative acts.

use handoff_types::Wall;

/// The longest name of whoever acts, in bytes.
pub const WHO_BYTES_MAX: usize = 128;

/// The most that is said of what an act was done to, in bytes.
pub const TARGET_BYTES_MAX: usize = 1024;

/// What was done. The number is part of the file formats and never given another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum ActKind {
    /// A token was made.
    TokenCreated = 1,
    /// A token was revoked.
    TokenRevoked = 2,
    /// The configuration was read again.
    Reloaded = 3,
    /// A damaged range was set aside.
    Repaired = 4,
    /// Something was deleted by an administrator.
    Deleted = 5,
    /// Something was given other settings, or made larger.
    Altered = 6,
}

impl ActKind {
    /// Every kind there is.
    pub const ALL: [Self; 6] = [
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::Reloaded,
        Self::Repaired,
        Self::Deleted,
        Self::Altered,
    ];

    /// The number the file formats know this kind by.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The kind as people and programs read it. Never changed.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TokenCreated => "token_created",
            Self::TokenRevoked => "token_revoked",
            Self::Reloaded => "reloaded",
            Self::Repaired => "repaired",
            Self::Deleted => "deleted",
            Self::Altered => "altered",
        }
    }
}

/// One act: who, when, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Counts from 1, never used again.
    pub number: u64,
    /// When.
    pub at: Wall,
    /// Who: a token's id, or `local` for whoever holds the data directory or the loopback.
    pub who: String,
    /// What.
    pub kind: ActKind,
    /// To what, in words. For a token: its id, a space, its name.
    pub target: String,
}

/// Words that can be shown anywhere: at most so many bytes, nothing that steers a terminal.
pub(crate) fn fit(words: &str, bytes_max: usize) -> String {
    let cut = words.get(..words.floor_char_boundary(bytes_max)).unwrap_or_default();
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{ActKind, fit};
    use std::collections::BTreeSet;

    #[test]
    fn words_of_an_act_are_cut_at_a_character_and_steer_no_terminal() {
        assert_eq!(fit("deploy", 128), "deploy");
        assert_eq!(fit("a\u{1b}[2Jb\nc", 128), "a [2Jb c");
        assert_eq!(fit("äöü", 3), "ä");
        // A control character of two bytes becomes one byte: cut words never grow.
        assert_eq!(fit("\u{85}\u{85}", 4), "  ");
    }

    #[test]
    fn no_two_kinds_of_act_share_a_text() {
        let texts: BTreeSet<_> = ActKind::ALL.iter().map(|kind| kind.text()).collect();
        assert_eq!(texts.len(), ActKind::ALL.len());
    }

    #[test]
    fn every_kind_of_act_is_found_by_its_number() {
        for kind in ActKind::ALL {
            assert_eq!(ActKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(ActKind::from_number(0), None);
    }
}
