//! The counter room on embedded storage.

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Room, Wall};

use super::{Change, Counter, Malformed, Name, State};

impl Persist for Counter {
    const ROOM: Room = Room::Counter;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        change.encode(out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Change::decode(bytes).map_err(undecodable)
    }

    fn key(change: &Change) -> Bytes {
        Bytes::copy_from_slice(change.key().as_bytes())
    }

    fn frame(change: &Change) -> Option<Frame> {
        change.bulk().map(|bulk| note_frame(change.key(), bulk.offset))
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        // The empty key, from which the first chunk begins, is no name.
        let (chunk, next) = state.snapshot(Name::from_bytes(from).ok(), bytes_max);
        (chunk.into(), next.map(|key| Bytes::copy_from_slice(key.as_bytes())))
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        state.restore(snapshot).map(drop).map_err(undecodable)
    }
}

/// The frame of a note: the room stands in the lane's highest byte, and since a note has no time
/// its number stands for one.
#[must_use]
pub fn note_frame(key: Name, offset: u64) -> Frame {
    let lane = Lane(u64::from(Counter::ROOM.number()) << 56 | u64::from(key.number()));
    Frame { lane, base: offset, count: 1, max_timestamp: Wall(offset.cast_signed()) }
}

fn undecodable(error: Malformed) -> Undecodable {
    Undecodable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_lane_and_no_lane_is_without_its_room() {
        let lanes: std::collections::BTreeSet<Lane> =
            (0..=u8::MAX).map(|number| note_frame(Name::numbered(number), 0).lane).collect();
        assert_eq!(lanes.len(), 256);
        assert!(lanes.iter().all(|lane| lane.0 >> 56 == u64::from(Room::Counter.number())));
    }

    #[test]
    fn chunks_follow_each_other_by_the_key_they_name() {
        let mut state = State::default();
        for number in 0..9 {
            state.evolve(&Change::MovedIn { key: Name::numbered(number), by: 1 });
        }
        let mut restored = State::default();
        let mut from = Some(Bytes::new());
        while let Some(key) = from {
            let (chunk, next) = Counter::snapshot(&state, &key, 20);
            Counter::restore(&mut restored, &chunk).unwrap();
            assert!(next.as_ref().is_none_or(|next| *next > key));
            from = next;
        }
        assert_eq!(restored, state);
    }
}
