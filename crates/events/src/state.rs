//! What the room knows.

use std::collections::BTreeMap;

use handoff_types::{Now, Sight};

use crate::digest::Digest;
use crate::due::Dues;
use crate::schedule::secs;
use crate::types::Types;
use crate::union::Union;
use crate::{Change, Due, Event, EventView, Gone, Id, Repeat, Schedule, Selection};

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
}

impl Totals {
    pub(crate) fn add(&mut self, more: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.registered, more.registered);
        sum(&mut self.deleted, more.deleted);
        sum(&mut self.finished, more.finished);
        sum(&mut self.occurred, more.occurred);
        sum(&mut self.skipped, more.skipped);
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
        self.get(id).filter(|event| sees(sight, event)).map(|event| view(id, event, now))
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
        ids.into_iter().filter_map(|id| Some(view(id, self.get(id)?, now))).collect()
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

    pub(crate) fn dues(&self) -> &Dues {
        &self.dues
    }

    /// One number for all of it: equal states have equal ones, in every process.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut digest = Digest::default();
        let Totals { registered, deleted, finished, occurred, skipped } = self.totals;
        for total in [registered, deleted, finished, occurred, skipped] {
            digest.word(total);
        }
        for (id, event) in &self.events {
            digest.event(*id, event);
        }
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
    }
}
