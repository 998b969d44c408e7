//! The exchange at work.
//!
//! # Constraints
//! * One task owns the state. It decides, appends, and goes on deciding while the disk works.
//! * What it decided leaves in the order of the decisions, each when it is durable: first entities,
//!   orders for files and bells, then whoever asked is answered.
//! * Bodies are read beside the room, on threads that may wait for a disk; files are written and
//!   moved by a thread of their own, behind the journal.
//! * Who asks is known from the directory: entities as far as they are durable.
//!
//! ```text
//!  asks ──▶ mailboxes ──▶ decide, append ──▶ releases ──durable──▶ directory, bells, folders' orders
//!                          ▲ time, retention               └─────▶ whoever asked
//!  files ── reports: settled, stuck, damaged, put in by hand ──▶ mailbox
//! ```

mod bells;
mod device_logs;
mod directory;
mod effects;
mod filer;
mod lag;
mod looking;
mod looks;
mod mailbox;
mod pace;
mod reading;
mod task;
mod toil;
mod tries;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use handoff_exchange::{
    Admin, Ask, Begun, Cancelled, DatabaseNo, DeviceNo, Digest, MessageId, NewMessage, Outcome,
    ProcessId, Receipt, Refusal, Reply, Seq, Step, Wish,
};
use handoff_log::journal::Lost;
use handoff_store_embedded::folders::{Compared, Filed};
use handoff_types::{Now, Outcome as Known, Steady, Wall};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

pub(crate) use self::bells::Bell;
pub(crate) use self::device_logs::{LINE_BYTES_MAX, Line};
pub(crate) use self::directory::Directory;
pub use self::looks::Stats;
pub(crate) use self::looks::{Figures, MessageView, ProcessView, Wanted};
pub(crate) use self::mailbox::Done;
use self::mailbox::{Question, Shared, is_new};
use self::reading::{Read, Reading};
pub use self::task::Parts;
use super::RoomError;
use crate::clock::Clock;
use crate::settings;
use crate::telemetry::Metrics;

/// A way to the room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ExchangeRoom {
    mailbox: mpsc::Sender<Question>,
    /// For what is new, so that nothing else waits behind it.
    news: mpsc::Sender<Question>,
    shared: Arc<Shared>,
    reading: Reading,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// What `API_1` led to.
#[derive(Debug)]
pub(crate) enum Started {
    /// A process, and its messages with how often each was given out.
    Process {
        id: ProcessId,
        deadline: Wall,
        messages: Vec<(u32, Filed)>,
    },
    Idle,
    Busy {
        retry_after_ms: u64,
    },
}

/// Whether somebody may try a code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tried {
    /// Which device it activated.
    Right(DeviceNo),
    /// Too many wrong ones came; after so many seconds another may be tried.
    TooMany(u32),
}

impl ExchangeRoom {
    /// Changes or removes an entity.
    pub(crate) async fn admin(&self, admin: Admin) -> Result<(), RoomError> {
        self.ask(Ask::Admin(admin)).await.map(drop)
    }

    /// Activates a device by its code.
    pub(crate) async fn activate(
        &self,
        from: IpAddr,
        code: Digest,
        token: Digest,
    ) -> Result<Tried, RoomError> {
        let settings = self.settings();
        let bounds = tries::Bounds {
            tries: settings.activation_tries_max,
            addresses: settings.activation_addresses_max,
        };
        // A code that nobody has is wrong whatever the room says, and counts before it is asked: many
        // at once are as many tries. One that somebody has counts only if it turns out to be wrong.
        let known = self.directory(|known| known.device_by_code(&code).is_some());
        let (tries, now) = (&self.shared.tries, self.clock.steady());
        let may =
            if known { tries.check(from, bounds, now) } else { tries.count(from, bounds, now) };
        if let Err(seconds) = may {
            self.metrics.exchange().activation_refused();
            return Ok(Tried::TooMany(seconds));
        }
        let asked = self.ask(Ask::Activate { code, token }).await;
        let wrong = matches!(&asked, Err(RoomError::Exchange(Refusal::WrongCode)));
        if wrong {
            self.metrics.exchange().activation_refused();
        }
        match (known, wrong) {
            // It is told so in any case; how many more it may try is for the next one to hear.
            (true, true) => drop(tries.count(from, bounds, now)),
            (false, false) => tries.give_back(from),
            _ => {}
        }
        match asked?.reply {
            Reply::Activated(device) => Ok(Tried::Right(device)),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores messages of a device, all or none.
    pub(crate) async fn post(
        &self,
        device: DeviceNo,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Receipt>, RoomError> {
        match self.ask(Ask::Post { device, messages }).await?.reply {
            Reply::Posted(receipts) => Ok(receipts),
            other => Err(unexpected(&other)),
        }
    }

    /// A device has messages: how many are new to the room and how many are not.
    pub(crate) async fn ack(
        &self,
        device: DeviceNo,
        ids: Vec<MessageId>,
    ) -> Result<(u32, u32), RoomError> {
        match self.ask(Ask::Ack { device, ids }).await?.reply {
            Reply::Acked { fresh, again } => Ok((fresh, again)),
            other => Err(unexpected(&other)),
        }
    }

    /// `API_1`
    pub(crate) async fn begin(
        &self,
        database: DatabaseNo,
        wish: Wish,
    ) -> Result<Started, RoomError> {
        let Done { reply, handed } = self.ask(Ask::Begin { database, wish }).await?;
        match reply {
            Reply::Begun(Begun::Started { id, deadline, .. }) => {
                let deadline = self.wall_of(deadline);
                let messages = handed.into_iter().map(|(one, file)| (one.attempt, file)).collect();
                Ok(Started::Process { id, deadline, messages })
            }
            Reply::Begun(Begun::Idle) => Ok(Started::Idle),
            Reply::Begun(Begun::Busy { retry_after }) => {
                Ok(Started::Busy { retry_after_ms: retry_after.0.div_ceil(1_000) })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The other calls about a process. When it is given up, while it is live.
    pub(crate) async fn step(
        &self,
        database: DatabaseNo,
        id: ProcessId,
        step: Step,
    ) -> Result<Result<Option<Wall>, Cancelled>, RoomError> {
        match self.ask(Ask::Process { database, id, step }).await?.reply {
            Reply::Ok { deadline } => Ok(Ok(deadline.map(|deadline| self.wall_of(deadline)))),
            Reply::Cancelled(cancelled) => Ok(Err(cancelled)),
            other => Err(unexpected(&other)),
        }
    }

    /// What became of processes that were ready, one by one.
    pub(crate) async fn resolve(
        &self,
        database: DatabaseNo,
        outcomes: Vec<Outcome>,
    ) -> Result<Vec<Result<(), Cancelled>>, RoomError> {
        match self.ask(Ask::Resolve { database, outcomes }).await?.reply {
            Reply::Resolved(results) => Ok(results),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts messages back into their queues, and says how many.
    pub(crate) async fn requeue(
        &self,
        database: DatabaseNo,
        messages: Vec<Seq>,
    ) -> Result<u32, RoomError> {
        match self.ask(Ask::Requeue { database, messages }).await?.reply {
            Reply::Requeued(many) => Ok(many),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads bodies from the first on until they come to so many bytes; at least one. None for a
    /// body that is lost, which sets its message aside.
    pub(crate) async fn bodies(
        &self,
        files: Vec<Filed>,
        bytes_max: usize,
    ) -> Result<Vec<Option<bytes::Bytes>>, RoomError> {
        let seqs: Vec<Seq> = files.iter().map(|filed| filed.name.seq).collect();
        let read = self.reading.read(files, bytes_max).await?;
        let mut bodies = Vec::with_capacity(read.len());
        for (one, seq) in read.into_iter().zip(seqs) {
            bodies.push(match one {
                Read::Body(body) => Some(body),
                Read::Lost(words) => {
                    self.ask(Ask::Damaged { seq, words: words.into() }).await?;
                    None
                }
            });
        }
        Ok(bodies)
    }

    /// Has the folders compared with the state.
    pub(crate) fn rescan(&self) {
        self.shared.orders.compare();
    }

    /// What the last comparison of the folders found.
    pub(crate) fn compared(&self) -> Option<Arc<Compared>> {
        self.shared.compared().clone()
    }

    /// Looks at the entities, as far as they are durable.
    pub(crate) fn directory<T>(&self, look: impl FnOnce(&Directory) -> T) -> T {
        self.shared.with_directory(look)
    }

    /// Hangs a bell for a device, unless as many wait as may.
    pub(crate) fn wait(&self, device: DeviceNo) -> Option<(Bell, OwnedSemaphorePermit)> {
        let turn = Arc::clone(&self.shared.waiting).try_acquire_owned().ok()?;
        Some((self.shared.bells.hang(device), turn))
    }

    /// Keeps what a device says of itself.
    pub(crate) fn keep_log(&self, device: DeviceNo, lines: Vec<Line>) {
        let settings = self.settings();
        let (lines_max, logs_max) = (settings.device_log_lines_max, settings.device_logs_max);
        self.shared.device_logs.keep(device, lines, lines_max, logs_max);
    }

    /// What a device said of itself, the latest last.
    pub(crate) fn device_log(&self, device: DeviceNo) -> Vec<Line> {
        self.shared.device_logs.of(device)
    }

    /// Changes what can be changed while the room works.
    pub fn set_settings(&self, settings: settings::Exchange) {
        self.shared.set_settings(settings);
    }

    /// The server is about to stop: whoever waits for space in the ring is refused now.
    pub fn refuse_to_wait(&self) {
        self.shared.hurried.store(true, Ordering::Release);
        self.shared.bell.notify_one();
    }

    pub(crate) fn settings(&self) -> Arc<settings::Exchange> {
        self.shared.settings()
    }

    /// What time it is.
    pub(crate) fn wall(&self) -> Wall {
        self.clock.wall()
    }

    fn waiting(&self) -> u64 {
        self.shared.waiting_max.saturating_sub(self.shared.waiting.available_permits()) as u64
    }

    fn wall_of(&self, deadline: Steady) -> Wall {
        wall_of(deadline, self.clock.now())
    }

    async fn ask(&self, ask: Ask) -> Result<Done, RoomError> {
        let (to, answer) = oneshot::channel();
        let mailbox = if is_new(&ask) { &self.news } else { &self.mailbox };
        let question = Question::Do(Box::new(ask), Some(to));
        mailbox.send(question).await.map_err(|_| stopping())?;
        // The room took it and is gone: it may have been done.
        answer.await.map_err(|_| RoomError::Lost(Lost { outcome: Known::Unknown }))?
    }
}

/// When a steady instant is, by the operator's clock.
fn wall_of(deadline: Steady, now: Now) -> Wall {
    now.wall + deadline.since(now.steady)
}

fn stopping() -> RoomError {
    RoomError::Closed("the server is stopping".to_owned())
}

/// The room answers each question with its own kind of answer; anything else is a mistake here.
fn unexpected(reply: &Reply) -> RoomError {
    debug_assert!(false, "the room answered {reply:?}");
    RoomError::Closed("the room answered something else than was asked".to_owned())
}
