//! A room without a disk, with a company, a database and two devices in it.
//!
//! After every step the state rebuilt from all changes so far, and one put together from the
//! aggregates, equal the living one.

use bytes::Bytes;
use handoff_exchange::{
    Action, Admin, Ask, Begun, Cancelled, Change, Command, DatabaseNo, DeviceNo, EntityId,
    Exchange, Handed, Happened, Key, Message, MessageId, NewMessage, NewReply, Outcome, Phase,
    Place, Process, ProcessId, Receipt, Refusal, Reply, Rules, Seq, State, Status, Step, Verdict,
    Wish,
};
use handoff_types::{Decision, Entropy, Machine, Now, Span, Steady, Wall};

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) rules: Rules,
    pub(crate) now: Now,
    pub(crate) actions: Vec<Action>,
    changes: Vec<Change>,
    chance: u128,
}

pub(crate) const START: i64 = 1_700_000_000_000_000;

pub(crate) fn id(text: &str) -> EntityId {
    text.parse().unwrap()
}

pub(crate) fn mid(text: &str) -> MessageId {
    text.parse().unwrap()
}

pub(crate) fn message(name: &str) -> NewMessage {
    sized(name, 2)
}

pub(crate) fn sized(name: &str, bytes: usize) -> NewMessage {
    let payload = format!("\"{}\"", "x".repeat(bytes.saturating_sub(2)));
    NewMessage {
        id: mid(name),
        kind: Some("DOCS".parse().unwrap()),
        created: Wall(START),
        created_text: "2023-11-14T22:13:20Z".into(),
        reply_to: None,
        payload: Bytes::from(payload),
        digest: 7,
    }
}

pub(crate) fn reply(name: &str, to: &str) -> NewReply {
    NewReply { to: id(to), message: message(name) }
}

pub(crate) fn verdict(name: &str, status: Status) -> Verdict {
    let error = (status != Status::Processed).then(|| "no such article".into());
    let code = (status != Status::Processed).then_some(-803);
    Verdict { message: mid(name), status, code, error }
}

/// A process that began.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) id: ProcessId,
    pub(crate) messages: Vec<Handed>,
}

impl World {
    /// A company `acme` with database `db`, subsystem `stock`, and active devices `a` and `b`.
    pub(crate) fn new() -> Self {
        let now = Now { wall: Wall(START), steady: Steady(1_000_000) };
        let mut world = Self {
            state: State::default(),
            rules: Rules::default(),
            now,
            actions: Vec::new(),
            changes: Vec::new(),
            chance: 1,
        };
        world.company("acme", "db");
        world.device("acme", "a");
        world.device("acme", "b");
        world
    }

    pub(crate) fn company(&mut self, company: &str, database: &str) {
        let name: Box<str> = "".into();
        for admin in [
            Admin::PutCompany { id: id(company), name: name.clone() },
            Admin::PutSubsystem { id: id("stock"), name: name.clone() },
            Admin::PutDatabase { id: id(database), company: id(company), name },
            Admin::PutRoute {
                company: id(company),
                subsystem: id("stock"),
                database: id(database),
            },
        ] {
            assert_eq!(self.admin(admin), Reply::Done);
        }
    }

    pub(crate) fn device(&mut self, company: &str, device: &str) -> DeviceNo {
        let (subsystem, name) = (id("stock"), "".into());
        let put = Admin::PutDevice { company: id(company), id: id(device), subsystem, name };
        assert_eq!(self.admin(put), Reply::Done);
        self.chance += 1;
        let code = digest(self.chance);
        let expires = Wall(self.now.wall.0 + 1);
        let give = Admin::DeviceCode { company: id(company), id: id(device), code, expires };
        assert_eq!(self.admin(give), Reply::Done);
        let token = digest(self.chance << 64);
        let Reply::Activated(no) = self.ask(Ask::Activate { code, token }) else {
            panic!("not activated")
        };
        no
    }

    pub(crate) fn admin(&mut self, admin: Admin) -> Reply {
        self.ask(Ask::Admin(admin))
    }

    pub(crate) fn no(&self, device: &str) -> DeviceNo {
        let company = self.state.company_by_id(&id("acme")).unwrap().no;
        self.state.device_by_id(company, &id(device)).unwrap().no
    }

    pub(crate) fn db(&self) -> DatabaseNo {
        self.state.database_by_id(&id("db")).unwrap().no
    }

    /// Decides, makes it true, and checks that nothing but changes matter.
    pub(crate) fn ask(&mut self, ask: Ask) -> Reply {
        self.chance += 1;
        let command = Command { ask, rules: self.rules };
        let Decision { reply, changes, actions } =
            Exchange::decide(&self.state, &command, self.now, Entropy(self.chance));
        for change in &changes {
            Exchange::evolve(&mut self.state, change);
        }
        self.changes.extend(changes);
        self.actions.extend(actions);
        self.check();
        reply
    }

    fn check(&self) {
        let mut replayed = State::default();
        for change in &self.changes {
            Exchange::evolve(&mut replayed, change);
        }
        assert!(replayed == self.state, "replay differs");
        let mut put = State::default();
        for key in self.state.keys_from(&Key::Counters) {
            put.put(self.state.aggregate(&key).unwrap());
        }
        assert!(put == self.state, "aggregates differ");
        let db = self.db_or_none();
        for database in db {
            assert_eq!(put.counts(database), self.state.counts(database));
            assert_eq!(put.live(database), self.state.live(database));
            assert!(put.unknown(database).eq(self.state.unknown(database)));
        }
        assert!(put.unsettled().eq(self.state.unsettled()));
        let keys: Vec<Key> = self.state.keys_from(&Key::Counters).collect();
        assert!(keys.is_sorted());
        for key in &keys {
            assert_eq!(self.state.keys_from(key).next(), Some(*key));
        }
    }

    fn db_or_none(&self) -> Vec<DatabaseNo> {
        self.state.databases().map(|database| database.no).collect()
    }

    pub(crate) fn post(
        &mut self,
        device: &str,
        messages: &[NewMessage],
    ) -> Result<Vec<Receipt>, Refusal> {
        let device = self.no(device);
        match self.ask(Ask::Post { device, messages: messages.to_vec() }) {
            Reply::Posted(receipts) => Ok(receipts),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// Posts messages that must be taken, one by one.
    pub(crate) fn sent(&mut self, device: &str, names: &[&str]) {
        for name in names {
            self.post(device, &[message(name)]).unwrap();
        }
    }

    pub(crate) fn begin(&mut self, wish: Wish) -> Begun {
        match self.ask(Ask::Begin { database: self.db(), wish }) {
            Reply::Begun(begun) => begun,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn started(&mut self) -> Started {
        match self.begin(Wish::default()) {
            Begun::Started { id, messages, .. } => Started { id, messages },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn step(
        &mut self,
        process: ProcessId,
        step: Step,
    ) -> Result<Option<Steady>, Cancelled> {
        match self.ask(Ask::Process { database: self.db(), id: process, step }) {
            Reply::Ok { deadline } => Ok(deadline),
            Reply::Cancelled(cancelled) => Err(cancelled),
            other => panic!("{other:?}"),
        }
    }

    /// The third call, with its verdicts and replies; equal calls have equal digests.
    pub(crate) fn prepare(
        &mut self,
        process: ProcessId,
        verdicts: &[Verdict],
        messages: &[NewReply],
    ) -> Result<Option<Steady>, Cancelled> {
        let said = format!("{verdicts:?}{messages:?}");
        let digest =
            said.bytes().fold(1_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let (verdicts, messages) = (verdicts.to_vec(), messages.to_vec());
        self.step(process, Step::Prepare { verdicts, messages, digest })
    }

    pub(crate) fn resolve(&mut self, id: ProcessId, committed: bool) -> Result<(), Cancelled> {
        let outcomes = vec![Outcome { id, committed }];
        match self.ask(Ask::Resolve { database: self.db(), outcomes }) {
            Reply::Resolved(results) => results.into_iter().next().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A process of everything there is, ready, with one reply to device `a`.
    pub(crate) fn ready(&mut self, statuses: &[(&str, Status)]) -> Started {
        let started = self.started();
        let verdicts: Vec<_> = statuses.iter().map(|(name, one)| verdict(name, *one)).collect();
        let name = format!("r{}", started.id.number);
        self.prepare(started.id, &verdicts, &[reply(&name, "a")]).unwrap();
        started
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now.steady = self.now.steady + span;
        self.now.wall = Wall(self.now.wall.0 + i64::try_from(span.0).unwrap());
    }

    /// Lets the deadline of whatever is live pass.
    pub(crate) fn expire(&mut self) {
        self.pass(Span::from_secs(601));
        assert_eq!(self.ask(Ask::Tick), Reply::More(false));
    }

    pub(crate) fn phase(&self, process: ProcessId) -> Phase {
        self.process(process).phase
    }

    pub(crate) fn process(&self, process: ProcessId) -> &Process {
        self.state.process(self.db(), process).unwrap()
    }

    /// A message of device `a` or `b`, or of the database.
    pub(crate) fn message(&self, name: &str) -> Option<(Seq, &Message)> {
        let devices = ["a", "b"].map(|device| self.no(device));
        let sent = devices.iter().find_map(|no| self.state.sent_by_device(*no, &mid(name)));
        sent.or_else(|| self.state.sent_by_database(self.db(), &mid(name)))
    }

    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        self.message(name).map(|(_, message)| message.place)
    }

    pub(crate) fn inbox(&self, device: &str) -> Vec<String> {
        self.state.inbox(self.no(device)).map(|(_, message)| message.id.to_string()).collect()
    }

    pub(crate) fn names(&self, messages: &[Handed]) -> Vec<String> {
        let name = |handed: &Handed| self.state.message(handed.seq).unwrap().id.to_string();
        messages.iter().map(name).collect()
    }

    /// What was logged since the last look.
    pub(crate) fn logged(&mut self) -> Vec<Happened> {
        let what = |action: &Action| match action {
            Action::Log(entry) => Some(entry.what),
            _ => None,
        };
        let logged = self.actions.iter().filter_map(what).collect();
        self.actions.clear();
        logged
    }

    /// The bodies of what was prepared for devices, in their order.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let body = |change: &Change| match change {
            Change::Accepted { message, body, .. } if message.place == Place::Prepared => {
                Some(String::from_utf8(body.to_vec()).unwrap())
            }
            _ => None,
        };
        self.changes.iter().filter_map(body).collect()
    }

    pub(crate) fn unchanged(&mut self, during: impl FnOnce(&mut Self)) {
        let before = self.changes.len();
        during(self);
        assert_eq!(self.changes.len(), before, "something changed");
    }
}

fn digest(chance: u128) -> [u8; 32] {
    let mut digest = [9; 32];
    digest.iter_mut().zip(chance.to_le_bytes()).for_each(|(to, from)| *to = from);
    digest
}
