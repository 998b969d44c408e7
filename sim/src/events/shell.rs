//! A server around the events room, as far as it decides anything: who is told, what is held for
//! whoever comes soon, and what is owed after a start and after the clock was set back.

use std::collections::BTreeSet;

use handoff_events::{Action, Id, Notification, Publication, SessionId, Sessions, State};
use handoff_types::{Now, Steady};

use super::asked::{FilterChange, Told, What};
use super::oracle::HELD;
use super::workload::Settings;

/// One life of a server.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) settings: Settings,
    pub(super) sessions: Sessions,
    pub(super) open: Vec<SessionId>,
    held: Vec<Held>,
    /// What a start has to say has not all been said.
    pub(super) resuming: bool,
    /// What is left of the late occurrences that a start may tell.
    pub(super) late_left: u64,
    /// The clock was set back; from here on events have not been looked at.
    pub(super) reschedule: Option<Id>,
    /// The last tick left something.
    pub(super) more: bool,
    /// From here on what waits for topics has not been handed over since the start.
    pub(super) hand_over: Option<Id>,
    /// What is on its way to topics: durable, and not answered.
    pub(super) on_the_way: Vec<Publication>,
}

/// An occurrence that whoever subscribes soon is told of.
#[derive(Debug)]
struct Held {
    notification: Notification,
    until: Steady,
    given: BTreeSet<SessionId>,
}

impl Shell {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            sessions: Sessions::default(),
            open: Vec::new(),
            held: Vec::new(),
            resuming: true,
            late_left: settings.tardiness.catch_up_max,
            reschedule: Some(Id::default()),
            more: false,
            hand_over: Some(Id::default()),
            on_the_way: Vec::new(),
        }
    }

    /// What a decision leads to. Who is told is looked up now; they are told when it is durable.
    pub(super) fn perform(&mut self, actions: &[Action], now: Now) -> Vec<Told> {
        let mut told = Vec::new();
        for action in actions {
            match action {
                Action::Notify(notification) => {
                    let sessions = self.sessions.matching(notification);
                    told.extend(sessions.iter().map(|session| Told {
                        session: *session,
                        notification: notification.clone(),
                    }));
                    if notification.late {
                        self.held.push(Held {
                            notification: notification.clone(),
                            until: now.steady + HELD,
                            given: sessions.into_iter().collect(),
                        });
                    }
                }
                Action::Forget(id) => self.sessions.forget(*id),
                // Only once it is durable.
                Action::Publish(_) => {}
            }
        }
        told
    }

    /// Changes a filter. What is held is given to the session if it wants it now.
    pub(super) fn change(
        &mut self,
        session: SessionId,
        change: FilterChange,
        state: &State,
        now: Now,
    ) -> (What, Vec<Told>) {
        let sessions = &mut self.sessions;
        let result = match &change {
            FilterChange::Subscribe(selection) => sessions.subscribe(session, selection, state),
            FilterChange::Unsubscribe(selection) => sessions.unsubscribe(session, selection, state),
            FilterChange::Replace(selection) => sessions.replace(session, selection, state),
            FilterChange::Everything => {
                sessions.subscribe_to_everything(session);
                Ok(())
            }
        };
        self.held.retain(|held| now.steady <= held.until);
        let mut told = Vec::new();
        for held in self.held.iter_mut().filter(|_| result.is_ok()) {
            if self.sessions.matches(session, &held.notification) && held.given.insert(session) {
                told.push(Told { session, notification: held.notification.clone() });
            }
        }
        let filter = self.sessions.filter(session).cloned();
        (What::Filter { session, change, result, filter }, told)
    }
}
