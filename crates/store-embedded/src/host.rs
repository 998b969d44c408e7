//! A living room: its state in memory and its way to the journal.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Entry, Journal, Purpose, Refused, Ticket};
use handoff_types::{Decision, Entropy, Now, Sequence, Steady};

use crate::bulk::{Bulk, BulkError};
use crate::persist::{Frame, Persist};

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
    /// The record that holds the changes; none if nothing changed.
    pub sequence: Option<Sequence>,
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
        (now, entropy): (Now, Entropy),
    ) -> Result<Applied<M>, Refused> {
        let bytes = bodies.iter().map(|body| body.len() as u64).sum::<u64>() + ESTIMATE;
        let permit = self.journal.admit(M::ROOM, bytes, purpose)?;
        let Decision { reply, changes, actions } = M::decide(&self.state, command, now, entropy);
        if changes.is_empty() {
            let ticket = self.journal.barrier(M::ROOM);
            return Ok(Applied { reply, actions, ticket, sequence: None });
        }
        let mut change = Vec::new();
        for one in &changes {
            M::encode_change(one, &mut change);
        }
        let frames: Vec<Frame> = changes.iter().filter_map(M::frame).collect();
        assert!(frames.is_empty() || frames.len() == bodies.len(), "a body for every frame");
        let bodies = if frames.is_empty() { Vec::new() } else { bodies };
        let entry = Entry { room: M::ROOM, now, change: change.into(), bodies };
        let (sequence, ticket) = self.journal.append(permit, entry);
        for one in &changes {
            M::evolve(&mut self.state, one);
        }
        if !frames.is_empty() {
            self.bulk.expect(sequence, ticket.receipt(), frames);
        }
        Ok(Applied { reply, actions, ticket, sequence: Some(sequence) })
    }

    /// The body of a frame that the state knows of, from the journal or from segments. None if
    /// it is not durable yet, or not kept any more.
    ///
    /// # Errors
    /// See [`BulkError`]. A body that should be there and is not is [`BulkError::Corrupt`].
    pub fn body(&self, frame: Frame) -> Result<Option<Bytes>, BulkError> {
        self.bulk.read(frame)
    }

    /// The room's bulk data.
    pub fn bulk(&mut self) -> &mut Bulk {
        &mut self.bulk
    }
}

/// What a change without bodies takes at most, as far as admission is concerned.
const ESTIMATE: u64 = 4096;
