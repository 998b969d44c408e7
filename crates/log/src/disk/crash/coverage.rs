//! Proof that a crash did what the fault model says it may.

use std::ops::AddAssign;

/// How often each case of the fault model really took place: the report of one crash, or the sum
/// of many.
///
/// Only what a survivor can see is counted: the writes to a file that vanished with its name are
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Crashes summed up here.
    pub crashes: u64,
    /// An unsynced write survived whole.
    pub writes_kept: u64,
    /// Nothing of an unsynced write survived.
    pub writes_lost: u64,
    /// Some sectors of an unsynced write survived and others did not.
    pub writes_torn: u64,
    /// Something of a write survived though an earlier one to the same file was lost.
    pub writes_reordered: u64,
    /// A file kept its new length without the bytes that made it so long; they read as zeros.
    pub lengths_without_content: u64,
    /// Bytes survived but not the length that covers them; they are cut off.
    pub content_without_length: u64,
    /// A rename not yet durable survived.
    pub renames_kept: u64,
    /// A rename was undone: the file is under its old name.
    pub renames_undone: u64,
    /// A file or directory just made is not there.
    pub creations_undone: u64,
    /// A file just removed is there again.
    pub removals_undone: u64,
}

impl Coverage {
    /// The cases that never took place.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        [
            ("writes_kept", self.writes_kept),
            ("writes_lost", self.writes_lost),
            ("writes_torn", self.writes_torn),
            ("writes_reordered", self.writes_reordered),
            ("lengths_without_content", self.lengths_without_content),
            ("content_without_length", self.content_without_length),
            ("renames_kept", self.renames_kept),
            ("renames_undone", self.renames_undone),
            ("creations_undone", self.creations_undone),
            ("removals_undone", self.removals_undone),
        ]
        .into_iter()
        .filter_map(|(case, count)| (count == 0).then_some(case))
        .collect()
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.writes_kept += other.writes_kept;
        self.writes_lost += other.writes_lost;
        self.writes_torn += other.writes_torn;
        self.writes_reordered += other.writes_reordered;
        self.lengths_without_content += other.lengths_without_content;
        self.content_without_length += other.content_without_length;
        self.renames_kept += other.renames_kept;
        self.renames_undone += other.renames_undone;
        self.creations_undone += other.creations_undone;
        self.removals_undone += other.removals_undone;
    }
}
