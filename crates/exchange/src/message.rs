//! What is known of a message. Its body is beside the state.

use bytes::Bytes;
use handoff_types::{Steady, Wall};

use crate::{DatabaseNo, DeviceNo, Kind, MessageId, SubsystemNo};

/// The order in which the server received messages, over all databases. Never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From a device to a database.
    ToErp,
    /// From a database to a device.
    ToDevice,
}

/// Where a message is: the folder an administrator finds it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// It waits for the database, or for the device.
    Messages,
    /// A database sent it in a transaction that it has not said to be committed.
    Prepared,
    /// It was processed, or a device has it.
    Log,
    /// Nobody knows whether it was processed.
    Unknown,
    /// It could not be processed.
    Error,
}

/// What is in the way of a message in [`Place::Messages`], or was in the way of one in
/// [`Place::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Free,
    /// It waits until then, after a deadlock or because the ERP did not want it.
    Late(Steady),
    /// It was given to a process that is not over, by its number.
    Served(u64),
    /// Why it was set aside.
    Aside(Words),
}

/// What was said of something rare. It takes one word wherever it is kept, because there may be a
/// million places for it and hardly any words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Box<Said>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said(Box<str>);

impl std::ops::Deref for Words {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.0
    }
}

impl From<Box<str>> for Words {
    fn from(words: Box<str>) -> Self {
        Self(Box::new(Said(words)))
    }
}

impl From<&str> for Words {
    fn from(words: &str) -> Self {
        Box::<str>::from(words).into()
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0.0.into()
    }
}

/// A message as the room knows it. There may be a million of them in memory: 128 bytes each, see
/// `tests/memory.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What its sender calls it; unique for its sender.
    pub id: MessageId,
    /// Which way it goes.
    pub way: Way,
    /// The database that sent it or that it is for; it lies in its folder.
    pub database: DatabaseNo,
    /// The device that it is for or that sent it.
    pub device: DeviceNo,
    /// The device's, when it came.
    pub subsystem: SubsystemNo,
    /// Its type.
    pub kind: Option<Kind>,
    /// When its sender made it, by the sender's clock.
    pub created: Wall,
    /// When it was received.
    pub received: Wall,
    /// It is ordered by when it was made, not by when it was received.
    pub by_created: bool,
    /// The length of its body.
    pub bytes: u32,
    /// CRC-32C of its body.
    pub crc: u32,
    /// Of what the sender gave, to know it again.
    pub digest: u64,
    /// How often a process ended without a last word about it: deadlocks, and processes that did not
    /// take it.
    pub attempts: u16,
    /// How often the ERP was not heard of again after it was served.
    pub silences: u16,
    /// Where it is.
    pub place: Place,
    /// Since when.
    pub since: Wall,
    /// Why it is not served, or not any more.
    pub standing: Standing,
}

/// Where the file of a message is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The folder.
    pub place: Place,
    /// Log and Error are cut by days.
    pub since: Wall,
}

impl Message {
    /// Where its file is to be found.
    #[must_use]
    pub fn spot(&self) -> Spot {
        Spot { place: self.place, since: self.since }
    }

    /// Among the messages of its queue, before its [`Seq`].
    #[must_use]
    pub fn order(&self) -> i64 {
        if self.by_created { self.created.0 } else { 0 }
    }
}

/// A message somebody sends. Everything in it was checked for its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The sender's name for it.
    pub id: MessageId,
    /// Its type.
    pub kind: Option<Kind>,
    /// When the sender made it.
    pub created: Wall,
    /// The same, as the sender wrote it: RFC 3339, without anything that JSON escapes.
    pub created_text: Box<str>,
    /// What it answers.
    pub reply_to: Option<MessageId>,
    /// One JSON value, as it was sent.
    pub payload: Bytes,
    /// Of all of this, to know it again.
    pub digest: u64,
}

/// A message of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReply {
    /// A device of its company.
    pub to: crate::EntityId,
    /// The message.
    pub message: NewMessage,
}
