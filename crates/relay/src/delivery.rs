//! One block on its way: encoders, the exchange, and what goes to the refill file.
//!
//! ```text
//!  send ──▶ Encoder ──encode──▶ Exchange ──get──▶ Sender ──▶ destination
//!              │ shard by shard    │ ack: leaves          │
//!              ▼                   ▼ reject, window       ▼ ack · reject
//!           Trailing ──snapshot─▶ Spooling ──▶ refill file
//! ```
//!
//! It performs nothing. [`DeliveryManager::spooling`] says what is to be written; the shell writes it
//! and says [`DeliveryManager::spooled`] or nothing at all, and then the same is asked for again.

mod rules;
mod spooling;

pub use rules::{BadRules, DeliveryRules};
pub use spooling::Spooling;

use bytes::Bytes;
use handoff_types::{Now, Steady};
use thiserror::Error;

use crate::ack::{AckStatus, DestinationId};
use crate::batch::Batch;
use crate::codec::{AddError, Encoder, Trailing, Workbench};
use crate::exchange::{Exchange, Got, Left};
use crate::key::{BlockId, SegmentKey, ShardId};
use crate::promise::{Mode, Outcome, Promises, Settled, Ticket};
use crate::refill::Rejected;
use crate::sharder::Sharder;

/// Why samples are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Neither memory nor disk has room: again later.
    #[error("the relay is full")]
    Full,
    /// The block knows as many series as it may, or is closed: again in the next block.
    #[error("the block is full")]
    BlockFull,
    /// They would not fit into any segment.
    #[error("the batch does not fit into one segment")]
    TooLarge,
}

/// What is kept for a shard.
#[derive(Debug)]
struct ShardLane {
    encoder: Encoder,
    trailing: Trailing,
    /// When the oldest sample that waits for its segment came, and whether somebody waits for it.
    since: Option<Steady>,
    awaited: bool,
    file: spooling::InFile,
}

/// One block of one agent, from samples to confirmations.
#[derive(Debug)]
pub struct DeliveryManager {
    rules: DeliveryRules,
    block: BlockId,
    begun: Now,
    lanes: Vec<ShardLane>,
    exchange: Exchange,
    promises: Promises,
    acks: AckStatus,
    /// What the file says was confirmed.
    written: AckStatus,
    rejects: Vec<Rejected>,
    /// Who gets the block under another name: every file of it says so.
    renamed: Vec<Rejected>,
    ended: Vec<(Ticket, Outcome)>,
    encoded_bytes: u64,
    spool_full: bool,
    closed: bool,
    ahead: bool,
    /// Somebody is here who could have more of the next block than of this one.
    stranded: bool,
}

impl DeliveryManager {
    /// A new block.
    #[must_use]
    pub fn new(rules: DeliveryRules, block: BlockId, now: Now) -> Self {
        Self::without(0, rules, block, now)
    }

    /// A new block that does not wait for these destinations, a bit for each: they are gone, and what
    /// is for them goes to the file at once.
    #[must_use]
    pub fn without(parted: u64, rules: DeliveryRules, block: BlockId, now: Now) -> Self {
        let lane = |shard| ShardLane {
            encoder: Encoder::new(block, shard, rules.codec),
            trailing: Trailing::new(block, shard),
            since: None,
            awaited: false,
            file: spooling::InFile::default(),
        };
        let lanes = rules.shards.ids().map(lane).collect();
        let acks = AckStatus::new(rules.destinations.iter().cloned(), rules.shards);
        let exchange = Exchange::without(parted, rules.exchange, acks.names().len(), rules.shards);
        Self {
            rules,
            block,
            begun: now,
            exchange,
            lanes,
            promises: Promises::default(),
            written: acks.clone(),
            acks,
            rejects: Vec::new(),
            renamed: Vec::new(),
            ended: Vec::new(),
            encoded_bytes: 0,
            spool_full: false,
            closed: false,
            ahead: false,
            stranded: false,
        }
    }

    /// The block.
    #[must_use]
    pub const fn block(&self) -> BlockId {
        self.block
    }

    /// When it was begun.
    #[must_use]
    pub const fn begun(&self) -> Now {
        self.begun
    }

    /// What was confirmed.
    #[must_use]
    pub const fn acks(&self) -> &AckStatus {
        &self.acks
    }

    /// Bytes of segments in memory.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.exchange.bytes()
    }

    /// The last segment of a shard that exists.
    #[must_use]
    pub fn encoded(&self, shard: ShardId) -> Option<u32> {
        self.lanes.get(usize::from(shard))?.encoder.last_encoded()
    }

    /// When the oldest segment was made that a destination has not confirmed; of one that is in the file
    /// alone it is only known that it was not before the block began.
    #[must_use]
    pub fn unconfirmed_since(&self, destination: DestinationId) -> Option<Steady> {
        let of = |(shard, lane): (ShardId, &ShardLane)| {
            let last = lane.encoder.last_encoded()?;
            let next = self.acks.last(shard, destination).map_or(0, |last| last + 1);
            let key = SegmentKey { shard, segment: next };
            (next <= last).then(|| self.exchange.since(key).unwrap_or(self.begun.steady))
        };
        (0..).zip(&self.lanes).filter_map(of).min()
    }

    /// Whether another block should take over: this one is large or old enough, or a shard of it has
    /// left the live path. One that began without somebody goes on until that one, or another who
    /// cannot go on here, is there for the next: but not for less than the window.
    #[must_use]
    pub fn is_due(&self, now: Steady) -> bool {
        let age = now.since(self.begun.steady);
        let left = match self.exchange.is_parted() {
            true => self.stranded && age >= self.rules.exchange.window,
            false => self.exchange.has_left(),
        };
        self.encoded_bytes >= self.rules.block_bytes_max
            || age >= self.rules.block_age_max
            || left
            || self.ahead
    }

    /// A destination that talks to us cannot go on with this block: what it needs is in the file. It
    /// could with the next.
    pub const fn strand(&mut self) {
        self.stranded = true;
    }

    /// Whether nothing is left to do for it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let idle = self.lanes.iter().all(|lane| lane.encoder.is_idle());
        idle && self.exchange.is_empty() && !self.owes_file_a_name()
    }

    /// Takes a batch, all of it or nothing.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(
        &mut self,
        batch: &Batch,
        mode: Mode,
        now: Steady,
        bench: &mut Workbench,
    ) -> Result<(Ticket, Option<Outcome>), SendError> {
        if self.closed {
            return Err(SendError::BlockFull);
        }
        if !self.exchange.has_room()
            || self.spool_full
            || self.promises.len() >= self.rules.tickets_max
        {
            return Err(SendError::Full);
        }
        let sharded = Sharder::new(self.rules.shards).shard(batch);
        let mine = || self.rules.shards.ids().filter(|shard| !sharded.is_empty_for(*shard));
        let mut crowded = Vec::new();
        for shard in mine() {
            let Some(lane) = self.lanes.get(usize::from(shard)) else { continue };
            match lane.encoder.check(&sharded) {
                Ok(()) => {}
                Err(AddError::SegmentFull) => crowded.push(shard),
                Err(AddError::BlockFull) => return Err(SendError::BlockFull),
                Err(AddError::TooLarge) => return Err(SendError::TooLarge),
            }
        }
        let shards: Vec<ShardId> = mine().collect();
        for shard in crowded {
            self.encode(shard, now, bench);
        }
        let mut keys = Vec::with_capacity(shards.len());
        for shard in &shards {
            let Some(lane) = self.lanes.get_mut(usize::from(*shard)) else { continue };
            let added = lane.encoder.add(&sharded);
            debug_assert_eq!(added, Ok(()), "what was checked is taken");
            lane.since.get_or_insert(now);
            lane.awaited |= mode != Mode::Memory;
            keys.push(SegmentKey { shard: *shard, segment: lane.encoder.next_segment() });
        }
        let given = self.promises.give(mode, &keys, now + self.rules.promise_max);
        for shard in shards {
            let full = self.lanes.get(usize::from(shard)).is_some_and(|lane| {
                lane.encoder.waiting_samples() >= self.rules.segment_samples
                    || lane.encoder.waiting_bytes() >= self.rules.segment_waiting_bytes
            });
            if full {
                self.encode(shard, now, bench);
            }
        }
        Ok(given)
    }

    /// Closes the segment of a shard over all that waits.
    fn encode(&mut self, shard: ShardId, now: Steady, bench: &mut Workbench) {
        let Some(lane) = self.lanes.get_mut(usize::from(shard)) else { return };
        lane.since = None;
        lane.awaited = false;
        let Some(segment) = lane.encoder.encode(bench) else { return };
        self.encoded_bytes += segment.bytes.len() as u64;
        let put = self.exchange.put(segment.key, segment.bytes, now);
        debug_assert_eq!(put, Ok(()), "the encoder numbers its segments");
        if self.acks.names().is_empty() {
            let left = self.exchange.remove(&[segment.key]);
            self.left(&left, Settled::Delivered, bench);
        }
    }

    /// Lets time pass: closes segments that waited long enough, and ends promises that did.
    pub fn tick(&mut self, now: Steady, bench: &mut Workbench) {
        for shard in self.rules.shards.ids() {
            if self.closes_at(shard).is_some_and(|at| at <= now) {
                self.encode(shard, now, bench);
            }
        }
        self.ended.extend(self.promises.expire(now));
        let left = self.exchange.expire(now);
        self.left(&left, Settled::Spooled, bench);
    }

    fn closes_at(&self, shard: ShardId) -> Option<Steady> {
        let lane = self.lanes.get(usize::from(shard))?;
        let linger = if lane.awaited { self.rules.linger_awaited } else { self.rules.linger };
        lane.since.map(|since| since + linger)
    }

    /// Promises that have ended since this was asked last.
    pub fn take_ended(&mut self) -> Vec<(Ticket, Outcome)> {
        std::mem::take(&mut self.ended)
    }

    /// Looks for a segment to send. What is gone is in the refill file.
    #[must_use]
    pub fn get(&self, key: SegmentKey) -> Got {
        self.exchange.get(key)
    }

    /// What a decoder needs to continue with the oldest segment of a shard that is still here, and
    /// its number. The receiver gives out nothing of what it has already.
    #[must_use]
    pub fn restore(&self, shard: ShardId, bench: &mut Workbench) -> Option<(SegmentKey, Bytes)> {
        let lane = self.lanes.get(usize::from(shard))?;
        let segment = lane.trailing.next_segment();
        let key = SegmentKey { shard, segment };
        match segment {
            0 => Some((key, Bytes::new())),
            _ => Some((key, lane.trailing.key_frame(&lane.encoder, bench))),
        }
    }

    /// A destination has a segment and all before it.
    pub fn ack(
        &mut self,
        key: SegmentKey,
        destination: DestinationId,
        now: Steady,
        bench: &mut Workbench,
    ) {
        // First in memory: the refill loop writes what it knows before it takes segments out.
        if self.encoded(key.shard) < Some(key.segment) || !self.acks.ack(key, destination) {
            return;
        }
        let left = self.exchange.ack(key, destination, now);
        self.left(&left, Settled::Delivered, bench);
    }

    /// A destination did not take a segment: its shard leaves the live path, and the block closes.
    pub fn reject(&mut self, key: SegmentKey, destination: DestinationId, now: Steady) {
        self.exchange.reject(key, destination, now);
        if let Ok(destination) = u32::try_from(destination)
            && self.rejects.len() < spooling::REJECTS_KEPT
        {
            self.rejects.push(Rejected { destination, key });
        }
    }

    /// The connection to a destination broke with these segments unconfirmed: they are rejected
    /// unless a confirmation comes within the window.
    pub fn doubt(&mut self, keys: &[SegmentKey], destination: DestinationId, now: Steady) {
        for key in keys {
            self.exchange.reject(*key, destination, now + self.rules.exchange.window);
        }
    }

    /// A destination has more of a shard than was encoded: somebody else gave numbers of this block,
    /// and nothing more of it may be sent to that one live. Everything goes to the file, and from there
    /// to that destination under another name.
    pub fn ahead(&mut self, destination: DestinationId) {
        self.ahead = true;
        self.exchange.reject_all();
        let Ok(destination) = u32::try_from(destination) else { return };
        let ahead = Rejected::ahead(destination);
        if !self.renamed.contains(&ahead) {
            self.renamed.push(ahead);
            self.rejects.push(ahead);
        }
    }

    /// Takes no more samples. What waits becomes segments.
    pub fn close(&mut self, now: Steady, bench: &mut Workbench) {
        for shard in self.rules.shards.ids() {
            self.encode(shard, now, bench);
        }
        self.closed = true;
        self.exchange.close();
    }

    /// Puts everything that is not confirmed on the way to the refill file.
    pub fn reject_all(&mut self) {
        self.exchange.reject_all();
    }

    /// When it wants to be driven next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        let closing = self.rules.shards.ids().filter_map(|shard| self.closes_at(shard));
        let others = [self.exchange.next_deadline(), self.promises.next_deadline()];
        closing.chain(others.into_iter().flatten()).min()
    }

    /// Segments left the exchange: the trailing decoder follows, and those who waited are told.
    fn left(&mut self, left: &[Left], how: Settled, bench: &mut Workbench) {
        for run in left.chunk_by(|(one, _), (next, _)| one.shard == next.shard) {
            let Some((first, _)) = run.first() else { continue };
            let Some(lane) = self.lanes.get_mut(usize::from(first.shard)) else { continue };
            let drained = self.exchange.oldest(first.shard) == Some(lane.encoder.next_segment());
            if drained {
                lane.trailing.catch_up(&lane.encoder);
                continue;
            }
            for (_, bytes) in run {
                let skipped = lane.trailing.skip(bytes, &lane.encoder, bench);
                debug_assert_eq!(skipped, Ok(()), "segments leave in their order");
            }
        }
        for (key, _) in left {
            let ended = self.promises.settle(*key, how);
            self.ended.extend(ended);
        }
    }
}
