//! The keeper: moves bodies to segments and takes checkpoints, one after the other, for ever.
//!
//! It tells what it does on stdout (`event …`), so that whoever kills can choose the moment.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use handoff_log::directory::Directory;
use handoff_sim::room::Counter;
use handoff_store_embedded::{BulkError, Checkpointing, Progress, StepError};
use handoff_types::{Code, Limits};

use super::room::Room;
use super::{End, say};

/// How many entries are moved under one hold of the lock.
const MOVED_AT_ONCE: usize = 32;

/// How long one look at something that cannot be waited for takes.
const LOOK: Duration = Duration::from_millis(2);

/// How long after a disk fault the keeper tries again.
const FAULT_PAUSE: Duration = Duration::from_millis(50);

/// How long a request may wait for space.
const SPACE_WAIT_MAX: Duration = Duration::from_secs(25);

pub(super) struct Keeper {
    bell: Arc<Bell>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    /// Requests since the last checkpoint began.
    changed: u64,
    /// Checkpoints done.
    done: u64,
    closing: bool,
}

impl Keeper {
    pub(super) fn start(directory: Directory, room: Arc<Mutex<Room>>, limits: Limits) -> Self {
        let bell = Arc::new(Bell::default());
        let inside = Arc::clone(&bell);
        let thread = thread::spawn(move || keep(&inside, &directory, &room, &limits));
        Self { bell, thread }
    }

    /// Says that something may have changed.
    pub(super) fn nudge(&self) {
        self.bell.lock().changed += 1;
        self.bell.rung.notify_all();
    }

    /// Waits a moment for a checkpoint to end, which gives space back.
    pub(super) fn wait_for_space(&self) -> Result<(), End> {
        let mut state = self.bell.lock();
        state.changed += 1;
        self.bell.rung.notify_all();
        let before = state.done;
        let still = |state: &mut State| state.done == before;
        let waited = self.bell.rung.wait_timeout_while(state, SPACE_WAIT_MAX, still);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            return Err(End::new(Code::JournalFull, "there was no space for too long"));
        }
        Ok(())
    }

    pub(super) fn stop(self) {
        self.bell.lock().closing = true;
        self.bell.rung.notify_all();
        // A panic there has been reported by itself.
        drop(self.thread.join());
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed; whether to go on.
    fn wait(&self) -> bool {
        let quiet = |state: &mut State| state.changed == 0 && !state.closing;
        let state = self.rung.wait_while(self.lock(), quiet);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.changed = 0;
        !state.closing
    }

    /// Lets time pass, unless it is the end.
    fn pause(&self, time: Duration) {
        let on = |state: &mut State| !state.closing;
        drop(self.rung.wait_timeout_while(self.lock(), time, on));
    }
}

fn keep(bell: &Bell, directory: &Directory, room: &Mutex<Room>, limits: &Limits) {
    while bell.wait() {
        if let Err(error) = move_bodies(room) {
            say(&format!("event trouble {error}"));
            bell.pause(FAULT_PAUSE);
        }
        match checkpoint(bell, directory, room, limits) {
            Ok(()) => bell.lock().done += 1,
            Err(error) => {
                say(&format!("event trouble {error}"));
                bell.pause(FAULT_PAUSE);
                // Try again, whether or not anybody asks for something.
                bell.lock().changed += 1;
            }
        }
        bell.rung.notify_all();
    }
}

fn move_bodies(room: &Mutex<Room>) -> Result<(), BulkError> {
    let lock = || room.lock().unwrap_or_else(PoisonError::into_inner);
    while lock().host.bulk().copy(MOVED_AT_ONCE)? == MOVED_AT_ONCE {}
    say("event moved");
    lock().host.bulk().sync()?;
    say("event synced");
    Ok(())
}

fn checkpoint(
    bell: &Bell,
    directory: &Directory,
    room: &Mutex<Room>,
    limits: &Limits,
) -> Result<(), StepError> {
    let mut taking = Checkpointing::begin::<Counter>(directory, limits.checkpoint_chunk_bytes)?;
    say("event checkpoint begun");
    loop {
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        let now = room.now();
        let progress = taking.step(&mut room.host, now)?;
        drop(room);
        match progress {
            Progress::More => {}
            Progress::Waiting => bell.pause(LOOK),
            Progress::Done => break,
        }
    }
    say("event checkpoint done");
    Ok(())
}
