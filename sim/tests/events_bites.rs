//! Proof that the events world can fail: rooms that break one rule each, and the oracle, or the
//! world around it, must notice within some seeds.

mod twisted;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_events::{
    Action, CatchUp, Change, Command, Due, Events, Gone, Id, Repeat, Reply, Schedule, State,
    Tardiness, Totals,
};
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, drive};
use handoff_sim::events::{Parts, Sound, Timed, Timing, Violation};
use handoff_sim::history::{History, Keep};
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Sequence, Sight, Span, Steady, Wall};
use twisted::journal::{Hasty, fulfilled, hurried};

const SEEDS: std::ops::Range<u64> = 0..12;

type Decided = Decision<Reply, Change, Action>;

/// What a room does otherwise than the events room.
trait Twist: fmt::Debug + Sized + 'static {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        Events::decide(state, command, now, entropy)
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        Events::next_deadline(state, now)
    }

    fn encode(change: &Change, out: &mut Vec<u8>) {
        Events::encode_change(change, out);
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        Events::snapshot(state, from, bytes_max)
    }
}

/// The events room with a twist.
#[derive(Debug)]
struct Twisted<T>(PhantomData<T>);

impl<T: Twist> Machine for Twisted<T> {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        T::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        Events::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        T::next_deadline(state, now)
    }
}

impl<T: Twist> Persist for Twisted<T> {
    const ROOM: Room = Events::ROOM;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Events::decode_change(bytes)
    }

    fn key(change: &Change) -> Bytes {
        Events::key(change)
    }

    fn frame(change: &Change) -> Option<Frame> {
        Events::frame(change)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        T::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        Events::restore(state, snapshot)
    }
}

impl<T: Twist> Parts for Twisted<T> {
    type Rooms = Timing<Self>;
}

/// What the first broken promise of each seed was.
fn faults<P: Parts>() -> Vec<Fault> {
    SEEDS
        .filter_map(|seed| {
            let mut world = Timed::<P>::new(Dice::new(seed));
            let history = History::new(Keep::Last);
            drive("twisted", &mut world, seed, 250, history).err().map(|failure| failure.fault)
        })
        .collect()
}

#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    let faults = faults::<P>();
    assert!(faults.iter().any(expected), "the world did not notice: {faults:#?}");
}

#[track_caller]
fn objects<T: Twist>(expected: impl Fn(&Violation) -> bool) {
    notices::<Twisted<T>>(|fault| matches!(fault, Fault::Events(violation) if expected(violation)));
}

fn says(words: &'static str) -> impl Fn(&Fault) -> bool {
    move |fault| matches!(fault, Fault::Invariant(what) if what.contains(words))
}

/// The changes with each of them changed.
fn each(mut decided: Decided, change: impl Fn(&mut Change)) -> Decided {
    decided.changes.iter_mut().for_each(change);
    decided
}

/// What is told, changed.
fn told(mut decided: Decided, change: impl Fn(&mut handoff_events::Notification)) -> Decided {
    for action in &mut decided.actions {
        if let Action::Notify(notification) = action {
            change(notification);
        }
    }
    decided
}

/// The same command with another idea of what is missed.
fn with_tardiness(command: &Command, other: impl Fn(Tardiness) -> Tardiness) -> Command {
    match command {
        Command::Tick { limit, tardiness, publishing } => {
            let (limit, tardiness, publishing) = (*limit, other(*tardiness), *publishing);
            Command::Tick { limit, tardiness, publishing }
        }
        Command::Resume { limit, tardiness, publishing } => {
            let (limit, tardiness, publishing) = (*limit, other(*tardiness), *publishing);
            Command::Resume { limit, tardiness, publishing }
        }
        command => command.clone(),
    }
}

#[test]
fn the_room_as_it_is_passes() {
    assert_eq!(faults::<Sound>(), []);
}

#[test]
fn an_event_that_drifts() {
    #[derive(Debug)]
    struct Drifts;
    impl Twist for Drifts {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            each(Events::decide(state, command, now, entropy), |change| {
                if let Change::Occurred { id, due: due @ Due::Steady(_), .. } = change
                    && let Some(Schedule::Every(period)) =
                        state.get(*id).map(|event| &event.schedule)
                {
                    *due = Due::Steady(now.steady + period.span());
                }
            })
        }
    }
    objects::<Drifts>(|violation| matches!(violation, Violation::Event { .. }));
}

#[test]
fn a_periodic_event_that_feels_the_operators_clock() {
    #[derive(Debug)]
    struct ByWall;
    impl Twist for ByWall {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let began = 1_700_000_000_000_000;
            let steady = Steady(u64::try_from(now.wall.0 - began).unwrap_or(0));
            Events::decide(state, command, Now { steady, ..now }, entropy)
        }
    }
    objects::<ByWall>(|violation| {
        matches!(violation, Violation::Event { .. } | Violation::Early { .. })
    });
}

#[test]
fn an_occurrence_that_comes_early() {
    #[derive(Debug)]
    struct Hurries;
    impl Twist for Hurries {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let ahead = Span::from_millis(500);
            let early = Now { steady: now.steady + ahead, wall: now.wall + ahead };
            let is_tick = matches!(command, Command::Tick { .. });
            Events::decide(state, command, if is_tick { early } else { now }, entropy)
        }
    }
    objects::<Hurries>(|violation| matches!(violation, Violation::Early { .. }));
}

#[test]
fn a_room_that_sleeps_too_long() {
    #[derive(Debug)]
    struct Oversleeps;
    impl Twist for Oversleeps {
        fn next_deadline(state: &State, now: Now) -> Option<Steady> {
            Events::next_deadline(state, now).map(|deadline| deadline + Span(1))
        }
    }
    objects::<Oversleeps>(|violation| matches!(violation, Violation::Deadline { .. }));
}

#[test]
fn an_id_that_is_given_again() {
    #[derive(Debug)]
    struct Reuses;
    impl Twist for Reuses {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            let before = |id: Id| id.number().checked_sub(1).and_then(Id::new);
            if let Reply::Registered(registered) = &mut decided.reply
                && let Some(again) = before(registered.id)
                && state.get(again).is_none()
            {
                registered.id = again;
                return each(decided, |change| {
                    if let Change::Registered { id, .. } = change {
                        *id = again;
                    }
                });
            }
            decided
        }
    }
    objects::<Reuses>(|violation| matches!(violation, Violation::Id { .. }));
}

#[test]
fn a_refusal_that_takes_an_id() {
    #[derive(Debug)]
    struct Wastes;
    impl Twist for Wastes {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if matches!(decided.reply, Reply::Refused(_)) {
                let totals = Totals { registered: 1, ..Totals::default() };
                decided.changes.push(Change::Counted(totals));
            }
            decided
        }
    }
    objects::<Wastes>(|violation| {
        matches!(violation, Violation::Id { .. } | Violation::Totals { .. })
    });
}

#[test]
fn an_occurrence_told_as_the_event_is_behind_it() {
    #[derive(Debug)]
    struct CountsFirst;
    impl Twist for CountsFirst {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            told(Events::decide(state, command, now, entropy), |notification| {
                if let Repeat::Left(left) = &mut notification.repeat {
                    *left -= 1;
                }
            })
        }
    }
    #[derive(Debug)]
    struct UpdatesFirst;
    impl Twist for UpdatesFirst {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            told(Events::decide(state, command, now, entropy), |notification| {
                notification.updated = notification.due;
            })
        }
    }
    objects::<CountsFirst>(|violation| matches!(violation, Violation::Notification { .. }));
    objects::<UpdatesFirst>(|violation| matches!(violation, Violation::Notification { .. }));
}

#[test]
fn an_occurrence_told_as_of_when_it_is_told() {
    #[derive(Debug)]
    struct ToldNow;
    impl Twist for ToldNow {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            told(Events::decide(state, command, now, entropy), |notification| {
                notification.due = now.wall;
            })
        }
    }
    objects::<ToldNow>(|violation| matches!(violation, Violation::Notification { .. }));
}

/// The counter is durable before anybody is told.
#[test]
fn an_occurrence_told_before_it_is_durable() {
    #[derive(Debug)]
    struct Early;
    impl Hasty for Early {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            if entry.room != Room::Events {
                return journal.append(permit, entry);
            }
            (journal.append(permit, entry).0, fulfilled(journal))
        }
    }
    impl Parts for Early {
        type Rooms = Timing<Events>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Early>(|fault| match fault {
        Fault::Events(violation) => matches!(**violation, Violation::Recovery { .. }),
        _ => false,
    });
}

#[test]
fn an_occurrence_told_twice() {
    #[derive(Debug)]
    struct Stutters;
    impl Twist for Stutters {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if let Some(last) = decided.actions.first().cloned()
                && matches!(last, Action::Notify(_))
            {
                decided.actions.insert(0, last);
            }
            decided
        }
    }
    objects::<Stutters>(|violation| matches!(violation, Violation::Early { .. }));
}

#[test]
fn occurrences_out_of_order() {
    #[derive(Debug)]
    struct Shuffles;
    impl Twist for Shuffles {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if !decided.actions.iter().any(|action| matches!(action, Action::Forget(_))) {
                decided.actions.reverse();
            }
            decided
        }
    }
    objects::<Shuffles>(|violation| matches!(violation, Violation::Notification { .. }));
}

#[test]
fn a_filter_that_does_not_forget() {
    #[derive(Debug)]
    struct Remembers;
    impl Twist for Remembers {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            decided.actions.retain(|action| !matches!(action, Action::Forget(_)));
            decided
        }
    }
    objects::<Remembers>(|violation| matches!(violation, Violation::Forgotten { .. }));
}

/// Whoever listens to the id of an event that ends is told of its last occurrence.
#[test]
fn a_filter_that_forgets_too_early() {
    #[derive(Debug)]
    struct Hasty;
    impl Twist for Hasty {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            decided.actions.sort_by_key(|action| matches!(action, Action::Notify(_)));
            decided
        }
    }
    objects::<Hasty>(|violation| matches!(violation, Violation::Forgotten { .. }));
}

#[test]
fn an_event_that_does_not_end() {
    #[derive(Debug)]
    struct Lingers;
    impl Twist for Lingers {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            let ends = |change: &Change| matches!(change, Change::Gone { why: Gone::Finished, .. });
            decided.changes.retain(|change| !ends(change));
            decided
        }
    }
    objects::<Lingers>(|violation| matches!(violation, Violation::Early { .. }));
}

#[test]
fn a_catch_up_policy_that_is_not_kept() {
    /// Tells everything.
    #[derive(Debug)]
    struct Chatters;
    impl Twist for Chatters {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let all = |tardiness: Tardiness| Tardiness { catch_up: CatchUp::All, ..tardiness };
            Events::decide(state, &with_tardiness(command, all), now, entropy)
        }
    }
    /// Tells nothing.
    #[derive(Debug)]
    struct KeepsQuiet;
    impl Twist for KeepsQuiet {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let skip = |tardiness: Tardiness| Tardiness { catch_up: CatchUp::Skip, ..tardiness };
            Events::decide(state, &with_tardiness(command, skip), now, entropy)
        }
    }
    /// Tells more than may be.
    #[derive(Debug)]
    struct Floods;
    impl Twist for Floods {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let flood = |tardiness: Tardiness| Tardiness { catch_up_max: 50, ..tardiness };
            Events::decide(state, &with_tardiness(command, flood), now, entropy)
        }
    }
    /// Tells the last one of all events, not of each.
    #[derive(Debug)]
    struct OnceForAll;
    impl Twist for OnceForAll {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let one = |tardiness: Tardiness| match tardiness.catch_up {
                CatchUp::Once => Tardiness { catch_up: CatchUp::All, catch_up_max: 1, ..tardiness },
                _ => tardiness,
            };
            Events::decide(state, &with_tardiness(command, one), now, entropy)
        }
    }
    let catch_up = |violation: &Violation| matches!(violation, Violation::CatchUp { .. });
    objects::<Chatters>(catch_up);
    objects::<KeepsQuiet>(catch_up);
    objects::<Floods>(catch_up);
    objects::<OnceForAll>(catch_up);
}

/// After a start everything that is due was missed, however little.
#[test]
fn a_start_that_is_like_any_tick() {
    #[derive(Debug)]
    struct Ticks;
    impl Twist for Ticks {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = match command {
                Command::Resume { limit, tardiness, publishing } => {
                    Command::Tick { limit: *limit, tardiness: *tardiness, publishing: *publishing }
                }
                command => command.clone(),
            };
            Events::decide(state, &command, now, entropy)
        }
    }
    objects::<Ticks>(|violation| {
        matches!(violation, Violation::CatchUp { .. } | Violation::Notification { .. })
    });
}

/// The machine slept, or the process stood still.
#[test]
fn a_tick_that_is_never_late() {
    #[derive(Debug)]
    struct Patient;
    impl Twist for Patient {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let patient = |tardiness: Tardiness| Tardiness {
                late_max: Span(tardiness.late_max.0 + 1),
                ..tardiness
            };
            Events::decide(state, &with_tardiness(command, patient), now, entropy)
        }
    }
    objects::<Patient>(|violation| {
        matches!(violation, Violation::CatchUp { .. } | Violation::Notification { .. })
    });
}

#[test]
fn skipped_occurrences_that_are_not_counted() {
    #[derive(Debug)]
    struct Forgets;
    impl Twist for Forgets {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            each(Events::decide(state, command, now, entropy), |change| {
                if let Change::Occurred { skipped, .. } = change {
                    *skipped = 0;
                }
            })
        }
    }
    objects::<Forgets>(|violation| matches!(violation, Violation::Event { .. }));
}

#[test]
fn totals_that_do_not_add_up() {
    #[derive(Debug)]
    struct Miscounts;
    impl Twist for Miscounts {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            each(Events::decide(state, command, now, entropy), |change| {
                if let Change::Counted(totals) = change {
                    totals.finished = 0;
                }
            })
        }
    }
    objects::<Miscounts>(|violation| matches!(violation, Violation::Totals { .. }));
}

#[test]
fn more_events_at_once_than_was_asked_for() {
    #[derive(Debug)]
    struct Overdoes;
    impl Twist for Overdoes {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = match command {
                Command::Tick { limit, tardiness, publishing } => Command::Tick {
                    limit: limit + 1,
                    tardiness: *tardiness,
                    publishing: *publishing,
                },
                command => command.clone(),
            };
            Events::decide(state, &command, now, entropy)
        }
    }
    objects::<Overdoes>(|violation| matches!(violation, Violation::Turn { .. }));
}

#[test]
fn a_tick_that_says_it_is_done_when_it_is_not() {
    #[derive(Debug)]
    struct Stops;
    impl Twist for Stops {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if let Reply::Ticked { more, .. } = &mut decided.reply {
                *more = false;
            }
            decided
        }
    }
    objects::<Stops>(|violation| matches!(violation, Violation::Answer { .. }));
}

#[test]
fn an_event_that_stands_still_after_the_clock_was_set_back() {
    #[derive(Debug)]
    struct StandsStill;
    impl Twist for StandsStill {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if let Reply::Rescheduled { count, .. } = &mut decided.reply {
                *count = 0;
                decided.changes.clear();
            }
            decided
        }
    }
    objects::<StandsStill>(
        |violation| matches!(violation, Violation::Event { expected, .. } if expected.contains("stands still")),
    );
}

/// What happened before the clock was set back a little does not happen again.
#[test]
fn an_event_that_happens_again_after_the_clock_was_set_back_a_little() {
    #[derive(Debug)]
    struct Repeats;
    impl Twist for Repeats {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if let Reply::Rescheduled { count, .. } = &mut decided.reply {
                for (id, event) in state.starting_at(Id::default()) {
                    if let (Schedule::Cron(cron), Due::Wall(due)) = (&event.schedule, event.due)
                        && let Some(next) = cron.next_after(now.wall)
                        && next < due
                    {
                        decided.changes.push(Change::Rescheduled { id, due: Due::Wall(next) });
                        *count += 1;
                    }
                }
            }
            decided
        }
    }
    objects::<Repeats>(|violation| {
        matches!(violation, Violation::Event { .. } | Violation::Answer { .. })
    });
}

#[test]
fn a_token_that_deletes_what_it_does_not_see() {
    #[derive(Debug)]
    struct SeesAll;
    impl Twist for SeesAll {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = match command {
                Command::Delete { selection, limit, .. } => Command::Delete {
                    selection: selection.clone(),
                    sight: Sight::All,
                    limit: *limit,
                },
                command => command.clone(),
            };
            Events::decide(state, &command, now, entropy)
        }
    }
    objects::<SeesAll>(|violation| matches!(violation, Violation::Answer { .. }));
}

#[test]
fn a_change_that_is_not_written_down() {
    #[derive(Debug)]
    struct Skips;
    impl Twist for Skips {
        fn encode(change: &Change, out: &mut Vec<u8>) {
            if !matches!(change, Change::Rescheduled { .. }) {
                Events::encode_change(change, out);
            }
        }
    }
    notices::<Twisted<Skips>>(says("the state read back"));
}

#[test]
fn a_checkpoint_that_leaves_something_out() {
    #[derive(Debug)]
    struct LeavesOut;
    impl Twist for LeavesOut {
        fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
            let mut copy = state.clone();
            for (id, event) in state.starting_at(Id::default()) {
                let mut event = event.clone();
                event.updated = Wall(0);
                copy.restore(id, Box::new(event));
            }
            Events::snapshot(&copy, from, bytes_max)
        }
    }
    notices::<Twisted<LeavesOut>>(says("the state read back"));
}

fn published(violation: &Violation) -> bool {
    matches!(violation, Violation::Published { .. })
}

#[test]
fn occurrences_of_an_event_that_is_gone_are_not_handed_over() {
    #[derive(Debug)]
    struct Gives;
    impl Twist for Gives {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            for change in &mut decided.changes {
                if let Change::Ended { id } = change {
                    *change = Change::Closed { id: *id };
                }
            }
            decided
        }
    }
    objects::<Gives>(published);
}

#[test]
fn what_waits_is_not_handed_over_after_a_start() {
    #[derive(Debug)]
    struct Forgets;
    impl Twist for Forgets {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            if matches!(command, Command::HandOver { .. }) {
                decided.actions.clear();
            }
            decided
        }
    }
    objects::<Forgets>(published);
}

#[test]
fn what_a_topic_refuses_is_lost() {
    #[derive(Debug)]
    struct Loses;
    impl Twist for Loses {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            decided.changes.retain(|change| !matches!(change, Change::Died { .. }));
            decided
        }
    }
    objects::<Loses>(published);
}

#[test]
fn an_occurrence_is_sent_before_the_one_before_it_is_answered() {
    #[derive(Debug)]
    struct Hurries;
    impl Twist for Hurries {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Events::decide(state, command, now, entropy);
            let handed = decided.changes.iter().filter_map(|change| match change {
                Change::Handed { id, handed, .. } => Some((*id, handed.last().copied()?)),
                _ => None,
            });
            for (id, last) in handed {
                let first = decided.actions.iter().find_map(|action| match action {
                    Action::Publish(one) if one.id == id && one.handed != last => Some(one.clone()),
                    _ => None,
                });
                decided.actions.extend(first.map(|one| {
                    Action::Publish(handoff_events::Publication { handed: last, ..one })
                }));
            }
            decided
        }
    }
    objects::<Hurries>(published);
}
