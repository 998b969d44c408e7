//! What is asked of the room.

use bytes::Bytes;
use handoff_types::Span;

use crate::{
    CallId, ChannelName, ChannelSettings, ClientId, HandlerError, IdempotencyKey, Serves, State,
    TraceParent,
};

/// Something that is asked, and the rules of the house at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is asked.
    pub ask: Ask,
    /// The operator's settings.
    pub rules: Rules,
}

/// The operator's settings, as far as decisions depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The settings of a channel that nobody described.
    pub channel: ChannelSettings,
    /// `calls.body_bytes_max`: what a call or its answer takes.
    pub body_bytes_max: u64,
    /// `calls.bytes_max`: all bodies together.
    pub bytes_max: u64,
    /// `calls.calls_max`: calls that are known, those that are over included.
    pub calls_max: u64,
    /// `calls.queue_max`: calls of one channel that wait.
    pub queue_max: u64,
    /// `calls.channels_max`: channels that have settings, calls or consumers.
    pub channels_max: u64,
    /// `calls.clients_max`: clients that are known.
    pub clients_max: u64,
    /// `calls.client_timeout_ms`: how long a client may be silent.
    pub client_timeout: Span,
    /// `calls.offer_timeout_ms`: how long a consumer has to accept a call.
    pub offer_timeout: Span,
    /// `calls.call_secs_max`: the time of a call that names none, and the longest it can name.
    pub call_time_max: Span,
    /// `calls.kept_secs`: how long a call that is over is known.
    pub kept: Span,
    /// `calls.key_kept_secs`: the same for one with an idempotency key.
    pub key_kept: Span,
    /// `calls.kept_max`: calls that are over and that nobody needs any more; the oldest are forgotten
    /// when there are more.
    pub kept_max: u64,
    /// `calls.dead_kept_secs`: how long a dead letter is kept.
    pub dead_kept: Span,
    /// `calls.dead_max`: dead letters of one channel; the oldest go when there are more.
    pub dead_max: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            channel: ChannelSettings::default(),
            body_bytes_max: 1 << 20,
            bytes_max: 256 << 20,
            calls_max: 1_000_000,
            queue_max: 100_000,
            channels_max: 10_000,
            clients_max: 10_000,
            client_timeout: Span::from_secs(10),
            offer_timeout: Span::from_secs(5),
            call_time_max: Span::from_secs(86_400),
            kept: Span::from_secs(600),
            key_kept: Span::from_secs(86_400),
            kept_max: 10_000,
            dead_kept: Span::from_secs(7 * 86_400),
            dead_max: 10_000,
        }
    }
}

/// What is asked. Whoever asks is known, and may: the shell has checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `init`: a client is here, for the first time or again.
    Init {
        /// What it calls itself.
        client: ClientId,
        /// For people.
        name: Box<str>,
        /// The channels it serves.
        serves: Vec<Serves>,
        /// It begins whatever it is told of at once, so nobody waits for it to accept.
        eager: bool,
    },
    /// `ping`: it is still here.
    Ping {
        /// Who.
        client: ClientId,
    },
    /// `stop`: it wants no more calls. Those it runs it will answer.
    Stop {
        /// Who.
        client: ClientId,
    },
    /// Its connection is gone.
    Away {
        /// Who.
        client: ClientId,
    },
    /// `request`
    Request(Box<NewCall>),
    /// `request_ack`: a consumer begins a call.
    Accept {
        /// Who.
        client: ClientId,
        /// What.
        call: CallId,
        /// The fencing token that it was offered with.
        fence: u64,
    },
    /// It is at work on a call.
    Heartbeat {
        /// Who.
        client: ClientId,
        /// On what.
        call: CallId,
        /// The fencing token that it was offered with.
        fence: u64,
    },
    /// `response`
    Respond {
        /// Who.
        client: ClientId,
        /// To what.
        call: CallId,
        /// The fencing token that it was offered with.
        fence: u64,
        /// What came of it.
        result: Result<Bytes, Failing>,
    },
    /// `response_ack`: a caller has an outcome.
    Acknowledge {
        /// Who.
        client: ClientId,
        /// Of what.
        call: CallId,
    },
    /// Somebody wants a call no more.
    Cancel {
        /// Which.
        call: CallId,
        /// The client that says so, which must be its caller; none for an administrator.
        by: Option<ClientId>,
    },
    /// A dead letter is called again, under an id of its own and for nobody.
    Requeue {
        /// Which.
        call: CallId,
    },
    /// Dead letters of a channel are not wanted any more, the oldest first.
    Purge {
        /// Of which channel.
        channel: ChannelName,
        /// Only this one.
        only: Option<CallId>,
    },
    /// A channel is described.
    SetChannel {
        /// Which.
        channel: ChannelName,
        /// How.
        settings: ChannelSettings,
    },
    /// A channel is as nobody described it.
    UnsetChannel {
        /// Which.
        channel: ChannelName,
    },
    /// The room is open again after a restart.
    Opened,
    /// Time has passed, or calls can be offered.
    Tick,
}

/// A call that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCall {
    /// What its caller calls it.
    pub id: CallId,
    /// Who is told of its end; none if somebody comes and asks.
    pub caller: Option<ClientId>,
    /// Where it goes.
    pub channel: ChannelName,
    /// What the handler gets.
    pub params: Bytes,
    /// Calls of the channel with the same key are the same call.
    pub key: Option<IdempotencyKey>,
    /// The time of the whole call.
    pub timeout: Option<Span>,
    /// The time until it is begun, instead of the channel's.
    pub queue_timeout: Option<Span>,
    /// It ends at once if nobody is there to run it, whatever the channel says.
    pub only_with_consumer: bool,
    /// Where it stands in somebody's trace.
    pub trace: Option<TraceParent>,
}

impl Ask {
    /// Whether all that it leads to rests on what its client was told before, or on what lives in memory
    /// only: then, if nothing of it is written, nobody waits for the disk.
    #[must_use]
    pub fn is_light(&self, state: &State) -> bool {
        match self {
            // It is told again what it has, and that may not be on disk yet.
            Self::Init { client, .. } => state.held_by(*client).next().is_none(),
            Self::Ping { .. }
            | Self::Stop { .. }
            | Self::Away { .. }
            | Self::Accept { .. }
            | Self::Heartbeat { .. }
            | Self::Acknowledge { .. } => true,
            Self::Respond { call, .. } => state.call(*call).is_some_and(|call| !call.durable),
            _ => false,
        }
    }
}

/// A handler's error, and what is to be done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// What went wrong.
    pub error: HandlerError,
    /// It would fail again: the caller is told at once.
    pub terminal: bool,
    /// When it is worth another attempt, if the handler knows.
    pub retry_after: Option<Span>,
}
