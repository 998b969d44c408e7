//! A room without a disk: commands are decided and at once true.

use handoff_events::cron::Cron;
use handoff_events::{
    Action, Bounds, CatchUp, Command, Events, Id, Notification, Period, Publication, Publishing,
    Refusal, Registered, Registration, Reply, Schedule, Selection, State, Tardiness,
};
use handoff_types::{Entropy, Machine, Now, Sight, Span, Steady, Wall};

/// Monday, 4 January 2027, 00:00:00 UTC.
pub(crate) const MONDAY: i64 = 1_799_020_800_000_000;

pub(crate) const BOUNDS: Bounds = Bounds {
    period_min: Span::from_millis(100),
    period_max: Period::MAX,
    description_bytes_max: 40,
    types_max: 3,
    type_bytes_max: 8,
    events_max: 1_000_000,
};

/// Small, so that both are reached.
pub(crate) const PUBLISHING: Publishing = Publishing { pending_max: 3, letters_max: 4 };

pub(crate) const SKIP: Tardiness =
    Tardiness { catch_up: CatchUp::Skip, catch_up_max: 10_000, late_max: Span::from_secs(10) };
pub(crate) const ONCE: Tardiness = Tardiness { catch_up: CatchUp::Once, ..SKIP };
pub(crate) const ALL: Tardiness = Tardiness { catch_up: CatchUp::All, ..SKIP };

pub(crate) struct Room {
    pub(crate) state: State,
    pub(crate) now: Now,
    pub(crate) bounds: Bounds,
}

/// What a tick or a start led to.
#[derive(Debug)]
pub(crate) struct Ticked {
    pub(crate) more: bool,
    pub(crate) told: Vec<Notification>,
    pub(crate) forgotten: Vec<Id>,
    pub(crate) published: Vec<Publication>,
    pub(crate) late: u64,
    pub(crate) skipped: u64,
}

impl Room {
    pub(crate) fn new() -> Self {
        let now = Now { wall: Wall(MONDAY), steady: Steady(5_000_000) };
        Self { state: State::default(), now, bounds: BOUNDS }
    }

    pub(crate) fn apply(&mut self, command: &Command) -> (Reply, Vec<Action>) {
        let chance = Entropy(self.state.totals().registered.into());
        let decision = Events::decide(&self.state, command, self.now, chance);
        for change in &decision.changes {
            Events::evolve(&mut self.state, change);
        }
        if matches!(decision.reply, Reply::Refused(_)) {
            assert!(decision.changes.is_empty() && decision.actions.is_empty());
        }
        (decision.reply, decision.actions)
    }

    /// Time passes, on both clocks.
    pub(crate) fn pass(&mut self, span: Span) {
        self.now.wall = self.now.wall + span;
        self.now.steady = self.now.steady + span;
    }

    pub(crate) fn try_register(&mut self, event: Registration) -> Result<Registered, Refusal> {
        self.register_as(event, Sight::All)
    }

    pub(crate) fn register_as(
        &mut self,
        event: Registration,
        sight: Sight,
    ) -> Result<Registered, Refusal> {
        let command = Command::Register { event, bounds: self.bounds, sight };
        match self.apply(&command) {
            (Reply::Registered(registered), actions) => {
                assert!(actions.is_empty());
                Ok(registered)
            }
            (Reply::Refused(refusal), _) => Err(refusal),
            (other, _) => panic!("{other:?} to a registration"),
        }
    }

    pub(crate) fn register(&mut self, schedule: Schedule, repeat: i32, types: &[&str]) -> Id {
        self.try_register(registration(schedule, repeat, types)).unwrap().id
    }

    fn ticked(&mut self, command: &Command) -> Ticked {
        let (reply, actions) = self.apply(command);
        let Reply::Ticked { more, told: count, late, skipped } = reply else {
            panic!("{reply:?} to a tick")
        };
        let (mut told, mut forgotten, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Notify(notification) => {
                    assert!(!forgotten.contains(&notification.id), "told after it was forgotten");
                    told.push(notification);
                }
                Action::Forget(id) => forgotten.push(id),
                Action::Publish(publication) => published.push(publication),
            }
        }
        assert_eq!(told.len() as u64, count);
        assert_eq!(told.iter().filter(|one| one.late).count() as u64, late);
        Ticked { more, told, forgotten, published, late, skipped }
    }

    pub(crate) fn tick(&mut self, tardiness: Tardiness) -> Ticked {
        self.tick_some(usize::MAX, tardiness)
    }

    pub(crate) fn tick_some(&mut self, limit: usize, tardiness: Tardiness) -> Ticked {
        self.ticked(&Command::Tick { limit, tardiness, publishing: PUBLISHING })
    }

    pub(crate) fn resume(&mut self, tardiness: Tardiness) -> Ticked {
        self.resume_some(usize::MAX, tardiness)
    }

    pub(crate) fn resume_some(&mut self, limit: usize, tardiness: Tardiness) -> Ticked {
        self.ticked(&Command::Resume { limit, tardiness, publishing: PUBLISHING })
    }

    pub(crate) fn delete(
        &mut self,
        selection: Selection,
        sight: Sight,
        limit: usize,
    ) -> (Vec<Id>, bool) {
        match self.apply(&Command::Delete { selection, sight, limit }) {
            (Reply::Deleted { ids, more }, actions) => {
                let forgotten: Vec<Action> = ids.iter().map(|id| Action::Forget(*id)).collect();
                assert_eq!(actions, forgotten);
                (ids, more)
            }
            (other, _) => panic!("{other:?} to a deletion"),
        }
    }

    /// Looks at all events after a step of the clock; how many wait for another time.
    pub(crate) fn reschedule(&mut self) -> u64 {
        let mut from = Some(Id::default());
        let mut all = 0;
        while let Some(first) = from {
            match self.apply(&Command::Reschedule { from: first, limit: 2 }) {
                (Reply::Rescheduled { count, next }, actions) => {
                    assert!(actions.is_empty());
                    all += count;
                    from = next;
                }
                (other, _) => panic!("{other:?} to a reschedule"),
            }
        }
        all
    }
}

pub(crate) fn registration(schedule: Schedule, repeat: i32, types: &[&str]) -> Registration {
    let types = types.iter().map(|name| (*name).to_owned()).collect();
    Registration { description: "what it is".to_owned(), types, schedule, repeat, publish: None }
}

pub(crate) fn every(secs: f64) -> Schedule {
    Schedule::every_secs(secs).unwrap()
}

pub(crate) fn cron(expression: &str) -> Schedule {
    Schedule::Cron(Box::new(Cron::parse(expression, None).unwrap()))
}

pub(crate) fn sight(patterns: &[&str]) -> Sight {
    let scopes: Vec<handoff_types::Scope> =
        patterns.iter().map(|name| format!("events:{name}").parse().unwrap()).collect();
    Sight::of(&scopes, handoff_types::Room::Events).unwrap()
}

pub(crate) fn id(number: u32) -> Id {
    Id::new(number).unwrap()
}

pub(crate) fn ids(numbers: &[u32]) -> Vec<Id> {
    numbers.iter().map(|number| id(*number)).collect()
}

pub(crate) fn select(ids: &[i32], types: &[&str]) -> Selection {
    let types = types.iter().map(|name| (*name).to_owned()).collect();
    Selection { ids: ids.to_vec(), types }
}

pub(crate) const SECOND: Span = Span::from_secs(1);
pub(crate) const HOUR: Span = Span::from_secs(3_600);
pub(crate) const DAY: Span = Span::from_secs(86_400);
