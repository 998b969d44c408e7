//! One turn of the backlog, and what its lines and its disk have to say.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_relay::refill::{Entry, Ledger, RefillError};
use handoff_relay::session::{Message, Reason};
use handoff_relay::{BlockId, Happened, SegmentKey, Step};
use handoff_types::{Now, Span, Steady};
use tracing::{debug, error, info, warn};

use super::{Busy, Courier, Held, has_all};
use crate::core::Core;
use crate::core::links::{modest, size};
use crate::line::{Heard, LineId, tell};
use crate::metrics::{GIVEN_UP_DAMAGED, GIVEN_UP_REFUSED};
use crate::shelf::{FileId, Order};

/// How long a file that the disk failed is left alone.
const REST: Span = Span::from_secs(5);

/// How long a file is left alone that a destination refuses for good, as it is now.
const REFUSED_REST: Span = Span::from_secs(600);

impl Core {
    pub(in crate::core) fn drive_backlog(&mut self, now: Now) {
        if self.backlog.files.is_empty() || self.stopping {
            return;
        }
        let mut files = std::mem::take(&mut self.backlog.files);
        let mut served = BTreeSet::new();
        // Inside a block nothing is sent before what lies before it.
        let mut held_up = BTreeSet::new();
        let parts: Vec<BlockId> = files.keys().map(|file| file.block).collect();
        for held in files.values_mut() {
            let Held { sealed, acks, couriers, .. } = held;
            let block = sealed.file.block;
            let whole = parts.iter().filter(|part| **part == block).count() == 1
                && self.keeper.block_mut(block).is_none()
                && !self.sealing.iter().any(|one| one.file.block == block);
            for courier in couriers {
                if has_all(&sealed.ledger, acks, courier.id) {
                    self.let_go(courier, whole);
                    continue;
                }
                let waits = courier.rests_until > now.steady
                    || self.seals_before(sealed.file)
                    || self.speaks_live(block, courier.to);
                if held_up.contains(&(block, courier.to)) || waits {
                    held_up.insert((block, courier.to));
                } else if served.insert(courier.to) {
                    self.drive_courier(sealed.file, &sealed.ledger, courier, now);
                } else {
                    held_up.insert((block, courier.to));
                }
            }
            self.save(held, now.steady);
        }
        self.backlog.files = files;
        self.finish_delivered();
    }

    /// A destination that has everything of a file is left; if that was the whole block, it is told.
    fn let_go(&mut self, courier: &mut Courier, whole: bool) {
        let Some(line) = courier.line.take() else { return };
        if std::mem::take(&mut courier.open) {
            if whole {
                line.say(Message::End);
            }
            if let Some(road) = self.roads.get(courier.to) {
                road.closed();
            }
        }
        line.finish();
    }

    fn save(&self, held: &mut Held, now: Steady) {
        if held.acks == held.saved || held.saving || held.save_at > now || held.is_over() {
            return;
        }
        let (file, acks) = (held.sealed.file, held.acks.clone());
        held.saving = self.shelf.order(Order::Statuses { file, acks });
    }

    fn finish_delivered(&mut self) {
        let over = self.backlog.files.iter().filter(|(_, held)| held.is_over());
        let over: Vec<FileId> = over.map(|(file, _)| *file).collect();
        for file in over {
            if self.shelf.order(Order::Finish { file })
                && let Some(held) = self.backlog.files.remove(&file)
            {
                debug!(file = held.sealed.name, "delivered");
                self.dismiss(held);
                if self.backlog.files.is_empty() {
                    info!("everything that was on disk is delivered");
                }
            }
        }
    }

    fn drive_courier(&mut self, file: FileId, ledger: &Ledger, courier: &mut Courier, now: Now) {
        if courier.line.is_none() {
            courier.line = self.roads.line(courier.to, now.steady);
        }
        match courier.sender.tick(now.steady) {
            Some(Ok(message)) => {
                tell(courier.line.as_ref(), message);
            }
            Some(Err(Happened::Broken(why))) => {
                return self.part_courier(courier, why, Span::ZERO, now);
            }
            _ => {}
        }
        if let (None, Some(key)) = (courier.busy, courier.refused) {
            self.set_aside(file, courier, key);
        }
        while let Some(line) = courier.line.as_ref().filter(|line| line.has_room()) {
            if courier.busy.is_some() {
                return;
            }
            match courier.sender.step(ledger, now.steady) {
                Step::Say(message) => {
                    line.say(message);
                }
                Step::Read(key, entry) => {
                    let order = Order::Read { file, line: line.id, key, entry };
                    if self.shelf.order(order) {
                        courier.busy = Some(Busy::Reading);
                    }
                    return;
                }
                Step::Wait | Step::Done => return,
            }
        }
    }

    /// Takes what was heard of a line of the backlog.
    pub(in crate::core) fn heard_of_courier(&mut self, line: LineId, heard: Heard, now: Now) {
        let mut files = std::mem::take(&mut self.backlog.files);
        let found = files.values_mut().find_map(|held| {
            let mine = |one: &&mut Courier| one.line.as_ref().is_some_and(|own| own.id == line);
            let courier = held.couriers.iter_mut().find(mine)?;
            Some((held.sealed.file, &mut held.acks, courier))
        });
        if let Some((file, acks, courier)) = found {
            match heard {
                Heard::Up => {
                    let hello = courier.sender.connected(now.steady);
                    if let Some(line) = &mut courier.line {
                        line.up = true;
                        line.say(hello);
                    }
                }
                Heard::Message(message) => {
                    for one in courier.sender.received(modest(message), now.steady) {
                        if let Happened::Acked(key) = one {
                            acks.ack(key, courier.id);
                            if let Some(block) = self.keeper.block_mut(file.block) {
                                block.ack(key, courier.to, now.steady, &mut self.bench);
                            }
                        }
                        self.courier_happened(file, courier, one, now);
                    }
                }
                Heard::Taken => courier.sender.took(now.steady),
                Heard::Down(why) => self.part_courier(courier, &why, Span::ZERO, now),
            }
        }
        self.backlog.files = files;
    }

    fn courier_happened(
        &mut self,
        file: FileId,
        courier: &mut Courier,
        happened: Happened,
        now: Now,
    ) {
        let Some(road) = self.roads.get_mut(courier.to) else { return };
        match happened {
            Happened::Opened => {
                courier.open = true;
                road.opened();
            }
            Happened::Acked(_) => road.confirmed(),
            Happened::Rejected { key, reason, words } => {
                road.rejected();
                match reason {
                    Reason::Unauthorized => {
                        let why = format!("it does not take samples from this agent: {words}");
                        self.part_courier(courier, &why, Span::ZERO, now);
                    }
                    reason if reason.is_permanent() => {
                        error!(destination = %road.name, block = %file.block, %key, ?reason, words,
                            "never taken there: set aside");
                        self.set_aside(file, courier, key);
                    }
                    _ => debug!(destination = %road.name, %key, ?reason, words, "not taken yet"),
                }
            }
            Happened::Ahead(_) => {}
            Happened::Missing(segments) => road.misses(file.block, segments),
            // It is this file that it does not understand: whatever else there is goes on.
            Happened::Refused { reason, words, .. } if reason.is_permanent() => {
                error!(destination = %road.name, block = %file.block, words,
                    "a refill file is refused as it is; it is kept, and offered again later");
                courier.rests_until = now.steady + REFUSED_REST;
                self.let_go(courier, false);
                courier.sender.lost();
            }
            Happened::Refused { reason, retry_after, words } => {
                let why = format!("it refuses ({reason:?}): {words}");
                self.part_courier(courier, &why, retry_after, now);
            }
            Happened::Broken(why) => self.part_courier(courier, why, Span::ZERO, now),
        }
    }

    /// Asks for a copy of a segment that will not be delivered; then it is passed by.
    fn set_aside(&self, file: FileId, courier: &mut Courier, key: SegmentKey) {
        courier.refused = Some(key);
        let Some(line) = &courier.line else { return };
        if self.shelf.order(Order::Keep { file, line: line.id, key }) {
            courier.busy = Some(Busy::Keeping);
        }
    }

    fn part_courier(&mut self, courier: &mut Courier, why: &str, not_before: Span, now: Now) {
        if courier.line.take().is_none() {
            return;
        }
        (courier.busy, courier.refused) = (None, None);
        courier.sender.lost();
        let entropy = self.outside.roll();
        if let Some(road) = self.roads.get_mut(courier.to) {
            if std::mem::take(&mut courier.open) {
                road.closed();
            }
            road.failed(why, not_before, now, entropy);
        }
    }

    /// A piece of a file was read.
    pub(in crate::core) fn read(
        &mut self,
        file: FileId,
        line: LineId,
        (key, entry): (SegmentKey, Entry),
        bytes: Result<Bytes, RefillError>,
        now: Steady,
    ) {
        let mut files = std::mem::take(&mut self.backlog.files);
        if let Some((held, at)) = courier_of(&mut files, file, line)
            && let Some(courier) = held.couriers.get_mut(at)
        {
            courier.busy = None;
            match bytes {
                Ok(bytes) => match courier.sender.read(key, entry, &bytes) {
                    Some(message) => {
                        let (segments, bytes) = size(&message);
                        tell(courier.line.as_ref(), message);
                        if let Some(road) = self.roads.get(courier.to) {
                            road.sent(segments, bytes);
                        }
                    }
                    None => {
                        error!(%key, "larger than its destination takes: set aside");
                        self.set_aside(file, courier, key);
                    }
                },
                Err(RefillError::Damaged(_)) => {
                    error!(file = held.sealed.name, %key, "damaged on disk: passed by");
                    self.metrics.give_up(GIVEN_UP_DAMAGED, 1);
                    if let Some(skip) = courier.sender.skip(key, &held.sealed.ledger) {
                        tell(courier.line.as_ref(), skip);
                    }
                }
                Err(error) => {
                    let words = &error as &dyn std::error::Error;
                    warn!(file = held.sealed.name, %key, error = words, "cannot be read; again later");
                    courier.rests_until = now + REST;
                    self.count_failure(&error);
                }
            }
        }
        self.backlog.files = files;
    }

    /// A segment that is never taken was set aside, as far as there was room.
    pub(in crate::core) fn kept(
        &mut self,
        file: FileId,
        line: LineId,
        key: SegmentKey,
        kept: Result<bool, RefillError>,
        now: Steady,
    ) {
        let mut files = std::mem::take(&mut self.backlog.files);
        if let Some((held, at)) = courier_of(&mut files, file, line)
            && let Some(courier) = held.couriers.get_mut(at)
        {
            courier.busy = None;
            match kept {
                Ok(kept) => {
                    courier.refused = None;
                    if !kept {
                        warn!(file = held.sealed.name, %key, "the quarantine is full: no copy");
                    }
                    self.metrics.give_up(GIVEN_UP_REFUSED, 1);
                    if let Some(skip) = courier.sender.skip(key, &held.sealed.ledger) {
                        tell(courier.line.as_ref(), skip);
                    }
                }
                Err(error) => {
                    let words = &error as &dyn std::error::Error;
                    warn!(file = held.sealed.name, %key, error = words,
                        "cannot be set aside; again later");
                    courier.rests_until = now + REST;
                    self.count_failure(&error);
                }
            }
        }
        self.backlog.files = files;
    }
}

/// The courier of a file that has this line.
fn courier_of(
    files: &mut BTreeMap<FileId, Held>,
    file: FileId,
    line: LineId,
) -> Option<(&mut Held, usize)> {
    let held = files.get_mut(&file)?;
    let mine = |one: &Courier| one.line.as_ref().is_some_and(|own| own.id == line);
    let at = held.couriers.iter().position(mine)?;
    Some((held, at))
}
