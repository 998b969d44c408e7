//! One life of a server.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::journal::{Inline, Ticket};
use handoff_store_embedded::{Checkpointing, Host};
use handoff_types::Now;

use super::parts::Parts;
use super::trouble::Trouble;
use crate::room::{Action, Command, Reply};

/// A server between its opening and its end.
pub(super) struct Process<P: Parts> {
    pub(super) directory: Directory,
    pub(super) inline: Arc<Inline>,
    pub(super) host: Host<P::Room>,
    pub(super) trouble: Trouble,
    pub(super) checkpoint: Option<Checkpointing>,
    pub(super) underway: VecDeque<Underway>,
    /// A mark stands behind the last round and bears witness for it.
    pub(super) marked: bool,
}

impl<P: Parts> fmt::Debug for Process<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A command that was decided and not answered.
#[derive(Debug)]
pub(super) struct Underway {
    pub(super) command: Command,
    pub(super) now: Now,
    pub(super) reply: Reply,
    pub(super) actions: Vec<Action>,
    pub(super) ticket: Ticket,
}

impl<P: Parts> Process<P> {
    /// What nobody was answered, in the order it was decided.
    pub(super) fn unanswered(&self) -> Vec<(Command, Now)> {
        self.underway.iter().map(|one| (one.command.clone(), one.now)).collect()
    }

    /// Ends as a server does that is told to. Everything that was admitted is committed.
    ///
    /// # Errors
    /// The words of the disk, if it fails.
    pub(super) fn close(self) -> Result<(), String> {
        let Self { inline, host, checkpoint, .. } = self;
        drop((host, checkpoint));
        let inline = Arc::into_inner(inline).ok_or("somebody still has the journal")?;
        inline.close().map_err(|stalled| stalled.to_string())
    }
}
