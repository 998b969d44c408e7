//! The thread that makes and moves the files of messages, with another that fills them.
//!
//! # Constraints
//! * Files follow the journal: whoever reads meanwhile reads from there, so nobody waits for this.
//! * One sync is for all files of about a second, and costs the journal's disk some time. It comes
//!   after a while, when there is very much to make durable, or when a checkpoint waits for it.
//! * What cannot be done is tried again by itself, after longer and longer pauses; the journal keeps
//!   what has no file, and admission slows the door.
//! * What it has to know of messages it asks the room, and waits for that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use handoff_exchange::Ask;
use handoff_store_embedded::Called;
use handoff_store_embedded::folders::{
    Answer, Folders, Known, More, Orders, Question as FolderQuestion, Report, answer,
    processes_json,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::mailbox::{Look, Offered, Question, Shared, Tell};
use crate::clock::Clock;
use crate::http::read_exchange_file as read_file;

/// How long files wait for more of them.
const TICK: Duration = Duration::from_millis(100);

/// Files are synced after so long at the latest, or this part of what they may be behind, and when
/// there are so many of them.
const SYNC_AFTER: Duration = Duration::from_secs(1);
const SYNC_PART: u32 = 5;
const SYNC_BODIES: usize = 64 << 10;

/// Between two pieces of a comparison.
const SLOW_PAUSE: Duration = Duration::from_millis(1);

/// The list of processes is written at most so often.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// The thread at work. Dropped, it ends and waits for it.
#[derive(Debug)]
pub(super) struct Filer {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

impl Filer {
    pub(super) fn start(
        mut folders: Folders,
        room: mpsc::Sender<Question>,
        shared: Arc<Shared>,
        clock: Clock,
    ) -> io::Result<Self> {
        folders.get_help()?;
        let orders = folders.orders();
        // The room's mailbox is its own: a room that waited for this sender would never end.
        let room = room.downgrade();
        let work = Work {
            folders,
            room: Room { room },
            shared,
            clock,
            unsynced_since: None,
            listed: (Instant::now(), u64::MAX),
        };
        let thread =
            thread::Builder::new().name("exchange-files".to_owned()).spawn(move || work.go_on())?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Tells it to end, and does not wait for that.
    pub(super) fn tell(&self) {
        self.orders.close();
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        self.orders.close();
        // A panic there has been reported by itself.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The way to the room, from a thread that may wait.
struct Room {
    room: mpsc::WeakSender<Question>,
}

impl Room {
    fn send(&self, question: Question) -> Option<()> {
        self.room.upgrade()?.blocking_send(question).ok()
    }

    /// What the room sees, once all of it is durable.
    fn look<T: Send + 'static>(
        &self,
        see: impl FnOnce(&handoff_exchange::State) -> T + Send + 'static,
    ) -> Option<T> {
        let (to, seen) = oneshot::channel();
        let look: Look = Box::new(move |state, _| {
            let found = see(state);
            let tell: Tell = Box::new(move |outcome| drop(to.send(outcome.map(|()| found))));
            tell
        });
        self.send(Question::Look(look))?;
        seen.blocking_recv().ok()?.ok()
    }
}

impl Known for Room {
    fn ask(&mut self, question: &FolderQuestion) -> Option<Answer> {
        let question = question.clone();
        self.look(move |state| answer(state, &question))
    }
}

struct Work {
    folders: Folders,
    room: Room,
    shared: Arc<Shared>,
    clock: Clock,
    /// Since when something was done that is not synced.
    unsynced_since: Option<Instant>,
    /// When the list of processes was written, and at which turn of the room.
    listed: (Instant, u64),
}

impl Work {
    fn go_on(mut self) {
        loop {
            let called = self.folders.wait(TICK);
            if matches!(called, Called::Closing) || !self.turn(matches!(called, Called::Asked)) {
                return;
            }
            self.report();
            self.list();
        }
    }

    /// Does what there is to do, and syncs if it is time. Whether to go on.
    fn turn(&mut self, asked: bool) -> bool {
        loop {
            let begun = self.clock.steady();
            let written = self.shared.orders.behind().written;
            self.shared.toil.begin(begun);
            let more = self.folders.work(&mut self.room, begun);
            let wrote = self.shared.orders.behind().written > written;
            self.shared.toil.end(self.clock.steady(), wrote || more == More::Now);
            self.sync(asked && more != More::Now);
            match more {
                More::No => return true,
                // Others need the disk too.
                More::Slowly if !self.folders.rest(SLOW_PAUSE) => return false,
                More::Now if !self.folders.rest(Duration::ZERO) => return false,
                More::Slowly | More::Now => {
                    self.report();
                    self.list();
                }
            }
        }
    }

    fn sync(&mut self, asked: bool) {
        if !self.folders.wants_sync() && !asked {
            self.unsynced_since = None;
            return;
        }
        let since = *self.unsynced_since.get_or_insert_with(Instant::now);
        let much = self.folders.unsynced().bodies >= SYNC_BODIES;
        let after = SYNC_AFTER.min(self.shared.settings().files_behind_max / SYNC_PART);
        if asked || much || since.elapsed() >= after {
            self.folders.sync(self.clock.steady());
            self.unsynced_since = None;
        }
    }

    fn report(&mut self) {
        for report in self.folders.take_reports() {
            match report {
                Report::Settled { process, round } => {
                    self.tell(Ask::Settled { number: process, round });
                }
                Report::Stuck { process, words } => {
                    self.tell(Ask::Stuck { number: process, words });
                }
                Report::Damaged { seq, words } => self.tell(Ask::Damaged { seq, words }),
                Report::Behind { words, full } => {
                    self.shared.files_full.store(full, Ordering::Release);
                    self.shared.files_stuck.store(true, Ordering::Release);
                    warn!(%words, "files of messages cannot be written; it is tried again");
                }
                Report::Recovered => {
                    self.shared.files_full.store(false, Ordering::Release);
                    self.shared.files_stuck.store(false, Ordering::Release);
                    info!("files of messages are written again");
                }
                Report::Late { words } => {
                    warn!(%words, "a file cannot be moved; it is tried again");
                }
                Report::Mended { path, words } => warn!(path, words, "a file was put right"),
                Report::TakeIn { path, database, name, content } => {
                    match read_file(&name, &content) {
                        Ok(message) => {
                            let device = name.from.clone();
                            let offered = Offered { path, database, device, message };
                            self.room.send(Question::TakeIn(Box::new(offered)));
                        }
                        Err(why) => {
                            warn!(path, why, "a file is no message and is left where it is");
                            self.shared.orders.not_taken_in(&path);
                        }
                    }
                }
                Report::Compared(compared) => {
                    let (messages, files) = (compared.messages, compared.files);
                    let (mended, foreign) = (compared.mended, compared.foreign);
                    debug!(messages, files, mended, foreign, "the folders were compared");
                    let now = self.clock.steady();
                    if !compared.whole {
                        // It does not know what is elsewhere.
                        self.shared.looking.done(compared.left > 0, now);
                        continue;
                    }
                    self.shared.looking.compared(now);
                    *self.shared.compared() = Some(Arc::new(compared));
                }
            }
        }
    }

    fn tell(&self, ask: Ask) {
        self.room.send(Question::Do(Box::new(ask), None));
    }

    /// Writes the list of processes, if it may be another.
    fn list(&mut self) {
        let (at, turn) = self.listed;
        let now = self.shared.turns.load(Ordering::Acquire);
        let stuck = self.shared.list_stuck.load(Ordering::Acquire);
        if (turn == now && !stuck) || (turn != u64::MAX && at.elapsed() < LIST_EVERY) {
            return;
        }
        let Some(text) = self.room.look(processes_json) else { return };
        self.listed = (Instant::now(), now);
        let written = self.folders.write_processes(&text);
        self.shared.list_stuck.store(written.is_err(), Ordering::Release);
        match written {
            Ok(()) if stuck => info!("the list of processes is written again"),
            Ok(()) => {}
            Err(error) if !stuck => warn!(
                error = &error as &dyn std::error::Error,
                "the list of processes cannot be written; it is tried again"
            ),
            Err(_) => {}
        }
    }
}
