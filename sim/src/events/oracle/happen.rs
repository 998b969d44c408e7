//! Judges what a tick or a start lets happen.

use std::collections::{BTreeMap, BTreeSet};

use handoff_events::{
    Action, CatchUp, Command, Handed, Id, Notification, Publishing, Reply, Tardiness,
};
use handoff_types::Now;

use super::super::asked::{Look, Told};
use super::belief::Belief;
use super::lines::Happened;
use super::{Oracle, Violation};

/// What the rules say of one such command.
#[derive(Clone, Copy, Debug)]
struct Rule {
    limit: usize,
    tardiness: Tardiness,
    publishing: Publishing,
    /// Later than this is missed; none: whatever is due is.
    late_max: Option<u64>,
}

/// What became of one event.
struct Course {
    id: Id,
    happened: u64,
    skipped: u64,
    late: u64,
    /// Not told though the policy would tell of them.
    owed: u64,
}

/// What a command led to.
pub(super) struct Outcome<'a> {
    pub(super) reply: &'a Reply,
    pub(super) actions: &'a [Action],
    pub(super) look: &'a Look,
    pub(super) told: &'a [Told],
}

impl Oracle {
    /// Judges the answer to a tick or a start.
    pub(super) fn happened(
        &mut self,
        command: &Command,
        now: Now,
        outcome: &Outcome<'_>,
    ) -> Result<(), Violation> {
        let Some(rule) = Rule::of(command) else { return Ok(()) };
        let (notified, forgotten) = by_event(outcome.actions)?;
        let mut courses = Vec::new();
        for (id, belief) in &self.events {
            let told = notified.get(id).map_or(&[][..], Vec::as_slice);
            let happened = self.how_often(*id, belief, outcome.look)?;
            courses.extend(course(*id, belief, happened, told, rule, now)?);
        }
        if let Some(id) = notified.keys().find(|id| !self.events.contains_key(id)) {
            return Err(Violation::Early { id: id.number(), happened: 1, due: 0 });
        }
        self.check_turns(&courses, rule, now)?;
        check_policy(&courses, rule)?;
        let happened = outcome.actions.iter().filter_map(|action| match action {
            Action::Notify(notification) => Some(notification),
            Action::Forget(_) | Action::Publish(_) => None,
        });
        let expected = self.listeners.told_of(happened, now);
        self.listeners.check_told(outcome.told, &expected)?;
        let sent = self.hand(told_in_turn(outcome.actions), rule.publishing, now);
        self.go_on(&courses, &forgotten, now)?;
        self.end_lines(forgotten);
        self.check_sent(outcome.actions, &sent)?;
        self.check_reply(command, outcome.reply, &courses, now)?;
        self.looks(outcome.look, now)
    }

    /// How often an event has happened now, as its number of occurrences says, or its end.
    fn how_often(&self, id: Id, belief: &Belief, look: &Look) -> Result<u64, Violation> {
        let Some(view) = look.events.iter().find(|view| view.id == id) else {
            return belief.left.ok_or_else(|| Violation::Event {
                id: id.number(),
                found: "gone".to_owned(),
                expected: "there for ever".to_owned(),
            });
        };
        view.occurrences.checked_sub(belief.occurrences).ok_or_else(|| Violation::Event {
            id: id.number(),
            found: format!("at {} occurrences", view.occurrences),
            expected: format!("at {} at least", belief.occurrences),
        })
    }

    /// Not too many at once, and the longest due first.
    fn check_turns(&self, courses: &[Course], rule: Rule, now: Now) -> Result<(), Violation> {
        let late = |id: &Id| self.events.get(id).map_or(0, |belief| belief.due().late(now));
        let touched: BTreeSet<Id> = courses.iter().map(|course| course.id).collect();
        let first = touched.iter().min_by_key(|id| late(id));
        let Some(first) = first else { return Ok(()) };
        let passed_over = self.events.keys().filter(|id| !touched.contains(id));
        let longest = passed_over.map(late).max().unwrap_or(0);
        if touched.len() > rule.limit || longest > late(first).max(0) {
            return Err(Violation::Turn { id: first.number() });
        }
        Ok(())
    }

    /// The events go on, and those that are over are forgotten.
    fn go_on(
        &mut self,
        courses: &[Course],
        forgotten: &BTreeSet<Id>,
        now: Now,
    ) -> Result<(), Violation> {
        let mut over = BTreeSet::new();
        for course in courses {
            let Some(belief) = self.events.get_mut(&course.id) else { continue };
            if belief.advance(course.happened, course.skipped, now) {
                over.insert(course.id);
            }
            self.totals.occurred += course.happened;
            self.totals.skipped += course.skipped;
        }
        if over != *forgotten {
            let (found, expected) = (format!("{forgotten:?}"), format!("{over:?}"));
            return Err(Violation::Forgotten { found, expected });
        }
        for id in over {
            self.events.remove(&id);
            self.listeners.forget(id);
            self.totals.finished += 1;
        }
        Ok(())
    }

    fn check_reply(
        &self,
        command: &Command,
        reply: &Reply,
        courses: &[Course],
        now: Now,
    ) -> Result<(), Violation> {
        let sum = |of: fn(&Course) -> u64| courses.iter().map(of).sum::<u64>();
        let expected = Reply::Ticked {
            more: self.events.values().any(|belief| belief.due().late(now) >= 0),
            told: sum(|course| course.happened - course.skipped),
            late: sum(|course| course.late),
            skipped: sum(|course| course.skipped),
        };
        super::answer_is(command, reply, &expected)
    }
}

impl Rule {
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Tick { limit, tardiness, publishing } => Some(Self {
                limit: *limit,
                tardiness: *tardiness,
                publishing: *publishing,
                late_max: Some(tardiness.late_max.0),
            }),
            Command::Resume { limit, tardiness, publishing } => Some(Self {
                limit: *limit,
                tardiness: *tardiness,
                publishing: *publishing,
                late_max: None,
            }),
            _ => None,
        }
    }
}

/// What is told, event by event in the order of the first told of each.
fn told_in_turn(actions: &[Action]) -> Happened {
    let mut happened = Happened::new();
    for action in actions {
        let Action::Notify(told) = action else { continue };
        let Notification { id, due, late, occurrence, .. } = told;
        let handed = Handed { sequence: 0, number: *occurrence, due: *due, late: *late };
        match happened.iter_mut().find(|(of, _)| of == id) {
            Some((_, all)) => all.push(handed),
            None => happened.push((*id, vec![handed])),
        }
    }
    happened
}

type ByEvent<'a> = BTreeMap<Id, Vec<&'a Notification>>;

/// What is told of each event, and which are forgotten: each once, and nothing is told of it then.
fn by_event(actions: &[Action]) -> Result<(ByEvent<'_>, BTreeSet<Id>), Violation> {
    let mut notified = ByEvent::new();
    let mut forgotten = BTreeSet::new();
    for action in actions {
        let (id, fits) = match action {
            Action::Notify(notification) => {
                notified.entry(notification.id).or_default().push(notification);
                (notification.id, !forgotten.contains(&notification.id))
            }
            Action::Forget(id) => (*id, forgotten.insert(*id)),
            Action::Publish(_) => continue,
        };
        if !fits {
            let (found, expected) = (format!("{id} too early or twice"), id.to_string());
            return Err(Violation::Forgotten { found, expected });
        }
    }
    Ok((notified, forgotten))
}

/// Judges what became of one event; nothing if nothing did.
fn course(
    id: Id,
    belief: &Belief,
    happened: u64,
    told: &[&Notification],
    rule: Rule,
    now: Now,
) -> Result<Option<Course>, Violation> {
    let due = belief.count(now, None);
    if happened > due || told.len() as u64 > happened {
        let happened = happened.max(told.len() as u64);
        return Err(Violation::Early { id: id.number(), happened, due });
    }
    if happened == 0 {
        return Ok(None);
    }
    let missed_ever = rule.late_max.map_or(due, |late_max| belief.count(now, Some(late_max)));
    let missed = missed_ever.min(happened);
    let skipped = happened - told.len() as u64;
    let late = missed.saturating_sub(skipped);
    let wrong = |why| Violation::CatchUp { id: id.number(), late, skipped, why };
    if skipped > missed {
        return Err(wrong("only missed ones are skipped"));
    }
    for (n, notification) in (skipped + 1..).zip(told) {
        let expected = belief.told(id, n, n <= missed, now);
        if **notification != expected {
            return Err(Violation::Notification {
                id: id.number(),
                found: format!("{notification:?}"),
                expected: format!("{expected:?}"),
            });
        }
    }
    let policy = match rule.tardiness.catch_up {
        CatchUp::Skip => 0,
        CatchUp::Once => u64::from(missed > 0 && missed == missed_ever),
        CatchUp::All => missed,
    };
    match policy.checked_sub(late) {
        Some(owed) => Ok(Some(Course { id, happened, skipped, late, owed })),
        None => Err(wrong("the policy tells of fewer")),
    }
}

/// Nothing that the policy would tell is skipped before as many are told as may be.
fn check_policy(courses: &[Course], rule: Rule) -> Result<(), Violation> {
    let Some(last) = courses.last() else { return Ok(()) };
    let sum = |of: fn(&Course) -> u64| courses.iter().map(of).sum::<u64>();
    let (late, owed) = (sum(|course| course.late), sum(|course| course.owed));
    let most = rule.tardiness.catch_up_max;
    if late > most || owed > 0 && late < most {
        let why = "as many are told as may be";
        return Err(Violation::CatchUp { id: last.id.number(), late, skipped: owed, why });
    }
    Ok(())
}
