//! What is handed over to topics, and what becomes of it.
//!
//! ```text
//!  told ──▶ waiting ──▶ on its way ──▶ published
//!    │ full                 │ refused      ▲
//!    └────▶ dead letter ◀───┘              │
//!               └──── retried: on its way ─┘
//! ```
//!
//! Where the server stops, everything that is on its way or waits is handed over again. The topic
//! knows what it has by producer and sequence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff_types::{Decision, Now, Sight};

use crate::decide::Decided;
use crate::{
    Action, Change, Handed, Id, Letter, Letters, Publication, Publishing, Reply, State, Totals,
};

/// What is kept of the words that say why a letter is dead.
const WHY_BYTES_MAX: usize = 512;

/// Decides which outlets have nothing left to do.
pub(crate) struct Closing<'a> {
    state: &'a State,
    /// How many occurrences wait then; of outlets where that changes.
    waiting: BTreeMap<Id, usize>,
    ending: BTreeSet<Id>,
    /// Events that have a new letter.
    died: BTreeSet<Id>,
    /// Letters that go.
    gone: BTreeSet<u64>,
    touched: BTreeSet<Id>,
}

impl<'a> Closing<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        Self {
            state,
            waiting: BTreeMap::new(),
            ending: BTreeSet::new(),
            died: BTreeSet::new(),
            gone: BTreeSet::new(),
            touched: BTreeSet::new(),
        }
    }

    /// The event is gone.
    pub(crate) fn end(&mut self, id: Id) {
        if self.state.outlets().get(id).is_some() {
            self.ending.insert(id);
            self.touched.insert(id);
        }
    }

    fn waits(&mut self, id: Id, count: usize) {
        self.waiting.insert(id, count);
        self.touched.insert(id);
    }

    fn letter_gone(&mut self, number: u64, letter: &Letter) {
        self.gone.insert(number);
        self.touched.insert(letter.event);
    }

    /// What becomes of the outlets.
    pub(crate) fn changes(self) -> Vec<Change> {
        let outlets = self.state.outlets();
        let change = |id: &Id| {
            let outlet = outlets.get(*id)?;
            let ending = self.ending.contains(id);
            let waiting = self.waiting.get(id).copied().unwrap_or(outlet.waiting.len());
            let dead = self.died.contains(id)
                || outlets.letters_of(*id).any(|number| !self.gone.contains(&number));
            match (outlet.ended || ending, waiting == 0 && !dead) {
                (true, true) => Some(Change::Closed { id: *id }),
                (true, false) if ending => Some(Change::Ended { id: *id }),
                _ => None,
            }
        };
        self.touched.iter().filter_map(change).collect()
    }
}

/// Puts occurrences into line, and what finds no place there among the dead letters.
pub(crate) struct Handing<'a> {
    state: &'a State,
    publishing: Publishing,
    now: Now,
    closing: Closing<'a>,
    letters: Vec<Letter>,
    changes: Vec<Change>,
    actions: Vec<Action>,
}

impl<'a> Handing<'a> {
    pub(crate) fn new(state: &'a State, publishing: Publishing, now: Now) -> Self {
        Self {
            state,
            publishing,
            now,
            closing: Closing::new(state),
            letters: Vec::new(),
            changes: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Whether what is told of an event is handed over.
    pub(crate) fn publishes(&self, id: Id) -> bool {
        self.state.outlets().get(id).is_some()
    }

    /// Hands occurrences of an event over; they get their sequences here. Once for each event.
    pub(crate) fn hand(&mut self, id: Id, mut occurred: Vec<Handed>) {
        let Some(outlet) = self.state.outlets().get(id) else { return };
        if occurred.is_empty() {
            return;
        }
        let mut next = outlet.next;
        for handed in &mut occurred {
            handed.sequence = next;
            next = next.saturating_add(1);
        }
        let room = self.publishing.pending_max.saturating_sub(outlet.waiting.len());
        let dead = occurred.split_off(room.min(occurred.len()));
        let most = self.publishing.pending_max;
        for handed in dead {
            let why = format!(
                "{most} occurrences of the event wait for topic {} already, as many as events.publish_pending_max allows",
                outlet.source.topic
            );
            self.die(id, handed, &why);
        }
        if outlet.waiting.is_empty()
            && let Some(first) = occurred.first()
        {
            let source = Arc::clone(&outlet.source);
            self.actions.push(Action::Publish(Publication { id, source, handed: *first }));
        }
        self.closing.waits(id, outlet.waiting.len() + occurred.len());
        self.changes.push(Change::Handed { id, handed: occurred, next });
    }

    /// The event is gone.
    pub(crate) fn end(&mut self, id: Id) {
        self.closing.end(id);
    }

    fn die(&mut self, id: Id, handed: Handed, why: &str) {
        self.letters.push(Letter {
            event: id,
            handed,
            why: words(why),
            since: self.now.wall,
            retrying: false,
        });
    }

    /// What all of that leads to.
    pub(crate) fn finish(
        mut self,
        changes: &mut Vec<Change>,
        actions: &mut Vec<Action>,
        counted: &mut Totals,
    ) {
        changes.append(&mut self.changes);
        actions.append(&mut self.actions);
        let outlets = self.state.outlets();
        // The newest say most about what is wrong, so the oldest make way for them; but of one that
        // is on its way nobody knows yet whether it is lost.
        let over = outlets.letter_count() + self.letters.len();
        let over = over.saturating_sub(self.publishing.letters_max);
        let idle = outlets.letters_from(0).filter(|(_, letter)| !letter.retrying);
        let dropped_old: Vec<_> = match self.letters.is_empty() {
            true => Vec::new(),
            false => idle.take(over).collect(),
        };
        let dropped_new = self.letters.len().min(over - dropped_old.len());
        let dropped = dropped_old.len() + dropped_new;
        for (number, letter) in dropped_old {
            self.closing.letter_gone(number, letter);
            changes.push(Change::LetterGone { number });
        }
        let first = self.state.totals().dead.saturating_add(dropped_new as u64);
        counted.dead = counted.dead.saturating_add(self.letters.len() as u64);
        counted.dropped = counted.dropped.saturating_add(dropped as u64);
        for (number, letter) in (first..).zip(self.letters.into_iter().skip(dropped_new)) {
            self.closing.died.insert(letter.event);
            changes.push(Change::Died { number, letter: Box::new(letter) });
        }
        changes.extend(self.closing.changes());
    }
}

/// Hands over again what waits: the first of each event, then the letters that were retried.
pub(crate) fn hand_over(state: &State, from: Id, limit: usize) -> Decided {
    let outlets = state.outlets();
    let mut busy = outlets.busy_from(from);
    let heads = busy.by_ref().take(limit).filter_map(|id| outlets.get(id)?.head(id));
    let mut actions: Vec<Action> = heads.map(Action::Publish).collect();
    let next = busy.next();
    if next.is_none() {
        let retried = outlets.letters_from(0).filter(|(_, letter)| letter.retrying);
        let again = retried.filter_map(|(_, letter)| outlets.again(letter));
        actions.extend(again.map(Action::Publish));
    }
    Decision { reply: Reply::HandedOver { next }, changes: Vec::new(), actions }
}

/// The topic has an occurrence. A second answer to the same changes nothing.
pub(crate) fn answered(state: &State, id: Id, sequence: u64) -> Decided {
    let outlets = state.outlets();
    let mut closing = Closing::new(state);
    let (mut changes, mut actions) = (Vec::new(), Vec::new());
    if let Some(left) = waiting_without(state, id, sequence) {
        changes.push(Change::Answered { id, sequence });
        closing.waits(id, left);
        actions.extend(next_of(state, id, sequence));
    } else if let Some(number) = outlets.letter_of(id, sequence)
        && let Some(letter) = outlets.letter(number)
    {
        changes.push(Change::LetterGone { number });
        closing.letter_gone(number, letter);
    } else {
        return answer(false, changes, actions);
    }
    changes.push(Change::Counted(Totals { published: 1, ..Totals::default() }));
    changes.extend(closing.changes());
    answer(true, changes, actions)
}

/// The topic does not take an occurrence. Those behind it go on.
pub(crate) fn refused(
    state: &State,
    (id, sequence): (Id, u64),
    why: &str,
    publishing: Publishing,
    now: Now,
) -> Decided {
    let outlets = state.outlets();
    let (mut changes, mut actions) = (Vec::new(), Vec::new());
    if let Some(left) = waiting_without(state, id, sequence) {
        let waiting = outlets.get(id).map(|outlet| &outlet.waiting);
        let handed = waiting.and_then(|all| all.iter().find(|one| one.sequence == sequence));
        changes.push(Change::Answered { id, sequence });
        actions.extend(next_of(state, id, sequence));
        let mut handing = Handing::new(state, publishing, now);
        handing.closing.waits(id, left);
        handed.into_iter().for_each(|handed| handing.die(id, *handed, why));
        let mut counted = Totals::default();
        handing.finish(&mut changes, &mut actions, &mut counted);
        changes.push(Change::Counted(counted));
        return answer(true, changes, actions);
    }
    let letter = outlets.letter_of(id, sequence);
    let retried = |number: &u64| outlets.letter(*number).is_some_and(|letter| letter.retrying);
    match letter.filter(retried) {
        Some(number) => {
            changes.push(Change::RefusedAgain { number, why: words(why) });
            answer(true, changes, actions)
        }
        None => answer(false, changes, actions),
    }
}

/// Hands letters over again. One that is on its way already is not handed over twice.
pub(crate) fn retry(state: &State, letters: &Letters, sight: &Sight, limit: usize) -> Decided {
    let mut meant = state.letters_meant(letters, sight);
    meant.retain(|(_, letter)| !letter.retrying);
    let more = meant.len() > limit;
    meant.truncate(limit);
    let again = meant.iter().filter_map(|(_, letter)| state.outlets().again(letter));
    let actions = again.map(Action::Publish).collect();
    let numbers: Vec<u64> = meant.iter().map(|(number, _)| *number).collect();
    let changes = numbers.iter().map(|number| Change::Retried { number: *number }).collect();
    Decision { reply: Reply::Letters { numbers, more }, changes, actions }
}

/// Forgets letters. One that is on its way may still arrive.
pub(crate) fn delete_letters(
    state: &State,
    letters: &Letters,
    sight: &Sight,
    limit: usize,
) -> Decided {
    let mut meant = state.letters_meant(letters, sight);
    let more = meant.len() > limit;
    meant.truncate(limit);
    let mut closing = Closing::new(state);
    let mut changes = Vec::new();
    for (number, letter) in &meant {
        closing.letter_gone(*number, letter);
        changes.push(Change::LetterGone { number: *number });
    }
    changes.extend(closing.changes());
    let numbers = meant.into_iter().map(|(number, _)| number).collect();
    Decision { reply: Reply::Letters { numbers, more }, changes, actions: Vec::new() }
}

fn answer(known: bool, changes: Vec<Change>, actions: Vec<Action>) -> Decided {
    Decision { reply: Reply::Answered { known }, changes, actions }
}

/// How many wait besides this one; none if it does not wait.
fn waiting_without(state: &State, id: Id, sequence: u64) -> Option<usize> {
    let waiting = &state.outlets().get(id)?.waiting;
    waiting.iter().any(|handed| handed.sequence == sequence).then(|| waiting.len() - 1)
}

/// What is on its way once the first is answered. An answer to another changes nothing about it.
fn next_of(state: &State, id: Id, sequence: u64) -> Option<Action> {
    let outlet = state.outlets().get(id)?;
    let first = outlet.waiting.front()?;
    let handed = *outlet.waiting.get(1).filter(|_| first.sequence == sequence)?;
    let source = Arc::clone(&outlet.source);
    Some(Action::Publish(Publication { id, source, handed }))
}

/// Words at a length that can be kept.
fn words(why: &str) -> Box<str> {
    why.get(..why.floor_char_boundary(WHY_BYTES_MAX)).unwrap_or_default().into()
}
