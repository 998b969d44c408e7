//! What the rooms of a server share: the machine it runs on, and the process that runs.

use std::fmt;
use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::disk::Crash;
use handoff_log::journal::Inline;

use super::clock::Clock;
use super::trouble::Trouble;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};

/// A machine and what runs on it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) disk: Crash,
    pub(crate) clock: Clock,
    pub(crate) dice: Dice,
    /// None before the first step, and after damage has closed a room.
    pub(crate) process: Option<Process>,
    /// A bit was flipped.
    pub(crate) damaged: bool,
}

/// A server between its opening and its end.
pub(crate) struct Process {
    pub(crate) directory: Directory,
    pub(crate) inline: Arc<Inline>,
    pub(crate) trouble: Trouble,
    /// A mark stands behind the last round and bears witness for it.
    pub(crate) marked: bool,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("inline", &self.inline).finish_non_exhaustive()
    }
}

/// What may be blamed for something that does not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuses {
    /// A call to the disk may have failed.
    pub(crate) fault: bool,
    /// A bit was flipped in this directory.
    pub(crate) damage: bool,
}

impl Site {
    /// Whether the disk is to blame for whatever does not work.
    pub(crate) fn is_excused(&self) -> bool {
        let struck = self.process.as_ref().is_some_and(|process| process.trouble.excuses());
        struck || self.disk.is_halted()
    }

    /// The same, and whether it may be to blame for a single call.
    pub(crate) fn excuses(&self) -> Excuses {
        let planned = self.process.as_ref().is_some_and(|process| process.trouble.is_planned());
        Excuses { fault: self.is_excused() || planned, damage: self.damaged }
    }

    /// Writes down what storage did, and that an error came from somewhere.
    pub(crate) fn note(
        &self,
        what: &'static str,
        words: &str,
        failed: bool,
        history: &mut History,
    ) -> Result<(), Fault> {
        history.count(Kind::Storage, what);
        history.tell(format_args!("{what} {words}"));
        ensure(!failed || self.is_excused(), || format!("{what}: {words}, and no fault struck"))
    }
}
