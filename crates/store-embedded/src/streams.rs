//! The streams room as bytes. What they are, the room itself says: every store writes the same.

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_streams::{
    Aggregate, Change, Key, PartitionId, State, Streams, decode_aggregate, decode_change,
    encode_aggregate, encode_change,
};
use handoff_types::Room;

use crate::persist::{Frame, Persist, Undecodable};

/// The lane of a partition.
fn lane_of(partition: PartitionId) -> Lane {
    Lane(partition.lane())
}

impl Persist for Streams {
    const ROOM: Room = Room::Streams;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        encode_change(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        decode_change(bytes).map_err(|bad| Undecodable(bad.0))
    }

    fn key(change: &Change) -> Bytes {
        change.key().to_bytes()
    }

    fn frame(change: &Change) -> Option<Frame> {
        let Change::Appended { partition, base, count, last, .. } = change else { return None };
        let (lane, base, count) = (lane_of(*partition), *base, *count);
        Some(Frame { lane, base, count, max_timestamp: *last })
    }

    fn body(change: &Change) -> Option<Bytes> {
        let Change::Appended { batch, .. } = change else { return None };
        Some(batch.clone())
    }

    fn has_lane(state: &State, lane: Lane) -> bool {
        state.partition(PartitionId::from_lane(lane.0)).is_some()
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let from = Key::from_bytes(from).unwrap_or(Key::Counters);
        let mut keys = state.keys_from(&from);
        let mut out = Vec::new();
        for key in keys.by_ref() {
            if let Some(aggregate) = state.aggregate(&key) {
                encode_aggregate(&key, &aggregate, &mut out);
            }
            if out.len() >= bytes_max {
                break;
            }
        }
        (out.into(), keys.next().map(|key| key.to_bytes()))
    }

    fn restore(state: &mut State, mut snapshot: &[u8]) -> Result<(), Undecodable> {
        while !snapshot.is_empty() {
            let (key, aggregate, rest) =
                decode_aggregate(snapshot).map_err(|bad| Undecodable(bad.0))?;
            // Whose partitions would they be?
            if let Aggregate::Topic(topic) = &aggregate
                && state.topic_by_id(topic.id).is_some_and(|known| known.name != topic.name)
            {
                return Err(Undecodable(format!("two topics have the number {}", topic.id.0)));
            }
            // Whose members would they be?
            if let Aggregate::Group(group) = &aggregate
                && state.group_by_id(group.id).is_some_and(|known| known.name != group.name)
            {
                return Err(Undecodable(format!("two groups have the number {}", group.id)));
            }
            state.put(&key, Some(aggregate));
            snapshot = rest;
        }
        Ok(())
    }
}
