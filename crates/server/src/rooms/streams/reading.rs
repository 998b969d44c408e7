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
const READS_MAX: usize = 8;

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

/// Offsets of a partition whose messages are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) partition: PartitionId,
    /// First and last of each run, ascending.
    pub(crate) runs: Vec<(u64, u64)>,
    /// The offset behind the last that may be seen.
    pub(crate) end: u64,
    /// How many messages at most.
    pub(crate) limit: usize,
    /// How many of their bytes at most, give or take one message.
    pub(crate) bytes_max: usize,
    /// Whether what stands behind damage is wanted too.
    pub(crate) past_damage: bool,
}

/// What was found of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picked {
    /// Ascending.
    pub(crate) records: Vec<Record>,
    /// The first offset that is kept, if some that were wanted are not.
    pub(crate) kept: u64,
    /// What could not be read, and ended it: the first, and the first behind it.
    pub(crate) damaged: Option<(u64, u64)>,
    /// Below this everything that was wanted was looked for.
    pub(crate) next: u64,
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

    /// Reads messages at certain offsets.
    ///
    /// # Errors
    /// [`ReadFault`], but not for what is not kept any more: that is said with what is.
    ///
    /// # Cancel safety
    /// As [`Self::browse`].
    pub(crate) async fn pick(&self, pick: Pick) -> Result<Picked, ReadFault> {
        self.with(move |reader| read_picked(reader, &pick)).await
    }

    /// The first offset whose message is from a time on; `end` if all are older.
    ///
    /// # Errors
    /// [`ReadFault`]
    ///
    /// # Cancel safety
    /// As [`Self::browse`].
    pub(crate) async fn first_since(
        &self,
        partition: PartitionId,
        time: Wall,
        (start, end): (u64, u64),
    ) -> Result<u64, ReadFault> {
        let from = self.find_time(partition, time, (start, end)).await?;
        let (since, key) = (Some(time), None);
        let browse = Browse { partition, from, end, since, key, limit: 1, bytes_max: 1 };
        let found = self.browse(browse, |page| page.records.first().map(|record| record.offset));
        match found.await {
            Ok(found) => Ok(found.unwrap_or(end)),
            Err(ReadFault::Trimmed { start }) => Ok(start.min(end)),
            Err(fault) => Err(fault),
        }
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

fn read_picked(reader: &Reader, pick: &Pick) -> Result<Picked, ReadFault> {
    let mut picking = Picking {
        reader,
        pick,
        picked: Picked::default(),
        batch: Vec::new(),
        bytes: 0,
        looked_at: 0,
    };
    for (first, last) in &pick.runs {
        let last = (*last).min(pick.end.saturating_sub(1));
        if *first >= pick.end {
            break;
        }
        if !picking.read((*first, last))? {
            return Ok(picking.picked);
        }
    }
    picking.picked.next = pick.end;
    Ok(picking.picked)
}

struct Picking<'a> {
    reader: &'a Reader,
    pick: &'a Pick,
    picked: Picked,
    /// The batch that was looked at last: the next run may begin in it.
    batch: Vec<Record>,
    bytes: usize,
    looked_at: usize,
}

impl Picking<'_> {
    /// Reads a run. Whether there may be more behind it.
    fn read(&mut self, (first, last): (u64, u64)) -> Result<bool, ReadFault> {
        let mut at = first.max(self.picked.kept);
        let batch = std::mem::take(&mut self.batch);
        if batch.first().is_some_and(|one| one.offset <= at) && !self.take(batch, &mut at, last) {
            return Ok(false);
        }
        let mut piece = PIECE_MIN;
        while at <= last {
            self.picked.next = at;
            if self.looked_at >= LOOKED_AT_MAX && !self.picked.records.is_empty() {
                return Ok(false);
            }
            let lane = lane(self.pick.partition);
            let read = self.reader.read_below(lane, at, self.pick.end, piece as u64)?;
            piece = (piece * 4).min(PIECE_MAX);
            let damaged = match read {
                Read::End { .. } => return Ok(false),
                Read::Frames(frames) if frames.is_empty() => return Ok(false),
                Read::Trimmed { start } => {
                    self.picked.kept = start;
                    at = start.max(at + 1);
                    continue;
                }
                Read::Corrupt { from, to } => Some((from.max(at), to.max(at + 1))),
                Read::Frames(frames) => {
                    let mut damaged = None;
                    for frame in &frames {
                        self.looked_at += frame.body.len();
                        match batch::records(&frame.body, BATCH_BYTES_MAX) {
                            Ok(records) => {
                                if !self.take(records, &mut at, last) {
                                    return Ok(false);
                                }
                                at = at.max(frame.end());
                            }
                            // Storage checks what it gives, so this is one that was stored so.
                            Err(_) => {
                                damaged = Some((frame.base.max(at), frame.end()));
                                break;
                            }
                        }
                        if at > last {
                            break;
                        }
                    }
                    damaged
                }
            };
            let Some((from, to)) = damaged else { continue };
            if !self.pick.past_damage {
                self.picked.damaged = Some((from, to));
                return Ok(false);
            }
            at = to;
        }
        Ok(true)
    }

    /// Takes what a batch has of a run. Whether there may be more.
    fn take(&mut self, records: Vec<Record>, at: &mut u64, last: u64) -> bool {
        for record in &records {
            if record.offset < *at {
                continue;
            }
            if record.offset > last {
                break;
            }
            let full = self.picked.records.len() >= self.pick.limit;
            if full || self.bytes >= self.pick.bytes_max {
                self.picked.next = record.offset;
                return false;
            }
            self.bytes += weight(record);
            *at = record.offset + 1;
            self.picked.records.push(record.clone());
        }
        self.batch = records;
        true
    }
}

/// Bytes of key, payload and headers.
pub(super) fn weight(record: &Record) -> usize {
    let headers = record.headers.iter().map(|header| header.name.len() + header.value.len());
    record.key.as_ref().map_or(0, Bytes::len)
        + record.payload.as_ref().map_or(0, Bytes::len)
        + headers.sum::<usize>()
}
