//! Segments between the encoder and their destinations, in memory.
//!
//! ```text
//!              ┌ oldest            newest ┐
//!  shard 0     │ 7 │ 8 │ 9 │ 10 │ 11 │      ◀─put
//!               a·b a·b  ·b   ·b   ·b         who has confirmed it
//!               └ leaves when all have, or when it is on disk
//! ```
//!
//! A confirmation covers all before it, so segments leave from the front only. What was rejected, or
//! is here for longer than the window, is for the refill file, together with all of its shard that
//! came before and will come after: a shard that has left the live path does not come back.
//!
//! A block that begins while a destination is known to be gone does not wait for it: everything goes
//! to the file at once, and stays here for the others until they have it or the window is over.

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_types::{Span, Steady};
use thiserror::Error;

use crate::ack::DestinationId;
use crate::key::{SegmentKey, ShardId, Shards};

/// Bounds of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// `relay.exchange_bytes_max`: segments in memory. One more segment of each shard may be above
    /// it.
    pub bytes_max: u64,
    /// `relay.window`: how long a segment waits in memory for its confirmations.
    pub window: Span,
}

impl Default for ExchangeLimits {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, window: Span::from_secs(10) }
    }
}

/// What [`Exchange::get`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The segment.
    Segment(Bytes),
    /// It was not made yet.
    NotYet,
    /// It was here: it is in the refill file, or everybody has it.
    Gone,
}

/// Why a segment is not put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PutError {
    /// It is not the next of its shard.
    #[error("segment {0} is not the next of its shard")]
    OutOfOrder(SegmentKey),
    /// The exchange takes nothing any more.
    #[error("the exchange is closed")]
    Closed,
}

/// A segment that left.
pub type Left = (SegmentKey, Bytes);

#[derive(Debug)]
struct Held {
    bytes: Bytes,
    /// Who has not confirmed it, a bit for each.
    waits: u64,
    due: Steady,
    /// Whether it is in the file as well.
    stored: bool,
}

#[derive(Debug)]
struct Lane {
    first: u32,
    held: VecDeque<Held>,
    /// When each destination's doubt becomes a reject.
    doubts: Vec<Option<Steady>>,
    left: bool,
}

/// The segments of one block that somebody still waits for.
#[derive(Debug)]
pub struct Exchange {
    limits: ExchangeLimits,
    destinations: usize,
    /// Who was gone when it began, a bit for each.
    parted: u64,
    lanes: Vec<Lane>,
    bytes: u64,
    closed: bool,
    /// Nobody is waited for any more: what is in the file leaves.
    hurried: bool,
}

impl Exchange {
    /// An empty one, before the first segment of each shard.
    #[must_use]
    pub fn new(limits: ExchangeLimits, destinations: usize, shards: Shards) -> Self {
        Self::without(0, limits, destinations, shards)
    }

    /// The same for a time when these destinations, a bit for each, are gone.
    #[must_use]
    pub fn without(
        parted: u64,
        limits: ExchangeLimits,
        destinations: usize,
        shards: Shards,
    ) -> Self {
        let lane = |_| Lane {
            first: 0,
            held: VecDeque::new(),
            doubts: vec![None; destinations],
            left: parted != 0,
        };
        let lanes = shards.ids().map(lane).collect();
        Self { limits, destinations, parted, lanes, bytes: 0, closed: false, hurried: false }
    }

    /// Whether there is room for more.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.bytes < self.limits.bytes_max
    }

    /// Bytes of all segments.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.held.is_empty())
    }

    /// The oldest segment of a shard that is here; the next one if none is.
    #[must_use]
    pub fn oldest(&self, shard: ShardId) -> Option<u32> {
        self.lanes.get(usize::from(shard)).map(|lane| lane.first)
    }

    /// When a segment that is still here was put in.
    #[must_use]
    pub fn since(&self, key: SegmentKey) -> Option<Steady> {
        let lane = self.lanes.get(usize::from(key.shard))?;
        let held = lane.held.get(key.segment.checked_sub(lane.first)? as usize)?;
        Some(Steady(held.due.0.saturating_sub(self.limits.window.0)))
    }

    /// Whether it began without somebody: then everything is on its way to the file from the start.
    #[must_use]
    pub const fn is_parted(&self) -> bool {
        self.parted != 0
    }

    /// Whether a shard of it has left the live path.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.lanes.iter().any(|lane| lane.left)
    }

    /// Puts the next segment of a shard in.
    ///
    /// # Errors
    /// See [`PutError`].
    pub fn put(&mut self, key: SegmentKey, bytes: Bytes, now: Steady) -> Result<(), PutError> {
        if self.closed {
            return Err(PutError::Closed);
        }
        let lane = self.lanes.get_mut(usize::from(key.shard));
        let lane = lane.filter(|lane| lane.next() == Some(key.segment));
        let lane = lane.ok_or(PutError::OutOfOrder(key))?;
        let waits = u64::MAX.checked_shr(64 - low(self.destinations)).unwrap_or(0);
        self.bytes += bytes.len() as u64;
        lane.held.push_back(Held { bytes, waits, due: now + self.limits.window, stored: false });
        Ok(())
    }

    /// Looks for a segment.
    #[must_use]
    pub fn get(&self, key: SegmentKey) -> Got {
        let Some(lane) = self.lanes.get(usize::from(key.shard)) else { return Got::NotYet };
        match key.segment.checked_sub(lane.first) {
            None => Got::Gone,
            Some(at) => match lane.held.get(at as usize) {
                Some(held) => Got::Segment(held.bytes.clone()),
                None => Got::NotYet,
            },
        }
    }

    /// A destination has a segment and all before it. Gives out those that everybody has now.
    pub fn ack(&mut self, key: SegmentKey, destination: DestinationId, now: Steady) -> Vec<Left> {
        let Some(lane) = self.lanes.get_mut(usize::from(key.shard)) else { return Vec::new() };
        let Some(last) = key.segment.checked_sub(lane.first) else { return Vec::new() };
        let bit = 1_u64.checked_shl(low(destination)).unwrap_or(0);
        for held in lane.held.iter_mut().take((last as usize).saturating_add(1)) {
            held.waits &= !bit;
        }
        // It goes on, so what was in doubt has healed; what became a reject has not.
        if let Some(doubt) = lane.doubts.get_mut(destination)
            && doubt.is_some_and(|at| at > now)
        {
            *doubt = None;
        }
        self.leave_complete(key.shard)
    }

    /// Gives out what nobody is waited for any more.
    fn leave_complete(&mut self, shard: ShardId) -> Vec<Left> {
        let parted = self.parted;
        // Whoever was gone has it in the file, or has confirmed it since.
        let complete = |held: &&Held| held.waits == 0 || held.stored && held.waits & !parted == 0;
        let lane = self.lanes.get(usize::from(shard));
        let all = lane.map_or(0, |lane| lane.held.iter().take_while(complete).count());
        self.leave(shard, all)
    }

    /// These are in the file. Gives out those that nobody is waited for any more.
    pub fn store(&mut self, keys: &[SegmentKey]) -> Vec<Left> {
        let mut gone = Vec::new();
        for run in keys.chunk_by(|one, next| one.shard == next.shard) {
            let Some(last) = run.last() else { continue };
            let Some(lane) = self.lanes.get_mut(usize::from(last.shard)) else { continue };
            let Some(until) = last.segment.checked_sub(lane.first) else { continue };
            for held in lane.held.iter_mut().take((until as usize).saturating_add(1)) {
                held.stored = true;
            }
            gone.extend(self.leave_complete(last.shard));
        }
        gone
    }

    /// The file is another one from now on: nothing of what is here is in it.
    pub(crate) fn unstore(&mut self) {
        let all = self.lanes.iter_mut().flat_map(|lane| &mut lane.held);
        all.for_each(|held| held.stored = false);
    }

    /// Gives out what is in the file and was here for the window; all that is in the file when there
    /// is no room, or nobody is waited for any more.
    pub fn expire(&mut self, now: Steady) -> Vec<Left> {
        if self.parted == 0 {
            return Vec::new();
        }
        let all = self.hurried || !self.has_room();
        let mut gone = Vec::new();
        for shard in 0..u16::try_from(self.lanes.len()).unwrap_or(u16::MAX) {
            let Some(lane) = self.lanes.get(usize::from(shard)) else { continue };
            let over = |held: &&Held| held.stored && (all || held.due <= now);
            let count = lane.held.iter().take_while(over).count();
            gone.extend(self.leave(shard, count));
        }
        gone
    }

    /// A destination did not take a segment: from `at` on the shard is off the live path, unless a
    /// confirmation comes first.
    pub fn reject(&mut self, key: SegmentKey, destination: DestinationId, at: Steady) {
        let Some(lane) = self.lanes.get_mut(usize::from(key.shard)) else { return };
        if let Some(doubt) = lane.doubts.get_mut(destination) {
            *doubt = Some(doubt.map_or(at, |before| before.min(at)));
        }
    }

    /// Everything that is here is for the refill file.
    pub fn reject_all(&mut self) {
        self.hurried = true;
        for lane in &mut self.lanes {
            lane.left = true;
        }
    }

    /// What is for the refill file, sorted by shard and segment.
    pub fn rejected(&mut self, now: Steady) -> Vec<SegmentKey> {
        let mut keys = Vec::new();
        for (shard, lane) in (0..).zip(&mut self.lanes) {
            let doubted = lane.doubts.iter().flatten().any(|at| *at <= now);
            let expired = lane.held.front().is_some_and(|held| held.due <= now);
            lane.left |= !lane.held.is_empty() && (doubted || expired);
            if lane.left {
                let all = (lane.first..).zip(&lane.held);
                let here = all.filter(|(_, held)| !held.stored);
                keys.extend(here.map(|(segment, _)| SegmentKey { shard, segment }));
            }
        }
        keys
    }

    /// Takes out what is on disk. Keys that are not here any more mean nothing.
    pub fn remove(&mut self, keys: &[SegmentKey]) -> Vec<Left> {
        let mut gone = Vec::new();
        for run in keys.chunk_by(|one, next| one.shard == next.shard) {
            let Some(last) = run.last() else { continue };
            let Some(first) = self.oldest(last.shard) else { continue };
            let Some(until) = last.segment.checked_sub(first) else { continue };
            gone.extend(self.leave(last.shard, (until as usize).saturating_add(1)));
        }
        gone
    }

    /// The segments of a shard that are here.
    pub fn segments(&self, shard: ShardId) -> impl Iterator<Item = (SegmentKey, &Bytes)> {
        let lane = self.lanes.get(usize::from(shard)).into_iter();
        lane.flat_map(move |lane| {
            let keys = (lane.first..).map(move |segment| SegmentKey { shard, segment });
            keys.zip(lane.held.iter().map(|held| &held.bytes))
        })
    }

    /// Takes nothing any more.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// When something becomes due for the refill file.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        let busy = self.lanes.iter().filter(|lane| !lane.held.is_empty());
        let dues = busy.flat_map(|lane| {
            let oldest = lane.held.front().map(|held| held.due);
            let doubts = lane.doubts.iter().flatten().copied();
            doubts.filter(|_| !lane.left).chain(oldest)
        });
        dues.min()
    }

    fn leave(&mut self, shard: ShardId, count: usize) -> Vec<Left> {
        let Some(lane) = self.lanes.get_mut(usize::from(shard)) else { return Vec::new() };
        let count = count.min(lane.held.len());
        let mut gone = Vec::with_capacity(count);
        for held in lane.held.drain(..count) {
            self.bytes -= held.bytes.len() as u64;
            gone.push((SegmentKey { shard, segment: lane.first }, held.bytes));
            lane.first += 1;
        }
        gone
    }
}

impl Lane {
    fn next(&self) -> Option<u32> {
        self.first.checked_add(u32::try_from(self.held.len()).ok()?)
    }
}

/// A count of destinations, of which there are at most 64.
fn low(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).min(64)
}
