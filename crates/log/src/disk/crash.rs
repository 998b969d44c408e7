//! A disk that loses at a crash what the fault model allows, and nothing else.
//!
//! The text of [`super`] as code:
//!
//! * [`File::sync`] makes a file's content and length durable, [`Disk::sync_dir`] the names of a
//!   directory, [`Disk::sync_all`] everything.
//! * Of what is not durable a crash keeps any part: of the writes any sectors ([`versions`]), any
//!   of the lengths the file had, of the creations, renames and removals any that go together
//!   ([`names`]). So a file that was synced may vanish if its directory was not.
//! * A seed decides which ([`survival`]), and what took place is counted ([`Coverage`]).
//!
//! To crash a workload at every sync: run it once and ask for [`Crash::syncs`]; then, for each of
//! them, run it on a new disk with [`Crash::halt_at_sync`] and take some [`Crash::crash`] states of
//! what it left. Halting just before a sync leaves open the most, so no other moment of the
//! workload has an outcome that is not among those.

mod coverage;
mod names;
mod survival;
mod versions;

pub use coverage::Coverage;

use super::contents::end_of;
use super::shared::Shared;
use super::tree::Tree;
use super::{Disk, File, Memory, Open, Walk};
use names::Names;
use std::io;
use std::sync::{Arc, MutexGuard};
use survival::Survival;
use versions::Versions;

/// A disk in memory that can crash. A clone is the same disk.
#[derive(Clone, Debug)]
pub struct Crash {
    state: Shared<State>,
}

/// On which side of a sync the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing of the sync has taken place.
    Before,
    /// All is durable, but the process does not learn of it.
    After,
}

#[derive(Debug)]
struct State {
    names: Names<Shared<Versions>>,
    syncs: u64,
    halt: Option<(u64, When)>,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Halted,
    Crashed,
}

impl Crash {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Tree::default())
    }

    /// Kills the process and returns the disk it finds when it starts again, with a report of what
    /// the crash did. Equal seeds over equal calls give equal disks.
    ///
    /// This disk and the files opened on it refuse every call from here on, as a dead process can
    /// do nothing. It can crash again with another seed: that is another end of the same life.
    #[must_use]
    pub fn crash(&self, seed: u64) -> (Self, Coverage) {
        self.end(Survival::drawn(seed))
    }

    /// As [`Crash::crash`], but keeps only what was synced.
    #[must_use]
    pub fn crash_keeping_nothing(&self) -> (Self, Coverage) {
        self.end(Survival::nothing())
    }

    /// As [`Crash::crash`], but keeps all, as when the process is killed and the machine is not.
    #[must_use]
    pub fn crash_keeping_everything(&self) -> (Self, Coverage) {
        self.end(Survival::everything())
    }

    /// Kills the process and not the machine: the disk the next process finds holds everything,
    /// but what was not durable is still not durable and may be lost by a later crash.
    ///
    /// This disk and the files opened on it refuse every call from here on.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state.lock();
        state.life = Life::Crashed;
        let names = std::mem::replace(&mut state.names, Names::synced(Tree::default()));
        let state = State { names, syncs: 0, halt: None, life: Life::Running };
        Self { state: Shared::new(state) }
    }

    /// What the process sees at this moment, as a disk of its own to read, write to and throw
    /// away. This one goes on. Costs little: the two share pages until one of them writes.
    #[must_use]
    pub fn seen(&self) -> Memory {
        let state = self.state.lock();
        Memory::over(state.names.current().map(|file| Shared::new(file.lock().current().clone())))
    }

    /// As [`Crash::seen`], but only what is durable: what a power cut at this moment leaves at
    /// the least.
    #[must_use]
    pub fn durable(&self) -> Memory {
        let state = self.state.lock();
        let mut nothing = Survival::nothing();
        let mut coverage = Coverage::default();
        let tree = state
            .names
            .survive(&mut nothing, &mut coverage)
            .map(|file| Shared::new(file.lock().survive(&mut nothing, &mut coverage)));
        Memory::over(tree)
    }

    /// How many syncs were asked for so far, of files, directories or everything.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// Stops the process at its `n`-th sync, counted as [`Crash::syncs`] does: that call and every
    /// later one fails with "halted". One that is past stops nothing.
    pub fn halt_at_sync(&self, n: u64, when: When) {
        self.state.lock().halt = Some((n, when));
    }

    /// Whether it stopped at the sync it was told to.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.state.lock().life == Life::Halted
    }

    fn over(tree: Tree<Shared<Versions>>) -> Self {
        let names = Names::synced(tree);
        let state = State { names, syncs: 0, halt: None, life: Life::Running };
        Self { state: Shared::new(state) }
    }

    fn end(&self, mut survival: Survival) -> (Self, Coverage) {
        let mut state = self.state.lock();
        state.life = Life::Crashed;
        let mut coverage = Coverage { crashes: 1, ..Coverage::default() };
        let tree = state.names.survive(&mut survival, &mut coverage).map(|file| {
            let contents = file.lock().survive(&mut survival, &mut coverage);
            Shared::new(Versions::synced(contents))
        });
        (Self::over(tree), coverage)
    }

    fn running(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        match state.life {
            Life::Running => Ok(state),
            Life::Halted => Err(io::Error::other("halted")),
            Life::Crashed => Err(io::Error::other("crashed")),
        }
    }

    /// Counts a sync, does it, and halts on the side of it that was asked for.
    fn sync_point(&self, sync: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.running()?;
        state.syncs += 1;
        let halt = state.halt.filter(|(n, _)| *n == state.syncs).map(|(_, when)| when);
        if halt != Some(When::Before) {
            sync(&mut state)?;
        }
        if halt.is_some() {
            state.life = Life::Halted;
            return Err(io::Error::other("halted"));
        }
        Ok(())
    }
}

impl Default for Crash {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for Crash {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.running()?;
        let versions = match how {
            Open::Read | Open::Write => state.names.current().file(path)?,
            Open::Create => {
                let versions = Shared::default();
                state.names.create_file(path, versions.clone())?;
                versions
            }
        };
        Ok(Arc::new(CrashFile { disk: self.clone(), versions, how }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.running()?.names.current().list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        Ok(Box::new(self.running()?.names.current().found(dir)?.into_iter().map(Ok)))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.running()?.names.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.running()?.names.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.running()?.names.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.running()?.names.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.running()?.names.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.sync_point(|state| state.names.sync_dir(dir))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_point(|state| {
            state.names.sync_all();
            // A file without a name is gone after a crash, so only those with one matter.
            state.names.current().files().for_each(|(_, file)| file.lock().sync());
            Ok(())
        })
    }
}

/// The lock of the disk is taken before that of the file, here as everywhere.
#[derive(Debug)]
struct CrashFile {
    disk: Crash,
    versions: Shared<Versions>,
    how: Open,
}

impl File for CrashFile {
    fn len(&self) -> io::Result<u64> {
        let _running = self.disk.running()?;
        Ok(self.versions.lock().current().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let _running = self.disk.running()?;
        Ok(self.versions.lock().current().read_at(buffer, end_of(offset, 0)?))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let _running = self.disk.running()?;
        self.how.check_writable()?;
        let end = end_of(offset, bytes.len())?;
        self.versions.lock().write_at(bytes, end - bytes.len());
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _running = self.disk.running()?;
        self.how.check_writable()?;
        self.versions.lock().set_len(end_of(len, 0)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync_point(|_| {
            self.versions.lock().sync();
            Ok(())
        })
    }
}
