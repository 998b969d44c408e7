//! The eight events as bytes, in the three layouts that peers speak.
//!
//! An event is published on `origami.` + one letter + the id of the node it is for (+ the name of the
//! channel, for `b`). Ids are UUIDs as text, 36 bytes. What stands in the message:
//!
//! ```text
//!     Seed (ours)                       Early (1.0.x)                     Swapped (1.1 and later)
//!  a  1                                 as Seed                           as Seed
//!  b  request sender params             as Seed                           request
//!  c  request                           as Seed                           as Seed
//!  d  flag request                      as Seed                           1 request sender params
//!                                                                         0 request
//!  e  digit request answer              digit request executor answer     request
//!     2 request                         2 request                         request
//!  f  request                           as Seed                           digit request executor answer
//!                                                                         2 request
//!  g  request                           as Seed                           as Seed
//!  h  1                                 as Seed                           as Seed
//! ```
//!
//! There is no mark of the layout in a message. It follows from the receiving node's registered
//! program and version ([`Layout::of`]); a reader takes all three, because scripts of other peers
//! publish to it too. They cannot be mistaken for one another: `b`, `d`, `e` and `f` differ in length,
//! and the executor of Early's `e` has the shape of a UUID, which no JSON text begins with.

use bytes::Bytes;
use thiserror::Error;

/// How long an id is.
pub const ID_BYTES: usize = 36;

/// Stands for the executor of an answer that nobody executed.
pub const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// What every channel of events begins with.
const PREFIX: &str = "origami.";

/// Which bytes a node understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Bodies ride on the offer and on the answer's notice. Ours.
    Seed,
    /// The same, and the notice names the executor. NodeJS peers below 1.1.
    Early,
    /// Bodies ride on the confirmations. NodeJS peers from 1.1 on.
    Swapped,
}

impl Layout {
    /// The layout of a node by what it registered as. A NodeJS peer of unknown version is taken for a
    /// new one.
    #[must_use]
    pub fn of(client: &str, version: &str) -> Self {
        if client != "NodeJS" {
            return Self::Seed;
        }
        let mut numbers = version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (1, 1) => Self::Early,
            _ => Self::Swapped,
        }
    }
}

/// How a request ended, as one digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digit {
    /// `0`: answered.
    Answer,
    /// `1`: any error but the next.
    Error,
    /// `2`: nobody began it in time.
    Timeout,
}

impl Digit {
    /// The digit on the wire.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Answer => "0",
            Self::Error => "1",
            Self::Timeout => "2",
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'0' => Some(Self::Answer),
            b'1' => Some(Self::Error),
            b'2' => Some(Self::Timeout),
            _ => None,
        }
    }
}

/// A UUID as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(Box<str>);

impl Id {
    /// An id, if the text has the length of one and nothing but visible ASCII. Peers cut messages by
    /// length, so that is all that must hold.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = text.len() == ID_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request's parameters and who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Who asks.
    pub sender: Id,
    /// JSON text.
    pub params: Bytes,
}

/// How a request ended, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub digit: Digit,
    /// Who did it; not in every layout, and nobody if it timed out.
    pub executor: Option<Id>,
    /// JSON text; nothing if it timed out.
    pub answer: Bytes,
}

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `a`: the ping came through.
    Pong,
    /// `b`: a request is offered.
    Offered {
        /// Which.
        request: Id,
        /// In which channel.
        channel: String,
        /// What it is, if that rides along.
        work: Option<Work>,
    },
    /// `c`: the request is registered.
    Registered {
        /// Which.
        request: Id,
    },
    /// `d`: whether the request is the node's now.
    Accepted {
        /// Which.
        request: Id,
        /// It is.
        granted: bool,
        /// What it is, if that rides along.
        work: Option<Work>,
    },
    /// `e`: the request has ended.
    Ended {
        /// Which.
        request: Id,
        /// How, if that rides along.
        ended: Option<Ended>,
    },
    /// `f`: the end is known to have arrived.
    Settled {
        /// Which.
        request: Id,
        /// How it ended, if that rides along.
        ended: Option<Ended>,
    },
    /// `g`: the answer is stored.
    Stored {
        /// To which.
        request: Id,
    },
    /// `h`: no more requests will be offered.
    Stopped,
}

/// A message that is no event.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoEvent {
    /// The channel is none of the eight.
    #[error("{0:?} is no channel of events")]
    Channel(String),
    /// The message is too short, or has something else where an id or a digit must stand.
    #[error("a message of kind {kind} and {length} bytes has none of the known layouts")]
    Message {
        /// The letter.
        kind: char,
        /// How long it is.
        length: usize,
    },
}

impl Event {
    /// The letter.
    #[must_use]
    pub const fn kind(&self) -> char {
        match self {
            Self::Pong => 'a',
            Self::Offered { .. } => 'b',
            Self::Registered { .. } => 'c',
            Self::Accepted { .. } => 'd',
            Self::Ended { .. } => 'e',
            Self::Settled { .. } => 'f',
            Self::Stored { .. } => 'g',
            Self::Stopped => 'h',
        }
    }

    /// The channel it is published on for this node.
    #[must_use]
    pub fn channel(&self, node: &Id) -> String {
        let channel = match self {
            Self::Offered { channel, .. } => channel,
            _ => "",
        };
        format!("{PREFIX}{}{node}{channel}", self.kind())
    }

    /// The message for a node of this layout. What the layout has no place for is left out.
    #[must_use]
    pub fn message(&self, layout: Layout) -> Vec<u8> {
        let swapped = layout == Layout::Swapped;
        let mut bytes = Vec::new();
        match self {
            Self::Pong | Self::Stopped => bytes.push(b'1'),
            Self::Registered { request } | Self::Stored { request } => put(request, &mut bytes),
            Self::Offered { request, work, .. } => {
                put(request, &mut bytes);
                put_work(work.as_ref().filter(|_| !swapped), &mut bytes);
            }
            Self::Accepted { request, granted, work } => {
                bytes.push(if *granted { b'1' } else { b'0' });
                put(request, &mut bytes);
                put_work(work.as_ref().filter(|_| swapped && *granted), &mut bytes);
            }
            Self::Ended { request, ended } => {
                let names_executor = layout == Layout::Early;
                put_end(request, ended.as_ref().filter(|_| !swapped), names_executor, &mut bytes);
            }
            Self::Settled { request, ended } => {
                put_end(request, ended.as_ref().filter(|_| swapped), true, &mut bytes);
            }
        }
        bytes
    }

    /// Reads a message in any of the three layouts; also gives whom it is for.
    ///
    /// # Errors
    /// [`NoEvent`]
    pub fn read(channel: &str, message: &Bytes) -> Result<(Id, Self), NoEvent> {
        let stranger = || NoEvent::Channel(channel.chars().take(80).collect());
        let rest = channel.strip_prefix(PREFIX).ok_or_else(stranger)?;
        let kind = rest.chars().next().filter(char::is_ascii_lowercase).ok_or_else(stranger)?;
        let node = rest.get(1..1 + ID_BYTES).and_then(Id::new).ok_or_else(stranger)?;
        let name = rest.get(1 + ID_BYTES..).unwrap_or_default();
        let event = match (kind, name) {
            ('a', "") => Some(Self::Pong),
            ('b', channel) => offered(channel, message),
            ('c', "") => whole(message).map(|request| Self::Registered { request }),
            ('d', "") => accepted(message),
            ('e', "") => match whole(message) {
                Some(request) => Some(Self::Ended { request, ended: None }),
                None => ended(message, Executor::ByShape)
                    .map(|(request, ended)| Self::Ended { request, ended: Some(ended) }),
            },
            ('f', "") => match whole(message) {
                Some(request) => Some(Self::Settled { request, ended: None }),
                None => ended(message, Executor::Always)
                    .map(|(request, ended)| Self::Settled { request, ended: Some(ended) }),
            },
            ('g', "") => whole(message).map(|request| Self::Stored { request }),
            ('h', "") => Some(Self::Stopped),
            _ => return Err(stranger()),
        };
        let event = event.ok_or(NoEvent::Message { kind, length: message.len() })?;
        Ok((node, event))
    }
}

fn put(id: &Id, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(id.as_str().as_bytes());
}

fn put_work(work: Option<&Work>, bytes: &mut Vec<u8>) {
    if let Some(Work { sender, params }) = work {
        put(sender, bytes);
        bytes.extend_from_slice(params);
    }
}

fn put_end(request: &Id, ended: Option<&Ended>, names_executor: bool, bytes: &mut Vec<u8>) {
    let Some(Ended { digit, executor, answer }) = ended else {
        return put(request, bytes);
    };
    bytes.extend_from_slice(digit.text().as_bytes());
    put(request, bytes);
    if *digit == Digit::Timeout {
        return;
    }
    if names_executor {
        bytes.extend_from_slice(executor.as_ref().map_or(NOBODY, Id::as_str).as_bytes());
    }
    bytes.extend_from_slice(answer);
}

/// Whether the executor's id stands in front of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Executor {
    Always,
    ByShape,
}

/// The id that bytes begin with, and what follows.
fn id(bytes: &Bytes) -> Option<(Id, Bytes)> {
    let id = bytes.get(..ID_BYTES).and_then(|id| Id::new(std::str::from_utf8(id).ok()?))?;
    Some((id, bytes.slice(ID_BYTES..)))
}

/// A message that is one id.
fn whole(message: &Bytes) -> Option<Id> {
    id(message).filter(|(_, rest)| rest.is_empty()).map(|(id, _)| id)
}

fn work(bytes: &Bytes) -> Option<Option<Work>> {
    if bytes.is_empty() {
        return Some(None);
    }
    id(bytes).map(|(sender, params)| Some(Work { sender, params }))
}

fn offered(channel: &str, message: &Bytes) -> Option<Event> {
    let (request, rest) = id(message)?;
    Some(Event::Offered { request, channel: channel.to_owned(), work: work(&rest)? })
}

fn accepted(message: &Bytes) -> Option<Event> {
    let granted = match message.first()? {
        b'1' => true,
        b'0' => false,
        _ => return None,
    };
    let (request, rest) = id(&message.slice(1..))?;
    Some(Event::Accepted { request, granted, work: work(&rest)? })
}

fn ended(message: &Bytes, executor: Executor) -> Option<(Id, Ended)> {
    let digit = Digit::of(*message.first()?)?;
    let (request, rest) = id(&message.slice(1..))?;
    let (executor, answer) = match id(&rest) {
        Some((found, answer)) if executor == Executor::Always || is_uuid(&found) => {
            (Some(found).filter(|id| id.as_str() != NOBODY), answer)
        }
        _ => (None, rest),
    };
    Some((request, Ended { digit, executor, answer }))
}

/// Whether it is 8-4-4-4-12 hexadecimal digits. `12345678-…` is no JSON number: a sign stands only at
/// the beginning and behind an exponent's `e`.
fn is_uuid(id: &Id) -> bool {
    id.as_str().bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
