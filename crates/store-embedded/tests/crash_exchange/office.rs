//! A server with the exchange and its folders, driven by one hand on a disk that can crash.

use std::sync::Arc;

use handoff_exchange::{Ask, Command, Exchange, Message, Reply, Rules, Seq, State};
use handoff_log::directory::Directory;
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Journal, Options, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::folders::{
    Answer, Folders, Known, More, Question, Report, answer, filed,
};
use handoff_store_embedded::{Checkpointing, Host, Loading, Progress, folders, open_journal};
use handoff_types::{Entropy, Limits, Now, Room};

pub(crate) struct Office {
    directory: Directory,
    journal: Arc<Inline>,
    pub(crate) host: Host<Exchange>,
    folders: Folders,
    rules: Rules,
    chance: u128,
    /// What people were told, by what happened.
    pub(crate) told: Vec<handoff_exchange::Happened>,
}

pub(crate) fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 1 << 20,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 256 << 10,
        change_bytes_max: 256 << 10,
        checkpoint_chunk_bytes: 400,
        ..Limits::default()
    }
}

/// Answers the folders' questions once everything they rest on is durable.
struct Direct<'a> {
    state: &'a State,
    journal: &'a Inline,
}

impl Known for Direct<'_> {
    fn ask(&mut self, question: &Question) -> Option<Answer> {
        self.journal.commit().ok()?;
        Some(answer(self.state, question))
    }
}

impl Office {
    /// Opens a data directory. None: the machine stopped in the middle.
    pub(crate) fn open(disk: Arc<dyn Disk>, now: Now, rules: Rules, life: u128) -> Option<Self> {
        let entropy = Entropy(life + 1);
        let directory = Directory::open(disk, entropy).ok()?;
        let mut loading = Loading::<Exchange>::begin(&directory).ok()?;
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).ok()?;
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().ok()?;
        let limits = limits();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).ok()?;
        let (host, filing) =
            loading.into_filing_host(Arc::clone(&journal) as _, Arc::new(segments));
        let options = folders::Options { take_in_bytes_max: 1 << 20 };
        let folders = Folders::new(Arc::clone(&directory.disk), filing, options);
        let chance = life << 32;
        let told = Vec::new();
        let mut office = Self { directory, journal, host, folders, rules, chance, told };
        office.ask(Ask::Opened, now)?;
        office.folders.orders().compare();
        Some(office)
    }

    pub(crate) fn state(&self) -> &State {
        self.host.state()
    }

    /// Asks, and answers when it is durable. None: the machine stopped before that, and nobody knows.
    pub(crate) fn ask(&mut self, ask: Ask, now: Now) -> Option<Reply> {
        self.chance += 1;
        let purpose = match &ask {
            Ask::Post { .. } | Ask::TakeIn { .. } => Purpose::Accept,
            _ => Purpose::Finish,
        };
        let command = Command { ask, rules: self.rules };
        let when = (now, Entropy(self.chance));
        let applied = self.host.apply_made(&command, 100 << 10, purpose, when).ok()?;
        self.journal.commit().ok()?;
        applied.ticket.outcome()?.ok()?;
        for action in &applied.actions {
            if let handoff_exchange::Action::Log(entry) = action {
                self.told.push(entry.what);
            }
        }
        self.folders.orders().take(self.host.state(), &applied.actions);
        Some(applied.reply)
    }

    /// Lets the folders catch up with what was decided. Whether the machine still runs.
    pub(crate) fn file(&mut self, now: Now) -> bool {
        for _ in 0..100 {
            let mut known = Direct { state: self.host.state(), journal: &self.journal };
            while self.folders.work(&mut known, now.steady) != More::No {}
            self.folders.sync(now.steady);
            let reports = self.folders.take_reports();
            if reports.is_empty() {
                return true;
            }
            for report in reports {
                let ask = match report {
                    Report::Settled { process, round } => Ask::Settled { number: process, round },
                    Report::Stuck { process, words } => Ask::Stuck { number: process, words },
                    Report::Damaged { seq, words } => Ask::Damaged { seq, words },
                    _ => continue,
                };
                if self.ask(ask, now).is_none() {
                    return false;
                }
            }
        }
        panic!("the folders do not come to rest");
    }

    /// The same without a sync: what was moved may be undone.
    pub(crate) fn file_unsynced(&mut self, now: Now) {
        let mut known = Direct { state: self.host.state(), journal: &self.journal };
        while self.folders.work(&mut known, now.steady) != More::No {}
    }

    /// Takes a checkpoint, so that what comes back after a crash comes from it.
    pub(crate) fn checkpoint(&mut self, now: Now) -> Option<()> {
        let mut checkpoint = Checkpointing::begin::<Exchange>(&self.directory, 400).ok()?;
        for _ in 0..10_000 {
            match checkpoint.step(&mut self.host, now).ok()? {
                Progress::Done => return Some(()),
                Progress::Waiting => {
                    self.journal.commit().ok()?;
                    if !self.file(now) {
                        return None;
                    }
                }
                Progress::More => {}
            }
        }
        panic!("the checkpoint does not come to an end");
    }

    /// The body of a message, as somebody would be given it.
    pub(crate) fn body(&self, seq: Seq, message: &Message) -> Result<bytes::Bytes, String> {
        let filed = filed(self.host.state(), seq, message).ok_or("no name")?;
        self.folders.bodies().read(&filed).map_err(|error| error.to_string())
    }

    /// Everything decided so far is durable.
    pub(crate) fn barrier(&self) -> bool {
        self.journal.commit().is_ok() && self.journal.barrier(Room::Exchange).outcome().is_some()
    }
}
