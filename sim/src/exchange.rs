//! The world of one server with the exchange in it.
//!
//! See [`crate::server`] for what goes wrong and what must hold. Besides that, devices and ERPs are not
//! to be relied on, and neither is the network between: requests and answers are lost, come late and
//! come twice; ERPs die before and after their database commits, freeze for longer than they may and go
//! on as if nothing had been. What a database committed is a fact of this world, and nobody tells the
//! server but the ERP.
//!
//! At the end of every seed the ERPs that are left do all the work there is: then nothing is lost,
//! nothing was processed twice, and of what nobody can know people were told.

mod asked;
mod databases;
mod drain;
mod folders;
mod oracle;
mod workload;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_exchange::{
    Action, Ask, Begun, Change, Command, Exchange, Happened, NewMessage, Phase, Process, Reply,
    State, Step,
};
use handoff_log::disk::Disk;
use handoff_log::journal::{Journal, Purpose, Refused};
use handoff_log::segments::{Lane, Segments};
use handoff_store_embedded::{Applied, Frame, Host, Loading, Persist};
use handoff_types::{Entropy, Machine, Now, Span, Wall};

use self::asked::{Asked, Look, What, kind, why, why_cancelled, words};
use self::databases::Databases;
use self::folders::Hand;
use self::oracle::Oracle;
pub use self::oracle::Violation;
use self::workload::{Who, Workload};
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
pub use crate::server::Parts;
use crate::server::{
    Act, Decided, Deed, Excuses, Flat, Household, Lodger, Rooms as Lodgings, Server, Site, Tenant,
};

/// A machine that speaks of the exchange.
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
    type Rooms = Exchanging<Exchange>;
}

/// A server with the exchange.
pub type Exchanged<P> = Server<P>;

/// More rounds than the folders need once the disk is well.
const FILING_ROUNDS: usize = 40;

/// What a change takes besides bodies.
const CHANGE_BYTES: u64 = 260;

/// The exchange, or one that is twisted, and whoever uses it.
#[derive(Debug)]
pub struct Exchanging<M> {
    workload: Workload,
    oracle: Oracle,
    databases: Databases,
    /// Who asks what is sent next.
    who: Who,
    /// The server has said that it is there.
    opened: bool,
    /// Processes whose files are not all where they belong, where nobody keeps folders.
    owed: Vec<(u64, u8)>,
    /// Somebody does.
    files: bool,
    /// Whoever does, while a server runs.
    hand: Option<Hand>,
    machine: PhantomData<M>,
}

impl<M: Persist + Rules + fmt::Debug + 'static> Lodgings for Exchanging<M> {
    fn move_in(dice: &mut Dice) -> Household {
        let tenant: Exchanging<M> = Exchanging {
            workload: Workload::new(dice.fork()),
            oracle: Oracle::default(),
            databases: Databases::default(),
            who: Who::Nobody,
            opened: false,
            owed: Vec::new(),
            files: dice.one_in(2),
            hand: None,
            machine: PhantomData,
        };
        let rooms: Vec<Box<dyn Lodger>> = vec![Box::new(Flat::new(tenant))];
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let deed = |deed| Act::Room(0, deed);
        let temper = vec![
            (between(400, 700), deed(Deed::Command)),
            (between(200, 450), Act::Commit),
            (between(10, 40), deed(Deed::Tick)),
            (between(20, 60), deed(Deed::Settle)),
            (between(10, 30), deed(Deed::Copy)),
            (between(5, 15), deed(Deed::Sync)),
            (between(10, 30), deed(Deed::Checkpoint)),
            (between(20, 60), deed(Deed::Read)),
            (between(1, 8), deed(Deed::Retain)),
            (between(0, 5), Act::Strike),
            (between(5, 15), Act::Mend),
            (between(0, 8), Act::Halt),
            (between(0, 6), Act::Restart),
        ];
        Household { rooms, temper }
    }

    fn wall_step(dice: &mut Dice) -> i64 {
        match dice.below(3) {
            0 => dice.around(86_400) * 1_000_000,
            _ => dice.around(600) * 1_000_000,
        }
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Tenant for Exchanging<M> {
    type Room = M;
    type Asked = Asked;
    const HAS_BODIES: bool = true;

    fn hash(state: &State) -> u64 {
        asked::hash(state)
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
        let purpose = match &command.ask {
            Ask::Admin(_)
            | Ask::Post { .. }
            | Ask::TakeIn { .. }
            | Ask::Begin { .. }
            | Ask::Process { step: Step::Prepare { .. }, .. } => Purpose::Accept,
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
        let bytes = bytes_of(command, host.state(), chance.0);
        host.apply_made(command, bytes, purpose, chance)
    }

    fn decided(&mut self, decided: Decided<Self>, state: &State) -> Asked {
        let Decided { command, now, reply, actions } = decided;
        let look = Look::at::<M>(state, now);
        let who = std::mem::replace(&mut self.who, Who::Nobody);
        let command = Box::new(command);
        Asked { now, who, what: What::Command { command, reply, actions }, look }
    }

    fn answered(&mut self, asked: Asked, history: &mut History) -> Result<(), Fault> {
        history.tell(format_args!("{asked}"));
        tell(&asked, history);
        self.oracle.answered(&asked, &self.databases)?;
        if let What::Command { actions, .. } = &asked.what {
            self.hand.iter_mut().for_each(|hand| hand.decided(actions));
            self.owed.extend(actions.iter().filter_map(|action| match action {
                Action::Settle { number, round } => Some((*number, *round)),
                _ => None,
            }));
        }
        self.workload.heard(&asked, &mut self.databases)?;
        Ok(())
    }

    fn lost(&mut self, asked: &Asked) -> &'static str {
        self.workload.lost(asked, &mut self.databases);
        asked.kind()
    }

    fn recovered(&mut self, lost: Vec<Asked>, state: &State, now: Now) -> Result<usize, Fault> {
        self.owed.clear();
        self.opened = false;
        self.workload.begins();
        Ok(self.oracle.recovered(&lost, &Look::at::<M>(state, now), &self.databases)?)
    }

    fn act(
        flat: &mut Flat<Self>,
        deed: Deed,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        if !flat.tenant.opened {
            let opened = flat.tenant.workload.command(Ask::Opened);
            flat.tenant.opened = flat.send(&opened, site, history)?;
            return Ok(());
        }
        match deed {
            Deed::Command => flat.somebody_asks(site, history),
            Deed::Tick => flat.drive(site, history),
            Deed::Settle if !flat.tenant.files => flat.settle_some(site, history),
            Deed::Settle | Deed::Copy if flat.tenant.files => flat.file(site, history),
            Deed::Sync if flat.tenant.files => flat.sync_files(site, history),
            Deed::Settle | Deed::Copy => flat.copy(site, history),
            Deed::Sync => flat.sync(site, history),
            Deed::Read => flat.fetch(site, history),
            Deed::Retain => {
                let many = u32::try_from(1 + site.dice.below(30)).unwrap_or(1);
                let ask = if site.dice.one_in(4) { Ask::Remind } else { Ask::Retain { many } };
                let command = flat.tenant.workload.command(ask);
                flat.send(&command, site, history).map(drop)
            }
            Deed::Checkpoint => Ok(()),
        }
    }

    fn burst(flat: &mut Flat<Self>, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        for _ in 0..site.dice.below(5) {
            let Some(life) = &flat.life else { return Ok(()) };
            let now = site.clock.now();
            let Some(large) = flat.tenant.workload.large(life.host.state(), now) else {
                return Ok(());
            };
            let command = flat.tenant.workload.command(large);
            flat.send(&command, site, history)?;
        }
        Ok(())
    }

    fn knock(&mut self, _: &State) -> Command {
        self.workload.command(Ask::Settled { number: u64::MAX, round: 1 })
    }

    fn bring_to_life(
        &mut self,
        loading: Loading<M>,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        disk: Arc<dyn Disk>,
    ) -> Host<M> {
        if !self.files {
            return loading.into_host(journal, segments);
        }
        let (host, hand) = Hand::of(loading, journal, segments, disk);
        self.hand = Some(hand);
        host
    }

    fn ended(&mut self) {
        self.hand = None;
    }

    fn move_bodies(
        flat: &mut Flat<Self>,
        site: &mut Site,
        history: &mut History,
    ) -> Result<(), Fault> {
        if flat.tenant.files { flat.file_all(site, history) } else { flat.move_to_segments() }
    }

    fn judge_bodies(&mut self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        match &self.hand {
            Some(hand) => hand.read_all(host.state(), &self.oracle, excuses),
            None => self.look_at_bodies(host, excuses),
        }
    }

    fn look_at_loaded(
        &self,
        loading: Loading<M>,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        disk: Arc<dyn Disk>,
        excuses: Excuses,
    ) -> Result<(), Fault> {
        if !self.files {
            return self.look_at_bodies(&loading.into_host(journal, segments), excuses);
        }
        let (host, hand) = Hand::of(loading, journal, segments, disk);
        hand.read_all(host.state(), &self.oracle, excuses)
    }

    fn look_at_bodies(&self, host: &Host<M>, excuses: Excuses) -> Result<(), Fault> {
        for (seq, bytes, crc) in self.oracle.bodies() {
            let (lane, base) = (Lane(u64::MAX), seq.0);
            let found = host.body(Frame { lane, base, count: 1, max_timestamp: Wall::default() });
            match found {
                Ok(Some(body)) => {
                    let fits =
                        body.len() as u64 == u64::from(bytes) && crc32c::crc32c(&body) == crc;
                    ensure(fits, || format!("the body of {seq:?} is {body:?}"))?;
                }
                Err(_) if excuses.fault || excuses.damage => return Ok(()),
                other => return Err(Fault::Invariant(format!("the body of {seq:?}: {other:?}"))),
            }
        }
        Ok(())
    }

    fn settle(&mut self, state: &State, now: Now) -> Result<(), Fault> {
        let look = Look::at::<M>(state, now);
        let survived = self.oracle.recovered(&[], &look, &self.databases)?;
        ensure(survived == 0, || "something happened that nobody asked for".to_owned())?;
        let Self { oracle, databases, workload, .. } = self;
        drain::drain::<M>(oracle, databases, workload, state, now)
    }
}

impl<M: Persist + Rules + fmt::Debug + 'static> Flat<Exchanging<M>> {
    fn somebody_asks(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        let Exchanging { workload, databases, .. } = &mut self.tenant;
        let (ask, who) = workload.next(life.host.state(), databases, now)?;
        let Some(ask) = ask else {
            history.count(Kind::Injected, "nobody is heard");
            return Ok(());
        };
        let command = self.tenant.workload.command(ask);
        self.tenant.who = who;
        if !self.send(&command, site, history)? {
            let Exchanging { workload, databases, .. } = &mut self.tenant;
            workload.not_admitted(who, databases);
        }
        self.tenant.who = Who::Nobody;
        Ok(())
    }

    /// Time passes up to what is due, mostly; sometimes the tick comes too early, or late.
    fn drive(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let now = site.clock.now();
        match site.dice.below(8) {
            0 => site.clock.pass(Span::from_millis(site.dice.below(20_000))),
            1..4 => {}
            _ => {
                if let Some(deadline) = life.host.next_deadline(now) {
                    site.clock.pass(deadline.since(now.steady).min(Span::from_secs(100)));
                }
            }
        }
        let tick = self.tenant.workload.command(Ask::Tick);
        self.send(&tick, site, history).map(drop)
    }

    /// The folders show what a process decided, or cannot be made to for now.
    fn settle_some(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let owed = &mut self.tenant.owed;
        if owed.is_empty() {
            return Ok(());
        }
        let place = usize::try_from(site.dice.below(owed.len() as u64)).unwrap_or(0);
        let stuck = site.dice.one_in(4);
        let Some((number, round)) = owed.get(place).copied() else { return Ok(()) };
        let ask = match stuck {
            true => Ask::Stuck { number, words: "the folder is read-only".into() },
            false => Ask::Settled { number, round },
        };
        let command = self.tenant.workload.command(ask);
        let admitted = self.send(&command, site, history)?;
        if admitted && !stuck && !site.dice.one_in(6) {
            self.tenant.owed.retain(|one| *one != (number, round));
        }
        Ok(())
    }

    /// Files follow messages, some of them.
    fn file(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        // What the folders are told must be durable.
        if !self.is_quiet() {
            return Ok(());
        }
        let now = site.clock.now().steady;
        let pieces = 1 + usize::try_from(site.dice.below(4)).unwrap_or(0);
        let compares = site.dice.one_in(12);
        let (Some(life), Some(hand)) = (&self.life, &mut self.tenant.hand) else { return Ok(()) };
        if compares {
            hand.compare();
        }
        hand.work(life.host.state(), now, pieces);
        history.count(Kind::Storage, "files moved");
        self.hear(site, history).map(drop)
    }

    fn sync_files(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let now = site.clock.now().steady;
        let Some(hand) = &mut self.tenant.hand else { return Ok(()) };
        hand.sync(now);
        history.count(Kind::Storage, "files synced");
        self.hear(site, history)?;
        self.check_durable_bodies(site)
    }

    /// The room is told what the folders have to say. Gives whether that was anything.
    fn hear(&mut self, site: &mut Site, history: &mut History) -> Result<bool, Fault> {
        let Some(hand) = &mut self.tenant.hand else { return Ok(false) };
        let (asks, words) = hand.reports();
        for report in &words {
            history.tell(format_args!("the folders say {report}"));
            ensure(!report.starts_with("Damaged"), || report.clone())?;
        }
        let said = !asks.is_empty();
        for ask in asks {
            let command = self.tenant.workload.command(ask);
            self.send(&command, site, history)?;
        }
        Ok(said)
    }

    /// The disk is well: all files are where they belong, and nowhere else.
    fn file_all(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        if !self.tenant.opened {
            let opened = self.tenant.workload.command(Ask::Opened);
            self.tenant.opened = self.send(&opened, site, history)?;
        }
        let compares = self.tenant.hand.iter();
        compares.for_each(Hand::compare);
        for _ in 0..FILING_ROUNDS {
            if let Some(process) = &mut site.process {
                let stalled = |error: handoff_log::journal::Stalled| {
                    Fault::Invariant(format!("{error}, though the disk is well"))
                };
                process.inline.commit().map_err(stalled)?;
            }
            self.release(site, history)?;
            let now = site.clock.now().steady;
            let (Some(life), Some(hand)) = (&self.life, &mut self.tenant.hand) else { break };
            hand.finish(life.host.state(), now)?;
            let waits = hand.next_due();
            if !self.hear(site, history)? && waits.is_none() {
                break;
            }
            site.clock.pass(waits.map_or(Span::ZERO, |due| due.since(now)));
        }
        let Some(life) = &self.life else { return Ok(()) };
        history.count(Kind::Storage, "folders compared");
        folders::compare(&site.disk, life.host.state(), &self.tenant.oracle)
    }

    /// A device looks for its messages.
    fn fetch(&mut self, site: &mut Site, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &self.life else { return Ok(()) };
        let state = life.host.state();
        let now = site.clock.now();
        let Some((device, who)) = self.tenant.workload.fetches(state) else { return Ok(()) };
        let found = state.inbox(device).map(|(seq, _)| seq).collect();
        let look = Look::at::<M>(state, now);
        let asked = Asked { now, who, what: What::Fetch { device, found }, look };
        self.ask(asked, site, history)
    }
}

/// What a command may write at most, as a server tells before it asks.
fn bytes_of(command: &Command, state: &State, now: Now) -> u64 {
    let message = |one: &NewMessage| one.payload.len() as u64 + 2 * CHANGE_BYTES;
    let process = |one: &Process| {
        let many = 1 + one.to_erp.len() as u64 * 2 + one.from_erp.len() as u64;
        many * CHANGE_BYTES
    };
    match &command.ask {
        Ask::Post { messages, .. } => messages.iter().map(message).sum(),
        Ask::TakeIn { message: one, .. } => message(one) + CHANGE_BYTES,
        Ask::Begin { .. } => u64::from(command.rules.files_max) * CHANGE_BYTES,
        Ask::Process { id, step, .. } => {
            let known = state.process_by_number(id.number).map_or(0, process);
            let sent = match step {
                // What is said of a message may be told to its device as well.
                Step::Prepare { verdicts, messages, .. } => {
                    let replies = messages.iter().map(|one| message(&one.message));
                    replies.sum::<u64>() + verdicts.len() as u64 * 2 * CHANGE_BYTES
                }
                _ => 0,
            };
            known + sent
        }
        Ask::Resolve { outcomes, .. } => {
            let known = outcomes.iter().filter_map(|one| state.process_by_number(one.id.number));
            known.map(process).sum()
        }
        Ask::Requeue { messages, .. } => messages.len() as u64 * 2 * CHANGE_BYTES,
        Ask::Tick => {
            let due = state.deadlines().take_while(|(deadline, _)| *deadline <= now.steady);
            due.map(|(_, one)| process(one)).sum()
        }
        Ask::Opened | Ask::Remind => {
            let doubt = |one: &&Process| matches!(one.phase, Phase::Ready | Phase::Unknown);
            state.processes_below(u64::MAX).filter(doubt).count() as u64 * 2 * CHANGE_BYTES
        }
        Ask::Retain { many } => u64::from(*many) * 16,
        _ => 4 * CHANGE_BYTES,
    }
}

/// Counts what came of something that was asked.
fn tell(asked: &Asked, history: &mut History) {
    let kind = asked.kind();
    let What::Command { command, reply, actions } = &asked.what else {
        return history.count(Kind::Acknowledged, kind);
    };
    match why(reply) {
        Some(why) => {
            history.count(Kind::Refused, kind);
            history.count(Kind::Refusal, why);
        }
        None => history.count(Kind::Acknowledged, kind),
    }
    match reply {
        Reply::Posted(receipts) => {
            for receipt in receipts {
                let what = if receipt.again { "stored before" } else { "stored" };
                history.count(Kind::Performed, what);
            }
        }
        Reply::Acked { fresh, again } => {
            (0..*fresh).for_each(|_| history.count(Kind::Performed, "acknowledged"));
            (0..*again).for_each(|_| history.count(Kind::Performed, "acknowledged before"));
        }
        Reply::Begun(Begun::Idle) => history.count(Kind::Performed, "idle"),
        Reply::Begun(Begun::Started { id, messages, .. }) => {
            let again = asked
                .look
                .processes
                .get(&id.number)
                .is_some_and(|one| one.started != asked.now.wall);
            history.count(Kind::Performed, if again { "given again" } else { "begun" });
            for handed in messages {
                let what = if handed.attempt > 1 { "served again" } else { "served" };
                history.count(Kind::Performed, what);
            }
        }
        Reply::Resolved(results) => {
            for result in results {
                let what = match result {
                    Ok(()) => "resolved",
                    Err(cancelled) => why_cancelled(cancelled),
                };
                history.count(Kind::Performed, what);
            }
        }
        Reply::Ok { .. } => {
            if let Ask::Process { id, step, .. } = &command.ask
                && let Some(process) = asked.look.processes.get(&id.number)
            {
                let late = matches!(process.phase, Phase::Resolved { .. });
                let what = match step {
                    Step::Commit if late => Some("commit of what was unknown"),
                    Step::Rollback(_) if late => Some("rollback of what was unknown"),
                    Step::Narrow(_) if !process.phase.is_live() => Some("nothing taken"),
                    _ => None,
                };
                what.into_iter().for_each(|what| history.count(Kind::Performed, what));
            }
        }
        Reply::Requeued(count) => {
            (0..*count).for_each(|_| history.count(Kind::Performed, "put back"));
        }
        _ => {}
    }
    for action in actions {
        let what = match action {
            Action::Move { to: Some(_), .. } => "file moved",
            Action::Move { to: None, .. } => "file removed",
            Action::Settle { .. } => "to be settled",
            Action::Ring(_) => "device rung for",
            Action::Log(entry) => happened(entry.what),
        };
        history.count(Kind::Performed, what);
    }
}

/// What people read, as it is counted.
fn happened(what: Happened) -> &'static str {
    match what {
        Happened::Deadlock => "log: deadlock",
        Happened::Incorrect => "log: incorrect",
        Happened::Expired => "log: expired",
        Happened::RolledBack => "log: rolled back",
        Happened::Interrupted => "log: interrupted",
        Happened::Unknown => "log: unknown",
        Happened::Resolved => "log: resolved",
        Happened::Failed => "log: failed",
        Happened::Mended => "log: mended",
        Happened::Contradiction => "log: contradiction",
        Happened::InDoubt => "log: in doubt",
        Happened::Poison => "log: poison",
        Happened::Damaged => "log: damaged",
        Happened::Requeued => "log: requeued",
        Happened::TakenIn => "log: taken in",
        Happened::TooLate => "log: too late",
        Happened::StillUnknown => "log: still unknown",
        _ => "log: another",
    }
}
