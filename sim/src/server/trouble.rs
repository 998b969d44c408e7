//! What goes wrong with the disk: calls that fail, a disk that is full, bits that flip.

use std::io;
use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Crash, Disk, Faults, Faulty, Open, Short, read_full_at};

use crate::dice::Dice;
use crate::history::{History, Kind};

/// A disk under a process, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Trouble {
    faults: Faults,
    /// A fault is planned or lasts.
    planned: bool,
    /// How many faults had struck when everything was last seen to work.
    struck_before: u64,
    struck_told: u64,
}

impl Trouble {
    /// A disk without faults over another, and the handle to its faults.
    pub(crate) fn over(disk: Arc<dyn Disk>) -> (Arc<dyn Disk>, Self) {
        let (faulty, faults) = Faulty::new(disk);
        let trouble = Self { faults, planned: false, struck_before: 0, struck_told: 0 };
        (Arc::new(faulty), trouble)
    }

    /// Whether the disk is to blame for an error.
    pub(crate) fn excuses(&self) -> bool {
        self.faults.struck() > self.struck_before
    }

    pub(crate) fn is_planned(&self) -> bool {
        self.planned
    }

    /// Plans a fault.
    pub(crate) fn plan(&mut self, dice: &mut Dice, history: &mut History) {
        let soon = 1 + dice.below(6);
        let faults = &self.faults;
        let what = match dice.below(12) {
            0..2 => {
                faults.fail_nth(Calls::Only(Call::Sync), soon);
                "a sync fails"
            }
            2..4 => {
                faults.fail_nth(Calls::Only(Call::Write), soon);
                "a write fails"
            }
            4 => {
                faults.fail_nth(Calls::Only(Call::SyncAll), 1);
                "a sync of everything fails"
            }
            5 => {
                faults.fail_nth(Calls::Any, 1 + dice.below(40));
                "some call fails"
            }
            6 => {
                faults.fail_nth(Calls::Only(Call::Read), soon);
                "a read fails"
            }
            7 => {
                faults.fail_all(Calls::Syncs);
                "all syncs fail"
            }
            8..10 => return self.fill(dice, history),
            10 => {
                faults.shorten_every(1 + dice.below(3), Short::Half);
                "writes are short"
            }
            _ => {
                faults.shorten_nth(1, Short::OneByte);
                faults.fail_nth(Calls::Only(Call::Write), 2);
                "a write fails halfway"
            }
        };
        self.begins(what, history);
    }

    /// Leaves the disk with little room, or none at all.
    pub(crate) fn fill(&mut self, dice: &mut Dice, history: &mut History) {
        let room = if dice.one_in(3) { 0 } else { dice.below(150 << 10) };
        self.faults.fill(room);
        self.begins("the disk is nearly full", history);
    }

    fn begins(&mut self, what: &'static str, history: &mut History) {
        self.planned = true;
        history.count(Kind::Injected, what);
        history.tell(format_args!("from now on {what}"));
    }

    /// Fails one of the calls that an opening makes.
    pub(crate) fn plan_for_opening(&mut self, dice: &mut Dice, history: &mut History) {
        let n = 1 + dice.below(90);
        self.faults.fail_nth(Calls::Any, n);
        self.planned = true;
        history.count(Kind::Injected, "a call of an opening fails");
        history.tell(format_args!("call {n} of the opening will fail"));
    }

    /// Ends every fault.
    pub(crate) fn end(&mut self, history: &mut History) {
        self.faults.clear();
        self.planned = false;
        history.tell(format_args!("the disk is well again"));
    }

    /// Everything was seen to work again: from here on no error is excused by the past.
    pub(crate) fn forget(&mut self) {
        self.struck_before = self.faults.struck();
    }

    /// Writes down what has struck since the last time.
    pub(crate) fn report(&mut self, history: &mut History) {
        let struck = self.faults.struck();
        for _ in self.struck_told..struck {
            history.count(Kind::Injected, "a fault struck");
        }
        if struck > self.struck_told {
            history.tell(format_args!("{} faults struck", struck - self.struck_told));
        }
        self.struck_told = struck;
    }
}

/// Flips a bit somewhere in what is stored while no process runs. Says whether there was one.
pub(crate) fn flip_at_rest(disk: &Crash, dice: &mut Dice, history: &mut History) -> bool {
    let (kind, dir) = match dice.below(3) {
        0 => ("bit flipped in the journal", "journal".to_owned()),
        1 => ("bit flipped in a checkpoint", "checkpoints".to_owned()),
        _ => {
            let lanes = disk.list("segments").unwrap_or_default();
            let Some(lane) = dice.pick(&lanes) else { return false };
            ("bit flipped in a segment", format!("segments/{lane}"))
        }
    };
    let names = disk.list(&dir).unwrap_or_default();
    let Some(path) = dice.pick(&names).map(|name| format!("{dir}/{name}")) else { return false };
    match flip(disk, &path, dice) {
        Ok(Some(bit)) => {
            history.count(Kind::Injected, kind);
            history.tell(format_args!("bit {bit} of {path} flips"));
            true
        }
        _ => false,
    }
}

/// Flips a bit of a byte that is not zero, for most of a journal file is zeros that nobody reads.
fn flip(disk: &Crash, path: &str, dice: &mut Dice) -> io::Result<Option<u64>> {
    const TRIES: usize = 64;
    let file = disk.open(path, Open::Write)?;
    let len = file.len()?;
    for _ in 0..TRIES {
        let at = dice.below(len);
        let mut byte = [0];
        if read_full_at(&*file, &mut byte, at)? == 1 && byte != [0] {
            let bit = at * 8 + dice.below(8);
            let (_, faults) = Faulty::new(Arc::new(disk.clone()));
            faults.flip(path, bit)?;
            file.sync()?;
            return Ok(Some(bit));
        }
    }
    Ok(None)
}
