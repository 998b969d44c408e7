//! A day of one device and one ERP, with a crash at one point of it.
//!
//! ```text
//!  post ─ file ─ begin ─ narrow ─ prepare ─ (the database decides) ─ report ─ file ─ fetch ─ ack ─ file
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_exchange::{
    Admin, Ask, Begun, Cancelled, DatabaseNo, DeviceNo, EntityId, Happened, MessageId, Outcome,
    Phase, Place, ProcessId, Reply, Rules, Status, Step, Wish,
};
use handoff_log::disk::When;
use handoff_log::disk::{Coverage, Crash, Faults, Faulty};
use handoff_types::{Now, Span, Steady, Wall};

use crate::checker::check;
use crate::clients::{Client, Ledger, Transaction, message, mid, reply, verdicts};
use crate::office::Office;

/// A moment of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Post,
    FilePosted,
    Begin,
    Narrow,
    Prepare,
    FilePrepared,
    Report,
    FileReported,
    Expire,
    FileExpired,
    Ack,
    FileAcked,
    Checkpoint,
}

/// How the day goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The database commits and the ERP says so.
    Commit,
    /// The database rolls back and the ERP says so.
    Rollback,
    /// The ERP gives up before the third call.
    Interrupt,
    /// The database commits and the ERP does not say so in time.
    Silent,
    /// The database rolls back and the ERP does not say so in time.
    SilentRollback,
}

/// Where the ERP ends, for no fault of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    BeforePrepare,
    /// Its database rolls back.
    BeforeCommit,
    AfterCommit,
}

/// Where a crash comes, and what of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blow {
    pub(crate) moment: Moment,
    /// At this sync of the moment; after all of it if it has fewer.
    pub(crate) sync: u64,
    pub(crate) when: When,
    pub(crate) keep: Keep,
}

/// What a crash keeps of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    Everything,
    Seed(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) client: Client,
    pub(crate) blow: Option<Blow>,
    /// A second crash, while the next server starts and drives again what was left: at this sync.
    pub(crate) reopen: Option<(u64, When, Keep)>,
    pub(crate) death: Option<Death>,
    /// Folders follow after every step, not only where the day says so.
    pub(crate) busy: bool,
    /// A proxy sends everything twice.
    pub(crate) twice: bool,
}

impl Plan {
    pub(crate) fn new(way: Way, client: Client) -> Self {
        Self { way, client, blow: None, reopen: None, death: None, busy: false, twice: false }
    }
}

pub(crate) struct Day {
    plan: Plan,
    pub(crate) office: Option<Office>,
    pub(crate) disk: Crash,
    /// What the disk does to the server that runs.
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) now: Now,
    pub(crate) coverage: Coverage,
    /// Told to people, in all lives.
    pub(crate) told: Vec<Happened>,
    struck: bool,
    lives: u128,
}

fn id(text: &str) -> EntityId {
    text.parse().unwrap()
}

const SENT: [(&str, Status); 4] = [
    ("good", Status::Processed),
    ("fine", Status::Processed),
    ("dead", Status::Deadlock),
    ("bad", Status::Incorrect),
];

impl Day {
    pub(crate) fn begin(plan: Plan) -> Self {
        let disk = Crash::new();
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1) };
        let (faulty, faults) = Faulty::new(Arc::new(disk.clone()));
        let office = Office::open(Arc::new(faulty), now, Rules::default(), 0);
        let mut day = Self {
            plan,
            office,
            disk,
            faults,
            ledger: Ledger::default(),
            now,
            coverage: Coverage::default(),
            told: Vec::new(),
            struck: false,
            lives: 0,
        };
        for (company, database) in [("acme", "db"), ("other", "db2")] {
            let name: Box<str> = "".into();
            let (company, database, stock) = (id(company), id(database), id("stock"));
            for admin in [
                Admin::PutCompany { id: company.clone(), name: name.clone() },
                Admin::PutSubsystem { id: stock.clone(), name: name.clone() },
                Admin::PutDatabase {
                    id: database.clone(),
                    company: company.clone(),
                    name: name.clone(),
                },
                Admin::PutRoute { company: company.clone(), subsystem: stock.clone(), database },
                Admin::PutDevice {
                    company: company.clone(),
                    id: id("phone"),
                    subsystem: stock,
                    name,
                },
                Admin::DeviceCode {
                    company: company.clone(),
                    id: id("phone"),
                    code: [company.as_str().as_bytes()[0]; 32],
                    expires: Wall(i64::MAX),
                },
            ] {
                assert_eq!(day.must(Ask::Admin(admin)), Reply::Done);
            }
            let letter = company.as_str().as_bytes()[0];
            let ask = Ask::Activate { code: [letter; 32], token: [letter ^ 1; 32] };
            assert!(matches!(day.must(ask), Reply::Activated(_)));
        }
        let theirs = day.device("other");
        day.must(Ask::Post { device: theirs, messages: vec![message("theirs")] });
        let now = day.now;
        assert!(day.office.as_mut().unwrap().file(now));
        day
    }

    pub(crate) fn office(&mut self) -> &mut Office {
        self.office.as_mut().unwrap()
    }

    pub(crate) fn device(&self, company: &str) -> DeviceNo {
        let state = self.office.as_ref().unwrap().state();
        let company = state.company_by_id(&id(company)).unwrap().no;
        state.device_by_id(company, &id("phone")).unwrap().no
    }

    pub(crate) fn database(&self) -> DatabaseNo {
        self.office.as_ref().unwrap().state().database_by_id(&id("db")).unwrap().no
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now.steady = self.now.steady + span;
        self.now.wall = Wall(self.now.wall.0 + i64::try_from(span.0).unwrap());
    }

    /// Asks outside of any danger.
    pub(crate) fn must(&mut self, ask: Ask) -> Reply {
        self.pass(Span::from_millis(10));
        let now = self.now;
        self.office().ask(ask, now).unwrap()
    }

    /// Asks where the crash may come into it. A proxy may have it asked twice; the answers are the same.
    fn ask_at(&mut self, moment: Moment, ask: Ask) -> Option<Reply> {
        let twice = self.plan.twice;
        self.at(moment, |day| {
            let now = day.now;
            let first = day.office().ask(ask.clone(), now)?;
            if twice {
                let second = day.office().ask(ask, now)?;
                assert_eq!(kind(&first), kind(&second), "{first:?}, then {second:?}");
            }
            Some(first)
        })
    }

    /// Does something that the crash may come into. Gives what came of it, unless that was lost.
    fn at<T>(&mut self, moment: Moment, act: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.pass(Span::from_millis(10));
        let blow = self.plan.blow.filter(|blow| blow.moment == moment && !self.struck);
        if let Some(blow) = blow {
            self.disk.halt_at_sync(self.disk.syncs() + blow.sync, blow.when);
        }
        let done = act(self);
        let Some(blow) = blow else { return done };
        self.struck = true;
        self.crash(blow.keep);
        None
    }

    /// Ends the server and starts the next one.
    pub(crate) fn crash(&mut self, keep: Keep) {
        if let Some(office) = self.office.take() {
            self.told.extend(office.told);
        }
        let (disk, coverage) = match keep {
            Keep::Nothing => self.disk.crash_keeping_nothing(),
            Keep::Everything => self.disk.crash_keeping_everything(),
            Keep::Seed(seed) => self.disk.crash(seed),
        };
        self.disk = disk;
        self.coverage += coverage;
        self.lives += 1;
        self.open();
    }

    /// Starts a server, also if the machine stops in the middle of that, once.
    fn open(&mut self) {
        if let Some((sync, when, keep)) = self.plan.reopen.take() {
            self.disk.halt_at_sync(sync, when);
            let disk = Arc::new(self.disk.clone());
            let half = Office::open(disk, self.now, Rules::default(), self.lives);
            if let Some(mut half) = half {
                half.file(self.now);
                self.told.extend(half.told);
            }
            self.crash(keep);
            return;
        }
        let (faulty, faults) = Faulty::new(Arc::new(self.disk.clone()));
        self.faults = faults;
        let office = Office::open(Arc::new(faulty), self.now, Rules::default(), self.lives);
        self.office = Some(office.expect("a server that nothing happens to starts"));
    }

    /// Lets folders follow.
    fn file(&mut self, moment: Moment) {
        self.at(moment, |day| {
            let now = day.now;
            day.office().file(now).then_some(())
        });
    }

    fn file_if_busy(&mut self) {
        if self.plan.busy {
            let now = self.now;
            self.office().file_unsynced(now);
        }
    }

    /// The whole day, and what is to be true at its end.
    pub(crate) fn live(mut self) -> Self {
        self.post();
        self.file(Moment::FilePosted);
        self.at(Moment::Checkpoint, |day| {
            let now = day.now;
            day.office().checkpoint(now)
        });
        self.process();
        self.file(Moment::FileReported);
        self.fetch();
        self.file(Moment::FileAcked);
        self.rest();
        self
    }

    pub(crate) fn post(&mut self) {
        let device = self.device("acme");
        for (name, _) in SENT {
            self.ledger.sent.insert(mid(name), false);
        }
        let ask = Ask::Post { device, messages: SENT.map(|(name, _)| message(name)).to_vec() };
        let again = ask.clone();
        let mut answer = self.ask_at(Moment::Post, ask);
        if answer.is_none() {
            // The device may be gone; then another one sends, so that there is something to do.
            if self.plan.client == Client::Gone {
                return;
            }
            answer = Some(self.must(again));
        }
        let Some(Reply::Posted(receipts)) = answer else { panic!("{answer:?}") };
        assert_eq!(receipts.len(), SENT.len());
        self.ledger.sent.values_mut().for_each(|stored| *stored = true);
    }

    /// One process, as far as the client gets.
    fn process(&mut self) {
        let Some(process) = self.start(Moment::Begin) else { return };
        self.file_if_busy();
        let served: Vec<MessageId> = process.1;
        let step = Step::Narrow(served.clone());
        if self.step(Moment::Narrow, process.0, step).is_none() {
            // No answer to the second call: the ERP stops.
            return;
        }
        if self.plan.death == Some(Death::BeforePrepare) {
            return;
        }
        if self.plan.way == Way::Interrupt {
            self.report(process.0, Step::Interrupt("a developer stopped it".into()));
            return;
        }
        self.prepare(process.0, &served);
    }

    /// `API_1`. None: the ERP has nothing to do, or is gone.
    pub(crate) fn start(&mut self, moment: Moment) -> Option<(ProcessId, Vec<MessageId>)> {
        let wish = Wish { request_key: Some("monday".into()), ..Wish::default() };
        let database = self.database();
        let ask = Ask::Begin { database, wish };
        let again = ask.clone();
        let mut answer = self.ask_at(moment, ask);
        if answer.is_none() {
            if self.plan.client == Client::Gone {
                return None;
            }
            answer = Some(self.must(again));
        }
        match answer {
            Some(Reply::Begun(Begun::Started { id, messages, .. })) => {
                let seqs: Vec<_> = messages.iter().map(|handed| handed.seq).collect();
                let mut served = Vec::new();
                for seq in seqs {
                    let office = self.office.as_ref().unwrap();
                    let message = office.state().message(seq).unwrap();
                    let body = office.body(seq, message).unwrap();
                    assert!(body.starts_with(b"{\"version\":1"), "the body of {}", message.id);
                    // I2, at the moment it would go wrong.
                    let effects = self.ledger.effects(&message.id);
                    assert_eq!(effects, 0, "{} was processed and is served again", message.id);
                    served.push(message.id);
                }
                Some((id, served))
            }
            Some(Reply::Begun(Begun::Idle)) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn step(&mut self, moment: Moment, id: ProcessId, step: Step) -> Option<Reply> {
        let database = self.database();
        let ask = Ask::Process { database, id, step };
        self.ask_at(moment, ask)
    }

    /// `API_3`, the decision, and what the ERP says of it.
    pub(crate) fn prepare(&mut self, id: ProcessId, served: &[MessageId]) {
        let status = |served: &MessageId| {
            let known = SENT.iter().find(|(name, _)| *name == served.as_str());
            // What was served again after a deadlock goes through.
            let again = self
                .ledger
                .transactions
                .iter()
                .any(|one| one.committed == Some(true) && one.verdicts.contains_key(served));
            known.map_or(
                Status::Processed,
                |(_, status)| {
                    if again { Status::Processed } else { *status }
                },
            )
        };
        let statuses: BTreeMap<MessageId, Status> =
            served.iter().map(|id| (*id, status(id))).collect();
        let name = format!("reply{}", self.ledger.transactions.len());
        let replies = vec![reply(&name, "phone")];
        self.ledger.transactions.push(Transaction {
            id,
            verdicts: statuses.clone(),
            committed: None,
            reported: false,
            replies: vec![mid(&name)],
        });
        let step = Step::Prepare { verdicts: verdicts(&statuses), messages: replies, digest: 9 };
        let answer = self.step(Moment::Prepare, id, step);
        self.file_if_busy();
        match answer {
            Some(Reply::Ok { .. }) => {}
            Some(Reply::Cancelled(_)) => {
                self.ledger.open().committed = Some(false);
                self.ledger.open().reported = true;
                return;
            }
            // Without an answer the database rolls back.
            None => {
                self.ledger.open().committed = Some(false);
                if self.plan.client == Client::Retries {
                    self.report(id, Step::Rollback("no answer".into()));
                }
                return;
            }
            Some(other) => panic!("{other:?}"),
        }
        self.file(Moment::FilePrepared);
        let death = self.plan.death.take();
        let rolled_back = matches!(self.plan.way, Way::Rollback | Way::SilentRollback);
        let committed = !rolled_back && death != Some(Death::BeforeCommit);
        self.ledger.open().committed = Some(committed);
        if death.is_some() {
            // Whoever keeps a marker in the database reads it when he is back.
            if self.plan.client == Client::Retries {
                self.resolve(id, committed);
            }
            return;
        }
        match self.plan.way {
            Way::Commit | Way::Interrupt => self.report(id, Step::Commit),
            Way::Rollback => self.report(id, Step::Rollback("constraint".into())),
            Way::Silent | Way::SilentRollback => {
                self.expire();
                if self.plan.client == Client::Retries {
                    self.resolve_at(id, committed);
                }
            }
        }
    }

    /// `API_4`, `API_5` or `API_6`, until it is answered or the client is gone.
    pub(crate) fn report(&mut self, id: ProcessId, step: Step) {
        let committed = step == Step::Commit;
        let mut answer = self.step(Moment::Report, id, step.clone());
        self.file_if_busy();
        if answer.is_none() {
            if self.plan.client == Client::Gone {
                self.learn(id, committed);
                return;
            }
            let database = self.database();
            answer = Some(self.must(Ask::Process { database, id, step }));
        }
        match answer {
            Some(Reply::Ok { .. }) => {}
            // Only of what nobody will miss.
            Some(Reply::Cancelled(Cancelled::NoProcess(_))) if !committed => {}
            other => panic!("{other:?}"),
        }
        if let Some(open) = self.ledger.transactions.last_mut().filter(|one| one.id == id) {
            open.reported = true;
        }
    }

    /// A report that was never answered may have arrived all the same.
    fn learn(&mut self, id: ProcessId, committed: bool) {
        let database = self.database();
        let process = self.office.as_ref().unwrap().state().process(database, id);
        let heard = process.is_some_and(|process| match process.phase {
            Phase::Cleanup | Phase::Failed | Phase::Done => committed,
            Phase::RolledBack | Phase::Interrupted => !committed,
            _ => false,
        });
        if let Some(open) = self.ledger.transactions.last_mut().filter(|one| one.id == id) {
            open.reported = heard;
        }
    }

    /// The same where the crash may come into it.
    fn resolve_at(&mut self, id: ProcessId, committed: bool) {
        let database = self.database();
        let ask = Ask::Resolve { database, outcomes: vec![Outcome { id, committed }] };
        self.ask_at(Moment::Report, ask);
        self.file_if_busy();
        self.resolve(id, committed);
    }

    fn resolve(&mut self, id: ProcessId, committed: bool) {
        let database = self.database();
        let reply = self.must(Ask::Resolve { database, outcomes: vec![Outcome { id, committed }] });
        assert_eq!(reply, Reply::Resolved(vec![Ok(())]));
        self.ledger.open().reported = true;
    }

    /// Time passes until whoever is silent is given up.
    fn expire(&mut self) {
        self.pass(Span::from_secs(700));
        if self.ask_at(Moment::Expire, Ask::Tick).is_none() {
            // After a restart it is waited for once more.
            self.pass(Span::from_secs(700));
            self.must(Ask::Tick);
        }
        self.file_if_busy();
        self.file(Moment::FileExpired);
    }

    /// Time has passed, and the crash may come when the room learns of it.
    pub(crate) fn step_tick(&mut self) -> Option<Reply> {
        self.ask_at(Moment::Expire, Ask::Tick)
    }

    /// The device takes what there is for it.
    fn fetch(&mut self) {
        let device = self.device("acme");
        let office = self.office.as_ref().unwrap();
        let mut ids = Vec::new();
        for (seq, message) in office.state().inbox(device) {
            let body = office.body(seq, message).unwrap();
            assert!(body.starts_with(b"{\"version\":1"), "the body of {}", message.id);
            ids.push(message.id);
        }
        for id in &ids {
            assert!(
                self.ledger.is_true(id),
                "a device sees {id}, whose transaction did not commit"
            );
            *self.ledger.used.entry(*id).or_default() += 1;
        }
        if ids.is_empty() {
            return;
        }
        let ask = Ask::Ack { device, ids: ids.clone() };
        let again = ask.clone();
        let mut answer = self.ask_at(Moment::Ack, ask);
        if answer.is_none() && self.plan.client == Client::Retries {
            answer = Some(self.must(again));
        }
        if let Some(answer) = answer {
            assert!(matches!(answer, Reply::Acked { .. }), "{answer:?}");
            self.ledger.acked.extend(ids);
        }
    }

    /// Nobody new comes; a healthy ERP works off what is left; everything comes to rest.
    pub(crate) fn rest(&mut self) {
        for _ in 0..2 {
            self.pass(Span::from_secs(1_500));
            while self.must(Ask::Tick) == Reply::More(true) {}
        }
        self.plan.way = Way::Commit;
        let gone = std::mem::replace(&mut self.plan.client, Client::Retries);
        let undecided: Vec<_> = {
            let database = self.database();
            let state = self.office.as_ref().unwrap().state();
            state.unknown(database).map(|process| process.id).collect()
        };
        if gone == Client::Gone {
            // When it happened, or by the server that found it.
            let told = [Happened::Unknown, Happened::StillUnknown];
            let told = told.into_iter().any(|what| self.was_told(what));
            assert!(told || undecided.is_empty(), "{undecided:?} were not announced");
        }
        for round in 0..4 {
            let Some((id, served)) = self.start(Moment::Begin) else { break };
            assert!(round < 3, "the queue does not end");
            self.prepare(id, &served);
            self.pass(Span::from_secs(400));
        }
        for _ in 0..2 {
            self.pass(Span::from_secs(400));
            let now = self.now;
            assert!(self.office().file(now));
        }
        self.plan.client = gone;
        self.fetch_rest();
        let office = self.office.as_ref().unwrap();
        assert!(office.barrier());
        check(office, &self.disk.seen(), &self.ledger, gone);
        // I5: what is at rest is durable. The next server finds the same.
        let before = self.office.as_ref().unwrap().state().clone();
        self.crash(Keep::Nothing);
        self.must(Ask::Tick);
        let now = self.now;
        assert!(self.office().file(now));
        let after = self.office.as_ref().unwrap().state();
        let places = |state: &handoff_exchange::State| -> Vec<(MessageId, Place)> {
            state
                .messages_from(handoff_exchange::Seq(0))
                .map(|(_, one)| (one.id, one.place))
                .collect()
        };
        assert_eq!(places(&before), places(after));
        check(self.office.as_ref().unwrap(), &self.disk.seen(), &self.ledger, gone);
    }

    fn fetch_rest(&mut self) {
        let gone = std::mem::replace(&mut self.plan.client, Client::Retries);
        self.fetch();
        let now = self.now;
        assert!(self.office().file(now));
        self.plan.client = gone;
    }

    pub(crate) fn was_told(&self, what: Happened) -> bool {
        let now = self.office.as_ref().map(|office| office.told.contains(&what));
        self.told.contains(&what) || now == Some(true)
    }
}

/// What an answer is, whatever its details: a repeated call is answered as the first was.
fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Posted(_) => "posted",
        Reply::Acked { .. } => "acked",
        Reply::Begun(Begun::Started { .. }) => "started",
        Reply::Begun(Begun::Idle) => "idle",
        Reply::Begun(Begun::Busy { .. }) => "busy",
        Reply::Ok { .. } => "ok",
        Reply::Cancelled(_) => "cancelled",
        Reply::More(_) | Reply::Done => "done",
        _ => "other",
    }
}
