//! The hunt on the events room: real servers are killed at random moments under load, and a
//! ledger in this process judges what the next one finds and tells.
//!
//! ```text
//!  start ─▶ ready ─▶ list, look at every event ─▶ judge ─▶ work and listen ─▶ struck
//!    └──────────────────── a strike may come anywhere ────────────────────┘
//! ```

mod ledger;
mod work;

use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::thread;
use std::time::Duration;

use handoff_sim::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};

pub use self::ledger::{Ledger, Outcomes};
use self::work::{Asked, Work};
use crate::clock;
use crate::ledger::Trouble;
use crate::prey::Lair;
use crate::served::{self, PATIENCE, Served};
use crate::sevent::{Message, Peer, code, names, option};

/// How many requests a session has underway at most.
const WINDOW: u64 = 48;

/// How many lookups are underway while everything is looked at.
const LOOKUPS: usize = 256;

/// How long the listener is listened to between two rounds of work.
const GLANCE: Duration = Duration::from_millis(1);

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bag {
    /// Servers killed.
    pub kills: u64,
    /// Of those, before they were ready.
    pub kills_at_start: u64,
    /// Servers that ended when they were told to.
    pub clean_ends: u64,
    /// Servers frozen for a while.
    pub freezes: u64,
}

impl AddAssign for Bag {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.kills_at_start += other.kills_at_start;
        self.clean_ends += other.clean_ends;
        self.freezes += other.freezes;
    }
}

/// What is done to a server.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Killed so long after its start, ready or not.
    kill_at_start: Option<Duration>,
    /// Frozen so long after it was ready, for so long.
    freeze: Option<(Duration, Duration)>,
    /// Killed so long after it was ready; told to end if none.
    kill: Option<Duration>,
    /// How long it works when nothing strikes it.
    work: Duration,
}

impl Plan {
    fn draw(dice: &mut Dice) -> Self {
        let mut millis = |below: u64| Duration::from_micros(dice.below(below * 1000));
        let (start, short, long, pause) = (millis(120), millis(60), millis(500), millis(300));
        let plan = Self { kill_at_start: None, freeze: None, kill: None, work: long };
        match dice.below(16) {
            0 | 1 => Self { kill_at_start: Some(start), ..plan },
            2 | 3 => Self { kill: Some(short), ..plan },
            4 => Self { freeze: Some((short, pause)), kill: Some(long), ..plan },
            5 => plan,
            _ => Self { kill: Some(long), ..plan },
        }
    }
}

/// A hunt that found something.
#[derive(Debug)]
pub struct Found {
    seed: u64,
    life: u64,
    trouble: Trouble,
    last_words: String,
    place: String,
}

impl std::error::Error for Found {}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, life, trouble, last_words, place } = self;
        writeln!(f, "seed {seed}, life {life}: {trouble}")?;
        if !last_words.is_empty() {
            writeln!(f, "what servers said last:\n{last_words}")?;
        }
        write!(f, "the data directory: {place}")
    }
}

/// A hunt on one data directory.
#[derive(Debug)]
pub struct Hunt {
    seed: u64,
    lair: Lair,
    ledger: Ledger,
    work: Work,
    dice: Dice,
    bag: Bag,
    lives: u64,
}

impl Hunt {
    /// A hunt on a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        let mut dice = Dice::new(seed);
        // Small, so that files are recycled and checkpoints taken within seconds.
        let lair = served::lair(place)
            .set("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB")
            .set("HANDOFF_LOG__JOURNAL_BYTES_MAX", "16MiB")
            .set("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "2MiB")
            .set("HANDOFF_LOG__CHANGE_BYTES_MAX", "8MiB")
            .set("HANDOFF_LOG__CHECKPOINT_BYTES", "256KiB")
            .set("HANDOFF_LOG__CHECKPOINT_CHUNK_BYTES", "4KiB")
            .set("HANDOFF_SERVER__DISK_FREE_MIN", "1MiB");
        let work = Work::new(dice.fork());
        let (ledger, bag) = (Ledger::default(), Bag::default());
        Self { seed, lair, ledger, work, dice, bag, lives: 0 }
    }

    /// What happened so far.
    #[must_use]
    pub fn bag(&self) -> Bag {
        self.bag
    }

    /// What became of what was asked.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.ledger.outcomes()
    }

    /// Lets one server live until it is struck.
    ///
    /// # Errors
    /// [`Found`] when something answered is not there, something is there or told twice, or the
    /// server did not live as it should.
    pub fn life(&mut self) -> Result<(), Box<Found>> {
        let plan = Plan::draw(&mut self.dice);
        self.live(plan)
    }

    /// Lets a last server live undisturbed and looks at everything once more.
    ///
    /// # Errors
    /// As [`Self::life`].
    pub fn finish(&mut self) -> Result<(), Box<Found>> {
        let work = Duration::from_millis(200);
        self.live(Plan { kill_at_start: None, freeze: None, kill: None, work })
    }

    fn live(&mut self, plan: Plan) -> Result<(), Box<Found>> {
        self.lives += 1;
        let policy = self.dice.pick(&["skip", "once", "all"]).copied().unwrap_or("skip");
        let lair = self.lair.clone().set("HANDOFF_EVENTS__CATCH_UP", policy);
        self.chase(plan, &lair).map_err(|trouble| {
            let words = std::fs::read_to_string(&self.lair.talk).unwrap_or_default();
            let lines: Vec<&str> = words.lines().rev().take(12).collect();
            Box::new(Found {
                seed: self.seed,
                life: self.lives,
                trouble,
                last_words: lines.into_iter().rev().collect::<Vec<_>>().join("\n"),
                place: self.lair.data_dir.display().to_string(),
            })
        })
    }

    fn chase(&mut self, plan: Plan, lair: &Lair) -> Result<(), Trouble> {
        let prey = lair.start().map_err(trouble("no server"))?;
        let pid = prey.id();
        let at_start = plan.kill_at_start.map(|delay| strike(pid, vec![(delay, Signal::KILL)]));
        let served = match Served::ready(prey) {
            Ok(served) => served,
            Err(error) if at_start.is_none() => return Err(trouble("not ready")(error)),
            Err(_) => {
                self.bag.kills += 1;
                self.bag.kills_at_start += 1;
                return joined(at_start);
            }
        };
        let mut strikes = Vec::new();
        if let Some((delay, pause)) = plan.freeze {
            strikes.extend([(delay, Signal::STOP), (pause, Signal::CONT)]);
            self.bag.freezes += 1;
        }
        strikes.extend(plan.kill.map(|delay| (delay, Signal::KILL)));
        let doomed = at_start.is_some() || plan.kill.is_some();
        let striker = strike(pid, strikes);
        let seen = self.session(&served, plan.work, doomed);
        joined(at_start)?;
        joined(Some(striker))?;
        self.ledger.gone();
        match (seen, doomed) {
            (Err(End::Found(trouble)), _) => Err(trouble),
            (Err(End::Cut(error)), false) => Err(trouble("the session broke off")(error)),
            (Err(End::Cut(_)), true) | (Ok(()), true) => {
                self.bag.kills += 1;
                Ok(())
            }
            (Ok(()), false) => {
                self.bag.clean_ends += 1;
                served.stop().map_err(trouble("no clean end"))
            }
        }
    }

    /// Looks at everything, then works until time is over or the server is gone.
    fn session(&mut self, served: &Served, time: Duration, doomed: bool) -> Result<(), End> {
        self.ledger.begin();
        let connect = || Peer::connect(served.events, PATIENCE);
        let mut looker = connect()?;
        self.look(&mut looker)?;
        let mut listener = connect()?;
        let types = (option::EVENT_TYPES, names(&work::TYPES));
        expect(&listener.ask(code::SUBSCRIBE, &[types], &[])?, code::FILTER_UPDATED)?;
        let mut workers = [connect()?, connect()?];
        let begun = clock();
        // Whoever is to be killed works until it is.
        while doomed || begun.elapsed() < time {
            let mut rounds = Vec::new();
            for worker in &mut workers {
                let count = 1 + self.dice.below(WINDOW);
                let asked: Vec<Asked> =
                    (0..count).map(|_| self.work.next(&mut self.ledger)).collect();
                let octets: Vec<u8> = asked.iter().flat_map(|asked| asked.octets.clone()).collect();
                worker.send(&octets)?;
                rounds.push(asked);
            }
            for (worker, asked) in workers.iter_mut().zip(rounds) {
                for asked in asked {
                    let answer = worker.answer()?;
                    self.ledger.answered(&asked.what, &answer)?;
                }
            }
            self.listen(&mut listener)?;
        }
        self.look(&mut looker)
    }

    /// Every event there is, one by one.
    fn look(&mut self, peer: &mut Peer) -> Result<(), End> {
        let began = clock();
        let listed = peer.ask(code::LIST_EVENTS, &[], &[])?;
        expect(&listed, code::LISTED_EVENTS)?;
        let ids = listed.ids().ok_or_else(|| Trouble("a list without ids".to_owned()))?;
        let mut found = Vec::new();
        for some in ids.chunks(LOOKUPS) {
            let octets: Vec<u8> = some.iter().flat_map(|id| work::get(*id)).collect();
            peer.send(&octets)?;
            for id in some {
                found.push((*id, peer.answer()?));
            }
        }
        Ok(self.ledger.looked(&ids, &found, began)?)
    }

    fn listen(&mut self, listener: &mut Peer) -> Result<(), End> {
        listener.set_patience(GLANCE)?;
        loop {
            match listener.message() {
                Ok(Some(message)) => {
                    expect(&message, code::NOTIFY)?;
                    self.ledger.notified(&message)?;
                }
                Ok(None) => return Err(End::Cut(std::io::ErrorKind::UnexpectedEof.into())),
                Err(error) if quiet(&error) => return Ok(()),
                Err(error) => return Err(End::Cut(error)),
            }
        }
    }
}

fn quiet(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

fn expect(message: &Message, code: u8) -> Result<(), Trouble> {
    if message.code == code {
        return Ok(());
    }
    Err(Trouble(format!("message {code} was expected, {message:?} came")))
}

/// Why a session is over.
enum End {
    /// The server is gone.
    Cut(std::io::Error),
    /// The ledger objects.
    Found(Trouble),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Cut(error)
    }
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Found(trouble)
    }
}

fn trouble(what: &str) -> impl FnOnce(std::io::Error) -> Trouble {
    let what = what.to_owned();
    move |error| Trouble(format!("{what}: {error}"))
}

/// Sends signals to a process, each so long after the one before. The process is a child that is
/// not waited for before this has ended, so its id is nobody else's.
fn strike(pid: u32, strikes: Vec<(Duration, Signal)>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for (delay, signal) in strikes {
            let begun = clock();
            while begun.elapsed() < delay {
                thread::park_timeout(delay.saturating_sub(begun.elapsed()));
            }
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended by itself; the hunter finds that out.
                kill_process(pid, signal).unwrap_or_default();
            }
        }
    })
}

fn joined(thread: Option<thread::JoinHandle<()>>) -> Result<(), Trouble> {
    match thread.map(thread::JoinHandle::join) {
        Some(Err(_)) => Err(Trouble("the striker panicked".to_owned())),
        _ => Ok(()),
    }
}
