//! What embedded storage asks of a room besides its rules.

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_types::{Machine, Room, Wall};
use thiserror::Error;

/// Bytes of a change or a chunk that are not what the room writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Undecodable(pub String);

/// The frame a change puts into a lane. Its body travels beside the change, in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The lane.
    pub lane: Lane,
    /// The first offset.
    pub base: u64,
    /// How many offsets.
    pub count: u32,
    /// The largest timestamp inside.
    pub max_timestamp: Wall,
}

/// A machine whose changes and state have bytes.
pub trait Persist: Machine {
    /// Whose records they are.
    const ROOM: Room;

    /// Appends a change's bytes. They tell where they end.
    fn encode_change(change: &Self::Change, out: &mut Vec<u8>);

    /// Reads the change at the front of `bytes` and gives what stands behind it.
    ///
    /// # Errors
    /// [`Undecodable`] for anything [`Self::encode_change`] does not write.
    fn decode_change(bytes: &[u8]) -> Result<(Self::Change, &[u8]), Undecodable>;

    /// What of a decision is written, in its order. Nothing, if it may be lost in a crash: then nobody
    /// waits for the disk. `state` is the one that was decided on.
    fn written<'a>(_state: &Self::State, changes: &'a [Self::Change]) -> Vec<&'a Self::Change> {
        changes.iter().collect()
    }

    /// The key of the one aggregate a change touches.
    fn key(change: &Self::Change) -> Bytes;

    /// The frame of a change that has a body. The bodies of an entry are in the order of the
    /// changes that have one.
    fn frame(change: &Self::Change) -> Option<Frame>;

    /// The body of a change that was just decided and carries it. One that was read back has none,
    /// and so has every change of a room whose bodies come beside its commands.
    fn body(_change: &Self::Change) -> Option<Bytes> {
        None
    }

    /// Whether the state knows of a lane. What is on its way to one that it does not know any more
    /// is dropped when the room is loaded.
    fn has_lane(_state: &Self::State, _lane: Lane) -> bool {
        true
    }

    /// Encodes the aggregates from a key on, about `bytes_max` and at least one, and gives the
    /// key to go on with; none at the end.
    fn snapshot(state: &Self::State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>);

    /// Puts the aggregates of a snapshot into a state.
    ///
    /// # Errors
    /// [`Undecodable`] for anything [`Self::snapshot`] does not write.
    fn restore(state: &mut Self::State, snapshot: &[u8]) -> Result<(), Undecodable>;
}
