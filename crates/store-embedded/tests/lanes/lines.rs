//! A machine that makes its bodies itself: lanes of lines, which can be closed.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady, Wall};

#[derive(Debug)]
pub(crate) struct Lines;

/// The end of each lane there is.
pub(crate) type State = BTreeMap<u64, u64>;

/// What is appended to a lane: so many offsets in one body.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) lane: u64,
    pub(crate) count: u32,
    pub(crate) body: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// All in one entry.
    Append(Vec<Line>),
    Close(Vec<u64>),
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Appended { lane: u64, base: u64, count: u32, at: Wall, body: Bytes },
    Closed { lane: u64 },
}

impl Machine for Lines {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = ();
    type Action = ();

    fn decide(state: &State, command: &Command, now: Now, _: Entropy) -> Decision<(), Change, ()> {
        let changes = match command {
            Command::Close(lanes) => lanes.iter().map(|&lane| Change::Closed { lane }).collect(),
            Command::Append(lines) => {
                let mut ends = state.clone();
                let append = |Line { lane, count, body }: &Line| {
                    let end = ends.entry(*lane).or_default();
                    let (lane, base, count, body) = (*lane, *end, *count, body.clone());
                    *end += u64::from(count);
                    Change::Appended { lane, base, count, at: now.wall, body }
                };
                lines.iter().map(append).collect()
            }
        };
        Decision { reply: (), changes, actions: vec![] }
    }

    fn evolve(state: &mut State, change: &Change) {
        match *change {
            Change::Appended { lane, base, count, .. } => {
                state.insert(lane, base + u64::from(count));
            }
            Change::Closed { lane } => {
                state.remove(&lane);
            }
        }
    }

    fn next_deadline(_: &State, _: Now) -> Option<Steady> {
        None
    }
}

impl Persist for Lines {
    const ROOM: Room = Room::Streams;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        let (lane, base, count, at) = match *change {
            Change::Appended { lane, base, count, at, .. } => (lane, base, count, at),
            Change::Closed { lane } => (lane, 0, 0, Wall(0)),
        };
        out.extend_from_slice(&lane.to_le_bytes());
        out.extend_from_slice(&base.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&at.0.to_le_bytes());
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        let (mut front, rest) =
            bytes.split_at_checked(28).ok_or_else(|| Undecodable("short".to_owned()))?;
        let (lane, base) = (front.get_u64_le(), front.get_u64_le());
        let (count, at) = (front.get_u32_le(), Wall(front.get_i64_le()));
        let change = match count {
            0 => Change::Closed { lane },
            _ => Change::Appended { lane, base, count, at, body: Bytes::new() },
        };
        Ok((change, rest))
    }

    fn key(change: &Change) -> Bytes {
        let (Change::Appended { lane, .. } | Change::Closed { lane }) = change;
        Bytes::copy_from_slice(&lane.to_be_bytes())
    }

    fn frame(change: &Change) -> Option<Frame> {
        let Change::Appended { lane, base, count, at, .. } = *change else { return None };
        Some(Frame { lane: Lane(lane), base, count, max_timestamp: at })
    }

    fn body(change: &Change) -> Option<Bytes> {
        let Change::Appended { body, .. } = change else { return None };
        Some(body.clone())
    }

    fn has_lane(state: &State, lane: Lane) -> bool {
        state.contains_key(&lane.0)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let from = from.try_into().map_or(0, u64::from_be_bytes);
        let mut lanes = state.range(from..);
        let mut out = Vec::new();
        for (lane, end) in lanes.by_ref() {
            out.extend_from_slice(&lane.to_le_bytes());
            out.extend_from_slice(&end.to_le_bytes());
            if out.len() >= bytes_max {
                break;
            }
        }
        (out.into(), lanes.next().map(|(lane, _)| Bytes::copy_from_slice(&lane.to_be_bytes())))
    }

    fn restore(state: &mut State, mut snapshot: &[u8]) -> Result<(), Undecodable> {
        while !snapshot.is_empty() {
            state.insert(snapshot.get_u64_le(), snapshot.get_u64_le());
        }
        Ok(())
    }
}
