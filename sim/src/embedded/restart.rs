//! How a server ends, and how the next one begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_log::disk::When;
use handoff_log::journal::Tail;
use handoff_types::{Now, Span};

use super::Embedded;
use super::opening::{Closed, ReadBack};
use super::parts::Parts;
use super::process::Process;
use super::trouble::{Trouble, flip_at_rest};
use crate::dice::Dice;
use crate::driver::{Fault, ensure};
use crate::history::{History, Kind};
use crate::room::{Command, Name, Seen};

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

impl<P: Parts> Embedded<P> {
    /// The server ends and the next one begins.
    pub(super) fn restart(&mut self, end: End, history: &mut History) -> Result<(), Fault> {
        if end == End::Closed {
            self.commit(history)?;
        }
        // What is durable may have been answered just before the end.
        self.release(history)?;
        let Some(life) = self.life.take() else { return Ok(()) };
        let quiet = life.marked && !life.trouble.excuses() && !self.disk.is_halted();
        let unanswered = life.unanswered();
        history.count(Kind::Restart, end.name());
        history.tell(format_args!("{} with {} unanswered", end.name(), unanswered.len()));
        self.end(life, end, history)?;
        for (command, _) in &unanswered {
            history.count(Kind::Unknown, command.kind());
            self.workload.lost(command);
        }
        self.clock.pass(Span::from_micros(self.dice.below(600_000_000)));
        if self.dice.one_in(4) {
            self.set_wall(history);
        }
        let kept = matches!(end, End::Closed | End::Killed);
        if quiet && kept && self.dice.one_in(FLIP) {
            self.damaged |= flip_at_rest(&self.disk, &mut self.dice, history);
        }
        self.boot(&unanswered, history)
    }

    fn end(&mut self, life: Process<P>, end: End, history: &mut History) -> Result<(), Fault> {
        match end {
            End::Closed => {
                let excused = life.trouble.excuses() || life.trouble.is_planned();
                if let Err(words) = life.close() {
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

    /// Opens the directory, again and again if the disk fails or the machine dies meanwhile.
    pub(super) fn boot(
        &mut self,
        unanswered: &[(Command, Now)],
        history: &mut History,
    ) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            let (disk, mut trouble) = Trouble::over(P::disk(Arc::new(self.disk.clone())));
            if tries < DISTURBED_MAX && self.dice.one_in(DISTURBED) {
                self.disturb(&mut trouble, history);
            }
            tries += 1;
            let opened = ReadBack::<P::Room>::from(disk, self.dice.entropy());
            let started = match opened {
                Ok(back) => self.start(back, trouble, unanswered, history)?,
                Err(closed) => Err((closed, trouble)),
            };
            let Err((closed, trouble)) = started else { return Ok(()) };
            match closed {
                Closed::ByDamage(words) => {
                    ensure(self.damaged, || format!("nothing was damaged, but {words}"))?;
                    history.count(Kind::Restart, "closed by damage");
                    history.tell(format_args!("closed by damage: {words}"));
                    self.closed = true;
                    return Ok(());
                }
                Closed::ByFault(words) => {
                    history.count(Kind::Restart, "opening failed");
                    history.tell(format_args!("opening failed: {words}"));
                    let halted = self.disk.is_halted();
                    ensure(trouble.excuses() || halted, || format!("{words}, and no fault"))?;
                    self.disk = if halted && self.dice.one_in(2) {
                        self.disk.crash(self.dice.roll()).0
                    } else {
                        self.disk.kill()
                    };
                }
            }
        }
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

    /// Brings what was read back to life and judges it. Gives the reason if the disk fails
    /// meanwhile; nobody was told anything then.
    fn start(
        &mut self,
        back: ReadBack<P::Room>,
        mut trouble: Trouble,
        unanswered: &[(Command, Now)],
        history: &mut History,
    ) -> Result<Result<(), (Closed, Trouble)>, Fault> {
        self.check_report(&back)?;
        let through = back.loading.through();
        let line = self.ledger.check(back.loading.state(), through)?;
        let clock = back.clock();
        let tail = tail_name(back.report.tail);
        let healed = !back.report.healed.is_empty();
        let salvaged = !back.report.damage.is_empty();
        let (directory, inline, host) = match back.start(P::journal) {
            Ok(started) => started,
            Err(closed) => return Ok(Err((closed, trouble))),
        };
        trouble.end(history);
        trouble.report(history);
        history.count(Kind::Restart, tail);
        for (what, is) in [("header healed", healed), ("room whole after damage", salvaged)] {
            if is {
                history.count(Kind::Restart, what);
            }
        }
        self.ledger.goes_on_after(through);
        self.clock.resume::<P>(clock, line.moment)?;
        let state = host.state();
        let observed: BTreeMap<Name, Seen> =
            state.keys().map(|key| (key, state.tally(key).seen())).collect();
        let survived = self.oracle.recovered(unanswered, &observed)?;
        history
            .tell(format_args!("{tail}; open through {through}, {survived} unanswered survived"));
        if survived > 0 {
            history.count(Kind::Restart, "unanswered commands survived");
        }
        self.notes.goes_on_with(state);
        let excuses = super::notes::Excuses { fault: false, damage: self.damaged };
        let bodies = self.notes.judge_all::<P>(&host, &mut self.oracle, excuses);
        self.life = Some(Process {
            directory,
            inline,
            host,
            trouble,
            checkpoint: None,
            underway: Default::default(),
            marked: true,
        });
        if self.disk.is_halted() {
            return Ok(Ok(()));
        }
        bodies.map(Ok)
    }
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
