//! What becomes true. Every change touches one aggregate.

use bytes::Bytes;
use handoff_types::{Steady, Wall};

use crate::{
    Company, CompanyNo, Database, DatabaseNo, Device, DeviceNo, Key, LogEntry, Message, Phase,
    Place, Prepared, Process, Route, Seq, Served, Standing, Subsystem, SubsystemNo,
};

/// What counts across aggregates: the numbers that are next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of a message.
    pub seq: u64,
    /// Of a process.
    pub process: u64,
    /// Of an entry of the log.
    pub log: u64,
    /// Of an entity of any kind.
    pub entity: u32,
}

/// What becomes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The numbers that are next.
    Counted(Counters),
    /// A company is so.
    Company(Company),
    /// A company is gone.
    CompanyGone(CompanyNo),
    /// A subsystem is so.
    Subsystem(Subsystem),
    /// A subsystem is gone.
    SubsystemGone(SubsystemNo),
    /// A database is so.
    Database(Database),
    /// A database is gone.
    DatabaseGone(DatabaseNo),
    /// A device is so.
    Device(Device),
    /// A device is gone.
    DeviceGone(DeviceNo),
    /// A route is so.
    Route(Route),
    /// A route is gone.
    RouteGone(CompanyNo, SubsystemNo),
    /// A message was received. Its body is beside the change; one that was read back has none.
    Accepted {
        /// Its place in the order of all messages.
        seq: Seq,
        /// What is known of it.
        message: Box<Message>,
        /// The body.
        body: Bytes,
    },
    /// A message is elsewhere, or its standing is another.
    Placed {
        /// Which.
        seq: Seq,
        /// Where it is.
        place: Place,
        /// Since when.
        since: Wall,
        /// Why it is not served, if it is not.
        standing: Standing,
        /// See [`Message::attempts`].
        attempts: u16,
        /// See [`Message::silences`].
        silences: u16,
    },
    /// A message is forgotten.
    Forgotten(Seq),
    /// A process has begun.
    Begun(Box<Process>),
    /// A process has fewer messages.
    Narrowed {
        /// The process.
        number: u64,
        /// Those it has.
        to_erp: Vec<Served>,
        /// Its start may still be repeated: the ERP has not chosen.
        keyed: bool,
    },
    /// A process has more time.
    Extended {
        /// The process.
        number: u64,
        /// Until then.
        deadline: Steady,
    },
    /// A process is ready.
    Ready {
        /// The process.
        number: u64,
        /// With verdicts.
        to_erp: Vec<Served>,
        /// What the ERP sent.
        from_erp: Vec<Prepared>,
        /// Of the call.
        digest: u64,
        /// When.
        ready: Wall,
        /// Until when it is waited for the outcome.
        deadline: Steady,
        /// See [`Process::lease`].
        lease: handoff_types::Span,
    },
    /// A process is in another phase.
    Turned {
        /// The process.
        number: u64,
        /// How far it is.
        phase: Phase,
        /// When it was over, or nobody knew.
        ended: Option<Wall>,
        /// Why.
        words: Option<Box<str>>,
        /// The folders show it.
        settled: bool,
    },
    /// The opposite of what a process is was reported, and noted.
    Contradicted(u64),
    /// A process is forgotten.
    ProcessForgotten(u64),
    /// Something is in the log. Those that are too far behind the latest are forgotten.
    Logged(LogEntry),
}

/// One aggregate, for stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The numbers that are next.
    Counters(Counters),
    /// A company.
    Company(Company),
    /// A subsystem.
    Subsystem(Subsystem),
    /// A database.
    Database(Database),
    /// A device.
    Device(Device),
    /// A route.
    Route(Route),
    /// A message.
    Message(Seq, Box<Message>),
    /// A process.
    Process(Box<Process>),
    /// An entry of the log.
    Log(LogEntry),
}

impl Change {
    /// The aggregate it touches.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Counted(_) => Key::Counters,
            Self::Company(company) => Key::Company(company.no),
            Self::CompanyGone(no) => Key::Company(*no),
            Self::Subsystem(subsystem) => Key::Subsystem(subsystem.no),
            Self::SubsystemGone(no) => Key::Subsystem(*no),
            Self::Database(database) => Key::Database(database.no),
            Self::DatabaseGone(no) => Key::Database(*no),
            Self::Device(device) => Key::Device(device.no),
            Self::DeviceGone(no) => Key::Device(*no),
            Self::Route(route) => Key::Route(route.company, route.subsystem),
            Self::RouteGone(company, subsystem) => Key::Route(*company, *subsystem),
            Self::Accepted { seq, .. } | Self::Placed { seq, .. } | Self::Forgotten(seq) => {
                Key::Message(*seq)
            }
            Self::Begun(process) => Key::Process(process.id.number),
            Self::Narrowed { number, .. }
            | Self::Extended { number, .. }
            | Self::Ready { number, .. }
            | Self::Turned { number, .. }
            | Self::Contradicted(number)
            | Self::ProcessForgotten(number) => Key::Process(*number),
            Self::Logged(entry) => Key::Log(entry.number),
        }
    }
}
