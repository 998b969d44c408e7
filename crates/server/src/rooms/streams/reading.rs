//! Reading what is stored, on threads that may wait for a disk.
//!
//! A read is bounded three ways: by messages, by their bytes, and by the bytes that were looked at
//! for them, so that a key that is rare costs many short reads and not one long one. Damage costs
//! what it hits: it is named, and what stands behind it is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handoff_log::segments::{Frame, Lane, Read};
use handoff_store_embedded::{BulkError, Lanes, Reader};
use handoff_streams::PartitionId;
use handoff_streams::batch::{self, Record};
use handoff_types::Wall;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Reads at once. Each has a thread and what it reads in memory.
const READS_MAX: usize = 16;

/// Bytes looked at in one read at most, give or take a batch.
const LOOKED_AT_MAX: usize = 16 << 20;

/// Bytes taken from storage in one go: at first, and at most. Most reads are short.
const PIECE_MIN: usize = 64 << 10;
const PIECE_MAX: usize = 1 << 20;

/// What the records of one batch may come to when they are decompressed.
const BATCH_BYTES_MAX: usize = 128 << 20;

/// The way to what is stored, until the room ends: whoever keeps it longer would keep the journal
/// open. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    stored: Arc<Mutex<Option<(Reader, Lanes)>>>,
    turns: Arc<Semaphore>,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    /// What was asked for is not kept any more.
    #[error("offsets below {start} are not kept any more")]
    Trimmed {
        /// The first offset that is.
        start: u64,
    },
    /// The disk did not answer.
    #[error(transparent)]
    Disk(#[from] BulkError),
    /// The room has ended.
    #[error("the server is stopping")]
    Closed,
    /// The thread that read has panicked.
    #[error("the read ended by a mistake of ours")]
    Panicked,
}

/// What is wanted of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Browse {
    pub(crate) partition: PartitionId,
    /// The first offset.
    pub(crate) from: u64,
    /// The offset behind the last that may be seen.
    pub(crate) end: u64,
    /// Only messages from this time on.
    pub(crate) since: Option<Wall>,
    /// Only messages of this key.
    pub(crate) key: Option<Bytes>,
    /// How many messages at most.
    pub(crate) limit: usize,
    /// How many of their bytes at most, give or take one message.
    pub(crate) bytes_max: usize,
}

/// Where reading goes on, and what could not be read before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) next: u64,
    pub(crate) skipped: Vec<Skipped>,
}

/// Offsets that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) why: Why,
    pub(crate) from: u64,
    /// The first offset behind them.
    pub(crate) to: u64,
}

/// Why they cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The disk lost them.
    Corrupt,
    /// They were removed while others were read.
    Trimmed,
}

/// Messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) records: Vec<Record>,
    pub(crate) found: Found,
}

/// Batches as they are stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) batches: Vec<Bytes>,
    pub(crate) found: Found,
}

impl Reading {
    pub(super) fn new(reader: Reader, lanes: Lanes) -> Self {
        let stored = Arc::new(Mutex::new(Some((reader, lanes))));
        Self { stored, turns: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// Nothing is read any more, but for what is being read. Waits for that.
    ///
    /// # Cancel safety
    /// Dropped, nothing new is read all the same.
    pub(super) async fn close(&self) {
        drop(self.stored().take());
        // Every turn there is: none is taken then. The semaphore is never closed.
        let all = u32::try_from(READS_MAX).unwrap_or(u32::MAX);
        drop(self.turns.acquire_many(all).await);
    }

    /// Bytes of what is stored and not at its place yet.
    pub(super) fn backlog(&self) -> u64 {
        self.stored().as_ref().map_or(0, |(_, lanes)| lanes.backlog())
    }

    fn stored(&self) -> MutexGuard<'_, Option<(Reader, Lanes)>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads messages and makes something of them, all on another thread.
    ///
    /// # Errors
    /// [`ReadFault`]
    ///
    /// # Cancel safety
    /// Changes nothing; what was begun is finished by nobody's wish.
    pub(crate) async fn browse<T: Send + 'static>(
        &self,
        browse: Browse,
        make: impl FnOnce(Page) -> T + Send + 'static,
    ) -> Result<T, ReadFault> {
        self.with(move |reader| read_page(reader, &browse).map(make)).await
    }

    /// Reads whole batches as they are stored. `limit` and `key` are not looked at.
    ///
    /// # Errors
    /// [`ReadFault`]
    ///
    /// # Cancel safety
    /// As [`Self::browse`].
    pub(crate) async fn batches<T: Send + 'static>(
        &self,
        browse: Browse,
        make: impl FnOnce(Pieces) -> T + Send + 'static,
    ) -> Result<T, ReadFault> {
        self.with(move |reader| read_batches(reader, &browse).map(make)).await
    }

    /// Where to begin reading for messages from a time on; `end` if all are older.
    ///
    /// # Errors
    /// [`ReadFault`]
    ///
    /// # Cancel safety
    /// As [`Self::browse`].
    pub(crate) async fn find_time(
        &self,
        partition: PartitionId,
        time: Wall,
        (start, end): (u64, u64),
    ) -> Result<u64, ReadFault> {
        let found = self.with(move |reader| Ok(reader.find_time(lane(partition), time)?)).await?;
        Ok(found.map_or(end, |offset| offset.clamp(start, end)))
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, ReadFault> + Send + 'static,
    ) -> Result<T, ReadFault> {
        // It is never closed.
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let reader = self.stored().as_ref().map(|(reader, _)| reader.clone());
        let reader = reader.ok_or(ReadFault::Closed)?;
        let working = spawn_blocking(move || {
            let done = work(&reader);
            drop((reader, turn));
            done
        });
        working.await.map_err(|_| ReadFault::Panicked)?
    }
}

fn lane(partition: PartitionId) -> Lane {
    Lane(partition.lane())
}

/// Walks over batches until `take` has enough.
fn walk(
    reader: &Reader,
    browse: &Browse,
    mut take: impl FnMut(&Frame) -> Result<Next, batch::BadBatch>,
) -> Result<Found, ReadFault> {
    let (mut at, end) = (browse.from, browse.end);
    let mut skipped = Vec::new();
    let (mut looked_at, mut piece) = (0, PIECE_MIN);
    while at < end && looked_at < LOOKED_AT_MAX {
        let read = reader.read_below(lane(browse.partition), at, end, piece as u64)?;
        piece = (piece * 4).min(PIECE_MAX);
        let frames = match read {
            Read::Frames(frames) if frames.is_empty() => break,
            Read::Frames(frames) => frames,
            Read::End { .. } => break,
            Read::Corrupt { from, to } => {
                let to = to.clamp(at + 1, end);
                skipped.push(Skipped { why: Why::Corrupt, from: from.max(at), to });
                at = to;
                continue;
            }
            Read::Trimmed { start } if at == browse.from => {
                return Err(ReadFault::Trimmed { start });
            }
            Read::Trimmed { start } => {
                let to = start.clamp(at + 1, end);
                skipped.push(Skipped { why: Why::Trimmed, from: at, to });
                at = to;
                continue;
            }
        };
        for frame in &frames {
            looked_at += frame.body.len();
            match take(frame) {
                Ok(Next::Batch) => {}
                Ok(Next::Enough { next }) => return Ok(Found { next, skipped }),
                // Storage checks what it gives, so this is one that was stored so.
                Err(_) => {
                    let (from, to) = (frame.base.max(at), frame.end());
                    skipped.push(Skipped { why: Why::Corrupt, from, to });
                }
            }
            at = frame.end().max(at);
        }
    }
    Ok(Found { next: at, skipped })
}

enum Next {
    Batch,
    Enough { next: u64 },
}

fn read_page(reader: &Reader, browse: &Browse) -> Result<Page, ReadFault> {
    let mut records: Vec<Record> = Vec::new();
    let mut bytes = 0;
    let found = walk(reader, browse, |frame| {
        for record in batch::records(&frame.body, BATCH_BYTES_MAX)? {
            let early = browse.since.is_some_and(|since| record.timestamp < since);
            if record.offset < browse.from || early {
                continue;
            }
            if browse.key.is_some() && browse.key != record.key {
                continue;
            }
            if records.len() >= browse.limit || bytes >= browse.bytes_max {
                return Ok(Next::Enough { next: record.offset });
            }
            bytes += weight(&record);
            records.push(record);
        }
        Ok(Next::Batch)
    })?;
    Ok(Page { records, found })
}

fn read_batches(reader: &Reader, browse: &Browse) -> Result<Pieces, ReadFault> {
    let mut batches: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    let found = walk(reader, browse, |frame| {
        if bytes > 0 && bytes + frame.body.len() > browse.bytes_max {
            return Ok(Next::Enough { next: frame.base });
        }
        bytes += frame.body.len();
        batches.push(frame.body.clone());
        Ok(Next::Batch)
    })?;
    Ok(Pieces { batches, found })
}

fn weight(record: &Record) -> usize {
    let headers = record.headers.iter().map(|header| header.name.len() + header.value.len());
    record.key.as_ref().map_or(0, Bytes::len)
        + record.payload.as_ref().map_or(0, Bytes::len)
        + headers.sum::<usize>()
}
