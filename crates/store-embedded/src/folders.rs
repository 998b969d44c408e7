//! The folders of the exchange: a view of the room for people with `ls`, and where bodies end up.
//!
//! # Constraints
//! * The journal is the only truth. A body is served from it until its file is synced; what the
//!   folders show is behind, and after whatever happens to them they are made to agree again.
//! * Every step may be done twice. A file goes where the state says at that moment, from wherever it
//!   is, so orders need not be remembered in their sequence, and a crash between any two of them
//!   costs nothing.
//! * No file is synced on its own: one `sync_all` covers a batch. A file is made under a name that
//!   nothing has; what somebody else put there is never replaced. One that may have been made before,
//!   by whoever was killed, is written under another name and moved over it.
//! * Nothing here knows the room. What it needs it asks ([`Known`]), so that it works on a thread of
//!   its own, or in one hand with the room.
//! * Nothing is held for every message: folders are compared with the state piece by piece.
//! * What cannot be done is told ([`Report`]) and tried again, later and later. Nothing here stops
//!   the room.
//!
//! ```text
//!  room ──actions──▶ Orders ─┐                      ┌─▶ Report: settled, stuck, damaged, …
//!  journal ──bodies──────────┼─▶ Folders::work ─────┤
//!  folders ──compare─────────┘     │ asks: Known    └─▶ sync ──▶ bodies leave the journal
//! ```

mod bodies;
mod comparing;
mod files;
mod hand;
mod known;
mod list;
mod name;
mod orders;
mod report;
mod righting;
mod writing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_exchange::Seq;
use handoff_log::disk::Disk;
use handoff_log::journal::Ahead;
use handoff_types::{Span, Steady};

pub use self::bodies::{Bodies, BodyError};
pub use self::known::{Answer, Filed, Known, Question, answer, filed};
pub use self::list::processes_json;
pub use self::name::{BadFileName, FileName, PATH_BYTES_MAX, PathTooLong, check_paths};
pub use self::orders::{Behind, Orders};
pub use self::report::{Compared, Foreign, Report};

use self::comparing::{Comparing, Scope};
use self::files::Files;
use self::hand::Hand;
use self::orders::{Desk, Order};
use crate::books::Called;
use crate::filing::Filing;

/// How many orders are done in a piece.
const ORDERS_AT_ONCE: usize = 256;

/// Of how many messages is asked at once: the room has others to answer.
const ASKED_AT_ONCE: usize = 512;

/// The first pause after a failure, and what doubling ends at.
const PAUSE_MIN: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(300);

/// The longest pause before bodies are written or synced again: the journal fills meanwhile, and a folder that takes files
/// again is to be noticed well before the door is closed (`exchange.files_behind_secs_max`).
const WRITING_PAUSE_MAX: Span = Span::from_secs(1);

/// What is to be known from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most bytes of a file that is taken in.
    pub take_in_bytes_max: u64,
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// At once.
    Now,
    /// At leisure: folders are being compared.
    Slowly,
    /// Not before somebody says so, or [`Folders::next_due`].
    No,
}

/// Keeps the folders. There is one for a data directory.
#[derive(Debug)]
pub struct Folders {
    files: Files,
    /// Fills files, if there is somebody.
    hand: Option<Hand>,
    filing: Filing,
    bodies: Bodies,
    options: Options,
    ahead: Ahead,
    /// Bodies behind one that cannot be filed that are in their files.
    filed: BTreeSet<Seq>,
    writing: Retry,
    syncing: Retry,
    /// It was told that files cannot be written.
    told_behind: bool,
    /// It was told that files which no process waits for cannot be moved.
    told_late: bool,
    /// Something was changed since the last sync.
    unsynced: bool,
    pending: VecDeque<Task>,
    /// Files that are to be moved and that are not written yet: they are written where they belong.
    unwritten: BTreeMap<Seq, Vec<Task>>,
    /// What failed, by when it is tried again.
    later: BTreeMap<(Steady, u64), Task>,
    failures: u64,
    processes: BTreeMap<u64, Waiting>,
    comparing: Option<Comparing>,
    /// Somebody wants another comparison after this one.
    compare_next: Option<Scope>,
    /// Processes that wait for the folders to be compared.
    after_comparing: BTreeSet<u64>,
    compare_again: Retry,
    /// Files that were offered and not answered for, and their lengths.
    offered: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    reports: Vec<Report>,
}

/// An order that is being carried out.
#[derive(Debug)]
struct Task {
    order: Order,
    tries: u32,
}

/// What is left of what a process ordered.
#[derive(Debug, Default)]
struct Waiting {
    left: usize,
    stuck: bool,
    /// Which of its decisions is settled when nothing is left; 0 if it has made none.
    round: u8,
}

/// Something that failed, until it succeeds.
#[derive(Debug, Default)]
struct Retry {
    tries: u32,
    due: Option<Steady>,
}

impl Retry {
    fn is_due(&self, now: Steady) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    fn failed(&mut self, now: Steady, pause_max: Span) {
        self.due = Some(after(now, self.tries, pause_max));
        self.tries = self.tries.saturating_add(1);
    }

    fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// Whether there is no space.
fn is_full(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// When something that failed so often before is tried again.
fn after(now: Steady, tries: u32, pause_max: Span) -> Steady {
    let pause = PAUSE_MIN.0.saturating_mul(1 << tries.min(16)).min(pause_max.0);
    Steady(now.0.saturating_add(pause))
}

impl Folders {
    /// The folders on a disk, filled from the journal.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, filing: Filing, options: Options) -> Self {
        let (desk, shared) = (Arc::new(Desk::default()), Arc::clone(&filing.shared));
        Self {
            files: Files::new(Arc::clone(&disk)),
            hand: None,
            filing,
            bodies: Bodies { disk, desk, shared },
            options,
            ahead: Ahead::default(),
            filed: BTreeSet::new(),
            writing: Retry::default(),
            syncing: Retry::default(),
            told_behind: false,
            told_late: false,
            unsynced: false,
            pending: VecDeque::new(),
            unwritten: BTreeMap::new(),
            later: BTreeMap::new(),
            failures: 0,
            processes: BTreeMap::new(),
            comparing: None,
            compare_next: None,
            after_comparing: BTreeSet::new(),
            compare_again: Retry::default(),
            offered: BTreeMap::new(),
            refused: BTreeMap::new(),
            reports: Vec::new(),
        }
    }

    /// Has files filled on a thread beside the one that makes and moves them. What is done is the same;
    /// in which order is not.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn get_help(&mut self) -> io::Result<()> {
        self.hand = Some(Hand::new(Arc::clone(&self.files.disk))?);
        Ok(())
    }

    /// What gives orders, from any thread.
    #[must_use]
    pub fn orders(&self) -> Orders {
        Orders { desk: Arc::clone(&self.bodies.desk), shared: Arc::downgrade(&self.filing.shared) }
    }

    /// What reads bodies, on any thread.
    #[must_use]
    pub fn bodies(&self) -> Bodies {
        self.bodies.clone()
    }

    /// Blocks until there is something to do, enough of it or since `tick`; see [`crate::Moving::wait`].
    /// After a failure it takes the whole of `tick`: whoever asks for what cannot be had must not turn it
    /// in circles.
    #[must_use]
    pub fn wait(&self, tick: Duration) -> Called {
        let fails = self.writing.tries > 0 || self.syncing.tries > 0;
        match fails {
            false => self.filing.shared.wait(tick),
            true if self.rest(tick) => Called::Tick,
            true => Called::Closing,
        }
    }

    /// Blocks for a while, whatever there is to do, after a failure for instance; whether to go on.
    #[must_use]
    pub fn rest(&self, pause: Duration) -> bool {
        self.filing.shared.rest(pause)
    }

    /// Does a piece of what is to be done: moves and removes some files, writes the bodies of one
    /// batch, compares some names. Trouble is reported and never stops it.
    pub fn work(&mut self, known: &mut dyn Known, now: Steady) -> More {
        self.take_orders();
        let ordered = self.carry_out(known, now);
        let filed = self.file(known, now);
        let compared = self.compare(known, now);
        self.filing.shared.busy(self.is_busy());
        match ordered || filed {
            true => More::Now,
            false if compared => More::Slowly,
            false => More::No,
        }
    }

    /// Makes durable what was done. From then on the journal is not needed for the bodies that were
    /// filed, and processes are settled.
    pub fn sync(&mut self, now: Steady) {
        if !self.syncing.is_due(now) {
            return;
        }
        let covered = self.filing.shared.unsynced().bodies;
        if self.unsynced || covered > 0 {
            if let Err(fault) = self.files.disk.sync_all() {
                return self.unsure(&fault, now);
            }
            self.unsynced = false;
            self.filing.shared.synced(covered);
        }
        self.syncing.succeeded();
        self.recovered();
        let done = self.processes.extract_if(.., |_, waiting| waiting.left == 0);
        let decided = done.filter(|(_, waiting)| waiting.round > 0);
        let settled = |(process, Waiting { round, .. })| Report::Settled { process, round };
        self.reports.extend(decided.map(settled));
        self.filing.shared.busy(self.is_busy());
    }

    /// How much a sync would cover: bodies and their bytes.
    #[must_use]
    pub fn unsynced(&self) -> crate::Unsynced {
        self.filing.shared.unsynced()
    }

    /// Whether a sync is worth while: something was changed, or a process waits for nothing else.
    #[must_use]
    pub fn wants_sync(&self) -> bool {
        let settles = self.processes.values().any(|waiting| waiting.left == 0);
        self.unsynced || settles || self.filing.shared.unsynced().bodies > 0
    }

    /// What there is to tell, oldest first.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// When something that failed is to be tried again.
    #[must_use]
    pub fn next_due(&self) -> Option<Steady> {
        let later = self.later.keys().next().map(|(due, _)| *due);
        let retries = [self.writing.due, self.syncing.due, self.compare_again.due];
        retries.into_iter().chain([later]).flatten().min()
    }

    /// Rewrites `exchange/processes.json` as a whole, without a sync: it is for people to look at, and
    /// nothing reads it.
    ///
    /// # Errors
    /// Whatever the disk answers; nothing depends on it.
    pub fn write_processes(&mut self, text: &str) -> io::Result<()> {
        self.files.replace(name::ROOT, list::FILE, text.as_bytes())
    }

    fn is_busy(&self) -> bool {
        let waits = !self.pending.is_empty()
            || !self.unwritten.is_empty()
            || !self.later.is_empty()
            || !self.processes.is_empty();
        let compares = self.comparing.is_some() || self.compare_next.is_some();
        waits || compares || self.unsynced || self.next_due().is_some()
    }

    /// After a failed sync nobody knows what the files hold that it was to cover. What the journal
    /// has is written again, under the same names.
    fn unsure(&mut self, fault: &io::Error, now: Steady) {
        let through = self.filing.shared.file_again();
        self.filing.unsure = self.filing.unsure.max(through);
        self.filed.clear();
        self.unsynced = true;
        self.syncing.failed(now, WRITING_PAUSE_MAX);
        let words = format!("the files could not be made durable: {fault}");
        self.behind(&words, is_full(fault));
    }

    fn behind(&mut self, words: &str, full: bool) {
        if !std::mem::replace(&mut self.told_behind, true) {
            self.reports.push(Report::Behind { words: words.into(), full });
        }
    }

    /// Says that files can be written, if it was said that they cannot.
    fn recovered(&mut self) {
        if self.writing.tries == 0 && std::mem::take(&mut self.told_behind) {
            self.reports.push(Report::Recovered);
        }
    }

    fn take_orders(&mut self) {
        let desk = Arc::clone(&self.bodies.desk);
        let mut inbox = desk.lock();
        let orders = std::mem::take(&mut inbox.orders);
        inbox.taken += orders.len();
        let settle = std::mem::take(&mut inbox.settle);
        let dropped = std::mem::take(&mut inbox.dropped);
        let refused = std::mem::take(&mut inbox.refused);
        self.compare_next = self.compare_next.max(inbox.compare.take());
        drop(inbox);
        for (number, round) in settle {
            let waiting = self.processes.entry(number).or_default();
            waiting.round = waiting.round.max(round);
        }
        for order in orders {
            if let Order::Discard { path } = &order {
                self.offered.remove(path);
            }
            if let Some(number) = order.process() {
                self.processes.entry(number).or_default().left += 1;
            }
            self.pending.push_back(Task { order, tries: 0 });
        }
        for number in dropped {
            if self.after_comparing.insert(number) {
                self.processes.entry(number).or_default().left += 1;
            }
        }
        for path in refused {
            let length = self.offered.remove(&path).unwrap_or_default();
            self.refused.insert(path, length);
        }
    }

    /// Carries out some orders. Gives whether there are more that can be.
    fn carry_out(&mut self, known: &mut dyn Known, now: Steady) -> bool {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            self.pending.push_back(entry.remove());
        }
        let tasks = self.next_tasks(now);
        let seqs = tasks.iter().filter_map(|task| match &task.order {
            Order::Right { seq, .. } => Some(*seq),
            _ => None,
        });
        let seqs: Vec<Seq> = seqs.collect();
        let Some(answers) = ask_messages(known, &seqs) else {
            // The room is closed. It is asked again when there is a reason to.
            self.pending.extend(tasks);
            return false;
        };
        let mut answers = answers.into_iter();
        let mut emptied = BTreeSet::new();
        for task in tasks {
            let done = match &task.order {
                Order::Right { from, .. } => match answers.next().flatten() {
                    Some(filed) => self.set_right(&filed, *from),
                    // It is gone by now: its removal is an order of its own.
                    None => Ok(()),
                },
                Order::Remove { was, .. } => self.remove(was, &mut emptied),
                Order::Discard { path } => self.discard(path),
            };
            self.done(task, done, now);
        }
        for dir in emptied {
            self.files.remove_day(&dir);
        }
        !self.pending.is_empty()
    }

    /// The next orders. Those whose files are not written yet are left to whoever writes them: it asks
    /// where they belong after this, so they are never written where they were, nor at all if they are
    /// gone.
    fn next_tasks(&mut self, now: Steady) -> Vec<Task> {
        let from = self.filing.unwritten_from();
        let mut tasks = Vec::new();
        while tasks.len() < ORDERS_AT_ONCE
            && let Some(task) = self.pending.pop_front()
        {
            let is_unwritten = |folders: &Self, seq: Seq| {
                from.is_some_and(|from| seq >= from) && !folders.filed.contains(&seq)
            };
            match &task.order {
                Order::Right { seq, .. } if is_unwritten(self, *seq) => {
                    self.unwritten.entry(*seq).or_default().push(task);
                }
                Order::Remove { was, .. } if is_unwritten(self, was.name.seq) => {
                    self.done(task, Ok(()), now);
                }
                _ => tasks.push(task),
            }
        }
        tasks
    }

    /// A file was written where it belongs, or could not be.
    fn written(&mut self, seq: Seq, done: Result<(), &io::Error>, now: Steady) {
        for task in self.unwritten.remove(&seq).into_iter().flatten() {
            let done = done.map_err(|fault| io::Error::new(fault.kind(), fault.to_string()));
            self.done(task, done, now);
        }
    }

    fn done(&mut self, task: Task, done: io::Result<()>, now: Steady) {
        let process = task.order.process();
        match done {
            Ok(()) => {
                let mut inbox = self.bodies.desk.lock();
                inbox.taken = inbox.taken.saturating_sub(1);
                drop(inbox);
                if let Some(waiting) = process.and_then(|number| self.processes.get_mut(&number)) {
                    waiting.left = waiting.left.saturating_sub(1);
                }
                self.told_late &= !self.later.is_empty();
            }
            Err(fault) => {
                let words = format!("{}: {fault}", self.shown(&task.order));
                match process.and_then(|number| Some((number, self.processes.get_mut(&number)?))) {
                    Some((process, waiting)) if !waiting.stuck => {
                        waiting.stuck = true;
                        self.reports.push(Report::Stuck { process, words: words.into() });
                    }
                    None if !std::mem::replace(&mut self.told_late, true) => {
                        self.reports.push(Report::Late { words: words.into() });
                    }
                    _ => {}
                }
                self.failures += 1;
                let due = (after(now, task.tries, PAUSE_MAX), self.failures);
                self.later.insert(due, Task { tries: task.tries.saturating_add(1), ..task });
            }
        }
    }

    fn shown(&self, order: &Order) -> String {
        match order {
            Order::Right { seq, .. } => format!("the file of message {} cannot be moved", seq.0),
            Order::Remove { was, .. } => format!("the file {} cannot be removed", was.name),
            Order::Discard { path } => format!("the file {path} cannot be removed"),
        }
    }
}

/// Where the files of messages belong; nothing if the room is closed.
fn ask_messages(known: &mut dyn Known, seqs: &[Seq]) -> Option<Vec<Option<Filed>>> {
    let mut found = Vec::with_capacity(seqs.len());
    for some in seqs.chunks(ASKED_AT_ONCE) {
        match known.ask(&Question::Messages(some.to_vec()))? {
            Answer::Messages(answers) if answers.len() == some.len() => found.extend(answers),
            _ => return None,
        }
    }
    Some(found)
}
