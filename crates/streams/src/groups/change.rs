//! What becomes true of groups.

use handoff_types::Steady;

use super::membership::{MemberId, Members};
use super::position::{Run, Step};
use super::settings::{Group, GroupId, GroupName, GroupSettings};
use crate::{Change, Key, PartitionId};

/// A change of one aggregate of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// A group is there.
    Made(Box<Group>),
    /// A group has other settings.
    Altered(GroupName, Box<GroupSettings>),
    /// A group is gone.
    Deleted(GroupName),
    /// These are the members.
    Members(GroupId, Box<Members>),
    /// There are no members and never will be: the group is gone.
    MembersGone(GroupId),
    /// A member was heard of; it may be silent until then.
    Seen(GroupId, MemberId, Steady),
    /// Where the group is in a partition.
    Moved(GroupId, PartitionId, Vec<Step>),
    /// Where it was is not known any more.
    PositionGone(GroupId, PartitionId),
    /// Letters of a dead-letter partition were replayed.
    Replayed(GroupId, PartitionId, Vec<Run>),
    /// Which letters were replayed is not known any more.
    ReplayedGone(GroupId, PartitionId),
}

impl GroupChange {
    /// Whether nothing is under its key once it is true.
    #[must_use]
    pub const fn ends(&self) -> bool {
        match self {
            Self::Deleted(_)
            | Self::MembersGone(_)
            | Self::PositionGone(..)
            | Self::ReplayedGone(..) => true,
            Self::Made(_)
            | Self::Altered(..)
            | Self::Members(..)
            | Self::Seen(..)
            | Self::Moved(..)
            | Self::Replayed(..) => false,
        }
    }

    /// The one aggregate the change touches.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Made(group) => Key::Group(group.name.clone()),
            Self::Altered(name, _) | Self::Deleted(name) => Key::Group(name.clone()),
            Self::Members(id, _) | Self::MembersGone(id) | Self::Seen(id, _, _) => {
                Key::Members(*id)
            }
            Self::Moved(id, partition, _) | Self::PositionGone(id, partition) => {
                Key::Position(*id, *partition)
            }
            Self::Replayed(id, partition, _) | Self::ReplayedGone(id, partition) => {
                Key::Replayed(*id, *partition)
            }
        }
    }
}

impl From<GroupChange> for Change {
    fn from(change: GroupChange) -> Self {
        Self::Group(change)
    }
}
