//! What the folders are to do, from whoever has it done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use handoff_exchange::{Action, Seq, Spot, State};

use super::comparing::Scope;
use super::known::{Filed, filed};
use crate::books::{OnTheWay, Shared};

/// How many orders are kept. What comes beyond is found by comparing the folders.
const ORDERS_MAX: usize = 65_536;

/// Gives orders to the folders, from any thread. Does not wait for a disk, and keeps no journal open:
/// when the folders are gone nobody follows.
#[derive(Clone, Debug)]
pub struct Orders {
    pub(super) desk: Arc<Desk>,
    pub(super) shared: Weak<Shared>,
}

/// How far the folders are behind the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Bytes of bodies that only the journal has for sure. Those that an earlier process took in
    /// count as none.
    pub bytes: u64,
    /// Bodies that only the journal has for sure.
    pub bodies: usize,
    /// Of those, how many have no file at all; the others wait for the next sync.
    pub unwritten: usize,
    /// How many files of bodies were written so far, each time counted.
    pub written: u64,
    /// Files that are to be moved or removed.
    pub orders: usize,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Puts the file of a message where it belongs, which is asked for when it is done.
    Right { seq: Seq, from: Option<Spot>, process: Option<u64> },
    /// Removes the file of a message that is gone.
    Remove { was: Box<Filed>, process: Option<u64> },
    /// Removes a file that somebody put there and that was taken in.
    Discard { path: String },
}

impl Order {
    pub(super) fn process(&self) -> Option<u64> {
        match self {
            Self::Right { process, .. } | Self::Remove { process, .. } => *process,
            Self::Discard { .. } => None,
        }
    }
}

/// Where orders lie until they are taken.
#[derive(Debug, Default)]
pub(super) struct Desk {
    inbox: Mutex<Inbox>,
    /// Moves of files that have begun and that are over, in sum: odd while one is under way.
    moves: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) orders: VecDeque<Order>,
    /// Processes that are to be settled when what they ordered is done, and which of their decisions
    /// that settles.
    pub(super) settle: BTreeMap<u64, u8>,
    /// Processes of which an order was dropped.
    pub(super) dropped: BTreeSet<u64>,
    /// The folders are to be compared.
    pub(super) compare: Option<Scope>,
    /// Files that were offered and not taken in.
    pub(super) refused: Vec<String>,
    /// Orders that were taken from here and are not done.
    pub(super) taken: usize,
}

impl Desk {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a file is being moved, until what this gives is dropped. There is one mover.
    pub(super) fn moving(self: &Arc<Self>) -> Moving {
        self.moves.fetch_add(1, Ordering::AcqRel);
        Moving(Arc::clone(self))
    }

    /// Whoever looks for a file looks again unless this is the same afterwards and no move was under
    /// way: a file that goes from one folder to another may be seen in neither.
    pub(super) fn calm(&self) -> Option<u64> {
        let moves = self.moves.load(Ordering::Acquire);
        moves.is_multiple_of(2).then_some(moves)
    }
}

/// A move that is under way.
#[derive(Debug)]
pub(super) struct Moving(Arc<Desk>);

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.moves.fetch_add(1, Ordering::AcqRel);
    }
}

impl Inbox {
    fn put(&mut self, order: Order) {
        if self.orders.len() + self.taken < ORDERS_MAX {
            self.orders.push_back(order);
        } else {
            self.dropped.extend(order.process());
            self.compare = Some(Scope::All);
        }
    }
}

impl Orders {
    /// Takes what the actions of a decision say of files, once its changes are durable, in the order
    /// of the decisions. Other actions are passed over. The state may have gone on since.
    pub fn take(&self, state: &State, actions: &[Action]) {
        let mut inbox = self.desk.lock();
        let mut any = false;
        for action in actions {
            any |= match action {
                Action::Move { seq, from, to: None, gone, process, .. } => {
                    let was = gone.as_deref().and_then(|message| filed(state, *seq, message));
                    if let Some(mut was) = was {
                        was.spot = *from;
                        inbox.put(Order::Remove { was: Box::new(was), process: *process });
                    }
                    true
                }
                Action::Move { seq, from, process, .. } => {
                    inbox.put(Order::Right { seq: *seq, from: Some(*from), process: *process });
                    true
                }
                Action::Settle { number, round } => {
                    let settled = inbox.settle.entry(*number).or_default();
                    *settled = (*settled).max(*round);
                    true
                }
                _ => false,
            };
        }
        drop(inbox);
        if any {
            self.hail();
        }
    }

    /// Has all folders compared with the state, beside other work and in small pieces. One that is
    /// under way goes on to its end first.
    pub fn compare(&self) {
        self.desk.lock().compare = Some(Scope::All);
        self.hail();
    }

    /// Has the names in Messages looked at, for files that somebody put there. Costs little more than
    /// a listing.
    pub fn look(&self) {
        let mut inbox = self.desk.lock();
        inbox.compare = inbox.compare.max(Some(Scope::New));
        drop(inbox);
        self.hail();
    }

    /// A file that was offered by [`super::Report::TakeIn`] is a message by now, durably: it is removed.
    pub fn taken_in(&self, path: &str) {
        self.desk.lock().put(Order::Discard { path: path.to_owned() });
        self.hail();
    }

    /// A file that was offered is not taken in: it stays, is foreign, and is offered again by a later
    /// comparison.
    pub fn not_taken_in(&self, path: &str) {
        self.desk.lock().refused.push(path.to_owned());
        self.hail();
    }

    /// How far the folders are behind the room.
    #[must_use]
    pub fn behind(&self) -> Behind {
        let inbox = self.desk.lock();
        let orders = inbox.orders.len() + inbox.taken;
        drop(inbox);
        let Some(shared) = self.shared.upgrade() else {
            return Behind { orders, ..Behind::default() };
        };
        let OnTheWay { bytes, bodies, uncopied, copied_ever } = shared.on_the_way();
        Behind { bytes, bodies, unwritten: uncopied, written: copied_ever, orders }
    }

    /// Has whoever keeps the folders look at the desk.
    fn hail(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.hail();
        }
    }

    /// From now on [`super::Folders::wait`] says `Closing`. Does not wait.
    pub fn close(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.close();
        }
    }
}
