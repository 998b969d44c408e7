//! An ERP that runs the protocol, with a transaction of its database open meanwhile. It dies, freezes
//! and goes on as if nothing had been, at every point there is.

use handoff_exchange::{
    Ask, Begun, DatabaseNo, EntityId, MessageId, NewReply, Outcome, ProcessId, Reply, Seq, State,
    Status, Step, Verdict, Wish,
};
use handoff_types::{Now, Span};

use super::{DATABASES, DEVICES, SUBSYSTEMS, Style, entity, in_doubt, message_id, new_message};
use crate::dice::Dice;
use crate::exchange::Violation;
use crate::exchange::asked::Look;
use crate::exchange::databases::Databases;

/// What an ERP needs of the world besides its database.
pub(super) struct Chance<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) made: &'a mut u64,
    pub(super) now: Now,
}

/// An instance of an ERP.
#[derive(Debug)]
pub(super) struct Erp {
    database: usize,
    style: Style,
    /// It gives its starts a key.
    keyed: bool,
    /// Once in how many times a message meets a deadlock.
    quarrels: u64,
    at: At,
    calls: u64,
    /// The call whose answer it waits for.
    waits: Option<u64>,
    /// For so many turns it does nothing.
    frozen: u64,
}

/// How far it is.
#[derive(Clone, Debug)]
enum At {
    Rest,
    Begin {
        wish: Wish,
    },
    Work(Job),
    Narrow(Job, Vec<MessageId>),
    Prepare(Job, Step),
    /// It was told that all is prepared: now its database decides.
    Decide(Job, Vec<Seq>),
    Report {
        of: (DatabaseNo, ProcessId),
        committed: bool,
    },
    /// What it learnt of earlier processes goes to the server.
    Resolve(Vec<Outcome>),
}

/// What it was given.
#[derive(Clone, Debug)]
struct Job {
    of: (DatabaseNo, ProcessId),
    list: Vec<(Seq, MessageId, EntityId)>,
}

impl Erp {
    pub(super) fn new(database: usize, style: Style, keyed: bool, quarrels: u64) -> Self {
        let (at, calls, waits, frozen) = (At::Rest, 0, None, 0);
        Self { database, style, keyed, quarrels, at, calls, waits, frozen }
    }

    /// What it does next, and the number of the call.
    pub(super) fn turn(
        &mut self,
        state: &State,
        databases: &mut Databases,
        chance: &mut Chance<'_>,
    ) -> Result<Option<(Ask, u64)>, Violation> {
        let Some((name, _)) = DATABASES.get(self.database) else { return Ok(None) };
        let Some(database) = state.database_by_id(&entity(name)).map(|one| one.no) else {
            return Ok(None);
        };
        if self.frozen > 0 {
            self.frozen -= 1;
            return Ok(None);
        }
        if chance.dice.one_in(60) {
            self.dies(databases);
            return Ok(None);
        }
        if let Some(call) = self.waits {
            if chance.dice.one_in(8) {
                self.unheard(call, databases, chance.dice);
            }
            return Ok(None);
        }
        let ask = match self.at.clone() {
            At::Rest => self.begin(state, database, databases, chance),
            At::Begin { wish } => Some(Ask::Begin { database, wish }),
            At::Work(job) => self.work(job, databases, chance),
            At::Narrow(job, ids) => Some(step(job.of, Step::Narrow(ids))),
            At::Prepare(job, prepare) => Some(step(job.of, prepare)),
            At::Decide(job, processed) => self.decide(&job, &processed, databases, chance)?,
            At::Report { of, committed: true } => Some(step(of, Step::Commit)),
            At::Report { of, committed: false } => {
                Some(step(of, Step::Rollback("the database said no".into())))
            }
            At::Resolve(outcomes) => Some(Ask::Resolve { database, outcomes }),
        };
        Ok(ask.map(|ask| {
            self.calls += 1;
            self.waits = Some(self.calls);
            (ask, self.calls)
        }))
    }

    /// Whoever has a marker looks first for what nobody knows the end of.
    fn begin(
        &mut self,
        state: &State,
        database: DatabaseNo,
        databases: &mut Databases,
        chance: &mut Chance<'_>,
    ) -> Option<Ask> {
        let mut outcomes = Vec::new();
        if self.style == Style::Marker {
            for id in in_doubt(state, database) {
                let committed = databases.fence(database, id);
                outcomes.extend(committed.map(|committed| Outcome { id, committed }));
            }
        }
        let dice = &mut *chance.dice;
        if !outcomes.is_empty() {
            self.at = At::Resolve(outcomes.clone());
            return Some(Ask::Resolve { database, outcomes });
        }
        let some = |dice: &mut Dice, n: u64| dice.one_in(n);
        *chance.made += 1;
        let wish = Wish {
            request_key: self.keyed.then(|| format!("key-{}", chance.made).into()),
            subsystems: some(dice, 6).then(|| {
                let one = dice.pick(&SUBSYSTEMS).copied().unwrap_or("sales");
                vec![entity(one)]
            }),
            producers: some(dice, 6).then(|| {
                let one = dice.pick(&DEVICES).map_or("p1", |(_, id, _)| id);
                vec![entity(one)]
            }),
            files_max: some(dice, 3).then(|| u32::try_from(dice.below(4)).unwrap_or(0)),
            bytes_max: some(dice, 5).then(|| dice.below(600)),
            lease: some(dice, 5).then(|| Span::from_secs(1 + dice.below(80))),
        };
        self.at = At::Begin { wish: wish.clone() };
        Some(Ask::Begin { database, wish })
    }

    fn work(
        &mut self,
        job: Job,
        databases: &mut Databases,
        chance: &mut Chance<'_>,
    ) -> Option<Ask> {
        let (database, id) = job.of;
        match chance.dice.below(24) {
            0 | 1 => {
                self.frozen = 1 + chance.dice.below(12);
                None
            }
            2 | 3 => Some(step(job.of, Step::Heartbeat)),
            4 => {
                databases.roll_back(database, id);
                self.at = At::Rest;
                Some(step(job.of, Step::Interrupt("the developer wants it".into())))
            }
            5 => {
                databases.roll_back(database, id);
                self.at = At::Report { of: job.of, committed: false };
                None
            }
            6..10 => {
                let ids = some_of(&job, chance.dice);
                self.at = At::Narrow(job.clone(), ids.clone());
                Some(step(job.of, Step::Narrow(ids)))
            }
            10 => {
                // Its connection to the database breaks.
                databases.roll_back(database, id);
                None
            }
            _ => {
                let prepare = prepare(&job, self.quarrels, chance);
                self.at = At::Prepare(job.clone(), prepare.clone());
                Some(step(job.of, prepare))
            }
        }
    }

    /// The database commits, or does not, or the ERP is not there any more to ask for it.
    fn decide(
        &mut self,
        job: &Job,
        processed: &[Seq],
        databases: &mut Databases,
        chance: &mut Chance<'_>,
    ) -> Result<Option<Ask>, Violation> {
        let (database, id) = job.of;
        match chance.dice.below(16) {
            0..3 => {
                self.frozen = 1 + chance.dice.below(15);
                return Ok(None);
            }
            3 => {
                self.dies(databases);
                return Ok(None);
            }
            4 | 5 => {
                databases.roll_back(database, id);
            }
            6 => return Ok(Some(step(job.of, Step::Heartbeat))),
            7 => {
                // Too late: only a rollback ends it.
                databases.roll_back(database, id);
                self.at = At::Report { of: job.of, committed: false };
                return Ok(Some(step(job.of, Step::Interrupt("too late".into()))));
            }
            _ => {}
        }
        let committed = databases.commit(database, id, processed)?;
        self.at = At::Report { of: job.of, committed };
        if chance.dice.one_in(8) {
            self.dies(databases);
        }
        Ok(None)
    }

    /// The process ends, and its database rolls back what it had open.
    fn dies(&mut self, databases: &mut Databases) {
        if let Some((database, id)) = self.at.transaction() {
            databases.roll_back(database, id);
        }
        (self.at, self.waits, self.frozen) = (At::Rest, None, 0);
    }

    pub(super) fn heard(
        &mut self,
        call: u64,
        reply: &Reply,
        look: &Look,
        databases: &mut Databases,
        dice: &mut Dice,
    ) {
        if self.waits != Some(call) {
            return;
        }
        self.waits = None;
        let is_ok = matches!(reply, Reply::Ok { .. });
        self.at = match std::mem::replace(&mut self.at, At::Rest) {
            At::Begin { .. } => match reply {
                Reply::Begun(Begun::Started { id, messages, .. }) => {
                    let listed = messages.iter().filter_map(|one| {
                        let message = look.messages.get(&one.seq)?;
                        let device = look.devices.iter().find(|it| it.no == message.device)?;
                        Some((one.seq, message.id, device.id.clone()))
                    });
                    let list: Vec<_> = listed.collect();
                    let database = look.processes.get(&id.number).map(|one| one.database);
                    let Some(database) = database else { return };
                    databases.open(database, *id);
                    At::Work(Job { of: (database, *id), list })
                }
                _ => At::Rest,
            },
            At::Work(job) => At::Work(job),
            At::Narrow(mut job, ids) if is_ok && !ids.is_empty() => {
                job.list.retain(|(_, id, _)| ids.contains(id));
                At::Work(job)
            }
            At::Narrow(job, _) => self.gives_up(&job, databases, dice),
            At::Prepare(job, Step::Prepare { verdicts, .. }) if is_ok => {
                let processed = |(seq, id, _): &(Seq, MessageId, EntityId)| {
                    let says =
                        |one: &Verdict| one.message == *id && one.status == Status::Processed;
                    verdicts.iter().any(says).then_some(*seq)
                };
                let processed = job.list.iter().filter_map(processed).collect();
                At::Decide(job, processed)
            }
            At::Prepare(job, _) => self.gives_up(&job, databases, dice),
            At::Decide(job, processed) => At::Decide(job, processed),
            // A too late interruption is answered while the rollback is still to be reported.
            At::Report { of, committed }
                if !is_ok
                    && matches!(reply, Reply::Cancelled(handoff_exchange::Cancelled::Ready(_))) =>
            {
                At::Report { of, committed }
            }
            At::Rest | At::Report { .. } | At::Resolve(_) => At::Rest,
        };
    }

    /// No answer, so it does not know.
    pub(super) fn unheard(&mut self, call: u64, databases: &mut Databases, dice: &mut Dice) {
        if self.waits != Some(call) {
            return;
        }
        self.waits = None;
        let knows = self.style == Style::Marker;
        self.at = match std::mem::replace(&mut self.at, At::Rest) {
            // Asked again with its key, it is given the same.
            At::Begin { wish } if wish.request_key.is_some() && !dice.one_in(4) => {
                At::Begin { wish }
            }
            At::Narrow(job, _) => self.gives_up(&job, databases, dice),
            At::Prepare(job, prepare) if knows && dice.one_in(2) => At::Prepare(job, prepare),
            At::Prepare(job, _) => self.gives_up(&job, databases, dice),
            At::Report { of, committed } if knows => At::Report { of, committed },
            At::Resolve(outcomes) if dice.one_in(2) => At::Resolve(outcomes),
            At::Work(job) => At::Work(job),
            At::Decide(job, processed) => At::Decide(job, processed),
            At::Begin { .. } | At::Rest | At::Report { .. } | At::Resolve(_) => At::Rest,
        };
    }

    /// Rolls back. The first text says nothing of telling anybody.
    fn gives_up(&self, job: &Job, databases: &mut Databases, dice: &mut Dice) -> At {
        let (database, id) = job.of;
        databases.roll_back(database, id);
        match self.style {
            Style::Marker if !dice.one_in(4) => At::Report { of: job.of, committed: false },
            _ => At::Rest,
        }
    }
}

impl At {
    fn transaction(&self) -> Option<(DatabaseNo, ProcessId)> {
        match self {
            Self::Work(job)
            | Self::Narrow(job, _)
            | Self::Prepare(job, _)
            | Self::Decide(job, _) => Some(job.of),
            Self::Rest | Self::Begin { .. } | Self::Report { .. } | Self::Resolve(_) => None,
        }
    }
}

fn step((database, id): (DatabaseNo, ProcessId), step: Step) -> Ask {
    Ask::Process { database, id, step }
}

/// What an ERP takes of what it was given; sometimes nothing, or what it was not given.
fn some_of(job: &Job, dice: &mut Dice) -> Vec<MessageId> {
    let mut ids: Vec<MessageId> = job.list.iter().map(|(_, id, _)| *id).collect();
    match dice.below(10) {
        0 => ids.clear(),
        1 => ids.push(message_id("not-given")),
        2 => ids.extend(ids.first().copied()),
        3 => {}
        _ => ids.retain(|_| !dice.one_in(2)),
    }
    ids
}

/// Verdicts and replies, mostly as they should be.
fn prepare(job: &Job, quarrels: u64, chance: &mut Chance<'_>) -> Step {
    let Chance { dice, made, now } = chance;
    let mut verdicts = Vec::new();
    let mut messages = Vec::new();
    for (_, id, device) in &job.list {
        let status = match dice.below(7) {
            _ if dice.one_in(quarrels) => Status::Deadlock,
            0 => Status::Incorrect,
            _ => Status::Processed,
        };
        let words = dice.pick(&["lock conflict", r#"no "article""#]).filter(|_| !dice.one_in(4));
        let error = words.filter(|_| status != Status::Processed).map(|words| (*words).into());
        let code = error.is_some().then_some(-913);
        verdicts.push(Verdict { message: *id, status, code, error });
        if status == Status::Processed && !dice.one_in(3) {
            **made += 1;
            // Ids are each database's own: two of them may use the same.
            let own = if dice.one_in(6) { **made % 7 } else { **made };
            let name = format!("r-{own}");
            let bytes = usize::try_from(dice.below(50)).unwrap_or(0);
            let message = new_message(&name, *now, bytes, Some(*id), dice);
            messages.push(NewReply { to: device.clone(), message });
        }
    }
    if dice.one_in(6) {
        **made += 1;
        let to = entity(dice.pick(&DEVICES).map_or("p1", |(_, id, _)| id));
        let message = new_message(&format!("r-{made}"), *now, 20, None, dice);
        messages.push(NewReply { to, message });
    }
    match dice.below(24) {
        0 => drop(verdicts.pop()),
        1 => verdicts.extend(verdicts.first().cloned()),
        2 => {
            let message = message_id("not-given");
            verdicts.push(Verdict { message, status: Status::Processed, code: None, error: None });
        }
        3 => {
            let message = new_message(&format!("r-{made}"), *now, 1, None, dice);
            messages.push(NewReply { to: entity("nobody"), message });
        }
        4 => messages.extend(messages.first().cloned()),
        5 => {
            let message =
                new_message(&format!("r-{}", dice.below(**made + 1)), *now, 1, None, dice);
            let to = messages.first().map(|one| one.to.clone());
            messages.extend(to.map(|to| NewReply { to, message }));
        }
        _ => {}
    }
    Step::Prepare { verdicts, messages, digest: dice.roll() }
}
