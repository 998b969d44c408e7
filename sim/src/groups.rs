//! The world of one server with consumer groups in it.
//!
//! See [`crate::server`] for what goes wrong and what must hold. Besides that, consumers join, leave,
//! die and come back, poll and commit in any order, answer late and twice; the server looks after
//! what is due now and then, sometimes late. What is read for them is what is durable.
//!
//! At the end of every seed somebody does all the work there is: then every message of every group
//! is processed or dead.

mod asked;
pub mod brokers;
mod drain;
mod oracle;
mod workload;

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use bytes::Bytes;
use handoff_log::journal::{Purpose, Refused};
use handoff_log::segments::{Lane, Read};
use handoff_store_embedded::{Applied, Host, Persist, Reader};
use handoff_streams::batch::Record;
use handoff_streams::groups::{
    Body, Candidate, CommitOutcome, Fact, Found, GroupCommand, GroupName, GroupReply, MemberId,
    Position,
};
use handoff_streams::{Action, Command, Message, PartitionId, Reply, ScheduledId, State, Streams};
use handoff_types::{Entropy, Now, Sight, Span};

use self::asked::{Asked, Look, kind, why, words};
use self::oracle::Oracle;
use self::workload::Workload;
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
pub use crate::server::Parts;
use crate::server::{
    Act, Decided, Deed, Excuses, Flat, Household, Lodger, Rooms, Server, Site, Tenant,
};
pub use crate::streams::{Rules, Violation};

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Parts for Sound {
    type Rooms = Grouping<Streams>;
}

/// A server with groups.
pub type Grouped<P> = Server<P>;

/// How many messages whoever reads ahead reads more.
const AHEAD: u64 = 8;

/// What a change takes besides bodies.
const CHANGE_BYTES: u64 = 400;

/// The streams room, or one that is twisted, and its consumers.
#[derive(Debug)]
pub struct Grouping<M> {
    workload: Workload,
    oracle: Oracle,
    /// What the server has yet to take away.
    owed: Vec<Action>,
    turn: u64,
    machine: PhantomData<M>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Rooms for Grouping<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let tenant: Grouping<M> = Grouping {
            workload: Workload::new(dice.fork()),
            oracle: Oracle::default(),
            owed: Vec::new(),
            turn: 0,
            machine: PhantomData,
        };
        let rooms: Vec<Box<dyn Lodger>> = vec![Box::new(Flat::new(tenant))];
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let deed = |deed| Act::Room(0, deed);
        let temper = vec![
            (between(300, 600), deed(Deed::Command)),
            (between(40, 200), Act::Commit),
            (between(10, 50), deed(Deed::Tick)),
            (between(5, 20), deed(Deed::Copy)),
            (between(5, 15), deed(Deed::Sync)),
            (between(15, 40), deed(Deed::Checkpoint)),
            (5, deed(Deed::Retain)),
            (between(0, 5), Act::Strike),
            (between(5, 15), Act::Mend),
            (between(0, 8), Act::Halt),
            (between(0, 5), Act::Restart),
        ];
        Household { rooms, temper }
    }

    fn wall_step(dice: &mut Dice) -> i64 {
        dice.around(600) * 1_000_000
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Grouping<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = true;

    fn hash(state: &State) -> u64 {
        crate::streams::hash(state)
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
            | Command::Group(
                GroupCommand::Create { .. } | GroupCommand::Join { .. } | GroupCommand::Poll { .. },
            ) => Purpose::Accept,
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
        host.apply_made(command, bytes_of(command), purpose, chance)
    }

    fn decided(&mut self, decided: Decided<Self>, state: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        Asked { now, command, reply, actions, look: Look::at(state, now) }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        history.tell(format_args!("{asked}"));
        tell(&asked, history);
        self.workload.heard(&asked.command, &asked.reply);
        self.oracle.answered(&asked)?;
        let takes_away =
            |action: &Action| matches!(action, Action::Drop { .. } | Action::Remove(_));
        self.owed.extend(asked.actions.iter().filter(|action| takes_away(action)));
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        self.workload.lost(&asked.command);
        kind(&asked.command)
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, now: Now) -> Result<usize, Fault> {
        self.owed.clear();
        Ok(self.oracle.recovered(&lost, &Look::at(state, now))?)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        match deed {
            Deed::Command => {
                let Some(life) = &flat.life else { return Ok(()) };
                let now = site.clock.now();
                let command = flat.tenant.workload.next_command(life.host.state(), now);
                flat.ask_for(command, site, history)
            }
            Deed::Tick => flat.look_after(site, history),
            Deed::Copy => flat.copy(site, history),
            Deed::Sync => flat.sync(site, history),
            Deed::Retain => flat.take_away(site, history),
            Deed::Read | Deed::Checkpoint | Deed::Settle => Ok(()),
        }
    }

    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..site.dice.below(4) {
            let Some(life) = &flat.life else { return Ok(()) };
            let large = flat.tenant.workload.large(life.host.state());
            flat.send(&large, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        Command::CancelScheduled { id: ScheduledId(0), sight: Sight::All }
    }

    fn judge_bodies(&mut self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        self.look_at_bodies(host, excuses)
    }

    fn look_at_bodies(&self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        let reader = host.reader();
        for (id, start, end) in self.oracle.partitions() {
            let mut at = start;
            while at < end {
                match reader.read_below(Lane(id.lane()), at, end, 100_000) {
                    Ok(Read::Frames(frames)) => {
                        let batches: Vec<Bytes> =
                            frames.into_iter().map(|frame| frame.body).collect();
                        at += self.oracle.read(id, at, &batches)?.len() as u64;
                    }
                    Ok(Read::Corrupt { to, .. }) if excuses.damage && to > at => at = to,
                    Err(_) if excuses.fault => return Ok(()),
                    other => {
                        let what = format!("{id} at {at} of {start} to {end}: {other:?}");
                        return Err(Fault::Invariant(what));
                    }
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self, state: &State, now: Now) -> Result<(), Fault> {
        let survived = self.oracle.recovered(&[], &Look::at(state, now))?;
        ensure(survived == 0, || "something happened that nobody asked for".to_owned())?;
        drain::drain::<M>(&mut self.oracle, state, now)
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Flat<Grouping<M>> {
    /// Reads what has to be read for a command, and sends it.
    fn ask_for(
        &mut self,
        mut command: Command,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        let (state, reader) = (life.host.state(), life.host.reader());
        let eyes = Eyes { reader: &reader, oracle: &self.tenant.oracle, excuses: site.excuses() };
        self.tenant.turn += 1;
        let (unread, ahead) = (site.dice.one_in(20), site.dice.one_in(5));
        let read = match &mut command {
            Command::Group(GroupCommand::Poll { .. }) => {
                eyes.find(&mut command, state, now, (self.tenant.turn, ahead))?
            }
            Command::Group(GroupCommand::Replay { letters, .. }) => eyes.fill(letters)?,
            Command::Group(GroupCommand::Commit { .. } | GroupCommand::Sweep { .. }) if !unread => {
                let reads = Streams::reads(state, &command, now);
                let all = reads.into_iter().flat_map(|(partition, offsets)| {
                    offsets.map(move |offset| Body { partition, offset, record: None })
                });
                let mut read: Vec<Body> = all.collect();
                let whole = eyes.fill(&mut read)?;
                if let Command::Group(
                    GroupCommand::Commit { bodies, .. } | GroupCommand::Sweep { bodies, .. },
                ) = &mut command
                {
                    bodies.extend(read);
                }
                whole
            }
            _ => true,
        };
        if !read {
            history.count(Kind::Storage, "could not be read");
            return Ok(());
        }
        self.send(&command, site, history).map(drop)
    }

    /// Time passes up to what is due, mostly, and somebody looks after it.
    fn look_after(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        match site.dice.below(4) {
            0 => site.clock.pass(Span::from_millis(site.dice.below(4_000))),
            1 => site.clock.pass(Span::from_millis(site.dice.below(40_000))),
            _ => {
                if let Some(deadline) = life.host.next_deadline(now) {
                    site.clock.pass(deadline.since(now.steady).min(Span::from_secs(30)));
                }
            }
        }
        let now = site.clock.now();
        if site.dice.one_in(6) {
            return self.send(&Workload::tick(), site, history).map(drop);
        }
        let Some(life) = &self.life else { return Ok(()) };
        let sweep = self.tenant.workload.sweep(life.host.state(), now);
        self.ask_for(sweep, site, history)
    }

    /// Takes away what is not kept any more.
    fn take_away(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let lanes = life.host.lanes();
        for action in std::mem::take(&mut self.tenant.owed) {
            match action {
                Action::Drop { partition, below } => {
                    match lanes.trim(Lane(partition.lane()), below) {
                        Ok(_) => site.note("segments trimmed", "", false, history)?,
                        Err(error) => {
                            site.note("trimming failed", &error.to_string(), true, history)?;
                        }
                    }
                }
                Action::Remove(partition) => lanes.remove(&[Lane(partition.lane())]),
                Action::Published { .. } | Action::Made(_) => {}
            }
        }
        Ok(())
    }
}

/// Reads messages as the server does, and lets the oracle judge them.
struct Eyes<'a> {
    reader: &'a Reader,
    oracle: &'a Oracle,
    excuses: Excuses,
}

/// What was found where something was to be read.
#[derive(Debug, Default)]
struct Run {
    records: Vec<Record>,
    kept: u64,
    damaged: Option<(u64, u64)>,
}

impl Eyes<'_> {
    /// Reads offsets up to the first that is not there. None: the disk failed.
    fn run(&self, id: PartitionId, offsets: &RangeInclusive<u64>) -> Result<Option<Run>, Fault> {
        let mut run = Run::default();
        // What is left of a topic that is gone is nobody's.
        if !self.oracle.partitions().any(|(known, ..)| known == id) {
            return Ok(Some(run));
        }
        let mut at = *offsets.start();
        while at <= *offsets.end() {
            match self.reader.read(Lane(id.lane()), at, 2_000) {
                Ok(Read::Frames(frames)) => {
                    let batches: Vec<Bytes> = frames.into_iter().map(|frame| frame.body).collect();
                    let records = self.oracle.read(id, at, &batches)?;
                    at += records.len() as u64;
                    run.records.extend(records);
                }
                Ok(Read::End { .. }) => break,
                Ok(Read::Trimmed { start }) => {
                    run.kept = start;
                    at = start.max(at + 1);
                }
                Ok(Read::Corrupt { from, to }) if self.excuses.damage => {
                    run.damaged = Some((from, to));
                    break;
                }
                Err(_) if self.excuses.fault => return Ok(None),
                other => return Err(Fault::Invariant(format!("{id} at {at}: {other:?}"))),
            }
        }
        run.records.retain(|record| record.offset <= *offsets.end());
        Ok(Some(run))
    }

    /// Reads what a member may be handed; if it reads ahead, more than that.
    fn find(
        &self,
        command: &mut Command,
        state: &State,
        now: Now,
        (turn, ahead): (u64, bool),
    ) -> Result<bool, Fault> {
        let Command::Group(GroupCommand::Poll { group, member, max_messages, found, .. }) = command
        else {
            return Ok(true);
        };
        let mut candidates = state.candidates(group, *member, *max_messages, now, turn);
        if ahead {
            look_further(&mut candidates, state, group, *member);
        }
        for candidate in candidates {
            let partition = candidate.partition;
            let mut one = Found { partition, ..Found::default() };
            let fresh = candidate.next..=candidate.next + candidate.count.max(1) - 1;
            let fresh = (candidate.count > 0).then_some(fresh);
            let waiting = candidate.waiting.iter().map(|(first, last)| *first..=*last);
            for offsets in waiting.chain(fresh) {
                if one.damaged.is_some() {
                    break;
                }
                let Some(run) = self.run(partition, &offsets)? else { return Ok(false) };
                one.kept = one.kept.max(run.kept);
                one.damaged = run.damaged;
                one.facts.extend(run.records.iter().map(Fact::of));
            }
            found.push(one);
        }
        Ok(true)
    }

    /// Reads messages one by one.
    fn fill(&self, bodies: &mut [Body]) -> Result<bool, Fault> {
        for body in bodies {
            let Some(run) = self.run(body.partition, &(body.offset..=body.offset))? else {
                return Ok(false);
            };
            body.record = run.records.into_iter().find(|record| record.offset == body.offset);
        }
        Ok(true)
    }
}

/// Whoever reads ahead knows more of every partition than the room said it could use. What it may use
/// of it the room decides.
fn look_further(
    candidates: &mut Vec<Candidate>,
    state: &State,
    group: &GroupName,
    member: MemberId,
) {
    let Some(group) = state.group(group) else { return };
    let members = state.members(group.id);
    let assigned = members.and_then(|all| Some(all.members.get(&member)?.assigned.clone()));
    for partition in assigned.unwrap_or_default() {
        let next = state.position(group.id, partition).map_or(0, Position::next);
        match candidates.iter_mut().find(|one| one.partition == partition) {
            Some(known) => known.count += AHEAD,
            None => {
                let waiting = Vec::new();
                candidates.push(Candidate { partition, waiting, next, count: AHEAD });
            }
        }
    }
}

/// What a command may write at most, as a server tells before it asks.
fn bytes_of(command: &Command) -> u64 {
    let messages = |messages: &[Message]| {
        messages.iter().map(|message| message.bytes() as u64 + CHANGE_BYTES).sum::<u64>()
    };
    let bodies = |bodies: &[Body]| {
        let bytes = |body: &Body| {
            let record = body.record.as_ref();
            let payload = record.and_then(|record| record.payload.as_ref());
            payload.map_or(0, |payload| payload.len() as u64) + 2 * CHANGE_BYTES
        };
        bodies.iter().map(bytes).sum::<u64>()
    };
    match command {
        Command::Produce { produce, .. } => messages(&produce.messages),
        Command::Group(GroupCommand::Commit { produce, bodies: read, results, .. }) => {
            let sent = produce.iter().map(|request| messages(&request.messages));
            sent.sum::<u64>() + bodies(read) + CHANGE_BYTES * results.len() as u64
        }
        Command::Group(GroupCommand::Sweep { bodies: read, .. }) => {
            bodies(read) + 10 * CHANGE_BYTES
        }
        Command::Group(GroupCommand::Replay { letters, .. }) => bodies(letters),
        Command::Group(GroupCommand::Poll { found, .. }) => {
            let facts = |found: &Found| found.facts.len() as u64 * 16 + CHANGE_BYTES;
            found.iter().map(facts).sum()
        }
        _ => 10 * CHANGE_BYTES,
    }
}

/// Counts what came of something that was asked.
fn tell(asked: &Asked, history: &mut History) {
    let kind = kind(&asked.command);
    let mut did = |what: &'static str, count: u64| {
        for _ in 0..count {
            history.count(Kind::Performed, what);
        }
    };
    match &asked.reply {
        Reply::Group(GroupReply::Polled { batches, .. }) => {
            for batch in batches {
                let again = if batch.attempt > 1 { "handed out again" } else { "handed out" };
                did(again, batch.count);
            }
        }
        Reply::Group(GroupReply::Committed { results, .. }) => {
            for result in results {
                let what = match result.outcome {
                    CommitOutcome::Done => "committed",
                    CommitOutcome::Late => "committed late",
                    CommitOutcome::Fenced => "fenced",
                };
                did(what, 1);
            }
        }
        Reply::Group(GroupReply::Swept { gone, returned, dead, .. }) => {
            did("member gone", gone.len() as u64);
            did("came back", *returned);
            did("swept to death", *dead);
        }
        Reply::Group(GroupReply::Wants(_)) => did("had to be read", 1),
        Reply::Group(GroupReply::Replayed(results)) => {
            for result in results {
                did(if result.outcome.place().is_some() { "replayed" } else { "not replayed" }, 1);
            }
        }
        Reply::Group(GroupReply::Sought { preview, partitions }) if !preview => {
            did("lease voided by a seek", partitions.iter().map(|one| one.voided).sum());
        }
        _ => {}
    }
    if let Reply::Refused(refusal) = &asked.reply {
        history.count(Kind::Refused, kind);
        history.count(Kind::Refusal, why(refusal));
    } else {
        history.count(Kind::Acknowledged, kind);
    }
    if asked.actions.iter().any(|action| matches!(action, Action::Made(_))) {
        history.count(Kind::Performed, "topic for letters made");
    }
}
