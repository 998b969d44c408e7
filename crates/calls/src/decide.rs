//! The rules.

mod channels;
mod clients;
mod dispatch;
mod draft;
mod due;
mod ending;
mod executing;
mod submit;

use handoff_types::{Decision, Entropy, Machine, Now, Steady};

use self::draft::Draft;
pub use self::due::DUE_AT_ONCE;
pub use self::submit::FOLLOWERS_MAX;
use crate::evolve::evolve;
use crate::{Ask, Change, Command, Notice, Refusal, Reply, State};

/// The machine of calls.
#[derive(Clone, Copy, Debug)]
pub enum Calls {}

impl Machine for Calls {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Notice;

    fn decide(
        state: &State,
        command: &Command,
        now: Now,
        entropy: Entropy,
    ) -> Decision<Reply, Change, Notice> {
        let mut draft = Draft::new(state, &command.rules, now, entropy);
        match draft.answer(&command.ask) {
            Ok(reply) => draft.into_decision(reply),
            // What a refusal would have done is not done.
            Err(refusal) => Draft::new(state, &command.rules, now, entropy)
                .into_decision(Reply::Refused(refusal)),
        }
    }

    fn evolve(state: &mut State, change: &Change) {
        evolve(state, change);
    }

    fn next_deadline(state: &State, _: Now) -> Option<Steady> {
        match state.ready().next() {
            Some(_) => Some(Steady(0)),
            None => state.due().next().map(|(due, _)| due),
        }
    }
}

impl Draft<'_> {
    fn answer(&mut self, ask: &Ask) -> Result<Reply, Refusal> {
        match ask {
            Ask::Init { client, name, serves, eager } => self.init(*client, name, serves, *eager),
            Ask::Ping { client } => self.ping(*client),
            Ask::Stop { client } => self.stop(*client),
            Ask::Away { client } => Ok(self.away(*client)),
            Ask::Request(new) => self.request(new),
            Ask::Accept { client, call, fence } => Ok(self.accept(*client, *call, *fence)),
            Ask::Heartbeat { client, call, fence } => Ok(self.heartbeat(*client, *call, *fence)),
            Ask::Respond { client, call, fence, result } => {
                self.respond(*client, *call, *fence, result)
            }
            Ask::Acknowledge { client, call } => self.acknowledge(*client, *call),
            Ask::Cancel { call, by } => self.cancel(*call, *by),
            Ask::Requeue { call } => self.requeue(*call),
            Ask::Purge { channel, only } => self.purge(channel, *only),
            Ask::SetChannel { channel, settings } => self.set_channel(channel, *settings),
            Ask::UnsetChannel { channel } => self.unset_channel(channel),
            Ask::Opened => Ok(self.opened()),
            Ask::Tick => Ok(self.tick()),
        }
    }
}
