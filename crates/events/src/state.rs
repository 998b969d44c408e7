//! What the room knows.

use std::collections::BTreeMap;

use handoff_types::{Now, Sight};

use crate::digest::Digest;
use crate::due::Dues;
use crate::outlets::Outlets;
use crate::schedule::secs;
use crate::types::Types;
use crate::union::Union;
use crate::{
    Change, Due, Event, EventView, Gone, Id, Letter, LetterView, Letters, Outlet, Publication,
    Repeat, Schedule, Selection,
};

/// More types in sight than this are not put together one by one: walking all events is cheaper.
const TYPES_JOINED_MAX: usize = 1_000;

/// What happened so far, since the data directory was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events registered, those that never occur included. Each took one id, so this is also the
    /// next one.
    pub registered: u64,
    /// Events deleted.
    pub deleted: u64,
    /// Events that ran out.
    pub finished: u64,
    /// Occurrences, missed ones included.
    pub occurred: u64,
    /// Of those, missed and not told.
    pub skipped: u64,
    /// Occurrences that their topics have.
    pub published: u64,
    /// Occurrences that became dead letters. Each took one number, so this is also the next one.
    pub dead: u64,
    /// Of those, dropped because there were more than `events.dead_letters_max`: they are lost.
    pub dropped: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, more: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.registered, more.registered);
        sum(&mut self.deleted, more.deleted);
        sum(&mut self.finished, more.finished);
        sum(&mut self.occurred, more.occurred);
        sum(&mut self.skipped, more.skipped);
        sum(&mut self.published, more.published);
        sum(&mut self.dead, more.dead);
        sum(&mut self.dropped, more.dropped);
    }
}

/// The events there are, by id, by type and by when they are due.
///
/// Two states are equal when everything in them is, the indexes included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Boxed: the nodes of the map are half empty, and that must not cost half an event each.
    events: BTreeMap<Id, Box<Event>>,
    types: Types,
    dues: Dues,
    outlets: Outlets,
    totals: Totals,
}

impl State {
    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// An event.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&Event> {
        self.events.get(&id).map(|event| &**event)
    }

    /// The events from an id on, ascending.
    pub fn starting_at(&self, from: Id) -> impl Iterator<Item = (Id, &Event)> {
        self.events.range(from..).map(|(id, event)| (*id, &**event))
    }

    /// An event as it is shown, if it is there and in sight.
    #[must_use]
    pub fn view(&self, id: Id, sight: &Sight, now: Now) -> Option<EventView> {
        self.get(id).filter(|event| sees(sight, event)).map(|event| self.show(id, event, now))
    }

    /// Ids of events in sight, ascending, from `from` on, at most `limit`. `types` none: all;
    /// otherwise those that have one of them.
    #[must_use]
    pub fn list(&self, types: Option<&[String]>, sight: &Sight, from: Id, limit: usize) -> Vec<Id> {
        let all = || self.events.range(from..);
        match (types, sight) {
            (Some(types), _) => self.having(types, sight, from).take(limit).collect(),
            (None, Sight::All) => all().map(|(id, _)| *id).take(limit).collect(),
            (None, Sight::Names(patterns)) => {
                if self.types.matching(patterns).nth(TYPES_JOINED_MAX).is_some() {
                    let seen = all().filter(|(_, event)| sees(sight, event));
                    return seen.map(|(id, _)| *id).take(limit).collect();
                }
                let mut union = Union::new();
                self.types.matching(patterns).for_each(|ids| union.set(ids, from));
                union.take(limit).collect()
            }
        }
    }

    /// The same with everything that is known of them.
    #[must_use]
    pub fn page(
        &self,
        types: Option<&[String]>,
        sight: &Sight,
        from: Id,
        limit: usize,
        now: Now,
    ) -> Vec<EventView> {
        let ids = self.list(types, sight, from, limit);
        ids.into_iter().filter_map(|id| Some(self.show(id, self.get(id)?, now))).collect()
    }

    /// Ids that a selection names, ascending, each once, that are there and in sight.
    #[must_use]
    pub fn select(&self, selection: &Selection, sight: &Sight) -> Vec<Id> {
        self.selected(selection, sight).collect()
    }

    /// The same, as far as it is asked for.
    pub(crate) fn selected<'a>(
        &'a self,
        selection: &Selection,
        sight: &Sight,
    ) -> impl Iterator<Item = Id> + use<'a> {
        let mut union = self.having(&selection.types, sight, Id::default());
        let ids = selection.ids.iter().filter_map(|id| Id::new(u32::try_from(*id).ok()?));
        union.list(ids.filter(|id| self.is_seen(*id, sight)).collect());
        union
    }

    /// Events from an id on that have one of these types. A type out of sight has none.
    fn having(&self, types: &[String], sight: &Sight, from: Id) -> Union<'_> {
        let mut union = Union::new();
        let seen = types.iter().filter(|name| sight.sees(name));
        seen.filter_map(|name| self.types.ids(name)).for_each(|ids| union.set(ids, from));
        union
    }

    /// Whether an event is there and in sight.
    #[must_use]
    pub fn is_seen(&self, id: Id, sight: &Sight) -> bool {
        self.events.get(&id).is_some_and(|event| sees(sight, event))
    }

    /// The next id; none when all are used.
    #[must_use]
    pub fn next_id(&self) -> Option<Id> {
        Id::new(u32::try_from(self.totals.registered).ok()?)
    }

    /// What happened so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Outlets from an id on, ascending; those of events that are gone included.
    pub fn outlets_from(&self, from: Id) -> impl Iterator<Item = (Id, &Outlet)> {
        self.outlets.starting_at(from)
    }

    /// Dead letters from a number on, ascending: the oldest first.
    pub fn letters_from(&self, from: u64) -> impl Iterator<Item = (u64, &Letter)> {
        self.outlets.letters_from(from)
    }

    /// Occurrences that wait for their topics.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.outlets.waiting()
    }

    /// How many dead letters there are.
    #[must_use]
    pub fn dead(&self) -> usize {
        self.outlets.letter_count()
    }

    /// Whether an occurrence is on its way: the first of its event that waits, or a dead letter
    /// that was handed over again.
    #[must_use]
    pub fn is_on_its_way(&self, publication: &Publication) -> bool {
        let Publication { id, handed, .. } = publication;
        let head = self.outlets.get(*id).and_then(|outlet| outlet.waiting.front());
        if head.is_some_and(|head| head.sequence == handed.sequence) {
            return true;
        }
        let letter = self.outlets.letter_of(*id, handed.sequence);
        letter.and_then(|number| self.outlets.letter(number)).is_some_and(|found| found.retrying)
    }

    /// Dead letters in sight from a number on, ascending, at most `limit`.
    #[must_use]
    pub fn letters(&self, sight: &Sight, from: u64, limit: usize) -> Vec<LetterView> {
        let seen = self.letters_from(from).filter(|(_, letter)| self.sees_letter(sight, letter));
        seen.take(limit).filter_map(|(number, _)| self.outlets.letter_view(number)).collect()
    }

    /// Dead letters that are meant, ascending, each once, that are there and in sight.
    pub(crate) fn letters_meant(&self, letters: &Letters, sight: &Sight) -> Vec<(u64, &Letter)> {
        let mut meant: Vec<(u64, &Letter)> = match letters {
            Letters::From(first) => self.letters_from(*first).collect(),
            Letters::These(numbers) => numbers
                .iter()
                .filter_map(|number| Some((*number, self.outlets.letter(*number)?)))
                .collect(),
        };
        meant.retain(|(_, letter)| self.sees_letter(sight, letter));
        meant.sort_unstable_by_key(|(number, _)| *number);
        meant.dedup_by_key(|(number, _)| *number);
        meant
    }

    fn sees_letter(&self, sight: &Sight, letter: &Letter) -> bool {
        match (sight, self.outlets.get(letter.event)) {
            (Sight::All, _) => true,
            (_, Some(outlet)) => outlet.source.types.iter().any(|name| sight.sees(name)),
            (_, None) => false,
        }
    }

    pub(crate) fn outlets(&self) -> &Outlets {
        &self.outlets
    }

    fn show(&self, id: Id, event: &Event, now: Now) -> EventView {
        EventView { publish: self.outlets.view(id), ..view(id, event, now) }
    }

    pub(crate) fn dues(&self) -> &Dues {
        &self.dues
    }

    /// One number for all of it: equal states have equal ones, in every process.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut digest = Digest::default();
        let Totals { registered, deleted, finished, occurred, skipped, .. } = self.totals;
        let Totals { published, dead, dropped, .. } = self.totals;
        let happened = [registered, deleted, finished, occurred, skipped];
        for total in happened.into_iter().chain([published, dead, dropped]) {
            digest.word(total);
        }
        for (id, event) in &self.events {
            digest.event(*id, event);
        }
        self.outlets.digest(&mut digest);
        digest.finish()
    }

    /// Puts an event in as it is, in the place of whatever had its id. For whoever restores a
    /// state piece by piece; a living one changes by [`crate::Events`] alone. An event that is not
    /// sound ([`Event::is_sound`]) is not put in.
    pub fn restore(&mut self, id: Id, mut event: Box<Event>) {
        if !event.is_sound() {
            return;
        }
        // Ids ascend, in life and in a checkpoint, so there is hardly ever anything to look for.
        if self.events.last_key_value().is_some_and(|(last, _)| *last >= id) {
            self.remove(id);
        }
        for name in &mut event.types {
            self.types.add(name, id);
        }
        self.dues.insert(event.due, id);
        self.events.insert(id, event);
    }

    /// Puts an outlet in as it is. As [`Self::restore`].
    pub fn restore_outlet(&mut self, id: Id, outlet: Box<Outlet>) {
        self.outlets.put(id, outlet);
    }

    /// Puts a dead letter in as it is. As [`Self::restore`].
    pub fn restore_letter(&mut self, number: u64, letter: Letter) {
        self.outlets.put_letter(number, letter);
    }

    /// Sets the totals, and the next id with them. As [`Self::restore`].
    pub fn restore_totals(&mut self, totals: Totals) {
        self.totals = totals;
    }

    pub(crate) fn evolve(&mut self, change: &Change) {
        match change {
            Change::Registered { id, event } => self.restore(*id, event.clone()),
            Change::Occurred { id, count, skipped, updated, due } => {
                let Some(event) = self.events.get_mut(id) else { return };
                event.repeat = event.repeat.less(*count);
                event.occurrences = event.occurrences.saturating_add(*count);
                event.skipped = event.skipped.saturating_add(*skipped);
                event.updated = *updated;
                self.wait(*id, *due);
            }
            Change::Gone { id, why: Gone::Deleted | Gone::Finished, .. } => self.remove(*id),
            Change::Rescheduled { id, due } => self.wait(*id, *due),
            Change::Counted(totals) => self.totals.add(totals),
            Change::Opened { id, outlet } => self.outlets.put(*id, outlet.clone()),
            Change::Handed { id, handed, next } => self.outlets.hand(*id, handed, *next),
            Change::Answered { id, sequence } => self.outlets.answer(*id, *sequence),
            Change::Ended { id } => self.outlets.end(*id),
            Change::Closed { id } => self.outlets.take(*id),
            Change::Died { number, letter } => {
                self.outlets.put_letter(*number, (**letter).clone());
            }
            Change::Retried { number } => self.outlets.retry(*number),
            Change::RefusedAgain { number, why } => self.outlets.refuse_again(*number, why),
            Change::LetterGone { number } => self.outlets.take_letter(*number),
        }
    }

    fn remove(&mut self, id: Id) {
        if let Some(event) = self.events.remove(&id) {
            event.types.iter().for_each(|name| self.types.remove(name, id));
            self.dues.remove(event.due, id);
        }
    }

    /// The event is due then. A time by a clock the event does not run on is never decided.
    fn wait(&mut self, id: Id, due: Due) {
        let Some(event) = self.events.get_mut(&id) else { return };
        if std::mem::discriminant(&event.due) == std::mem::discriminant(&due) {
            self.dues.remove(event.due, id);
            self.dues.insert(due, id);
            event.due = due;
        }
    }
}

impl Repeat {
    /// What is left after this many occurrences. An event that has none left is gone, so one
    /// always is.
    fn less(self, count: u64) -> Self {
        match self {
            Self::Forever => Self::Forever,
            Self::Left(left) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                Self::Left(left.saturating_sub(count).max(1))
            }
        }
    }
}

fn sees(sight: &Sight, event: &Event) -> bool {
    match sight {
        Sight::All => true,
        Sight::Names(_) => event.types.iter().any(|name| sight.sees(name)),
    }
}

fn view(id: Id, event: &Event, now: Now) -> EventView {
    let next = event.due.wall(now);
    let period_secs = match &event.schedule {
        Schedule::Every(period) => period.secs(),
        Schedule::Cron(_) | Schedule::At(_) => secs(next.since(now.wall)),
    };
    EventView {
        id,
        types: event.types.to_vec(),
        description: event.description.to_string(),
        schedule: event.schedule.clone(),
        period_secs,
        repeat: event.repeat,
        updated: event.updated,
        next,
        occurrences: event.occurrences,
        skipped: event.skipped,
        publish: None,
    }
}
