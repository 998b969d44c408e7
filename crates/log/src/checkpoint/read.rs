//! Reading a checkpoint back.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use handoff_types::{Now, Room, Sequence};

use super::format::{Bad, CHUNK_HEADER, ChunkHeader, FILE_HEADER, FOOTER, FileHeader, Footer};
use super::{Chunk, DIR, Error, Mark, number_of, path_of};
use crate::disk::{Disk, File, Open, read_full_at};

/// A room's checkpoint in force, its chunks not read yet.
#[derive(Debug)]
pub struct Checkpoint {
    room: Room,
    path: String,
    file: Arc<dyn File>,
    footer: Footer,
    chunks_end: u64,
}

/// The latest checkpoint of a room, if it has one.
///
/// # Errors
/// [`Error::Damaged`] when its ends are not what was written.
pub fn latest(disk: &dyn Disk, room: Room, directory: u128) -> Result<Option<Checkpoint>, Error> {
    let names = match disk.list(DIR) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::disk(DIR)(error)),
    };
    let Some(number) = names.iter().filter_map(|name| number_of(name, room)).max() else {
        return Ok(None);
    };
    let path = path_of(room, number);
    let (file, head, foot, len) = read_ends(disk, &path).map_err(Error::disk(&path))?;
    let damaged = |offset| Error::Damaged { room, path: path.clone(), offset };
    match (FileHeader { room, number, directory }).check(&head) {
        Ok(()) => {}
        Err(Bad::Newer(found)) => return Err(Error::Newer { path, found }),
        Err(Bad::Damaged) => return Err(damaged(0)),
    }
    let chunks_end = len.saturating_sub(FOOTER as u64);
    let footer = Footer::read(&foot)
        .filter(|footer| footer.number == number)
        .ok_or_else(|| damaged(chunks_end))?;
    Ok(Some(Checkpoint { room, path, file, footer, chunks_end }))
}

type Ends = (Arc<dyn File>, [u8; FILE_HEADER], [u8; FOOTER], u64);

fn read_ends(disk: &dyn Disk, path: &str) -> io::Result<Ends> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len()?;
    let (mut head, mut foot) = ([0; FILE_HEADER], [0; FOOTER]);
    read_full_at(&*file, &mut head, 0)?;
    read_full_at(&*file, &mut foot, len.saturating_sub(FOOTER as u64))?;
    Ok((file, head, foot, len))
}

impl Checkpoint {
    /// Where the journal must be replayed from for this room.
    #[must_use]
    pub fn low(&self) -> Mark {
        self.footer.low
    }

    /// The newest mark of any chunk: the journal must reach at least this far.
    #[must_use]
    pub fn high(&self) -> Mark {
        self.footer.high
    }

    /// What time it was at the end of the checkpoint.
    #[must_use]
    pub fn now(&self) -> Now {
        self.footer.now
    }

    /// Reads the chunks, one after the other.
    #[must_use]
    pub fn chunks(self) -> Reader {
        Reader {
            offset: FILE_HEADER as u64,
            next: Some(Bytes::new()),
            read: 0,
            checkpoint: self,
            marks: Marks::default(),
        }
    }
}

/// The chunks of a checkpoint.
#[derive(Debug)]
pub struct Reader {
    checkpoint: Checkpoint,
    offset: u64,
    /// The key the next chunk must begin with; none when the last one was read.
    next: Option<Bytes>,
    read: u32,
    marks: Marks,
}

impl Reader {
    /// The next chunk, or `None` when all of them were read and they cover every key.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a chunk is not what was written, or one is missing.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, Error> {
        let left = self.checkpoint.chunks_end - self.offset.min(self.checkpoint.chunks_end);
        let Some(from) = self.next.take() else {
            let whole = left == 0 && self.read == self.checkpoint.footer.chunks;
            return if whole { Ok(None) } else { Err(self.damaged()) };
        };
        let chunk = self.read_chunk(left)?;
        if chunk.from != from {
            return Err(self.damaged());
        }
        self.next.clone_from(&chunk.to);
        self.read += 1;
        self.marks.marks.push((chunk.from.clone(), chunk.mark.sequence));
        Ok(Some(chunk))
    }

    /// The marks of the chunks read so far.
    #[must_use]
    pub fn into_marks(self) -> Marks {
        self.marks
    }

    fn read_chunk(&mut self, left: u64) -> Result<Chunk, Error> {
        let mut head = [0; CHUNK_HEADER];
        let file = Arc::clone(&self.checkpoint.file);
        let disk = |fault| Error::disk(&self.checkpoint.path)(fault);
        read_full_at(&*file, &mut head, self.offset).map_err(disk)?;
        let header = ChunkHeader::read(&head)
            .filter(|header| header.extent() as u64 <= left)
            .filter(|header| header.number == self.checkpoint.footer.number)
            .filter(|header| header.index == self.read)
            .ok_or_else(|| self.damaged())?;
        let mut bytes = vec![0; header.extent()];
        read_full_at(&*file, &mut bytes, self.offset).map_err(disk)?;
        if !ChunkHeader::is_sound(&bytes, header.rest_bytes()) {
            return Err(self.damaged());
        }
        self.offset += header.extent() as u64;
        let mut rest = Bytes::from(bytes).split_off(CHUNK_HEADER);
        let from = rest.split_to(header.from_bytes as usize);
        let to = header.to_bytes.map(|bytes| rest.split_to(bytes as usize));
        rest.truncate(header.state_bytes as usize);
        Ok(Chunk { from, to, mark: header.mark, state: rest })
    }

    fn damaged(&self) -> Error {
        let Checkpoint { room, path, .. } = &self.checkpoint;
        Error::Damaged { room: *room, path: path.clone(), offset: self.offset }
    }
}

/// Which record of the room the restored state of a key already has.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// First key of each chunk, ascending, and the chunk's mark.
    marks: Vec<(Bytes, Sequence)>,
}

impl Marks {
    /// The last record whose effect on this key the checkpoint has.
    #[must_use]
    pub fn of(&self, key: &[u8]) -> Sequence {
        let behind = self.marks.partition_point(|(from, _)| from.as_ref() <= key);
        let mark = behind.checked_sub(1).and_then(|at| self.marks.get(at));
        mark.map_or(Sequence::NONE, |(_, sequence)| *sequence)
    }
}
