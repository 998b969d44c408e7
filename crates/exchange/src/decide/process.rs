//! A process until its database decides: `API_1` to `API_3`, and heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::{Entropy, Span};

use super::draft::{About, Back, fit};
use super::{Draft, Stopped};
use crate::queue::Choice;
use crate::{
    Begun, Cancelled, Change, Database, DatabaseNo, DeviceNo, EntityId, Handed, Happened,
    MessageId, NewReply, Phase, Place, Prepared, Process, ProcessId, Refusal, Reply, Served,
    Standing, State, Status, Step, SubsystemNo, Unfit, Verdict, Way, Wish,
};

/// How many messages an ERP sends in one process at most.
const REPLIES_MAX: usize = 10_000;

/// The longest text a start is known again by, in bytes.
const REQUEST_KEY_BYTES_MAX: usize = 128;

/// Whoever finds a database busy asks again after so long at most.
const BUSY_MAX: Span = Span::from_secs(30);

/// The shortest time a process is given.
const LEASE_MIN: Span = Span::from_secs(1);

/// What goes to devices in one process.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) prepared: Vec<Prepared>,
    /// What its messages are called.
    pub(super) ids: BTreeSet<MessageId>,
    waiting: BTreeMap<DeviceNo, u64>,
}

impl Outgoing {
    /// How many messages wait for a device, these included.
    pub(super) fn waits(&mut self, state: &State, device: DeviceNo) -> &mut u64 {
        self.waiting.entry(device).or_insert_with(|| state.inbox_len(device))
    }
}

impl<'a> Draft<'a> {
    pub(super) fn begin(
        &mut self,
        database: DatabaseNo,
        wish: &Wish,
        entropy: Entropy,
    ) -> Result<Reply, Refusal> {
        let database = self.database(database)?;
        let key = wish.request_key.as_deref();
        if key.is_some_and(|key| key.is_empty() || key.len() > REQUEST_KEY_BYTES_MAX) {
            return Err(Refusal::Invalid("requestKey has 1 to 128 bytes"));
        }
        if wish.files_max == Some(0) {
            return Err(Refusal::Invalid("maxFiles is at least 1"));
        }
        if let Some(live) = self.state.live(database.no) {
            return Ok(Reply::Begun(self.meet(live, key)));
        }
        let devices = self.wanted_devices(database, wish)?;
        let subsystems = self.wanted_subsystems(wish)?;
        let files_max = wish.files_max.unwrap_or(u32::MAX).min(self.rules.files_max);
        let choice = Choice {
            devices: devices.as_ref(),
            subsystems: subsystems.as_ref(),
            files_max: usize::try_from(files_max).unwrap_or(usize::MAX),
            bytes_max: wish.bytes_max.unwrap_or(u64::MAX).min(self.rules.bytes_max),
            in_order: self.rules.in_order,
            now: self.now.steady,
        };
        let state = self.state;
        let queue = state.queue(database.no);
        let chosen = queue.map(|queue| queue.choose(&choice, |seq| state.message(seq)));
        let chosen = chosen.unwrap_or_default();
        if chosen.is_empty() {
            return Ok(Reply::Begun(Begun::Idle));
        }
        let id = ProcessId { number: self.next_process(), nonce: entropy.word(0) };
        let lease = wish.lease.unwrap_or(self.rules.started_timeout);
        let lease = lease.min(self.rules.started_timeout).max(LEASE_MIN);
        let deadline = self.now.steady + lease;
        let mut messages = Vec::with_capacity(chosen.len());
        for seq in chosen {
            let Some(message) = state.message(seq) else { continue };
            self.place((seq, message), (Place::Messages, Standing::Served(id.number)), None);
            messages.push(Handed { seq, attempt: attempt(message) });
        }
        let to_erp =
            messages.iter().map(|handed| Served { seq: handed.seq, status: None, error: None });
        self.change(Change::Begun(Box::new(Process {
            id,
            database: database.no,
            phase: Phase::Started,
            started: self.now.wall,
            deadline,
            lease,
            request_key: key.map(Into::into),
            to_erp: to_erp.collect(),
            from_erp: Vec::new(),
            digest: 0,
            ready: None,
            ended: None,
            words: None,
            settled: true,
            contradicted: false,
        })));
        Ok(Reply::Begun(Begun::Started { id, deadline, messages }))
    }

    /// A start while a process is live: the same process, if it is the same start.
    fn meet(&self, live: &Process, key: Option<&str>) -> Begun {
        let same = key.is_some() && key == live.request_key.as_deref();
        if live.phase == Phase::Started && same {
            let handed = |served: &Served| {
                let message = self.state.message(served.seq)?;
                Some(Handed { seq: served.seq, attempt: attempt(message) })
            };
            let messages = live.to_erp.iter().filter_map(handed).collect();
            return Begun::Started { id: live.id, deadline: live.deadline, messages };
        }
        let left = live.deadline.since(self.now.steady);
        Begun::Busy { retry_after: left.min(BUSY_MAX).max(LEASE_MIN) }
    }

    /// The devices whose messages are wanted; none if all are.
    fn wanted_devices(
        &self,
        database: &Database,
        wish: &Wish,
    ) -> Result<Option<BTreeSet<DeviceNo>>, Refusal> {
        let Some(ids) = &wish.producers else { return Ok(None) };
        let known = |id: &EntityId| {
            let device = self.state.device_by_id(database.company, id);
            device.map(|one| one.no).ok_or_else(|| unknown("device", id))
        };
        ids.iter().map(known).collect::<Result<_, _>>().map(Some)
    }

    /// The subsystems whose messages are wanted; none if all are. A message belongs to the one it was
    /// sent in, whatever became of its device.
    fn wanted_subsystems(&self, wish: &Wish) -> Result<Option<BTreeSet<SubsystemNo>>, Refusal> {
        let Some(ids) = &wish.subsystems else { return Ok(None) };
        let known = |id: &EntityId| {
            let subsystem = self.state.subsystem_by_id(id);
            subsystem.map(|one| one.no).ok_or_else(|| unknown("subsystem", id))
        };
        ids.iter().map(known).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn step(
        &mut self,
        database: DatabaseNo,
        id: ProcessId,
        step: &Step,
    ) -> Result<Reply, Stopped> {
        self.database(database)?;
        let process = self.state.process(database, id).ok_or(Cancelled::NoProcess(id))?;
        let deadline = match step {
            Step::Narrow(ids) => Some(self.narrow(process, ids)?),
            Step::Prepare { verdicts, messages, digest } => {
                Some(self.prepare(process, verdicts, messages, *digest)?)
            }
            Step::Commit => self.commit(process).map(|()| None)?,
            Step::Rollback(words) => self.rollback(process, words).map(|()| None)?,
            Step::Interrupt(words) => self.interrupt(process, words).map(|()| None)?,
            Step::Heartbeat => Some(self.heartbeat(process)?),
        };
        Ok(Reply::Ok { deadline })
    }

    fn narrow(
        &mut self,
        process: &Process,
        ids: &[MessageId],
    ) -> Result<handoff_types::Steady, Stopped> {
        if process.phase != Phase::Started {
            return Err(Cancelled::Past { id: process.id, phase: process.phase }.into());
        }
        let served = self.served(process);
        let mut taken = BTreeSet::new();
        for id in ids {
            if !served.contains_key(id) {
                return Err(Unfit::NotServed(*id).into());
            }
            if !taken.insert(*id) {
                return Err(Unfit::Twice(*id).into());
            }
        }
        let before = self.moves();
        for served in served.iter().filter(|(id, _)| !taken.contains(*id)).map(|(_, one)| *one) {
            self.give_back(served.seq, Back::Failed, process.id);
        }
        let is_taken = |one: &&Served| {
            self.state.message(one.seq).is_some_and(|message| taken.contains(&message.id))
        };
        let to_erp: Vec<Served> = process.to_erp.iter().filter(is_taken).cloned().collect();
        let (number, empty) = (process.id.number, to_erp.is_empty());
        if to_erp.len() < process.to_erp.len() || process.request_key.is_some() {
            self.change(Change::Narrowed { number, to_erp, keyed: false });
        }
        let moves = self.moves() > before;
        if empty {
            let words = "the ERP took none of the messages";
            self.turn(process, Phase::Interrupted, words, moves);
            let about = About::process(process.id);
            self.log(process.database, Happened::Interrupted, about, words);
        }
        Ok(process.deadline)
    }

    fn prepare(
        &mut self,
        process: &Process,
        verdicts: &[Verdict],
        messages: &[NewReply],
        digest: u64,
    ) -> Result<handoff_types::Steady, Stopped> {
        let id = process.id;
        match process.phase {
            Phase::Started => {}
            Phase::Ready if process.digest == digest => return Ok(process.deadline),
            Phase::Ready => return Err(Cancelled::PreparedOtherwise(id).into()),
            phase => return Err(Cancelled::Past { id, phase }.into()),
        }
        let to_erp = self.judged(process, verdicts)?;
        let mut outgoing = self.prepared(process.database, messages)?;
        if self.rules.notify_sender {
            self.notify(process, verdicts, &mut outgoing)?;
        }
        let from_erp = outgoing.prepared;
        let served = self.served(process);
        for verdict in verdicts.iter().filter(|verdict| verdict.status != Status::Processed) {
            let what = match verdict.status {
                Status::Deadlock => Happened::Deadlock,
                Status::Incorrect | Status::Processed => Happened::Incorrect,
            };
            let seq = served.get(&verdict.message).map(|served| served.seq);
            let message = seq.map(|seq| (seq, verdict.message));
            let about = About { process: Some(id), message, code: verdict.code };
            self.log(process.database, what, about, verdict.error.as_deref().unwrap_or_default());
        }
        let lease = self.rules.ready_timeout;
        let deadline = self.now.steady + lease;
        let (number, ready) = (id.number, self.now.wall);
        self.change(Change::Ready { number, to_erp, from_erp, digest, ready, deadline, lease });
        Ok(deadline)
    }

    /// The messages of a process with one verdict each.
    fn judged(&self, process: &Process, verdicts: &[Verdict]) -> Result<Vec<Served>, Unfit> {
        let served = self.served(process);
        let mut said: BTreeMap<MessageId, &Verdict> = BTreeMap::new();
        for verdict in verdicts {
            if !served.contains_key(&verdict.message) {
                return Err(Unfit::NotServed(verdict.message));
            }
            if said.insert(verdict.message, verdict).is_some() {
                return Err(Unfit::Twice(verdict.message));
            }
        }
        let judge = |served: &Served| {
            let Some(message) = self.state.message(served.seq) else { return Ok(served.clone()) };
            let verdict = said.get(&message.id).ok_or(Unfit::NoVerdict(message.id))?;
            let error = verdict.error.as_deref().filter(|_| verdict.status == Status::Incorrect);
            let status = Some(verdict.status);
            Ok(Served { seq: served.seq, status, error: error.map(fit) })
        };
        process.to_erp.iter().map(judge).collect()
    }

    /// Takes what goes to devices, out of their sight.
    fn prepared(
        &mut self,
        database: DatabaseNo,
        messages: &[NewReply],
    ) -> Result<Outgoing, Stopped> {
        if messages.len() > REPLIES_MAX {
            return Err(Unfit::TooMany(REPLIES_MAX).into());
        }
        let database = self.database(database)?;
        let mut outgoing = Outgoing::default();
        for NewReply { to, message } in messages {
            let id = message.id;
            let device = self.state.device_by_id(database.company, to);
            let device = device
                .ok_or_else(|| Unfit::NoDevice { message: id, device: to.as_str().into() })?;
            if !outgoing.ids.insert(id) {
                return Err(Unfit::Twice(id).into());
            }
            if self.state.sent_by_database(database.no, &id).is_some() {
                return Err(Unfit::IdUsed(id).into());
            }
            let waits = outgoing.waits(self.state, device.no);
            *waits += 1;
            if *waits > self.rules.queue_max {
                let (device, many) = (to.as_str().into(), self.rules.queue_max);
                return Err(Unfit::QueueFull { message: id, device, many }.into());
            }
            let seq = self.accept(Way::ToDevice, (database, device), message, Place::Prepared);
            outgoing.prepared.push(Prepared { seq, notice: false });
        }
        // Whoever brings nothing new needs no room, and a full house must be able to empty itself.
        if !outgoing.prepared.is_empty() {
            self.expect_room(outgoing.prepared.len() as u64)?;
        }
        Ok(outgoing)
    }

    fn heartbeat(&mut self, process: &Process) -> Result<handoff_types::Steady, Cancelled> {
        if !process.phase.is_live() {
            return Err(Cancelled::Past { id: process.id, phase: process.phase });
        }
        let deadline = process.deadline.max(self.now.steady + process.lease);
        if deadline > process.deadline {
            self.change(Change::Extended { number: process.id.number, deadline });
        }
        Ok(deadline)
    }

    /// The messages of a process, by what the ERP calls them.
    fn served<'p>(&self, process: &'p Process) -> BTreeMap<MessageId, &'p Served> {
        let named = |one: &'p Served| self.state.message(one.seq).map(|message| (message.id, one));
        process.to_erp.iter().filter_map(named).collect()
    }

    pub(super) fn database(&self, no: DatabaseNo) -> Result<&'a Database, Refusal> {
        let gone = || Refusal::NotFound { what: "database", id: "".into() };
        self.state.database(no).ok_or_else(gone)
    }
}

fn unknown(what: &'static str, id: &EntityId) -> Refusal {
    Refusal::NotFound { what, id: id.as_str().into() }
}

/// How often a message was given out, this time included.
fn attempt(message: &crate::Message) -> u32 {
    u32::from(message.attempts) + u32::from(message.silences) + 1
}
