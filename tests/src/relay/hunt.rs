//! A hunt on agents: somebody sends samples, agents are killed at any moment, and two centres come and
//! go. The ledger knows what was acknowledged; that is at both centres in the end. Everything is there
//! at most once, acknowledged or not.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use handoff_relay::session::Reason;
use handoff_sim::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};

use super::agent::{Agent, Den, post};
use super::centre::{Centre, Manner};
use super::samples::{Taken, body_v1};
use crate::clock;
use crate::served::PATIENCE;

/// How long an agent lives at most before it is struck.
const LIFE_MAX_MICROS: u64 = 700_000;

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Agents killed.
    pub kills: u64,
    /// Of those, before they were ready.
    pub kills_at_start: u64,
    /// Agents that ended when they were told to.
    pub clean_ends: u64,
    /// Samples acknowledged.
    pub acknowledged: u64,
    /// Samples refused.
    pub refused: u64,
    /// Samples of which nobody heard.
    pub unknown: u64,
    /// Times that a refill file was found by an agent that started.
    pub found_files: u64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.kills_at_start += other.kills_at_start;
        self.clean_ends += other.clean_ends;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.found_files += other.found_files;
    }
}

/// What a hunt found.
#[derive(Debug)]
pub struct Trouble(String);

impl Trouble {
    pub(super) const fn new(words: String) -> Self {
        Self(words)
    }
}

impl std::error::Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A hunt.
pub struct Hunt {
    seed: u64,
    promise: String,
    dice: Dice,
    den: Den,
    centres: [Centre; 2],
    next: i64,
    acknowledged: Vec<Taken>,
    outcomes: Outcomes,
}

impl Hunt {
    /// On a directory of its own.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new(seed: u64, place: &Path) -> io::Result<Self> {
        Self::promising("durable", seed, place)
    }

    /// The same with agents that promise this.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn promising(promise: &str, seed: u64, place: &Path) -> io::Result<Self> {
        let centres = [Centre::new()?, Centre::new()?];
        let [one, two] = &centres;
        let den = Den::new(place, &[("one", one.address), ("two", two.address)])?;
        Ok(Self {
            seed,
            promise: format!("agent.promise={promise}"),
            dice: Dice::new(seed),
            den,
            centres,
            next: 0,
            acknowledged: Vec::new(),
            outcomes: Outcomes::default(),
        })
    }

    /// What happened so far.
    #[must_use]
    pub const fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// One agent, from its start to its end.
    ///
    /// # Errors
    /// When it does not live as it should.
    pub fn life(&mut self) -> Result<(), Trouble> {
        self.outcomes.found_files += self.den.files().map_or(0, |files| files.len() as u64);
        let mut prey =
            self.den.start(&["--set", "relay.promise_secs_max=2s", "--set", &self.promise])?;
        let at = Duration::from_micros(self.dice.below(LIFE_MAX_MICROS));
        if self.dice.one_in(8) {
            // Anywhere on its way to be ready.
            let at = Duration::from_micros(self.dice.below(40_000));
            strike(prey.id(), at).join().map_err(|_| Trouble("the striker is gone".to_owned()))?;
            prey.ended()?;
            self.outcomes.kills += 1;
            self.outcomes.kills_at_start += 1;
            return Ok(());
        }
        let agent = Agent::ready(prey).map_err(|error| self.trouble(&error.to_string()))?;
        let clean = self.dice.one_in(8);
        let striker = (!clean).then(|| strike(agent.prey.id(), at));
        let over = clock() + at;
        self.work(agent.http, || clean && clock() >= over);
        if let Some(striker) = striker {
            striker.join().map_err(|_| Trouble("the striker is gone".to_owned()))?;
            self.outcomes.kills += 1;
            return Ok(());
        }
        agent.stop().map_err(|error| self.trouble(&error.to_string()))?;
        self.outcomes.clean_ends += 1;
        Ok(())
    }

    /// Sends until the agent is gone or it is enough.
    fn work(&mut self, http: SocketAddr, enough: impl Fn() -> bool) {
        let Ok(mut connection) = crate::http::Http::connect(http, PATIENCE) else { return };
        while !enough() {
            self.disturb();
            let count = i64::try_from(1 + self.dice.below(40)).unwrap_or(1);
            let samples: Vec<Taken> = (self.next..self.next + count)
                .map(|n| (format!("s{}", n % 7), n, n.cast_unsigned().wrapping_mul(0x9e37_79b9)))
                .collect();
            self.next += count;
            let count = count.cast_unsigned();
            match post(&mut connection, &body_v1(&samples)) {
                Ok(answer) if answer.status == 204 => {
                    self.outcomes.acknowledged += count;
                    self.acknowledged.extend(samples);
                }
                Ok(_) => self.outcomes.refused += count,
                Err(_) => {
                    self.outcomes.unknown += count;
                    return;
                }
            }
        }
    }

    /// Does something to a centre, now and then.
    fn disturb(&mut self) {
        if !self.dice.one_in(6) {
            return;
        }
        let Some(centre) =
            usize::try_from(self.dice.below(2)).ok().and_then(|n| self.centres.get(n))
        else {
            return;
        };
        let bytes = usize::try_from(self.dice.below(4_000)).unwrap_or(0);
        match self.dice.below(7) {
            0 => centre.behave(Manner::Gone),
            1 => centre.behave(Manner::Cuts(bytes, usize::MAX)),
            2 => centre.behave(Manner::Cuts(usize::MAX, bytes)),
            3 => centre.turn(Manner::Refuses(Reason::RetryAfter)),
            4 => centre.restart(),
            _ => centre.turn(Manner::Takes),
        }
    }

    /// A last agent, undisturbed: everything that was acknowledged arrives.
    ///
    /// # Errors
    /// When something is missing or there twice.
    pub fn finish(&mut self) -> Result<(), Trouble> {
        for centre in &self.centres {
            centre.behave(Manner::Takes);
        }
        let agent = self.den.agent(&[]).map_err(|error| self.trouble(&error.to_string()))?;
        let over = clock() + PATIENCE;
        loop {
            // Nothing was in the memory of this one: what is in no file is at the centres or nowhere.
            let files = self.den.files()?;
            let missing = self.judge()?;
            if missing.is_none() && files.is_empty() {
                break;
            }
            if files.is_empty() || clock() >= over {
                let words = format!("{missing:?} is missing; files: {files:?}");
                return Err(self.trouble(&format!("{words}; {}", agent.prey.last_words())));
            }
            wait(Duration::from_millis(20));
        }
        agent.stop().map_err(|error| self.trouble(&error.to_string()))
    }

    /// Something that was acknowledged and is not there yet; an error if anything is there twice.
    fn judge(&self) -> Result<Option<(usize, Taken)>, Trouble> {
        for (number, centre) in self.centres.iter().enumerate() {
            let taken = centre.taken();
            if let Some((sample, times)) = taken.iter().find(|(_, times)| **times > 1) {
                let words = format!("centre {number} has {sample:?} {times} times");
                return Err(self.trouble(&words));
            }
            let missing = self.acknowledged.iter().find(|sample| !taken.contains_key(*sample));
            if let Some(missing) = missing {
                return Ok(Some((number, missing.clone())));
            }
        }
        Ok(None)
    }

    fn trouble(&self, words: &str) -> Trouble {
        Trouble(format!("seed {}, {:?}: {words}", self.seed, self.outcomes))
    }
}

/// Kills a process after a while.
pub(super) fn strike(id: u32, after: Duration) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        wait(after);
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            kill_process(id, Signal::KILL).ok();
        }
    })
}

/// Between two looks at what another process does, or until a moment that was drawn.
pub fn wait(time: Duration) {
    let (_silent, ears) = std::sync::mpsc::sync_channel::<()>(0);
    // Nobody says anything.
    ears.recv_timeout(time).ok();
}
