//! The counter room: a room small enough to be read in one sitting that still does everything
//! the real rooms will ask of the log, the host and the simulator.
//!
//! # Rules
//!
//! A key has a value, a memory of tickets, perhaps a hold, and notes. A key nobody wrote to has
//! the value 0, no hold and no notes.
//!
//! * **Add** changes the value by an amount and answers the new value. A key remembers its last
//!   16 tickets with the value each led to: a remembered ticket answers that value again and
//!   changes nothing, whatever else is true. Otherwise a standing hold refuses, and so does a
//!   value that would leave ±1,000,000.
//! * **Hold** freezes a key for a span of steady time: nobody changes its value meanwhile, and
//!   nobody else holds it. The hold's id is drawn from entropy. A hold stands as long as its
//!   `until` lies ahead; from then on it hinders nobody, whether a tick has noticed or not.
//! * **Release** takes away the hold that it names, standing or not; any other it refuses.
//! * **Move** takes an amount from one key and gives it to another, both or neither. The ticket
//!   is remembered with `from`. Refusals in this order: the two are one key, `from` held, `to`
//!   held, `from` over the limit, `to` over the limit.
//! * **Note** stores a body, of any size, and answers its offset: 0, 1, 2, … for each key. The
//!   body itself is bulk data in the lane of its key; the state knows how many there are and the
//!   checksum of the last.
//! * **Tick** ends at most 16 holds that stand no longer, the longest past first.
//! * **Read** answers what a key looks like.
//!
//! A value that passes from one hundred to another is announced (hundreds begin at …, −100, 0,
//! 100, …). The end of a hold is told when a tick or the next hold ends it, not when it is
//! released.

mod action;
mod change;
mod codec;
mod command;
mod decide;
mod name;
mod persist;
mod reply;
mod snapshot;
mod state;

pub use action::Action;
pub use change::{Bulk, Change};
pub use codec::Malformed;
pub use command::Command;
pub use name::{BadName, Name};
pub use persist::note_frame;
pub use reply::{Ended, Refusal, Reply, Seen};
pub use snapshot::Covered;
pub use state::{Hold, State, Tally};

use handoff_types::{Decision, Entropy, Machine, Now, Steady};

/// No value lies further from zero.
pub const VALUE_LIMIT: i64 = 1_000_000;

/// How many tickets a key remembers.
pub const TICKETS_REMEMBERED: usize = 16;

/// How many holds one tick ends.
pub const TICK_HOLDS_MAX: usize = 16;

/// A value that passes from one multiple of this to another is announced.
pub const ANNOUNCE_EVERY: i64 = 100;

/// The counter room.
#[derive(Clone, Copy, Debug)]
pub struct Counter;

impl Machine for Counter {
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
        decide::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        state.evolve(change);
    }

    fn next_deadline(state: &State, _: Now) -> Option<Steady> {
        state.next_deadline()
    }
}
