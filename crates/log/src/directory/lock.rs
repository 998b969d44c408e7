//! One process at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Error;

const LOCK: &str = "LOCK";

/// The right to use a data directory. The kernel gives it back when the process ends, however it
/// ends, so a stale lock cannot exist.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a data directory.
    ///
    /// # Errors
    /// [`Error::InUse`] when another process has it, by its id and command.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let disk = |fault| Error::Disk { path: path.join(LOCK).display().to_string(), fault };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(disk)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = read_holder(&mut file);
                return Err(Error::InUse { path: path.to_owned(), holder });
            }
            Err(errno) => return Err(disk(errno.into())),
        }
        write_holder(&mut file).map_err(disk)?;
        Ok(Self { _file: file })
    }
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    let command = std::env::args().next().unwrap_or_default();
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {} ({command})", std::process::id())
}
