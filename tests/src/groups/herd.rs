//! Consumers as processes: started, told where the server is, killed, frozen, listened to.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use handoff_sim::dice::Dice;

use super::GROUPS;
use super::ledger::Ledger;
use crate::clock;
use crate::consumer::Word;
use crate::ledger::Trouble;
use crate::member::Verdict;
use crate::prey::{Prey, Said};
use crate::served::PATIENCE;

/// How long a consumer is frozen at most: longer than its session.
const FREEZE_MS: u64 = 800;

/// Consumers of all groups.
#[derive(Debug)]
pub(super) struct Herd {
    seed: u64,
    program: PathBuf,
    talk: PathBuf,
    born: u64,
    server: Option<SocketAddr>,
    consumers: Vec<Consumer>,
}

#[derive(Debug)]
struct Consumer {
    number: u64,
    group: &'static str,
    prey: Prey,
    frozen_until: Option<Instant>,
    /// Commits that were not answered.
    asked: BTreeMap<u64, Vec<Verdict>>,
}

impl Herd {
    pub(super) fn new(seed: u64, program: PathBuf, talk: PathBuf) -> Self {
        Self { seed, program, talk, born: 0, server: None, consumers: Vec::new() }
    }

    /// Starts those that are missing, and tells all where the server is.
    pub(super) fn follow(
        &mut self,
        server: SocketAddr,
        ledger: &mut Ledger,
    ) -> Result<(), Trouble> {
        self.server = Some(server);
        for consumer in &self.consumers {
            consumer.prey.say(format!("at {server}"));
        }
        self.fill(ledger)
    }

    fn fill(&mut self, ledger: &mut Ledger) -> Result<(), Trouble> {
        for (group, _, count) in GROUPS {
            while self.consumers.iter().filter(|one| one.group == group).count() < count {
                self.born += 1;
                let number = self.born;
                let mut command = Command::new(&self.program);
                command.arg("--group").arg(group).arg("--client").arg(format!("consumer {number}"));
                command.arg("--session-ms").arg((100 + 50 * (number % 6)).to_string());
                command.arg("--seed").arg(((self.seed << 16) + number).to_string());
                let prey = Prey::start(&mut command, &self.talk).map_err(trouble)?;
                if let Some(server) = self.server {
                    prey.say(format!("at {server}"));
                }
                let asked = BTreeMap::new();
                let consumer = Consumer { number, group, prey, frozen_until: None, asked };
                self.consumers.push(consumer);
                ledger.count().consumers += 1;
            }
        }
        Ok(())
    }

    /// Hears what was said so far.
    pub(super) fn listen(&mut self, ledger: &mut Ledger) -> Result<(), Trouble> {
        self.consumers.iter_mut().try_for_each(|one| one.listen(Duration::ZERO, ledger))
    }

    /// Hears what is said, for so long at least if nobody says anything.
    pub(super) fn listen_for(
        &mut self,
        time: Duration,
        ledger: &mut Ledger,
    ) -> Result<(), Trouble> {
        if let Some(first) = self.consumers.first_mut() {
            first.listen(time, ledger)?;
        }
        self.listen(ledger)
    }

    /// Kills and freezes some, and starts others for those.
    pub(super) fn strike(&mut self, dice: &mut Dice, ledger: &mut Ledger) -> Result<(), Trouble> {
        let now = clock();
        for consumer in &mut self.consumers {
            if consumer.frozen_until.is_some_and(|until| until <= now) {
                consumer.thaw()?;
            }
        }
        let victim = usize::try_from(dice.below(self.consumers.len() as u64)).unwrap_or(0);
        match dice.below(16) {
            0 if victim < self.consumers.len() => {
                let mut consumer = self.consumers.swap_remove(victim);
                consumer.prey.kill().map_err(trouble)?;
                consumer.hear_out(ledger)?;
                ledger.count().consumers_killed += 1;
            }
            1 => {
                if let Some(consumer) = self.consumers.get_mut(victim)
                    && consumer.frozen_until.is_none()
                {
                    consumer.prey.freeze().map_err(trouble)?;
                    let pause = Duration::from_millis(dice.below(FREEZE_MS));
                    consumer.frozen_until = Some(now + pause);
                    ledger.count().consumers_frozen += 1;
                }
            }
            _ => {}
        }
        self.fill(ledger)
    }

    /// From now on everything goes well.
    pub(super) fn calm(&mut self) -> Result<(), Trouble> {
        for consumer in &mut self.consumers {
            consumer.thaw()?;
            consumer.prey.say("calm".to_owned());
        }
        Ok(())
    }

    /// Lets all of them go, and hears their last words.
    pub(super) fn dismiss(&mut self, ledger: &mut Ledger) -> Result<(), Trouble> {
        for consumer in &mut self.consumers {
            consumer.thaw()?;
            consumer.prey.close();
        }
        for mut consumer in self.consumers.drain(..) {
            consumer.hear_out(ledger)?;
            let status = consumer.prey.ended().map_err(trouble)?;
            if !status.success() {
                return Err(consumer.ended());
            }
        }
        Ok(())
    }
}

impl Consumer {
    fn thaw(&mut self) -> Result<(), Trouble> {
        if self.frozen_until.take().is_some() {
            self.prey.thaw().map_err(trouble)?;
        }
        Ok(())
    }

    fn listen(&mut self, time: Duration, ledger: &mut Ledger) -> Result<(), Trouble> {
        let mut time = time;
        loop {
            match self.prey.listen(time) {
                Said::Line(line) => self.hear(&line, ledger)?,
                Said::Silent => return Ok(()),
                Said::Gone => return Err(self.ended()),
            }
            time = Duration::ZERO;
        }
    }

    /// All that one says that ends. What it was not answered nobody knows.
    fn hear_out(&mut self, ledger: &mut Ledger) -> Result<(), Trouble> {
        loop {
            match self.prey.listen(PATIENCE) {
                Said::Line(line) => self.hear(&line, ledger)?,
                Said::Silent => return Err(Trouble(format!("{} does not end", self.number))),
                Said::Gone => break,
            }
        }
        for results in std::mem::take(&mut self.asked).into_values() {
            ledger.doubt(self.group, &results);
        }
        Ok(())
    }

    fn hear(&mut self, line: &str, ledger: &mut Ledger) -> Result<(), Trouble> {
        let word = serde_json::from_str(line);
        let word = word.map_err(|error| Trouble(format!("no word, {error}: {line}")))?;
        let strange = || Trouble(format!("consumer {} was not asked: {line}", self.number));
        match word {
            Word::Joined { .. } | Word::Gone | Word::Left => Ok(()),
            Word::Got { batches } => {
                batches.iter().try_for_each(|got| ledger.handed(self.group, self.number, got))
            }
            Word::Asks { commit, results } => {
                self.asked.insert(commit, results);
                Ok(())
            }
            Word::Told { commit, results, again } => {
                let asked = self.asked.remove(&commit).ok_or_else(strange)?;
                ledger.told(self.group, &asked, &results, again)
            }
            Word::Refused { commit, code, again } => {
                let asked = self.asked.remove(&commit).ok_or_else(strange)?;
                ledger.refused(self.group, &asked, &code, again)
            }
        }
    }

    fn ended(&self) -> Trouble {
        let (number, words) = (self.number, self.prey.last_words());
        Trouble(format!("consumer {number} ended by itself: {words}"))
    }
}

fn trouble(error: io::Error) -> Trouble {
    Trouble(format!("a consumer: {error}"))
}
