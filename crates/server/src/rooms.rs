//! Rooms at work: each has one task that owns its state, decides, appends and releases in order.

pub mod calls;
pub mod events;
pub mod exchange;
pub mod house;
mod intake;
mod line;
mod releases;
pub mod streams;
mod work;

pub use self::work::Work;

use handoff_events::FilterError;
use handoff_log::journal::{Lost, Refused};
use thiserror::Error;

/// Why a room did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RoomError {
    /// A rule of the events room.
    #[error(transparent)]
    Event(#[from] handoff_events::Refusal),
    /// A filter stays as it was.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// There is no such event, or it is not in sight.
    #[error("there is no event {0}")]
    NoEvent(i64),
    /// A rule of the house.
    #[error(transparent)]
    House(#[from] handoff_house::Refusal),
    /// A rule of the streams room.
    #[error(transparent)]
    Stream(#[from] handoff_streams::Refusal),
    /// A rule of the exchange.
    #[error(transparent)]
    Exchange(#[from] handoff_exchange::Refusal),
    /// A rule of the calls room.
    #[error(transparent)]
    Calls(#[from] handoff_calls::Refusal),
    /// A channel whose name the asker may not use.
    #[error("the token does not see channels of the name `{0}`")]
    ChannelOutOfSight(handoff_calls::ChannelName),
    /// The calls room has more to do than it takes.
    #[error("the calls room is busy; nothing new is taken for the moment")]
    CallsBusy,
    /// The files of messages are too far behind.
    #[error("the files of messages are {0} s behind; nothing new is taken until they are written")]
    FilesBehind(u64),
    /// The same, because the disk has no space for them.
    #[error(
        "the disk of the data directory is full: the files of messages are {0} s behind, and nothing new is taken until they are written"
    )]
    FilesFull(u64),
    /// A token sends more than it may.
    #[error("the token may send {rate} bytes a second; try again in {seconds} s")]
    Quota {
        /// `streams.token_bytes_per_sec`
        rate: u64,
        /// When it may send again.
        seconds: u32,
    },
    /// The journal takes nothing more for now.
    #[error(transparent)]
    Journal(#[from] Refused),
    /// The journal stopped before the answer was durable.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The disk is nearly full: nothing new is taken.
    #[error(
        "the disk of the data directory has {free} bytes left; nothing new is taken below {min}"
    )]
    DiskLow {
        /// What is left.
        free: u64,
        /// `server.disk_free_min`
        min: u64,
    },
    /// A topic whose name the asker may not use.
    #[error("the token does not see topics of the name `{0}`")]
    OutOfSight(handoff_streams::TopicName),
    /// The disk did not give what is stored.
    #[error("the disk did not give what is stored: {0}")]
    Unreadable(String),
    /// As many bytes are on their way to members of groups as may be.
    #[error(
        "{0} bytes are on their way to members of groups, as many as streams.delivery_bytes_max allows"
    )]
    Delivering(usize),
    /// As many sessions as are taken.
    #[error("there are {0} sessions, as many as events.sessions_max allows")]
    Sessions(usize),
    /// The room is closed: switched off, damaged, or the server is stopping.
    #[error("{0}")]
    Closed(String),
}
