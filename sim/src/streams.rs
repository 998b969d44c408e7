//! The world of one server with the streams room in it, sometimes with another beside it.
//!
//! See [`crate::server`] for what goes wrong and what must hold. Besides that, producers repeat
//! what was not answered under the same sequence, the operator's clock jumps while messages wait
//! for their time, and what is not kept any more is taken away only some time after it was decided.

mod asked;
pub mod brokers;
mod oracle;
mod workload;

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_house::House;
use handoff_log::journal::{Purpose, Refused};
use handoff_log::segments::{Lane, Read};
use handoff_store_embedded::{Applied, Host, Persist, Reader};
use handoff_streams::{
    Action, Change, Command, Message, Reply, ScheduledId, State, Status, Streams,
};
use handoff_types::{Entropy, Machine, Now, Sight, Span};

use self::asked::{Asked, Look};
pub(crate) use self::asked::{kind, why, words};
use self::oracle::Oracle;
pub use self::oracle::Violation;
use self::workload::Workload;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
use crate::house::Keeping;
pub use crate::server::Parts;
use crate::server::{
    Act, Decided, Deed, Excuses, Flat, Household, Lodger, Rooms, Server, Site, Tenant,
};

/// A machine that speaks of streams.
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
    type Rooms = Streaming<Streams>;
}

/// A server with the streams room.
pub type Streamed<P> = Server<P>;

/// What a message takes in a batch and in changes, besides its own bytes.
const MESSAGE_BYTES: u64 = 200;

/// What a batch or a change of a partition takes.
const BATCH_BYTES: u64 = 200;

/// The streams room, or one that is twisted, and whoever uses it.
#[derive(Debug)]
pub struct Streaming<M> {
    workload: Workload,
    oracle: Oracle,
    /// What the server has yet to take away.
    owed: Vec<Action>,
    machine: PhantomData<M>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Rooms for Streaming<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let mut rooms: Vec<Box<dyn Lodger>> = vec![Box::new(Flat::new(Self::new(dice)))];
        let neighbour = dice.one_in(3);
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let deed = |deed| Act::Room(0, deed);
        let mut temper = vec![
            (between(150, 300), deed(Deed::Command)),
            (between(10, 100), Act::Commit),
            (between(20, 60), deed(Deed::Tick)),
            (between(2, 25), deed(Deed::Copy)),
            (between(2, 15), deed(Deed::Sync)),
            (between(3, 50), deed(Deed::Checkpoint)),
            (20, deed(Deed::Read)),
            (between(5, 20), deed(Deed::Retain)),
            (between(0, 10), Act::Strike),
            (between(10, 20), Act::Mend),
            (between(0, 20), Act::Halt),
            (between(0, 10), Act::Restart),
        ];
        if neighbour {
            temper.extend([
                (between(10, 60), Act::Room(1, Deed::Command)),
                (between(3, 20), Act::Room(1, Deed::Checkpoint)),
            ]);
            rooms.push(Box::new(Flat::new(Keeping::<House>::new(dice))));
        }
        Household { rooms, temper }
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

impl<M> Streaming<M> {
    fn new(dice: &mut Dice) -> Self {
        let workload = Workload::new(dice.fork());
        Self { workload, oracle: Oracle::default(), owed: Vec::new(), machine: PhantomData }
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Streaming<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = true;

    fn hash(state: &State) -> u64 {
        Look::hash(state)
    }

    fn check_alike(&self, live: &State, rebuilt: &State, now: Now) -> Result<(), Fault> {
        let differs = || "a state read back answers otherwise than the living one".to_owned();
        ensure(live == rebuilt, differs)?;
        ensure(M::next_deadline(live, now) == M::next_deadline(rebuilt, now), differs)
    }

    fn say(command: &Command) -> String {
        words(command)
    }

    fn sort(command: &Command) -> (&'static str, Purpose, Vec<Bytes>) {
        let purpose = match command {
            Command::CreateTopic { .. }
            | Command::GrowTopic { .. }
            | Command::Produce { .. }
            | Command::RegisterProducer { .. } => Purpose::Accept,
            _ => Purpose::Finish,
        };
        (kind(command), purpose, Vec::new())
    }

    fn apply(
        host: &mut Host<M>,
        command: &Command,
        _: Vec<Bytes>,
        purpose: Purpose,
        chance: (Now, Entropy),
    ) -> Result<Applied<M>, Refused> {
        let bytes = bytes_of(command, host.state());
        host.apply_made(command, bytes, purpose, chance)
    }

    fn decided(&mut self, decided: Decided<Self>, state: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        Asked { now, command, reply, actions, look: Look::at(state), among: None }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        history.tell(format_args!("{asked}"));
        tell(&asked, history);
        self.workload.heard(&asked.reply);
        self.oracle.answered(&asked)?;
        let takes_away =
            |action: &Action| !matches!(action, Action::Published { .. } | Action::Made(_));
        self.owed.extend(asked.actions.iter().filter(|action| takes_away(action)));
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        self.workload.lost(&asked.command);
        kind(&asked.command)
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, _: Now) -> Result<usize, Fault> {
        self.owed.clear();
        Ok(self.oracle.recovered(&lost, &Look::at(state))?)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        match deed {
            Deed::Command => flat.somebody_asks(site, history),
            Deed::Tick => flat.drive(site, history),
            Deed::Copy => flat.copy(site, history),
            Deed::Sync => flat.sync(site, history),
            Deed::Read => flat.read(site, history),
            Deed::Retain => flat.take_away(site, history),
            Deed::Checkpoint | Deed::Settle => Ok(()),
        }
    }

    /// Batches make a round of many sectors, and that can be torn.
    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..site.dice.below(6) {
            let Some(life) = &flat.life else { return Ok(()) };
            let large = flat.tenant.workload.large(life.host.state(), site.clock.now());
            flat.send(&large, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        Command::CancelScheduled { id: ScheduledId(0), sight: Sight::All }
    }

    fn judge_bodies(&mut self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        judge_all(&host.reader(), &self.oracle, excuses)
    }

    fn look_at_bodies(&self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        judge_all(&host.reader(), &self.oracle, excuses)
    }

    fn settle(&mut self, state: &State, _: Now) -> Result<(), Fault> {
        let survived = self.oracle.recovered(&[], &Look::at(state))?;
        ensure(survived == 0, || "something happened that nobody asked for".to_owned())
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Flat<Streaming<M>> {
    fn somebody_asks(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let command = self.tenant.workload.next_command(life.host.state(), site.clock.now());
        self.send(&command, site, history).map(drop)
    }

    /// Time passes up to the deadline, mostly; sometimes the tick comes too early, or late.
    fn drive(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
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
        let tick = self.tenant.workload.tick();
        self.send(&tick, site, history).map(drop)
    }

    /// Reads a partition from somewhere, and at its end, where nothing may be yet.
    fn read(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let excuses = site.excuses();
        let partitions: Vec<_> = self.tenant.oracle.partitions().collect();
        let Some((id, start, end)) = site.dice.pick(&partitions).copied() else { return Ok(()) };
        let reader = life.host.reader();
        let ahead = life.host.state().partition(id).is_some_and(|live| live.end > end);
        let offset = start + site.dice.below(end - start + 1);
        let max_bytes = if site.dice.one_in(2) { 1 } else { site.dice.below(20_000) };
        let what = match reader.read(Lane(id.lane()), offset, max_bytes) {
            Ok(Read::Frames(frames)) => {
                let batches: Vec<Bytes> = frames.into_iter().map(|frame| frame.body).collect();
                self.tenant.oracle.read(id, offset, &batches)?;
                "batches read"
            }
            Ok(Read::End { .. } | Read::Trimmed { .. }) if offset == end => match ahead {
                true => "batch not durable yet",
                false => "nothing more to read",
            },
            Ok(Read::Corrupt { .. } | Read::End { .. }) if excuses.damage => "batch damaged",
            Err(_) if excuses.fault => "read failed",
            Ok(other) => {
                let what = format!("{id} at {offset} of {start} to {end}: {other:?}");
                return Err(Fault::Invariant(what));
            }
            Err(error) => {
                return Err(Fault::Invariant(format!("{id} at {offset}: {error}")));
            }
        };
        history.count(Kind::Storage, what);
        history.tell(format_args!("{id} at {offset}: {what}"));
        Ok(())
    }

    /// Takes away what is not kept any more, and what a crash left of partitions that are gone.
    fn take_away(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let lanes = life.host.lanes();
        let some = 1 + usize::try_from(site.dice.below(4)).unwrap_or(0);
        let some = some.min(self.tenant.owed.len());
        let owed: Vec<Action> = self.tenant.owed.drain(..some).collect();
        for action in owed {
            match action {
                Action::Drop { partition, below } => {
                    match lanes.trim(Lane(partition.lane()), below) {
                        Ok(start) => {
                            let words = format!("{partition} begins at {start}");
                            site.note("segments trimmed", &words, false, history)?;
                        }
                        Err(error) => {
                            self.tenant.owed.push(action);
                            site.note("trimming failed", &error.to_string(), true, history)?;
                        }
                    }
                }
                Action::Remove(partition) => {
                    lanes.remove(&[Lane(partition.lane())]);
                    site.note("lane removed", &partition.to_string(), false, history)?;
                }
                Action::Published { .. } | Action::Made(_) => {}
            }
        }
        // A decision that is not durable may have made a lane a stray; whoever is on the way to
        // the disk is not waited for here.
        if site.dice.one_in(4) && self.is_quiet() {
            let Some(life) = &self.life else { return Ok(()) };
            match life.host.strays() {
                Ok(strays) if strays.is_empty() => {}
                Ok(strays) => {
                    lanes.remove(&strays);
                    site.note("strays removed", &strays.len().to_string(), false, history)?;
                }
                Err(error) => site.note("strays not found", &error.to_string(), true, history)?,
            }
        }
        Ok(())
    }
}

/// Reads every message that somebody was told of and that is kept. A disk that is looked at may have
/// more: what was durable when the answer was not out yet.
fn judge_all(reader: &Reader, oracle: &Oracle, excuses: Excuses) -> Result<(), Fault> {
    for (id, start, end) in oracle.partitions() {
        let mut at = start;
        let mut bytes = 0;
        let mut whole = true;
        while at < end {
            match reader.read_below(Lane(id.lane()), at, end, 100_000) {
                Ok(Read::Frames(frames)) => {
                    let batches: Vec<Bytes> = frames.into_iter().map(|frame| frame.body).collect();
                    bytes += batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
                    at = oracle.read(id, at, &batches)?;
                }
                Ok(Read::Corrupt { to, .. }) if excuses.damage && to > at => {
                    (at, whole) = (to, false);
                }
                Err(_) if excuses.fault => return Ok(()),
                Ok(other) => {
                    let what = format!("{id} at {at} of {start} to {end}: {other:?}");
                    return Err(Fault::Invariant(what));
                }
                Err(error) => return Err(Fault::Invariant(format!("{id} at {at}: {error}"))),
            }
        }
        if whole {
            oracle.measured(id, bytes)?;
        }
    }
    Ok(())
}

/// What a command may write at most, as a server tells before it asks.
fn bytes_of(command: &Command, state: &State) -> u64 {
    let message = |message: &Message| message.bytes() as u64 + MESSAGE_BYTES;
    match command {
        Command::Produce { produce, .. } => {
            let partitions = state.topic(&produce.topic).map_or(0, |topic| topic.partitions);
            let batches = BATCH_BYTES * u64::from(partitions).min(produce.messages.len() as u64);
            produce.messages.iter().map(message).sum::<u64>() + batches
        }
        Command::CreateTopic { topic, .. } => BATCH_BYTES * u64::from(topic.partitions),
        Command::GrowTopic { partitions, .. } => BATCH_BYTES * u64::from(*partitions),
        Command::DeleteTopic { name } => {
            BATCH_BYTES * state.topic(name).map_or(0, |topic| u64::from(topic.partitions))
        }
        Command::Tick { limit, bytes_max, bounds } => {
            let counts = state.counts();
            let many = (counts.scheduled + counts.producers * 8).min(*limit) as u64;
            let bytes = counts.scheduled_bytes.min(bytes_max + bounds.message_bytes_max) as u64;
            bytes + (MESSAGE_BYTES + BATCH_BYTES) * many
        }
        _ => 0,
    }
}

/// A hash of everything in a state.
pub(crate) fn hash(state: &State) -> u64 {
    Look::hash(state)
}

/// Counts what came of something that was asked.
fn tell(asked: &Asked, history: &mut History) {
    let kind = kind(&asked.command);
    match &asked.reply {
        Reply::Refused(refusal) => {
            history.count(Kind::Refused, kind);
            history.count(Kind::Refusal, why(refusal));
        }
        Reply::Produced { results, .. } => {
            history.count(Kind::Acknowledged, kind);
            for result in results {
                let what = match (result.status, result.place) {
                    (Status::Stored, _) => "stored",
                    (Status::Duplicate, Some(_)) => "duplicate",
                    (Status::Duplicate, None) => "duplicate, place forgotten",
                    (Status::StoredAfterGap, _) => "stored after gap",
                    (Status::StoredLate, _) => "stored late",
                    (Status::Scheduled, _) => "scheduled",
                };
                history.count(Kind::Performed, what);
            }
        }
        Reply::Ticked { delivered, more } => {
            history.count(Kind::Acknowledged, kind);
            for _ in 0..*delivered {
                history.count(Kind::Performed, "scheduled message delivered");
            }
            if *more {
                history.count(Kind::Performed, "more is due");
            }
        }
        _ => history.count(Kind::Acknowledged, kind),
    }
    for action in &asked.actions {
        let what = match action {
            Action::Published { .. } => "published",
            Action::Drop { .. } => "to be dropped",
            Action::Remove(_) => "to be removed",
            Action::Made(_) => "made",
        };
        history.count(Kind::Performed, what);
    }
}
