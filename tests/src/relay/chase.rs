//! A hunt on both ends: somebody sends samples to an agent, and the agent and the server that receives
//! it are killed at any moment. In the end the topic has what was acknowledged, and everything that it
//! has once, sample by sample.

use std::io;
use std::path::Path;
use std::time::Duration;

use handoff_sim::dice::Dice;

use super::agent::{Agent, Den};
use super::ledger::{Ledger, Outcomes, Trouble, strike, wait};
use super::reception::{Reception, samples_of};
use crate::clock;
use crate::served::{PATIENCE, Served};

/// How long it takes at most until somebody is struck.
const ROUND_MAX_MICROS: u64 = 600_000;

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
}

impl Chase {
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
        })
    }

    /// What happened so far, and how many servers were killed.
    #[must_use]
    pub const fn outcomes(&self) -> (Outcomes, u64) {
        (self.ledger.outcomes, self.servers)
    }

    /// Starts who is not there, sends, and kills one of them or both.
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
        let at = Duration::from_micros(self.dice.below(ROUND_MAX_MICROS));
        let (agent, server) = match self.dice.below(5) {
            0 | 1 => (true, false),
            2 | 3 => (false, true),
            _ => (true, true),
        };
        let prey = self.agent.as_ref().filter(|_| agent).map(|agent| agent.prey.id());
        let other = self.server.as_ref().filter(|_| server).map(|server| server.prey.id());
        let strikers: Vec<_> = prey.iter().chain(&other).map(|id| strike(*id, at)).collect();
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
        Ok(())
    }

    /// Both are left alone until nothing is on its way: the topic has everything, once.
    ///
    /// # Errors
    /// When something is missing or there twice.
    pub fn finish(&mut self) -> Result<(), Trouble> {
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
        let found = samples_of(server.http)?;
        let missing = self.ledger.missing(&found).map_err(|words| self.trouble(&words))?;
        if let Some(lost) = missing {
            return Err(self.trouble(&format!("{lost:?} is missing")));
        }
        server.stop().map_err(|error| self.trouble(&error))
    }

    fn trouble(&self, words: &dyn std::fmt::Display) -> Trouble {
        let (seed, servers, outcomes) = (self.seed, self.servers, self.ledger.outcomes);
        Trouble::new(format!("seed {seed}, {servers} servers killed, {outcomes:?}: {words}"))
    }
}
