//! The world of one server on embedded storage: a room, its host, the journal, checkpoints,
//! segments and the mover, over a disk that crashes and fails.
//!
//! What goes wrong here: calls to the disk fail, are short, find it full; the process is killed
//! with its writes in the page cache, or the power is cut and any part of them is lost, between
//! two steps, in the middle of any operation, or while the next process opens; the operator's
//! clock jumps in both directions, the machine sleeps for hours; rarely a bit flips while no
//! process runs.
//!
//! What must hold after every step:
//!
//! * the state read back from the disk as it is equals the live one, hash for hash, at the record
//!   up to which it was read; the same of what is durable, whenever somebody was told something;
//! * every answer is one the oracle allows, and comes in the order of the decisions;
//! * every body somebody was told of reads as it was, and none that is not durable reads at all;
//! * no error comes from nothing: a fault of the disk came before it, and when its cause ends the
//!   server goes on by itself;
//! * steady time never goes back behind what is known.
//!
//! After every restart the oracle finds what was acknowledged and a prefix of what was underway.
//! A room that a flipped bit has closed says so; that ends the seed.

mod acts;
mod checks;
mod clock;
mod ledger;
mod notes;
mod opening;
mod parts;
mod process;
mod restart;
mod trouble;

use handoff_log::disk::{Crash, When};
use handoff_types::Span;

use self::clock::Clock;
use self::ledger::Ledger;
use self::notes::Notes;
pub use self::parts::{Parts, Sound};
use self::process::Process;
use self::restart::End;
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World};
use crate::history::{History, Kind};
use crate::oracle::Oracle;
use crate::workload::{Bodies, Workload};

/// Once in how many steps the machine sleeps for long.
const SUSPEND: u64 = 70;

/// Once in how many steps the operator sets the clock.
const WALL_SET: u64 = 50;

/// What may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Command,
    Commit,
    Copy,
    Sync,
    Checkpoint,
    Read,
    Retain,
    Tick,
    /// A fault of the disk begins.
    Strike,
    /// It ends.
    Mend,
    /// The machine will stop at one of the next syncs.
    Halt,
    Restart,
}

/// A server, its callers, its disk, and the oracle that watches.
#[derive(Debug)]
pub struct Embedded<P: Parts> {
    disk: Crash,
    /// None before the first step, and after damage has closed the room.
    life: Option<Process<P>>,
    workload: Workload,
    oracle: Oracle,
    clock: Clock,
    ledger: Ledger,
    notes: Notes,
    dice: Dice,
    /// How often each act comes in this seed.
    temper: Vec<(u64, Act)>,
    /// A bit was flipped.
    damaged: bool,
    /// Damage has closed the room.
    closed: bool,
}

impl<P: Parts> Embedded<P> {
    /// An empty disk.
    #[must_use]
    pub fn new(mut dice: Dice) -> Self {
        let workload = Workload::new(dice.fork(), Bodies::BEYOND_SMALL_RECORDS);
        let temper = temper(&mut dice);
        Self {
            disk: Crash::new(),
            life: None,
            workload,
            oracle: Oracle::default(),
            clock: Clock::default(),
            ledger: Ledger::new(),
            notes: Notes::default(),
            dice,
            temper,
            damaged: false,
            closed: false,
        }
    }

    fn pass_time(&mut self, history: &mut History) {
        self.clock.pass(Span::from_micros(self.dice.below(100_000)));
        if self.dice.one_in(SUSPEND) {
            let slept = Span::from_secs(self.dice.below(40_000));
            self.clock.pass(slept);
            history.count(Kind::Injected, "the machine sleeps");
            history.tell(format_args!("the machine sleeps for {} s", slept.0 / 1_000_000));
        }
        if self.dice.one_in(WALL_SET) {
            self.set_wall(history);
        }
    }

    fn set_wall(&mut self, history: &mut History) {
        let step = self.dice.around(86_400) * 1_000_000;
        self.clock.set_wall(step);
        let what = if step < 0 { "clock set back" } else { "clock set forward" };
        history.count(Kind::Injected, what);
        history.tell(format_args!("{what} by {step} µs"));
    }

    fn next_act(&mut self) -> Act {
        let total = self.temper.iter().map(|(weight, _)| weight).sum();
        let mut roll = self.dice.below(total);
        for (weight, act) in &self.temper {
            match roll.checked_sub(*weight) {
                Some(rest) => roll = rest,
                None => return *act,
            }
        }
        Act::Command
    }

    fn act(&mut self, act: Act, history: &mut History) -> Result<(), Fault> {
        match act {
            Act::Command => self.command(history),
            Act::Commit => self.commit(history),
            Act::Copy => self.copy(history),
            Act::Sync => self.sync(history),
            Act::Checkpoint => self.checkpoint(history),
            Act::Read => self.read(history),
            Act::Retain => self.retain(history),
            Act::Tick => self.tick(history),
            Act::Strike => self.strike(history),
            Act::Mend => self.mend(history),
            Act::Halt => self.halt(history),
            Act::Restart => {
                let end = End::drawn(&mut self.dice);
                self.restart(end, history)
            }
        }
    }

    /// The machine will stop at one of the next syncs, often one of the commit that comes next.
    fn halt(&mut self, history: &mut History) -> Result<(), Fault> {
        let ahead = if self.dice.one_in(2) { 1 } else { 1 + self.dice.below(5) };
        let n = self.disk.syncs() + ahead;
        let when = if self.dice.one_in(3) { When::After } else { When::Before };
        self.disk.halt_at_sync(n, when);
        history.count(Kind::Injected, "the machine stops");
        history.tell(format_args!("the machine will stop at sync {n}, {when:?} it"));
        if self.dice.one_in(3) {
            return Ok(());
        }
        // Bodies make a round of many sectors, and that can be torn.
        for _ in 0..self.dice.below(6) {
            let note = self.workload.note();
            self.send(&note, history)?;
        }
        self.commit(history)
    }

    /// The first server on an empty disk. Now and then the disk has no room for the ring to grow.
    fn begin(&mut self, history: &mut History) -> Result<(), Fault> {
        self.boot(&[], history)?;
        if let Some(life) = &mut self.life
            && self.dice.one_in(3)
        {
            life.trouble.fill(&mut self.dice, history);
        }
        Ok(())
    }

    /// A machine that has stopped in the middle of something starts again.
    fn mind_the_halt(&mut self, history: &mut History) -> Result<(), Fault> {
        if !self.disk.is_halted() {
            return Ok(());
        }
        history.count(Kind::Restart, "stopped in the middle");
        history.tell(format_args!("stopped in the middle"));
        let end = match self.dice.below(4) {
            0 => End::Killed,
            1 => End::PowerCutKeepingNothing,
            _ => End::PowerCut,
        };
        self.restart(end, history)
    }
}

impl<P: Parts> World for Embedded<P> {
    fn step(&mut self, history: &mut History) -> Result<(), Fault> {
        if self.closed {
            history.count(Kind::Storage, "closed by damage");
            return Ok(());
        }
        self.pass_time(history);
        if self.life.is_none() {
            self.begin(history)?;
        } else {
            let act = self.next_act();
            self.act(act, history)?;
        }
        self.mind_the_halt(history)?;
        self.check(history)
    }

    fn finish(&mut self, ending: Ending, history: &mut History) -> Result<(), Fault> {
        let last = match ending {
            Ending::Closed => {
                self.relieve(history)?;
                self.mind_the_halt(history)?;
                End::Closed
            }
            Ending::Crashed if self.dice.one_in(2) => End::PowerCut,
            Ending::Crashed => End::PowerCutKeepingNothing,
        };
        // What the opening serves must survive the next crash, whatever that one keeps.
        for end in [last, End::PowerCutKeepingNothing] {
            self.restart(end, history)?;
            self.check(history)?;
        }
        let Some(life) = &self.life else { return Ok(()) };
        let state = life.host.state();
        history.tell(format_args!("ends with state {:016x}", state.hash()));
        self.oracle.settle(state.keys().map(|key| (key, state.tally(key).seen())))?;
        Ok(())
    }
}

/// Seeds differ in how busy, how lazy and how unlucky they are.
fn temper(dice: &mut Dice) -> Vec<(u64, Act)> {
    let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
    vec![
        (between(150, 300), Act::Command),
        (between(10, 100), Act::Commit),
        (between(2, 25), Act::Copy),
        (between(2, 15), Act::Sync),
        (between(3, 60), Act::Checkpoint),
        (15, Act::Read),
        (between(0, 10), Act::Retain),
        (between(2, 15), Act::Tick),
        (between(0, 10), Act::Strike),
        (between(10, 20), Act::Mend),
        (between(0, 24), Act::Halt),
        (between(0, 10), Act::Restart),
    ]
}
