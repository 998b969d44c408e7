//! The world of two brokers with consumer groups over one store: any request goes to any broker.
//!
//! See [`crate::streams::brokers`] for what goes wrong. A consumer changes brokers from one request
//! to the next. What a poll is asked with, and what may die, is read at the broker's own pace, on
//! what it has cached, which may be old.
//!
//! What must hold: in the order of the commits every answer is one the oracle allows, so nobody is
//! handed what another holds; what was decided on a part of the state is what would have been
//! decided on all of it; in the end every message of every group is processed or dead.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use handoff_streams::groups::GroupCommand;
use handoff_streams::memory::Memory;
use handoff_streams::port::{Batches, Failed, Store};
use handoff_streams::{Action, Broker, Command, Reply, Rules, State, Streams};
use handoff_types::{Entropy, Now, Span, Steady, Wall};

use super::asked::{Asked, Look, kind, words};
use super::oracle::Oracle;
use super::workload::Workload;
use super::{drain, tell};
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World, ensure};
use crate::history::{History, Kind};
use crate::streams::brokers::shared::{Committed, Shared};
pub use crate::streams::brokers::{Honest, Meddle};

/// Once in how many steps a broker restarts.
const RESTART: u64 = 120;

/// Once in how many steps time leaps.
const LEAP: u64 = 25;

/// Once in how many steps it leaps far.
const SLEEP: u64 = 250;

/// Once in how many steps the operator sets the clock.
const WALL_SET: u64 = 100;

/// Once in how many commands a broker looks after what is due.
const SWEEP: u64 = 10;

/// Once in how many commands a broker does what else is due.
const TICK: u64 = 60;

/// Once in how many steps a commit that nobody waits for arrives.
const LATE: u64 = 8;

/// How many turns commands may take when nothing new begins.
const TURNS_MAX: usize = 10_000;

type Answer = Result<(Command, Reply, Vec<Action>), Failed>;

/// Two brokers, their consumers, and the oracle that watches.
pub struct Brokered<M, D = Honest> {
    shared: Shared<D>,
    parties: [Party<M, D>; 2],
    workload: Workload,
    oracle: Oracle,
    dice: Dice,
    wall: i64,
    steady: u64,
    turn: u64,
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
        let shared = Shared::new(Memory::default(), dice.fork());
        let workload = Workload::new(dice.fork());
        let party = |number| {
            let broker = Arc::new(Broker::new(shared.for_party(number)));
            Party { broker, task: None }
        };
        let parties = [party(0), party(1)];
        let (oracle, wall) = (Oracle::default(), 1_700_000_000_000_000);
        Self { shared, parties, workload, oracle, dice, wall, steady: 0, turn: 0 }
    }

    fn pass(&mut self, span: Span) {
        self.steady += span.0;
        self.wall = self.wall.saturating_add_unsigned(span.0);
    }

    fn pass_time(&mut self, history: &mut History) {
        let pause = Span::from_micros(self.dice.below(50_000));
        self.pass(pause);
        for (once_in, most) in [(LEAP, 5_000), (SLEEP, 200_000)] {
            if self.dice.one_in(once_in) {
                let leap = Span::from_millis(self.dice.below(most));
                self.pass(leap);
                history.count(Kind::Injected, "time leaps");
            }
        }
        if self.dice.one_in(WALL_SET) {
            let step = self.dice.around(600) * 1_000_000;
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
        let Some(party) = self.parties.get_mut(number) else { return Ok(()) };
        if party.task.is_none() {
            if !begins {
                return Ok(());
            }
            let state = self.shared.memory().look(State::clone);
            let command = match self.dice.below(TICK) {
                0 => Workload::tick(),
                _ if self.dice.one_in(SWEEP) => self.workload.sweep(&state, now),
                _ => self.workload.next_command(&state, now),
            };
            let entropy = self.dice.entropy();
            self.turn += 1;
            history.count(Kind::Sent, kind(&command));
            history.tell(format_args!("broker {number} at {now}: {}", words(&command)));
            let way = self.shared.for_party(number);
            party.task =
                Some(begin(Arc::clone(&party.broker), way, number, command, entropy, self.turn));
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
            Some((_, Ok((command, reply, actions)))) => {
                let said = self.shared.decided(number);
                let told = said.as_ref() == Some(&(reply.clone(), actions));
                ensure(told, || {
                    format!("{} is answered with {reply:?}, not {said:?}", words(&command))
                })?;
                self.workload.heard(&command, &reply);
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
            let Committed { party, now, command, state, seen, whole, reply, actions, .. } =
                committed;
            let asked = Asked { now, command, reply, actions, look: Look::at(&state, now) };
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

    /// Reads everything there is.
    fn read(&self) -> Result<(), Fault> {
        for (id, start, end) in self.oracle.partitions() {
            let mut at = start;
            while at < end {
                let mut reading = Box::pin(self.shared.memory().read(id, at, usize::MAX));
                let read = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                let Poll::Ready(Ok(Batches::Some(batches))) = read else {
                    return Err(Fault::Invariant(format!("{id} at {at}: {read:?}")));
                };
                at += self.oracle.read(id, at, &batches)?.len() as u64;
            }
        }
        Ok(())
    }
}

fn begin<M: Rules + 'static, D: Meddle>(
    broker: Arc<Broker<Shared<D>, M>>,
    way: Shared<D>,
    number: usize,
    command: Command,
    entropy: Entropy,
    turn: u64,
) -> Task {
    let asked = command.clone();
    let future = Box::pin(async move {
        let command = complete(&broker, command, turn).await?;
        way.begins(number, &command, entropy);
        let (reply, actions) = broker.execute(&command, entropy).await?;
        Ok((command, reply, actions))
    });
    Task { command: asked, future }
}

/// Reads what a command needs, as a broker does.
async fn complete<M: Rules, D: Meddle>(
    broker: &Broker<Shared<D>, M>,
    mut command: Command,
    turn: u64,
) -> Result<Command, Failed> {
    let now = broker.store().now();
    let reads = match &command {
        Command::Group(GroupCommand::Commit { .. } | GroupCommand::Sweep { .. }) => {
            let needs = |state: &State| M::needs(state, &command);
            broker.look(needs, |state| Streams::reads(state, &command, now)).await?
        }
        _ => Vec::new(),
    };
    match &mut command {
        Command::Group(GroupCommand::Poll {
            group,
            member,
            max_messages,
            max_bytes,
            found,
            ..
        }) => {
            let most = (*max_messages, *max_bytes);
            *found = broker.find(group, *member, most, turn).await?.0;
        }
        Command::Group(
            GroupCommand::Commit { bodies, .. } | GroupCommand::Sweep { bodies, .. },
        ) => bodies.extend(broker.bodies(&reads).await?),
        Command::Group(GroupCommand::Replay { letters, .. }) => {
            let reads = letters.iter().map(|one| (one.partition, one.offset..=one.offset));
            *letters = broker.bodies(&reads.collect()).await?;
        }
        _ => {}
    }
    Ok(command)
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
        self.read()?;
        let (state, now) = (self.shared.memory().look(State::clone), self.now());
        self.oracle.recovered(&[], &Look::at(&state, now))?;
        history.tell(format_args!("ends with state {:016x}", crate::streams::hash(&state)));
        drain::drain::<M>(&mut self.oracle, &state, now)
    }
}
