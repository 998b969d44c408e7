//! A checkpoint being taken, step by step, while its room goes on.

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::checkpoint::{self, Chunk, Mark, Writer};
use handoff_log::directory::Directory;
use handoff_log::journal::{Lost, Ticket};
use handoff_types::{Now, Outcome, Sequence};
use thiserror::Error;

use crate::bulk::BulkError;
use crate::host::Host;
use crate::persist::Persist;

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A chunk was cut and waits for the journal, or all were and wait for the mover.
    Waiting,
    /// There is more to cut.
    More,
    /// It is in force and the journal was trimmed.
    Done,
}

/// Why a checkpoint was given up. The one before it stays in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StepError {
    /// It could not be written.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// Bodies that the state knows of could not be moved.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// The journal stopped.
    #[error(transparent)]
    Journal(#[from] Lost),
    /// An earlier step failed.
    #[error("an earlier step of this checkpoint failed; begin another")]
    GivenUp,
}

/// A checkpoint of one room on its way.
#[derive(Debug)]
pub struct Checkpointing {
    /// Gone when the checkpoint is in force, and when a step failed.
    writer: Option<Writer>,
    done: bool,
    /// The first key not cut yet; none when all are.
    next: Option<Bytes>,
    cut: Option<Cut>,
    high: Sequence,
    chunk_bytes: usize,
}

/// A chunk that may hold changes which are not durable yet.
#[derive(Debug)]
struct Cut {
    from: Bytes,
    state: Bytes,
    to: Option<Bytes>,
    /// Fulfilled when everything that the state has is durable, and says up to where that is.
    ticket: Ticket,
}

impl Checkpointing {
    /// Begins a checkpoint.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn begin<M: Persist>(directory: &Directory, chunk_bytes: usize) -> Result<Self, StepError> {
        let writer = Some(Writer::begin(Arc::clone(&directory.disk), M::ROOM, directory.id)?);
        let next = Some(Bytes::new());
        Ok(Self { writer, done: false, next, cut: None, high: Sequence::NONE, chunk_bytes })
    }

    /// Takes the next step: cuts a chunk, writes one whose changes are durable, or ends the
    /// checkpoint. The room's state is looked at only while a chunk is cut.
    ///
    /// # Errors
    /// [`StepError`]; the checkpoint is given up by dropping it.
    pub fn step<M: Persist>(
        &mut self,
        host: &mut Host<M>,
        now: Now,
    ) -> Result<Progress, StepError> {
        if let Some(cut) = self.cut.take() {
            return self.write(cut);
        }
        match self.next.take() {
            Some(from) => {
                let (state, to) = M::snapshot(host.state(), &from, self.chunk_bytes);
                let ticket = host.journal().barrier(M::ROOM);
                self.cut = Some(Cut { from, state, to, ticket });
                Ok(Progress::More)
            }
            None => self.finish(host, now),
        }
    }

    fn write(&mut self, cut: Cut) -> Result<Progress, StepError> {
        let Some(outcome) = cut.ticket.outcome() else {
            self.cut = Some(cut);
            return Ok(Progress::Waiting);
        };
        // A step that fails does not put it back: what lacks a chunk must never count.
        let mut writer = self.writer.take().ok_or(StepError::GivenUp)?;
        let committed = outcome?;
        let mark = Mark { sequence: committed.sequence, position: committed.position };
        let Cut { from, state, to, .. } = cut;
        self.high = self.high.max(mark.sequence);
        writer.chunk(&Chunk { from, to: to.clone(), mark, state })?;
        self.writer = Some(writer);
        self.next = to;
        Ok(Progress::More)
    }

    /// What the state says of bodies must be true of segments before the journal forgets them.
    fn finish<M: Persist>(&mut self, host: &mut Host<M>, now: Now) -> Result<Progress, StepError> {
        if self.done {
            return Ok(Progress::Done);
        }
        let writer = self.writer.take().ok_or(StepError::GivenUp)?;
        if !host.bulk().want(self.high)? {
            if host.bulk().is_handed_over() {
                self.writer = Some(writer);
                return Ok(Progress::Waiting);
            }
            // Everything durable is moved now. What is still missing the journal will never give:
            // it has stopped.
            return Err(Lost { outcome: Outcome::Unknown }.into());
        }
        let low = writer.finish(now)?;
        host.journal().trim(M::ROOM, low.position);
        self.done = true;
        Ok(Progress::Done)
    }
}
