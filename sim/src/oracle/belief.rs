//! One way a key may be.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use handoff_types::Span;

use crate::room::{Hold, Seen};

/// No value lies further from zero.
pub(super) const FURTHEST: i64 = 1_000_000;

/// How many tickets are remembered.
const REMEMBERED: usize = 16;

/// A key as the rules would have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Belief {
    pub(super) value: i64,
    accepted: u64,
    tickets: VecDeque<(u64, i64)>,
    pub(super) hold: Option<Held>,
    /// The checksums of the bodies.
    pub(super) notes: Vec<u32>,
    /// The doubtful commands it takes as done, or as not.
    assumes: BTreeMap<u64, bool>,
}

/// A hold whose id may not have been heard of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: Option<u64>,
    pub(super) until: u64,
}

impl Held {
    pub(super) fn may_be(&self, id: u64) -> bool {
        self.id.is_none_or(|known| known == id)
    }
}

impl Belief {
    pub(super) fn ticket(&self, ticket: u64) -> Option<i64> {
        self.tickets.iter().find(|(known, _)| *known == ticket).map(|(_, value)| *value)
    }

    /// Whether no hold stands.
    pub(super) fn stands_free(&self, steady: u64) -> bool {
        self.hold.is_none_or(|hold| hold.until <= steady)
    }

    /// After a shift of the value; `None` if a hold or the limit forbids it. A shift of `None` is
    /// one that cannot be written down.
    pub(super) fn shifted(&self, by: Option<i64>, steady: u64) -> Option<Self> {
        let wide = i128::from(self.value) + i128::from(by?);
        let within = wide.unsigned_abs() <= u128::from(FURTHEST.unsigned_abs());
        let value = i64::try_from(wide).ok().filter(|_| within)?;
        self.stands_free(steady).then(|| {
            let mut after = self.clone();
            after.value = value;
            after.accepted += 1;
            after
        })
    }

    /// With a ticket for the value it has now; `None` if it has that ticket.
    pub(super) fn with_ticket(mut self, ticket: u64) -> Option<Self> {
        if self.ticket(ticket).is_some() {
            return None;
        }
        self.tickets.push_back((ticket, self.value));
        let excess = self.tickets.len().saturating_sub(REMEMBERED);
        self.tickets.drain(..excess);
        Some(self)
    }

    /// With a new hold; `None` if one stands.
    pub(super) fn held(&self, id: Option<u64>, span: Span, steady: u64) -> Option<Self> {
        let until = steady.saturating_add(span.0);
        self.stands_free(steady).then(|| Self { hold: Some(Held { id, until }), ..self.clone() })
    }

    /// The same, and the hold's id is known; `None` if no such hold stands.
    pub(super) fn held_by(&self, by: &Hold, steady: u64) -> Option<Self> {
        (!self.stands_free(steady)).then_some(())?;
        self.has_hold(by)
    }

    /// Without the hold of that id; `None` if it has no such hold. An id nobody was told cannot be
    /// named by anybody.
    pub(super) fn released(&self, id: u64) -> Option<Self> {
        let named = self.hold.is_some_and(|hold| hold.id == Some(id));
        named.then(|| Self { hold: None, ..self.clone() })
    }

    /// Without its hold, which is over; `None` if there is none or it is not.
    pub(super) fn ticked(&self, steady: u64) -> Option<Self> {
        self.over(steady).map(|_| Self { hold: None, ..self.clone() })
    }

    /// Since when its hold is over.
    pub(super) fn over(&self, steady: u64) -> Option<u64> {
        self.hold.map(|hold| hold.until).filter(|until| *until <= steady)
    }

    /// With one more note.
    pub(super) fn noted(&self, crc: u32) -> Self {
        let mut after = self.clone();
        after.notes.push(crc);
        after
    }

    /// The checksum of a note.
    pub(super) fn note(&self, offset: u64) -> Option<u32> {
        self.notes.get(usize::try_from(offset).ok()?).copied()
    }

    /// The same, if that is what it looks like.
    pub(super) fn seen_as(&self, seen: &Seen) -> Option<Self> {
        let alike = self.value == seen.value
            && self.accepted == seen.accepted
            && self.notes.len() as u64 == seen.notes
            && self.notes.last().copied() == seen.last
            && self.hold.is_some() == seen.hold.is_some();
        match (alike, &seen.hold) {
            (false, _) => None,
            (true, None) => Some(self.clone()),
            (true, Some(hold)) => self.has_hold(hold),
        }
    }

    pub(super) fn assuming(mut self, doubt: u64, happened: bool) -> Self {
        self.assumes.insert(doubt, happened);
        self
    }

    pub(super) fn assumes(&self, doubt: u64) -> Option<bool> {
        self.assumes.get(&doubt).copied()
    }

    /// The same without the doubt; `None` if it assumed otherwise.
    pub(super) fn settled(mut self, doubt: u64, happened: bool) -> Option<Self> {
        self.assumes.remove(&doubt).is_none_or(|assumed| assumed == happened).then_some(self)
    }

    /// The same without the doubt, whatever it assumed.
    pub(super) fn indifferent(mut self, doubt: u64) -> Self {
        self.assumes.remove(&doubt);
        self
    }

    fn has_hold(&self, hold: &Hold) -> Option<Self> {
        let fits = self.hold.filter(|held| held.may_be(hold.id) && held.until == hold.until.0)?;
        Some(Self { hold: Some(Held { id: Some(hold.id), ..fits }), ..self.clone() })
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} after {} changes", self.value, self.accepted)?;
        write!(f, ", {} notes", self.notes.len())?;
        if let Some((ticket, value)) = self.tickets.back() {
            write!(f, ", last ticket {ticket} led to {value}")?;
        }
        match self.hold {
            None => {}
            Some(Held { id: None, until }) => write!(f, ", a hold until {until} µs")?,
            Some(Held { id: Some(id), until }) => {
                write!(f, ", hold {id:016x} until {until} µs")?;
            }
        }
        f.write_str(")")
    }
}
