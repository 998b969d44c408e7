//! The words of the WebSocket protocol, for whoever serves it and whoever speaks it.
//!
//! A frame is a JSON object of one member, whose name says what the frame is:
//! `{"request": {"id": …, "channel": …, "params": …}}`. Clients say [`Up`], the server says [`Down`].
//! A text message is one frame, or an array of several if both sides said that they read those ([`Many`]).
//! Whoever reads passes over members it does not know, so that frames can grow.
//!
//! `B` is a JSON value on its way: what it is, is the choice of whoever reads or writes it.

mod writing;

use serde::{Deserialize, Serialize};

pub use self::writing::Frame;

use crate::{CallId, ChannelName, ClientId, IdempotencyKey, TraceParent};

/// The version of the protocol. It is part of the name of the subprotocol.
pub const VERSION: u32 = 1;

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "handoff.calls.v1";

/// Frames in one message, at most.
pub const FRAMES_MAX: usize = 128;

/// The bytes of a message of several frames, about: what is larger travels alone.
pub const MANY_BYTES: usize = 8 << 10;

/// Several frames on their way out: as many as fit become one message, in their order.
#[derive(Debug, Default)]
pub struct Many {
    text: Vec<u8>,
    frames: usize,
}

impl Many {
    /// Whether a frame of so many bytes goes with those that are here.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.frames == 0
            || (self.frames < FRAMES_MAX && self.text.len().saturating_add(bytes) < MANY_BYTES)
    }

    /// Puts a frame behind the others.
    pub fn push(&mut self, frame: &impl Frame) {
        self.begin();
        frame.write(&mut self.text);
    }

    /// Puts a frame that is text already behind the others.
    pub fn push_text(&mut self, frame: &[u8]) {
        self.begin();
        self.text.extend_from_slice(frame);
    }

    fn begin(&mut self) {
        self.make_room();
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        self.frames += 1;
    }

    /// Most messages fit in it, so that they are not moved while they grow.
    fn make_room(&mut self) {
        if self.text.is_empty() {
            self.text.reserve(MANY_BYTES / 4);
        }
    }

    /// All of it as one message; none if there is nothing. One frame is not an array.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let frames = std::mem::take(&mut self.frames);
        let mut text = std::mem::take(&mut self.text);
        match frames {
            0 => None,
            1 => {
                text.remove(0);
                Some(text)
            }
            _ => {
                text.push(b']');
                Some(text)
            }
        }
    }
}

/// Whether a message is an array of frames.
#[must_use]
pub fn is_many(text: &[u8]) -> bool {
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up<B> {
    /// It is here. The first frame of every connection, answered by `a`.
    Init(Init),
    /// Whether the way there and back is alive, answered by `a`.
    Ping(Ping),
    /// A call, answered by `c`, and by `e` when it is over.
    Request(Request<B>),
    /// A consumer begins a call that it was told of, answered by `d`.
    RequestAck(Fenced),
    /// It is at work on a call, answered by `d`.
    Heartbeat(Fenced),
    /// What came of a call, answered by `g`.
    Response(Response<B>),
    /// A caller has an outcome, answered by `f`.
    ResponseAck(Named),
    /// A call is wanted no more, answered by its `e`.
    Cancel(Named),
    /// The client wants no more calls, answered by `h`.
    Stop(Empty),
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Down<B> {
    /// The way is alive.
    A(Pong),
    /// There is a call.
    B(Offer<B>),
    /// A call is registered.
    C(Named),
    /// Whether a call is the consumer's: it may begin it, or go on.
    D(Held),
    /// A call is over.
    E(Ended<B>),
    /// It is known that the caller has the outcome.
    F(Named),
    /// A result is stored, or was too late.
    G(Taken),
    /// The client is told of no more calls.
    H(Empty),
    /// A call that a consumer has is over without it: it is to stop.
    Cancelled(Fenced),
}

/// A client introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Init {
    /// A UUID that it keeps for as long as its process lives.
    pub client: ClientId,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The channels it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<Serves>,
    /// It reads messages of several frames.
    #[serde(default, skip_serializing_if = "is_false")]
    pub many: bool,
    /// It begins what it is told of at once, where calls may be begun twice ([`Offer::held`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub eager: bool,
}

/// A channel that a client serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Serves {
    /// Which.
    pub channel: ChannelName,
    /// How many of its calls at once; 1 if it does not say.
    #[serde(default = "one")]
    pub concurrency: u32,
}

const fn one() -> u32 {
    1
}

/// Whether the way is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ping {
    /// Comes back in the answer.
    #[serde(default)]
    pub n: u64,
}

/// The way is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pong {
    /// Of the ping; 0 after `init`.
    #[serde(default)]
    pub n: u64,
    /// How often the server wants to hear a ping, and for how long its answer is waited. After
    /// `init` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_interval_ms: Option<u64>,
    /// See above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_timeout_ms: Option<u64>,
    /// What a call or its answer takes at most. After `init` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes_max: Option<u64>,
    /// The server reads messages of several frames. After `init` only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub many: bool,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<B> {
    /// A UUID of its own. Sent again under the same id, it is the same call.
    pub id: CallId,
    /// Where it goes.
    pub channel: ChannelName,
    /// What the handler gets; `null` if it is left out.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub params: Option<B>,
    /// Calls of the channel with the same key are the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// The time of the whole call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The time until it is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// It ends at once if nobody is there to run it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_with_consumer: bool,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

const fn none<B>() -> Option<B> {
    None
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A call, and which of its offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fenced {
    /// Which call.
    pub id: CallId,
    /// The fencing token of the offer.
    pub fence: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Which.
    pub id: CallId,
}

/// Nothing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// What came of a call: an error if there is one, else the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Response<B> {
    /// Which call.
    pub id: CallId,
    /// The fencing token of the offer.
    pub fence: u64,
    /// The answer; `null` if it is left out.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub answer: Option<B>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// The error is for good: the call is not tried again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminal: bool,
    /// When the call is worth another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallError {
    /// What kind of error it is.
    #[serde(default)]
    pub name: Box<str>,
    /// What happened.
    #[serde(default)]
    pub message: Box<str>,
    /// For programs.
    #[serde(default)]
    pub code: Box<str>,
}

impl From<crate::HandlerError> for CallError {
    fn from(crate::HandlerError { name, message, code }: crate::HandlerError) -> Self {
        Self { name, message, code }
    }
}

impl From<CallError> for crate::HandlerError {
    fn from(CallError { name, message, code }: CallError) -> Self {
        Self { name, message, code }
    }
}

/// There is a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer<B> {
    /// Which.
    pub id: CallId,
    /// Where it went.
    pub channel: ChannelName,
    /// Whose it is; none if it came over plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<ClientId>,
    /// What the handler gets.
    pub params: B,
    /// The fencing token: later offers of the call have larger ones.
    pub fence: u64,
    /// How often the call will have been begun with this one.
    pub attempt: u16,
    /// How much time is left of the whole call.
    pub deadline_ms: u64,
    /// How long the consumer may be silent about it.
    pub lease_ms: u64,
    /// It is the consumer's already: it begins, and does not say `request_ack`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// Whether a call is the consumer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// Which call.
    pub id: CallId,
    /// The fencing token it named.
    pub fence: u64,
    /// If not, it drops the call.
    pub held: bool,
}

/// A call is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended<B> {
    /// Which.
    pub id: CallId,
    /// 0 an answer, 2 a timeout, 1 everything else.
    pub status: u8,
    /// The answer, if `status` is 0.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub answer: Option<B>,
    /// What went wrong, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// Whose result it is, if somebody ran the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ClientId>,
}

/// A result is stored, or was too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// Of which call.
    pub id: CallId,
    /// The fencing token it named.
    pub fence: u64,
    /// If not, somebody else's result counts, or the call is over.
    pub taken: bool,
}
