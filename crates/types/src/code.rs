//! Stable codes of refusals and faults, by what the caller must do.

use std::fmt;

/// Whether the thing that failed may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not happen and will not.
    NotApplied,
    /// It may have happened. Ask, or repeat with the same identity.
    Unknown,
}

/// A stable code. Users and tests match on the text; a text is never reused for another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The room's queue to the disk is full.
    RoomBusy,
    /// The journal has no space for new messages.
    JournalFull,
    /// The disk has no space left.
    DiskFull,
    /// The disk failed a write or a sync; the journal is being continued elsewhere.
    JournalPoisoned,
    /// The journal has stopped.
    JournalClosed,
    /// The room is closed because the disk lost some of its records.
    RoomDamaged,
    /// What was asked for is damaged on disk.
    Corrupt,
    /// What was asked for has been removed already.
    Trimmed,
    /// The change is larger than one change may be.
    ChangeTooLarge,
    /// Another process uses the data directory.
    DirectoryInUse,
    /// The data directory was written by a newer version.
    DirectoryNewer,
    /// The data directory is not one of ours, or its marks are unreadable.
    DirectoryUnreadable,
    /// The disk answered with an error.
    DiskFault,
}

impl Code {
    /// Every code there is, for the page that explains them.
    pub const ALL: [Self; 13] = [
        Self::RoomBusy,
        Self::JournalFull,
        Self::DiskFull,
        Self::JournalPoisoned,
        Self::JournalClosed,
        Self::RoomDamaged,
        Self::Corrupt,
        Self::Trimmed,
        Self::ChangeTooLarge,
        Self::DirectoryInUse,
        Self::DirectoryNewer,
        Self::DirectoryUnreadable,
        Self::DiskFault,
    ];

    /// The text users match on.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::RoomBusy => "log.room_busy",
            Self::JournalFull => "log.journal_full",
            Self::DiskFull => "log.disk_full",
            Self::JournalPoisoned => "log.poisoned",
            Self::JournalClosed => "log.closed",
            Self::RoomDamaged => "log.room_damaged",
            Self::Corrupt => "log.corrupt",
            Self::Trimmed => "log.trimmed",
            Self::ChangeTooLarge => "log.change_too_large",
            Self::DirectoryInUse => "data.in_use",
            Self::DirectoryNewer => "data.newer",
            Self::DirectoryUnreadable => "data.unreadable",
            Self::DiskFault => "log.disk_fault",
        }
    }

    /// What the caller or the operator can do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::RoomBusy => {
                "send again after a short pause; the room is writing as fast as its disk"
            }
            Self::JournalFull => {
                "wait until checkpoints free the ring, or raise log.journal_bytes_max"
            }
            Self::DiskFull => {
                "free space on the disk of the data directory; work goes on by itself"
            }
            Self::JournalPoisoned => {
                "wait; look at the kernel log for the disk's error if it lasts"
            }
            Self::JournalClosed => "start the server again; it recovers by itself",
            Self::RoomDamaged => {
                "run doctor --repair: it sets the damaged range aside and opens the room"
            }
            Self::Corrupt => "the rest is served; restore the range from a backup or skip it",
            Self::Trimmed => "read from the first position that is still kept",
            Self::ChangeTooLarge => "split the request, or raise log.change_bytes_max",
            Self::DirectoryInUse => "stop the other process, or give this one another --data-dir",
            Self::DirectoryNewer => "start the version that wrote it, or a newer one",
            Self::DirectoryUnreadable => {
                "check --data-dir; restore the directory from a backup if it is the right one"
            }
            Self::DiskFault => {
                "look at the kernel log for the disk's error; nothing acknowledged is lost"
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_codes_share_a_text() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
    }
}
