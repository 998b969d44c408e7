//! Calls as bytes. What they are, the room itself says: every store writes the same.
//!
//! A call is written twice, when it comes and when it ends; its bodies are in these records, and in the
//! checkpoint while it is known. What lives in memory only is written nowhere.

use bytes::Bytes;
use handoff_calls::{
    Calls, Change, Key, State, decode_aggregate, decode_change, encode_aggregate, encode_change,
    written,
};
use handoff_types::Room;

use crate::persist::{Frame, Persist, Undecodable};

impl Persist for Calls {
    const ROOM: Room = Room::Calls;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        encode_change(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        decode_change(bytes).map_err(|bad| Undecodable(bad.0))
    }

    fn written<'a>(state: &State, changes: &'a [Change]) -> Vec<&'a Change> {
        written(state, changes)
    }

    fn key(change: &Change) -> Bytes {
        change.key().to_bytes()
    }

    fn frame(_: &Change) -> Option<Frame> {
        None
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let mut keys = state.keys_from(from);
        let mut out = Vec::new();
        for key in keys.by_ref() {
            if let Some(aggregate) = state.aggregate(&key) {
                encode_aggregate(&aggregate, &mut out);
            }
            if out.len() >= bytes_max {
                break;
            }
        }
        (out.into(), keys.next().map(|key: Key| key.to_bytes()))
    }

    fn restore(state: &mut State, mut snapshot: &[u8]) -> Result<(), Undecodable> {
        while !snapshot.is_empty() {
            let (aggregate, rest) = decode_aggregate(snapshot).map_err(|bad| Undecodable(bad.0))?;
            // Chunks are of different ages, so two calls may have one key until the journal is read.
            state.put(aggregate);
            snapshot = rest;
        }
        Ok(())
    }
}
