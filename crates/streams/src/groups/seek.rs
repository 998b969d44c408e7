//! A group is sent elsewhere: back, to read again, or ahead, to pass something by.

use handoff_types::Decision;

use super::change::GroupChange;
use super::command::{GroupReply, Sought, Spot};
use super::manage::find;
use super::position::{Position, Step};
use super::ranges::Mark;
use super::settings::GroupName;
use crate::decide::Decided;
use crate::{Change, PartitionId, Refusal, State};

/// Whatever is out of a partition the group is sent elsewhere in does not count any more; whoever
/// holds it learns so when it commits.
pub(crate) fn seek(
    state: &State,
    name: &GroupName,
    to: &[Spot],
    preview: bool,
) -> Result<Decided, Refusal> {
    let (group, _) = find(state, name)?;
    let mut partitions: Vec<Sought> = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    let none = Position::default();
    for (partition, at) in to {
        let position = state.position(group.id, *partition).unwrap_or(&none);
        let sought = sought(*partition, position, *at);
        let stays = sought.from == *at && position.next() == *at;
        if !stays && !preview {
            let steps = vec![Step::Begin { at: *at }];
            changes.push(GroupChange::Moved(group.id, *partition, steps).into());
        }
        partitions.push(sought);
    }
    let reply = GroupReply::Sought { partitions, preview };
    Ok(Decision { reply: reply.into(), changes, actions: Vec::new() })
}

fn sought(partition: PartitionId, position: &Position, to: u64) -> Sought {
    let from = position.start();
    let (mut again, mut voided) = (from.saturating_sub(to), 0);
    // What is ahead of everything that was looked at is passed by unseen.
    let mut skipped = to.saturating_sub(position.next().max(from));
    for (first, range) in position.ranges() {
        let below = to.clamp(first, range.last.saturating_add(1)) - first;
        let above = range.last - first + 1 - below;
        match range.mark {
            Mark::Done => again += above,
            Mark::Leased { .. } => {
                skipped += below;
                voided += below + above;
            }
            Mark::Waiting { .. } => skipped += below,
        }
    }
    Sought { partition, from, to, again, skipped, voided }
}
