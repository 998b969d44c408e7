//! Consumer groups: who reads which partitions, and how it went with every message.
//!
//! # Rules
//! * A message of a partition is, for a group, pending, processing, processed or dead. That is kept
//!   as two offsets and ranges between them ([`Position`]), never as something per message.
//! * Nobody is handed a message that another holds. It is held by whoever it was handed to until
//!   that one answers, is gone, or is too late, whoever has the partition meanwhile.
//! * What was committed never goes back, but when somebody seeks.
//! * A message dies in the same decision that stores its letter.
//! * Bodies and ends of partitions are not the machine's: [`candidates`] says what may be read, and
//!   what was read comes with the command. It never changes, so nothing is decided on an old look.
//!
//! [`candidates`]: crate::State::candidates

mod assignment;
mod attending;
mod change;
pub(crate) mod codec;
mod command;
mod commit;
mod dead;
mod funeral;
mod manage;
mod membership;
mod needs;
mod poll;
mod position;
mod ranges;
mod replay;
mod seek;
mod settings;
mod store;
mod sweep;
mod views;

use handoff_types::{Entropy, Now};

use crate::decide::Decided;
use crate::{Refusal, State};

pub use change::GroupChange;
pub use command::{
    Assigned, Body, CommitOutcome, Committed, Due, Fact, Found, GroupBounds, GroupCommand,
    GroupRefusal, GroupReply, HandedOut, Join, OnCorrupt, Reads, ReplayOutcome, Replayed, Sought,
    Spot, Verdict, VerdictStatus,
};
pub use dead::{Letter, Letters};
pub use membership::{BadMemberId, Given, Member, MemberId, Members};
pub use poll::Candidate;
pub use position::{DeadRun, Lease, LeaseId, Position, Run, Step};
pub use ranges::{Keys, Mark, Range};
pub use settings::{BadGroupName, Group, GroupId, GroupName, GroupSettings, Order, Start};
pub use views::{GroupFigures, GroupView, MemberView, MessageStatus, PartitionView};

pub(crate) use needs::{needs, of_candidates, of_view};
pub(crate) use store::Groups;

pub(crate) fn decide(
    state: &State,
    command: &GroupCommand,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    match command {
        GroupCommand::Create { name, settings, begin, limits } => {
            manage::create(state, name, settings, begin, limits, now, entropy)
        }
        GroupCommand::Alter { name, settings, begin } => {
            manage::alter(state, name, settings, begin)
        }
        GroupCommand::Delete { name } => manage::delete(state, name),
        GroupCommand::Join { join, limits } => attending::join(state, join, limits, now, entropy),
        GroupCommand::Leave { group, member } => attending::leave(state, group, *member),
        GroupCommand::Heartbeat { group, member, generation } => {
            attending::heartbeat(state, group, *member, *generation, now)
        }
        GroupCommand::Poll { group, member, max_messages, max_bytes, found, on_corrupt } => {
            let ask = poll::Ask {
                group,
                member: *member,
                max_messages: *max_messages,
                max_bytes: *max_bytes,
                found,
                on_corrupt: *on_corrupt,
            };
            poll::poll(state, &ask, now)
        }
        GroupCommand::Commit { group, member, results, produce, bodies, bounds } => {
            let ask = commit::Ask { group, member: *member, results, produce, bodies, bounds };
            commit::commit(state, &ask, now, entropy)
        }
        GroupCommand::Sweep { group, due, bodies, bounds } => {
            sweep::sweep(state, &sweep::Ask { group, due, bodies, bounds }, now)
        }
        GroupCommand::Seek { group, to, preview } => seek::seek(state, group, to, *preview),
        GroupCommand::Replay { group, letters, bounds: _ } => {
            replay::replay(state, group, letters, now)
        }
    }
}

/// The messages that have to be read before a command is decided.
pub(crate) fn reads(state: &State, command: &GroupCommand, now: Now) -> Reads {
    if let Some(ask) = commit_ask(command) {
        return commit::reads(state, &ask);
    }
    sweep_ask(command).map(|ask| sweep::reads(state, &ask, now)).unwrap_or_default()
}

fn commit_ask(command: &GroupCommand) -> Option<commit::Ask<'_>> {
    let GroupCommand::Commit { group, member, results, produce, bodies, bounds } = command else {
        return None;
    };
    Some(commit::Ask { group, member: *member, results, produce, bodies, bounds })
}

fn sweep_ask(command: &GroupCommand) -> Option<sweep::Ask<'_>> {
    let GroupCommand::Sweep { group, due, bodies, bounds } = command else { return None };
    Some(sweep::Ask { group, due, bodies, bounds })
}
