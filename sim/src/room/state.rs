//! What the counter room knows.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;

use handoff_types::Steady;

use super::reply::Seen;
use super::snapshot::put_tally;
use super::{Change, Name, TICKETS_REMEMBERED};

/// Everything the room knows: the tally of each key that was ever written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    tallies: BTreeMap<Name, Tally>,
    /// The holds by their `until`; follows from `tallies`, so that no deadline needs a search.
    deadlines: BTreeSet<(Steady, Name)>,
}

/// What the room knows of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The value.
    pub value: i64,
    /// How many adds and moves have changed the value.
    pub accepted: u64,
    /// The last tickets, oldest first, each with the value it led to.
    pub tickets: VecDeque<(u64, i64)>,
    /// The hold, until something ends it.
    pub hold: Option<Hold>,
    /// How many notes there are.
    pub notes: u64,
    /// CRC-32C of the last note.
    pub last: Option<u32>,
}

/// A hold on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its id.
    pub id: u64,
    /// The first instant at which it stands no longer.
    pub until: Steady,
}

impl State {
    /// What is known of a key; of one that nobody wrote to, nothing at all.
    #[must_use]
    pub fn tally(&self, key: Name) -> &Tally {
        static NOTHING: Tally = Tally {
            value: 0,
            accepted: 0,
            tickets: VecDeque::new(),
            hold: None,
            notes: 0,
            last: None,
        };
        self.tallies.get(&key).unwrap_or(&NOTHING)
    }

    /// The keys that were written to, in order.
    pub fn keys(&self) -> impl Iterator<Item = Name> {
        self.tallies.keys().copied()
    }

    /// When the next hold is over, if there is one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Replaces what is known of a key.
    pub fn set(&mut self, key: Name, tally: Tally) {
        self.remove(key);
        if let Some(hold) = tally.hold {
            self.deadlines.insert((hold.until, key));
        }
        self.tallies.insert(key, tally);
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: Name) {
        if let Some(hold) = self.tallies.remove(&key).and_then(|tally| tally.hold) {
            self.deadlines.remove(&(hold.until, key));
        }
    }

    /// A number that is equal for equal states, in every process and every build (FNV-1a over
    /// what a snapshot would hold).
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut bytes = Vec::new();
        for (key, tally) in &self.tallies {
            bytes.clear();
            put_tally(&mut bytes, *key, tally);
            for byte in &bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        hash
    }

    /// Makes a change true.
    pub(super) fn evolve(&mut self, change: &Change) {
        let key = change.key();
        let tally = self.tallies.entry(key).or_default();
        match *change {
            Change::Added { by, ticket, .. } => {
                tally.shift(by);
                tally.remember(ticket);
            }
            Change::MovedOut { by, ticket, .. } => {
                tally.shift(by.saturating_neg());
                tally.remember(ticket);
            }
            Change::MovedIn { by, .. } => tally.shift(by),
            Change::HoldTaken { hold, .. } => {
                if let Some(old) = tally.hold.replace(hold) {
                    self.deadlines.remove(&(old.until, key));
                }
                self.deadlines.insert((hold.until, key));
            }
            Change::HoldReleased { .. } | Change::HoldEnded { .. } => {
                if let Some(old) = tally.hold.take() {
                    self.deadlines.remove(&(old.until, key));
                }
            }
            Change::Noted { offset, crc, .. } => {
                tally.notes = offset.saturating_add(1);
                tally.last = Some(crc);
            }
        }
    }

    /// The holds that are over, the longest past first.
    pub(super) fn over(&self, now: Steady) -> impl Iterator<Item = (Name, Hold)> {
        self.deadlines
            .iter()
            .take_while(move |(until, _)| *until <= now)
            .filter_map(|(_, key)| Some((*key, self.tally(*key).hold?)))
    }

    /// The tallies from a key on.
    pub(super) fn starting_at(&self, from: Option<Name>) -> Range<'_, Name, Tally> {
        self.tallies.range((from.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded))
    }
}

impl Tally {
    /// What a read answers.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        Seen {
            value: self.value,
            accepted: self.accepted,
            hold: self.hold,
            notes: self.notes,
            last: self.last,
        }
    }

    /// The value a remembered ticket led to.
    #[must_use]
    pub fn remembered(&self, ticket: u64) -> Option<i64> {
        self.tickets.iter().find(|(known, _)| *known == ticket).map(|(_, value)| *value)
    }

    fn shift(&mut self, by: i64) {
        self.value = self.value.saturating_add(by);
        self.accepted = self.accepted.saturating_add(1);
    }

    fn remember(&mut self, ticket: u64) {
        if self.tickets.len() == TICKETS_REMEMBERED {
            self.tickets.pop_front();
        }
        self.tickets.push_back((ticket, self.value));
    }
}

impl Hold {
    /// Whether it still hinders anybody.
    #[must_use]
    pub fn stands(&self, now: Steady) -> bool {
        now < self.until
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hold {:016x} until {} µs", self.id, self.until.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Hold, State};
    use crate::room::{Change, Name, TICKETS_REMEMBERED};
    use handoff_types::Steady;

    const A: fn() -> Name = || Name::numbered(0);

    #[test]
    fn a_key_remembers_its_last_tickets_and_no_more() {
        let mut state = State::default();
        for ticket in 0..=TICKETS_REMEMBERED as u64 {
            state.evolve(&Change::Added { key: A(), by: 1, ticket });
        }
        let tally = state.tally(A());
        assert_eq!(tally.remembered(0), None);
        assert_eq!(tally.remembered(1), Some(2));
        assert_eq!(tally.tickets.len(), TICKETS_REMEMBERED);
    }

    #[test]
    fn the_next_deadline_is_that_of_the_hold_that_is_over_first() {
        let mut state = State::default();
        let hold = |id, until| Hold { id, until: Steady(until) };
        state.evolve(&Change::HoldTaken { key: A(), hold: hold(1, 50) });
        state.evolve(&Change::HoldTaken { key: Name::numbered(1), hold: hold(2, 40) });
        assert_eq!(state.next_deadline(), Some(Steady(40)));
        state.evolve(&Change::HoldEnded { key: Name::numbered(1), hold: 2 });
        assert_eq!(state.next_deadline(), Some(Steady(50)));
        state.remove(A());
        assert_eq!(state.next_deadline(), None);
    }

    #[test]
    fn states_that_differ_anywhere_differ_in_their_hash() {
        let changes = [
            Change::Added { key: A(), by: 1, ticket: 1 },
            Change::Added { key: A(), by: 1, ticket: 2 },
            Change::Added { key: Name::numbered(1), by: 1, ticket: 1 },
            Change::MovedIn { key: A(), by: 1 },
            Change::HoldTaken { key: A(), hold: Hold { id: 1, until: Steady(1) } },
            Change::HoldTaken { key: A(), hold: Hold { id: 1, until: Steady(2) } },
            Change::Noted { key: A(), offset: 0, length: 0, crc: 0 },
        ];
        let hashes = changes.map(|change| {
            let mut state = State::default();
            state.evolve(&change);
            state.hash()
        });
        for (i, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().filter(|other| *other == hash).count(), 1, "{}", changes[i]);
        }
    }
}
