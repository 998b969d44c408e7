//! One destination's side of the conversation: what to send next, and what was confirmed.
//!
//! ```text
//!            connected            HelloAck
//!  Parted ─────────────▶ Greeting ────────▶ Open ──lost──▶ Parted
//!    ▲                      │ Refuse         per shard:   acked ≤ … < next
//!    └──────────────────────┘                key frame first, if its decoder is elsewhere
//! ```
//!
//! It knows nothing of where segments come from: the live path asks the delivery, a backlog its
//! file. The shell writes what it is given, and says when the connection is lost.

use bytes::Bytes;
use handoff_types::{Span, Steady};

use crate::codec::ENCODER_VERSION;
use crate::key::{Name, Origin, SegmentKey, ShardId, Shards};
use crate::session::{Hello, HelloAck, Message, Reason};

/// How long a silent connection is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderRules {
    /// `relay.ping_after`: silence after which the other side is asked.
    pub ping_after: Span,
    /// `relay.silence_max`: silence after which the connection is given up.
    pub silence_max: Span,
}

impl Default for SenderRules {
    fn default() -> Self {
        Self { ping_after: Span::from_secs(10), silence_max: Span::from_secs(30) }
    }
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This segment, if it was made.
    Segment(SegmentKey),
    /// A key frame for this segment or for one before it.
    KeyFrame(SegmentKey),
}

/// What a message of the receiver, or the clock, led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The conversation is open.
    Opened,
    /// This segment and all before it are confirmed.
    Acked(SegmentKey),
    /// This segment was not taken. A permanent one is never taken: put it aside and
    /// [`Sender::skip`] it.
    Rejected {
        /// Which.
        key: SegmentKey,
        /// Why.
        reason: Reason,
        /// The same for people.
        words: String,
    },
    /// The receiver has more of this shard than was ever encoded: somebody used the numbers of this
    /// block before. Nothing of the shard is sent; the block must be closed.
    Ahead(SegmentKey),
    /// The receiver does not have so many segments any more that it confirmed once: its state is
    /// gone, or an older one. They were left to it, and nobody else has them.
    Missing(u64),
    /// The receiver will not talk, for so long at least.
    Refused {
        /// Why.
        reason: Reason,
        /// When to try again.
        retry_after: Span,
        /// The same for people.
        words: String,
    },
    /// It said something that makes no sense here, or nothing for too long: close the connection.
    Broken(&'static str),
}

/// How many segments there are up to one, itself included.
fn after(segment: Option<u32>) -> u64 {
    segment.map_or(0, |segment| u64::from(segment) + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Parted,
    Greeting,
    Open,
}

#[derive(Clone, Debug)]
struct Stream {
    acked: Option<u32>,
    next: u32,
    needs_key: bool,
    /// Segments on their way, oldest first: number and bytes.
    flying: std::collections::VecDeque<(u32, usize)>,
    flying_bytes: usize,
    paused_until: Option<Steady>,
    stopped: bool,
    /// The last that was confirmed and not skipped: a receiver need not remember what never comes.
    kept: Option<u32>,
    skipped: Option<u32>,
    /// Segments that were confirmed and are missed, as far as that was told.
    missing: u64,
}

/// A session with one destination over one block.
#[derive(Debug)]
pub struct Sender {
    destination: Name,
    origin: Origin,
    shards: Shards,
    token: String,
    backlog: bool,
    encoder: u8,
    rules: SenderRules,
    phase: Phase,
    streams: Vec<Stream>,
    turn: u16,
    frame_bytes_max: usize,
    credit: usize,
    heard: Steady,
    asked: bool,
}

impl Sender {
    /// A session that is not connected yet. `acked` is what is known to be confirmed.
    #[must_use]
    pub fn new(
        destination: Name,
        origin: Origin,
        shards: Shards,
        token: String,
        backlog: bool,
        acked: impl Fn(ShardId) -> Option<u32>,
    ) -> Self {
        let stream = |shard| Stream {
            acked: acked(shard),
            next: acked(shard).map_or(0, |last| last.saturating_add(1)),
            needs_key: false,
            flying: std::collections::VecDeque::new(),
            flying_bytes: 0,
            paused_until: None,
            stopped: false,
            kept: acked(shard),
            skipped: None,
            missing: 0,
        };
        Self {
            destination,
            origin,
            shards,
            token,
            backlog,
            encoder: ENCODER_VERSION,
            rules: SenderRules::default(),
            phase: Phase::Parted,
            streams: shards.ids().map(stream).collect(),
            turn: 0,
            frame_bytes_max: 0,
            credit: 0,
            heard: Steady(0),
            asked: false,
        }
    }

    /// The same with other rules.
    #[must_use]
    pub const fn with_rules(mut self, rules: SenderRules) -> Self {
        self.rules = rules;
        self
    }

    /// The same for segments that another version of the codec made.
    #[must_use]
    pub const fn with_encoder(mut self, encoder: u8) -> Self {
        self.encoder = encoder;
        self
    }

    /// Whom it sends to.
    #[must_use]
    pub const fn destination(&self) -> &Name {
        &self.destination
    }

    /// Whether segments can be sent.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// The last confirmed segment of a shard.
    #[must_use]
    pub fn acked(&self, shard: ShardId) -> Option<u32> {
        self.streams.get(usize::from(shard)).and_then(|stream| stream.acked)
    }

    /// The last segment of a shard that was sent, confirmed or not.
    #[must_use]
    pub fn sent(&self, shard: ShardId) -> Option<u32> {
        let stream = self.streams.get(usize::from(shard))?;
        stream.flying.back().map(|(segment, _)| *segment).max(stream.acked)
    }

    /// The connection is there: what to say first.
    pub fn connected(&mut self, now: Steady) -> Message {
        self.phase = Phase::Greeting;
        self.heard = now;
        self.asked = false;
        let first = self.streams.iter();
        Message::Hello(Hello {
            origin: self.origin.clone(),
            shards: self.shards,
            encoder: self.encoder,
            backlog: self.backlog,
            token: self.token.clone(),
            first: first.map(|one| one.acked.map_or(0, |last| last.saturating_add(1))).collect(),
        })
    }

    /// The connection is lost: every segment that was sent and not confirmed is in doubt.
    pub fn lost(&mut self) -> Vec<SegmentKey> {
        self.phase = Phase::Parted;
        let mut doubted = Vec::new();
        for (shard, stream) in (0..).zip(&mut self.streams) {
            doubted.extend(stream.flying.iter().map(|(segment, _)| *segment).filter_map(
                |segment| {
                    let unknown = stream.acked.is_none_or(|acked| segment > acked);
                    unknown.then_some(SegmentKey { shard, segment })
                },
            ));
            stream.land_all();
            stream.paused_until = None;
            stream.next = stream.acked.map_or(0, |last| last.saturating_add(1));
        }
        doubted
    }

    /// A message of the receiver. `encoded` says the last segment of a shard that exists.
    pub fn received(
        &mut self,
        message: Message,
        now: Steady,
        encoded: impl Fn(ShardId) -> Option<u32>,
    ) -> Vec<Happened> {
        self.heard = now;
        self.asked = false;
        match (self.phase, message) {
            (Phase::Parted, _) => Vec::new(),
            (_, Message::Refuse { reason, retry_after, words }) => {
                vec![Happened::Refused { reason, retry_after, words }]
            }
            (_, Message::Pong) => Vec::new(),
            (Phase::Greeting, Message::HelloAck(ack)) => self.greeted(&ack, encoded),
            (Phase::Open, Message::Ack(key)) => self.acked_by_peer(key),
            (Phase::Open, Message::Reject { key, reason, retry_after, words }) => {
                self.rejected(key, reason, now + retry_after, words)
            }
            _ => vec![Happened::Broken("it said something that makes no sense here")],
        }
    }

    fn greeted(
        &mut self,
        ack: &HelloAck,
        encoded: impl Fn(ShardId) -> Option<u32>,
    ) -> Vec<Happened> {
        if ack.shards.len() != self.streams.len() {
            return vec![Happened::Broken("it has another number of shards")];
        }
        self.phase = Phase::Open;
        self.frame_bytes_max = usize::try_from(ack.frame_bytes_max).unwrap_or(usize::MAX);
        self.credit = usize::try_from(ack.credit).unwrap_or(usize::MAX);
        let mut happened = vec![Happened::Opened];
        let mut missing = 0;
        for (shard, (stream, state)) in (0..).zip(self.streams.iter_mut().zip(&ack.shards)) {
            // A new connection is a new attempt, also for what was refused before.
            stream.stopped = false;
            let known = state.mark.map(|segment| SegmentKey { shard, segment });
            if let Some(key) = known.filter(|key| encoded(shard) < Some(key.segment)) {
                stream.stopped = true;
                happened.push(Happened::Ahead(key));
                continue;
            }
            if state.mark > stream.acked {
                (stream.acked, stream.kept) = (state.mark, state.mark);
                happened.extend(known.map(Happened::Acked));
            }
            let missed = after(stream.kept).saturating_sub(after(state.mark));
            missing += missed.saturating_sub(stream.missing);
            stream.missing = stream.missing.max(missed);
            // What it has lost was confirmed before: only what is above our own knowledge is sent.
            stream.next = stream.acked.map_or(0, |last| last.saturating_add(1));
            stream.needs_key = state.stands.unwrap_or(0) != stream.next;
        }
        if missing > 0 {
            happened.push(Happened::Missing(missing));
        }
        happened
    }

    fn acked_by_peer(&mut self, key: SegmentKey) -> Vec<Happened> {
        let Some(stream) = self.streams.get_mut(usize::from(key.shard)) else {
            return vec![Happened::Broken("it confirmed a shard that does not exist")];
        };
        if key.segment >= stream.next {
            return vec![Happened::Broken("it confirmed a segment that was not sent")];
        }
        stream.land(key.segment);
        if stream.acked.is_some_and(|acked| acked >= key.segment) {
            return Vec::new();
        }
        stream.acked = Some(key.segment);
        if stream.skipped != stream.acked {
            stream.kept = stream.acked;
        }
        vec![Happened::Acked(key)]
    }

    fn rejected(
        &mut self,
        key: SegmentKey,
        reason: Reason,
        retry_at: Steady,
        words: String,
    ) -> Vec<Happened> {
        let Some(stream) = self.streams.get_mut(usize::from(key.shard)) else {
            return vec![Happened::Broken("it rejected a shard that does not exist")];
        };
        // The next one may be rejected by the key frame that was sent for it.
        if key.segment > stream.next {
            return vec![Happened::Broken("it rejected a segment that was not sent")];
        }
        // From the rejected one on the receiver drops everything.
        stream.land_all();
        stream.next = key.segment;
        match reason {
            Reason::NeedSnapshot => {
                stream.needs_key = true;
                return Vec::new();
            }
            Reason::RetryAfter => {
                stream.paused_until = Some(retry_at);
                stream.needs_key = true;
            }
            Reason::Permanent | Reason::TooLarge | Reason::Unauthorized => stream.stopped = true,
        }
        vec![Happened::Rejected { key, reason, words }]
    }

    /// The connection took a part of what was written: it is not dead, however long an answer takes.
    pub const fn took(&mut self, now: Steady) {
        if matches!(self.phase, Phase::Open) {
            self.heard = now;
        }
    }

    /// What to send next, if there is credit for it. Shards take turns.
    pub fn wanted(&mut self, now: Steady) -> Option<Want> {
        if self.phase != Phase::Open {
            return None;
        }
        let count = self.shards.count();
        for _ in 0..count {
            let shard = self.turn;
            self.turn = (self.turn + 1) % count;
            if let Some(want) = self.wanted_of(shard, now) {
                return Some(want);
            }
        }
        None
    }

    /// What to send next of one shard.
    pub fn wanted_of(&mut self, shard: ShardId, now: Steady) -> Option<Want> {
        if self.phase != Phase::Open {
            return None;
        }
        let credit = self.credit;
        let stream = self.streams.get_mut(usize::from(shard))?;
        if stream.paused_until.is_some_and(|until| until <= now) {
            stream.paused_until = None;
        }
        if stream.stopped || stream.paused_until.is_some() || stream.flying_bytes >= credit {
            return None;
        }
        let key = SegmentKey { shard, segment: stream.next };
        Some(if stream.needs_key { Want::KeyFrame(key) } else { Want::Segment(key) })
    }

    /// Sends the segment that was wanted. None if it is larger than the receiver allows: it counts
    /// as rejected, as [`Reason::TooLarge`].
    pub fn segment(&mut self, key: SegmentKey, bytes: &Bytes) -> Option<Message> {
        let stream = self.streams.get_mut(usize::from(key.shard))?;
        if bytes.len() > self.frame_bytes_max {
            stream.stopped = true;
            return None;
        }
        stream.next = key.segment.saturating_add(1);
        stream.flying.push_back((key.segment, bytes.len()));
        stream.flying_bytes += bytes.len();
        Some(Message::Segment { key, bytes: bytes.clone() })
    }

    /// Sends a key frame for the wanted segment or one before it; the shard goes on from there. No
    /// bytes stand for a decoder before the first segment. None if it is larger than the receiver
    /// allows.
    pub fn key_frame(&mut self, key: SegmentKey, bytes: Bytes) -> Option<Message> {
        let stream = self.streams.get_mut(usize::from(key.shard))?;
        if bytes.len() > self.frame_bytes_max {
            stream.stopped = true;
            return None;
        }
        stream.needs_key = false;
        stream.next = key.segment;
        Some(Message::KeyFrame { key, bytes })
    }

    /// Goes on behind a segment that will never be taken.
    pub fn skip(&mut self, key: SegmentKey) -> Option<Message> {
        let stream = self.streams.get_mut(usize::from(key.shard))?;
        stream.stopped = false;
        stream.needs_key = true;
        stream.next = key.segment.saturating_add(1);
        stream.skipped = Some(key.segment);
        Some(Message::Skip(key))
    }

    /// What the clock asks for: a ping, or the end of a connection that is silent.
    pub fn tick(&mut self, now: Steady) -> Option<Result<Message, Happened>> {
        if self.phase == Phase::Parted {
            return None;
        }
        let silence = now.since(self.heard);
        if silence >= self.rules.silence_max {
            return Some(Err(Happened::Broken("it was silent for too long")));
        }
        if silence >= self.rules.ping_after && !self.asked {
            self.asked = true;
            return Some(Ok(Message::Ping));
        }
        None
    }

    /// When it wants to be driven next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        if self.phase == Phase::Parted {
            return None;
        }
        let wait = if self.asked { self.rules.silence_max } else { self.rules.ping_after };
        let paused = self.streams.iter().filter_map(|stream| stream.paused_until);
        paused.chain([self.heard + wait]).min()
    }
}

impl Stream {
    fn land(&mut self, until: u32) {
        while let Some((_, bytes)) = self.flying.pop_front_if(|(segment, _)| *segment <= until) {
            self.flying_bytes -= bytes;
        }
    }

    fn land_all(&mut self) {
        self.flying.clear();
        self.flying_bytes = 0;
    }
}
