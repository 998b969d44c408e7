//! The machine.

use handoff_types::{Decision, Entropy, Machine, Now, Steady};

use crate::groups::{self, GroupName, MemberId, Reads};
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
            Command::Group(command) => groups::decide(state, command, now, entropy),
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

    /// The messages that have to be read before a command is decided, because they may become dead
    /// letters. They come with the command; one that is not kept any more, or was lost, as such. A
    /// commit that is decided without one answers which; a sweep leaves it to the next.
    #[must_use]
    pub fn reads(state: &State, command: &Command, now: Now) -> Reads {
        match command {
            Command::Group(command) => groups::reads(state, command, now),
            _ => Vec::new(),
        }
    }

    /// The aggregates that [`State::candidates`] looks at.
    #[must_use]
    pub fn needs_of_candidates(
        state: &State,
        group: &GroupName,
        member: MemberId,
    ) -> Vec<crate::Key> {
        groups::of_candidates(state, group, member)
    }

    /// The aggregates that [`State::group_view`] and [`State::due`] look at.
    #[must_use]
    pub fn needs_of_group(state: &State, group: &GroupName) -> Vec<crate::Key> {
        groups::of_view(state, group)
    }
}

/// A reply that changes nothing.
pub(crate) fn answer(reply: Reply) -> Decided {
    Decision { reply, changes: Vec::new(), actions: Vec::new() }
}
