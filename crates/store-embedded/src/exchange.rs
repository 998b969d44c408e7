//! The exchange as bytes. What they are, the room itself says: every store writes the same.
//!
//! Its bodies go to files, see [`crate::folders`]. So that they are found in the journal until then,
//! all of them are frames of one lane, and a message's number is its offset.

use bytes::Bytes;
use handoff_exchange::{
    Change, Exchange, Key, Seq, State, decode_aggregate, decode_change, encode_aggregate,
    encode_change,
};
use handoff_log::segments::Lane;
use handoff_types::{Room, Wall};

use crate::persist::{Frame, Persist, Undecodable};

/// The lane of all messages. No segment has it.
const LANE: Lane = Lane(u64::MAX);

/// The frame of a message.
pub(crate) fn frame_of(seq: Seq) -> Frame {
    Frame { lane: LANE, base: seq.0, count: 1, max_timestamp: Wall::default() }
}

impl Persist for Exchange {
    const ROOM: Room = Room::Exchange;

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
        let Change::Accepted { seq, .. } = change else { return None };
        Some(frame_of(*seq))
    }

    fn body(change: &Change) -> Option<Bytes> {
        let Change::Accepted { body, .. } = change else { return None };
        Some(body.clone())
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let from = Key::from_bytes(from).unwrap_or(Key::Counters);
        let mut keys = state.keys_from(&from);
        let mut out = Vec::new();
        for key in keys.by_ref() {
            if let Some(aggregate) = state.aggregate(&key) {
                encode_aggregate(&aggregate, &mut out);
            }
            if out.len() >= bytes_max {
                break;
            }
        }
        (out.into(), keys.next().map(Key::to_bytes))
    }

    fn restore(state: &mut State, mut snapshot: &[u8]) -> Result<(), Undecodable> {
        while !snapshot.is_empty() {
            let (aggregate, rest) = decode_aggregate(snapshot).map_err(|bad| Undecodable(bad.0))?;
            // Chunks are of different ages, so two entities may have one id until the journal is read.
            state.put(aggregate);
            snapshot = rest;
        }
        Ok(())
    }
}
