//! What must hold after every step.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_types::Entropy;

use super::Embedded;
use super::notes::Excuses;
use super::opening::{Closed, ReadBack};
use super::parts::Parts;
use crate::driver::{Fault, ensure};
use crate::history::History;
use crate::room::VALUE_LIMIT;

impl<P: Parts> Embedded<P> {
    /// The state read back from the disk as it is now equals the live one.
    pub(super) fn check(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(life) = &mut self.life else { return Ok(()) };
        life.trouble.report(history);
        let state = life.host.state();
        for key in state.keys() {
            let value = state.tally(key).value;
            ensure((-VALUE_LIMIT..=VALUE_LIMIT).contains(&value), || format!("{key} is {value}"))?;
        }
        self.read_back(self.disk.seen()).map(drop)
    }

    /// Whatever somebody was told would survive if the power failed now.
    pub(super) fn check_durable(&self) -> Result<(), Fault> {
        self.read_back(self.disk.durable()).map(drop)
    }

    /// So would every body.
    pub(super) fn check_durable_bodies(&self) -> Result<(), Fault> {
        let back = self.read_back(self.disk.durable())?;
        let (_, _, host) = back.start(|journal| journal).map_err(unexpected)?;
        let excuses = Excuses { fault: false, damage: self.damaged };
        self.notes.clone().judge_all::<P>(&host, &mut self.oracle.clone(), excuses)
    }

    fn read_back(&self, disk: Memory) -> Result<ReadBack<P::Room>, Fault> {
        let back = ReadBack::<P::Room>::from(Arc::new(disk), Entropy(0)).map_err(unexpected)?;
        self.check_report(&back)?;
        let line = self.ledger.check(back.loading.state(), back.loading.through())?;
        let known = back.clock().map_or(0, |now| now.steady.0);
        ensure(known >= line.moment.now.steady.0, || {
            format!("the clock read back is {known}, before {}", line.moment.now)
        })?;
        Ok(back)
    }

    /// Nothing is reported as damaged that was not.
    pub(super) fn check_report(&self, back: &ReadBack<P::Room>) -> Result<(), Fault> {
        let report = &back.report;
        let sound = report.damage.is_empty() && report.shortened.is_empty();
        ensure(sound || self.damaged, || format!("damage where there is none: {report:?}"))
    }
}

fn unexpected(closed: Closed) -> Fault {
    let (Closed::ByFault(words) | Closed::ByDamage(words)) = closed;
    Fault::Invariant(format!("the directory cannot be opened: {words}"))
}
