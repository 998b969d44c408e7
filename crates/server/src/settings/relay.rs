//! `[relay]`: the receiver. The agent has a file of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use handoff_relay::codec::CodecLimits;
use handoff_relay::{PaceRules, ReceiverLimits};
use handoff_types::Span;

use super::loopback;
use crate::rooms::streams::Handing;

/// The topic where nobody says what becomes of samples.
const TOPIC: &str = "metrics";

/// Places that a topic remembers of a producer. What is above its mark is new, so one is enough; a few
/// more are cheap and tell a repetition from another message.
const REMEMBERED: u32 = 8;

/// `[relay]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// `relay.enabled`
    pub enabled: bool,
    /// `relay.listen`: where agents come to.
    pub listen: SocketAddr,
    /// `relay.tls`: inside TLS, with the certificate of `[server]`.
    pub tls: bool,
    /// `relay.topic`: the topic that samples go to. None: to `metrics`, unless they go elsewhere.
    pub topic: Option<String>,
    /// `relay.topic_partitions`: partitions of a topic that is made for them.
    pub topic_partitions: u32,
    /// `relay.message_bytes_max`: a segment as a message of a topic.
    pub message_bytes_max: usize,
    /// `relay.marks_max`: blocks and shards of which a topic knows how far they are.
    pub marks_max: usize,
    /// `relay.mark_hours`: how long at least it knows.
    pub mark_kept: Span,
    /// `relay.write_url`: where samples go by remote write.
    pub write_url: Option<String>,
    /// `relay.write_token_file`: a file with the token for it.
    pub write_token_file: Option<PathBuf>,
    /// `relay.write_ca_file`: authorities to believe besides the public ones, PEM.
    pub write_ca_file: Option<PathBuf>,
    /// `relay.write_secs_max`: how long one request to it may take.
    pub write_time_max: Duration,
    /// `relay.callback`: samples go to a program that connects with the SDK.
    pub callback: bool,
    /// `relay.callback_secs_max`: how long it may take for one segment.
    pub callback_time_max: Duration,
    /// `relay.sessions_max`: connections at once.
    pub sessions_max: usize,
    /// `relay.blocks_max`: blocks whose decoders are kept.
    pub blocks_max: usize,
    /// `relay.block_idle_secs`: how long those of a block that nobody sends are.
    pub block_idle: Duration,
    /// `relay.agents_max`: agents that are shown.
    pub agents_max: usize,
    /// `relay.series_max`: series of one shard of a block.
    pub series_max: u32,
    /// `relay.frame_bytes_max`: the largest message of an agent.
    pub frame_bytes_max: usize,
    /// `relay.credit_bytes`: how much of each shard may be on its way.
    pub credit_bytes: usize,
    /// `relay.intake_bytes_max`: messages that are being read, of all agents.
    pub intake_bytes_max: usize,
    /// `relay.pending_bytes_max`: what was read and is on its way to where it goes.
    pub pending_bytes_max: usize,
    /// `relay.backlog_bytes_per_sec`: what is taken of backlogs however little is new.
    pub backlog_bytes_per_sec: u64,
    /// `relay.silence_secs_max`: how long an agent may say nothing.
    pub silence_max: Duration,
    /// `relay.frame_secs_max`: how long one message may take to come.
    pub frame_time_max: Duration,
    /// `relay.retry_secs`: when agents come again with what could not be taken.
    pub retry_after: Duration,
}

impl Relay {
    /// The topic that samples go to, if they go to one.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        let go_elsewhere = self.write_url.is_some() || self.callback;
        self.topic.as_deref().or_else(|| (!go_elsewhere).then_some(TOPIC))
    }

    /// Bounds of a conversation.
    pub(crate) fn limits(&self) -> ReceiverLimits {
        let small = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        ReceiverLimits {
            codec: CodecLimits { series_max: self.series_max, ..CodecLimits::default() },
            frame_bytes_max: small(self.frame_bytes_max),
            credit: small(self.credit_bytes),
        }
    }

    /// How backlogs are paced.
    pub(crate) fn pace(&self) -> PaceRules {
        PaceRules { floor: self.backlog_bytes_per_sec, ..PaceRules::default() }
    }

    /// What the topic allows.
    pub(crate) fn handing(&self) -> Handing {
        Handing {
            message_bytes_max: self.message_bytes_max,
            producers_max: self.marks_max,
            producer_idle: self.mark_kept,
            remembered_max: REMEMBERED,
        }
    }
}

impl Default for Relay {
    fn default() -> Self {
        let limits = ReceiverLimits::default();
        let secs = Duration::from_secs;
        Self {
            enabled: true,
            listen: loopback(7071),
            tls: false,
            topic: None,
            topic_partitions: 4,
            message_bytes_max: 8 << 20,
            marks_max: 200_000,
            mark_kept: Span::from_secs(192 * 3600),
            write_url: None,
            write_token_file: None,
            write_ca_file: None,
            write_time_max: secs(30),
            callback: false,
            callback_time_max: secs(30),
            sessions_max: 4_096,
            blocks_max: 4_096,
            block_idle: secs(900),
            agents_max: 10_000,
            series_max: limits.codec.series_max,
            frame_bytes_max: limits.frame_bytes_max as usize,
            credit_bytes: limits.credit as usize,
            intake_bytes_max: 256 << 20,
            pending_bytes_max: 256 << 20,
            backlog_bytes_per_sec: PaceRules::default().floor,
            silence_max: secs(60),
            frame_time_max: secs(300),
            retry_after: secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Relay;

    #[test]
    fn samples_go_to_a_topic_unless_they_go_elsewhere() {
        let url = || Some("http://127.0.0.1:9090/api/v1/write".to_owned());
        let with = |topic: Option<&str>, write_url| Relay {
            topic: topic.map(str::to_owned),
            write_url,
            ..Relay::default()
        };
        assert_eq!(with(None, None).topic(), Some("metrics"));
        assert_eq!(with(None, url()).topic(), None);
        assert_eq!(with(Some("edge"), url()).topic(), Some("edge"));
        assert_eq!(Relay { callback: true, ..with(None, None) }.topic(), None);
        assert_eq!(Relay { callback: true, ..with(Some("edge"), None) }.topic(), Some("edge"));
    }
}
