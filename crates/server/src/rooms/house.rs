//! The house at work: tokens and acts.
//!
//! ```text
//!  create, revoke, note ─▶ mailbox ─▶ decide, append ─▶ on their way ─durable─▶ answer
//!  tokens, acts ─────────▶                 │                 │
//!                                   revoke │          create │
//!                                          ▼                 ▼
//!  by_digest ◀───────────────────────── the tokens that open doors
//! ```
//!
//! * A command is decided while those before it are still on their way to the disk; answers are
//!   given in the order of the decisions, each when everything it rests on is durable. Lists too.
//! * A new token opens doors when it is durable, a revoked one stops when the revocation is
//!   decided: in doubt a door stays closed. If the revocation is then lost, the journal has
//!   stopped and the process ends.
//! * Tokens that the journal gave back open doors at once, also those of a last round that is being
//!   written again: whatever their holders make durable comes behind it in the journal.

mod keys;
mod task;

use std::sync::Arc;

use handoff_house::{Act, ActKind, Command, Digest, House, NewToken, Token, TokenId};
use handoff_log::journal::{Lost, Purpose};
use handoff_store_embedded::Host;
use handoff_types::Outcome;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::keys::Keys;
use self::task::{Request, Task};
use super::RoomError;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::runtime::checkpoints::Checkpoints;

/// Requests that wait for the room. Who comes when it is full waits outside.
const MAILBOX: usize = 256;

/// A way to the house. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HouseRoom {
    mailbox: mpsc::Sender<Request>,
    keys: Arc<Keys>,
    clock: Clock,
}

impl HouseRoom {
    /// Brings the house to life. Its task ends when it is told to stop or nobody has a way to it
    /// any more; what was asked before that is finished first. Then it drops its host.
    #[must_use]
    pub fn start(
        host: Host<House>,
        clock: Clock,
        dice: Dice,
        checkpoints: Checkpoints<House>,
        stop: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (mailbox, requests) = mpsc::channel(MAILBOX);
        let keys = Arc::new(Keys::new(host.state().tokens()));
        let task = Task::new(host, requests, Arc::clone(&keys), clock.clone(), dice, checkpoints);
        let task = tokio::spawn(task.run(stop));
        (Self { mailbox, keys, clock }, task)
    }

    /// Keeps a token. Durable when it answers.
    ///
    /// # Errors
    /// [`RoomError::House`] and the journal's.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    pub async fn create(&self, token: NewToken, who: &str) -> Result<(), RoomError> {
        self.command(Command::Create { token: Box::new(token), who: who.to_owned() }).await
    }

    /// Forgets a token. Durable when it answers; from then on it opens nothing.
    ///
    /// # Errors
    /// As [`Self::create`].
    ///
    /// # Cancel safety
    /// As [`Self::create`].
    pub async fn revoke(&self, id: TokenId, who: &str) -> Result<(), RoomError> {
        self.command(Command::Revoke { id, who: who.to_owned() }).await
    }

    /// Notes an act. Durable when it answers.
    ///
    /// # Errors
    /// The journal's.
    ///
    /// # Cancel safety
    /// As [`Self::create`].
    pub async fn note(&self, kind: ActKind, target: &str, who: &str) -> Result<(), RoomError> {
        let (target, who) = (target.to_owned(), who.to_owned());
        self.command(Command::Note { kind, target, who }).await
    }

    /// The token with this digest, unless it has expired. Answered from memory, without waiting.
    #[must_use]
    pub fn by_digest(&self, digest: &Digest) -> Option<Token> {
        self.find(digest).map(Arc::unwrap_or_clone)
    }

    /// As [`Self::by_digest`], without a copy.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Token>> {
        self.keys.find(digest).filter(|token| !token.is_expired(self.clock.wall()))
    }

    /// Whether any token opens anything.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.any(|token| !token.is_expired(self.clock.wall()))
    }

    /// All tokens.
    ///
    /// # Errors
    /// When the house is closed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn tokens(&self) -> Result<Vec<Token>, RoomError> {
        self.ask(Request::Tokens).await
    }

    /// Acts, the latest first, those below a number, at most `limit`.
    ///
    /// # Errors
    /// When the house is closed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn acts(&self, below: Option<u64>, limit: usize) -> Result<Vec<Act>, RoomError> {
        self.ask(|answer| Request::Acts { below, limit, answer }).await
    }

    async fn command(&self, command: Command) -> Result<(), RoomError> {
        self.ask(|answer| Request::Command(command, answer)).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, RoomError>>) -> Request,
    ) -> Result<T, RoomError> {
        let (sender, answer) = oneshot::channel();
        let closed =
            |_| RoomError::Closed("the house is closed: the server is stopping".to_owned());
        self.mailbox.send(request(sender)).await.map_err(closed)?;
        // The room answers whatever it takes. If it does not, its task is gone.
        answer.await.unwrap_or(Err(RoomError::Lost(Lost { outcome: Outcome::Unknown })))
    }
}

/// A new token is something new. Taking one away, and saying what happened, must also be possible
/// when the journal takes nothing new.
pub(crate) fn purpose(command: &Command) -> Purpose {
    match command {
        Command::Create { .. } => Purpose::Accept,
        Command::Revoke { .. } | Command::Note { .. } => Purpose::Finish,
    }
}

#[cfg(test)]
pub(crate) mod bench;
#[cfg(test)]
mod tests;
