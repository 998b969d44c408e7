//! Two rooms of tallies: each command counts a key up, once or once for every frame it brings.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady, Wall};

macro_rules! tallies {
    ($name:ident, $room:expr, $about:literal) => {
        #[doc = $about]
        #[derive(Debug)]
        pub struct $name;
        impl Machine for $name {
            type State = BTreeMap<u8, u64>;
            /// (key, frames)
            type Command = (u8, u32);
            /// key, and the offset of a frame if it has one
            type Change = (u8, Option<u64>);
            type Reply = ();
            type Action = ();
            fn decide(
                state: &Self::State,
                c: &(u8, u32),
                _: Now,
                _: Entropy,
            ) -> Decision<(), Self::Change, ()> {
                let at = state.get(&c.0).copied().unwrap_or(0);
                let changes = if c.1 == 0 {
                    vec![(c.0, None)]
                } else {
                    (0..u64::from(c.1)).map(|n| (c.0, Some(at + n))).collect()
                };
                Decision { reply: (), changes, actions: vec![] }
            }
            fn evolve(state: &mut Self::State, c: &Self::Change) {
                *state.entry(c.0).or_default() += 1;
            }
            fn next_deadline(_: &Self::State, _: handoff_types::Now) -> Option<Steady> {
                None
            }
        }
        impl Persist for $name {
            const ROOM: Room = $room;
            fn encode_change(c: &Self::Change, out: &mut Vec<u8>) {
                out.push(c.0);
                out.extend(c.1.unwrap_or(u64::MAX).to_le_bytes());
            }
            fn decode_change(b: &[u8]) -> Result<(Self::Change, &[u8]), Undecodable> {
                let n = u64::from_le_bytes(b[1..9].try_into().unwrap());
                Ok(((b[0], (n != u64::MAX).then_some(n)), &b[9..]))
            }
            fn key(c: &Self::Change) -> Bytes {
                Bytes::copy_from_slice(&[c.0])
            }
            fn frame(c: &Self::Change) -> Option<Frame> {
                c.1.map(|base| Frame {
                    lane: Lane(c.0.into()),
                    base,
                    count: 1,
                    max_timestamp: Wall(0),
                })
            }
            fn snapshot(s: &Self::State, from: &[u8], _: usize) -> (Bytes, Option<Bytes>) {
                let from = from.first().copied().unwrap_or(0);
                let mut it = s.range(from..);
                let Some((k, v)) = it.next() else { return (Bytes::new(), None) };
                let mut o = vec![*k];
                o.extend(v.to_le_bytes());
                (o.into(), it.next().map(|(k, _)| Bytes::copy_from_slice(&[*k])))
            }
            fn restore(s: &mut Self::State, b: &[u8]) -> Result<(), Undecodable> {
                if !b.is_empty() {
                    s.insert(b[0], u64::from_le_bytes(b[1..9].try_into().unwrap()));
                }
                Ok(())
            }
        }
    };
}

tallies!(A, Room::Streams, "The tallies of one room.");
tallies!(B, Room::Events, "The tallies of another.");
