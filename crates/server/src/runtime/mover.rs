//! The thread that moves a room's bodies from the journal to segments.
//!
//! # Constraints
//! * Copies follow the journal in large pieces, so that a lane's frames are written in one go
//!   however many lanes there are. Whoever reads meanwhile reads from the journal.
//! * While messages come faster than a disk likes to take them twice, the journal goes first: copies
//!   wait until the flood is over or a checkpoint needs them. So a burst that fits into
//!   `log.checkpoint_bytes` has the disk for itself.
//! * A sync is one for all lanes and costs the journal's disk some time. It comes when there is
//!   much to make durable, or after a while, or when a checkpoint waits for it.
//! * A failure costs a pause that grows, and nothing else: what was not synced is moved again. The
//!   journal keeps it meanwhile, and fills, and then producers are refused.
//! * The room's task never waits for any of this.
//! * Told to end, it does so between two lanes, whatever is left: the journal has all of it. Only a
//!   sync that is under way is waited for.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use handoff_store_embedded::{Bell, BulkError, Called, Moving, Unsynced};
use handoff_types::Room;
use tracing::{debug, warn};

/// How long bodies wait for more of them before they are copied.
const TICK: Duration = Duration::from_millis(200);

/// How many ticks copies wait for more of them before they are synced.
const SYNC_TICKS: u32 = 50;

/// Copies of this many bytes or bodies are worth a sync.
const SYNC_BYTES: u64 = 64 << 20;
const SYNC_BODIES: usize = 64 << 10;

/// Pauses after a failure: the first, and what doubling ends at.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A mover at work. Dropped, it ends and waits for its thread.
#[derive(Debug)]
pub struct MoverThread {
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl MoverThread {
    /// Sets a room's mover to work.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(room: Room, moving: Moving) -> io::Result<Self> {
        let bell = moving.bell();
        let thread = thread::Builder::new()
            .name(format!("mover-{room}"))
            .spawn(move || Work::new(room, moving).go_on())?;
        Ok(Self { bell, thread: Some(thread) })
    }

    /// Tells it to end, and does not wait for that.
    pub fn tell(&self) {
        self.bell.close();
    }
}

impl Drop for MoverThread {
    fn drop(&mut self) {
        self.bell.close();
        // A panic there has been reported by itself.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

struct Work {
    room: Room,
    moving: Moving,
    /// Somebody waits for a sync.
    owed: bool,
    /// Ticks since the last sync.
    ticks: u32,
}

impl Work {
    fn new(room: Room, moving: Moving) -> Self {
        Self { room, moving, owed: false, ticks: 0 }
    }

    fn go_on(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.moving.wait(TICK) {
                Called::Closing => return,
                Called::Asked => self.owed = true,
                Called::Tick => self.ticks += 1,
                Called::Enough => {}
            }
            match self.turn() {
                Ok(()) => pause = PAUSE_MIN,
                Err(error) => {
                    let again_in_ms = pause.as_millis();
                    warn!(room = %self.room, %error, again_in_ms, "bodies could not be moved");
                    if !self.moving.rest(pause) {
                        return;
                    }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            for (lane, lost) in self.moving.take_lost() {
                let (from, to) = (lost.start, lost.end);
                warn!(room = %self.room, %lane, from, to, "the disk lost the end of a lane");
            }
        }
    }

    /// Copies what there is, and syncs if it is time.
    fn turn(&mut self) -> Result<(), BulkError> {
        while self.moving.copy_some()? {
            if is_much(self.moving.unsynced()) && !self.moving.is_closing() {
                self.sync()?;
            }
        }
        if self.moving.is_closing() {
            return Ok(());
        }
        match self.moving.unsynced() {
            Unsynced { bodies: 0, .. } => (self.owed, self.ticks) = (false, 0),
            _ if self.owed || self.ticks >= SYNC_TICKS => self.sync()?,
            _ => {}
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BulkError> {
        let Unsynced { bodies, bytes } = self.moving.unsynced();
        self.moving.sync()?;
        (self.owed, self.ticks) = (false, 0);
        debug!(room = %self.room, bodies, bytes, "bodies moved");
        Ok(())
    }
}

fn is_much(unsynced: Unsynced) -> bool {
    unsynced.bytes >= SYNC_BYTES || unsynced.bodies >= SYNC_BODIES
}

#[cfg(test)]
mod tests;
