//! What the room is asked.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use handoff_exchange::{
    Admin, Aggregate, Ask, DeviceNo, EntityId, Handed, Key, NewMessage, Process, Reply, State,
    Status, Step, Verdict,
};
use handoff_store_embedded::folders::{Compared, Filed, Orders};
use handoff_types::Now;
use tokio::sync::{Notify, Semaphore, oneshot};

use super::bells::Bells;
use super::device_logs::DeviceLogs;
use super::directory::Directory;
use super::looking::Looking;
use super::toil::Toil;
use super::tries::Tries;
use crate::rooms::RoomError;
use crate::settings;

/// Questions of each kind that wait for the room.
pub(super) const MAILBOX_MAX: usize = 1024;

/// Something on its way to the room.
pub(super) enum Question {
    /// Something that may change the state.
    Do(Box<Ask>, Option<Asker>),
    /// A look at the state, which is told once all that it saw is durable.
    Look(Look),
    /// A look that is told at once: somebody may be looking because the disk does not answer.
    Glance(Look),
    /// A file that somebody put into a folder.
    TakeIn(Box<Offered>),
}

/// A file that somebody put into a folder, and what it says.
#[derive(Debug)]
pub(super) struct Offered {
    /// Where it is.
    pub(super) path: String,
    /// In whose folder.
    pub(super) database: EntityId,
    /// Whose message it would be.
    pub(super) device: EntityId,
    /// The message.
    pub(super) message: NewMessage,
}

/// Looks at the state and gives what is done once all of that is durable.
pub(super) type Look = Box<dyn FnOnce(&State, Now) -> Tell + Send>;

/// Hands over what was seen, or why it cannot be.
pub(super) type Tell = Box<dyn FnOnce(Result<(), RoomError>) + Send>;

/// Where an answer goes.
pub(super) type Asker = oneshot::Sender<Result<Done, RoomError>>;

/// What was decided, and what is needed besides.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) reply: Reply,
    /// The messages of a process that was begun, and where their bodies are.
    pub(crate) handed: Vec<(Handed, Filed)>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(ask, _) => f.debug_tuple("Do").field(ask).finish(),
            Self::Look(_) | Self::Glance(_) => f.write_str("Look"),
            Self::TakeIn(offered) => f.debug_tuple("TakeIn").field(&offered.path).finish(),
        }
    }
}

/// Whether it asks for something that was not promised before, which may be refused when space is
/// short.
pub(super) fn is_new(ask: &Ask) -> bool {
    match ask {
        Ask::Post { .. } | Ask::TakeIn { .. } => true,
        // Verdicts alone bring nothing new, whoever is told of them.
        Ask::Process { step: Step::Prepare { messages, .. }, .. } => !messages.is_empty(),
        Ask::Admin(admin) => matches!(
            admin,
            Admin::PutCompany { .. }
                | Admin::PutSubsystem { .. }
                | Admin::PutDatabase { .. }
                | Admin::PutDevice { .. }
                | Admin::PutRoute { .. }
        ),
        _ => false,
    }
}

/// What bodies and words of a question take in the journal, about.
pub(super) fn weight(state: &State, ask: &Ask) -> usize {
    /// What is written of a message besides its body, and of a process besides its messages.
    const EACH: usize = 512;
    let one = |message: &NewMessage| message.payload.len() + EACH;
    let of_process = |process: &Process| (process.to_erp.len() + process.from_erp.len() + 2) * EACH;
    match ask {
        Ask::Post { messages, .. } => messages.iter().map(one).sum(),
        Ask::TakeIn { message, .. } => one(message),
        Ask::Process { database, id, step } => {
            let process = state.process(*database, *id).map_or(0, of_process);
            let step = match step {
                Step::Prepare { verdicts, messages, .. } => {
                    let words = |one: &Verdict| one.error.as_deref().map_or(0, str::len);
                    // In the log and with the process, and in what a device may be told.
                    let said = verdicts.iter().map(|one| match one.status {
                        Status::Incorrect => 2 * EACH + words(one).min(1024) * 3,
                        _ => EACH + words(one).min(1024) * 2,
                    });
                    let bodies = messages.iter().map(|reply| one(&reply.message));
                    said.sum::<usize>() + bodies.sum::<usize>()
                }
                _ => 0,
            };
            process + step
        }
        Ask::Resolve { database, outcomes } => {
            let found = outcomes.iter().filter_map(|one| state.process(*database, one.id));
            found.map(of_process).sum()
        }
        Ask::Ack { ids, .. } => ids.len() * EACH,
        Ask::Requeue { messages, .. } => messages.len() * EACH,
        Ask::Retain { many } => usize::try_from(*many).unwrap_or(usize::MAX).saturating_mul(64),
        // A process that is given up has a line in the log and moves its messages; the first ones
        // are given up, and those that nobody decided have a line each.
        Ask::Tick => {
            let due = state.deadlines().take(handoff_exchange::EXPIRED_AT_ONCE);
            due.map(|(_, process)| 4 * EACH + of_process(process) / 4).sum()
        }
        Ask::Opened | Ask::Remind => {
            let undecided = state.databases().flat_map(|one| state.unknown(one.no));
            let undecided = undecided.take(handoff_exchange::REMINDED_AT_ONCE).count();
            (undecided + state.deadlines().count()) * 4 * EACH
        }
        Ask::Begin { .. } => 64 << 10,
        _ => 0,
    }
}

/// An entity that is other than it was, for the directory.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) key: Key,
    /// None if it is gone.
    pub(super) now: Option<Aggregate>,
}

/// What the room and its handles share besides the mailbox.
#[derive(Debug)]
pub(super) struct Shared {
    settings: RwLock<Arc<settings::Exchange>>,
    /// Entities, as far as they are durable.
    pub(super) directory: RwLock<Directory>,
    /// Who waits for messages.
    pub(super) bells: Arc<Bells>,
    /// How many more may.
    pub(super) waiting: Arc<Semaphore>,
    /// How many might in the beginning.
    pub(super) waiting_max: usize,
    /// Wrong codes.
    pub(super) tries: Tries,
    /// What devices say of themselves.
    pub(super) device_logs: DeviceLogs,
    /// The folders.
    pub(super) orders: Orders,
    /// What the last comparison of the folders found.
    compared: Mutex<Option<Arc<Compared>>>,
    /// Files cannot be written for the moment.
    pub(super) files_stuck: AtomicBool,
    /// Because there is no space.
    pub(super) files_full: AtomicBool,
    /// The list of processes cannot be written for the moment.
    pub(super) list_stuck: AtomicBool,
    /// When the folders are looked at for files that people put there.
    pub(super) looking: Looking,
    /// How long files were worked on.
    pub(super) toil: Toil,
    /// How far the folders are behind, in microseconds.
    pub(super) behind: AtomicU64,
    /// Grows whenever a process may be other than it was.
    pub(super) turns: AtomicU64,
    /// Nobody is to wait for space any more.
    pub(super) hurried: AtomicBool,
    /// Settings have changed, or the room is to hurry.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(settings: settings::Exchange, directory: Directory, orders: Orders) -> Self {
        let waiting = settings.waiting_max.min(Semaphore::MAX_PERMITS);
        Self {
            settings: RwLock::new(Arc::new(settings)),
            directory: RwLock::new(directory),
            bells: Arc::default(),
            waiting: Arc::new(Semaphore::new(waiting)),
            waiting_max: waiting,
            tries: Tries::default(),
            device_logs: DeviceLogs::default(),
            orders,
            compared: Mutex::default(),
            files_stuck: AtomicBool::new(false),
            files_full: AtomicBool::new(false),
            list_stuck: AtomicBool::new(false),
            looking: Looking::default(),
            toil: Toil::default(),
            behind: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            hurried: AtomicBool::new(false),
            bell: Notify::new(),
        }
    }

    pub(super) fn settings(&self) -> Arc<settings::Exchange> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_settings(&self, settings: settings::Exchange) {
        let mut place = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
        drop(place);
        self.bell.notify_one();
    }

    /// Looks at the entities.
    pub(super) fn with_directory<T>(&self, look: impl FnOnce(&Directory) -> T) -> T {
        look(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn show(&self, shown: Vec<Shown>) {
        if shown.is_empty() {
            return;
        }
        let mut directory = self.directory.write().unwrap_or_else(PoisonError::into_inner);
        let devices = shown.iter().filter_map(|one| match one.key {
            Key::Device(no) => Some(no),
            _ => None,
        });
        let devices: Vec<DeviceNo> = devices.collect();
        shown.into_iter().for_each(|one| directory.show(one));
        drop(directory);
        // Whoever waits may not be let in any more.
        devices.into_iter().for_each(|device| self.ring(device));
    }

    /// Whoever waits for messages of a device looks again.
    pub(super) fn ring(&self, device: DeviceNo) {
        self.bells.ring(device);
    }

    pub(super) fn compared(&self) -> MutexGuard<'_, Option<Arc<Compared>>> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
