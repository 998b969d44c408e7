//! One server on embedded storage, whatever rooms live in it: their hosts, the journal,
//! checkpoints, segments and the mover, over a disk that crashes and fails.
//!
//! What goes wrong here: calls to the disk fail, are short, find it full; the process is killed
//! with its writes in the page cache, or the power is cut and any part of them is lost, between
//! two steps, in the middle of any operation, or while the next process opens; the operator's
//! clock jumps in both directions, the machine sleeps for hours; rarely a bit flips while no
//! process runs.
//!
//! What must hold after every step, for every room:
//!
//! * the state read back from the disk as it is equals the live one, hash for hash, at the record
//!   up to which it was read; the same of what is durable, whenever somebody was told something;
//! * every answer is one the room's oracle allows, and comes in the order of the decisions;
//! * every body somebody was told of reads as it was, and none that is not durable reads at all;
//! * no error comes from nothing: a fault of the disk came before it, and when its cause ends the
//!   server goes on by itself;
//! * steady time never goes back behind what is known.
//!
//! After every restart a room's oracle finds what was acknowledged and a prefix of what was
//! underway. A room that a flipped bit has closed says so and the others are whole; that ends the
//! seed.

mod checks;
mod clock;
mod flat;
mod ledger;
mod opening;
mod parts;
mod restart;
mod site;
mod tenant;
mod trouble;

use std::fmt;
use std::marker::PhantomData;

use handoff_log::disk::{Crash, When};
use handoff_types::Span;

use self::clock::Clock;
pub(crate) use self::flat::{Flat, Lodger};
pub(crate) use self::parts::{Act, Deed};
pub use self::parts::{Household, Parts, Rooms};
use self::restart::End;
pub(crate) use self::site::{Excuses, Site};
pub(crate) use self::tenant::{Decided, Tenant};
use crate::dice::Dice;
use crate::driver::{Ending, Fault, World, ensure};
use crate::history::{History, Kind};

/// Once in how many steps the machine sleeps for long.
const SUSPEND: u64 = 70;

/// Once in how many steps the operator sets the clock.
const WALL_SET: u64 = 50;

/// A server, its callers, its disk, and the oracles that watch.
pub struct Server<P> {
    site: Site,
    rooms: Vec<Box<dyn Lodger>>,
    temper: Vec<(u64, Act)>,
    /// Damage has closed a room.
    closed: bool,
    parts: PhantomData<P>,
}

impl<P> fmt::Debug for Server<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, rooms, .. } = self;
        f.debug_struct("Server").field("site", site).field("rooms", rooms).finish_non_exhaustive()
    }
}

impl<P: Parts> Server<P> {
    /// An empty disk.
    #[must_use]
    pub fn new(mut dice: Dice) -> Self {
        let Household { rooms, temper } = P::Rooms::move_in(&mut dice);
        let clock = Clock::new(P::Rooms::wall_start(&mut dice));
        let site = Site { disk: Crash::new(), clock, dice, process: None, damaged: false };
        Self { site, rooms, temper, closed: false, parts: PhantomData }
    }

    fn pass_time(&mut self, history: &mut History) {
        let Site { clock, dice, .. } = &mut self.site;
        clock.pass(Span::from_micros(dice.below(100_000)));
        if dice.one_in(SUSPEND) {
            let slept = Span::from_secs(dice.below(40_000));
            clock.pass(slept);
            history.count(Kind::Injected, "the machine sleeps");
            history.tell(format_args!("the machine sleeps for {} s", slept.0 / 1_000_000));
        }
        if dice.one_in(WALL_SET) {
            self.set_wall(history);
        }
    }

    fn set_wall(&mut self, history: &mut History) {
        let step = P::Rooms::wall_step(&mut self.site.dice);
        self.site.clock.set_wall(step);
        self.rooms.iter_mut().for_each(|room| room.clock_set(step));
        let what = if step < 0 { "clock set back" } else { "clock set forward" };
        history.count(Kind::Injected, what);
        history.tell(format_args!("{what} by {step} µs"));
    }

    fn next_act(&mut self) -> Act {
        let total = self.temper.iter().map(|(weight, _)| weight).sum();
        let mut roll = self.site.dice.below(total);
        for (weight, act) in &self.temper {
            match roll.checked_sub(*weight) {
                Some(rest) => roll = rest,
                None => return *act,
            }
        }
        Act::Commit
    }

    fn act(&mut self, act: Act, history: &mut History) -> Result<(), Fault> {
        match act {
            Act::Room(n, deed) => match self.rooms.get_mut(n) {
                Some(room) => room.act(deed, &mut self.site, history),
                None => Ok(()),
            },
            Act::Commit => self.commit(history),
            Act::Strike => {
                self.strike(history);
                Ok(())
            }
            Act::Mend => self.mend(history),
            Act::Halt => self.halt(history),
            Act::Restart => {
                let end = End::drawn(&mut self.site.dice);
                self.restart(end, history)
            }
        }
    }

    fn commit(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(process) = &mut self.site.process else { return Ok(()) };
        let committed = process.inline.commit();
        process.marked = committed.is_ok();
        let (what, words) = match &committed {
            Ok(()) => ("committed", String::new()),
            Err(stalled) => ("commit stalled", stalled.to_string()),
        };
        history.count(Kind::Storage, what);
        history.tell(format_args!("{what} {words}"));
        let excused = committed.is_ok() || self.site.is_excused();
        ensure(excused, || format!("{words}, and no fault struck"))?;
        self.release(history)?;
        let waiting = self.waiting();
        ensure(committed.is_err() || waiting == 0, || format!("{waiting} wait after a commit"))
    }

    /// Answers whatever is durable.
    fn release(&mut self, history: &mut History) -> Result<(), Fault> {
        self.rooms.iter_mut().try_for_each(|room| room.release(&self.site, history))
    }

    fn waiting(&self) -> usize {
        self.rooms.iter().map(|room| room.waiting()).sum()
    }

    fn strike(&mut self, history: &mut History) {
        let Site { process, dice, .. } = &mut self.site;
        if let Some(process) = process {
            process.trouble.plan(dice, history);
        }
    }

    /// The cause of the trouble ends. Whether anybody looks at once is another matter.
    fn mend(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(process) = &mut self.site.process else { return Ok(()) };
        if !process.trouble.is_planned() {
            return Ok(());
        }
        process.trouble.end(history);
        if self.site.dice.one_in(2) { self.relieve(history) } else { Ok(()) }
    }

    /// Ends every fault. From then on everything works again, without anybody's help.
    fn relieve(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(process) = &mut self.site.process else { return Ok(()) };
        process.trouble.end(history);
        process.trouble.report(history);
        match self.go_on(history) {
            Ok(()) => {
                if let Some(process) = &mut self.site.process {
                    process.trouble.forget();
                }
                history.count(Kind::Storage, "relieved");
                Ok(())
            }
            // A machine that stops in the middle cannot go on.
            Err(_) if self.site.disk.is_halted() => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn go_on(&mut self, history: &mut History) -> Result<(), Fault> {
        self.commit(history)?;
        let waiting = self.waiting();
        ensure(waiting == 0, || format!("{waiting} still wait though the disk is well"))?;
        self.rooms.iter_mut().try_for_each(|room| room.go_on(&mut self.site, history))?;
        self.rooms.iter_mut().try_for_each(|room| room.knock(&mut self.site, history))
    }

    /// The machine will stop at one of the next syncs, often one of the commit that comes next.
    fn halt(&mut self, history: &mut History) -> Result<(), Fault> {
        let Site { disk, dice, .. } = &mut self.site;
        let ahead = if dice.one_in(2) { 1 } else { 1 + dice.below(5) };
        let n = disk.syncs() + ahead;
        let when = if dice.one_in(3) { When::After } else { When::Before };
        disk.halt_at_sync(n, when);
        history.count(Kind::Injected, "the machine stops");
        history.tell(format_args!("the machine will stop at sync {n}, {when:?} it"));
        if dice.one_in(3) {
            return Ok(());
        }
        self.rooms.iter_mut().try_for_each(|room| room.burst(&mut self.site, history))?;
        self.commit(history)
    }

    /// The first server on an empty disk. Now and then the disk has no room for the ring to grow.
    fn begin(&mut self, history: &mut History) -> Result<(), Fault> {
        self.boot(history)?;
        let Site { process, dice, .. } = &mut self.site;
        if let Some(process) = process
            && dice.one_in(3)
        {
            process.trouble.fill(dice, history);
        }
        Ok(())
    }

    /// A machine that has stopped in the middle of something starts again.
    fn mind_the_halt(&mut self, history: &mut History) -> Result<(), Fault> {
        if !self.site.disk.is_halted() {
            return Ok(());
        }
        history.count(Kind::Restart, "stopped in the middle");
        history.tell(format_args!("stopped in the middle"));
        let end = match self.site.dice.below(4) {
            0 => End::Killed,
            1 => End::PowerCutKeepingNothing,
            _ => End::PowerCut,
        };
        self.restart(end, history)
    }
}

impl<P: Parts> World for Server<P> {
    fn step(&mut self, history: &mut History) -> Result<(), Fault> {
        if self.closed {
            history.count(Kind::Storage, "closed by damage");
            return Ok(());
        }
        self.pass_time(history);
        if self.site.process.is_none() {
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
            Ending::Crashed if self.site.dice.one_in(2) => End::PowerCut,
            Ending::Crashed => End::PowerCutKeepingNothing,
        };
        // What the opening serves must survive the next crash, whatever that one keeps.
        for end in [last, End::PowerCutKeepingNothing] {
            self.restart(end, history)?;
            self.check(history)?;
        }
        if self.closed {
            return Ok(());
        }
        let now = self.site.clock.now();
        self.rooms.iter_mut().try_for_each(|room| room.settle(now, history))
    }
}
