//! What the room is asked.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};

use handoff_calls::{Ask, CallId, ClientId, Reply, State};
use handoff_types::Now;
use tokio::sync::{Notify, Semaphore, oneshot};

use super::lines::Lines;
use super::waits::Waits;
use crate::rooms::RoomError;
use crate::settings;

/// Questions of each kind that wait for the room.
pub(super) const MAILBOX_MAX: usize = 4096;

/// Something on its way to the room.
pub(super) enum Question {
    /// Something that may change the state.
    Do(Box<Ask>, Asker),
    /// Several things that a client says, in their order.
    Said(ClientId, Vec<Saying>),
    /// A look at the state, which is told once all that it saw is durable.
    Look(Look),
    /// A look that is told at once: somebody may be looking because the disk does not answer.
    Glance(Look),
}

/// Something that a client says, and the call that is told if it is refused.
pub(super) type Saying = (Option<CallId>, Box<Ask>);

/// What a client says at once.
#[derive(Debug, Default)]
pub(crate) struct Sayings {
    /// What may change the order of new calls, and those.
    pub(super) in_line: Vec<Saying>,
    pub(super) others: Vec<Saying>,
}

impl Sayings {
    /// Puts something behind what was said before.
    pub(crate) fn push(&mut self, call: Option<CallId>, ask: Ask) {
        let place = if stands_in_line(&ask) { &mut self.in_line } else { &mut self.others };
        place.push((call, Box::new(ask)));
    }
}

/// Looks at the state and gives what is done once all of that is durable.
pub(super) type Look = Box<dyn FnOnce(&State, Now) -> Tell + Send>;

/// Hands over what was seen, or why it cannot be.
pub(super) type Tell = Box<dyn FnOnce(Result<(), RoomError>) + Send>;

/// Who hears what came of it.
#[derive(Debug)]
pub(super) enum Asker {
    /// Whoever waits.
    Waiting(oneshot::Sender<Result<Reply, RoomError>>),
    /// A client, over its line: notices say what came of it. If it is refused, the call it was about
    /// is told so; without one, the connection ends.
    Client(ClientId, Option<CallId>),
    /// Nobody.
    Nobody,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(ask, _) => f.debug_tuple("Do").field(ask).finish(),
            Self::Said(_, said) => f.debug_tuple("Said").field(said).finish(),
            Self::Look(_) | Self::Glance(_) => f.write_str("Look"),
        }
    }
}

/// Whether it asks for something that was not promised before, which may be refused when space is
/// short.
pub(super) fn is_new(ask: &Ask) -> bool {
    matches!(ask, Ask::Request(_) | Ask::SetChannel { .. } | Ask::Requeue { .. })
}

/// Whether it must not overtake a call that was asked for before it.
pub(super) fn stands_in_line(ask: &Ask) -> bool {
    is_new(ask) || matches!(ask, Ask::Cancel { .. })
}

/// What a question takes in the journal, about.
pub(super) fn weight(state: &State, ask: &Ask) -> usize {
    /// What is written of a call besides its bodies.
    const EACH: usize = 1024;
    /// What is taken care of at once, at most.
    const MANY: usize = handoff_calls::DUE_AT_ONCE * 256;
    let followed = |call: CallId, bytes: usize| {
        // Each of those that follow it has a copy of the answer.
        let followers = state.follower_count(call);
        (bytes + EACH) * (followers + 1)
    };
    match ask {
        Ask::Request(new) => new.params.len() + EACH,
        Ask::Respond { call, result: Ok(body), .. } => followed(*call, body.len()),
        Ask::Respond { call, result: Err(failing), .. } => {
            followed(*call, failing.error.message.len())
        }
        Ask::Cancel { call, .. } => followed(*call, 0),
        Ask::Requeue { call } => state.call(*call).map_or(0, |call| call.params.len()) + EACH,
        Ask::Tick | Ask::Purge { .. } | Ask::Init { .. } | Ask::Stop { .. } | Ask::Away { .. } => {
            MANY
        }
        // Where fencing tokens go on.
        Ask::Opened => EACH,
        _ => 0,
    }
}

/// What the room and its handles share besides the mailbox.
#[derive(Debug)]
pub(super) struct Shared {
    settings: RwLock<Arc<settings::Calls>>,
    /// Clients that are connected.
    pub(super) lines: Lines,
    /// Who waits for the end of a call.
    pub(super) waits: Arc<Waits>,
    /// How many more may wait.
    pub(super) waiting: Arc<Semaphore>,
    /// How many more may be connected.
    pub(super) connections: Arc<Semaphore>,
    /// Results that came too late.
    pub(super) late: AtomicU64,
    /// Nobody is to wait for space any more.
    pub(super) hurried: AtomicBool,
    /// Settings have changed, or the room is to hurry.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(settings: settings::Calls) -> Self {
        let permits = |many: usize| Arc::new(Semaphore::new(many.min(Semaphore::MAX_PERMITS)));
        let clients = usize::try_from(settings.clients_max).unwrap_or(usize::MAX);
        Self {
            waiting: permits(settings.waiting_max),
            connections: permits(clients),
            settings: RwLock::new(Arc::new(settings)),
            lines: Lines::default(),
            waits: Arc::default(),
            late: AtomicU64::new(0),
            hurried: AtomicBool::new(false),
            bell: Notify::new(),
        }
    }

    pub(super) fn settings(&self) -> Arc<settings::Calls> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_settings(&self, settings: settings::Calls) {
        let mut place = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
        drop(place);
        self.bell.notify_one();
    }
}
