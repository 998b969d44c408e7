//! What the room answers, and what it has its shell do.

use handoff_types::{Span, Steady, Wall};
use thiserror::Error;

use crate::{DatabaseNo, DeviceNo, LogEntry, Message, MessageId, Phase, ProcessId, Seq, Spot};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is so, whether it was so before or not.
    Done,
    /// A device is active.
    Activated(DeviceNo),
    /// Messages are stored, in the order they were sent.
    Posted(Vec<Receipt>),
    /// A device's messages are taken as received.
    Acked {
        /// Those that were not before.
        fresh: u32,
        /// Those that were.
        again: u32,
    },
    /// Of `API_1`.
    Begun(Begun),
    /// Of the other calls about a process: it is as the ERP says.
    Ok {
        /// When the process is given up, while it is live.
        deadline: Option<Steady>,
    },
    /// Of the same: the ERP is to roll back and stop.
    Cancelled(Cancelled),
    /// Of every outcome, in their order.
    Resolved(Vec<Result<(), Cancelled>>),
    /// So many messages are in their queues again.
    Requeued(u32),
    /// Something was done, and perhaps there is more of the kind.
    More(bool),
    /// Nothing changed.
    Refused(Refusal),
}

/// A message that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the order of all messages.
    pub seq: Seq,
    /// When it was received first.
    pub received: Wall,
    /// It was sent before.
    pub again: bool,
}

/// What `API_1` leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// A process has begun, or one of the same request key has before.
    Started {
        /// Its id.
        id: ProcessId,
        /// When it is given up.
        deadline: Steady,
        /// Its messages, in the order to process them.
        messages: Vec<Handed>,
    },
    /// There is nothing to process.
    Idle,
    /// Another process is live.
    Busy {
        /// When to ask again, at the latest.
        retry_after: Span,
    },
}

/// A message given to an ERP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Which.
    pub seq: Seq,
    /// How often it was given out, this time included.
    pub attempt: u32,
}

/// Why an ERP is to roll back, or cannot have its way. Nothing changed, except that what
/// contradicts was noted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Cancelled {
    /// The database has no such process, or it is forgotten.
    #[error("the database has no process {0}")]
    NoProcess(ProcessId),
    /// The process is past this step.
    #[error("process {id} is {}, so this step is not possible any more", phase.text())]
    Past {
        /// Which.
        id: ProcessId,
        /// How far it is.
        phase: Phase,
    },
    /// A commit of a process that never said what it would do.
    #[error("process {0} was not prepared: send verdicts and messages first, and commit then")]
    NotPrepared(ProcessId),
    /// An interruption of a process that is ready.
    #[error("process {0} is READY_TO_COMMIT and cannot be interrupted: report rollback or commit")]
    Ready(ProcessId),
    /// The third call again, with something else in it.
    #[error("process {0} was prepared with other verdicts or messages")]
    PreparedOtherwise(ProcessId),
    /// The database is said to have done the opposite of what was said before.
    #[error(
        "process {id} is {}: the report contradicts it; an administrator was told", phase.text()
    )]
    Contradicts {
        /// Which.
        id: ProcessId,
        /// What it is.
        phase: Phase,
    },
    /// The call does not fit the process.
    #[error("{0}")]
    Unfit(Unfit),
}

/// How a call does not fit its process.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A message that the process does not have.
    #[error("message {0} is not in the process")]
    NotServed(MessageId),
    /// A message that stands there twice.
    #[error("message {0} is named twice")]
    Twice(MessageId),
    /// A message without a verdict.
    #[error("there is no verdict about message {0}")]
    NoVerdict(MessageId),
    /// A message to a device that the company does not have.
    #[error("message {message}: the company has no device {device}")]
    NoDevice {
        /// Which message.
        message: MessageId,
        /// What it says.
        device: Box<str>,
    },
    /// The database used this id for another message.
    #[error("message {0}: the database used this id before; give every message its own")]
    IdUsed(MessageId),
    /// More than a process takes.
    #[error("a process takes at most {0} messages from the ERP")]
    TooMany(usize),
    /// As many messages as are kept for a device.
    #[error(
        "message {message}: {many} messages wait for device {device}, as many as exchange.queue_max allows"
    )]
    QueueFull {
        /// Which message.
        message: MessageId,
        /// For whom.
        device: Box<str>,
        /// How many there are.
        many: u64,
    },
}

/// Why nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No entity of this kind has this id.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What kind.
        what: &'static str,
        /// Which, or its text.
        id: Box<str>,
    },
    /// It is somebody else's.
    #[error("{what} {id} belongs to another company")]
    Taken {
        /// What kind.
        what: &'static str,
        /// Which.
        id: Box<str>,
    },
    /// Something still needs it.
    #[error("{what} {id} cannot be removed: {needs}")]
    InUse {
        /// What kind.
        what: &'static str,
        /// Which.
        id: Box<str>,
        /// What needs it, and what to do.
        needs: &'static str,
    },
    /// As many as are kept.
    #[error("there are {many} {what}, as many as are kept")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many.
        many: u64,
    },
    /// No device has such a code, or not any more.
    #[error("the code is wrong, used or expired; ask your administrator for another")]
    WrongCode,
    /// The device may not.
    #[error("the device is locked out; ask your administrator")]
    Blocked,
    /// There is no way for its messages.
    #[error(
        "messages of subsystem {subsystem} of company {company} go nowhere: an administrator must set a route"
    )]
    NoRoute {
        /// The company.
        company: Box<str>,
        /// The subsystem.
        subsystem: Box<str>,
    },
    /// The device used this id for something else.
    #[error("message {0} was sent before with another content; give every message its own id")]
    IdReused(MessageId),
    /// The same, in one request.
    #[error("message {0} is in the request twice")]
    IdTwice(MessageId),
    /// Not one of this device's.
    #[error("there is no message {0} for this device")]
    NoMessage(MessageId),
    /// Not where it can be taken from.
    #[error(
        "message {0} is not set aside; only what is in Error, Log or a decided Unknown can be put back"
    )]
    NotAside(u64),
    /// A value that cannot be.
    #[error("{0}")]
    Invalid(&'static str),
}

/// What the shell does once the changes are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The file of a message belongs elsewhere, or nowhere. When all of a process are there, the
    /// room is told by [`crate::Ask::Settled`].
    Move {
        /// Its database.
        database: DatabaseNo,
        /// Which message.
        seq: Seq,
        /// Where it was.
        from: Spot,
        /// Where it belongs; nowhere if it is gone.
        to: Option<Spot>,
        /// The message, if it is gone: the state does not know it any more.
        gone: Option<Box<Message>>,
        /// The number of the process that decided it.
        process: Option<u64>,
    },
    /// A process has decided something that the folders do not show, also if no file is to be moved.
    Settle {
        /// The process.
        number: u64,
        /// Which of its decisions that is, see [`Phase::round`].
        round: u8,
    },
    /// A device has messages that it had not.
    Ring(DeviceNo),
    /// Something that people should read.
    Log(LogEntry),
}
