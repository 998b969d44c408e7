//! What must hold after every step.

use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::journal::Report;
use handoff_store_embedded::Loads;
use handoff_types::{Entropy, Now, Room};

use super::flat::{Lodger, Probe, unexpected, vanished};
use super::ledger::Line;
use super::opening::{Closed, Loaded, ReadBack};
use super::parts::Parts;
use super::{Server, Site};
use crate::driver::{Fault, ensure};
use crate::history::History;

impl<P: Parts> Server<P> {
    /// The state read back from the disk as it is now equals the live one.
    pub(super) fn check(&mut self, history: &mut History) -> Result<(), Fault> {
        let Some(process) = &mut self.site.process else { return Ok(()) };
        process.trouble.report(history);
        self.rooms.iter().try_for_each(|room| room.check_state())?;
        let mut probes = Probes { rooms: &self.rooms, probes: Vec::new(), closed: None };
        let seen = Arc::new(self.site.disk.seen());
        let back = ReadBack::of(&mut probes, seen, Entropy(0)).map_err(unexpected)?;
        self.site.check_report(&back.report)?;
        if let Some(room) = probes.closed {
            return Err(vanished(room));
        }
        let now = self.site.clock.now();
        let found = probes.probes.iter().map(|probe| probe.check(now));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        for one in &found {
            let known = found.iter().filter_map(|one| one.clock).chain(back.report.clock);
            self.site.check_known(known, one.line)?;
        }
        Ok(())
    }
}

impl Site {
    /// Nothing is reported as damaged that was not.
    pub(super) fn check_report(&self, report: &Report) -> Result<(), Fault> {
        let sound = report.damage.is_empty() && report.shortened.is_empty();
        ensure(sound || self.damaged, || format!("damage where there is none: {report:?}"))
    }

    /// The times that a directory knows of reach what a room was last told.
    pub(super) fn check_known(
        &self,
        known: impl Iterator<Item = Now>,
        line: Line,
    ) -> Result<(), Fault> {
        let known = known.map(|now| now.steady.0).max().unwrap_or(0);
        ensure(known >= line.moment.now.steady.0, || {
            format!("the clock read back is {known}, before {}", line.moment.now)
        })
    }
}

/// All rooms, read back from a disk that nobody goes on with.
struct Probes<'a> {
    rooms: &'a [Box<dyn Lodger>],
    probes: Vec<Box<dyn Probe + 'a>>,
    closed: Option<Room>,
}

impl Loaded for Probes<'_> {
    fn begin(&mut self, directory: &Directory) -> Result<(), Closed> {
        for room in self.rooms {
            self.probes.extend(room.probe(directory)?);
        }
        Ok(())
    }

    fn loads(&mut self) -> Vec<&mut dyn Loads> {
        self.probes.iter_mut().map(|probe| probe.loads()).collect()
    }

    fn close(&mut self, room: Room, _: String) {
        self.closed = Some(room);
    }
}
