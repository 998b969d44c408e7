//! Who listens, and to what. Not durable: a session ends with its connection.
//!
//! Filters are indexed by id and by type, so that an occurrence costs what it matches and not what
//! there is.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::Sight;

use crate::{Id, Notification, Selection, State};

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What a session wants to be told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// These events.
    pub ids: BTreeSet<Id>,
    /// Events of these types.
    pub types: BTreeSet<String>,
    /// Every event in sight (server-sent events without a filter).
    pub everything: bool,
}

impl Filter {
    /// How many entries this is: an id is one, a type is one for each [`NAME_BYTES`] of its name,
    /// so that a number of entries is also a number of bytes.
    fn entries(&self) -> usize {
        self.ids.len() + self.types.iter().map(|name| weight(name)).sum::<usize>()
    }
}

/// What a type's name takes of a filter's entry.
const NAME_BYTES: usize = 256;

fn weight(name: &str) -> usize {
    name.len().div_ceil(NAME_BYTES).max(1)
}

/// Why a filter stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There is no such event, or it is not in sight.
    #[error("there is no event {0}")]
    NoEvent(i32),
    /// The type is not in sight.
    #[error("{0}")]
    OutOfSight(String),
    /// The filter would be too large.
    #[error("a filter has at most {0} entries")]
    TooLarge(usize),
}

/// The sessions there are and their filters.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
    /// How many there have been: the next one's id.
    opened: u64,
    by_id: BTreeMap<Id, BTreeSet<SessionId>>,
    by_type: BTreeMap<String, BTreeSet<SessionId>>,
    by_everything: BTreeSet<SessionId>,
}

#[derive(Clone, Debug)]
struct Session {
    filter: Filter,
    entries: usize,
    entries_max: usize,
    sight: Sight,
}

/// A selection that was looked at: its events are there, and all of it is in sight.
struct Checked<'a> {
    ids: BTreeSet<Id>,
    types: BTreeSet<&'a str>,
}

impl Sessions {
    /// A session begins, with an empty filter. Ids of sessions ascend and are not used again.
    pub fn open(&mut self, sight: Sight, entries_max: usize) -> SessionId {
        let id = SessionId(self.opened);
        self.opened += 1;
        let session = Session { filter: Filter::default(), entries: 0, entries_max, sight };
        self.sessions.insert(id, session);
        id
    }

    /// A session ends.
    pub fn close(&mut self, session: SessionId) {
        if let Some(Session { filter, .. }) = self.sessions.remove(&session) {
            filter.ids.iter().for_each(|id| leave(&mut self.by_id, id, session));
            filter.types.iter().for_each(|name| leave(&mut self.by_type, name, session));
            self.by_everything.remove(&session);
        }
    }

    /// Adds to a filter, as a whole or not at all. A session that has ended has none: nothing
    /// happens.
    ///
    /// # Errors
    /// [`FilterError`]; the filter is unchanged.
    pub fn subscribe(
        &mut self,
        session: SessionId,
        selection: &Selection,
        state: &State,
    ) -> Result<(), FilterError> {
        let Some(theirs) = self.sessions.get_mut(&session) else { return Ok(()) };
        let Checked { ids, types } = theirs.check(selection, state)?;
        let Session { filter, .. } = theirs;
        let new_ids: Vec<Id> = ids.difference(&filter.ids).copied().collect();
        let new_types: Vec<&str> =
            types.into_iter().filter(|name| !filter.types.contains(*name)).collect();
        let more = new_ids.len() + new_types.iter().map(|name| weight(name)).sum::<usize>();
        if more > 0 && theirs.entries + more > theirs.entries_max {
            return Err(FilterError::TooLarge(theirs.entries_max));
        }
        theirs.entries += more;
        for id in new_ids {
            theirs.filter.ids.insert(id);
            self.by_id.entry(id).or_default().insert(session);
        }
        for name in new_types {
            theirs.filter.types.insert(name.to_owned());
            join(&mut self.by_type, name, session);
        }
        Ok(())
    }

    /// Takes from a filter, as a whole or not at all.
    ///
    /// # Errors
    /// [`FilterError`]; the filter is unchanged.
    pub fn unsubscribe(
        &mut self,
        session: SessionId,
        selection: &Selection,
        state: &State,
    ) -> Result<(), FilterError> {
        let Some(theirs) = self.sessions.get_mut(&session) else { return Ok(()) };
        let Checked { ids, types } = theirs.check(selection, state)?;
        for id in ids.iter().filter(|id| theirs.filter.ids.remove(id)) {
            theirs.entries -= 1;
            leave(&mut self.by_id, id, session);
        }
        for name in types.into_iter().filter(|name| theirs.filter.types.remove(*name)) {
            theirs.entries -= weight(name);
            leave(&mut self.by_type, name, session);
        }
        Ok(())
    }

    /// Replaces a filter, as a whole or not at all.
    ///
    /// # Errors
    /// [`FilterError`]; the filter is unchanged.
    pub fn replace(
        &mut self,
        session: SessionId,
        selection: &Selection,
        state: &State,
    ) -> Result<(), FilterError> {
        let Some(theirs) = self.sessions.get_mut(&session) else { return Ok(()) };
        let Checked { ids, types } = theirs.check(selection, state)?;
        let types = types.into_iter().map(str::to_owned).collect();
        let filter = Filter { ids, types, everything: false };
        let entries = filter.entries();
        if entries > theirs.entries_max {
            return Err(FilterError::TooLarge(theirs.entries_max));
        }
        theirs.entries = entries;
        let before = std::mem::replace(&mut theirs.filter, filter.clone());
        before.ids.iter().for_each(|id| leave(&mut self.by_id, id, session));
        before.types.iter().for_each(|name| leave(&mut self.by_type, name, session));
        self.by_everything.remove(&session);
        for id in filter.ids {
            self.by_id.entry(id).or_default().insert(session);
        }
        filter.types.iter().for_each(|name| join(&mut self.by_type, name, session));
        Ok(())
    }

    /// Every event in sight, from now on.
    pub fn subscribe_to_everything(&mut self, session: SessionId) {
        if let Some(theirs) = self.sessions.get_mut(&session) {
            theirs.filter.everything = true;
            self.by_everything.insert(session);
        }
    }

    /// A session's filter.
    #[must_use]
    pub fn filter(&self, session: SessionId) -> Option<&Filter> {
        self.sessions.get(&session).map(|session| &session.filter)
    }

    /// Who is told of an occurrence: ascending, each once.
    #[must_use]
    pub fn matching(&self, notification: &Notification) -> Vec<SessionId> {
        let by_id = self.by_id.get(&notification.id);
        let by_type = notification.types.iter().filter_map(|name| self.by_type.get(&**name));
        let mut found = Vec::new();
        let mut places = 0;
        for sessions in by_id.into_iter().chain(by_type) {
            places += 1;
            found.extend(sessions);
        }
        if !self.by_everything.is_empty() {
            places += 1;
            let seen = |id: &&SessionId| {
                self.sessions.get(id).is_some_and(|session| session.sees(notification))
            };
            found.extend(self.by_everything.iter().filter(seen));
        }
        if places > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Whether one session is told of an occurrence (for what is held after a start).
    #[must_use]
    pub fn matches(&self, session: SessionId, notification: &Notification) -> bool {
        self.sessions.get(&session).is_some_and(|session| {
            let Filter { ids, types, everything } = &session.filter;
            ids.contains(&notification.id)
                || notification.types.iter().any(|name| types.contains(&**name))
                || *everything && session.sees(notification)
        })
    }

    /// An event is gone: its id leaves every filter.
    pub fn forget(&mut self, id: Id) {
        for session in self.by_id.remove(&id).into_iter().flatten() {
            if let Some(theirs) = self.sessions.get_mut(&session)
                && theirs.filter.ids.remove(&id)
            {
                theirs.entries -= 1;
            }
        }
    }

    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

impl Session {
    fn check<'a>(
        &self,
        selection: &'a Selection,
        state: &State,
    ) -> Result<Checked<'a>, FilterError> {
        let mut ids = BTreeSet::new();
        for number in &selection.ids {
            let id = u32::try_from(*number).ok().and_then(Id::new);
            let seen = id.filter(|id| state.is_seen(*id, &self.sight));
            ids.insert(seen.ok_or(FilterError::NoEvent(*number))?);
        }
        let types: BTreeSet<&str> = selection.types.iter().map(String::as_str).collect();
        if types.iter().any(|name| !self.sight.sees(name)) {
            let words = "your token does not cover one of the types; nothing was changed";
            return Err(FilterError::OutOfSight(words.to_owned()));
        }
        Ok(Checked { ids, types })
    }

    fn sees(&self, notification: &Notification) -> bool {
        self.sight == Sight::All || notification.types.iter().any(|name| self.sight.sees(name))
    }
}

fn join(index: &mut BTreeMap<String, BTreeSet<SessionId>>, name: &str, session: SessionId) {
    match index.get_mut(name) {
        Some(sessions) => {
            sessions.insert(session);
        }
        None => {
            index.insert(name.to_owned(), BTreeSet::from([session]));
        }
    }
}

fn leave<K, Q>(index: &mut BTreeMap<K, BTreeSet<SessionId>>, key: &Q, session: SessionId)
where
    K: std::borrow::Borrow<Q> + Ord,
    Q: Ord + ?Sized,
{
    if let Some(sessions) = index.get_mut(key) {
        sessions.remove(&session);
        if sessions.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
