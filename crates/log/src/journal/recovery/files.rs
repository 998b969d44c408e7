//! Which files a journal directory holds and what each is for.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::super::error::OpenError;
use super::super::format::{BLOCK, BLOCK_BYTES, Counts, FileHeader, HeaderBlock};
use super::super::ring::{DIR, is_leftover, path_of, slot_of};
use super::Start;
use super::window::Window;
use crate::disk::{Disk, File, Open, read_full_at};
use handoff_types::Room;

/// A file with readable rounds.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) slot: u32,
    pub(super) path: String,
    pub(super) file: Arc<dyn File>,
    pub(super) number: u64,
    pub(super) salt: u64,
    /// Length on disk, which may be shorter than what the header says.
    pub(super) len: u64,
    /// The position of the file's first round.
    pub(super) base: u64,
    /// The number of the file it took over from.
    pub(super) follows: u64,
    /// How many records each room has before the file's first readable round.
    pub(super) counts: Counts,
}

impl Used {
    /// Where a position stands in the file.
    pub(super) fn offset(&self, position: u64) -> u64 {
        BLOCK + (position - self.base)
    }

    /// Whether the file is long enough to have a round at a position.
    pub(super) fn may_hold(&self, position: u64) -> bool {
        self.base <= position && self.offset(position) < self.len
    }

    /// The position at an offset of the file.
    pub(super) fn position(&self, offset: u64) -> u64 {
        self.base + (offset - BLOCK)
    }
}

/// What the first round of a file turned out to be.
///
/// A file takes over from the one before it only if its first round reached the disk. Until then
/// the last round may be in the file before as well, and count there.
pub(super) enum FirstRound {
    /// It is whole, or something readable behind it bears witness that it was.
    Durable,
    /// Its header is there and nothing else: it was never acknowledged from here.
    Torn,
    /// The file has not been written under its present salt.
    None,
}

/// The files of a journal.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files whose rounds may be needed, in the order they were written.
    pub(super) used: Vec<Used>,
    /// Files whose first round was cut short.
    pub(super) torn: Vec<Used>,
    /// Files whose rounds count for nothing: later files have them, or no room needs them.
    pub(super) void: Vec<Used>,
    /// Every file there is, by the number of its last use: the order they are recycled in, so far as
    /// the ring needs none of them for longer.
    pub(super) slots: BTreeSet<(u64, u32)>,
    pub(super) next_number: u64,
    pub(super) healed: Vec<String>,
    pub(super) shortened: Vec<String>,
}

impl Found {
    /// Reads the header of every file and drops what no room needs any more.
    pub(super) fn look(disk: &dyn Disk, directory: u128, start: &Start) -> Result<Self, OpenError> {
        let mut found = Self::default();
        disk.create_dir(DIR).map_err(OpenError::disk(DIR))?;
        // A directory just made must not vanish with the files that are synced into it.
        disk.sync_dir("").map_err(OpenError::disk(DIR))?;
        // Nor must a file that the process before filled and named and did not live to sync: it is
        // recycled like any other, and rounds would be acknowledged in it.
        disk.sync_dir(DIR).map_err(OpenError::disk(DIR))?;
        for name in disk.list(DIR).map_err(OpenError::disk(DIR))? {
            if let Some(slot) = slot_of(&name) {
                found.add(disk, directory, slot)?;
            } else if is_leftover(&name) {
                let path = format!("{DIR}/{name}");
                disk.remove(&path).map_err(OpenError::disk(&path))?;
            }
        }
        found.order(start);
        Ok(found)
    }

    fn add(&mut self, disk: &dyn Disk, directory: u128, slot: u32) -> Result<(), OpenError> {
        let path = path_of(slot);
        let (file, block) = read_block(disk, &path).map_err(OpenError::disk(&path))?;
        // What is seen here must stay so. The process before may have given the file a fresh
        // header and not lived to sync it, and with the old one a round would come back that this
        // opening does not see and others will be told did not happen.
        file.sync().map_err(OpenError::disk(&path))?;
        let (header, healed) = match FileHeader::read(&block) {
            HeaderBlock::Read { header, healed } => (header, healed),
            HeaderBlock::Newer(found) => return Err(OpenError::Newer { path, found }),
            HeaderBlock::Unreadable => return Err(OpenError::Header { path }),
        };
        if header.directory != directory {
            return Err(OpenError::Foreign { path });
        }
        if healed {
            self.healed.push(path.clone());
        }
        self.slots.insert((header.number, slot));
        self.next_number = self.next_number.max(header.number + 1);
        let len = file.len().map_err(OpenError::disk(&path))?;
        if len < header.bytes {
            self.shortened.push(path.clone());
        }
        let FileHeader { number, salt, .. } = header;
        let mut used = Used {
            slot,
            path,
            file,
            number,
            salt,
            len,
            base: 0,
            follows: 0,
            counts: [0; Room::MAX],
        };
        match Window::default().first_round(&mut used)? {
            FirstRound::Durable => self.used.push(used),
            FirstRound::Torn => self.torn.push(used),
            FirstRound::None => {}
        }
        Ok(())
    }

    fn order(&mut self, start: &Start) {
        self.used.sort_by_key(|used| used.number);
        // A later file goes on from its base; what an earlier one has from there on is void.
        let mut kept: Vec<Used> = Vec::new();
        for used in self.used.drain(..) {
            self.void.extend(kept.extract_if(.., |earlier| earlier.base >= used.base));
            kept.push(used);
        }
        // How far back a room needs the journal that is not loaded nobody knows.
        let needed_by_none = |used: &Used| {
            let count = |room: &Room| used.counts.get(room.index()).copied().unwrap_or_default();
            start.unloaded.iter().all(|room| count(room) == 0)
        };
        let needed = kept.iter().rposition(|used| used.base <= start.position.0);
        let needed = needed.filter(|&at| kept.get(at).is_some_and(needed_by_none)).unwrap_or(0);
        self.used = kept.split_off(needed);
        self.void.append(&mut kept);
    }
}

fn read_block(disk: &dyn Disk, path: &str) -> io::Result<(Arc<dyn File>, Vec<u8>)> {
    let file = disk.open(path, Open::Read)?;
    let mut block = vec![0; BLOCK_BYTES];
    read_full_at(&*file, &mut block, 0)?;
    Ok((file, block))
}
