//! The task that owns the house.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use handoff_house::{Act, Command, House, Reply, Token, TokenId};
use handoff_log::journal::{Committed, Lost, Ticket};
use handoff_store_embedded::{Host, Persist};
use tokio::sync::{mpsc, oneshot};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::keys::Keys;
use super::purpose;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::RoomError;
use crate::runtime::checkpoints::Checkpoints;

/// Answers on their way to the disk. While there are more, nothing is decided.
const ON_THEIR_WAY: usize = 64;

type Answer<T> = oneshot::Sender<Result<T, RoomError>>;

#[derive(Debug)]
pub(super) enum Request {
    Command(Command, Answer<()>),
    Tokens(Answer<Vec<Token>>),
    Acts { below: Option<u64>, limit: usize, answer: Answer<Vec<Act>> },
}

/// An answer that is told when its ticket is fulfilled.
enum Told {
    Command {
        reply: Result<(), RoomError>,
        /// The token that opens doors from then on.
        made: Option<TokenId>,
        answer: Answer<()>,
    },
    Tokens(Vec<Token>, Answer<Vec<Token>>),
    Acts(Vec<Act>, Answer<Vec<Act>>),
}

pub(super) struct Task {
    host: Host<House>,
    requests: mpsc::Receiver<Request>,
    keys: Arc<Keys>,
    clock: Clock,
    dice: Dice,
    checkpoints: Checkpoints<House>,
    /// In the order of the decisions, which is the order in which they become durable.
    on_their_way: VecDeque<(Ticket, Told)>,
}

impl Task {
    pub(super) fn new(
        host: Host<House>,
        requests: mpsc::Receiver<Request>,
        keys: Arc<Keys>,
        clock: Clock,
        dice: Dice,
        checkpoints: Checkpoints<House>,
    ) -> Self {
        let on_their_way = VecDeque::new();
        Self { host, requests, keys, clock, dice, checkpoints, on_their_way }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut timer = pin!(time::sleep(Duration::ZERO));
        let mut checkpoints_end = false;
        let mut stopping = false;
        loop {
            // All of them are cancel safe: a ticket can be polled again, a message stays in the
            // mailbox, the timer is pinned outside.
            tokio::select! {
                biased;
                outcome = first(&mut self.on_their_way) => self.tell(outcome),
                () = &mut timer, if !checkpoints_end => {
                    match self.checkpoints.step(&mut self.host, self.clock.now()) {
                        Some(pause) => timer.set(time::sleep(pause)),
                        None => checkpoints_end = true,
                    }
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.requests.close();
                }
                request = self.requests.recv(), if self.on_their_way.len() < ON_THEIR_WAY => {
                    let Some(request) = request else { break };
                    self.take(request);
                }
            }
        }
        while !self.on_their_way.is_empty() {
            let outcome = first(&mut self.on_their_way).await;
            self.tell(outcome);
        }
    }

    fn take(&mut self, request: Request) {
        let barrier = || self.host.journal().barrier(House::ROOM);
        let waits = match request {
            Request::Command(command, answer) => return self.decide(&command, answer),
            Request::Tokens(answer) => {
                (barrier(), Told::Tokens(self.host.state().tokens().cloned().collect(), answer))
            }
            Request::Acts { below, limit, answer } => {
                let acts = self.host.state().acts_below(below.unwrap_or(u64::MAX));
                (barrier(), Told::Acts(acts.take(limit).cloned().collect(), answer))
            }
        };
        self.on_their_way.push_back(waits);
    }

    fn decide(&mut self, command: &Command, answer: Answer<()>) {
        let when = (self.clock.now(), self.dice.roll());
        let going = match command {
            Command::Revoke { id, .. } => self.host.state().token(id).map(|t| t.token.digest),
            Command::Create { .. } | Command::Note { .. } => None,
        };
        let applied = match self.host.apply(command, Vec::new(), purpose(command), when) {
            Ok(applied) => applied,
            Err(refused) => {
                // Whoever asked may have gone.
                drop(answer.send(Err(refused.into())));
                return;
            }
        };
        let done = applied.reply == Reply::Done;
        if let Some(digest) = going.filter(|_| done) {
            self.keys.remove(&digest);
        }
        let made = match command {
            Command::Create { token, .. } if done => Some(token.id.clone()),
            _ => None,
        };
        let reply = match applied.reply {
            Reply::Done => Ok(()),
            Reply::Refused(refusal) => Err(refusal.into()),
        };
        self.on_their_way.push_back((applied.ticket, Told::Command { reply, made, answer }));
    }

    /// Tells the first answer on its way, now that its ticket says what became of it.
    fn tell(&mut self, outcome: Result<Committed, Lost>) {
        let Some((_, told)) = self.on_their_way.pop_front() else { return };
        let lost = outcome.err().map(RoomError::Lost);
        match told {
            Told::Command { reply, made, answer } => {
                // Unless a revocation was decided meanwhile.
                let made = made.filter(|_| lost.is_none());
                if let Some(token) = made.and_then(|id| self.host.state().token(&id)) {
                    self.keys.put(token.clone());
                }
                drop(answer.send(lost.map_or(reply, Err)));
            }
            Told::Tokens(tokens, answer) => drop(answer.send(lost.map_or(Ok(tokens), Err))),
            Told::Acts(acts, answer) => drop(answer.send(lost.map_or(Ok(acts), Err))),
        }
    }
}

/// What became of the first of them; never, if there is none.
async fn first(on_their_way: &mut VecDeque<(Ticket, Told)>) -> Result<Committed, Lost> {
    match on_their_way.front_mut() {
        Some((ticket, _)) => ticket.await,
        None => pending().await,
    }
}
