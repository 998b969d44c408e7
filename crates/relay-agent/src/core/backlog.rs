//! What was not confirmed in time: sealed files, each on its way to those who lack something of it.
//!
//! A destination gets one file at a time, the oldest first, beside everything new: that is the live
//! path's. A file leaves when everybody it names has all of it, or when it is too old.

mod driving;

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_relay::refill::Ledger;
use handoff_relay::{AckStatus, BlockId, DestinationId, Name, RefillSender, SegmentKey};
use handoff_types::{Now, Span, Steady, Wall};
use tracing::{error, info};

use super::Core;
use super::roads::Roads;
use crate::line::Line;
use crate::metrics::GIVEN_UP_AGE;
use crate::shelf::{FileId, Order, Sealed};

/// How often what was confirmed is written down.
const SAVE_EVERY: Span = Span::from_secs(1);

/// What a courier waits for besides its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    /// A piece of the file.
    Reading,
    /// A copy of a segment that was refused for good.
    Keeping,
}

/// One file on its way to one destination.
struct Courier {
    to: usize,
    id: DestinationId,
    sender: RefillSender,
    line: Option<Line>,
    open: bool,
    busy: Option<Busy>,
    /// A segment that is refused for good and of which no copy is kept yet.
    refused: Option<SegmentKey>,
    /// The disk failed it: not before then.
    rests_until: Steady,
}

/// One file.
struct Held {
    sealed: Sealed,
    acks: AckStatus,
    /// What the file says was confirmed.
    saved: AckStatus,
    saving: bool,
    save_at: Steady,
    couriers: Vec<Courier>,
}

impl Held {
    /// Whether a destination lacks something of it.
    fn owes(&self, to: usize) -> bool {
        let mine = self.couriers.iter().find(|courier| courier.to == to);
        mine.is_some_and(|one| !has_all(&self.sealed.ledger, &self.acks, one.id))
    }
}

/// Every file that is not delivered, the oldest first.
#[derive(Default)]
pub(super) struct Backlog {
    files: BTreeMap<FileId, Held>,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// A file is sealed.
    pub(super) fn add(&mut self, sealed: Sealed, agent: &Name, roads: &Roads) {
        let ledger = &sealed.ledger;
        let couriers = roads.iter().filter_map(|(to, road)| {
            let (name, token) = (&road.name, road.token.clone());
            let sender = RefillSender::new(ledger, agent.clone(), name, token)?;
            let id = sender.destination();
            let (refused, rests_until) = (None, Steady(0));
            Some(Courier {
                to,
                id,
                sender,
                line: None,
                open: false,
                busy: None,
                refused,
                rests_until,
            })
        });
        let couriers: Vec<Courier> = couriers.collect();
        let acks = ledger.acks().clone();
        info!(file = sealed.name, bytes = sealed.bytes, "to be delivered from disk");
        let held =
            Held { saved: acks.clone(), acks, saving: false, save_at: Steady(0), couriers, sealed };
        self.files.insert(held.sealed.file, held);
    }

    /// Whether a destination lacks something of a block that is in a file.
    pub(super) fn owes(&self, block: BlockId, to: usize) -> bool {
        let files = self.files.values().filter(|held| held.sealed.file.block == block);
        files.into_iter().any(|held| held.owes(to))
    }

    /// When the oldest file was begun of which a destination lacks something.
    pub(super) fn owed_since(&self, to: usize) -> Option<Wall> {
        let owed = self.files.iter().find(|(_, held)| held.owes(to));
        owed.map(|(file, _)| file.begun())
    }

    /// A destination confirmed a segment, and all before it, that may be in a file too.
    pub(super) fn confirmed(&mut self, block: BlockId, to: usize, key: SegmentKey) {
        for held in self.files.values_mut().filter(|held| held.sealed.file.block == block) {
            if let Some(one) = held.couriers.iter().find(|courier| courier.to == to) {
                held.acks.ack(key, one.id);
            }
        }
    }

    /// What was confirmed is written down, or could not be.
    pub(super) fn saved(&mut self, file: FileId, acks: Option<AckStatus>, now: Steady) {
        if let Some(held) = self.files.get_mut(&file) {
            held.saving = false;
            held.save_at = now + SAVE_EVERY;
            if let Some(acks) = acks {
                held.saved = acks;
            }
        }
    }

    /// What was confirmed and is not written down.
    pub(super) fn unsaved(&self) -> Vec<(FileId, AckStatus)> {
        let unsaved = self.files.values().filter(|held| held.acks != held.saved);
        unsaved.map(|held| (held.sealed.file, held.acks.clone())).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Steady> {
        let couriers = self.files.values().flat_map(|held| &held.couriers);
        let lines = couriers.filter(|courier| courier.line.is_some());
        let saves = self.files.values().filter(|held| held.acks != held.saved && !held.saving);
        let saves = saves.map(|held| held.save_at);
        lines.filter_map(|courier| courier.sender.next_deadline()).chain(saves).min()
    }
}

impl Held {
    /// Whether everybody it names has all of it. Who is not configured any more has what it has.
    fn is_over(&self) -> bool {
        let everybody = 0..self.acks.names().len();
        everybody.into_iter().all(|id| has_all(&self.sealed.ledger, &self.acks, id))
    }
}

/// Whether a destination has everything of a file that can be sent.
fn has_all(ledger: &Arc<Ledger>, acks: &AckStatus, id: DestinationId) -> bool {
    let left = |shard| ledger.next_after(shard, acks.last(shard, id)).is_some();
    !acks.shards().ids().any(left)
}

impl Core {
    /// Files that nobody will ask for any more.
    pub(super) fn give_up_old_files(&mut self, now: Now) {
        let age_max = self.spool_age_max;
        let old = |held: &Held| now.wall.since(held.sealed.file.begun()) > age_max;
        let old: Vec<FileId> = self
            .backlog
            .files
            .iter()
            .filter(|(_, held)| old(held))
            .map(|(file, _)| *file)
            .collect();
        for file in old {
            let Some(held) = self.backlog.files.get(&file) else { continue };
            if !self.shelf.order(Order::GiveUp { file }) {
                return;
            }
            error!(
                file = held.sealed.name,
                bytes = held.sealed.bytes,
                "older than relay.spool_age_max: given up"
            );
            self.metrics.give_up(GIVEN_UP_AGE, 1);
            if let Some(held) = self.backlog.files.remove(&file) {
                self.dismiss(held);
            }
        }
    }

    fn dismiss(&self, held: Held) {
        for courier in held.couriers {
            if let (true, Some(road)) = (courier.open, self.roads.get(courier.to)) {
                road.closed();
            }
            if let Some(line) = courier.line {
                line.finish();
            }
        }
    }
}
