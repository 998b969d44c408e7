//! The world of two brokers of streams over one store: the PostgreSQL room without PostgreSQL.
//!
//! Any broker decides any command on aggregates it has cached, and compares and sets. Every call to
//! the store takes turns, so that the brokers' commands run through each other.
//!
//! What goes wrong here: the store fails before or after a commit, conflicts without a reason, a
//! commit that nobody waits for any more is made late, a broker restarts and has lost its cache and
//! what it was doing, the operator's clock jumps, time passes in leaps.
//!
//! What must hold: in the order of the commits every answer is one the oracle allows; what was
//! decided on a part of the state is what would have been decided on all of it; everything that was
//! committed is read as it was.
//!
//! What needs to see everything is not asked here: how many topics, producers and waiting messages
//! there are in all. A tick does what is due among what its broker found or knows.

pub(crate) mod shared;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use handoff_streams::memory::Memory;
use handoff_streams::port::{Batches, Failed, Store};
use handoff_streams::{Action, Broker, Command, Reply, Rules, State};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

use self::shared::{Committed, Shared};
pub use self::shared::{Honest, Meddle};
use super::asked::{Asked, Look, kind, words};
use super::oracle::Oracle;
use super::tell;
use super::workload::Workload;
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World, ensure};
use crate::history::{History, Kind};

/// Once in how many steps a broker restarts.
const RESTART: u64 = 120;

/// Once in how many steps time leaps.
const LEAP: u64 = 60;

/// Once in how many steps the operator sets the clock.
const WALL_SET: u64 = 60;

/// Once in how many commands a broker does what is due.
const TICK: u64 = 10;

/// Once in how many steps somebody reads.
const READ: u64 = 12;

/// Once in how many steps a commit that nobody waits for arrives.
const LATE: u64 = 8;

/// How many turns commands may take when nothing new begins.
const TURNS_MAX: usize = 10_000;

type Answer = Result<(Reply, Vec<Action>), Failed>;

/// Two brokers, their callers, and the oracle that watches.
pub struct Brokered<M, D = Honest> {
    shared: Shared<D>,
    parties: [Party<M, D>; 2],
    workload: Workload,
    oracle: Oracle,
    dice: Dice,
    wall: i64,
    steady: u64,
}

impl<M, D> fmt::Debug for Brokered<M, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokered").field("oracle", &self.oracle).finish_non_exhaustive()
    }
}

/// A broker and what it is doing.
struct Party<M, D> {
    broker: Arc<Broker<Shared<D>, M>>,
    task: Option<Task>,
}

struct Task {
    command: Command,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

impl<M: Rules + 'static, D: Meddle> Brokered<M, D> {
    /// Two brokers over an empty store.
    #[must_use]
    pub fn new(mut dice: Dice) -> Self {
        let memory = Memory::default();
        let shared = Shared::new(memory, dice.fork());
        let workload = Workload::of_brokers(dice.fork());
        let party = |number| {
            let broker = Arc::new(Broker::new(shared.for_party(number)));
            Party { broker, task: None }
        };
        let parties = [party(0), party(1)];
        let (oracle, wall) = (Oracle::default(), 1_700_000_000_000_000);
        Self { shared, parties, workload, oracle, dice, wall, steady: 0 }
    }

    fn pass(&mut self, span: Span) {
        self.steady += span.0;
        self.wall = self.wall.saturating_add_unsigned(span.0);
    }

    fn pass_time(&mut self, history: &mut History) {
        let pause = Span::from_micros(self.dice.below(100_000));
        self.pass(pause);
        if self.dice.one_in(LEAP) {
            let leap = Span::from_secs(self.dice.below(20_000));
            self.pass(leap);
            history.count(Kind::Injected, "time leaps");
        }
        if self.dice.one_in(WALL_SET) {
            let step = self.dice.around(86_400) * 1_000_000;
            self.wall = self.wall.saturating_add(step);
            let what = if step < 0 { "clock set back" } else { "clock set forward" };
            history.count(Kind::Injected, what);
            history.tell(format_args!("{what} by {step} µs"));
        }
        self.shared.memory().set_now(self.now());
    }

    fn now(&self) -> Now {
        Now { wall: Wall(self.wall), steady: Steady(self.steady) }
    }

    /// A broker goes on with what it does, or begins something.
    fn turn(&mut self, number: usize, begins: bool, history: &mut History) -> Result<(), Fault> {
        let now = self.now();
        let state = self.shared.memory().look(State::clone);
        let Some(party) = self.parties.get_mut(number) else { return Ok(()) };
        if party.task.is_none() {
            if !begins {
                return Ok(());
            }
            let command = match self.dice.one_in(TICK) {
                true => self.workload.tick(),
                false => self.workload.next_command(&state, now),
            };
            let entropy = self.dice.entropy();
            history.count(Kind::Sent, kind(&command));
            history.tell(format_args!("broker {number} at {now}: {}", words(&command)));
            self.shared.begins(number, &command, entropy);
            party.task = Some(begin(Arc::clone(&party.broker), command, entropy));
        }
        let Some(task) = &mut party.task else { return Ok(()) };
        let polled = task.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let done = match polled {
            Poll::Ready(answer) => party.task.take().map(|task| (task.command, answer)),
            Poll::Pending => None,
        };
        self.judge_commits(history)?;
        match done {
            None => Ok(()),
            Some((command, Ok((reply, actions)))) => {
                let said = self.shared.decided(number);
                let told = said.as_ref() == Some(&(reply.clone(), actions));
                ensure(told, || {
                    format!("{} is answered with {reply:?}, not {said:?}", words(&command))
                })?;
                self.workload.heard(&reply);
                Ok(())
            }
            Some((command, Err(failed))) => {
                history.count(Kind::Unknown, kind(&command));
                history.tell(format_args!("broker {number}: {failed}"));
                self.workload.lost(&command);
                Ok(())
            }
        }
    }

    /// Lets the oracle judge what was committed, in that order.
    fn judge_commits(&mut self, history: &mut History) -> Result<(), Fault> {
        for what in self.shared.take_notes() {
            history.count(Kind::Broker, what);
            history.tell(format_args!("{what}"));
        }
        for committed in self.shared.take_commits() {
            let Committed { party, now, command, state, among, seen, whole, reply, actions } =
                committed;
            let asked = Asked { now, command, reply, actions, look: Look::at(&state), among };
            history.tell(format_args!("broker {party}: {asked}"));
            tell(&asked, history);
            let alike = || {
                let asked = words(&asked.command);
                format!("{asked} was decided on a part as {seen:?}, on all of it as {whole:?}")
            };
            ensure(seen == whole, alike)?;
            self.oracle.answered(&asked)?;
        }
        Ok(())
    }

    fn restart(&mut self, history: &mut History) {
        let number = usize::from(self.dice.one_in(2));
        let Some(party) = self.parties.get_mut(number) else { return };
        let doing = party.task.take();
        history.count(Kind::Broker, "restarted");
        history.tell(format_args!("broker {number} restarts"));
        if let Some(task) = doing {
            history.count(Kind::Unknown, kind(&task.command));
            self.workload.lost(&task.command);
        }
        party.broker = Arc::new(Broker::new(self.shared.for_party(number)));
    }

    /// Reads a partition, all of it or from somewhere, and at its end.
    fn read(&mut self, whole: bool, history: &mut History) -> Result<(), Fault> {
        let partitions: Vec<_> = self.oracle.partitions().collect();
        let some: Vec<_> = match whole {
            true => partitions,
            false => self.dice.pick(&partitions).copied().into_iter().collect(),
        };
        for (id, start, end) in some {
            let mut at = if whole { start } else { start + self.dice.below(end - start + 1) };
            let max_bytes = if whole { usize::MAX } else { 600 };
            loop {
                let mut reading = Box::pin(self.shared.memory().read(id, at, max_bytes));
                let read = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                let Poll::Ready(Ok(read)) = read else {
                    return Err(Fault::Invariant(format!("{id} cannot be read")));
                };
                match read {
                    Batches::Some(batches) => {
                        history.count(Kind::Broker, "batches read");
                        at = self.oracle.read(id, at, &batches)?;
                    }
                    Batches::End { end: found } if found == end && at >= end => break,
                    other => {
                        let what = format!("{id} at {at} of {start} to {end}: {other:?}");
                        return Err(Fault::Invariant(what));
                    }
                }
                if !whole {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn begin<M: Rules + 'static, D: Meddle>(
    broker: Arc<Broker<Shared<D>, M>>,
    command: Command,
    entropy: Entropy,
) -> Task {
    let asked = command.clone();
    let future = Box::pin(async move { broker.execute(&asked, entropy).await });
    Task { command, future }
}

impl<M: Rules + 'static, D: Meddle> World for Brokered<M, D> {
    fn step(&mut self, history: &mut History) -> Result<(), Fault> {
        self.pass_time(history);
        if self.dice.one_in(RESTART) {
            self.restart(history);
        }
        if self.dice.one_in(LATE) {
            self.shared.late_commit();
            self.judge_commits(history)?;
        }
        if self.dice.one_in(READ) {
            self.read(false, history)?;
        }
        let number = usize::from(self.dice.one_in(2));
        self.turn(number, true, history)
    }

    fn finish(&mut self, ending: Ending, history: &mut History) -> Result<(), Fault> {
        if ending == Ending::Closed {
            let mut turns = 0;
            while self.parties.iter().any(|party| party.task.is_some()) {
                turns += 1;
                ensure(turns < TURNS_MAX, || "a command never ends".to_owned())?;
                self.turn(turns % 2, false, history)?;
            }
        }
        self.parties.iter_mut().for_each(|party| party.task = None);
        self.judge_commits(history)?;
        self.read(true, history)?;
        let state = self.shared.memory().look(State::clone);
        self.oracle.recovered(&[], &Look::at(&state))?;
        history.tell(format_args!("ends with state {:016x}", Look::hash(&state)));
        Ok(())
    }
}
