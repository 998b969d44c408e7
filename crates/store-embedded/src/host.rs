//! A living room: its state in memory and its way to the journal.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Entry, Journal, Permit, Purpose, Refused, Ticket};
use handoff_log::segments::Lane;
use handoff_types::{Decision, Entropy, Now, Room, Sequence, Steady};

use crate::bulk::{Bulk, BulkError};
use crate::lanes::Lanes;
use crate::persist::{Frame, Persist};
use crate::reader::Reader;

/// A command that was decided. Reply and actions are released when the ticket is fulfilled.
#[derive(Debug)]
#[must_use = "the reply is released only when the ticket is fulfilled"]
pub struct Applied<M: Persist> {
    /// The answer, a refusal included.
    pub reply: M::Reply,
    /// What the shell does then.
    pub actions: Vec<M::Action>,
    /// Durable up to everything the answer rests on.
    pub ticket: Ticket,
    /// The record that holds the changes; none if nothing changed, or nothing of it is written.
    pub sequence: Option<Sequence>,
    /// Something changed and nothing of it is written, see [`Persist::written`].
    pub unwritten: bool,
}

/// Decisions that follow each other at once, see [`Host::hold`].
#[derive(Debug)]
pub struct Held {
    journal: Arc<dyn Journal>,
    room: Room,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.journal.let_go(self.room);
    }
}

/// A room on embedded storage. It belongs to one task; nobody else touches its state.
pub struct Host<M: Persist> {
    state: M::State,
    journal: Arc<dyn Journal>,
    bulk: Bulk,
}

impl<M: Persist> fmt::Debug for Host<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("room", &M::ROOM).finish_non_exhaustive()
    }
}

impl<M: Persist> Host<M> {
    pub(crate) fn new(state: M::State, journal: Arc<dyn Journal>, bulk: Bulk) -> Self {
        Self { state, journal, bulk }
    }

    /// The state, the changes that are not durable yet included.
    #[must_use]
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// The journal the room writes to.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// When the machine next wants to be driven.
    #[must_use]
    pub fn next_deadline(&self, now: Now) -> Option<Steady> {
        M::next_deadline(&self.state, now)
    }

    /// What is decided until this is dropped need not be written one by one.
    #[must_use = "dropped at once, it holds nothing"]
    pub fn hold(&self) -> Held {
        self.journal.hold(M::ROOM);
        Held { journal: Arc::clone(&self.journal), room: M::ROOM }
    }

    /// Decides a command and appends what becomes true. `bodies` belong to the changes that have
    /// a frame, in their order; if the decision has no such change they are dropped.
    ///
    /// # Errors
    /// [`Refused`] before anything was decided; nothing changed.
    pub fn apply(
        &mut self,
        command: &M::Command,
        bodies: Vec<Bytes>,
        purpose: Purpose,
        chance: (Now, Entropy),
    ) -> Result<Applied<M>, Refused> {
        let bytes = bodies.iter().map(|body| body.len() as u64).sum();
        self.decide(command, bytes, purpose, chance, |frames| {
            if frames.is_empty() { Vec::new() } else { bodies }
        })
    }

    /// Decides a command and appends what becomes true. Bodies are made by the decision and are in
    /// its changes, see [`Persist::body`]. `bytes` is what changes and bodies take at most, besides
    /// some KiB that every decision is granted.
    ///
    /// # Errors
    /// [`Refused`] before anything was decided; nothing changed.
    pub fn apply_made(
        &mut self,
        command: &M::Command,
        bytes: u64,
        purpose: Purpose,
        chance: (Now, Entropy),
    ) -> Result<Applied<M>, Refused> {
        self.decide(command, bytes, purpose, chance, |frames| {
            frames.iter().filter_map(|change| M::body(change)).collect()
        })
    }

    /// `bodies` gives the bodies of the changes that have a frame.
    fn decide(
        &mut self,
        command: &M::Command,
        bytes: u64,
        purpose: Purpose,
        (now, entropy): (Now, Entropy),
        bodies: impl FnOnce(&[&M::Change]) -> Vec<Bytes>,
    ) -> Result<Applied<M>, Refused> {
        let permit = self.journal.admit(M::ROOM, bytes.saturating_add(ESTIMATE), purpose)?;
        let Decision { reply, changes, actions } = M::decide(&self.state, command, now, entropy);
        if changes.is_empty() {
            let ticket = self.journal.barrier(M::ROOM);
            return Ok(Applied { reply, actions, ticket, sequence: None, unwritten: false });
        }
        let Some((sequence, ticket)) = self.append(permit, &changes, now, bodies) else {
            let ticket = self.journal.barrier(M::ROOM);
            return Ok(Applied { reply, actions, ticket, sequence: None, unwritten: true });
        };
        let sequence = Some(sequence);
        Ok(Applied { reply, actions, ticket, sequence, unwritten: false })
    }

    /// Appends what was decided elsewhere, on this very state. Bodies are in the changes; `bytes` is as
    /// in [`Self::apply_made`]. Without changes the ticket is for everything before.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn append_made(
        &mut self,
        changes: &[M::Change],
        bytes: u64,
        purpose: Purpose,
        now: Now,
    ) -> Result<Ticket, Refused> {
        if changes.is_empty() {
            return Ok(self.journal.barrier(M::ROOM));
        }
        let permit = self.journal.admit(M::ROOM, bytes.saturating_add(ESTIMATE), purpose)?;
        let made = |frames: &[&M::Change]| frames.iter().filter_map(|one| M::body(one)).collect();
        let appended = self.append(permit, changes, now, made);
        Ok(appended.map_or_else(|| self.journal.barrier(M::ROOM), |(_, ticket)| ticket))
    }

    /// Appends what is written of changes, and makes all of them true. None if nothing is.
    fn append(
        &mut self,
        permit: Permit,
        changes: &[M::Change],
        now: Now,
        bodies: impl FnOnce(&[&M::Change]) -> Vec<Bytes>,
    ) -> Option<(Sequence, Ticket)> {
        let written = M::written(&self.state, changes);
        if written.is_empty() {
            for one in changes {
                M::evolve(&mut self.state, one);
            }
            return None;
        }
        let mut change = Vec::with_capacity(written.len() * CHANGE_BYTES);
        for one in &written {
            M::encode_change(one, &mut change);
        }
        let (framed, frames): (Vec<&M::Change>, Vec<Frame>) =
            written.into_iter().filter_map(|change| Some((change, M::frame(change)?))).unzip();
        let bodies = bodies(&framed);
        assert_eq!(frames.len(), bodies.len(), "a body for every frame");
        let length = |body: &Bytes| u32::try_from(body.len()).unwrap_or(u32::MAX);
        let frames: Vec<_> = frames.into_iter().zip(bodies.iter().map(length)).collect();
        let entry = Entry { room: M::ROOM, now, change: change.into(), bodies };
        let (sequence, ticket) = self.journal.append(permit, entry);
        for one in changes {
            M::evolve(&mut self.state, one);
        }
        if !frames.is_empty() {
            self.bulk.expect(sequence, ticket.receipt(), frames);
        }
        Some((sequence, ticket))
    }

    /// The body of a frame that the state knows of, from the journal or from segments. None if
    /// it is not durable yet, or not kept any more.
    ///
    /// # Errors
    /// See [`BulkError`]. A body that should be there and is not is [`BulkError::Corrupt`].
    pub fn body(&self, frame: Frame) -> Result<Option<Bytes>, BulkError> {
        self.bulk.read(frame)
    }

    /// Reads the room's lanes from beside it, on any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.bulk.reader()
    }

    /// Keeps the room's lanes from beside it, on any thread.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        self.bulk.lanes()
    }

    /// Lanes on disk that the state does not know: a crash came between a decision and the removal,
    /// or undid it. For a room that has all lanes of the directory to itself. Blocks for the disk.
    ///
    /// # Errors
    /// [`BulkError::Segments`]
    pub fn strays(&self) -> Result<Vec<Lane>, BulkError> {
        let lanes = self.lanes().on_disk()?;
        Ok(lanes.into_iter().filter(|lane| !M::has_lane(&self.state, *lane)).collect())
    }

    /// The room's bulk data.
    pub fn bulk(&mut self) -> &mut Bulk {
        &mut self.bulk
    }
}

/// What most changes take, bodies aside.
const CHANGE_BYTES: usize = 64;

/// What is granted to every decision besides what its caller knows of.
const ESTIMATE: u64 = 4096;
