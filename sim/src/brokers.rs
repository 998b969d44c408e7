//! The world of two brokers over one store.
//!
//! Any broker decides any command, on aggregates it has cached, and compares and sets. Nothing
//! passes between the brokers but what lies in the store. This is the PostgreSQL room without
//! PostgreSQL.
//!
//! What goes wrong here: the store conflicts, fails, does not answer and acts late ([`crate::store`]), an
//! answer to a caller gets lost, a broker restarts and has lost its cache and what it was doing,
//! the operator's clock jumps in both directions, time passes in leaps.
//!
//! What must hold after every step:
//!
//! * every answer is one the oracle allows;
//! * the state folded from the facts, from scratch, is the store's state, hash for hash, and comes
//!   back the same from its snapshot;
//! * a key's version grows by one at a time;
//! * a move changes no sum;
//! * a cached aggregate that has the store's version is the store's aggregate;
//! * a key has as many bodies as notes, and no value beyond its limit.

mod broker;

use std::collections::BTreeMap;

use handoff_types::{Machine, Now, Span, Wall};

use self::broker::{Broker, Progress};
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World, ensure};
use crate::history::{History, Kind};
use crate::oracle::{Doubt, Oracle};
use crate::room::{Action, Change, Command, Name, Reply, State, VALUE_LIMIT};
use crate::store::{Party, Port, Version};
use crate::workload::{Bodies, Workload};

/// Once in how many steps a broker restarts.
const RESTART: u64 = 80;

/// Once in how many steps time leaps.
const LEAP: u64 = 100;

/// Once in how many steps the operator sets the clock.
const WALL_SET: u64 = 60;

/// Once in how many steps bodies are read.
const BODIES_READ: u64 = 15;

/// Once in how many steps a delayed commit arrives, or is known never to.
const DELAY_ENDS: u64 = 12;

/// Once in how many answers one gets lost.
const ANSWER_LOST: u64 = 25;

/// Once in how many commands a caller waits for a hold to end.
const PATIENT: u64 = 3;

/// Once in how many steps the whole state goes through its snapshot.
const SNAPSHOT: u64 = 20;

/// How many turns commands may take when nothing new begins.
const TURNS_MAX: usize = 1_000;

/// A room that speaks the counter's language, whatever its rules.
pub trait Rules:
    Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Action>
{
}

impl<M> Rules for M where
    M: Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Action>
{
}

/// Two brokers, their callers, and the oracle that watches.
#[derive(Debug)]
pub struct Brokers<M: Rules, S> {
    store: S,
    brokers: [Broker<M>; 2],
    workload: Workload,
    oracle: Oracle,
    dice: Dice,
    versions: BTreeMap<Name, Version>,
    /// The command whose commit is delayed.
    delayed: Option<Doubt>,
}

impl<M: Rules, S: Port<M>> Brokers<M, S> {
    /// Two brokers over an empty store.
    #[must_use]
    pub fn new(store: S, mut dice: Dice) -> Self {
        let workload = Workload::new(dice.fork(), Bodies::BEYOND_RECORDS);
        Self {
            store,
            brokers: [0, 1].map(|number| Broker::new(Party(number), workload.keys())),
            workload,
            oracle: Oracle::default(),
            dice,
            versions: BTreeMap::new(),
            delayed: None,
        }
    }

    fn pass_time(&mut self, history: &mut History) {
        let store = self.store.underneath();
        store.pass(Span::from_micros(self.dice.below(100_000)));
        if self.dice.one_in(LEAP) {
            let leap = Span::from_secs(self.dice.below(7200));
            store.pass(leap);
            history.count(Kind::Injected, "time leaps");
            history.tell(format_args!("time leaps by {} s", leap.0 / 1_000_000));
        }
        if self.dice.one_in(WALL_SET) {
            let step = self.dice.around(86_400) * 1_000_000;
            let wall = Wall(store.now().wall.0.saturating_add(step));
            store.set_wall(wall);
            let direction = if step < 0 { "clock set back" } else { "clock set forward" };
            history.count(Kind::Injected, direction);
            history.tell(format_args!("{direction} to {} µs", wall.0));
        }
    }

    /// A broker goes down, with all it knew and all it was doing, and comes up again.
    fn restart(&mut self, number: usize, history: &mut History) -> Result<(), Fault> {
        let Some(broker) = self.brokers.get_mut(number) else { return Ok(()) };
        let underway = broker.restart(&mut self.store);
        history.count(Kind::Broker, "restarted");
        history.tell(format_args!("broker {number} restarts"));
        let Some((command, decided_at)) = underway else { return Ok(()) };
        let now = decided_at.unwrap_or_else(|| self.store.now());
        self.lose(&command, now, history)
    }

    /// Lets a broker do the next bit of its command, or begin one.
    fn turn(&mut self, number: usize, history: &mut History) -> Result<(), Fault> {
        let Some(idle) = self.brokers.get(number).map(Broker::idle) else { return Ok(()) };
        if idle {
            self.begin(number, history);
        }
        let sum = sum(self.store.underneath().state());
        let Some(broker) = self.brokers.get_mut(number) else { return Ok(()) };
        let moves = matches!(broker.command(), Some(Command::Move { .. }));
        let progress = broker.advance(&mut self.store, self.dice.entropy());
        let after = self::sum(self.store.underneath().state());
        if moves && sum != after {
            return Err(Fault::Invariant(format!("a move made the sum {after} out of {sum}")));
        }
        self.note_progress(number, progress, history)
    }

    fn begin(&mut self, number: usize, history: &mut History) {
        let now = self.store.now();
        let due = M::next_deadline(self.store.underneath().state(), now)
            .is_some_and(|deadline| deadline <= now.steady);
        let command = match self.oracle.crowded() {
            Some(key) => Command::Read { key },
            None if due && self.dice.one_in(3) => Command::Tick,
            None => self.workload.next_command(),
        };
        let patience = self
            .dice
            .one_in(PATIENT)
            .then(|| now.steady + Span::from_micros(self.dice.below(2_000_000)));
        history.count(Kind::Sent, command.kind());
        history.tell(format_args!("broker {number} at {now}: {command}"));
        if let Some(broker) = self.brokers.get_mut(number) {
            broker.begin(command, patience);
        }
    }

    fn note_progress(
        &mut self,
        number: usize,
        progress: Progress,
        history: &mut History,
    ) -> Result<(), Fault> {
        match progress {
            Progress::Underway(what) => {
                history.count(Kind::Broker, what);
                history.tell(format_args!("broker {number}: {what}"));
                Ok(())
            }
            Progress::Answered { command, now, reply, actions } => {
                for action in &actions {
                    history.count(Kind::Performed, action.kind());
                    history.tell(format_args!("broker {number}: {action}"));
                }
                if self.dice.one_in(ANSWER_LOST) {
                    history.count(Kind::Injected, "answer lost");
                    return self.lose(&command, now, history);
                }
                history.tell(format_args!("broker {number}: {reply}"));
                history.count_answer(&command, &reply);
                self.workload.heard(&command, &reply);
                Ok(self.oracle.acknowledged(&command, now, &reply, &actions)?)
            }
            Progress::Lost { command, now } => self.lose(&command, now, history),
            Progress::Broken(what) => Err(Fault::Invariant(what)),
        }
    }

    /// A caller will not hear what became of its command.
    fn lose(&mut self, command: &Command, now: Now, history: &mut History) -> Result<(), Fault> {
        history.count(Kind::Unknown, command.kind());
        history.tell(format_args!("nobody knows what became of: {command}"));
        self.workload.lost(command);
        if self.delayed.is_none() && self.store.underneath().delays() {
            self.delayed = Some(self.oracle.pending(command, now)?);
            return Ok(());
        }
        Ok(self.oracle.unknown(command, now)?)
    }

    /// What was delayed arrives, or never does.
    fn end_delay(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(doubt) = self.delayed.take() else { return Ok(()) };
        let arrives = self.dice.one_in(2);
        let what = match (arrives, self.store.underneath().end_delay(arrives)) {
            (true, true) => "delayed commit applied",
            (true, false) => "delayed commit in vain",
            (false, _) => "delayed commit gone",
        };
        history.count(Kind::Injected, what);
        history.tell(format_args!("the store: {what}"));
        Ok(self.oracle.over(doubt)?)
    }

    fn read_bodies(&mut self, history: &mut History) -> Result<(), Fault> {
        let key = self.workload.key();
        let from = self.dice.below(self.store.underneath().bodies(key).len() as u64 + 2);
        let bodies = self.store.read(key, from, 8192);
        history.count(Kind::Broker, "bodies read");
        history.tell(format_args!("{} bodies of {key} from {from}", bodies.len()));
        for (offset, body) in (from..).zip(&bodies) {
            self.oracle.body(key, offset, Some(body))?;
        }
        if bodies.is_empty() {
            self.oracle.body(key, from, None)?;
        }
        Ok(())
    }

    /// Lets the brokers take turns until both have answered.
    fn finish_commands(&mut self, history: &mut History) -> Result<(), Fault> {
        for turn in 0..TURNS_MAX {
            let busy: Vec<usize> = (0..)
                .zip(&self.brokers)
                .filter_map(|(number, broker)| (!broker.idle()).then_some(number))
                .collect();
            let Some(number) = busy.get(turn % busy.len().max(1)) else { return Ok(()) };
            self.pass_time(history);
            self.turn(*number, history)?;
            self.check(history)?;
        }
        Err(Fault::Invariant("a command never came to an end".to_owned()))
    }

    fn check(&mut self, history: &mut History) -> Result<(), Fault> {
        let store = self.store.underneath();
        for fault in store.take_injected() {
            history.count(Kind::Injected, fault.name());
            history.tell(format_args!("the store: {}", fault.name()));
        }
        store.check_facts().map_err(Fault::Invariant)?;
        for (key, version) in store.versions() {
            let before = self.versions.insert(*key, *version).unwrap_or(0);
            ensure(before <= *version && *version <= before + 1, || {
                format!("{key} went from version {before} to {version} in one step")
            })?;
        }
        let state = store.state();
        for key in state.keys() {
            let tally = state.tally(key);
            ensure((-VALUE_LIMIT..=VALUE_LIMIT).contains(&tally.value), || {
                format!("{key} is {}", tally.value)
            })?;
            let bodies = store.bodies(key).len() as u64;
            ensure(tally.notes == bodies, || {
                format!("{key} has {} notes and {bodies} bodies", tally.notes)
            })?;
        }
        for (key, version, cached) in self.brokers.iter().flat_map(Broker::cached) {
            let current = store.version(key) == version;
            ensure(!current || cached == state.tally(key), || {
                format!("a cache and the store differ in version {version} of {key}")
            })?;
        }
        if self.dice.one_in(SNAPSHOT) {
            check_snapshot(state, self.dice.below(500))?;
        }
        Ok(())
    }
}

impl<M: Rules, S: Port<M>> World for Brokers<M, S> {
    fn step(&mut self, history: &mut History) -> Result<(), Fault> {
        self.pass_time(history);
        let number = usize::from(self.dice.one_in(2));
        if self.dice.one_in(RESTART) {
            self.restart(number, history)?;
        } else if self.dice.one_in(DELAY_ENDS) {
            self.end_delay(history)?;
        } else if self.dice.one_in(BODIES_READ) {
            self.read_bodies(history)?;
        } else {
            self.turn(number, history)?;
        }
        self.check(history)
    }

    fn finish(&mut self, ending: Ending, history: &mut History) -> Result<(), Fault> {
        match ending {
            Ending::Crashed => {
                (0..self.brokers.len()).try_for_each(|number| self.restart(number, history))?;
            }
            Ending::Closed => self.finish_commands(history)?,
        }
        self.end_delay(history)?;
        self.check(history)?;
        let store = self.store.underneath();
        let observed: Vec<_> =
            store.state().keys().map(|key| (key, store.state().tally(key).seen())).collect();
        history.tell(format_args!("ends with state {:016x}", store.state().hash()));
        self.oracle.settle(observed)?;
        for key in self.workload.keys().to_vec() {
            let bodies = self.store.underneath().bodies(key).to_vec();
            for (offset, body) in (0..).zip(&bodies) {
                self.oracle.body(key, offset, Some(body))?;
            }
            self.oracle.body(key, bodies.len() as u64, None)?;
        }
        self.check(history)
    }
}

/// What all values come to.
fn sum(state: &State) -> i128 {
    state.keys().map(|key| i128::from(state.tally(key).value)).sum()
}

fn check_snapshot(state: &State, max_bytes: u64) -> Result<(), Fault> {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut restored = State::default();
    let mut from = None;
    loop {
        let (chunk, next) = state.snapshot(from, max_bytes);
        restored.restore(&chunk).map_err(|error| Fault::Invariant(error.to_string()))?;
        if next.is_none() {
            break;
        }
        from = next;
    }
    ensure(restored == *state, || "a snapshot does not restore the state it was of".to_owned())
}
