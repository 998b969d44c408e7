//! A hunt on both ends: somebody sends samples to an agent, and the agent and the server that receives
//! it are killed at any moment. In the end the topic has what was acknowledged, and everything that it
//! has once, sample by sample. The same with a program that keeps samples in place of the topic, which
//! is killed too.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use handoff_sim::dice::Dice;

use super::agent::{Agent, Den};
use super::ledger::{Ledger, Outcomes, Trouble, strike, wait};
use super::reception::{Reception, samples_of};
use super::samples::Taken;
use crate::clock;
use crate::keeper::ledger;
use crate::prey::{Prey, Said};
use crate::prometheus::free;
use crate::served::{PATIENCE, Served};

/// How long it takes at most until somebody is struck.
const ROUND_MAX_MICROS: u64 = 600_000;

/// A program that keeps samples, and how it is started.
#[derive(Clone, Debug)]
pub struct Keeping {
    program: PathBuf,
    url: String,
    place: PathBuf,
    is_forgetful: bool,
}

impl Keeping {
    /// This program, for the server at this address, in a directory of its own.
    #[must_use]
    pub fn new(program: &Path, http: SocketAddr, place: &Path) -> Self {
        let (program, place) = (program.to_owned(), place.to_owned());
        Self { program, url: format!("http://{http}"), place, is_forgetful: false }
    }

    /// The same that says that it has nothing whenever it is asked.
    #[must_use]
    pub const fn forgetful(mut self) -> Self {
        self.is_forgetful = true;
        self
    }

    /// Starts it with these arguments besides.
    ///
    /// # Errors
    /// With its last words when it ends at once.
    pub fn start(&self, more: &[&str]) -> io::Result<Prey> {
        let mut command = Command::new(&self.program);
        command.arg("--url").arg(&self.url).arg("--ledger").arg(self.place.join("ledger"));
        command.args(self.is_forgetful.then_some("--forgetful")).args(more);
        let prey = Prey::start(&mut command, &self.place.join("keeper.stderr"))?;
        match prey.listen(PATIENCE) {
            Said::Line(_) => Ok(prey),
            Said::Silent | Said::Gone => Err(io::Error::other(prey.last_words())),
        }
    }

    /// What it kept, sample by sample, and how many segments it was handed again. A segment that it has
    /// more than once counts once if it is the same each time.
    ///
    /// # Errors
    /// When two segments have one id and are not the same, or one that keeps its marks has one twice.
    pub fn samples(&self) -> io::Result<(BTreeMap<Taken, u64>, u64)> {
        let (mut known, mut again) = (BTreeMap::new(), 0);
        let mut samples: BTreeMap<Taken, u64> = BTreeMap::new();
        for kept in ledger(&self.place.join("ledger"))? {
            let Some(before) = known.insert(kept.id.clone(), kept.samples.clone()) else {
                for sample in kept.samples {
                    *samples.entry(sample).or_default() += 1;
                }
                continue;
            };
            again += 1;
            if before != kept.samples || !self.is_forgetful {
                return Err(io::Error::other(format!("{} was handed over twice", kept.id)));
            }
        }
        Ok((samples, again))
    }
}

/// A hunt on both ends.
pub struct Chase {
    seed: u64,
    promise: String,
    dice: Dice,
    den: Den,
    reception: Reception,
    agent: Option<Agent>,
    server: Option<Served>,
    ledger: Ledger,
    /// Servers killed.
    servers: u64,
    keeping: Option<Keeping>,
    keeper: Option<Prey>,
    /// Programs killed.
    keepers: u64,
}

impl Chase {
    /// On a directory of its own.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new(seed: u64, place: &Path) -> io::Result<Self> {
        Self::promising("durable", seed, place)
    }

    /// The same with a program that keeps samples, which is killed too.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn keeping(
        program: &Path,
        is_forgetful: bool,
        seed: u64,
        place: &Path,
    ) -> io::Result<Self> {
        let mut chase = Self::new(seed, place)?;
        let http = free()?;
        let keeping = Keeping::new(program, http, place);
        chase.keeping = Some(if is_forgetful { keeping.forgetful() } else { keeping });
        let reception = Reception::at(&place.join("centre"), http)?;
        chase.reception = reception.set("HANDOFF_RELAY__CALLBACK", "true");
        chase.den = Den::new(&place.join("edge"), &[("centre", chase.reception.relay)])?;
        Ok(chase)
    }

    /// The same as [`Self::new`] with agents that promise this.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn promising(promise: &str, seed: u64, place: &Path) -> io::Result<Self> {
        let (edge, centre) = (place.join("edge"), place.join("centre"));
        std::fs::create_dir_all(&edge)?;
        std::fs::create_dir_all(&centre)?;
        let reception = Reception::new(&centre)?;
        let den = Den::new(&edge, &[("centre", reception.relay)])?;
        Ok(Self {
            seed,
            promise: format!("agent.promise={promise}"),
            dice: Dice::new(seed),
            den,
            reception,
            agent: None,
            server: None,
            ledger: Ledger::default(),
            servers: 0,
            keeping: None,
            keeper: None,
            keepers: 0,
        })
    }

    /// What happened so far, and how many servers were killed.
    #[must_use]
    pub const fn outcomes(&self) -> (Outcomes, u64) {
        (self.ledger.outcomes, self.servers)
    }

    /// How many programs that keep samples were killed.
    #[must_use]
    pub const fn keepers(&self) -> u64 {
        self.keepers
    }

    /// Starts who is not there, sends, and kills some of them.
    ///
    /// # Errors
    /// When somebody does not live as he should.
    pub fn round(&mut self) -> Result<(), Trouble> {
        // Now and then nobody receives.
        if self.server.is_none() && !self.dice.one_in(5) {
            self.server = Some(self.reception.start()?);
        }
        if self.agent.is_none() {
            self.ledger.outcomes.found_files +=
                self.den.files().map_or(0, |files| files.len() as u64);
            let flags = ["--set", "relay.promise_secs_max=2s", "--set", &self.promise];
            self.agent = Some(self.den.agent(&flags).map_err(|error| self.trouble(&error))?);
        }
        if let Some(keeping) = &self.keeping
            && self.keeper.is_none()
            && !self.dice.one_in(5)
        {
            self.keeper = Some(keeping.start(&[])?);
        }
        let at = Duration::from_micros(self.dice.below(ROUND_MAX_MICROS));
        let (agent, server) = match self.dice.below(5) {
            0 | 1 => (true, false),
            2 | 3 => (false, true),
            _ => (true, true),
        };
        let keeper = self.keeping.is_some() && !self.dice.one_in(3);
        let prey = self.agent.as_ref().filter(|_| agent).map(|agent| agent.prey.id());
        let other = self.server.as_ref().filter(|_| server).map(|server| server.prey.id());
        let third = self.keeper.as_ref().filter(|_| keeper).map(Prey::id);
        let all = prey.iter().chain(&other).chain(&third);
        let strikers: Vec<_> = all.map(|id| strike(*id, at)).collect();
        let until = clock() + at;
        if let Some(http) = self.agent.as_ref().map(|agent| agent.http) {
            self.ledger.send(http, &mut self.dice, |_| clock() >= until);
        }
        for striker in strikers {
            striker.join().map_err(|_| self.trouble(&"the striker is gone"))?;
        }
        if prey.is_some() {
            self.agent = None;
            self.ledger.outcomes.kills += 1;
        }
        if other.is_some() {
            self.server = None;
            self.servers += 1;
        }
        if third.is_some() {
            self.keeper = None;
            self.keepers += 1;
        }
        Ok(())
    }

    /// All are left alone until nothing is on its way: the topic, or the program, has everything, once.
    /// How many segments the program was handed again.
    ///
    /// # Errors
    /// When something is missing or there twice.
    pub fn finish(&mut self) -> Result<u64, Trouble> {
        if let Some(keeping) = self.keeping.as_ref().filter(|_| self.keeper.is_none()) {
            self.keeper = Some(keeping.start(&[])?);
        }
        let server = match self.server.take() {
            Some(server) => server,
            None => self.reception.start()?,
        };
        if let Some(agent) = self.agent.take() {
            agent.stop().map_err(|error| self.trouble(&error))?;
        }
        // Nothing is in the memory of this one: what is in no file is in the topic or nowhere.
        let agent = self.den.agent(&[]).map_err(|error| self.trouble(&error))?;
        let over = clock() + PATIENCE;
        while !self.den.files()?.is_empty() {
            if clock() >= over {
                let files = self.den.files()?;
                let words = format!("files are left: {files:?}; {}", agent.prey.last_words());
                return Err(self.trouble(&words));
            }
            wait(Duration::from_millis(20));
        }
        agent.stop().map_err(|error| self.trouble(&error))?;
        let (found, again) = match &self.keeping {
            Some(keeping) => keeping.samples().map_err(|error| self.trouble(&error))?,
            None => (samples_of(server.http)?, 0),
        };
        let missing = self.ledger.missing(&found).map_err(|words| self.trouble(&words))?;
        if let Some(lost) = missing {
            return Err(self.trouble(&format!("{lost:?} is missing")));
        }
        server.stop().map_err(|error| self.trouble(&error))?;
        Ok(again)
    }

    fn trouble(&self, words: &dyn std::fmt::Display) -> Trouble {
        let Self { seed, servers, keepers, ledger, .. } = self;
        let (killed, outcomes) =
            (format!("{servers} servers and {keepers} programs killed"), ledger.outcomes);
        Trouble::new(format!("seed {seed}, {killed}, {outcomes:?}: {words}"))
    }
}
