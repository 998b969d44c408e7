//! What the oracle believes of sessions: who listens to what, and who was told.

use std::collections::{BTreeMap, BTreeSet};

use handoff_events::{Filter, FilterError, Id, Notification, Selection, SessionId};
use handoff_types::{Now, Sight, Span};

use super::super::asked::{FilterChange, Told};
use super::Violation;

/// How long what was told late is held for whoever subscribes.
pub(in super::super) const HELD: Span = Span::from_secs(30);

/// The sessions of one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Listeners {
    sessions: BTreeMap<u64, Listener>,
    opened: u64,
    held: Vec<Held>,
    told: BTreeSet<(u64, u32, u64)>,
}

#[derive(Clone, Debug)]
struct Listener {
    sight: Sight,
    entries_max: usize,
    filter: Filter,
}

/// An occurrence that whoever subscribes soon is told of.
#[derive(Clone, Debug)]
struct Held {
    notification: Notification,
    until: u64,
}

/// Whether somebody sees something that has these types.
pub(super) fn sees<'a>(sight: &Sight, types: impl IntoIterator<Item = &'a str>) -> bool {
    *sight == Sight::All || types.into_iter().any(|name| covers(sight, name))
}

/// Whether somebody sees a type.
pub(super) fn covers(sight: &Sight, name: &str) -> bool {
    let Sight::Names(patterns) = sight else { return true };
    patterns.iter().any(|pattern| {
        let text = pattern.as_str();
        text == name || text.strip_suffix('*').is_some_and(|begins| name.starts_with(begins))
    })
}

impl Listener {
    fn is_told_of(&self, notification: &Notification) -> bool {
        let Filter { ids, types, everything } = &self.filter;
        let names = || notification.types.iter().map(|name| &**name);
        ids.contains(&notification.id)
            || names().any(|name| types.contains(name))
            || *everything && sees(&self.sight, names())
    }
}

impl Listeners {
    pub(super) fn open(
        &mut self,
        session: SessionId,
        sight: &Sight,
        entries_max: usize,
    ) -> Result<(), Violation> {
        if session.0 < self.opened {
            return Err(Violation::Filter {
                session: session.0,
                found: "of a session that was there before".to_owned(),
                expected: "of a new one".to_owned(),
            });
        }
        self.opened = session.0 + 1;
        let filter = Filter::default();
        self.sessions.insert(session.0, Listener { sight: sight.clone(), entries_max, filter });
        Ok(())
    }

    pub(super) fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session.0);
    }

    /// An event is gone.
    pub(super) fn forget(&mut self, id: Id) {
        for listener in self.sessions.values_mut() {
            listener.filter.ids.remove(&id);
        }
    }

    /// Judges the answer to a change of a filter. `types` are those of every event there is.
    pub(super) fn changed(
        &mut self,
        session: SessionId,
        change: &FilterChange,
        result: &Result<(), FilterError>,
        types: impl Fn(Id) -> Option<BTreeSet<String>>,
    ) -> Result<(), Violation> {
        let Some(listener) = self.sessions.get_mut(&session.0) else { return Ok(()) };
        let (selection, mut after) = match change {
            FilterChange::Everything => {
                listener.filter.everything = true;
                return Ok(());
            }
            FilterChange::Replace(selection) => (selection, Filter::default()),
            FilterChange::Subscribe(selection) | FilterChange::Unsubscribe(selection) => {
                (selection, listener.filter.clone())
            }
        };
        let id_of = |number: i32| u32::try_from(number).ok().and_then(Id::new);
        let mut wrong = Vec::new();
        for number in &selection.ids {
            let there = id_of(*number).and_then(&types);
            let names =
                |names: &BTreeSet<String>| sees(&listener.sight, names.iter().map(String::as_str));
            if !there.as_ref().is_some_and(names) {
                wrong.push(FilterError::NoEvent(*number));
            }
        }
        let hidden = selection.types.iter().any(|name| !covers(&listener.sight, name));
        let ids = selection.ids.iter().filter_map(|number| id_of(*number));
        if let FilterChange::Unsubscribe(_) = change {
            let gone: BTreeSet<Id> = ids.collect();
            after.ids.retain(|id| !gone.contains(id));
            after.types.retain(|name| !selection.types.contains(name));
        } else {
            after.ids.extend(ids);
            after.types.extend(selection.types.iter().cloned());
            if after.ids.len() + after.types.len() > listener.entries_max
                && after != listener.filter
            {
                wrong.push(FilterError::TooLarge(listener.entries_max));
            }
        }
        let allowed = match result {
            Ok(()) => wrong.is_empty() && !hidden,
            Err(FilterError::OutOfSight(_)) => hidden,
            Err(error) => wrong.contains(error),
        };
        if !allowed {
            return Err(Violation::Answer {
                asked: format!("{change:?} of session {}", session.0),
                answer: format!("{result:?}"),
                why: format!("wrong is {wrong:?}, and a type is out of sight: {hidden}"),
            });
        }
        if result.is_ok() {
            listener.filter = after;
        }
        Ok(())
    }

    /// Judges a filter as it is.
    pub(super) fn check(
        &self,
        session: SessionId,
        found: Option<&Filter>,
    ) -> Result<(), Violation> {
        let expected = self.sessions.get(&session.0).map(|listener| &listener.filter);
        if found == expected {
            return Ok(());
        }
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        Err(Violation::Filter { session: session.0, found, expected })
    }

    /// Who is to be told of what happens now.
    pub(super) fn told_of<'a>(
        &mut self,
        happened: impl Iterator<Item = &'a Notification>,
        now: Now,
    ) -> Vec<Told> {
        let mut told = Vec::new();
        for notification in happened {
            for (session, listener) in &self.sessions {
                if listener.is_told_of(notification) {
                    let notification = notification.clone();
                    told.push(Told { session: SessionId(*session), notification });
                }
            }
            if notification.late {
                let until = (now.steady + HELD).0;
                self.held.push(Held { notification: notification.clone(), until });
            }
        }
        told
    }

    /// What a session is told whose filter has changed: whatever is held and it was not told of.
    pub(super) fn held_for(&mut self, session: SessionId, now: Now) -> Vec<Told> {
        self.held.retain(|held| now.steady.0 <= held.until);
        let Some(listener) = self.sessions.get(&session.0) else { return Vec::new() };
        let wanted = self.held.iter().map(|held| &held.notification).filter(|notification| {
            let Notification { id, occurrence, .. } = notification;
            listener.is_told_of(notification)
                && !self.told.contains(&(session.0, id.number(), *occurrence))
        });
        wanted.map(|notification| Told { session, notification: notification.clone() }).collect()
    }

    /// Judges who was told of what.
    pub(super) fn check_told(
        &mut self,
        found: &[Told],
        expected: &[Told],
    ) -> Result<(), Violation> {
        for Told { session, notification } in found {
            let (id, occurrence) = (notification.id.number(), notification.occurrence);
            if !self.told.insert((session.0, id, occurrence)) {
                return Err(Violation::Twice { session: session.0, id, occurrence });
            }
        }
        if found == expected {
            return Ok(());
        }
        let words = |told: &[Told]| {
            let one = |told: &Told| {
                let Notification { id, occurrence, .. } = &told.notification;
                format!("session {} of occurrence {occurrence} of {id}", told.session.0)
            };
            format!("[{}]", told.iter().map(one).collect::<Vec<_>>().join(", "))
        };
        Err(Violation::Recipients { found: words(found), expected: words(expected) })
    }
}

/// What a selection names of the events there are, for somebody.
pub(super) fn names(
    selection: &Selection,
    sight: &Sight,
    id: Id,
    types: &BTreeSet<String>,
) -> bool {
    let by_id = selection.ids.iter().any(|number| u32::try_from(*number) == Ok(id.number()));
    let by_type = selection.types.iter().any(|name| types.contains(name) && covers(sight, name));
    by_type || by_id && sees(sight, types.iter().map(String::as_str))
}
