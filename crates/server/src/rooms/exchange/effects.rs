//! What is done once a decision is durable.

use handoff_exchange::Action;

use super::mailbox::{Asker, Done, Shown, Tell};
use crate::rooms::RoomError;

/// First what others see, then the answer.
pub(super) struct Effect {
    pub(super) shown: Vec<Shown>,
    pub(super) actions: Vec<Action>,
    pub(super) then: Then,
}

/// Who hears of it.
pub(super) enum Then {
    /// Nobody.
    Nothing,
    /// Whoever asked.
    Answer(Asker, Result<Done, RoomError>),
    /// Whoever looked.
    Tell(Tell),
    /// The folders: a file was taken in, or not.
    TakenIn(String, bool),
}
