//! A file as the medium has it, as the process sees it, and the way from one to the other.

use super::super::contents::{Contents, blocks};
use super::coverage::Coverage;
use super::survival::Survival;
use std::ops::Range;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The durable and the current content of a file, and the changes between them.
#[derive(Debug, Default)]
pub(super) struct Versions {
    durable: Contents,
    current: Contents,
    unsynced: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write {
        offset: usize,
        bytes: Box<[u8]>,
    },
    /// The range is what a cut took away, and empty if the file grew.
    SetLen {
        len: usize,
        cut: Range<usize>,
    },
}

impl Versions {
    /// A file with this content and nothing unsynced.
    pub(super) fn synced(contents: Contents) -> Self {
        Self { durable: contents.clone(), current: contents, unsynced: Vec::new() }
    }

    pub(super) fn current(&self) -> &Contents {
        &self.current
    }

    pub(super) fn write_at(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        self.current.write_at(bytes, offset);
        self.unsynced.push(Change::Write { offset, bytes: bytes.into() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let cut = len..self.current.len().max(len);
        self.current.set_len(len);
        self.unsynced.push(Change::SetLen { len, cut });
    }

    pub(super) fn sync(&mut self) {
        if !self.unsynced.is_empty() {
            self.durable = self.current.clone();
            self.unsynced.clear();
        }
    }

    /// What a crash leaves of the file.
    ///
    /// Each sector of each unsynced write is kept or lost on its own, in the order of the writes,
    /// so where several cover a sector any of its versions may be the last. A cut keeps or loses
    /// the bytes it took away in the same manner: they can come back under a later growth. The
    /// length is any that the file had, whatever became of the bytes.
    pub(super) fn survive(&self, survival: &mut Survival, coverage: &mut Coverage) -> Contents {
        let mut contents = self.durable.clone();
        let lengths = self.lengths();
        let len = survival.length(self.durable.len(), &lengths);
        let mut witness = Witness::new(self.durable.len(), len);
        for change in &self.unsynced {
            let range = change.range();
            let fate = survival.write(blocks(range.clone(), SECTOR).count());
            for (number, sector) in blocks(range.clone(), SECTOR).enumerate() {
                let kept = survival.sector(&fate, number);
                match change {
                    Change::Write { offset, bytes } => {
                        witness.sector(&sector, kept);
                        if kept && let Some(bytes) = bytes.get(shift(&sector, *offset)) {
                            contents.write_at(bytes, sector.start);
                        }
                    }
                    Change::SetLen { .. } if kept => contents.zero(sector),
                    Change::SetLen { .. } => {}
                }
            }
            if matches!(change, Change::Write { .. }) {
                witness.end_write(coverage);
            }
        }
        contents.set_len(len);
        contents
    }

    /// The length after each unsynced change.
    fn lengths(&self) -> Vec<usize> {
        let mut len = self.durable.len();
        let after = |change: &Change| {
            len = match change {
                Change::Write { .. } => len.max(change.range().end),
                Change::SetLen { len, .. } => *len,
            };
            len
        };
        self.unsynced.iter().map(after).collect()
    }
}

impl Change {
    /// The bytes of the file it changes.
    fn range(&self) -> Range<usize> {
        match self {
            Self::Write { offset, bytes } => *offset..*offset + bytes.len(),
            Self::SetLen { cut, .. } => cut.clone(),
        }
    }
}

fn shift(range: &Range<usize>, back: usize) -> Range<usize> {
    range.start - back..range.end - back
}

/// Watches what becomes of one file's writes, to count the cases of the fault model.
struct Witness {
    durable_len: usize,
    len: usize,
    lost_before: bool,
    now: Seen,
}

/// What became of the write at hand.
#[derive(Default)]
struct Seen {
    kept: bool,
    lost: bool,
    /// A kept sector lies past the length that survived.
    cut_off: bool,
    /// A lost sector lies past the durable length and before the one that survived.
    hollow: bool,
}

impl Witness {
    fn new(durable_len: usize, len: usize) -> Self {
        Self { durable_len, len, lost_before: false, now: Seen::default() }
    }

    fn sector(&mut self, sector: &Range<usize>, kept: bool) {
        self.now.kept |= kept;
        self.now.lost |= !kept;
        self.now.cut_off |= kept && sector.end > self.len;
        let grown = sector.start.max(self.durable_len)..sector.end.min(self.len);
        self.now.hollow |= !kept && !grown.is_empty();
    }

    fn end_write(&mut self, coverage: &mut Coverage) {
        let now = std::mem::take(&mut self.now);
        coverage.writes_kept += u64::from(!now.lost && !now.cut_off);
        coverage.writes_lost += u64::from(!now.kept);
        coverage.writes_torn += u64::from(now.kept && now.lost);
        coverage.writes_reordered += u64::from(now.kept && self.lost_before);
        coverage.content_without_length += u64::from(now.cut_off);
        coverage.lengths_without_content += u64::from(now.hollow);
        self.lost_before |= !now.kept;
    }
}
