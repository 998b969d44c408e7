//! The machine.

use handoff_types::{Decision, Entropy, Machine, Now, Steady};

use crate::{
    Action, Change, Command, Refusal, Reply, State, evolve, needs, produce, register, schedule,
    topics,
};

pub(crate) type Decided = Decision<Reply, Change, Action>;

/// The streams room.
#[derive(Clone, Copy, Debug)]
pub struct Streams;

impl Machine for Streams {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let decided = match command {
            Command::CreateTopic { topic, bounds } => topics::create(state, topic, bounds, now),
            Command::AlterTopic { name, settings } => topics::alter(state, name, *settings),
            Command::GrowTopic { name, partitions, bounds } => {
                topics::grow(state, name, *partitions, bounds)
            }
            Command::DeleteTopic { name } => topics::delete(state, name),
            Command::Produce { produce, bounds } => {
                produce::produce(state, produce, bounds, now, entropy)
            }
            Command::RegisterProducer { registration, sight, bounds } => {
                register::register(state, registration, sight, bounds, now, entropy)
            }
            Command::CancelScheduled { id, sight } => schedule::cancel(state, *id, sight),
            Command::Trim { partition, below, bytes } => {
                Ok(topics::trim(state, *partition, *below, *bytes))
            }
            Command::Tick { limit, bytes_max, bounds: _ } => {
                Ok(schedule::tick(state, *limit, *bytes_max, now))
            }
        };
        decided.unwrap_or_else(|refusal: Refusal| answer(Reply::Refused(refusal)))
    }

    fn evolve(state: &mut State, change: &Change) {
        evolve::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        schedule::next_deadline(state, now)
    }
}

impl Streams {
    /// The aggregates a command must see to be decided. A broker on a shared store loads them and
    /// commits under their versions; embedded storage has all of them.
    ///
    /// It may need more once it has seen these: ask again until nothing is missing.
    #[must_use]
    pub fn needs(state: &State, command: &Command) -> Vec<crate::Key> {
        needs::needs(state, command)
    }
}

/// A reply that changes nothing.
pub(crate) fn answer(reply: Reply) -> Decided {
    Decision { reply, changes: Vec::new(), actions: Vec::new() }
}
