//! The fifteen messages and five errors.
//!
//! ```text
//!  code  from    name               options                      body
//!     1  server  Error                                           lastId, errorCode: Byte; message: String
//!     2  client  RegisterEvent      types                        Event
//!     3  server  EventRegistration  EventID                      timestamp: Time
//!     4  client  ListEvents         types
//!     5  server  ListedEvents       EventIDs
//!     6  client  DeleteEvent        ids and types
//!     7  server  DeletedEvents      EventIDs
//!     8  client  Subscribe          ids and types
//!     9  client  Unsubscribe        ids and types
//!    10  server  FilterUpdated
//!    11  client  GetFilter
//!    12  client  Filter             ids and types
//!    12  server  Filter             EventIDs, EventTypes
//!    13  client  GetEvent           EventID
//!    14  server  EventInfo          EventID, EventTypes          Event, timestamp: Time
//!    15  server  Notify             EventID, EventTypes          Event, timestamp: Time
//!
//!  Event = description: VarString, period: Duration, repeat: VarInt
//!  ids   = any number of EventID (1) and EventIDs (3);  types = of EventType (2) and EventTypes (4)
//!  any request may also have one token (100)
//! ```
//!
//! # Decoding
//! The code is looked at first. One that a client does not send, those above 127 included, is
//! [`ErrorCode::WrongMessage`], whatever comes after it. Everything else that is wrong with a
//! message is [`ErrorCode::FormatError`]:
//! * options that do not end, an option id above 127, an option longer than its message;
//! * octets after the value of an option, or after the body; a body where there is none;
//! * what [`crate::primitive`] cannot read;
//! * GetEvent with no EventID option or with several (EventIDs does not count as one);
//! * more than one token.
//!
//! Options 1 to 4 are read wherever they occur and then ignored if the message has no use for them:
//! what they must look like does not depend on where they are. Any other option is skipped by its
//! size. Values that can be read are not judged here: a negative id, a period of NaN or an empty
//! type are for the room to refuse.
//!
//! An answer is read by the same rules, and must have each option that the table names for it at
//! least once, EventID exactly once. [`Malformed::error`] then says nothing to the server; it tells a
//! message that no server sends from one that is broken.
//!
//! # Encoding
//! Options are written in the order of their ids, lists as one EventIDs or EventTypes. A request's
//! empty list is left out, except that ListEvents keeps the difference between no types and none
//! asked for; an answer's lists are always there.

use std::fmt;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

mod answer;
mod chunks;
mod options;
mod outline;
mod request;

pub use chunks::Chunks;

/// What a message is, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageCode {
    /// Server: a request failed.
    Error = 1,
    /// Client: a new event.
    RegisterEvent = 2,
    /// Server: its id and time.
    EventRegistration = 3,
    /// Client: which events are there?
    ListEvents = 4,
    /// Server: these.
    ListedEvents = 5,
    /// Client: remove events.
    DeleteEvent = 6,
    /// Server: these were removed.
    DeletedEvents = 7,
    /// Client: add to the filter.
    Subscribe = 8,
    /// Client: take from the filter.
    Unsubscribe = 9,
    /// Server: the filter is changed.
    FilterUpdated = 10,
    /// Client: what is the filter?
    GetFilter = 11,
    /// Client: replace the filter. Server: this is the filter.
    Filter = 12,
    /// Client: what is this event?
    GetEvent = 13,
    /// Server: this.
    EventInfo = 14,
    /// Server: an event has occurred.
    Notify = 15,
}

impl MessageCode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Error,
        Self::RegisterEvent,
        Self::EventRegistration,
        Self::ListEvents,
        Self::ListedEvents,
        Self::DeleteEvent,
        Self::DeletedEvents,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::FilterUpdated,
        Self::GetFilter,
        Self::Filter,
        Self::GetEvent,
        Self::EventInfo,
        Self::Notify,
    ];

    /// The code with this number, if there is one.
    #[must_use]
    pub fn from_octet(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.octet() == octet)
    }

    /// Its number.
    #[must_use]
    pub const fn octet(self) -> u8 {
        self as u8
    }

    /// Its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::RegisterEvent => "RegisterEvent",
            Self::EventRegistration => "EventRegistration",
            Self::ListEvents => "ListEvents",
            Self::ListedEvents => "ListedEvents",
            Self::DeleteEvent => "DeleteEvent",
            Self::DeletedEvents => "DeletedEvents",
            Self::Subscribe => "Subscribe",
            Self::Unsubscribe => "Unsubscribe",
            Self::FilterUpdated => "FilterUpdated",
            Self::GetFilter => "GetFilter",
            Self::Filter => "Filter",
            Self::GetEvent => "GetEvent",
            Self::EventInfo => "EventInfo",
            Self::Notify => "Notify",
        }
    }
}

impl fmt::Display for MessageCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorCode {
    /// The message cannot be decoded.
    FormatError = 1,
    /// A field has a value that is not allowed.
    InvalidProperty = 2,
    /// The server failed.
    InternalError = 3,
    /// There is no such event.
    EventNotExists = 4,
    /// The server does not answer this kind of message.
    WrongMessage = 5,
}

impl ErrorCode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::FormatError,
        Self::InvalidProperty,
        Self::InternalError,
        Self::EventNotExists,
        Self::WrongMessage,
    ];

    /// The code with this number, if there is one.
    #[must_use]
    pub fn from_octet(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.octet() == octet)
    }

    /// Its number.
    #[must_use]
    pub const fn octet(self) -> u8 {
        self as u8
    }

    /// Its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FormatError => "FormatError",
            Self::InvalidProperty => "InvalidProperty",
            Self::InternalError => "InternalError",
            Self::EventNotExists => "EventNotExists",
            Self::WrongMessage => "WrongMessage",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an event is on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// For people.
    pub description: String,
    /// Seconds between two occurrences.
    pub period: f64,
    /// How many occurrences are left; −1 for ever.
    pub repeat: i32,
}

/// Events by id and by type, from all options of a message in their order, repetitions included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of EventID and EventIDs options.
    pub ids: Vec<i32>,
    /// Of EventType and EventTypes options.
    pub types: Vec<String>,
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A new event.
    RegisterEvent {
        /// What it is.
        event: Event,
        /// Its types.
        types: Vec<String>,
    },
    /// Which events are there?
    ListEvents {
        /// None if no type option was there at all: everything.
        types: Option<Vec<String>>,
    },
    /// Remove events.
    DeleteEvent(Selection),
    /// Add to the filter.
    Subscribe(Selection),
    /// Take from the filter.
    Unsubscribe(Selection),
    /// What is the filter?
    GetFilter,
    /// Replace the filter.
    Filter(Selection),
    /// What is this event?
    GetEvent {
        /// Which.
        id: i32,
    },
}

impl Request {
    /// The code it has on the wire.
    #[must_use]
    pub const fn code(&self) -> MessageCode {
        match self {
            Self::RegisterEvent { .. } => MessageCode::RegisterEvent,
            Self::ListEvents { .. } => MessageCode::ListEvents,
            Self::DeleteEvent(_) => MessageCode::DeleteEvent,
            Self::Subscribe(_) => MessageCode::Subscribe,
            Self::Unsubscribe(_) => MessageCode::Unsubscribe,
            Self::GetFilter => MessageCode::GetFilter,
            Self::Filter(_) => MessageCode::Filter,
            Self::GetEvent { .. } => MessageCode::GetEvent,
        }
    }
}

/// A request that arrived whole.
#[derive(Clone, PartialEq)]
pub struct Received {
    /// What is asked.
    pub request: Request,
    /// The token of option 100, if the message brought one. A copy: keeping it keeps nothing else.
    pub token: Option<Bytes>,
}

impl Received {
    /// Appends the message, its size first.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    pub fn encode(&self, out: &mut BytesMut) {
        self.request.encode(self.token.as_deref(), out);
    }
}

/// Tokens are not for logs.
impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("request", &self.request)
            .field("has_token", &self.token.is_some())
            .finish()
    }
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A request failed.
    Error {
        /// The code of the request as it was on the wire.
        last_id: u8,
        /// Why.
        code: ErrorCode,
        /// For people.
        message: String,
    },
    /// An event was registered.
    EventRegistration {
        /// Its id.
        id: i32,
        /// When, in Unix seconds.
        timestamp: i64,
    },
    /// Events there are.
    ListedEvents {
        /// Ascending.
        ids: Vec<i32>,
    },
    /// Events that were removed.
    DeletedEvents {
        /// Ascending.
        ids: Vec<i32>,
    },
    /// The filter is changed.
    FilterUpdated,
    /// The filter.
    Filter(Selection),
    /// An event.
    EventInfo {
        /// Its id.
        id: i32,
        /// Its types.
        types: Vec<String>,
        /// What it is.
        event: Event,
        /// Its last update, in Unix seconds.
        timestamp: i64,
    },
    /// An event has occurred; told as it was before.
    Notify {
        /// Its id.
        id: i32,
        /// Its types.
        types: Vec<String>,
        /// What it is.
        event: Event,
        /// Its last update before this one, in Unix seconds.
        timestamp: i64,
    },
}

impl Answer {
    /// The code it has on the wire.
    #[must_use]
    pub const fn code(&self) -> MessageCode {
        match self {
            Self::Error { .. } => MessageCode::Error,
            Self::EventRegistration { .. } => MessageCode::EventRegistration,
            Self::ListedEvents { .. } => MessageCode::ListedEvents,
            Self::DeletedEvents { .. } => MessageCode::DeletedEvents,
            Self::FilterUpdated => MessageCode::FilterUpdated,
            Self::Filter(_) => MessageCode::Filter,
            Self::EventInfo { .. } => MessageCode::EventInfo,
            Self::Notify { .. } => MessageCode::Notify,
        }
    }
}

/// A message whose frame is sound and whose content is not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Malformed {
    /// The message's code as it was on the wire.
    pub code: u8,
    /// How it is to be answered: FormatError or WrongMessage.
    pub error: ErrorCode,
    /// For people.
    pub why: String,
}

impl From<Malformed> for Answer {
    fn from(malformed: Malformed) -> Self {
        Self::Error { last_id: malformed.code, code: malformed.error, message: malformed.why }
    }
}
