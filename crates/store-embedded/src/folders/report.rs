//! What the folders have to say.

use bytes::Bytes;
use handoff_exchange::{EntityId, Seq};

use super::FileName;

/// Something that the room, or somebody, is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The folders durably show what a process decided: `Ask::Settled`.
    Settled {
        /// The process.
        process: u64,
        /// Which of its decisions.
        round: u8,
    },
    /// A file of a process cannot be put where it belongs. It is tried again. Told once until the
    /// process is settled: `Ask::Stuck`.
    Stuck {
        /// The process.
        process: u64,
        /// Why.
        words: Box<str>,
    },
    /// A body is neither in the journal nor in a file: `Ask::Damaged`.
    Damaged {
        /// Whose.
        seq: Seq,
        /// What was looked for.
        words: Box<str>,
    },
    /// Files cannot be written. It is tried again; bodies stay in the journal meanwhile, and the
    /// journal fills. Told once until [`Report::Recovered`].
    Behind {
        /// Why.
        words: Box<str>,
        /// Because there is no space.
        full: bool,
    },
    /// Files can be written again.
    Recovered,
    /// A file that no process waits for cannot be moved or removed. It is tried again. Told once
    /// until all such files are where they belong.
    Late {
        /// Why.
        words: Box<str>,
    },
    /// Something was not as it should be and is now, or was set aside. For the log.
    Mended {
        /// The file.
        path: String,
        /// What was done.
        words: &'static str,
    },
    /// A file that somebody put into Messages, to be taken in as if its device had sent it:
    /// `Ask::TakeIn`. What became of it is told by [`super::Orders::taken_in`] or
    /// [`super::Orders::not_taken_in`].
    TakeIn {
        /// The file.
        path: String,
        /// In whose folder it is.
        database: EntityId,
        /// What its name says.
        name: FileName,
        /// What is in it, whatever that is.
        content: Bytes,
    },
    /// Folders were compared with the state.
    Compared(Compared),
}

/// What was found while the folders were compared with the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// All folders were, not only the names in Messages.
    pub whole: bool,
    /// Messages whose files were looked for.
    pub messages: u64,
    /// Files that were looked at.
    pub files: u64,
    /// Files that were put where they belong, written again or removed.
    pub mended: u64,
    /// Files that are none of ours. They are left alone and never served.
    pub foreign: u64,
    /// The first of them.
    pub shown: Vec<Foreign>,
    /// Files that somebody put into Messages and that are offered by a later look: many wait already.
    pub left: u64,
    /// Files and folders that could not be looked at. All of it is compared again after a pause.
    pub failed: u64,
    /// Why the first of them could not.
    pub trouble: Option<Box<str>>,
}

/// A file that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Where it is, in the data directory.
    pub path: String,
    /// Why it is not taken for a message.
    pub words: &'static str,
}

impl Compared {
    /// How many foreign files are named.
    pub const SHOWN_MAX: usize = 100;

    pub(super) fn foreign(&mut self, path: String, words: &'static str) {
        self.foreign += 1;
        if self.shown.len() < Self::SHOWN_MAX {
            self.shown.push(Foreign { path, words });
        }
    }
}
