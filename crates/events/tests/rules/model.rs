//! A room that walks every occurrence, one by one, beside the one that computes.

use handoff_events::cron::Cron;
use handoff_events::{CatchUp, Notification, Period, Schedule, Tardiness, Totals};
use handoff_types::{Now, Sight, Span, Steady, Wall};
use proptest::prelude::*;

use crate::room::*;

/// An event as a slow but simple mind keeps it.
#[derive(Clone, Debug)]
struct Slow {
    id: u32,
    schedule: Schedule,
    /// −1 for ever.
    repeat: i32,
    updated: i64,
    /// By the event's own clock.
    due: i64,
    occurrences: u64,
    skipped: u64,
}

impl Slow {
    fn clock(&self, now: Now) -> i64 {
        match self.schedule {
            Schedule::Every(_) => now.steady.0 as i64,
            _ => now.wall.0,
        }
    }

    fn step(&self, due: i64) -> Option<i64> {
        match &self.schedule {
            Schedule::Every(period) => Some(due + period.span().0 as i64),
            Schedule::Cron(cron) => cron.next_after(Wall(due)).map(|next| next.0),
            Schedule::At(_) => None,
        }
    }

    fn wall(&self, due: i64, now: Now) -> i64 {
        now.wall.0 - (self.clock(now) - due)
    }
}

#[derive(Default)]
struct Model {
    events: Vec<Slow>,
    totals: Totals,
}

type Line = (u32, u64, i32, i64, i64, bool, u64);

impl Model {
    /// What is told: (id, occurrence, repeat, updated, due, late, period in microseconds)
    fn happen(&mut self, now: Now, limit: usize, how: Tardiness, start: bool) -> (Vec<Line>, bool) {
        let mut due: Vec<(i64, u32)> = self
            .events
            .iter()
            .filter(|event| event.due <= event.clock(now))
            .map(|event| (event.due - event.clock(now), event.id))
            .collect();
        due.sort_unstable();
        let more = due.len() > limit;
        let mut left = usize::try_from(how.catch_up_max).unwrap();
        let mut lines = Vec::new();
        for (_, id) in due.into_iter().take(limit) {
            let at = self.events.iter().position(|event| event.id == id).unwrap();
            let mut event = self.events[at].clone();
            let mut happened = Vec::new();
            let mut over = false;
            while !over && event.due <= event.clock(now) {
                let late = event.clock(now) - event.due;
                let missed = start || late > how.late_max.0 as i64;
                happened.push((missed, event.clone()));
                let this = event.wall(event.due, now);
                event.occurrences += 1;
                event.updated = this;
                if event.repeat > 0 {
                    event.repeat -= 1;
                }
                match event.step(event.due) {
                    Some(next) if event.repeat != 0 => event.due = next,
                    _ => over = true,
                }
            }
            let missed = happened.iter().filter(|one| one.0).count();
            let tell = match how.catch_up {
                CatchUp::Skip => 0,
                CatchUp::Once => missed.min(1).min(left),
                CatchUp::All => missed.min(left),
            };
            left -= tell;
            for (n, (late, before)) in happened.into_iter().enumerate() {
                self.totals.occurred += 1;
                if late && n < missed - tell {
                    self.totals.skipped += 1;
                    event.skipped += 1;
                    continue;
                }
                let this = before.wall(before.due, now);
                let period = match &before.schedule {
                    Schedule::Every(period) => period.span().0,
                    _ => (this - before.updated).max(0) as u64,
                };
                let occurrence = before.occurrences + 1;
                lines.push((id, occurrence, before.repeat, before.updated, this, late, period));
            }
            if over {
                self.totals.finished += 1;
                self.events.remove(at);
            } else {
                self.events[at] = event;
            }
        }
        (lines, more)
    }
}

fn line(one: &Notification) -> Line {
    let period = Period::from_secs(one.period_secs).unwrap().span().0;
    (one.id.number(), one.occurrence, one.repeat.wire(), one.updated.0, one.due.0, one.late, period)
}

#[derive(Clone, Debug)]
enum Step {
    Every { millis: u64, repeat: i32 },
    Cron { expression: &'static str, zone: &'static str, repeat: i32 },
    At { after: u64 },
    Delete(u32),
    Pass(u64),
    SetClock(i64),
    Tick(usize, Tardiness),
    Resume(usize, Tardiness),
}

fn step() -> impl Strategy<Value = Step> {
    let repeat = prop_oneof![Just(-1), 0..4, 1..2_000i32];
    let tardiness = (
        prop::sample::select(&[CatchUp::Skip, CatchUp::Once, CatchUp::All][..]),
        prop_oneof![0u64..6, Just(1_000)],
        0u64..40_000_000,
    )
        .prop_map(|(catch_up, catch_up_max, late_max)| Tardiness {
            catch_up,
            catch_up_max,
            late_max: Span(late_max),
        });
    let limit = prop_oneof![1usize..4, Just(100)];
    let expression = prop::sample::select(
        &["* * * * *", "*/7 * * * *", "@hourly", "30 2 * * *", "0 */6 * * 1-5", "5,6 1-4 * * *"][..],
    );
    let zone = prop::sample::select(&["UTC", "Europe/Berlin", "Australia/Lord_Howe"][..]);
    prop_oneof![
        3 => (100u64..100_000, repeat.clone()).prop_map(|(millis, repeat)| Step::Every { millis, repeat }),
        2 => (expression, zone, repeat)
            .prop_map(|(expression, zone, repeat)| Step::Cron { expression, zone, repeat }),
        1 => (0u64..7_200_000_000).prop_map(|after| Step::At { after }),
        1 => (0u32..12).prop_map(Step::Delete),
        4 => (0u64..60_000_000).prop_map(Step::Pass),
        1 => (0u64..4_000_000_000).prop_map(Step::Pass),
        1 => (-4_000_000_000i64..4_000_000_000).prop_map(Step::SetClock),
        5 => (limit.clone(), tardiness.clone()).prop_map(|(limit, how)| Step::Tick(limit, how)),
        1 => (limit, tardiness).prop_map(|(limit, how)| Step::Resume(limit, how)),
    ]
}

fn run(steps: &[Step]) {
    let mut room = Room::new();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Every { millis, repeat } => {
                let schedule = every(*millis as f64 / 1e3);
                let due = (room.now.steady + Span::from_millis(*millis)).0 as i64;
                add(&mut room, &mut model, schedule, *repeat, due);
            }
            Step::Cron { expression, zone, repeat } => {
                let cron = Cron::parse(expression, Some(zone)).unwrap();
                let due = cron.next_after(room.now.wall).unwrap().0;
                add(&mut room, &mut model, Schedule::Cron(Box::new(cron)), *repeat, due);
            }
            Step::At { after } => {
                let at = room.now.wall + Span(*after);
                add(&mut room, &mut model, Schedule::At(at), 1, at.0);
            }
            Step::Delete(number) => {
                let there = model.events.len();
                model.events.retain(|event| event.id != *number);
                let gone = there - model.events.len();
                model.totals.deleted += gone as u64;
                let deleted = room.delete(select(&[*number as i32], &[]), Sight::All, 9);
                assert_eq!(deleted.0.len(), gone);
            }
            Step::Pass(micros) => room.pass(Span(*micros)),
            Step::SetClock(by) => room.now.wall.0 += by,
            Step::Tick(limit, how) => {
                let (lines, more) = model.happen(room.now, *limit, *how, false);
                let ticked = room.tick_some(*limit, *how);
                assert_eq!(ticked.told.iter().map(line).collect::<Vec<_>>(), lines);
                assert_eq!(ticked.more, more);
            }
            Step::Resume(limit, how) => {
                let (lines, more) = model.happen(room.now, *limit, *how, true);
                let resumed = room.resume_some(*limit, *how);
                assert_eq!(resumed.told.iter().map(line).collect::<Vec<_>>(), lines);
                assert_eq!(resumed.more, more);
            }
        }
        compare(&room, &model);
    }
}

fn add(room: &mut Room, model: &mut Model, schedule: Schedule, repeat: i32, due: i64) {
    let id = room.register(schedule.clone(), repeat, &["a"]).number();
    assert_eq!(u64::from(id), model.totals.registered);
    model.totals.registered += 1;
    if repeat != 0 {
        let updated = room.now.wall.0;
        let slow = Slow { id, schedule, repeat, updated, due, occurrences: 0, skipped: 0 };
        model.events.push(slow);
    }
}

fn compare(room: &Room, model: &Model) {
    assert_eq!(room.state.totals(), model.totals);
    assert_eq!(room.state.len(), model.events.len());
    let mut next: Option<Steady> = None;
    for slow in &model.events {
        let view = room.state.view(id(slow.id), &Sight::All, room.now).unwrap();
        let shown = (view.repeat.wire(), view.updated.0, view.occurrences, view.skipped);
        assert_eq!(shown, (slow.repeat, slow.updated, slow.occurrences, slow.skipped));
        assert_eq!(view.next.0, slow.wall(slow.due, room.now));
        let wait = slow.due - slow.clock(room.now);
        let due = Steady(room.now.steady.0.saturating_add_signed(wait));
        next = Some(next.map_or(due, |next| next.min(due)));
    }
    let deadline =
        <handoff_events::Events as handoff_types::Machine>::next_deadline(&room.state, room.now);
    assert_eq!(deadline.is_some(), next.is_some());
    if let (Some(deadline), Some(next)) = (deadline, next) {
        // What is overdue is due now, by whichever clock.
        assert_eq!(deadline.max(room.now.steady), next.max(room.now.steady));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn computing_occurrences_is_walking_them(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps);
    }
}
