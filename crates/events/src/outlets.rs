//! All ways to topics, and the dead letters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::digest::Digest;
use crate::{Handed, Id, Letter, LetterView, Outlet, Publication, PublishView};

/// Outlets by event and dead letters by number. Each is an aggregate of its own: what happens to
/// one never looks at another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlets {
    outlets: BTreeMap<Id, Box<Outlet>>,
    /// Those that have something waiting.
    busy: BTreeSet<Id>,
    /// What waits, all together.
    waiting: u64,
    /// Outlets whose event is gone.
    ended: u64,
    letters: BTreeMap<u64, Letter>,
    by_event: BTreeMap<(Id, u64), u64>,
}

impl Outlets {
    pub(crate) fn get(&self, id: Id) -> Option<&Outlet> {
        self.outlets.get(&id).map(|outlet| &**outlet)
    }

    pub(crate) fn starting_at(&self, from: Id) -> impl Iterator<Item = (Id, &Outlet)> {
        self.outlets.range(from..).map(|(id, outlet)| (*id, &**outlet))
    }

    pub(crate) fn busy_from(&self, from: Id) -> impl Iterator<Item = Id> {
        self.busy.range(from..).copied()
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    pub(crate) fn letters_from(&self, from: u64) -> impl Iterator<Item = (u64, &Letter)> {
        self.letters.range(from..).map(|(number, letter)| (*number, letter))
    }

    pub(crate) fn letter(&self, number: u64) -> Option<&Letter> {
        self.letters.get(&number)
    }

    pub(crate) fn letter_count(&self) -> usize {
        self.letters.len()
    }

    /// The letter of an occurrence.
    pub(crate) fn letter_of(&self, id: Id, sequence: u64) -> Option<u64> {
        self.by_event.get(&(id, sequence)).copied()
    }

    /// The letters of an event.
    pub(crate) fn letters_of(&self, id: Id) -> impl Iterator<Item = u64> {
        self.by_event.range((id, 0)..=(id, u64::MAX)).map(|(_, number)| *number)
    }

    pub(crate) fn letter_view(&self, number: u64) -> Option<LetterView> {
        let letter = self.letters.get(&number)?;
        let source = Arc::clone(&self.get(letter.event)?.source);
        Some(LetterView { number, letter: letter.clone(), source })
    }

    /// A letter's message, to be handed over again.
    pub(crate) fn again(&self, letter: &Letter) -> Option<Publication> {
        let source = Arc::clone(&self.get(letter.event)?.source);
        Some(Publication { id: letter.event, source, handed: letter.handed })
    }

    pub(crate) fn view(&self, id: Id) -> Option<PublishView> {
        let outlet = self.get(id)?;
        Some(PublishView {
            topic: outlet.source.topic.clone(),
            key: outlet.source.key.clone(),
            producer: outlet.source.producer,
            waiting: outlet.waiting.len() as u64,
            dead: self.letters_of(id).count() as u64,
        })
    }

    pub(crate) fn put(&mut self, id: Id, outlet: Box<Outlet>) {
        self.take(id);
        self.waiting += outlet.waiting.len() as u64;
        self.ended += u64::from(outlet.ended);
        if !outlet.waiting.is_empty() {
            self.busy.insert(id);
        }
        self.outlets.insert(id, outlet);
    }

    pub(crate) fn take(&mut self, id: Id) {
        if let Some(outlet) = self.outlets.remove(&id) {
            self.waiting -= outlet.waiting.len() as u64;
            self.ended -= u64::from(outlet.ended);
            self.busy.remove(&id);
        }
    }

    pub(crate) fn hand(&mut self, id: Id, handed: &[Handed], next: u64) {
        let Some(outlet) = self.outlets.get_mut(&id) else { return };
        outlet.next = next;
        outlet.waiting.extend(handed);
        self.waiting += handed.len() as u64;
        if !outlet.waiting.is_empty() {
            self.busy.insert(id);
        }
    }

    pub(crate) fn answer(&mut self, id: Id, sequence: u64) {
        let Some(outlet) = self.outlets.get_mut(&id) else { return };
        let before = outlet.waiting.len();
        outlet.waiting.retain(|handed| handed.sequence != sequence);
        self.waiting -= (before - outlet.waiting.len()) as u64;
        if outlet.waiting.is_empty() {
            // A burst must not be paid for as long as the event lives.
            outlet.waiting.shrink_to_fit();
            self.busy.remove(&id);
        }
    }

    pub(crate) fn end(&mut self, id: Id) {
        if let Some(outlet) = self.outlets.get_mut(&id)
            && !std::mem::replace(&mut outlet.ended, true)
        {
            self.ended += 1;
        }
    }

    pub(crate) fn put_letter(&mut self, number: u64, letter: Letter) {
        self.take_letter(number);
        self.by_event.insert((letter.event, letter.handed.sequence), number);
        self.letters.insert(number, letter);
    }

    pub(crate) fn take_letter(&mut self, number: u64) {
        if let Some(letter) = self.letters.remove(&number) {
            self.by_event.remove(&(letter.event, letter.handed.sequence));
        }
    }

    pub(crate) fn retry(&mut self, number: u64) {
        if let Some(letter) = self.letters.get_mut(&number) {
            letter.retrying = true;
        }
    }

    pub(crate) fn refuse_again(&mut self, number: u64, why: &str) {
        if let Some(letter) = self.letters.get_mut(&number) {
            letter.retrying = false;
            letter.why = why.into();
        }
    }

    pub(crate) fn digest(&self, digest: &mut Digest) {
        digest.word(self.outlets.len() as u64);
        for (id, outlet) in &self.outlets {
            digest.outlet(*id, outlet);
        }
        digest.word(self.letters.len() as u64);
        for (number, letter) in &self.letters {
            digest.letter(*number, letter);
        }
    }
}
