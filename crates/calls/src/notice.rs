//! What clients are told: the eight events of the protocol, and that a call is wanted no more.
//!
//! Each is told once what it rests on is durable. Whoever has lost a connection meanwhile hears it
//! again: a caller when it asks for the call again, a consumer when it introduces itself.

use bytes::Bytes;
use handoff_types::{Span, Steady};

use crate::{CallId, ChannelName, ClientId, Outcome, TraceParent};

/// Something that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `a`: the way to the client and back is alive.
    Pong {
        /// Who is told.
        to: ClientId,
    },
    /// `b`: there is a call for a consumer.
    Offer(Box<Offer>),
    /// `c`: a call is registered.
    Registered {
        /// Its caller.
        to: ClientId,
        /// Which.
        call: CallId,
    },
    /// `d`: whether a call is the consumer's under this fence: it may begin it, or go on.
    Held {
        /// The consumer.
        to: ClientId,
        /// Which.
        call: CallId,
        /// The fence it named.
        fence: u64,
        /// If not, it drops it.
        held: bool,
    },
    /// `e`: a call is over.
    Ended {
        /// Its caller; none if somebody comes and asks.
        to: Option<ClientId>,
        /// Which.
        call: CallId,
        /// How.
        outcome: Outcome,
        /// Whose result it is, if somebody ran it.
        executor: Option<ClientId>,
    },
    /// `f`: it is known that the caller has the outcome.
    Acknowledged {
        /// The caller.
        to: ClientId,
        /// Of which.
        call: CallId,
    },
    /// `g`: a result is stored, or was too late.
    Taken {
        /// The consumer.
        to: ClientId,
        /// Of which.
        call: CallId,
        /// The fence it named.
        fence: u64,
        /// If not, somebody else's counts.
        taken: bool,
    },
    /// `h`: the client is told of no more calls.
    Stopped {
        /// Who.
        to: ClientId,
    },
    /// A call that a consumer has is over without it: it is to stop.
    Cancelled {
        /// The consumer.
        to: ClientId,
        /// Which.
        call: CallId,
        /// Of which offer.
        fence: u64,
    },
}

/// A call for a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The consumer.
    pub to: ClientId,
    /// Which call.
    pub call: CallId,
    /// Where it went.
    pub channel: ChannelName,
    /// Whose it is.
    pub caller: Option<ClientId>,
    /// What the handler gets.
    pub params: Bytes,
    /// The fencing token: later offers of the call have larger ones.
    pub fence: u64,
    /// How often it will have been begun with this one.
    pub attempt: u16,
    /// When the time of the whole call is over.
    pub deadline: Steady,
    /// How long the executor may be silent.
    pub lease: Span,
    /// Where it stands in somebody's trace.
    pub trace: Option<TraceParent>,
    /// It is the consumer's already: it begins without accepting.
    pub held: bool,
}

impl Notice {
    /// Who is told; none if somebody comes and asks.
    #[must_use]
    pub fn to(&self) -> Option<ClientId> {
        match self {
            Self::Ended { to, .. } => *to,
            Self::Offer(offer) => Some(offer.to),
            Self::Pong { to }
            | Self::Registered { to, .. }
            | Self::Held { to, .. }
            | Self::Acknowledged { to, .. }
            | Self::Taken { to, .. }
            | Self::Stopped { to }
            | Self::Cancelled { to, .. } => Some(*to),
        }
    }
}
