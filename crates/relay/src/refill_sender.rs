//! The backlog: one sealed file on its way to one destination.
//!
//! ```text
//!  file    │ snapshot 4 │ 4 │ 5 │ 6 │ ▒▒▒ │ snapshot 9 │ 9 │ 10 │
//!  mark 5 ──────────────────────▶ 6   then Skip 8, key frame 9, 9, 10
//!  decoder elsewhere: key frame 4, then 4, 5 (given to nobody), 6 …
//! ```
//!
//! It decides from the books of the file alone; the shell reads what it names, and writes down what
//! was confirmed.

use bytes::Bytes;
use handoff_types::Steady;

use crate::ack::DestinationId;
use crate::codec;
use crate::key::{LAST_SEGMENT, Name, Origin, SegmentKey, ShardId};
use crate::refill::{Entry, Ledger, Stored};
use crate::sender::{Happened, Sender, Want};
use crate::session::Message;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this.
    Say(Message),
    /// Read this piece of the file and give it to [`RefillSender::read`].
    Read(SegmentKey, Entry),
    /// Nothing until the receiver says something, or time passes.
    Wait,
    /// The destination has everything that can be sent.
    Done,
}

/// Segments that a destination will never get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The first of them.
    pub from: SegmentKey,
    /// The last of them.
    pub to: u32,
}

/// One file, one destination.
#[derive(Debug)]
pub struct RefillSender {
    sender: Sender,
    destination: DestinationId,
    skipped: Vec<Skipped>,
}

impl RefillSender {
    /// None if the file does not name the destination: then there is nothing in it for that one.
    #[must_use]
    pub fn new(ledger: &Ledger, agent: Name, destination: &Name, token: String) -> Option<Self> {
        let acks = ledger.acks();
        let id = acks.destination(destination)?;
        let origin = Origin { agent, block: ledger.block_for(id) };
        let acked = |shard| acks.last(shard, id);
        let sender = Sender::new(destination.clone(), origin, acks.shards(), token, true, acked)
            .with_encoder(ledger.layout().encoder());
        Some(Self { sender, destination: id, skipped: Vec::new() })
    }

    /// Its place in the names of the file.
    #[must_use]
    pub const fn destination(&self) -> DestinationId {
        self.destination
    }

    /// What it went past because damage took it or the destination will never take it.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The last confirmed segment of a shard.
    #[must_use]
    pub fn acked(&self, shard: ShardId) -> Option<u32> {
        self.sender.acked(shard)
    }

    /// The connection is there: what to say first.
    pub fn connected(&mut self, now: Steady) -> Message {
        self.sender.connected(now)
    }

    /// The connection is lost.
    pub fn lost(&mut self) {
        self.sender.lost();
    }

    /// A message of the receiver. Confirmations are to be written into the file.
    pub fn received(&mut self, message: Message, now: Steady) -> Vec<Happened> {
        // What was confirmed live lies beyond the file: the mark may be there.
        self.sender.received(message, now, |_: ShardId| Some(LAST_SEGMENT))
    }

    /// The connection took a part of what was written.
    pub const fn took(&mut self, now: Steady) {
        self.sender.took(now);
    }

    /// What the clock asks for.
    pub fn tick(&mut self, now: Steady) -> Option<Result<Message, Happened>> {
        self.sender.tick(now)
    }

    /// When it wants to be driven next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        self.sender.next_deadline()
    }

    /// What to do next.
    pub fn step(&mut self, ledger: &Ledger, now: Steady) -> Step {
        if !self.sender.is_open() {
            return Step::Wait;
        }
        let mut left = false;
        for shard in ledger.acks().shards().ids() {
            left |= ledger.next_after(shard, self.sender.acked(shard)).is_some();
            let Some(want) = self.sender.wanted_of(shard, now) else { continue };
            if let Some(step) = self.answer(ledger, want) {
                return step;
            }
        }
        if left { Step::Wait } else { Step::Done }
    }

    fn answer(&mut self, ledger: &Ledger, want: Want) -> Option<Step> {
        let (Want::Segment(key) | Want::KeyFrame(key)) = want;
        let next = ledger.next_after(key.shard, key.segment.checked_sub(1))?;
        if next.segment > key.segment {
            // Damage took what is between.
            let gap = SegmentKey { shard: key.shard, segment: next.segment - 1 };
            return self.pass(gap).map(Step::Say);
        }
        if matches!(want, Want::Segment(_)) {
            return Some(Step::Read(key, next));
        }
        match ledger.restore(key)?.first() {
            Some(entry) if entry.stored == Stored::Snapshot => Some(Step::Read(key, *entry)),
            _ => {
                let first = SegmentKey { shard: key.shard, segment: 0 };
                let renamed = ledger.block_for(self.destination) != ledger.block();
                // A decoder of another name cannot begin with nothing.
                let beginning = match renamed {
                    true => codec::beginning(ledger.block(), key.shard).ok()?,
                    false => Bytes::new(),
                };
                self.sender.key_frame(first, beginning).map(Step::Say)
            }
        }
    }

    /// Sends what was read. None if it is larger than the receiver allows: [`RefillSender::skip`] it.
    pub fn read(&mut self, key: SegmentKey, entry: Entry, bytes: &Bytes) -> Option<Message> {
        let key = SegmentKey { shard: key.shard, segment: entry.segment };
        match entry.stored {
            Stored::Snapshot => self.sender.key_frame(key, bytes.clone()),
            Stored::Segment => self.sender.segment(key, bytes),
        }
    }

    /// Goes on behind a segment that cannot be read or will never be taken; a copy of it should be
    /// in the quarantine first. If that was done before and did not help, nothing that builds upon
    /// it can be decoded there either: the shard goes on at the next snapshot, or it is over.
    pub fn skip(&mut self, key: SegmentKey, ledger: &Ledger) -> Option<Message> {
        let shard = key.shard;
        if self.sender.acked(shard) < Some(key.segment) {
            return self.pass(key);
        }
        let mut entries = ledger.entries(shard).iter();
        let next = entries
            .find(|entry| entry.stored == Stored::Snapshot && entry.segment > key.segment)
            .map(|entry| entry.segment - 1);
        let to = next.or_else(|| ledger.last_segment(shard))?;
        self.pass(SegmentKey { shard, segment: to })
    }

    fn pass(&mut self, to: SegmentKey) -> Option<Message> {
        let first = self.sender.acked(to.shard).map_or(0, |last| last.saturating_add(1));
        if first <= to.segment {
            let from = SegmentKey { shard: to.shard, segment: first };
            self.skipped.push(Skipped { from, to: to.segment });
        }
        self.sender.skip(to)
    }
}
