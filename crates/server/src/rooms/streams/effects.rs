//! What is done once a decision is durable.

use handoff_streams::Action;

use super::mailbox::{Answer, Asker, Shown};
use crate::rooms::RoomError;

/// First what readers see, then the answer.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) shown: Option<Shown>,
    pub(super) actions: Vec<Action>,
    pub(super) answer: Option<(Asker, Result<Answer, RoomError>)>,
}
