//! The receiving side: segments in, samples out, each once.
//!
//! ```text
//!  Segment ──▶ decoder ──▶ samples ──▶ every sink has them ──stored──▶ Ack, and the mark moves
//!                 │ not above the mark: decoded, given to nobody, confirmed again
//!                 └ not where the decoder stands: need-snapshot; all is dropped until a key frame
//! ```
//!
//! The mark is the sink's: it is told when the conversation begins and moves when the sink says so.
//! A decoder that was lost costs a key frame, never a sample.

mod pace;

use std::collections::VecDeque;

use handoff_types::Span;

use crate::codec::{
    CodecLimits, DecodeError, Decoded, Decoder, ENCODER_VERSION, Taken, Workbench, segment_number,
};
use crate::key::{LAST_SEGMENT, Origin, SegmentKey, ShardId, Shards};
use crate::session::{Hello, HelloAck, Message, Reason, ShardState};

pub use self::pace::{PaceRules, Pacer};

/// Bounds of one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverLimits {
    /// Bounds of what a block may know and a segment may hold.
    pub codec: CodecLimits,
    /// `relay.frame_bytes_max`: the largest message. A full key frame fits.
    pub frame_bytes_max: u32,
    /// `relay.credit_bytes`: how much of each shard may be on its way.
    pub credit: u32,
}

impl Default for ReceiverLimits {
    fn default() -> Self {
        Self { codec: CodecLimits::default(), frame_bytes_max: 129 << 20, credit: 4 << 20 }
    }
}

/// What a message of an agent led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing to do.
    Nothing,
    /// Send this.
    Answer(Message),
    /// The samples of this segment are in [`Decoded`]: give them to the sinks, which take the
    /// segments of a shard in their order; then call [`Receiver::stored`], or [`Receiver::refused`].
    Samples(SegmentKey),
    /// The agent will never send this segment. Make the mark durable, then call
    /// [`Receiver::stored`].
    Skipped(SegmentKey),
    /// The agent has nothing more to send of this block.
    Ended,
    /// It said something that makes no sense: close the connection.
    Broken(&'static str),
}

#[derive(Debug)]
struct Incoming {
    mark: Option<u32>,
    decoder: Option<Decoder>,
    /// Whether everything is dropped until a key frame.
    deaf: bool,
    /// Segments that are with the sinks, in their order.
    pending: VecDeque<u32>,
}

/// One block of one agent. It outlives the connection: what its decoders know is worth keeping.
#[derive(Debug)]
pub struct Receiver {
    origin: Origin,
    shards: Shards,
    limits: ReceiverLimits,
    incoming: Vec<Incoming>,
}

impl Receiver {
    /// A receiver for the block that a greeting names.
    ///
    /// # Errors
    /// The refusal to send: the codec of the agent is not known.
    pub fn new(hello: &Hello, limits: ReceiverLimits) -> Result<Self, Message> {
        if hello.encoder != ENCODER_VERSION {
            return Err(Message::Refuse {
                reason: Reason::Permanent,
                retry_after: Span::ZERO,
                words: format!("encoder version {} is not known here", hello.encoder),
            });
        }
        let none = || Incoming { mark: None, decoder: None, deaf: false, pending: VecDeque::new() };
        let incoming = hello.shards.ids().map(|_| none()).collect();
        Ok(Self { origin: hello.origin.clone(), shards: hello.shards, limits, incoming })
    }

    /// Whose block it is.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The decoder of a shard, which knows the labels of the samples it gave.
    #[must_use]
    pub fn decoder(&self, shard: ShardId) -> Option<&Decoder> {
        self.incoming.get(usize::from(shard))?.decoder.as_ref()
    }

    /// A connection begins. `mark` is the last segment of a shard that every sink has.
    pub fn greeted(&mut self, hello: &Hello, mark: impl Fn(ShardId) -> Option<u32>) -> Message {
        if hello.shards != self.shards || hello.origin != self.origin {
            return Message::Refuse {
                reason: Reason::Permanent,
                retry_after: Span::ZERO,
                words: "the block has another number of shards here".to_owned(),
            };
        }
        for (shard, incoming) in (0..).zip(&mut self.incoming) {
            // What is with the sinks comes again, and is known then or not: they decide.
            if incoming.pending.drain(..).any(|pending| Some(pending) > mark(shard)) {
                incoming.decoder = None;
            }
            incoming.mark = mark(shard);
            incoming.deaf = false;
        }
        let state = |incoming: &Incoming| ShardState {
            mark: incoming.mark,
            stands: incoming.decoder.as_ref().and_then(Decoder::next_segment),
        };
        Message::HelloAck(HelloAck {
            frame_bytes_max: self.limits.frame_bytes_max,
            credit: self.limits.credit,
            shards: self.incoming.iter().map(state).collect(),
        })
    }

    /// A message of the agent behind its greeting.
    pub fn received(
        &mut self,
        message: &Message,
        bench: &mut Workbench,
        out: &mut Decoded,
    ) -> Received {
        match message {
            Message::Segment { key, bytes } => self.segment(*key, bytes, bench, out),
            Message::KeyFrame { key, bytes } => self.key_frame(*key, bytes, bench),
            Message::Skip(key) => self.skip(*key),
            Message::Ping => Received::Answer(Message::Pong),
            Message::Pong | Message::Status(_) => Received::Nothing,
            Message::End => Received::Ended,
            _ => Received::Broken("it said something that makes no sense here"),
        }
    }

    fn segment(
        &mut self,
        key: SegmentKey,
        bytes: &[u8],
        bench: &mut Workbench,
        out: &mut Decoded,
    ) -> Received {
        let (block, limits) = (self.origin.block, self.limits.codec);
        let Some(incoming) = self.incoming.get_mut(usize::from(key.shard)) else {
            return Received::Broken("it names a shard that does not exist");
        };
        if incoming.deaf {
            return Received::Nothing;
        }
        // The number in the frame moves the mark: it must be the one that is decoded.
        if key.segment > LAST_SEGMENT || segment_number(bytes) != Some(key.segment) {
            return Received::Broken("a segment is not the one that its frame names");
        }
        if incoming.decoder.is_none() && key.segment == 0 {
            incoming.decoder = Some(Decoder::new(block, key.shard, limits));
        }
        let taken = match &mut incoming.decoder {
            Some(decoder) => decoder.take(bytes, incoming.mark, bench, out),
            None => Err(DecodeError::NeedKeyFrame { expected: 0, found: key.segment }),
        };
        match taken {
            Ok(Taken::Given) => {
                incoming.pending.push_back(key.segment);
                Received::Samples(key)
            }
            Ok(Taken::Silent | Taken::Known) => Received::Answer(Message::Ack(key)),
            Err(DecodeError::NeedKeyFrame { .. }) => {
                incoming.deaf = true;
                incoming.decoder = None;
                reject(key, Reason::NeedSnapshot, "the decoder is not before this segment".into())
            }
            Err(error) => {
                incoming.deaf = true;
                incoming.decoder = None;
                reject(key, Reason::Permanent, error.to_string())
            }
        }
    }

    fn key_frame(&mut self, key: SegmentKey, bytes: &[u8], bench: &mut Workbench) -> Received {
        let (block, limits) = (self.origin.block, self.limits.codec);
        let Some(incoming) = self.incoming.get_mut(usize::from(key.shard)) else {
            return Received::Broken("it names a shard that does not exist");
        };
        if bytes.is_empty() {
            if key.segment != 0 {
                return Received::Broken("it sent an empty key frame");
            }
            incoming.decoder = Some(Decoder::new(block, key.shard, limits));
            incoming.deaf = false;
            return Received::Nothing;
        }
        match Decoder::from_key_frame(bytes, limits, bench) {
            Ok(decoder) if decoder.next_segment() == Some(key.segment) => {
                incoming.decoder = Some(decoder);
                incoming.deaf = false;
                Received::Nothing
            }
            Ok(_) => Received::Broken("its key frame is for another segment"),
            Err(error) => {
                incoming.deaf = true;
                incoming.decoder = None;
                reject(key, Reason::Permanent, error.to_string())
            }
        }
    }

    fn skip(&mut self, key: SegmentKey) -> Received {
        let Some(incoming) = self.incoming.get_mut(usize::from(key.shard)) else {
            return Received::Broken("it names a shard that does not exist");
        };
        let behind = incoming.pending.back().is_some_and(|pending| *pending >= key.segment);
        if behind || key.segment > LAST_SEGMENT {
            return Received::Broken("it skips what cannot be skipped");
        }
        incoming.deaf = true;
        if incoming.mark >= Some(key.segment) {
            return Received::Nothing;
        }
        incoming.pending.push_back(key.segment);
        Received::Skipped(key)
    }

    /// Every sink has this segment and all before it, durably: the answer to send. None if nobody
    /// waits for it any more.
    pub fn stored(&mut self, key: SegmentKey) -> Option<Message> {
        let incoming = self.incoming.get_mut(usize::from(key.shard))?;
        incoming.pending.iter().find(|pending| **pending == key.segment)?;
        while incoming.pending.pop_front_if(|pending| *pending <= key.segment).is_some() {}
        incoming.mark = incoming.mark.max(Some(key.segment));
        Some(Message::Ack(key))
    }

    /// A sink does not take this segment: the answer to send. Nothing of the shard is taken until it
    /// comes again, behind a key frame. What was handed over before it is still to be stored.
    pub fn refused(
        &mut self,
        key: SegmentKey,
        reason: Reason,
        retry_after: Span,
        words: String,
    ) -> Option<Message> {
        let incoming = self.incoming.get_mut(usize::from(key.shard))?;
        incoming.pending.iter().find(|pending| **pending == key.segment)?;
        // Those behind it were decoded and are not stored either: they come again. Those before it do
        // not: the agent goes on from here.
        incoming.pending.retain(|pending| *pending < key.segment);
        incoming.deaf = true;
        incoming.decoder = None;
        Some(Message::Reject { key, reason, retry_after, words })
    }
}

fn reject(key: SegmentKey, reason: Reason, words: String) -> Received {
    Received::Answer(Message::Reject { key, reason, retry_after: Span::ZERO, words })
}
