//! Single files: written, found, moved, told apart.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use handoff_exchange::{EntityId, Place, Spot};
use handoff_log::disk::{Disk, FoundWhat, Open, read_full_at, remove_if_there, write_all_at};

use super::hand::Made;
use super::known::Filed;
use super::name::{CONFLICT, is_day, place_dir, spot_dir};

/// How many folders are remembered to be there.
const DIRS_MAX: usize = 4096;

/// How many files may be set aside under one name.
const CONFLICTS_MAX: u32 = 9;

/// What is under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No file.
    Nothing,
    /// The message.
    Right,
    /// Something else, of this length.
    Wrong(u64),
}

/// Writes and moves files. Nothing is synced here.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    /// Folders that are there, unless somebody removed them since.
    dirs: BTreeSet<String>,
}

impl Files {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, dirs: BTreeSet::new() }
    }

    /// Sees to it that a folder is there.
    fn need(&mut self, dir: &str) -> io::Result<()> {
        if self.dirs.contains(dir) {
            return Ok(());
        }
        self.disk.create_dir(dir)?;
        if self.dirs.len() >= DIRS_MAX {
            self.dirs.clear();
        }
        self.dirs.insert(dir.to_owned());
        Ok(())
    }

    /// Does something in a folder, once more if somebody has removed it.
    fn inside<T>(
        &mut self,
        dir: &str,
        mut with: impl FnMut(&dyn Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        self.need(dir)?;
        match with(&*self.disk) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.disk.walk(dir).is_err() => {
                self.dirs.remove(dir);
                self.need(dir)?;
                with(&*self.disk)
            }
            other => other,
        }
    }

    /// Writes a file under a name that nothing has.
    ///
    /// It has its name before it is whole: another name first would cost half as much again, and
    /// nobody needs it. Until the next sync the body is read from the journal, and whatever a crash
    /// leaves of the file is replaced, see [`crate::filing::Filing`].
    pub(super) fn write(&mut self, dir: &str, name: &str, body: &Bytes) -> io::Result<()> {
        self.make(dir, name, body)?.fill(&*self.disk)
    }

    /// Makes a file under a name that nothing has, to be filled.
    pub(super) fn make(&mut self, dir: &str, name: &str, body: &Bytes) -> io::Result<Made> {
        let path = [dir, "/", name].concat();
        let file = self.inside(dir, |disk| disk.open(&path, Open::Create))?;
        Ok(Made { path, file, body: body.clone() })
    }

    /// Writes a file in place of whatever has its name. It is there as a whole or not at all, until a
    /// crash.
    pub(super) fn replace(&mut self, dir: &str, name: &str, body: &[u8]) -> io::Result<()> {
        let (writing, path) = (format!("{dir}/.{name}"), format!("{dir}/{name}"));
        let file = self.inside(dir, |disk| match disk.open(&writing, Open::Create) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                disk.remove(&writing)?;
                disk.open(&writing, Open::Create)
            }
            other => other,
        })?;
        let written =
            write_all_at(&*file, body, 0).and_then(|()| self.disk.rename(&writing, &path));
        if written.is_err() {
            // What is left is removed when it is found.
            drop(remove_if_there(&*self.disk, &writing));
        }
        written
    }

    /// Moves a file to a name that nothing has.
    pub(super) fn shift(&mut self, from: &str, dir: &str, name: &str) -> io::Result<()> {
        let to = [dir, "/", name].concat();
        self.inside(dir, |disk| disk.rename_new(from, &to))
    }

    /// Gives a file that is not the message another name, for people to look at. An empty one tells
    /// nobody anything and is removed.
    pub(super) fn set_aside(&self, path: &str, length: u64) -> io::Result<()> {
        if length == 0 {
            return self.disk.remove(path);
        }
        let mut last = Ok(());
        for number in 1..=CONFLICTS_MAX {
            last = self.disk.rename_new(path, &format!("{path}{CONFLICT}{number}"));
            match &last {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                _ => break,
            }
        }
        last
    }

    /// Removes a folder of a day if nothing is in it.
    pub(super) fn remove_day(&mut self, dir: &str) {
        if self.disk.remove_dir(dir).is_ok() {
            self.dirs.remove(dir);
        }
    }
}

/// Whether there is a file.
pub(super) fn is_there(disk: &dyn Disk, path: &str) -> io::Result<bool> {
    Ok(length(disk, path)?.is_some())
}

/// The length of a file, if there is one.
pub(super) fn length(disk: &dyn Disk, path: &str) -> io::Result<Option<u64>> {
    match disk.open(path, Open::Read) {
        Ok(file) => file.len().map(Some),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is under a name that should be this message.
pub(super) fn content(disk: &dyn Disk, path: &str, filed: &Filed) -> io::Result<Content> {
    Ok(match read(disk, path, u64::from(filed.bytes))? {
        None => Content::Nothing,
        Some((body, length)) => match is_body(&body, length, filed) {
            true => Content::Right,
            false => Content::Wrong(length),
        },
    })
}

/// Whether these bytes of a file of this length are the message's body.
pub(super) fn is_body(body: &[u8], length: u64, filed: &Filed) -> bool {
    length == u64::from(filed.bytes) && crc32c::crc32c(body) == filed.crc
}

/// The bytes of a file, if there is one, and its length. One that is longer than it may be is not
/// read.
pub(super) fn read(
    disk: &dyn Disk,
    path: &str,
    bytes_max: u64,
) -> io::Result<Option<(Vec<u8>, u64)>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.len()?;
    let Some(wanted) = usize::try_from(length).ok().filter(|_| length <= bytes_max) else {
        return Ok(Some((Vec::new(), length)));
    };
    let mut bytes = vec![0; wanted];
    let read = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some((bytes, length)))
}

/// No file under this name, or something under it that is none: a folder, a link, a pipe.
fn is_missing(error: &io::Error) -> bool {
    use ErrorKind::{InvalidInput, IsADirectory, NotFound};
    matches!(error.kind(), NotFound | IsADirectory | InvalidInput)
}

/// The folders of a database in which a file is likely to be, the one where it belongs left out.
pub(super) fn nearby(filed: &Filed) -> Vec<String> {
    let database = &filed.database;
    let here = spot_dir(database, filed.spot);
    let mut dirs = Vec::new();
    for place in [Place::Messages, Place::Prepared, Place::Unknown] {
        dirs.push(place_dir(database, place));
    }
    for place in [Place::Log, Place::Error] {
        dirs.push(spot_dir(database, Spot { place, since: filed.spot.since }));
    }
    dirs.retain(|dir| *dir != here);
    dirs
}

/// The folders of other days, in which it may be as well. This lists two folders, so whatever else may
/// have it is asked before.
pub(super) fn other_days(disk: &dyn Disk, filed: &Filed) -> io::Result<Vec<String>> {
    let (here, known) = (spot_dir(&filed.database, filed.spot), nearby(filed));
    let mut dirs = days(disk, &filed.database, Place::Log)?;
    dirs.extend(days(disk, &filed.database, Place::Error)?);
    dirs.retain(|dir| *dir != here && !known.contains(dir));
    Ok(dirs)
}

/// The folders of days of a place.
fn days(disk: &dyn Disk, database: &EntityId, place: Place) -> io::Result<Vec<String>> {
    let dir = place_dir(database, place);
    let walk = match disk.walk(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        walk => walk?,
    };
    let mut days = Vec::new();
    for found in walk {
        let found = found?;
        if found.what == FoundWhat::Dir && is_day(&found.name) {
            days.push(format!("{dir}/{}", found.name));
        }
    }
    days.sort_unstable();
    Ok(days)
}
