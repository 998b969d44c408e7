//! Following one server after the other through a data directory, and striking them.
//!
//! ```text
//!  start ─▶ ready ─▶ session: look, judge, work ─▶ struck, or told to end
//!    └────────── a strike may come anywhere ─────────┘
//! ```

use std::fmt;
use std::ops::AddAssign;
use std::path::Path;
use std::thread;
use std::time::Duration;

use handoff_sim::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::ledger::Trouble;
use crate::prey::Lair;
use crate::served::{self, Served};

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
pub struct Plan {
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

/// Why a session is over.
#[derive(Debug)]
pub enum End {
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

/// A hunt on one room of real servers.
pub trait Hunts {
    /// What happened so far.
    fn bag(&self) -> Bag;

    /// Lets one server live until it is struck.
    ///
    /// # Errors
    /// [`Found`] when the ledger objects to what it sees, or the server did not live as it should.
    fn life(&mut self) -> Result<(), Box<Found>>;

    /// Lets a last server live undisturbed and looks at everything once more.
    ///
    /// # Errors
    /// As [`Self::life`].
    fn finish(&mut self) -> Result<(), Box<Found>>;
}

/// One data directory and the servers that live in it, one after the other.
#[derive(Debug)]
pub struct Stalk {
    seed: u64,
    /// How servers are started.
    pub lair: Lair,
    /// Chance.
    pub dice: Dice,
    bag: Bag,
    lives: u64,
}

/// What happens while a server lives: it may break off when the server is struck.
pub trait Session {
    /// Looks at everything, then works until `time` is over, or until the server is gone if it is
    /// doomed.
    ///
    /// # Errors
    /// [`End`]
    fn session(
        &mut self,
        dice: &mut Dice,
        served: &Served,
        time: Duration,
        doomed: bool,
    ) -> Result<(), End>;

    /// The server is gone, and with it every answer that did not come.
    fn gone(&mut self);
}

impl Stalk {
    /// For a directory of its own.
    #[must_use]
    pub fn new(seed: u64, place: &Path) -> Self {
        let lair = restless(served::lair(place));
        Self { seed, lair, dice: Dice::new(seed), bag: Bag::default(), lives: 0 }
    }

    /// What happened so far.
    #[must_use]
    pub fn bag(&self) -> Bag {
        self.bag
    }

    /// Lets one server live until it is struck.
    ///
    /// # Errors
    /// [`Found`] when the session objects, or the server did not live as it should.
    pub fn life(&mut self, lair: &Lair, session: &mut dyn Session) -> Result<(), Box<Found>> {
        let plan = Plan::draw(&mut self.dice);
        self.live(plan, lair, session)
    }

    /// Lets a server live undisturbed.
    ///
    /// # Errors
    /// As [`Self::life`].
    pub fn undisturbed(
        &mut self,
        work: Duration,
        session: &mut dyn Session,
    ) -> Result<(), Box<Found>> {
        let lair = self.lair.clone();
        self.live(Plan { kill_at_start: None, freeze: None, kill: None, work }, &lair, session)
    }

    fn live(
        &mut self,
        plan: Plan,
        lair: &Lair,
        session: &mut dyn Session,
    ) -> Result<(), Box<Found>> {
        self.lives += 1;
        self.chase(plan, lair, session).map_err(|trouble| {
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

    fn chase(&mut self, plan: Plan, lair: &Lair, session: &mut dyn Session) -> Result<(), Trouble> {
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
        let seen = session.session(&mut self.dice, &served, plan.work, doomed);
        joined(at_start)?;
        joined(Some(striker))?;
        session.gone();
        match (seen, doomed) {
            (Err(End::Found(trouble)), _) => Err(trouble),
            (Err(End::Cut(error)), false) => Err(trouble("the session broke off")(error)),
            (Err(End::Cut(_)), true) | (Ok(()), true) => {
                self.bag.kills += 1;
                Ok(())
            }
            (Ok(()), false) => {
                self.bag.clean_ends += 1;
                served.stop().map_err(trouble("no clean end"))?;
                let words = std::fs::read_to_string(&lair.talk).unwrap_or_default();
                match words.lines().find(|line| line.contains("the next start recovers")) {
                    Some(line) => Err(Trouble(format!("no clean end: {line}"))),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A server whose journal is so small that files are recycled and checkpoints taken within seconds.
#[must_use]
pub fn restless(lair: Lair) -> Lair {
    lair.set("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB")
        .set("HANDOFF_LOG__JOURNAL_BYTES_MAX", "16MiB")
        .set("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "2MiB")
        .set("HANDOFF_LOG__CHANGE_BYTES_MAX", "8MiB")
        .set("HANDOFF_LOG__CHECKPOINT_BYTES", "256KiB")
        .set("HANDOFF_LOG__CHECKPOINT_CHUNK_BYTES", "4KiB")
        .set("HANDOFF_SERVER__DISK_FREE_MIN", "1MiB")
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
