//! Occurrences, told or missed.
//!
//! ```text
//!  occurrences of one event that are due, oldest first
//!  │◀────────── missed ──────────▶│◀── in time ──▶│
//!  │◀─── skipped ───▶│◀── late ──▶│               │
//!                    │◀─────────── told ─────────▶│
//! ```
//!
//! How many of the missed ones are told late is the catch-up policy's. When it does not allow all,
//! the oldest are skipped: what happened last says more about how things stand, and it keeps what
//! is told of an event without a hole.

use std::sync::Arc;

use handoff_types::{Decision, Now, Span};

use crate::course::Course;
use crate::decide::Decided;
use crate::publish::Handing;
use crate::schedule::secs;
use crate::{
    Action, CatchUp, Change, Event, Gone, Handed, Id, Notification, Publishing, Repeat, Reply,
    Schedule, State, Tardiness, Totals,
};

/// What one command tells in time at most. There are more only if the server stood still for
/// thousands of periods and `events.late_secs_max` is long; the rest comes with the next command.
const IN_TIME_MAX: u64 = 10_000;

/// Lets what is due happen. `late_max` none: whatever is due was missed.
pub(crate) fn happen(
    state: &State,
    limit: usize,
    (tardiness, late_max): (&Tardiness, Option<Span>),
    publishing: Publishing,
    now: Now,
) -> Decided {
    let mut happening = Happening {
        now,
        catch_up: tardiness.catch_up,
        // Later than `late_max`, so by at least a microsecond more.
        missed_by: late_max.map_or(Span::ZERO, |late| Span(late.0.saturating_add(1))),
        late_left: tardiness.catch_up_max,
        in_time_left: IN_TIME_MAX,
        counted: Totals::default(),
        told: 0,
        late: 0,
        changes: Vec::new(),
        actions: Vec::new(),
        handing: Handing::new(state, publishing, now),
    };
    let mut due = state.dues().until(now);
    let mut more = false;
    for id in due.by_ref().take(limit) {
        if let Some(event) = state.get(id) {
            more = !happening.event(id, event);
        }
        if more {
            break;
        }
    }
    more |= due.next().is_some();
    let Happening { mut counted, told, late, mut changes, mut actions, handing, .. } = happening;
    handing.finish(&mut changes, &mut actions, &mut counted);
    if counted != Totals::default() {
        changes.push(Change::Counted(counted));
    }
    let reply = Reply::Ticked { more, told, late, skipped: counted.skipped };
    Decision { reply, changes, actions }
}

struct Happening<'a> {
    now: Now,
    catch_up: CatchUp,
    /// Occurrences due for this long were missed.
    missed_by: Span,
    late_left: u64,
    in_time_left: u64,
    counted: Totals,
    told: u64,
    late: u64,
    changes: Vec<Change>,
    actions: Vec<Action>,
    handing: Handing<'a>,
}

impl Happening<'_> {
    /// Whether everything of this event that is due has happened.
    fn event(&mut self, id: Id, event: &Event) -> bool {
        let Some(course) = Course::of(event) else { return true };
        let left = match event.repeat {
            Repeat::Forever => u64::MAX,
            Repeat::Left(left) => left.into(),
        };
        let due = course.overdue(self.now, Span::ZERO, left);
        let missed = course.overdue(self.now, self.missed_by, left);
        let late = match self.catch_up {
            CatchUp::Skip => 0,
            CatchUp::Once => missed.min(1).min(self.late_left),
            CatchUp::All => missed.min(self.late_left),
        };
        let in_time = (due - missed).min(self.in_time_left);
        let (skipped, count) = (missed - late, missed + in_time);
        if count > 0 {
            self.occur(id, event, course, Share { skipped, missed, count, left });
            self.late_left -= late;
            self.in_time_left -= in_time;
            self.late += late;
        }
        count == due
    }

    fn occur(&mut self, id: Id, event: &Event, course: Course<'_>, share: Share) {
        let Share { skipped, missed, count, left } = share;
        let passed_over = skipped.checked_sub(1).and_then(|n| course.nth(n));
        let mut updated = passed_over.map_or(event.updated, |last| last.wall(self.now));
        let mut next = passed_over.map_or(Some(event.due), |last| course.after(last));
        let description = (count > skipped).then(|| Arc::<str>::from(&*event.description));
        let mut handed = Vec::new();
        let published = self.handing.publishes(id);
        for n in skipped..count {
            let (Some(this), Some(description)) = (next, &description) else { break };
            let due = this.wall(self.now);
            let number = event.occurrences.saturating_add(n + 1);
            if published {
                handed.push(Handed { sequence: 0, number, due, late: n < missed });
            }
            self.actions.push(Action::Notify(Notification {
                id,
                types: event.types.to_vec(),
                description: Arc::clone(description),
                period_secs: match &event.schedule {
                    Schedule::Every(period) => period.secs(),
                    Schedule::Cron(_) | Schedule::At(_) => secs(due.since(updated)),
                },
                repeat: match event.repeat {
                    Repeat::Forever => Repeat::Forever,
                    Repeat::Left(_) => Repeat::Left(u32::try_from(left - n).unwrap_or(u32::MAX)),
                },
                updated,
                due,
                occurrence: number,
                late: n < missed,
            }));
            self.told += 1;
            updated = due;
            next = course.after(this);
        }
        if published {
            self.handing.hand(id, handed);
        }
        self.counted.occurred = self.counted.occurred.saturating_add(count);
        self.counted.skipped = self.counted.skipped.saturating_add(skipped);
        match next.filter(|_| count < left) {
            Some(due) => {
                self.changes.push(Change::Occurred { id, count, skipped, updated, due });
            }
            None => {
                self.counted.finished += 1;
                self.changes.push(Change::Gone { id, why: Gone::Finished, count, skipped });
                self.actions.push(Action::Forget(id));
                self.handing.end(id);
            }
        }
    }
}

/// What of an event's occurrences becomes what: each number counts from the oldest that is due.
#[derive(Clone, Copy)]
struct Share {
    /// Up to here they are skipped,
    skipped: u64,
    /// up to here they were missed,
    missed: u64,
    /// and up to here they happen now.
    count: u64,
    /// What is left of the event.
    left: u64,
}
