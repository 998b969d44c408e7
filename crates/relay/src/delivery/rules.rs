//! What an agent was told about how to deliver.

use handoff_types::Span;

use crate::codec::CodecLimits;
use crate::exchange::ExchangeLimits;
use crate::key::{Name, Shards};

/// How samples become segments and segments become old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRules {
    /// `relay.shards`: a power of two.
    pub shards: Shards,
    /// `relay.destinations`: who is to have everything.
    pub destinations: Vec<Name>,
    /// Bounds of a block and of a segment.
    pub codec: CodecLimits,
    /// Bounds of what waits in memory.
    pub exchange: ExchangeLimits,
    /// `relay.segment_samples`: a segment with so many samples is closed.
    pub segment_samples: usize,
    /// `relay.segment_waiting_bytes`: a segment with so many bytes, not packed, is closed.
    pub segment_waiting_bytes: usize,
    /// `relay.linger`: how long samples wait for others in their segment.
    pub linger: Span,
    /// `relay.linger_awaited`: the same while somebody waits for an answer.
    pub linger_awaited: Span,
    /// `relay.promise_max`: how long somebody waits for an answer.
    pub promise_max: Span,
    /// `relay.tickets_max`: how many may wait for an answer.
    pub tickets_max: usize,
    /// `relay.block_bytes_max`: a block with so many bytes of segments is followed by another.
    pub block_bytes_max: u64,
    /// `relay.block_age_max`: and so is one that is so old.
    pub block_age_max: Span,
    /// `relay.key_frame_bytes`: a file gets a snapshot of a shard after so many bytes of it.
    pub key_frame_bytes: u64,
    /// `relay.key_frame_age`: and after so long.
    pub key_frame_age: Span,
}

impl Default for DeliveryRules {
    fn default() -> Self {
        Self {
            shards: Shards::ONE,
            destinations: Vec::new(),
            codec: CodecLimits::default(),
            exchange: ExchangeLimits::default(),
            segment_samples: 40_000,
            segment_waiting_bytes: 4 << 20,
            linger: Span::from_secs(5),
            linger_awaited: Span::from_millis(50),
            promise_max: Span::from_secs(30),
            tickets_max: 10_000,
            block_bytes_max: 64 << 20,
            block_age_max: Span::from_secs(2 * 3600),
            key_frame_bytes: 4 << 20,
            key_frame_age: Span::from_secs(600),
        }
    }
}
