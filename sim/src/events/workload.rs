//! What the simulated callers of the events room ask for.

use std::collections::VecDeque;

use handoff_events::cron::Cron;
use handoff_events::{
    Action, Bounds, CatchUp, Command, Id, Letters, Publish, Publishing, Registration, Reply,
    Schedule, Selection, Tardiness,
};
use handoff_types::{Now, Room, Scope, Sight, Span, Wall};

use super::asked::FilterChange;
use super::calendar::{CALENDARS, ZONES};
use crate::dice::Dice;

/// Types of events. Those of one beginning belong together.
const TYPES: &[&str] = &["acme.a", "acme.b", "acme.backup", "beta.x", "beta.y", "ops", "solo"];

/// What the tokens of callers allow.
const SCOPES: &[&[&str]] =
    &[&["events:acme.*"], &["events:beta.*", "events:solo"], &["events:ops"], &["events:gamma.*"]];

/// Periods in seconds, good ones.
const PERIODS: &[f64] = &[
    0.1,
    0.100_000_4,
    0.25,
    0.333_333_333_3,
    1.0,
    2.5,
    7.0,
    60.0,
    599.999_999,
    3_600.0,
    86_400.0,
    1_000_000.0,
    3_155_760_000.0,
];

/// Periods that a client may send and no room keeps.
const BAD_PERIODS: &[f64] =
    &[-1.0, -1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3_155_760_001.0, 1e300];

/// The longest description that is kept, and the same in some seeds. The first is longer than a
/// sector, or no round could be torn; the other is more than a room is admitted for beforehand.
const DESCRIPTION_MAX: usize = 1_500;
const LONG_DESCRIPTION_MAX: usize = 20_000;

/// How many events a caller remembers.
const REMEMBERED: usize = 16;

/// What the operator has configured for one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) tardiness: Tardiness,
    pub(super) entries_max: usize,
    pub(super) publishing: Publishing,
}

/// Makes up what is asked.
#[derive(Debug)]
pub(super) struct Workload {
    dice: Dice,
    bounds: Bounds,
    /// The highest id anybody has heard of.
    heard: u32,
    /// Some of the events that are there, as far as anybody knows.
    there: VecDeque<u32>,
}

impl Workload {
    pub(super) fn new(mut dice: Dice) -> Self {
        let bounds = Bounds {
            period_min: Span::from_millis(100),
            period_max: Span::from_secs(3_155_760_000),
            description_bytes_max: if dice.one_in(6) {
                LONG_DESCRIPTION_MAX
            } else {
                DESCRIPTION_MAX
            },
            types_max: 3,
            type_bytes_max: 16,
            events_max: 5 + dice.below(30),
        };
        Self { dice, bounds, heard: 0, there: VecDeque::new() }
    }

    /// What the operator decides before a start.
    pub(super) fn settings(&mut self) -> Settings {
        let dice = &mut self.dice;
        let policies = [CatchUp::Skip, CatchUp::Once, CatchUp::All];
        let late = [Span::ZERO, Span::from_millis(50), Span::from_secs(1), Span::from_secs(10)];
        let tardiness = Tardiness {
            catch_up: dice.pick(&policies).copied().unwrap_or(CatchUp::Skip),
            catch_up_max: dice.pick(&[0, 1, 3, 20]).copied().unwrap_or(0),
            late_max: dice.pick(&late).copied().unwrap_or(Span::ZERO),
        };
        let entries_max = if dice.one_in(3) { 3 } else { 100 };
        let publishing = Publishing {
            pending_max: dice.pick(&[1, 2, 5, 100]).copied().unwrap_or(1),
            letters_max: dice.pick(&[0, 1, 4, 100]).copied().unwrap_or(1),
        };
        Settings { tardiness, entries_max, publishing }
    }

    /// A new event, or one that is refused.
    pub(super) fn register(&mut self, now: Now) -> Command {
        let schedule = self.schedule(now);
        let repeat = self.repeat(&schedule);
        let types = self.types();
        let (description, publish) = (self.description(), self.publish());
        let event = Registration { description, types, schedule, repeat, publish };
        let whose = self.sight();
        let mine = event.types.iter().all(|name| whose.sees(name)) && !event.types.is_empty();
        let sight = if mine || self.dice.one_in(6) { whose } else { Sight::All };
        Command::Register { event, bounds: self.bounds, sight }
    }

    /// Something is done about dead letters.
    pub(super) fn letters(&mut self) -> Command {
        let letters = match self.dice.below(3) {
            0 => Letters::From(self.dice.below(4)),
            _ => Letters::These((0..3).map(|_| self.dice.below(12)).collect()),
        };
        let (sight, limit) = (self.sight(), if self.dice.one_in(2) { 2 } else { 100 });
        match self.dice.below(4) {
            0 => Command::DeleteLetters { letters, sight, limit },
            _ => Command::RetryLetters { letters, sight, limit },
        }
    }

    /// Where an event is published, if it is.
    fn publish(&mut self) -> Option<Publish> {
        let long = "x".repeat(250);
        let topic = match self.dice.below(24) {
            0 => "",
            1 => long.as_str(),
            2..12 => "ticks",
            _ => return None,
        };
        let key = match self.dice.below(12) {
            0 => Some(String::new()),
            1..4 => Some("a key".to_owned()),
            _ => None,
        };
        Some(Publish { topic: topic.to_owned(), key })
    }

    pub(super) fn delete(&mut self) -> Command {
        let limit = if self.dice.one_in(3) { 1 } else { 50 };
        Command::Delete { selection: self.selection(), sight: self.sight(), limit }
    }

    /// Deletes everything there is, or all of it that one may at once.
    pub(super) fn delete_all(&mut self) -> Command {
        let selection =
            Selection { ids: (0..=self.heard.cast_signed()).collect(), types: Vec::new() };
        Command::Delete { selection, sight: Sight::All, limit: 12 }
    }

    /// A period that cannot even be said.
    pub(super) fn bad_period(&mut self) -> f64 {
        self.dice.pick(BAD_PERIODS).copied().unwrap_or(-1.0)
    }

    pub(super) fn filter_change(&mut self) -> FilterChange {
        match self.dice.below(10) {
            0..6 => FilterChange::Subscribe(self.selection()),
            6..8 => FilterChange::Unsubscribe(self.selection()),
            8 => FilterChange::Replace(self.selection()),
            _ => FilterChange::Everything,
        }
    }

    pub(super) fn sight(&mut self) -> Sight {
        if !self.dice.one_in(3) {
            return Sight::All;
        }
        let scopes = self.dice.pick(SCOPES).copied().unwrap_or_default();
        let scopes: Vec<Scope> = scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
        Sight::of(&scopes, Room::Events).unwrap_or(Sight::All)
    }

    /// Some events, mostly those that are there.
    pub(super) fn selection(&mut self) -> Selection {
        let ids = (0..self.dice.below(3)).map(|_| self.id()).collect();
        let types = match self.dice.below(3) {
            0 if self.dice.one_in(2) => {
                TYPES.iter().take(4).map(|name| (*name).to_owned()).collect()
            }
            0 => vec![self.name()],
            1 if self.dice.one_in(2) => vec![self.name(), self.name()],
            _ => Vec::new(),
        };
        Selection { ids, types }
    }

    pub(super) fn wanted_types(&mut self) -> Option<Vec<String>> {
        match self.dice.below(4) {
            0 => None,
            1 if self.dice.one_in(3) => Some(Vec::new()),
            1 => Some(vec![self.name(), self.name()]),
            _ => Some(vec![self.name()]),
        }
    }

    /// Mostly an event that is there; sometimes one that was or will be, or none at all.
    pub(super) fn id(&mut self) -> i32 {
        match self.dice.below(24) {
            0 => -1,
            1 => i32::MAX,
            2..5 => self.number(u64::from(self.heard) + 3),
            _ => {
                let place = usize::try_from(self.dice.below(self.there.len() as u64)).unwrap_or(0);
                self.there.get(place).map_or(0, |id| id.cast_signed())
            }
        }
    }

    pub(super) fn some_id(&mut self) -> Id {
        u32::try_from(self.id()).ok().and_then(Id::new).unwrap_or_default()
    }

    /// Learns from an answer, and from what is told with it.
    pub(super) fn heard(&mut self, reply: &Reply, actions: &[Action]) {
        if let Reply::Registered(registered) = reply {
            let id = registered.id.number();
            self.heard = self.heard.max(id);
            self.there.extend(registered.next.map(|_| id));
            if self.there.len() > REMEMBERED {
                self.there.pop_front();
            }
        }
        for action in actions {
            if let Action::Forget(gone) = action {
                self.there.retain(|id| *id != gone.number());
            }
        }
    }

    /// A small number.
    fn number(&mut self, below: u64) -> i32 {
        i32::try_from(self.dice.below(below)).unwrap_or(i32::MAX)
    }

    fn schedule(&mut self, now: Now) -> Schedule {
        let dice = &mut self.dice;
        match dice.below(20) {
            0..11 => {
                let secs = match dice.below(8) {
                    0 => 0.099_999_99,
                    1 => 0.0,
                    _ => dice.pick(PERIODS).copied().unwrap_or(1.0),
                };
                // A period is spoilt often enough by the two above.
                Schedule::every_secs(secs).unwrap_or(Schedule::At(now.wall))
            }
            11..16 => {
                let calendar = dice.pick(CALENDARS).map_or("@daily", |calendar| calendar.text);
                let zone = dice.pick(ZONES).copied();
                let cron = Cron::parse(calendar, zone);
                cron.map_or(Schedule::At(now.wall), |cron| Schedule::Cron(Box::new(cron)))
            }
            _ => {
                let ahead = match dice.below(8) {
                    0 => -1,
                    1 => 0,
                    2 => -dice.below(3_600_000_000).cast_signed(),
                    3..6 => dice.below(3_000_000).cast_signed(),
                    6 => dice.below(7_200_000_000).cast_signed(),
                    _ => dice.below(400_000_000_000).cast_signed(),
                };
                Schedule::At(Wall(now.wall.0.saturating_add(ahead)))
            }
        }
    }

    fn repeat(&mut self, schedule: &Schedule) -> i32 {
        let dice = &mut self.dice;
        if matches!(schedule, Schedule::At(_)) && !dice.one_in(6) {
            return 1;
        }
        match dice.below(16) {
            0 => 0,
            1 => -2,
            2 => i32::MIN,
            3 => i32::MAX,
            4..10 => -1,
            _ => 1 + self.number(9),
        }
    }

    fn description(&mut self) -> String {
        let most = self.bounds.description_bytes_max;
        let bytes = match self.dice.below(20) {
            0 => most + 1,
            1 => most,
            2 => 0,
            3..6 => usize::try_from(self.dice.below(most as u64)).unwrap_or_default(),
            6 => return "Ночная копия — 夜".to_owned(),
            _ => 12,
        };
        "event of the simulator ".chars().cycle().take(bytes).collect()
    }

    fn types(&mut self) -> Vec<String> {
        match self.dice.below(24) {
            0 => vec![String::new()],
            1 => vec!["a name that is far too long".to_owned()],
            2 => TYPES.iter().map(|name| (*name).to_owned()).collect(),
            3 => vec!["ops".to_owned(); 5],
            4..8 => Vec::new(),
            8..12 => vec![self.name(), self.name()],
            _ => vec![self.name()],
        }
    }

    /// A type, sometimes one that no event has.
    fn name(&mut self) -> String {
        if self.dice.one_in(12) {
            return "gamma.z".to_owned();
        }
        self.dice.pick(TYPES).map_or(String::new(), |name| (*name).to_owned())
    }
}
