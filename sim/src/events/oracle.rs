//! The judge of the events room: knows the rules from their prose (the pages of
//! `handoff_events`) and only ever sees what was asked, the answers, what was told, and the time.
//! Of the room it uses the vocabulary, never a line of its logic.
//!
//! A periodic event is a number of periods behind its registration, whatever happened meanwhile;
//! a calendar is walked minute by minute ([`super::calendar`]). Where the rules leave the room a
//! choice (how many occurrences of an event one command lets happen), the events are looked at
//! right behind it, and what they show must be one of the choices there are.
//!
//! After a restart the room must be as everything that was answered left it, and the first few of
//! what was not: how many, the oracle finds out by trying.

mod belief;
mod happen;
mod lines;
mod listeners;
mod violation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use handoff_events::{
    Action, Bounds, Command, EventView, Id, Refusal, Registered, Registration, Reply, Schedule,
    Selection, Totals,
};
use handoff_types::{Now, Sight, Wall};

use self::belief::{Belief, Instant};
use self::happen::Outcome;
use self::lines::Lines;
pub(super) use self::listeners::HELD;
use self::listeners::{Listeners, covers, names, sees};
pub use self::violation::Violation;
use super::asked::{Asked, Look, What, words};
use super::calendar::Calendar;

/// Judges what the events room answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    events: BTreeMap<Id, Belief>,
    totals: Totals,
    listeners: Listeners,
    lines: Lines,
}

impl Oracle {
    /// Judges an answer and whatever was told with it. Answers are judged in the order in which
    /// they were decided.
    pub(super) fn answered(&mut self, asked: &Asked) -> Result<(), Violation> {
        let Asked { now, what, told } = asked;
        match what {
            What::Command { command, reply, actions, look } => {
                if let Some(look) = look {
                    let outcome = Outcome { reply, actions, look, told };
                    match command {
                        Command::Reschedule { from, limit } => {
                            self.rescheduled(command, (*from, *limit), *now, &outcome)?;
                        }
                        Command::Tick { .. } | Command::Resume { .. } => {
                            self.happened(command, *now, &outcome)?;
                        }
                        _ => self.topics(command, *now, &outcome)?,
                    }
                    return Ok(());
                }
                self.commanded(command, *now, reply, actions)?;
                self.listeners.check_told(told, &[])
            }
            What::Open { session, sight, entries_max } => {
                self.listeners.open(*session, sight, *entries_max)
            }
            What::Close { session } => {
                self.listeners.close(*session);
                Ok(())
            }
            What::Filter { session, change, result, filter } => {
                let types = |id: Id| self.events.get(&id).map(|belief| belief.types.clone());
                self.listeners.changed(*session, change, result, types)?;
                self.listeners.check(*session, filter.as_ref())?;
                let expected = match result {
                    Ok(()) => self.listeners.held_for(*session, *now),
                    Err(_) => Vec::new(),
                };
                self.listeners.check_told(told, &expected)
            }
            What::List { types, sight, from, limit, found } => {
                let expected = self.list(types.as_deref(), sight, *from, *limit);
                finds(asked, found, &expected)
            }
            What::View { id, sight, found } => self.views(*id, sight, found.as_ref(), *now),
            What::Select { selection, sight, found } => {
                finds(asked, found, &self.selected(selection, sight))
            }
            What::Look(look) => self.looks(look, *now),
        }
    }

    /// Judges what came back after a restart. Nobody listens any more.
    pub(super) fn recovered(
        &mut self,
        lost: &[Asked],
        look: &Look,
        now: Now,
    ) -> Result<usize, Violation> {
        let mut attempt = self.clone();
        let mut first = None;
        for survived in 0..=lost.len() {
            match attempt.looks(look, now) {
                Ok(()) => {
                    *self = attempt;
                    self.listeners = Listeners::default();
                    return Ok(survived);
                }
                Err(violation) => {
                    first.get_or_insert(violation);
                }
            }
            if let Some(next) = lost.get(survived) {
                attempt.answered(next)?;
            }
        }
        let closest = first.map(|violation| violation.to_string()).unwrap_or_default();
        Err(Violation::Recovery { lost: lost.len(), closest })
    }

    /// Judges commands whose answer says everything.
    fn commanded(
        &mut self,
        command: &Command,
        now: Now,
        reply: &Reply,
        actions: &[Action],
    ) -> Result<(), Violation> {
        match (command, reply) {
            (Command::Register { event, bounds, sight }, reply) => {
                forgets(actions, &[])?;
                let wrong = self.objections(event, bounds, sight, now);
                match reply {
                    Reply::Refused(refusal) if wrong.contains(&Objection::of(refusal)) => Ok(()),
                    Reply::Registered(registered) if wrong.is_empty() => {
                        self.registered(command, event, registered, now)
                    }
                    _ => Err(Violation::Answer {
                        asked: words(command),
                        answer: format!("{reply:?}"),
                        why: format!("what is wrong with it is {wrong:?}"),
                    }),
                }
            }
            (Command::Delete { selection, sight, limit }, Reply::Deleted { ids, .. }) => {
                let selected = self.selected(selection, sight);
                let expected = Reply::Deleted {
                    ids: selected.iter().copied().take(*limit).collect(),
                    more: selected.len() > *limit,
                };
                answer_is(command, reply, &expected)?;
                forgets(actions, ids)?;
                for id in ids {
                    self.events.remove(id);
                    self.listeners.forget(*id);
                    self.totals.deleted += 1;
                }
                self.end_lines(ids.iter().copied());
                Ok(())
            }
            _ => Err(Violation::Answer {
                asked: words(command),
                answer: format!("{reply:?}"),
                why: "that is no answer to it".to_owned(),
            }),
        }
    }

    fn registered(
        &mut self,
        command: &Command,
        event: &Registration,
        registered: &Registered,
        now: Now,
    ) -> Result<(), Violation> {
        let next = self.totals.registered;
        let id = registered.id;
        if u64::from(id.number()) != next {
            return Err(Violation::Id { given: id.number(), next });
        }
        let belief = Belief::of(event, now);
        let first = belief.as_ref().map(|belief| Wall(belief.due().wall(now)));
        let expected = Registered { id, at: now.wall, next: first };
        let reply = |registered: &Registered| Reply::Registered(*registered);
        answer_is(command, &reply(registered), &reply(&expected))?;
        self.totals.registered += 1;
        if belief.is_some() {
            self.lines.open(id, event);
        }
        self.events.extend(belief.map(|belief| (id, belief)));
        Ok(())
    }

    /// All that is wrong with a registration. Any of it is a reason to refuse.
    fn objections(
        &self,
        event: &Registration,
        bounds: &Bounds,
        sight: &Sight,
        now: Now,
    ) -> BTreeSet<Objection> {
        let secs = |micros: u64| micros as f64 / 1e6;
        let timely = match &event.schedule {
            Schedule::Every(period) => {
                (secs(bounds.period_min.0)..=secs(bounds.period_max.0)).contains(&period.secs())
            }
            Schedule::Cron(cron) => {
                Calendar::of(cron.expression()).is_some_and(|calendar| !calendar.never)
            }
            Schedule::At(at) => *at >= now.wall && matches!(event.repeat, 0 | 1),
        };
        let types: BTreeSet<&String> = event.types.iter().collect();
        let short = |name: &&String| (1..=bounds.type_bytes_max).contains(&name.len());
        let seen = |name: &&String| covers(sight, name);
        let visible = *sight == Sight::All || !types.is_empty();
        let left = event.publish.as_ref().map_or(0, |_| self.lines.ended());
        let there = self.events.len() as u64 + left;
        let full = there >= bounds.events_max && event.repeat != 0;
        let name = |name: &String| (1..=249).contains(&name.len());
        let named = event
            .publish
            .as_ref()
            .is_none_or(|publish| name(&publish.topic) && publish.key.as_ref().is_none_or(name));
        let rules = [
            (Objection::Schedule, timely),
            (Objection::Repeat, event.repeat >= -1),
            (Objection::Description, event.description.len() <= bounds.description_bytes_max),
            (Objection::Types, types.len() <= bounds.types_max && types.iter().all(short)),
            (Objection::Sight, visible && types.iter().all(seen)),
            (Objection::Full, !full),
            (Objection::Publish, named),
        ];
        rules.into_iter().filter(|(_, holds)| !holds).map(|(objection, _)| objection).collect()
    }

    fn rescheduled(
        &mut self,
        command: &Command,
        (from, limit): (Id, usize),
        now: Now,
        outcome: &Outcome<'_>,
    ) -> Result<(), Violation> {
        forgets(outcome.actions, &[])?;
        self.listeners.check_told(outcome.told, &[])?;
        let Reply::Rescheduled { next, .. } = outcome.reply else {
            return answer_is(command, outcome.reply, &Reply::Rescheduled { count: 0, next: None });
        };
        let mut count = 0;
        for (id, belief) in &mut self.events {
            let looked_at = *id >= from && next.is_none_or(|next| *id < next);
            let view = outcome.look.events.iter().find(|view| view.id == *id);
            let shown = view.map_or(0, |view| view.next.0);
            let waits = matches!(belief.due(), Instant::Wall(at) if at != shown);
            match belief.anew(now).filter(|_| looked_at) {
                Some(anew) if waits && anew.may && anew.at == shown => {
                    belief.wait_for(shown);
                    count += 1;
                }
                Some(anew) if anew.must && !waits => {
                    return Err(Violation::Event {
                        id: id.number(),
                        found: format!("waiting for {shown}"),
                        expected: format!("waiting for {}, or it stands still", anew.at),
                    });
                }
                _ => {}
            }
        }
        let behind = self.events.range(from..).nth(limit).map(|(id, _)| *id);
        let by_wall = |belief: &Belief| matches!(belief.due(), Instant::Wall(_));
        // Where nothing waits for the operator's clock there is nothing to look at.
        let next = if self.events.values().any(by_wall) { behind } else { next.and(behind) };
        answer_is(command, outcome.reply, &Reply::Rescheduled { count, next })?;
        self.looks(outcome.look, now)
    }

    fn list(&self, types: Option<&[String]>, sight: &Sight, from: Id, limit: usize) -> Vec<Id> {
        let wanted = |belief: &Belief| {
            let theirs = || belief.types.iter().map(String::as_str);
            match types {
                None => sees(sight, theirs()),
                Some(types) => theirs()
                    .any(|name| covers(sight, name) && types.iter().any(|wanted| wanted == name)),
            }
        };
        let events = self.events.range(from..).filter(|(_, belief)| wanted(belief));
        events.map(|(id, _)| *id).take(limit).collect()
    }

    fn selected(&self, selection: &Selection, sight: &Sight) -> Vec<Id> {
        let named =
            self.events.iter().filter(|(id, event)| names(selection, sight, **id, &event.types));
        named.map(|(id, _)| *id).collect()
    }

    fn views(
        &self,
        id: Id,
        sight: &Sight,
        found: Option<&EventView>,
        now: Now,
    ) -> Result<(), Violation> {
        let belief = self.events.get(&id);
        let seen = |belief: &&Belief| sees(sight, belief.types.iter().map(String::as_str));
        let expected = belief.filter(seen).map(|belief| self.shown(id, belief, found, now));
        shows(id, found, expected.as_ref())
    }

    /// How an event is shown.
    fn shown(&self, id: Id, belief: &Belief, found: Option<&EventView>, now: Now) -> EventView {
        let published = found.and_then(|found| found.publish.as_ref());
        EventView { publish: self.lines.view(id, published), ..belief.view(id, now) }
    }

    /// Whether an occurrence is or was a dead letter.
    pub(super) fn is_dead(&self, id: Id, sequence: u64) -> bool {
        self.lines.is_dead(id, sequence)
    }

    /// Judges everything there is to see.
    fn looks(&self, look: &Look, now: Now) -> Result<(), Violation> {
        let shown: BTreeSet<Id> = look.events.iter().map(|view| view.id).collect();
        for id in self.events.keys().chain(&shown) {
            let found = look.events.iter().find(|view| view.id == *id);
            let expected = self.events.get(id).map(|belief| self.shown(*id, belief, found, now));
            shows(*id, found, expected.as_ref())?;
        }
        let next = u32::try_from(self.totals.registered).ok().and_then(Id::new);
        if (look.totals, look.next_id) != (self.totals, next) {
            return Err(Violation::Totals {
                found: format!("{:?}, next {:?}", look.totals, look.next_id),
                expected: format!("{:?}, next {next:?}", self.totals),
            });
        }
        self.check_lines(&look.outlets, &look.letters)?;
        self.check_deadline(look, now)
    }

    /// The room wants to be driven when the first event is due, or at once if one is overdue.
    fn check_deadline(&self, look: &Look, now: Now) -> Result<(), Violation> {
        let first = self.events.values().map(|belief| belief.due().steady(now)).min();
        let found = look.deadline.map(|deadline| i128::from(deadline.0));
        let at_once = i128::from(now.steady.0);
        let fits = match (first, found) {
            (Some(first), Some(found)) if first <= at_once => found <= at_once,
            // What no clock can show is as good as never.
            (Some(first), found) if first > i128::from(u64::MAX) => {
                found.is_none_or(|found| found >= i128::from(u64::MAX))
            }
            (first, found) => first == found,
        };
        if fits {
            return Ok(());
        }
        let (found, expected) = (format!("{found:?}"), format!("{first:?}"));
        Err(Violation::Deadline { found, expected })
    }
}

/// What may be wrong with a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Objection {
    Schedule,
    Repeat,
    Description,
    Types,
    Sight,
    Full,
    Publish,
    Unknown,
}

impl Objection {
    const fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Schedule(_) => Self::Schedule,
            Refusal::Repeat(_) => Self::Repeat,
            Refusal::Description { .. } => Self::Description,
            Refusal::Types(_) => Self::Types,
            Refusal::OutOfSight(_) => Self::Sight,
            Refusal::Full(_) => Self::Full,
            Refusal::Publish(_) => Self::Publish,
            _ => Self::Unknown,
        }
    }
}

fn answer_is(command: &Command, found: &Reply, expected: &Reply) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    Err(Violation::Answer {
        asked: words(command),
        answer: format!("{found:?}"),
        why: format!("it should be {expected:?}"),
    })
}

/// Filters forget these events and nothing is told.
fn forgets(actions: &[Action], gone: &[Id]) -> Result<(), Violation> {
    let mut found: Vec<Option<Id>> = actions
        .iter()
        .map(|action| match action {
            Action::Forget(id) => Some(*id),
            Action::Notify(_) | Action::Publish(_) => None,
        })
        .collect();
    found.sort_unstable();
    if found.iter().copied().eq(gone.iter().map(|id| Some(*id))) {
        return Ok(());
    }
    let (found, expected) = (format!("{actions:?}"), format!("{gone:?}"));
    Err(Violation::Forgotten { found, expected })
}

fn finds(asked: &impl fmt::Display, found: &[Id], expected: &[Id]) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    Err(Violation::Answer {
        asked: asked.to_string(),
        answer: format!("{found:?}"),
        why: format!("it should be {expected:?}"),
    })
}

fn shows(id: Id, found: Option<&EventView>, expected: Option<&EventView>) -> Result<(), Violation> {
    if found == expected {
        return Ok(());
    }
    let words = |view: Option<&EventView>| {
        view.map_or("gone".to_owned(), |view| {
            let description = view.description.chars().take(16).collect();
            format!("{:?}", EventView { description, ..view.clone() })
        })
    };
    let (found, expected) = (words(found), words(expected));
    Err(Violation::Event { id: id.number(), found, expected })
}
