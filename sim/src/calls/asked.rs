//! What is asked of the calls room, with its answer and what everybody is told.

use std::fmt;

use handoff_calls::{
    Ask, Failure, Late, Notice, Outcome, Refusal, Reply, State, TimedOut, encode_aggregate,
};
use handoff_types::Now;

/// Something that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When it was decided.
    pub(super) now: Now,
    pub(super) ask: Ask,
    pub(super) reply: Reply,
    pub(super) notices: Vec<Notice>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", words(&self.ask), self.reply)?;
        self.notices.iter().try_for_each(|notice| write!(f, "; {}", said(notice)))
    }
}

/// A hash of what a crash leaves of a state (FNV-1a).
pub(super) fn hash(state: &State) -> u64 {
    let stored = state.stored();
    let mut bytes = Vec::new();
    for key in stored.keys_from(handoff_calls::Key::MIN_BYTES) {
        if let Some(aggregate) = stored.aggregate(&key) {
            encode_aggregate(&aggregate, &mut bytes);
        }
    }
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The name of a kind of question.
pub(super) fn kind(ask: &Ask) -> &'static str {
    match ask {
        Ask::Init { .. } => "init",
        Ask::Ping { .. } => "ping",
        Ask::Stop { .. } => "stop",
        Ask::Away { .. } => "away",
        Ask::Request(_) => "request",
        Ask::Accept { .. } => "accept",
        Ask::Heartbeat { .. } => "heartbeat",
        Ask::Respond { result: Ok(_), .. } => "answer",
        Ask::Respond { .. } => "fail",
        Ask::Acknowledge { .. } => "acknowledge",
        Ask::Cancel { .. } => "cancel",
        Ask::Requeue { .. } => "requeue",
        Ask::Purge { .. } => "purge",
        Ask::SetChannel { .. } => "set channel",
        Ask::UnsetChannel { .. } => "unset channel",
        Ask::Opened => "opened",
        Ask::Tick => "tick",
    }
}

/// A question in words.
pub(super) fn words(ask: &Ask) -> String {
    let kind = kind(ask);
    match ask {
        Ask::Init { client, serves, .. } => {
            let serves = serves.iter().map(|one| format!(" {}×{}", one.channel, one.concurrency));
            format!("{kind} {client}{}", serves.collect::<String>())
        }
        Ask::Ping { client } | Ask::Stop { client } | Ask::Away { client } => {
            format!("{kind} {client}")
        }
        Ask::Request(new) => {
            let key = new.key.as_ref().map(|key| format!(" key {key}")).unwrap_or_default();
            format!("{kind} {} to {}, {} bytes{key}", new.id, new.channel, new.params.len())
        }
        Ask::Accept { client, call, fence }
        | Ask::Heartbeat { client, call, fence }
        | Ask::Respond { client, call, fence, .. } => format!("{kind} {call} by {client}, {fence}"),
        Ask::Acknowledge { client, call } => format!("{kind} {call} by {client}"),
        Ask::Cancel { call, .. } | Ask::Requeue { call } => format!("{kind} {call}"),
        Ask::Purge { channel, .. }
        | Ask::SetChannel { channel, .. }
        | Ask::UnsetChannel { channel } => format!("{kind} {channel}"),
        Ask::Opened | Ask::Tick => kind.to_owned(),
    }
}

/// Why nothing changed, or a result did not count.
pub(super) fn why(reply: &Reply) -> Option<&'static str> {
    Some(match reply {
        Reply::Refused(Refusal::NoClient(_)) => "no client",
        Reply::Refused(Refusal::NoCall(_)) => "no call",
        Reply::Refused(Refusal::NotYours(_)) => "not yours",
        Reply::Refused(Refusal::NotDead(_)) => "not dead",
        Reply::Refused(Refusal::IdReused(_)) => "id reused",
        Reply::Refused(Refusal::KeyReused(_)) => "key reused",
        Reply::Refused(Refusal::Full { .. }) => "full",
        Reply::Refused(Refusal::TooLarge { .. }) => "too large",
        Reply::Refused(_) => "invalid",
        Reply::Taken(Err(Late::Unknown)) => "late: unknown",
        Reply::Taken(Err(Late::Over)) => "late: over",
        Reply::Taken(Err(Late::Fenced)) => "late: fenced",
        Reply::Held(false) => "not held",
        _ => return None,
    })
}

/// The name of a kind of notice.
pub(super) fn told(notice: &Notice) -> &'static str {
    match notice {
        Notice::Pong { .. } => "a",
        Notice::Offer(offer) if offer.attempt > 1 => "b, again",
        Notice::Offer(_) => "b",
        Notice::Registered { .. } => "c",
        Notice::Held { held: true, .. } => "d, held",
        Notice::Held { .. } => "d, not held",
        Notice::Ended { outcome, .. } => match outcome {
            Outcome::Answer(_) => "e: answer",
            Outcome::Failed(Failure::Handler(_)) => "e: failed",
            Outcome::Failed(Failure::ExecutorLost) => "e: executor lost",
            Outcome::Failed(Failure::NoConsumer) => "e: no consumer",
            Outcome::TimedOut(TimedOut::InQueue) => "e: in the queue",
            Outcome::TimedOut(TimedOut::Deadline) => "e: deadline",
            Outcome::Cancelled => "e: cancelled",
        },
        Notice::Acknowledged { .. } => "f",
        Notice::Taken { taken: true, .. } => "g, taken",
        Notice::Taken { .. } => "g, late",
        Notice::Stopped { .. } => "h",
        Notice::Cancelled { .. } => "cancelled",
    }
}

/// A notice in words.
fn said(notice: &Notice) -> String {
    let told = told(notice);
    match notice {
        Notice::Offer(offer) => format!("{told} {} to {}, {}", offer.call, offer.to, offer.fence),
        Notice::Ended { call, .. } | Notice::Registered { call, .. } => format!("{told} {call}"),
        _ => told.to_owned(),
    }
}
