//! The world of one server with the events room in it, and mostly others beside it.
//!
//! See [`crate::server`] for what goes wrong and what must hold. Besides that, clocks and sleep
//! matter to this room itself: events run on both clocks, the machine sleeps through their
//! occurrences, and every server has its own catch-up policy.

mod asked;
mod calendar;
mod oracle;
mod shell;
mod topic;
mod workload;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_events::{
    Action, CatchUp, Change, Command, Events, Id, Reply, Schedule, State, Tardiness,
};
use handoff_house::House;
use handoff_log::journal::Purpose;
use handoff_store_embedded::Persist;
use handoff_types::{Machine, Now, Span, Wall};

use self::asked::{Asked, Look, What, kind, words};
use self::oracle::Oracle;
pub use self::oracle::Violation;
use self::shell::Shell;
use self::topic::Topic;
use self::workload::Workload;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::embedded::Counting;
use crate::history::{History, Kind};
use crate::house::Keeping;
use crate::room::Counter;
pub use crate::server::Parts;
use crate::server::{Act, Decided, Deed, Flat, Household, Lodger, Rooms, Server, Site, Tenant};

/// A machine that speaks of events.
pub trait Rules:
    Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Action>
{
}

impl<M> Rules for M where
    M: Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Action>
{
}

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Parts for Sound {
    type Rooms = Timing<Events>;
}

/// A server with the events room.
pub type Timed<P> = Server<P>;

/// How many ticks follow each other at most while there is more.
const TICKS_MAX: usize = 8;

/// How many sessions there are at once.
const SESSIONS_MAX: usize = 6;

/// The operator's clock when a seed begins: an ordinary day, and hours before clocks change, a
/// leap day, or a year ends somewhere.
const WALL_STARTS: &[i64] = &[
    1_700_000_000,
    1_711_828_800,
    1_729_965_600,
    1_710_021_600,
    1_730_577_600,
    1_712_394_000,
    1_728_118_800,
    1_709_121_600,
    1_735_657_200,
];

/// The events room, or one that is twisted, and whoever uses it.
#[derive(Debug)]
pub struct Timing<M> {
    workload: Workload,
    oracle: Oracle,
    shell: Shell,
    /// Outlives the server: it is another room's.
    topic: Topic,
    machine: PhantomData<M>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Rooms for Timing<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let mut rooms: Vec<Box<dyn Lodger>> = vec![Box::new(Flat::new(Self::new(dice)))];
        let neighbours = dice.below(4);
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let mut temper = vec![
            (between(120, 220), Act::Room(0, Deed::Command)),
            (between(40, 160), Act::Room(0, Deed::Tick)),
            (between(3, 40), Act::Room(0, Deed::Checkpoint)),
            (20, Act::Room(0, Deed::Read)),
            (between(20, 120), Act::Commit),
            (between(0, 8), Act::Strike),
            (between(10, 20), Act::Mend),
            (between(0, 8), Act::Halt),
            (between(1, 6), Act::Restart),
        ];
        if neighbours & 1 > 0 {
            temper.extend([
                (between(10, 60), Act::Room(rooms.len(), Deed::Command)),
                (between(3, 20), Act::Room(rooms.len(), Deed::Checkpoint)),
            ]);
            rooms.push(Box::new(Flat::new(Keeping::<House>::new(dice))));
        }
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        if neighbours & 2 > 0 {
            temper.extend([
                (between(10, 80), Act::Room(rooms.len(), Deed::Command)),
                (between(1, 10), Act::Room(rooms.len(), Deed::Copy)),
                (between(1, 6), Act::Room(rooms.len(), Deed::Sync)),
                (between(10, 40), Act::Room(rooms.len(), Deed::Checkpoint)),
                (5, Act::Room(rooms.len(), Deed::Read)),
                (3, Act::Room(rooms.len(), Deed::Tick)),
            ]);
            rooms.push(Box::new(Flat::new(Counting::<Counter>::new(dice))));
        }
        Household { rooms, temper }
    }

    fn wall_start(dice: &mut Dice) -> Wall {
        let start = dice.pick(WALL_STARTS).copied().unwrap_or_default();
        Wall(start * 1_000_000 + dice.below(3_600_000_000).cast_signed())
    }

    fn wall_step(dice: &mut Dice) -> i64 {
        match dice.below(4) {
            0 => dice.around(86_400) * 1_000_000,
            1 => dice.around(7_200) * 1_000_000,
            2 => dice.around(120) * 1_000_000,
            _ => dice.around(5_000_000),
        }
    }
}

impl<M> Timing<M> {
    fn new(dice: &mut Dice) -> Self {
        let mut workload = Workload::new(dice.fork());
        let shell = Shell::new(workload.settings());
        let (oracle, topic) = (Oracle::default(), Topic::default());
        Self { workload, oracle, shell, topic, machine: PhantomData }
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Timing<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = false;

    fn hash(state: &State) -> u64 {
        state.hash()
    }

    fn check_alike(&self, live: &State, rebuilt: &State, now: Now) -> Result<(), Fault> {
        let differs = || "a state read back answers otherwise than the living one".to_owned();
        ensure(live == rebuilt, differs)?;
        ensure(Look::at::<M>(live, now) == Look::at::<M>(rebuilt, now), differs)
    }

    fn say(command: &Command) -> String {
        words(command)
    }

    fn sort(command: &Command) -> (&'static str, Purpose, Vec<Bytes>) {
        let purpose = match command {
            Command::Register { .. } => Purpose::Accept,
            _ => Purpose::Finish,
        };
        (kind(command), purpose, Vec::new())
    }

    fn decided(&mut self, decided: Decided<Self>, state: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        let told = self.shell.perform(&actions, now);
        let look = match &command {
            Command::Register { .. } | Command::Delete { .. } => None,
            _ => Some(Look::at::<M>(state, now)),
        };
        match (&command, &reply) {
            (Command::Resume { .. }, Reply::Ticked { more, late, .. }) => {
                self.shell.resuming = *more;
                self.shell.late_left = self.shell.late_left.saturating_sub(*late);
            }
            (Command::Tick { .. }, Reply::Ticked { more, .. }) => self.shell.more = *more,
            (_, Reply::Rescheduled { next, .. }) => self.shell.reschedule = *next,
            (_, Reply::HandedOver { next }) => self.shell.hand_over = *next,
            _ => {}
        }
        Asked { now, what: What::Command { command, reply, actions, look }, told }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        history.tell(format_args!("{asked}"));
        tell(&asked, history);
        if let What::Command { reply, actions, .. } = &asked.what {
            self.workload.heard(reply, actions);
        }
        self.oracle.answered(&asked)?;
        if let What::Command { actions, .. } = asked.what {
            let sent = actions.into_iter().filter_map(|action| match action {
                Action::Publish(publication) => Some(publication),
                _ => None,
            });
            self.shell.on_the_way.extend(sent);
        }
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        asked.kind()
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, now: Now) -> Result<usize, Fault> {
        self.shell = Shell::new(self.workload.settings());
        Ok(self.oracle.recovered(&lost, &Look::at::<M>(state, now), now)?)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        match deed {
            Deed::Command if flat.tenant.shell.resuming && !site.dice.one_in(4) => {
                flat.drive(site, history)
            }
            Deed::Command => flat.somebody_asks(site, history),
            Deed::Tick => flat.drive(site, history),
            Deed::Read => flat.look(site, history),
            _ => Ok(()),
        }
    }

    /// Long descriptions make a round of several sectors, and that can be torn.
    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..site.dice.below(6) {
            let register = flat.tenant.workload.register(site.clock.now());
            flat.send(&register, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        Command::Reschedule { from: Id::LAST, limit: 1 }
    }

    fn clock_set(&mut self, step: i64) {
        if step < 0 {
            self.shell.reschedule = Some(Id::default());
        }
    }

    fn settle(&mut self, state: &State, now: Now) -> Result<(), Fault> {
        let look = Asked { now, what: What::Look(Look::at::<M>(state, now)), told: Vec::new() };
        self.oracle.answered(&look)?;
        Ok(())
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Flat<Timing<M>> {
    /// What the server owes: a start comes first, then a clock that was set back, then whatever
    /// is due.
    fn drive(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Shell { settings, resuming, late_left, reschedule, hand_over, .. } = self.tenant.shell;
        let publishing = settings.publishing;
        let many = if site.dice.one_in(3) { 1000 } else { 1 + site.dice.below(6) };
        let limit = usize::try_from(many).unwrap_or(usize::MAX);
        let tardiness = settings.tardiness;
        if let Some(from) = hand_over {
            return self.send(&Command::HandOver { from, limit }, site, history).map(drop);
        }
        if resuming {
            let tardiness = Tardiness { catch_up_max: late_left, ..tardiness };
            return self
                .send(&Command::Resume { limit, tardiness, publishing }, site, history)
                .map(drop);
        }
        if let Some(from) = reschedule {
            return self.send(&Command::Reschedule { from, limit }, site, history).map(drop);
        }
        self.wait_for_deadline(tardiness, site, history);
        for _ in 0..TICKS_MAX {
            let tick = Command::Tick { limit, tardiness, publishing };
            let ticked = self.send(&tick, site, history)?;
            if !ticked || !self.tenant.shell.more || site.dice.one_in(4) {
                break;
            }
        }
        Ok(())
    }

    /// Time passes up to the deadline, mostly; sometimes the tick comes too early, or late.
    fn wait_for_deadline(&self, tardiness: Tardiness, site: &mut Site, history: &mut History) {
        let Some(life) = &self.life else { return };
        let now = site.clock.now();
        let patience = match site.dice.below(8) {
            0 => 0,
            1..6 => 60,
            6 => 7_200,
            _ => 100_000,
        };
        if let Some(deadline) = life.host.next_deadline(now) {
            site.clock.pass(deadline.since(now.steady).min(Span::from_secs(patience)));
        }
        let pause = match site.dice.below(6) {
            0 => tardiness.late_max,
            1 => Span(tardiness.late_max.0 + 1),
            2 => Span(site.dice.below(tardiness.late_max.0 + 3_000_000)),
            _ => return,
        };
        history.count(Kind::Injected, "the process pauses");
        site.clock.pass(pause);
    }

    fn somebody_asks(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let now = site.clock.now();
        let Timing { workload, .. } = &mut self.tenant;
        let command = match site.dice.below(28) {
            20..27 => return self.topic_acts(site, history),
            27 => workload.letters(),
            0..7 => workload.register(now),
            7..9 => workload.delete(),
            9 if site.dice.one_in(4) => workload.delete_all(),
            9 => return self.say_a_bad_period(history),
            10..16 => return self.listen(site, history),
            _ => return self.read(site, history),
        };
        self.send(&command, site, history).map(drop)
    }

    /// The topic does something about what is on its way to it: it takes it and answers, answers
    /// nothing that arrives, takes it later, or refuses it.
    fn topic_acts(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..1 + site.dice.below(3) {
            let Timing { shell, topic, oracle, .. } = &mut self.tenant;
            let count = shell.on_the_way.len() as u64;
            if count == 0 {
                break;
            }
            let place = usize::try_from(site.dice.below(count)).unwrap_or(0);
            let Some(one) = shell.on_the_way.get(place).cloned() else { break };
            let (id, sequence) = (one.id, one.handed.sequence);
            let dead = oracle.is_dead(id, sequence);
            let publishing = shell.settings.publishing;
            let command = match site.dice.below(8) {
                0 => {
                    history.count(Kind::Injected, "the topic takes its time");
                    break;
                }
                1 => {
                    history.count(Kind::Injected, "the topic's answer is lost");
                    topic.take(&one, dead)?;
                    break;
                }
                2 | 3 if !topic.has(&one) => {
                    history.count(Kind::Injected, "the topic refuses");
                    let why = format!("no place for {sequence}");
                    Command::PublishRefused { id, sequence, why, publishing }
                }
                _ => {
                    if !topic.take(&one, dead)? {
                        history.count(Kind::Performed, "repetition dropped by the topic");
                    }
                    Command::Published { id, sequence }
                }
            };
            if self.send(&command, site, history)? {
                self.tenant.shell.on_the_way.retain(|other| *other != one);
            }
        }
        Ok(())
    }

    /// What cannot be said is refused before it reaches the room.
    fn say_a_bad_period(&mut self, history: &mut History) -> Result<(), Fault> {
        let secs = self.tenant.workload.bad_period();
        history.count(Kind::Refusal, "no period at all");
        ensure(Schedule::every_secs(secs).is_err(), || format!("{secs} seconds are a period"))
    }

    /// A session begins, ends, or wants to be told of something else.
    fn listen(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        let Timing { workload, shell, .. } = &mut self.tenant;
        let place = usize::try_from(site.dice.below(shell.open.len() as u64)).unwrap_or(0);
        let new = shell.open.len() < SESSIONS_MAX && site.dice.one_in(4);
        let (what, told) = match shell.open.get(place).copied().filter(|_| !new) {
            None => {
                let (sight, entries_max) = (workload.sight(), shell.settings.entries_max);
                let session = shell.sessions.open(sight.clone(), entries_max);
                shell.open.push(session);
                (What::Open { session, sight, entries_max }, Vec::new())
            }
            Some(session) if site.dice.one_in(12) => {
                shell.sessions.close(session);
                shell.open.remove(place);
                (What::Close { session }, Vec::new())
            }
            Some(session) => {
                shell.change(session, workload.filter_change(), life.host.state(), now)
            }
        };
        self.ask(Asked { now, what, told }, site, history)
    }

    fn read(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let (now, state) = (site.clock.now(), life.host.state());
        let workload = &mut self.tenant.workload;
        let sight = workload.sight();
        let what = match site.dice.below(3) {
            0 => {
                let (types, from) = (workload.wanted_types(), workload.some_id());
                let from = if site.dice.one_in(2) { Id::default() } else { from };
                let limit = if site.dice.one_in(2) { 3 } else { usize::MAX };
                let found = state.list(types.as_deref(), &sight, from, limit);
                What::List { types, sight, from, limit, found }
            }
            1 => {
                let selection = workload.selection();
                let found = state.select(&selection, &sight);
                What::Select { selection, sight, found }
            }
            _ => {
                let id = workload.some_id();
                let found = state.view(id, &sight, now);
                What::View { id, sight, found }
            }
        };
        self.ask(Asked { now, what, told: Vec::new() }, site, history)
    }

    fn look(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        let what = What::Look(Look::at::<M>(life.host.state(), now));
        self.ask(Asked { now, what, told: Vec::new() }, site, history)
    }
}

/// Writes down what was told and what came of it.
fn tell(asked: &Asked, history: &mut History) {
    for told in &asked.told {
        let late = told.notification.late;
        history.count(Kind::Performed, if late { "session told late" } else { "session told" });
        let (id, number) = (told.notification.id, told.notification.occurrence);
        history.tell(format_args!("session {} hears of {number} of {id}", told.session.0));
    }
    let kind = asked.kind();
    match &asked.what {
        What::Command { reply: Reply::Refused(refusal), .. } => {
            use handoff_events::Refusal;
            history.count(Kind::Refused, kind);
            let why = match refusal {
                Refusal::Schedule(_) => "schedule",
                Refusal::Repeat(_) => "repeat",
                Refusal::Description { .. } => "description",
                Refusal::Types(_) => "types",
                Refusal::OutOfSight(_) => "out of sight",
                Refusal::Full(_) => "full",
                Refusal::Publish(_) => "publish",
                _ => "another",
            };
            history.count(Kind::Refusal, why);
        }
        What::Filter { result: Err(error), .. } => {
            use handoff_events::FilterError;
            history.count(Kind::Refused, kind);
            let why = match error {
                FilterError::NoEvent(_) => "no event",
                FilterError::OutOfSight(_) => "filter out of sight",
                FilterError::TooLarge(_) => "filter too large",
                _ => "another",
            };
            history.count(Kind::Refusal, why);
        }
        What::Command { command, reply, actions, .. } => {
            history.count(Kind::Acknowledged, kind);
            count(command, reply, actions, history);
        }
        _ => history.count(Kind::Acknowledged, kind),
    }
}

/// Counts what happened to events.
fn count(command: &Command, reply: &Reply, actions: &[Action], history: &mut History) {
    for action in actions {
        let what = match action {
            Action::Notify(notification) if notification.late => "late occurrence",
            Action::Notify(_) => "occurrence",
            Action::Forget(_) => "event forgotten",
            Action::Publish(_) => "occurrence handed over",
        };
        history.count(Kind::Performed, what);
    }
    let registered = matches!(reply, Reply::Registered(registered) if registered.next.is_some());
    let schedule = |command: &Command| match command {
        Command::Register { event, .. } => Some(match event.schedule {
            Schedule::Every(_) => "periodic event",
            Schedule::Cron(_) => "cron event",
            Schedule::At(_) => "one-shot event",
        }),
        _ => None,
    };
    let missed = match (command, reply) {
        (
            Command::Tick { tardiness, .. } | Command::Resume { tardiness, .. },
            Reply::Ticked { late, skipped, .. },
        ) if late + skipped > 0 => Some(match tardiness.catch_up {
            CatchUp::Skip => "missed under skip",
            CatchUp::Once => "missed under once",
            CatchUp::All if *skipped > 0 => "missed more than may be told",
            CatchUp::All => "missed under all",
        }),
        _ => None,
    };
    let whats = [
        schedule(command).filter(|_| registered),
        missed,
        matches!(reply, Reply::Registered(_))
            .then_some("event that never occurs")
            .filter(|_| !registered),
        matches!(reply, Reply::Ticked { skipped: 1.., .. }).then_some("occurrences skipped"),
        matches!(reply, Reply::Ticked { more: true, .. }).then_some("more is due"),
        matches!(reply, Reply::Rescheduled { count: 1.., .. }).then_some("event scheduled anew"),
        matches!(reply, Reply::Rescheduled { next: Some(_), .. }).then_some("more to look at"),
        matches!(reply, Reply::Letters { numbers, .. } if !numbers.is_empty())
            .then_some("dead letters retried or deleted"),
        matches!(reply, Reply::Answered { known: false }).then_some("answered before"),
        matches!(reply, Reply::Deleted { more: true, .. }).then_some("more to delete"),
    ];
    whats.into_iter().flatten().for_each(|what| history.count(Kind::Performed, what));
}
