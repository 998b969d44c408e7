//! A machine that adds up and keeps notes.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady, Wall};

#[derive(Debug)]
pub(crate) struct Tally;

/// Sum and number of notes, by key.
pub(crate) type State = BTreeMap<u8, (u64, u64)>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Add { key: u8, by: u64 },
    Note { key: u8 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Added { key: u8, by: u64 },
    Noted { key: u8, offset: u64 },
}

impl Machine for Tally {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = ();
    type Action = ();

    fn decide(state: &State, command: &Command, _: Now, _: Entropy) -> Decision<(), Change, ()> {
        let change = match *command {
            Command::Add { key, by } => Change::Added { key, by },
            Command::Note { key } => {
                Change::Noted { key, offset: state.get(&key).map_or(0, |tally| tally.1) }
            }
        };
        Decision { reply: (), changes: vec![change], actions: vec![] }
    }

    fn evolve(state: &mut State, change: &Change) {
        match *change {
            Change::Added { key, by } => state.entry(key).or_default().0 += by,
            Change::Noted { key, offset } => state.entry(key).or_default().1 = offset + 1,
        }
    }

    fn next_deadline(_: &State, _: Now) -> Option<Steady> {
        None
    }
}

impl Persist for Tally {
    const ROOM: Room = Room::Counter;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        let (kind, key, number) = match *change {
            Change::Added { key, by } => (0, key, by),
            Change::Noted { key, offset } => (1, key, offset),
        };
        out.extend_from_slice(&[kind, key]);
        out.extend_from_slice(&number.to_le_bytes());
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        let bad = || Undecodable("not a change".to_owned());
        let ([kind, key], rest) = bytes.split_first_chunk().ok_or_else(bad)?;
        let (number, rest) = rest.split_first_chunk().ok_or_else(bad)?;
        let (key, number) = (*key, u64::from_le_bytes(*number));
        let change = match kind {
            0 => Change::Added { key, by: number },
            1 => Change::Noted { key, offset: number },
            _ => return Err(bad()),
        };
        Ok((change, rest))
    }

    fn key(change: &Change) -> Bytes {
        let (Change::Added { key, .. } | Change::Noted { key, .. }) = change;
        Bytes::copy_from_slice(&[*key])
    }

    fn frame(change: &Change) -> Option<Frame> {
        match *change {
            Change::Added { .. } => None,
            Change::Noted { key, offset } => Some(frame(key, offset)),
        }
    }

    /// One key a chunk.
    fn snapshot(state: &State, from: &[u8], _: usize) -> (Bytes, Option<Bytes>) {
        let mut keys = state.range(from.first().copied().unwrap_or(0)..);
        let chunk = keys.next().map_or_else(Vec::new, |(key, (sum, notes))| {
            [&[*key][..], &sum.to_le_bytes(), &notes.to_le_bytes()].concat()
        });
        (chunk.into(), keys.next().map(|(key, _)| Bytes::copy_from_slice(&[*key])))
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        let bad = || Undecodable("not a chunk".to_owned());
        let Some((key, rest)) = snapshot.split_first() else { return Ok(()) };
        let (sum, rest) = rest.split_first_chunk().ok_or_else(bad)?;
        let (notes, _) = rest.split_first_chunk().ok_or_else(bad)?;
        state.insert(*key, (u64::from_le_bytes(*sum), u64::from_le_bytes(*notes)));
        Ok(())
    }
}

pub(crate) fn frame(key: u8, offset: u64) -> Frame {
    Frame { lane: Lane(key.into()), base: offset, count: 1, max_timestamp: Wall(0) }
}
