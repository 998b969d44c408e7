//! Repair: damaged ranges are set aside and their loss is accepted, so that a room can open.
//!
//! Nothing of the journal is changed. The bytes of each damaged range are copied to
//! `quarantine/`, and the numbers of the lost records are written to `quarantine/ACCEPTED`. From
//! then on recovery still reports the damage, but the room goes on behind it.

use std::io;
use std::sync::Arc;

use handoff_types::{Room, Sequence};
use thiserror::Error;

use super::super::Options;
use super::super::error::OpenError;
use super::{Damage, LostRecords, Recovery, Start};
use crate::disk::{Disk, Open, read_full_at, read_small, replace_small, write_all_at};

const DIR: &str = "quarantine";
const ACCEPTED: &str = "quarantine/ACCEPTED";
const ACCEPTED_BYTES_MAX: usize = 16 << 20;
const TITLE: &str = "lost records accepted by repair, format 1: room, first, last";

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Files in `quarantine/` that hold the damaged ranges.
    pub set_aside: Vec<String>,
    /// The losses accepted now.
    pub accepted: Vec<LostRecords>,
}

/// Why a repair could not be made. Nothing was accepted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The journal cannot be read at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The list of accepted losses is not one that repair wrote.
    #[error("{ACCEPTED} is not what repair wrote; set it aside by hand")]
    Unreadable,
    /// The disk answered with an error.
    #[error("the disk failed {path}: {fault}")]
    Disk {
        /// The file.
        path: String,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
}

fn disk_fault(path: &str) -> impl FnOnce(io::Error) -> RepairError + '_ {
    move |fault| RepairError::Disk { path: path.to_owned(), fault }
}

/// Sets the damaged ranges of a journal aside and accepts the loss. No server may run.
///
/// # Errors
/// [`RepairError`]; nothing was accepted then.
pub fn repair(
    disk: &Arc<dyn Disk>,
    options: Options,
    start: Start,
) -> Result<Repaired, RepairError> {
    let mut accepted = start.excused.clone();
    let mut recovery = Recovery::begin(Arc::clone(disk), options, start)?;
    while recovery.next_entry()?.is_some() {}
    let mut repaired = Repaired::default();
    disk.create_dir(DIR).map_err(disk_fault(DIR))?;
    for damage in recovery.damage.clone() {
        if !damage.rooms.is_empty() {
            repaired.set_aside.extend(set_aside(disk, &recovery, &damage)?);
        }
    }
    repaired.accepted = recovery.lost.clone();
    repaired.accepted.retain(|lost| !accepted.contains(lost));
    accepted.extend(&repaired.accepted);
    let text = accepted_text(&accepted);
    replace_small(&**disk, ACCEPTED, text.as_bytes()).map_err(disk_fault(ACCEPTED))?;
    Ok(repaired)
}

/// The losses that repairs of this directory have accepted.
///
/// # Errors
/// [`RepairError`] when the list cannot be read.
pub fn excused(disk: &dyn Disk) -> Result<Vec<LostRecords>, RepairError> {
    match read_small(disk, ACCEPTED, ACCEPTED_BYTES_MAX).map_err(disk_fault(ACCEPTED))? {
        Some(bytes) => parse_accepted(&bytes).ok_or(RepairError::Unreadable),
        None => Ok(Vec::new()),
    }
}

fn parse_accepted(bytes: &[u8]) -> Option<Vec<LostRecords>> {
    let mut lines = str::from_utf8(bytes).ok()?.lines();
    if lines.next() != Some(TITLE) {
        return None;
    }
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let room = Room::ALL.into_iter().find(|room| room.name() == name)?;
            let from = Sequence(words.next()?.parse().ok()?);
            let to = Sequence(words.next()?.parse().ok()?);
            words.next().is_none().then_some(LostRecords { room, from, to })
        })
        .collect()
}

fn accepted_text(accepted: &[LostRecords]) -> String {
    let lines =
        accepted.iter().map(|LostRecords { room, from, to }| format!("{room} {from} {to}\n"));
    format!("{TITLE}\n{}", lines.collect::<String>())
}

/// Copies the bytes of a damaged range, as far as files hold them.
fn set_aside(
    disk: &Arc<dyn Disk>,
    recovery: &Recovery,
    damage: &Damage,
) -> Result<Option<String>, RepairError> {
    let path = format!("{DIR}/journal-{:020}-{:020}.damaged", damage.from.0, damage.to.0);
    let copy = || -> io::Result<bool> {
        let file = match disk.open(&path, Open::Create) {
            // Set aside by an earlier repair that did not come to its end.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.open(&path, Open::Write)?
            }
            other => other?,
        };
        let mut held = false;
        for (n, used) in recovery.found.used.iter().enumerate() {
            let end = recovery.limit(n).unwrap_or(u64::MAX).min(damage.to.0);
            let from = damage.from.0.max(used.base);
            if from >= end || used.offset(from) >= used.len {
                continue;
            }
            let held_bytes = (end - from).min(used.len.saturating_sub(used.offset(from)));
            let mut bytes = vec![0; usize::try_from(held_bytes).unwrap_or(0)];
            let read = read_full_at(&*used.file, &mut bytes, used.offset(from))?;
            bytes.truncate(read);
            write_all_at(&*file, &bytes, from - damage.from.0)?;
            held = true;
        }
        file.sync()?;
        Ok(held)
    };
    let held = copy().map_err(disk_fault(&path))?;
    Ok(held.then_some(path))
}
