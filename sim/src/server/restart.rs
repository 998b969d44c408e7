//! How a server ends, and how the next one begins.

use std::sync::Arc;

use handoff_log::disk::When;
use handoff_log::journal::{Inline, Tail};
use handoff_types::Span;

use super::flat::Lodgers;
use super::opening::{Closed, ReadBack};
use super::parts::Parts;
use super::site::{Excuses, Process};
use super::trouble::{Trouble, flip_at_rest};
use super::{Server, Site};
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};

/// Once in how many openings something goes wrong with it.
const DISTURBED: u64 = 4;

/// How many openings of one directory may be disturbed.
const DISTURBED_MAX: u64 = 2;

/// Once in how many quiet ends a bit flips before the next process begins.
const FLIP: u64 = 12;

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to.
    Closed,
    /// The process dies and what it wrote is still in the page cache.
    Killed,
    /// The machine dies, and with it any part of what was not synced.
    PowerCut,
    /// The machine dies, and with it all that was not synced.
    PowerCutKeepingNothing,
}

impl End {
    pub(super) fn drawn(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Closed,
            1 => Self::Killed,
            2 => Self::PowerCutKeepingNothing,
            _ => Self::PowerCut,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
            Self::PowerCut => "power cut",
            Self::PowerCutKeepingNothing => "power cut keeping nothing",
        }
    }
}

/// Why an opening came to nothing.
enum Vain {
    /// The disk failed meanwhile. Nobody was told anything.
    Fault(String, Trouble),
    /// Damage has closed every room.
    Damage(String),
}

impl<P: Parts> Server<P> {
    /// The server ends and the next one begins.
    pub(super) fn restart(&mut self, end: End, history: &mut History) -> Result<(), Fault> {
        if end == End::Closed {
            self.commit(history)?;
        }
        // What is durable may have been answered just before the end.
        self.release(history)?;
        let Some(process) = self.site.process.take() else { return Ok(()) };
        let quiet = process.marked && !process.trouble.excuses() && !self.site.disk.is_halted();
        let unanswered: usize = self.rooms.iter_mut().map(|room| room.end()).sum();
        history.count(Kind::Restart, end.name());
        history.tell(format_args!("{} with {unanswered} unanswered", end.name()));
        self.site.end(process, end, history)?;
        self.rooms.iter_mut().for_each(|room| room.count_lost(history));
        self.site.clock.pass(Span::from_micros(self.site.dice.below(600_000_000)));
        if self.site.dice.one_in(4) {
            self.set_wall(history);
        }
        let kept = matches!(end, End::Closed | End::Killed);
        let Site { disk, dice, damaged, .. } = &mut self.site;
        if quiet && kept && dice.one_in(FLIP) {
            *damaged |= flip_at_rest(disk, dice, history);
        }
        self.boot(history)
    }

    /// Opens the directory, again and again if the disk fails or the machine dies meanwhile.
    pub(super) fn boot(&mut self, history: &mut History) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            let disk = P::disk(Arc::new(self.site.disk.clone()));
            let (disk, mut trouble) = Trouble::over(disk);
            if tries < DISTURBED_MAX && self.site.dice.one_in(DISTURBED) {
                self.site.disturb(&mut trouble, history);
            }
            tries += 1;
            let mut lodgers = Lodgers { rooms: &mut self.rooms, closed: Vec::new() };
            let opened = ReadBack::of(&mut lodgers, disk, self.site.dice.entropy());
            let damage = lodgers.closed.into_iter().next().map(|(_, words)| words);
            let started = match opened {
                Ok(back) => self.start(back, trouble, damage, history)?,
                Err(Closed::ByFault(words)) => Err(Vain::Fault(words, trouble)),
                Err(Closed::ByDamage(words)) => Err(Vain::Damage(words)),
            };
            match started {
                Ok(()) => return Ok(()),
                Err(Vain::Damage(words)) => return self.close(&words, history),
                Err(Vain::Fault(words, trouble)) => {
                    history.count(Kind::Restart, "opening failed");
                    history.tell(format_args!("opening failed: {words}"));
                    let Site { disk, dice, .. } = &mut self.site;
                    let halted = disk.is_halted();
                    ensure(trouble.excuses() || halted, || format!("{words}, and no fault"))?;
                    let torn = halted && dice.one_in(2);
                    *disk = if torn { disk.crash(dice.roll()).0 } else { disk.kill() };
                }
            }
        }
    }

    /// Damage has closed a room, and it says so.
    fn close(&mut self, words: &str, history: &mut History) -> Result<(), Fault> {
        ensure(self.site.damaged, || format!("nothing was damaged, but {words}"))?;
        history.count(Kind::Restart, "closed by damage");
        history.tell(format_args!("closed by damage: {words}"));
        self.closed = true;
        Ok(())
    }

    /// Brings what was read back to life and judges it.
    fn start(
        &mut self,
        back: ReadBack,
        mut trouble: Trouble,
        damage: Option<String>,
        history: &mut History,
    ) -> Result<Result<(), Vain>, Fault> {
        self.site.check_report(&back.report)?;
        let found = self.rooms.iter().map(|room| room.check_loaded());
        let found: Vec<_> = found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        let last = found.iter().map(|one| one.line.moment).max_by_key(|at| at.now.steady);
        let Some(last) = last else { return Ok(Err(Vain::Damage(damage.unwrap_or_default()))) };
        let known = found.iter().filter_map(|one| one.clock).chain(back.report.clock);
        let clock = known.max_by_key(|now| now.steady);
        let tail = tail_name(back.report.tail);
        let healed = !back.report.healed.is_empty();
        let salvaged = !back.report.damage.is_empty();
        let (directory, inline, segments) = match back.start() {
            Ok(started) => started,
            Err(Closed::ByFault(words) | Closed::ByDamage(words)) => {
                return Ok(Err(Vain::Fault(words, trouble)));
            }
        };
        trouble.end(history);
        trouble.report(history);
        history.count(Kind::Restart, tail);
        for (what, is) in [("header healed", healed), ("room whole after damage", salvaged)] {
            if is {
                history.count(Kind::Restart, what);
            }
        }
        for room in &mut self.rooms {
            let (journal, disk) = (P::journal(Arc::clone(&inline) as _), &directory.disk);
            room.start(journal, Arc::clone(&segments), Arc::clone(disk));
        }
        self.site.clock.resume(clock, last, P::resume)?;
        self.judge(tail, history)?;
        let excuses = Excuses { fault: false, damage: self.site.damaged };
        let bodies = self.rooms.iter_mut().try_for_each(|room| room.judge_bodies(excuses));
        self.site.process = Some(Process { directory, inline, trouble, marked: true });
        if !self.site.disk.is_halted() {
            bodies?;
        }
        match damage {
            Some(words) => {
                history.count(Kind::Restart, "other rooms whole after damage");
                self.close(&words, history).map(Ok)
            }
            None => Ok(Ok(())),
        }
    }

    /// Lets the oracles judge what came back.
    fn judge(&mut self, tail: &'static str, history: &mut History) -> Result<(), Fault> {
        let now = self.site.clock.now();
        let mut words = tail.to_owned();
        for room in &mut self.rooms {
            let Some((through, survived)) = room.recovered(now)? else { continue };
            words += &format!("; open through {through}, {survived} unanswered survived");
            if survived > 0 {
                history.count(Kind::Restart, "unanswered commands survived");
            }
        }
        history.tell(format_args!("{words}"));
        Ok(())
    }
}

impl Site {
    fn end(&mut self, process: Process, end: End, history: &mut History) -> Result<(), Fault> {
        match end {
            End::Closed => {
                let Process { inline, trouble, .. } = process;
                let excused = trouble.excuses() || trouble.is_planned();
                if let Err(words) = close(inline) {
                    history.tell(format_args!("not closed cleanly: {words}"));
                    let excused = excused || self.disk.is_halted();
                    ensure(excused, || format!("{words}, and no fault struck"))?;
                }
                self.disk = self.disk.kill();
            }
            End::Killed => self.disk = self.disk.kill(),
            End::PowerCut => self.disk = self.disk.crash(self.dice.roll()).0,
            End::PowerCutKeepingNothing => self.disk = self.disk.crash_keeping_nothing().0,
        }
        Ok(())
    }

    fn disturb(&mut self, trouble: &mut Trouble, history: &mut History) {
        if self.dice.one_in(2) {
            return trouble.plan_for_opening(&mut self.dice, history);
        }
        let n = 1 + self.dice.below(8);
        let when = if self.dice.one_in(3) { When::After } else { When::Before };
        self.disk.halt_at_sync(n, when);
        history.count(Kind::Injected, "the machine stops in an opening");
        history.tell(format_args!("the opening will stop at sync {n}, {when:?} it"));
    }
}

/// Ends as a server does that is told to. Everything that was admitted is committed.
fn close(inline: Arc<Inline>) -> Result<(), String> {
    let inline = Arc::into_inner(inline).ok_or("somebody still has the journal")?;
    inline.close().map_err(|stalled| stalled.to_string())
}

const fn tail_name(tail: Tail) -> &'static str {
    match tail {
        Tail::Clean => "tail clean",
        Tail::Marked => "tail marked",
        Tail::Torn => "tail torn",
        Tail::Zeroed => "tail zeroed",
        Tail::Unordered => "tail unordered",
    }
}
