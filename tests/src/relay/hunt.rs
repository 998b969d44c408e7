//! A hunt on agents: somebody sends samples, agents are killed at any moment, and two centres come and
//! go. The ledger knows what was acknowledged; that is at both centres in the end. Everything is there
//! at most once, acknowledged or not.

use std::io;
use std::path::Path;
use std::time::Duration;

use handoff_relay::session::Reason;
use handoff_sim::dice::Dice;

use super::agent::{Agent, Den};
use super::centre::{Centre, Manner};
use super::ledger::{Ledger, Outcomes, Trouble, strike, wait};
use super::samples::Taken;
use crate::clock;
use crate::served::PATIENCE;

/// How long an agent lives at most before it is struck.
const LIFE_MAX_MICROS: u64 = 700_000;

/// A hunt.
pub struct Hunt {
    seed: u64,
    promise: String,
    dice: Dice,
    den: Den,
    centres: [Centre; 2],
    ledger: Ledger,
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
            ledger: Ledger::default(),
        })
    }

    /// What happened so far.
    #[must_use]
    pub const fn outcomes(&self) -> Outcomes {
        self.ledger.outcomes
    }

    /// One agent, from its start to its end.
    ///
    /// # Errors
    /// When it does not live as it should.
    pub fn life(&mut self) -> Result<(), Trouble> {
        self.ledger.outcomes.found_files += self.den.files().map_or(0, |files| files.len() as u64);
        let mut prey =
            self.den.start(&["--set", "relay.promise_secs_max=2s", "--set", &self.promise])?;
        let at = Duration::from_micros(self.dice.below(LIFE_MAX_MICROS));
        if self.dice.one_in(8) {
            // Anywhere on its way to be ready.
            let at = Duration::from_micros(self.dice.below(40_000));
            strike(prey.id(), at)
                .join()
                .map_err(|_| Trouble::new("the striker is gone".to_owned()))?;
            prey.ended()?;
            self.ledger.outcomes.kills += 1;
            self.ledger.outcomes.kills_at_start += 1;
            return Ok(());
        }
        let agent = Agent::ready(prey).map_err(|error| self.trouble(&error.to_string()))?;
        let clean = self.dice.one_in(8);
        let striker = (!clean).then(|| strike(agent.prey.id(), at));
        let over = clock() + at;
        let Self { ledger, centres, dice, .. } = self;
        ledger.send(agent.http, dice, |dice| {
            let enough = clean && clock() >= over;
            if !enough {
                disturb(centres, dice);
            }
            enough
        });
        if let Some(striker) = striker {
            striker.join().map_err(|_| Trouble::new("the striker is gone".to_owned()))?;
            self.ledger.outcomes.kills += 1;
            return Ok(());
        }
        agent.stop().map_err(|error| self.trouble(&error.to_string()))?;
        self.ledger.outcomes.clean_ends += 1;
        Ok(())
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
            let missing = self.ledger.missing(&centre.taken());
            let missing =
                missing.map_err(|words| self.trouble(&format!("centre {number}: {words}")))?;
            if let Some(missing) = missing {
                return Ok(Some((number, missing)));
            }
        }
        Ok(None)
    }

    fn trouble(&self, words: &str) -> Trouble {
        Trouble::new(format!("seed {}, {:?}: {words}", self.seed, self.ledger.outcomes))
    }
}

/// Does something to a centre, now and then.
fn disturb(centres: &[Centre; 2], dice: &mut Dice) {
    if !dice.one_in(6) {
        return;
    }
    let Some(centre) = dice.pick(centres) else { return };
    let bytes = usize::try_from(dice.below(4_000)).unwrap_or(0);
    match dice.below(7) {
        0 => centre.behave(Manner::Gone),
        1 => centre.behave(Manner::Cuts(bytes, usize::MAX)),
        2 => centre.behave(Manner::Cuts(usize::MAX, bytes)),
        3 => centre.turn(Manner::Refuses(Reason::RetryAfter)),
        4 => centre.restart(),
        _ => centre.turn(Manner::Takes),
    }
}
