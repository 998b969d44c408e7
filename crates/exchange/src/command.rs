//! What is asked of the room.

use handoff_types::{Span, Wall};

use crate::{
    DatabaseNo, DeviceNo, Digest, EntityId, MessageId, NewMessage, NewReply, ProcessId, Seq, Status,
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
    /// `exchange.max_files`: messages in a process.
    pub files_max: u32,
    /// `exchange.max_mb`, in bytes: their bodies. The first is served however large it is.
    pub bytes_max: u64,
    /// `exchange.started_timeout_secs`
    pub started_timeout: Span,
    /// `exchange.ready_timeout_secs`
    pub ready_timeout: Span,
    /// How long a process that is ready is kept after a start, whatever its deadline says.
    pub grace: Span,
    /// `exchange.max_attempts`: after so many a message is set aside; 0 for never.
    pub attempts_max: u16,
    /// `exchange.order` is `created`.
    pub by_created: bool,
    /// `exchange.ordering` is `producer`: what a device sent is processed in order.
    pub in_order: bool,
    /// `exchange.notify_sender`: a device is told which of its messages cannot be processed.
    pub notify_sender: bool,
    /// `exchange.retention_days`
    pub retention: Span,
    /// `exchange.messages_max`: messages of all kinds that are known at once. Those that are over
    /// are forgotten before their time when there are more.
    pub messages_max: u64,
    /// `exchange.queue_max`: messages that wait for one database, or for one device.
    pub queue_max: u64,
    /// `exchange.processes_kept_max`: processes that are over and known.
    pub processes_kept_max: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            files_max: 10,
            bytes_max: 20 << 20,
            started_timeout: Span::from_secs(600),
            ready_timeout: Span::from_secs(600),
            grace: Span::from_secs(120),
            attempts_max: 20,
            by_created: false,
            in_order: false,
            notify_sender: false,
            retention: Span::from_secs(90 * 86_400),
            messages_max: 4_000_000,
            queue_max: 2_000_000,
            processes_kept_max: 100_000,
        }
    }
}

/// What is asked. Callers are known: the shell has checked their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Entities, see [`Admin`].
    Admin(Admin),
    /// A device shows its code, and gets the token of this digest.
    Activate {
        /// Of the code's text.
        code: Digest,
        /// Of the token's text, drawn by the shell.
        token: Digest,
    },
    /// A device sends messages, all or none.
    Post {
        /// Which device.
        device: DeviceNo,
        /// In their order.
        messages: Vec<NewMessage>,
    },
    /// A device has messages.
    Ack {
        /// Which device.
        device: DeviceNo,
        /// Which messages.
        ids: Vec<MessageId>,
    },
    /// `API_1`
    Begin {
        /// Whose.
        database: DatabaseNo,
        /// What is wanted.
        wish: Wish,
    },
    /// Any other call of an ERP about one of its processes.
    Process {
        /// Whose.
        database: DatabaseNo,
        /// Which process.
        id: ProcessId,
        /// What of it.
        step: Step,
    },
    /// What became of processes that were ready.
    Resolve {
        /// Whose.
        database: DatabaseNo,
        /// Process by process.
        outcomes: Vec<Outcome>,
    },
    /// An administrator puts messages back into their queue.
    Requeue {
        /// Whose.
        database: DatabaseNo,
        /// Those in Error, Log or an Unknown that was decided.
        messages: Vec<Seq>,
    },
    /// A body cannot be read: the message is set aside.
    Damaged {
        /// Which message.
        seq: Seq,
        /// What happened.
        words: Box<str>,
    },
    /// Files were put into a folder by hand: they are taken in as if their device had sent them.
    TakeIn {
        /// Whose.
        database: DatabaseNo,
        /// Which device.
        device: DeviceNo,
        /// What it would have sent.
        message: NewMessage,
    },
    /// The folders show what a process decided.
    Settled {
        /// The process.
        number: u64,
        /// Which of its decisions, see [`crate::Phase::round`]. If it has decided again since, its
        /// files are on their way once more and nothing changes.
        round: u8,
    },
    /// They cannot be made to.
    Stuck {
        /// The process.
        number: u64,
        /// Why.
        words: Box<str>,
    },
    /// The room is open again after a restart.
    Opened,
    /// Time has passed.
    Tick,
    /// Says once more which processes nobody decided.
    Remind,
    /// Forgets what is too old, some of it.
    Retain {
        /// How many messages and processes at most.
        many: u32,
    },
}

/// What an ERP wants of `API_1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Repeated, the same process is given.
    pub request_key: Option<Box<str>>,
    /// Only messages of these; none for all.
    pub subsystems: Option<Vec<EntityId>>,
    /// Only messages of these devices; none for all.
    pub producers: Option<Vec<EntityId>>,
    /// At most so many.
    pub files_max: Option<u32>,
    /// At most so many bytes.
    pub bytes_max: Option<u64>,
    /// A shorter time than the operator grants.
    pub lease: Option<Span>,
}

/// What became of a process that was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which.
    pub id: ProcessId,
    /// Whether the database committed.
    pub committed: bool,
}

/// A call of an ERP about one of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `API_2`: the ERP takes only these.
    Narrow(Vec<MessageId>),
    /// `API_3`
    Prepare {
        /// One for each message.
        verdicts: Vec<Verdict>,
        /// What goes to devices.
        messages: Vec<NewReply>,
        /// Of the whole call, to know it again.
        digest: u64,
    },
    /// `API_4`
    Commit,
    /// `API_5`, with what went wrong.
    Rollback(Box<str>),
    /// `API_6`, with why.
    Interrupt(Box<str>),
    /// It is still at work.
    Heartbeat,
}

/// What the ERP says of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which message.
    pub message: MessageId,
    /// What became of it.
    pub status: Status,
    /// The database's number for what went wrong.
    pub code: Option<i64>,
    /// The same in words.
    pub error: Option<Box<str>>,
}

/// What an administrator asks. Names of companies stand beside those of devices, which are unique
/// in a company only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// Makes a company, or gives it another name.
    PutCompany {
        /// Which.
        id: EntityId,
        /// For people.
        name: Box<str>,
    },
    /// Removes a company without databases, devices and routes.
    RemoveCompany(EntityId),
    /// Makes a subsystem, or gives it another name.
    PutSubsystem {
        /// Which.
        id: EntityId,
        /// For people.
        name: Box<str>,
    },
    /// Removes a subsystem without devices and routes.
    RemoveSubsystem(EntityId),
    /// Makes a database, or gives it another name. It stays with its company.
    PutDatabase {
        /// Which.
        id: EntityId,
        /// Whose.
        company: EntityId,
        /// For people.
        name: Box<str>,
    },
    /// Removes a database without routes and messages.
    RemoveDatabase(EntityId),
    /// Gives a database another token. The one before opens nothing any more.
    DatabaseToken {
        /// Which.
        id: EntityId,
        /// Of the token's text, drawn by the shell.
        token: Digest,
    },
    /// Makes a device, or gives it another name or subsystem.
    PutDevice {
        /// Whose.
        company: EntityId,
        /// Which.
        id: EntityId,
        /// What it is part of.
        subsystem: EntityId,
        /// For people.
        name: Box<str>,
    },
    /// Removes a device without messages.
    RemoveDevice {
        /// Whose.
        company: EntityId,
        /// Which.
        id: EntityId,
    },
    /// Gives a device a code. One that it had is void; its token works until the code is used.
    DeviceCode {
        /// Whose.
        company: EntityId,
        /// Which.
        id: EntityId,
        /// Of the code's text, drawn by the shell.
        code: Digest,
        /// When it is void, by the operator's clock.
        expires: Wall,
    },
    /// Locks a device out, or lets it in again.
    BlockDevice {
        /// Whose.
        company: EntityId,
        /// Which.
        id: EntityId,
        /// Whether it is locked out.
        blocked: bool,
    },
    /// Sends what a company's subsystem sends to a database of the company.
    PutRoute {
        /// The company.
        company: EntityId,
        /// The subsystem.
        subsystem: EntityId,
        /// The database.
        database: EntityId,
    },
    /// Removes a route. What was sent before stays where it is.
    RemoveRoute {
        /// The company.
        company: EntityId,
        /// The subsystem.
        subsystem: EntityId,
    },
}
