//! What an agent was told about how to deliver.

use handoff_types::Span;
use thiserror::Error;

use crate::ack::DESTINATIONS_MAX;
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

/// Rules that nobody can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("relay: {0}")]
pub struct BadRules(&'static str);

impl DeliveryRules {
    /// Whether the rules make sense together. A configuration is checked before anything begins.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn check(&self) -> Result<(), BadRules> {
        let mut names = self.destinations.clone();
        names.sort();
        let checks = [
            (names.len() > DESTINATIONS_MAX, "there are more than 64 destinations"),
            (
                names.windows(2).any(|pair| matches!(pair, [one, next] if one == next)),
                "a destination is named twice",
            ),
            (self.segment_samples == 0, "a segment needs room for a sample"),
            (
                self.segment_samples > self.codec.samples_max,
                "segment_samples is above segment_samples_max",
            ),
            (self.exchange.bytes_max == 0, "the exchange needs room for a segment"),
            (self.exchange.window == Span::ZERO, "the window is no time at all"),
            (self.linger_awaited > self.linger, "linger_awaited is longer than linger"),
            (self.block_age_max == Span::ZERO, "a block needs time to live"),
        ];
        match checks.into_iter().find(|(wrong, _)| *wrong) {
            Some((_, words)) => Err(BadRules(words)),
            None => Ok(()),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::DeliveryRules;
    use crate::key::Name;

    fn rules(destinations: usize) -> DeliveryRules {
        let name = |n| Name::try_from(&*format!("d{n}")).unwrap();
        let destinations = (0..destinations).map(name).collect();
        DeliveryRules { destinations, ..DeliveryRules::default() }
    }

    #[test]
    fn defaults_make_sense_and_doubled_or_too_many_destinations_do_not() {
        assert_eq!(rules(64).check(), Ok(()));
        assert!(rules(65).check().is_err());
        let mut doubled = rules(2);
        doubled.destinations[1] = doubled.destinations[0].clone();
        let words = doubled.check().map_err(|bad| bad.to_string());
        assert_eq!(words, Err("relay: a destination is named twice".to_owned()));
    }
}
