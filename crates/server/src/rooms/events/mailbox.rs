//! What the room is asked, and by whom.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};

use handoff_events::{
    EventView, Filter, Id, LetterView, Letters, Registered, Registration, Selection,
};
use handoff_types::Sight;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::PollSender;

use super::outbox::Outbox;
use super::{RoomError, Stats};
use crate::settings;

/// Questions that wait for the room.
pub(super) const MAILBOX_MAX: usize = 1024;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// Begin the session of the outbox.
    Open(Sight),
    /// A new event.
    Register(Registration, Sight),
    /// Remove events, as many as the room removes at once.
    Delete(Selection, Sight),
    /// Which events are there?
    List(Listing),
    /// The same, with all that is known of them.
    Page(Listing),
    /// One event.
    View(i32, Sight),
    /// Which letters are dead?
    DeadLetters { sight: Sight, from: u64, limit: usize },
    /// Hand them over again, as many as the room does at once.
    RetryLetters(Letters, Sight),
    /// Forget them, likewise.
    DeleteLetters(Letters, Sight),
    /// How is the room?
    Stats,
    /// Add to the session's filter.
    Subscribe(Selection),
    /// Take from it.
    Unsubscribe(Selection),
    /// Replace it.
    Replace(Selection),
    /// Every event in sight.
    Everything,
    /// What is it?
    Filter,
}

/// Which events, from where, and how many the asker can take. The room gives fewer if that would
/// keep it too long.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// None: all.
    pub(crate) types: Option<Arc<[String]>>,
    /// Whose.
    pub(crate) sight: Sight,
    /// The first id.
    pub(crate) from: Id,
    /// How many at most.
    pub(crate) limit: usize,
}

/// The answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Done; nothing else to say.
    Done,
    /// To a registration.
    Registered(Registered),
    /// To a deletion: what is gone, ascending, and whether the same question would remove more.
    Deleted { ids: Vec<Id>, more: bool },
    /// To a list: a piece of it, the id to go on from, and the first id that was not there yet
    /// when this was answered.
    Ids { ids: Vec<Id>, next: Option<Id>, new: Option<Id> },
    /// To a page: likewise.
    Views { views: Vec<EventView>, next: Option<Id> },
    /// One event.
    View(Box<EventView>),
    /// Dead letters.
    DeadLetters(Vec<LetterView>),
    /// To what was done with dead letters: which, ascending, and whether the same question would do
    /// more.
    Letters { numbers: Vec<u64>, more: bool },
    /// A filter.
    Filter(Box<Filter>),
    /// How the room is.
    Stats(Box<Stats>),
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) question: Question,
    /// Whose session it is about.
    pub(super) session: Option<Arc<Outbox>>,
    pub(super) to: Asker,
}

/// Where the answer goes.
#[derive(Debug)]
pub(super) enum Asker {
    /// Into the session's line, behind what was released before.
    Line(Arc<Outbox>),
    /// To whoever waits for it.
    Waiting(oneshot::Sender<Result<Reply, RoomError>>),
}

/// What the room and its handles share besides the mailbox.
#[derive(Debug)]
pub(super) struct Shared {
    leaving: Mutex<Vec<Arc<Outbox>>>,
    settings: RwLock<Arc<settings::Events>>,
    /// How many events there are, as of the room's last turn.
    pub(super) events: AtomicUsize,
    /// Sessions that were ended because they did not read.
    pub(super) slow: AtomicU64,
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(settings: settings::Events) -> Self {
        Self {
            leaving: Mutex::default(),
            settings: RwLock::new(Arc::new(settings)),
            events: AtomicUsize::new(0),
            slow: AtomicU64::new(0),
            bell: Notify::new(),
        }
    }

    /// A session has ended. There is never more of this than there are sessions.
    pub(super) fn leave(&self, outbox: Arc<Outbox>) {
        outbox.leave();
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(outbox);
        self.bell.notify_one();
    }

    /// Sessions that have ended since somebody looked.
    pub(super) fn left(&self) -> Vec<Arc<Outbox>> {
        std::mem::take(&mut *self.leaving.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn settings(&self) -> Arc<settings::Events> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_settings(&self, settings: settings::Events) {
        let mut place = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
        drop(place);
        self.bell.notify_one();
    }
}

/// A session that asks without waiting: questions go in, answers and notifications come out of one
/// line, in order. Dropped, the session ends.
pub(crate) struct Pipe {
    sender: PollSender<Ask>,
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
}

impl Pipe {
    pub(super) fn new(sender: mpsc::Sender<Ask>, shared: Arc<Shared>) -> Self {
        let outbox = Outbox::new(shared.settings().session_queue_bytes_max);
        Self { sender: PollSender::new(sender), shared, outbox }
    }

    /// Waits until the room can take a question. Then one must be asked, soon: the place is kept.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RoomError>> {
        self.sender.poll_reserve(context).map_err(|_| stopping())
    }

    /// Asks, after [`Self::poll_ready`]. The answer comes out of the line.
    pub(crate) fn ask(&mut self, question: Question) -> Result<(), RoomError> {
        let session = Some(Arc::clone(&self.outbox));
        let to = Asker::Line(Arc::clone(&self.outbox));
        self.sender.send_item(Ask { question, session, to }).map_err(|_| stopping())
    }

    /// What comes out.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.shared.leave(Arc::clone(&self.outbox));
    }
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}

pub(super) fn stopping() -> RoomError {
    RoomError::Closed("the server is stopping".to_owned())
}
