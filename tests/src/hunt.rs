//! The hunt: victims are killed at random moments, and the ledger judges what the next one finds.
//!
//! The commands follow from the seed; the moments are drawn from it too, but they are real time,
//! so a seed repeats what is asked and about when it is struck, not the very instruction.
//!
//! One life of a victim:
//!
//! ```text
//!  start ─▶ ready ─▶ ask for every key ─▶ judge ─▶ ask the unknown again ─▶ work ─▶ struck
//!    └───────────────────── a strike may come anywhere ─────────────────────┘
//! ```

mod chase;
mod plan;
mod work;

use std::fmt;
use std::path::Path;

use handoff_sim::dice::Dice;

pub use self::chase::{Chase, Depth, Ending};
pub use self::plan::{Act, Plan, Trigger};
pub use self::work::Work;
use crate::ledger::{Heard, Ledger, Outcomes, Trouble};
use crate::prey::Lair;
use crate::wire::Ask;

/// How many requests are underway at most.
const UNDERWAY_MAX: u64 = 64;

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bag {
    /// Victims killed.
    pub kills: u64,
    /// Of those, before they were ready.
    pub kills_at_start: u64,
    /// Victims that ended when they were told to.
    pub clean_ends: u64,
    /// Victims frozen for a while.
    pub freezes: u64,
    /// Checkpoints that were seen to be in force.
    pub checkpoints: u64,
    /// Recoveries that found the journal's tail cut off within a round.
    pub torn: u64,
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
    lives: Vec<String>,
}

/// A hunt that found something, and all that is needed to look for it again.
#[derive(Debug)]
pub struct Found {
    seed: u64,
    life: usize,
    trouble: Trouble,
    lives: Vec<String>,
    place: String,
    last_words: String,
}

impl std::error::Error for Found {}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, life, trouble, lives, place, last_words } = self;
        writeln!(f, "seed {seed}, life {life}: {trouble}")?;
        writeln!(f, "the last lives:")?;
        let from = lives.len().saturating_sub(8);
        for (number, life) in lives.iter().enumerate().skip(from) {
            writeln!(f, "  {}: {life}", number + 1)?;
        }
        if !last_words.is_empty() {
            writeln!(f, "what victims said last:\n{last_words}")?;
        }
        write!(f, "the data directory: {place}")
    }
}

impl Hunt {
    /// A hunt on a directory of its own.
    #[must_use]
    pub fn new(seed: u64, program: &Path, place: &Path) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            seed,
            lair: Lair::new(program, place),
            ledger: Ledger::default(),
            work: Work::new(dice.fork()),
            dice,
            bag: Bag::default(),
            lives: Vec::new(),
        }
    }

    /// Lets one victim live until it is struck.
    ///
    /// # Errors
    /// [`Found`] when something acknowledged is not there, something is there twice, or the
    /// victim did not live as it should.
    pub fn life(&mut self) -> Result<(), Box<Found>> {
        let plan = Plan::draw(&mut self.dice);
        self.live(plan, Depth::Sample)
    }

    /// Lets a last victim live undisturbed, asks it for every note there is, and ends it.
    ///
    /// # Errors
    /// As [`Hunt::life`].
    pub fn finish(&mut self) -> Result<(), Box<Found>> {
        self.live(Plan::none(), Depth::All)
    }

    /// What happened so far.
    #[must_use]
    pub fn bag(&self) -> Bag {
        self.bag
    }

    /// What became of the commands so far.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.ledger.outcomes()
    }

    fn live(&mut self, plan: Plan, depth: Depth) -> Result<(), Box<Found>> {
        let patient = self.dice.one_in(2);
        let words = if patient { ", patient" } else { "" };
        self.lives.push(format!("{plan}{words}"));
        self.one_life(plan, depth, patient).map_err(|(trouble, last_words)| {
            Box::new(Found {
                seed: self.seed,
                life: self.lives.len(),
                trouble,
                lives: self.lives.clone(),
                place: self.lair.data_dir.display().to_string(),
                last_words,
            })
        })
    }

    fn one_life(
        &mut self,
        plan: Plan,
        depth: Depth,
        patient: bool,
    ) -> Result<(), (Trouble, String)> {
        let lair = if patient { self.lair.clone().with("--patient") } else { self.lair.clone() };
        let mut chase = Chase::start(&lair, plan).map_err(|trouble| (trouble, String::new()))?;
        let lived = self.until_struck(&mut chase, depth);
        let ended = lived.and_then(|()| chase.end(&mut self.ledger));
        let ended = ended.map_err(|trouble| (trouble, chase.last_words()))?;
        self.bag.checkpoints += chase.checkpoints();
        self.bag.freezes += u64::from(chase.froze());
        self.bag.torn += u64::from(chase.found_torn());
        match ended {
            Ending::Killed => {
                self.bag.kills += 1;
                self.bag.kills_at_start += u64::from(!chase.was_ready());
            }
            Ending::Closed => {
                self.bag.clean_ends += 1;
                if self.ledger.underway() > 0 {
                    let words = "it ended in order and left requests without an answer";
                    return Err((Trouble(words.to_owned()), chase.last_words()));
                }
            }
        }
        self.ledger.gone(patient);
        Ok(())
    }

    /// Does what a caller does. Ends without an error when the victim is gone, wherever that is.
    fn until_struck(&mut self, chase: &mut Chase, depth: Depth) -> Result<(), Trouble> {
        if !chase.ready()? {
            return Ok(());
        }
        let Some(again) = chase.inquire(&mut self.ledger, &mut self.dice, depth)? else {
            return Ok(());
        };
        for command in again {
            chase.ask(&mut self.ledger, Ask::Do(command));
        }
        if depth == Depth::All {
            chase.close();
        }
        let underway_max = 1 + self.dice.below(UNDERWAY_MAX);
        loop {
            while (self.ledger.underway() as u64) < underway_max
                && self.ledger.can_ask(self.work.next())
                && !chase.is_closing()
            {
                let command = self.work.take();
                chase.ask(&mut self.ledger, Ask::Do(command));
            }
            match chase.hear(&mut self.ledger)? {
                None => return Ok(()),
                Some(Heard::Reply(_)) if self.dice.one_in(40) => self.reread(chase),
                Some(_) => {}
            }
        }
    }

    /// Reads some note back while everything moves.
    fn reread(&mut self, chase: &mut Chase) {
        let notes: Vec<_> = self.ledger.notes().filter(|(_, notes)| *notes > 0).collect();
        if let Some((key, notes)) = self.dice.pick(&notes).copied()
            && !chase.is_closing()
        {
            let offset = self.dice.below(notes);
            chase.ask(&mut self.ledger, Ask::Body(key, offset));
        }
    }
}
