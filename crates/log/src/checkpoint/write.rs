//! Writing a checkpoint, chunk by chunk.

use std::io;
use std::sync::Arc;

use handoff_types::{Now, Room};

use super::format::{CHUNK_HEADER, ChunkHeader, FileHeader, Footer};
use super::{Chunk, DIR, Error, Mark, number_of, path_of, writing_path_of};
use crate::disk::{Disk, File, Open, remove_if_there, write_all_at};

/// How much is written between two syncs, so that the last one is not a storm that every other
/// sync of the disk has to wait for.
const SYNC_BYTES: u64 = 4 << 20;

/// A checkpoint being written. Dropped unfinished, it never counts.
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    room: Room,
    number: u64,
    path: String,
    offset: u64,
    synced: u64,
    chunks: u32,
    low: Option<Mark>,
    high: Mark,
    buffer: Vec<u8>,
}

impl Writer {
    /// Begins a checkpoint of a room. The one before it stays in force.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn begin(disk: Arc<dyn Disk>, room: Room, directory: u128) -> Result<Self, Error> {
        let path = writing_path_of(room);
        let open = || -> io::Result<(Arc<dyn File>, u64)> {
            disk.create_dir(DIR)?;
            disk.sync_dir("")?;
            remove_if_there(&*disk, &path)?;
            let numbers = disk.list(DIR)?;
            let last = numbers.iter().filter_map(|name| number_of(name, room)).max();
            Ok((disk.open(&path, Open::Create)?, last.map_or(1, |last| last + 1)))
        };
        let (file, number) = open().map_err(Error::disk(&path))?;
        let mut writer = Self {
            disk,
            file,
            room,
            number,
            path,
            offset: 0,
            synced: 0,
            chunks: 0,
            low: None,
            high: Mark::default(),
            buffer: Vec::new(),
        };
        let header = FileHeader { room, number, directory };
        writer.buffer.extend_from_slice(&header.encode());
        writer.put()?;
        Ok(writer)
    }

    /// Writes the next chunk. Its mark must be durable in the journal already.
    ///
    /// # Errors
    /// When the disk fails; the checkpoint is then given up by dropping it.
    pub fn chunk(&mut self, chunk: &Chunk) -> Result<(), Error> {
        let bytes = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1);
        let header = ChunkHeader {
            number: self.number,
            index: self.chunks,
            mark: chunk.mark,
            from_bytes: bytes(&chunk.from),
            to_bytes: chunk.to.as_deref().map(bytes),
            state_bytes: bytes(&chunk.state),
        };
        self.buffer.clear();
        self.buffer.resize(CHUNK_HEADER, 0);
        self.buffer.extend_from_slice(&chunk.from);
        self.buffer.extend_from_slice(chunk.to.as_deref().unwrap_or_default());
        self.buffer.extend_from_slice(&chunk.state);
        header.seal(&mut self.buffer);
        self.buffer.resize(header.extent(), 0);
        self.put()?;
        self.chunks += 1;
        let low = self.low.get_or_insert(chunk.mark);
        low.sequence = low.sequence.min(chunk.mark.sequence);
        low.position = low.position.min(chunk.mark.position);
        self.high.sequence = self.high.sequence.max(chunk.mark.sequence);
        self.high.position = self.high.position.max(chunk.mark.position);
        if self.offset - self.synced >= SYNC_BYTES {
            self.file.sync().map_err(Error::disk(&self.path))?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Ends the checkpoint and puts it in force. Gives the lowest mark: the journal is not needed
    /// below it for this state.
    ///
    /// # Errors
    /// When the disk fails. Either checkpoint may then be in force at the next start; both are
    /// true, and nothing may be trimmed for the new one.
    pub fn finish(mut self, now: Now) -> Result<Mark, Error> {
        let low = self.low.unwrap_or_default();
        let footer = Footer { number: self.number, chunks: self.chunks, low, high: self.high, now };
        self.buffer.clear();
        self.buffer.extend_from_slice(&footer.encode());
        self.put()?;
        let publish = || {
            self.file.sync()?;
            self.disk.rename(&self.path, &path_of(self.room, self.number))?;
            self.disk.sync_dir(DIR)
        };
        publish().map_err(Error::disk(&self.path))?;
        self.remove_older().map_err(Error::disk(&self.path))?;
        Ok(low)
    }

    fn remove_older(&self) -> io::Result<()> {
        for name in self.disk.list(DIR)? {
            if number_of(&name, self.room).is_some_and(|number| number < self.number) {
                self.disk.remove(&format!("{DIR}/{name}"))?;
            }
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), Error> {
        write_all_at(&*self.file, &self.buffer, self.offset).map_err(Error::disk(&self.path))?;
        self.offset += self.buffer.len() as u64;
        Ok(())
    }
}
