//! The rules.

mod admin;
mod chores;
mod devices;
mod draft;
mod ending;
mod notices;
mod process;

use handoff_types::{Decision, Entropy, Machine, Now, Steady};

pub use self::chores::{EXPIRED_AT_ONCE, REMINDED_AT_ONCE};
use self::draft::Draft;
use crate::evolve::evolve;
use crate::{Action, Ask, Cancelled, Change, Command, Refusal, Reply, State};

/// The machine of the exchange.
#[derive(Clone, Copy, Debug)]
pub enum Exchange {}

impl Machine for Exchange {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(
        state: &State,
        command: &Command,
        now: Now,
        entropy: Entropy,
    ) -> Decision<Reply, Change, Action> {
        let mut draft = Draft::new(state, &command.rules, now);
        match draft.answer(&command.ask, entropy) {
            Ok(reply) => draft.into_decision(reply),
            // What a refusal would have done is not done.
            Err(Stopped::Refused(refusal)) => {
                Draft::new(state, &command.rules, now).into_decision(Reply::Refused(refusal))
            }
            Err(Stopped::Cancelled(cancelled)) => {
                let mut draft = Draft::new(state, &command.rules, now);
                draft.note_cancelled(&command.ask, &cancelled);
                draft.into_decision(Reply::Cancelled(cancelled))
            }
        }
    }

    fn evolve(state: &mut State, change: &Change) {
        evolve(state, change);
    }

    fn next_deadline(state: &State, _: Now) -> Option<Steady> {
        state.deadlines().next().map(|(deadline, _)| deadline)
    }
}

/// Why a command is not followed.
#[derive(Debug)]
enum Stopped {
    Refused(Refusal),
    Cancelled(Cancelled),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Cancelled> for Stopped {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<crate::Unfit> for Stopped {
    fn from(unfit: crate::Unfit) -> Self {
        Self::Cancelled(Cancelled::Unfit(unfit))
    }
}

impl Draft<'_> {
    fn answer(&mut self, ask: &Ask, entropy: Entropy) -> Result<Reply, Stopped> {
        match ask {
            Ask::Admin(admin) => Ok(self.admin(admin)?),
            Ask::Activate { code, token } => Ok(self.activate(code, token)?),
            Ask::Post { device, messages } => Ok(self.post(*device, messages)?),
            Ask::Ack { device, ids } => Ok(self.ack(*device, ids)?),
            Ask::Begin { database, wish } => Ok(self.begin(*database, wish, entropy)?),
            Ask::Process { database, id, step } => self.step(*database, *id, step),
            Ask::Resolve { database, outcomes } => Ok(self.resolve(*database, outcomes)),
            Ask::Requeue { database, messages } => Ok(self.requeue(*database, messages)?),
            Ask::Damaged { seq, words } => Ok(self.damaged(*seq, words)),
            Ask::TakeIn { database, device, message } => {
                Ok(self.take_in(*database, *device, message)?)
            }
            Ask::Settled { number, round } => Ok(self.settled(*number, *round)),
            Ask::Stuck { number, words } => Ok(self.stuck(*number, words)),
            Ask::Opened => Ok(self.opened()),
            Ask::Tick => Ok(self.tick()),
            Ask::Remind => Ok(self.remind()),
            Ask::Retain { many } => Ok(self.retain(*many)),
        }
    }
}
