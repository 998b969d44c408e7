//! A range of keys as bytes, for checkpoints that take a room's state piece by piece.
//!
//! ```text
//! chunk    version u8 = 1 │ has first flag [│ first name] │ has next flag [│ next name]
//!          │ tallies number │ tally × tallies, keys ascending
//! tally    key name │ value signed │ accepted number
//!          │ tickets number │ (ticket number │ value signed) × tickets, oldest first
//!          │ has hold flag [│ id number │ until number]
//!          │ notes number │ has last flag [│ crc]
//! ```
//!
//! A chunk speaks for all keys from `first` up to, not including, `next`: a key in the range
//! that the chunk does not mention was not written to.

use std::collections::VecDeque;

use handoff_types::Steady;

use super::codec::{Malformed, Reader, put_crc, put_name, put_number, put_signed};
use super::{Hold, Name, State, TICKETS_REMEMBERED, Tally};

const VERSION: u8 = 1;

/// The keys a chunk speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The first of them; `None`: from the first there could be.
    pub first: Option<Name>,
    /// The first that is not among them; `None`: to the last there could be.
    pub next: Option<Name>,
}

impl Covered {
    /// Whether the chunk speaks for a key.
    #[must_use]
    pub fn holds(&self, key: Name) -> bool {
        self.first.is_none_or(|first| first <= key) && self.next.is_none_or(|next| key < next)
    }
}

impl State {
    /// Encodes tallies from a key on, as many as fit `max_bytes` and at least one, and gives the
    /// key to go on with.
    #[must_use]
    pub fn snapshot(&self, from: Option<Name>, max_bytes: usize) -> (Vec<u8>, Option<Name>) {
        let mut tallies = Vec::new();
        let mut count = 0;
        let mut next = None;
        for (key, tally) in self.starting_at(from) {
            let before = tallies.len();
            put_tally(&mut tallies, *key, tally);
            if count > 0 && tallies.len() > max_bytes {
                tallies.truncate(before);
                next = Some(*key);
                break;
            }
            count += 1;
        }
        let mut chunk = vec![VERSION];
        put_option(&mut chunk, from, put_name);
        put_option(&mut chunk, next, put_name);
        put_number(&mut chunk, count);
        chunk.append(&mut tallies);
        (chunk, next)
    }

    /// Replaces what is known of the keys a chunk speaks for, and says which those are.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`State::snapshot`] does not write; nothing changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Covered, Malformed> {
        let (covered, tallies) = decode(bytes)?;
        let stale: Vec<Name> = self
            .starting_at(covered.first)
            .map(|(key, _)| *key)
            .take_while(|key| covered.holds(*key))
            .collect();
        stale.into_iter().for_each(|key| self.remove(key));
        tallies.into_iter().for_each(|(key, tally)| self.set(key, tally));
        Ok(covered)
    }
}

/// Appends the one encoding of a tally.
pub(super) fn put_tally(out: &mut Vec<u8>, key: Name, tally: &Tally) {
    put_name(out, key);
    put_signed(out, tally.value);
    put_number(out, tally.accepted);
    put_number(out, tally.tickets.len() as u64);
    for (ticket, value) in &tally.tickets {
        put_number(out, *ticket);
        put_signed(out, *value);
    }
    put_option(out, tally.hold, |out, hold| {
        put_number(out, hold.id);
        put_number(out, hold.until.0);
    });
    put_number(out, tally.notes);
    put_option(out, tally.last, put_crc);
}

fn put_option<T>(out: &mut Vec<u8>, option: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(option.is_some()));
    if let Some(thing) = option {
        put(out, thing);
    }
}

fn decode(bytes: &[u8]) -> Result<(Covered, Vec<(Name, Tally)>), Malformed> {
    let mut reader = Reader::new(bytes);
    match reader.byte("a snapshot")? {
        VERSION => {}
        other => return Err(Malformed::Version(other)),
    }
    let first = if reader.flag()? { Some(reader.name()?) } else { None };
    let next = if reader.flag()? { Some(reader.name()?) } else { None };
    let covered = Covered { first, next };
    let count = reader.number()?;
    let mut tallies: Vec<(Name, Tally)> = Vec::new();
    for _ in 0..count {
        let (key, tally) = take_tally(&mut reader)?;
        if tallies.last().is_some_and(|(before, _)| *before >= key) {
            return Err(Malformed::Nonsense("the keys of a snapshot do not ascend"));
        }
        if !covered.holds(key) {
            return Err(Malformed::Nonsense("a key is outside the range of its snapshot"));
        }
        tallies.push((key, tally));
    }
    if !reader.rest().is_empty() {
        return Err(Malformed::Nonsense("a snapshot goes on after its last key"));
    }
    Ok((covered, tallies))
}

fn take_tally(reader: &mut Reader<'_>) -> Result<(Name, Tally), Malformed> {
    let key = reader.name()?;
    let value = reader.signed()?;
    let accepted = reader.number()?;
    let remembered = reader.number()?;
    if remembered > TICKETS_REMEMBERED as u64 {
        return Err(Malformed::Nonsense("a key remembers too many tickets"));
    }
    let mut tickets = VecDeque::new();
    for _ in 0..remembered {
        tickets.push_back((reader.number()?, reader.signed()?));
    }
    let hold = if reader.flag()? {
        Some(Hold { id: reader.number()?, until: Steady(reader.number()?) })
    } else {
        None
    };
    let notes = reader.number()?;
    let last = if reader.flag()? { Some(reader.crc()?) } else { None };
    if (notes > 0) != last.is_some() {
        return Err(Malformed::Nonsense("a last note and no notes, or the other way round"));
    }
    Ok((key, Tally { value, accepted, tickets, hold, notes, last }))
}

#[cfg(test)]
mod tests {
    use super::{Covered, Malformed};
    use crate::room::{Change, Hold, Name, State};
    use handoff_types::Steady;

    fn filled() -> State {
        let mut state = State::default();
        for number in 0..40 {
            let key = Name::numbered(number);
            for ticket in 0..u64::from(number) {
                state.evolve(&Change::Added { key, by: -3, ticket });
            }
            if number % 3 == 0 {
                let hold = Hold { id: u64::MAX, until: Steady(u64::from(number)) };
                state.evolve(&Change::HoldTaken { key, hold });
            }
            if number % 2 == 0 {
                state.evolve(&Change::Noted { key, offset: 8, length: 1, crc: 0xffff_ffff });
            }
        }
        state
    }

    fn chunks(state: &State, max_bytes: usize) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        let mut from = None;
        loop {
            let (chunk, next) = state.snapshot(from, max_bytes);
            chunks.push(chunk);
            if next.is_none() {
                return chunks;
            }
            from = next;
        }
    }

    #[test]
    fn a_state_comes_back_from_chunks_of_any_size() {
        let state = filled();
        for max_bytes in [0, 1, 100, 1000, usize::MAX] {
            let mut restored = State::default();
            for chunk in chunks(&state, max_bytes) {
                restored.restore(&chunk).unwrap();
            }
            assert_eq!(restored, state);
            assert_eq!(restored.hash(), state.hash());
            assert_eq!(restored.next_deadline(), state.next_deadline());
        }
        assert_eq!(chunks(&state, 0).len(), 40);
        assert_eq!(chunks(&State::default(), 0).len(), 1);
    }

    #[test]
    fn a_chunk_replaces_what_was_known_of_its_keys_and_nothing_else() {
        let (chunk, _) = {
            let mut small = State::default();
            small.evolve(&Change::MovedIn { key: Name::numbered(5), by: 1 });
            small.evolve(&Change::MovedIn { key: Name::numbered(20), by: 1 });
            small.snapshot(Some(Name::numbered(4)), 0)
        };
        let mut state = filled();
        let covered = state.restore(&chunk).unwrap();
        let range = Covered { first: Some(Name::numbered(4)), next: Some(Name::numbered(20)) };
        assert_eq!(covered, range);
        let left: Vec<Name> = state.keys().filter(|key| range.holds(*key)).collect();
        assert_eq!(left, [Name::numbered(5)]);
        assert_eq!(state.tally(Name::numbered(20)), filled().tally(Name::numbered(20)));
        assert_eq!(state.tally(Name::numbered(3)), filled().tally(Name::numbered(3)));
    }

    #[test]
    fn a_snapshot_cut_or_grown_is_refused_and_changes_nothing() {
        let (bytes, _) = filled().snapshot(None, usize::MAX);
        let mut state = State::default();
        for end in 0..bytes.len() {
            assert!(state.restore(&bytes[..end]).is_err(), "cut at {end}");
        }
        let mut grown = bytes;
        grown.push(0);
        assert!(matches!(state.restore(&grown), Err(Malformed::Nonsense(_))));
        assert_eq!(state, State::default());
    }

    #[test]
    fn a_flipped_bit_is_refused_or_gives_another_state() {
        let (bytes, _) = filled().snapshot(None, 300);
        let mut sound = State::default();
        sound.restore(&bytes).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let mut state = State::default();
                if let Ok(covered) = state.restore(&flipped) {
                    let (again, _) = state.snapshot(covered.first, usize::MAX);
                    assert!(state != sound || again != bytes, "byte {at} bit {bit} went unseen");
                }
            }
        }
    }
}
