//! The shape of a room's machine: it decides, a shell carries.

use crate::{Entropy, Now, Steady};

/// What a command leads to. Nothing of it has happened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<Reply, Change, Action> {
    /// The answer. It reveals state, so it is released only when the changes it rests on, its
    /// own and all earlier ones, are durable. That holds for refusals too.
    pub reply: Reply,
    /// What becomes true. Empty for a refusal or a question.
    pub changes: Vec<Change>,
    /// What the shell does once the changes are durable.
    pub actions: Vec<Action>,
}

/// A room without a disk, a network or a clock.
///
/// `decide` holds every rule and mutates nothing; `evolve` is the only mutation and replay is
/// nothing but `evolve`. Ids, choices and deadlines are *in* the change, so that a state rebuilt
/// from changes equals the live one.
pub trait Machine {
    /// The room's aggregates.
    type State;
    /// What a caller asks for.
    type Command;
    /// What becomes true.
    type Change;
    /// The answer, refusals included.
    type Reply;
    /// A consequence for the shell.
    type Action;

    /// Decides a command against the state.
    fn decide(
        state: &Self::State,
        command: &Self::Command,
        now: Now,
        entropy: Entropy,
    ) -> Decision<Self::Reply, Self::Change, Self::Action>;

    /// Makes a change true. Total: a change that was decided can always be applied.
    fn evolve(state: &mut Self::State, change: &Self::Change);

    /// When the machine next wants to be driven, if ever. What is due by the operator's clock is
    /// given as the steady instant it falls on if nobody sets that clock; `now` relates the two.
    fn next_deadline(state: &Self::State, now: Now) -> Option<Steady>;
}
