//! A room on a disk, with its folders in one hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use handoff_exchange::{
    Admin, Ask, Begun, Command, DatabaseNo, DeviceNo, EntityId, Exchange, Message, MessageId,
    NewMessage, NewReply, ProcessId, Reply, Rules, Seq, State, Status, Step, Verdict, Wish,
};
use handoff_log::directory::Directory;
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Options as JournalOptions, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::folders::{
    Answer, Bodies, Filed, Folders, Known, More, Options, Orders, Question, Report, answer, filed,
};
use handoff_store_embedded::{Checkpointing, Host, Loading, Progress, open_journal};
use handoff_types::{Entropy, Limits, Now, Span, Steady, Wall};

/// 2026-11-16 15:00 UTC.
pub const START: i64 = 1_794_841_200_000_000;
pub const DAY: &str = "2026-11-16";

/// The process is dead: its disk answers nothing.
#[derive(Debug)]
pub struct Dead;

pub type Alive<T> = Result<T, Dead>;

pub struct World {
    pub directory: Directory,
    pub journal: Arc<Inline>,
    pub host: Host<Exchange>,
    pub folders: Folders,
    pub orders: Orders,
    pub bodies: Bodies,
    pub rules: Rules,
    pub now: Now,
    /// What was reported, apart from what the room was told.
    pub reports: Vec<Report>,
    chance: u128,
}

/// The room, as the folders see it: everything is durable when they ask.
pub struct Direct<'a>(pub &'a State);

impl Known for Direct<'_> {
    fn ask(&mut self, question: &Question) -> Option<Answer> {
        Some(answer(self.0, question))
    }
}

pub fn id(text: &str) -> EntityId {
    text.parse().unwrap()
}

pub fn mid(text: &str) -> MessageId {
    text.parse().unwrap()
}

/// A message of some hundred bytes that no other has.
pub fn message(name: &str) -> NewMessage {
    NewMessage {
        id: mid(name),
        kind: Some("DOCS".parse().unwrap()),
        created: Wall(START),
        created_text: "2026-11-16T15:00:00Z".into(),
        reply_to: None,
        payload: Bytes::from(format!("\"{}\"", name.repeat(150))),
        digest: 7,
    }
}

/// What the file of a message holds.
pub fn body(name: &str, from: &str, to: &str) -> Bytes {
    let payload = name.repeat(150);
    Bytes::from(format!(
        r#"{{"version":1,"id":"{name}","from":"{from}","to":"{to}","appSystem":"stock","createdAt":"2026-11-16T15:00:00Z","type":"DOCS","payload":"{payload}"}}"#
    ))
}

pub fn verdict(name: &str, status: Status) -> Verdict {
    let error = (status == Status::Incorrect).then(|| "no such article".into());
    Verdict { message: mid(name), status, code: None, error }
}

impl World {
    /// The room on a disk with everything there is on it, and with `acme`'s database `db` and devices
    /// `a` and `b`.
    pub fn new(disk: &Arc<dyn Disk>) -> Self {
        let mut world = Self::open(disk).unwrap();
        world.populate_all().unwrap();
        world
    }

    /// The room as a process finds it.
    pub fn open(disk: &Arc<dyn Disk>) -> Alive<Self> {
        let entropy = Entropy(7);
        let limits = Limits {
            journal_file_bytes: 256 << 10,
            journal_bytes_max: 4 << 20,
            journal_reserve_bytes: 256 << 10,
            room_queue_bytes_max: 256 << 10,
            change_bytes_max: 128 << 10,
            ..Limits::default()
        };
        let directory = Directory::open(Arc::clone(disk), entropy).map_err(|_| Dead)?;
        let mut loading = Loading::<Exchange>::begin(&directory).map_err(|_| Dead)?;
        let options = JournalOptions { limits: limits.clone(), directory: directory.id, entropy };
        let opened = open_journal(&directory, options, &mut [&mut loading]);
        let (opened, report, failed) = opened.map_err(|_| Dead)?;
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().map_err(|_| Dead)?;
        let segments = Segments::open(Arc::clone(disk), (&limits).into()).map_err(|_| Dead)?;
        let (host, filing) =
            loading.into_filing_host(Arc::clone(&journal) as _, Arc::new(segments));
        let folders =
            Folders::new(Arc::clone(disk), filing, Options { take_in_bytes_max: 1 << 20 });
        let (orders, bodies) = (folders.orders(), folders.bodies());
        let now = Now { wall: Wall(START), steady: Steady(1_000_000) };
        Ok(Self {
            directory,
            journal,
            host,
            folders,
            orders,
            bodies,
            rules: Rules::default(),
            now,
            reports: Vec::new(),
            chance: 1,
        })
    }

    pub fn pass(&mut self, span: Span) {
        self.now.steady = self.now.steady + span;
        self.now.wall = Wall(self.now.wall.0 + i64::try_from(span.0).unwrap());
    }

    pub fn populate_all(&mut self) -> Alive<()> {
        let name: Box<str> = "".into();
        let (company, subsystem, database) = (id("acme"), id("stock"), id("db"));
        for admin in [
            Admin::PutCompany { id: company.clone(), name: name.clone() },
            Admin::PutSubsystem { id: subsystem.clone(), name: name.clone() },
            Admin::PutDatabase { id: database.clone(), company: company.clone(), name },
            Admin::PutRoute { company, subsystem, database },
        ] {
            self.ask(Ask::Admin(admin))?;
        }
        for device in ["a", "b"] {
            let (company, subsystem) = (id("acme"), id("stock"));
            let put = Admin::PutDevice { company, id: id(device), subsystem, name: "".into() };
            self.ask(Ask::Admin(put))?;
            let code = [device.as_bytes()[0]; 32];
            let expires = Wall(self.now.wall.0 + 1);
            let give = Admin::DeviceCode { company: id("acme"), id: id(device), code, expires };
            self.ask(Ask::Admin(give))?;
            self.ask(Ask::Activate { code, token: code })?;
        }
        Ok(())
    }

    pub fn state(&self) -> &State {
        self.host.state()
    }

    /// Asks the room, waits until it is durable, and hands on what it orders.
    pub fn ask(&mut self, ask: Ask) -> Alive<Reply> {
        self.chance += 1;
        let command = Command { ask, rules: self.rules };
        let chance = (self.now, Entropy(self.chance));
        let applied = self.host.apply_made(&command, 64 << 10, Purpose::Finish, chance);
        let applied = applied.map_err(|_| Dead)?;
        // A failed write is made good in another file.
        self.journal.commit().or_else(|_| self.journal.commit()).map_err(|_| Dead)?;
        let Some(Ok(_)) = applied.ticket.outcome() else { return Err(Dead) };
        self.orders.take(self.host.state(), &applied.actions);
        Ok(applied.reply)
    }

    pub fn no(&self, device: &str) -> DeviceNo {
        let company = self.state().company_by_id(&id("acme")).unwrap().no;
        self.state().device_by_id(company, &id(device)).unwrap().no
    }

    pub fn db(&self) -> DatabaseNo {
        self.state().database_by_id(&id("db")).unwrap().no
    }

    pub fn post(&mut self, device: &str, name: &str) -> Alive<Seq> {
        let device = self.no(device);
        match self.ask(Ask::Post { device, messages: vec![message(name)] })? {
            Reply::Posted(receipts) => Ok(receipts[0].seq),
            other => panic!("{other:?}"),
        }
    }

    pub fn begin(&mut self) -> Alive<ProcessId> {
        let database = self.db();
        match self.ask(Ask::Begin { database, wish: Wish::default() })? {
            Reply::Begun(Begun::Started { id, .. }) => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    pub fn step(&mut self, process: ProcessId, step: Step) -> Alive<()> {
        let database = self.db();
        match self.ask(Ask::Process { database, id: process, step })? {
            Reply::Ok { .. } => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    pub fn prepare(
        &mut self,
        process: ProcessId,
        verdicts: &[(&str, Status)],
        replies: &[(&str, &str)],
    ) -> Alive<()> {
        let verdicts = verdicts.iter().map(|(name, status)| verdict(name, *status)).collect();
        let reply = |(name, to): &(&str, &str)| NewReply { to: id(to), message: message(name) };
        let messages = replies.iter().map(reply).collect();
        self.step(process, Step::Prepare { verdicts, messages, digest: 1 })
    }

    /// Has the folders do everything there is to do now, and the room told of it.
    pub fn work(&mut self) -> Alive<()> {
        for _ in 0..1000 {
            let mut known = Direct(self.host.state());
            let more = self.folders.work(&mut known, self.now.steady);
            self.folders.sync(self.now.steady);
            if !self.tell()? && more == More::No {
                return Ok(());
            }
        }
        panic!("no end of work")
    }

    /// Tells the room what it is to know; whether there was anything.
    fn tell(&mut self) -> Alive<bool> {
        let mut any = false;
        for report in self.folders.take_reports() {
            match &report {
                Report::Settled { process, round } => {
                    self.ask(Ask::Settled { number: *process, round: *round })?;
                }
                Report::Stuck { process, words } => {
                    let (number, words) = (*process, words.clone());
                    self.ask(Ask::Stuck { number, words })?;
                }
                Report::Damaged { seq, words } => {
                    self.ask(Ask::Damaged { seq: *seq, words: words.clone() })?;
                }
                _ => {}
            }
            any |= !matches!(report, Report::Compared(_));
            self.reports.push(report);
        }
        Ok(any)
    }

    /// Compares the folders and puts right what is wrong.
    pub fn compare(&mut self) -> Alive<()> {
        self.orders.compare();
        self.work()
    }

    pub fn checkpoint(&mut self) -> Alive<()> {
        let mut checkpoint =
            Checkpointing::begin::<Exchange>(&self.directory, 1 << 10).map_err(|_| Dead)?;
        for _ in 0..10_000 {
            match checkpoint.step(&mut self.host, self.now).map_err(|_| Dead)? {
                Progress::Done => return Ok(()),
                Progress::Waiting => {
                    self.journal.commit().map_err(|_| Dead)?;
                    self.work()?;
                }
                Progress::More => {}
            }
        }
        Err(Dead)
    }

    pub fn filed(&self, seq: Seq) -> Filed {
        filed(self.state(), seq, self.state().message(seq).unwrap()).unwrap()
    }

    pub fn path(&self, seq: Seq) -> String {
        let filed = self.filed(seq);
        let place = format!("{:?}", filed.spot.place);
        match place.as_str() {
            "Log" | "Error" => format!("exchange/db/{place}/{DAY}/{}", filed.name),
            _ => format!("exchange/db/{place}/{}", filed.name),
        }
    }

    pub fn seq(&self, name: &str) -> Seq {
        self.found(name).unwrap().0
    }

    pub fn found(&self, name: &str) -> Option<(Seq, &Message)> {
        let devices = ["a", "b"].map(|device| self.no(device));
        let sent = devices.iter().find_map(|no| self.state().sent_by_device(*no, &mid(name)));
        sent.or_else(|| self.state().sent_by_database(self.db(), &mid(name)))
    }

    /// Every body is read and is what was sent.
    pub fn check_bodies(&self, when: &str) {
        for (seq, message) in self.state().messages_from(Seq(0)) {
            let filed = filed(self.state(), seq, message).unwrap();
            let name = &filed.name;
            let expected = body(name.id.as_str(), name.from.as_str(), name.to.as_str());
            match self.bodies.read(&filed) {
                Ok(body) => assert_eq!(body, expected, "{when}: {name}"),
                Err(error) => panic!("{when}: {name}: {error}"),
            }
        }
    }

    /// All files of the folders, with what is in them.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut dirs = vec!["exchange".to_owned()];
        while let Some(dir) = dirs.pop() {
            for name in self.directory.disk.list(&dir).unwrap() {
                let path = format!("{dir}/{name}");
                match handoff_log::disk::read_small(&*self.directory.disk, &path, 1 << 20) {
                    Ok(Some(bytes)) => drop(files.insert(path, bytes)),
                    _ => dirs.push(path),
                }
            }
        }
        files
    }

    /// Every message has its file where it belongs, and there is no other.
    pub fn check_folders(&self, when: &str) {
        let files = self.files();
        let set_aside = |path: &String| path.contains(".conflict-");
        let found: Vec<&String> = files.keys().filter(|path| !set_aside(path)).collect();
        let seqs = self.state().messages_from(Seq(0)).map(|(seq, _)| self.path(seq));
        let mut expected: Vec<String> = seqs.collect();
        expected.sort();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{when}");
        for (seq, _) in self.state().messages_from(Seq(0)) {
            let name = self.filed(seq).name;
            let expected = body(name.id.as_str(), name.from.as_str(), name.to.as_str());
            assert_eq!(files[&self.path(seq)], expected, "{when}: {name}");
        }
    }
}
