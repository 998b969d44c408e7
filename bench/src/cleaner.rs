//! Removes a directory when this process ends, however it ends.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Removes its directory when dropped. A shell that waits for the end of its input does so too,
/// for a process that is interrupted or killed: its end of the pipe closes whatever happens.
#[derive(Debug)]
pub(crate) struct Cleaner {
    dir: PathBuf,
    shell: Option<Child>,
}

impl Cleaner {
    pub(crate) fn of(dir: &Path) -> Self {
        // In a process group of its own, so that an interrupt from the terminal does not reach it.
        let shell = Command::new("sh")
            .args([OsStr::new("-c"), OsStr::new("cat; rm -rf -- \"$0\""), dir.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self { dir: dir.to_owned(), shell: shell.ok() }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // Nothing to do about a directory that does not go; the shell tries once more.
        drop(fs::remove_dir_all(&self.dir));
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            drop(shell.wait());
        }
    }
}
