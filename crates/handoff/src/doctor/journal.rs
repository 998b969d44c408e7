//! The journal of a stopped server: what a start would find, and the repair.

use std::sync::Arc;

use handoff_log::checkpoint::{self, Mark};
use handoff_log::directory::Directory as Opened;
use handoff_log::disk::{Disk, Real};
use handoff_log::journal::{
    Damage, OpenError, Options, Recovery, RepairError, Repaired, Report, Start, Tail, excused,
};
use handoff_server::settings::Settings;
use handoff_types::{Entropy, Limits, Now, Room};

use super::{Directory, Finding, Verdict};

const CHECK: &str = "journal";

/// A journal that was read, and nothing of it changed.
#[derive(Debug)]
pub(crate) struct Journal {
    /// What was found.
    pub(super) findings: Vec<Finding>,
    report: Option<Report>,
}

impl Journal {
    /// Reads the journal of a directory that nobody uses.
    pub(crate) fn look(settings: &Settings, directory: &Directory) -> Self {
        let skip = |what: &str| Self { findings: vec![Finding::skip(CHECK, what)], report: None };
        let Some(opened) = &directory.opened else {
            return skip("there is no data directory to read");
        };
        if directory.is_in_use() {
            return skip("the directory is in use; `/readyz` of the server names what is closed");
        }
        if !directory.is_quiet() {
            return skip("nobody can say whether the directory is in use");
        }
        let mut findings = Vec::new();
        let start = match start_of(opened, &mut findings) {
            Ok(start) => start,
            Err(error) => {
                let remedy = "set the list aside by hand; then repair again";
                findings.push(Finding::fail(CHECK, error.to_string(), remedy));
                return Self { findings, report: None };
            }
        };
        match read(opened, settings.log.limits.clone(), start) {
            Ok(report) => {
                findings.extend(judged(&report));
                Self { findings, report: Some(report) }
            }
            Err(error) => {
                findings.push(Finding::fail(CHECK, error.to_string(), error.code().remedy()));
                Self { findings, report: None }
            }
        }
    }

    /// The latest time that any record was decided at.
    pub(super) fn clock(&self) -> Option<Now> {
        self.report.as_ref()?.clock
    }

    /// What a repair would set aside and accept, in words. Empty if there is nothing to repair.
    pub(crate) fn to_repair(&self) -> Vec<String> {
        let Some(report) = &self.report else { return Vec::new() };
        let closed: Vec<Room> = report.closed.iter().map(|(room, _)| *room).collect();
        let mut words: Vec<String> = report
            .damage
            .iter()
            .filter(|damage| damage.rooms.iter().any(|(room, _)| closed.contains(room)))
            .map(|damage| format!("set aside {}", range(damage)))
            .collect();
        let lost = report.lost.iter().filter(|lost| closed.contains(&lost.room));
        words.extend(lost.map(|lost| {
            let room = lost.room;
            if lost.to < lost.from {
                return format!("accept that {room} lost records from {} on", lost.from);
            }
            format!("accept that {room} lost records {} to {}", lost.from, lost.to)
        }));
        words.extend(closed.iter().map(|room| format!("open {room} behind the damage")));
        words
    }

    /// What is wrong and no repair can mend.
    pub(crate) fn beyond_repair(&self) -> Option<&Finding> {
        let mut failed = self.findings.iter().filter(|finding| finding.verdict == Verdict::Fail);
        failed.find(|finding| self.report.is_none() || finding.check != CHECK)
    }

    /// The report, for people who help.
    pub(super) fn text(&self) -> String {
        match &self.report {
            Some(report) => format!("{report:#?}\n"),
            None => "the journal was not read\n".to_owned(),
        }
    }
}

/// Sets damaged ranges aside and accepts their loss. The directory must be held.
///
/// # Errors
/// [`RepairError`]; nothing was accepted then.
pub(crate) fn repair(settings: &Settings, directory: &Directory) -> Result<Repaired, RepairError> {
    let fault = |fault| RepairError::Disk { path: directory.path.display().to_string(), fault };
    let disk: Arc<dyn Disk> = Arc::new(Real::new(&directory.path).map_err(fault)?);
    let Some(opened) = &directory.opened else { return Ok(Repaired::default()) };
    let start = start_of(opened, &mut Vec::new())?;
    handoff_log::journal::repair(&disk, options(opened, settings.log.limits.clone()), start)
}

fn options(opened: &Opened, limits: Limits) -> Options {
    // Dice are for files to be written; none are.
    Options { limits, directory: opened.id, entropy: Entropy(0) }
}

fn read(opened: &Opened, limits: Limits, start: Start) -> Result<Report, OpenError> {
    let recovery = Recovery::begin(Arc::clone(&opened.disk), options(opened, limits), start)?;
    Ok(recovery.finish()?.1)
}

/// Where recovery begins, as the server would begin it: from the checkpoints there are.
fn start_of(opened: &Opened, findings: &mut Vec<Finding>) -> Result<Start, RepairError> {
    let mut start = Start { excused: excused(&*opened.disk)?, ..Start::default() };
    let mut lows = Vec::new();
    for room in Room::ALL {
        let (low, high) = match marks(opened, room) {
            Ok(marks) => marks,
            Err(error) => {
                let remedy = "restore the directory from a backup; the other rooms are not touched";
                findings.push(Finding::fail("checkpoint", error.to_string(), remedy));
                start.unloaded.push(room);
                continue;
            }
        };
        lows.push(low.position);
        start.end = start.end.max(high.position);
        let at = room.index();
        set(&mut start.needs, at, low.position);
        set(&mut start.sequences, at, low.sequence);
        set(&mut start.known, at, high.sequence);
        set(&mut start.known_to, at, high.position);
    }
    start.position = lows.into_iter().min().unwrap_or_default();
    Ok(start)
}

/// From where on a room needs the journal, and how far its checkpoint reaches. Every chunk is read:
/// damage inside one closes the room as well.
fn marks(opened: &Opened, room: Room) -> Result<(Mark, Mark), checkpoint::Error> {
    let Some(found) = checkpoint::latest(&*opened.disk, room, opened.id)? else {
        return Ok(Default::default());
    };
    let marks = (found.low(), found.high());
    let mut chunks = found.chunks();
    while chunks.next_chunk()?.is_some() {}
    Ok(marks)
}

fn set<T>(table: &mut [T; Room::MAX], at: usize, value: T) {
    if let Some(place) = table.get_mut(at) {
        *place = value;
    }
}

fn judged(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (room, at) in &report.closed {
        let what = format!("{room} stays closed: the disk damaged records of it at position {at}");
        let remedy = "`handoff doctor --repair` sets the range aside and opens the room, or restore a backup";
        findings.push(Finding::fail(CHECK, what, remedy));
    }
    let healed = report.damage.iter().filter(|damage| damage.rooms.is_empty());
    for damage in healed {
        let what = format!("{} is damaged, and every record in it was found", range(damage));
        findings.push(Finding::warn(CHECK, what, "nothing is lost; look after the disk"));
    }
    for file in &report.healed {
        let what = format!("one of two headers of {file} is unreadable");
        findings.push(Finding::warn(CHECK, what, "nothing is lost; look after the disk"));
    }
    for file in &report.shortened {
        let what = format!("{file} is shorter than it was made");
        let remedy = "something other than a crash cut it; compare with a backup";
        findings.push(Finding::warn(CHECK, what, remedy));
    }
    if findings.is_empty() {
        let tail = match report.tail {
            Tail::Clean | Tail::Marked => "it ends cleanly",
            Tail::Torn | Tail::Zeroed | Tail::Unordered => {
                "it ends in a write that was cut short, as after a crash; nothing acknowledged is in it"
            }
        };
        let what = format!("{} entries to replay; {tail}", report.entries);
        findings.push(Finding::ok(CHECK, what));
    }
    findings
}

fn range(damage: &Damage) -> String {
    format!("journal positions {} to {}", damage.from, damage.to)
}
