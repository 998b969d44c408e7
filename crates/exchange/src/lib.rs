//! The exchange: devices in the field, the database behind an ERP, and a hand-over in two phases.
//!
//! ```text
//!  device ──post──▶ Messages ──API_1──▶ process: STARTED
//!                                          │ API_3: verdicts, replies ──▶ Prepared
//!                                       READY_TO_COMMIT      the database commits, or not
//!                                          │ API_4            │ API_5         │ silence
//!                   Log, Error ◀──requests─┤                  ▼               ▼
//!  device ◀──get── Messages ◀──replies─────┘           as it was before    Unknown, until told
//! ```
//!
//! The database's commit decides; the room only writes down what it is told, so that no crash and no
//! lost answer can make it forget or do anything twice. What nobody tells it is set aside and shown.

mod body;
mod change;
mod codec;
mod command;
mod decide;
mod dense;
mod entity;
mod evolve;
mod key;
mod log;
mod message;
mod names;
mod process;
mod queue;
mod reply;
mod runs;
mod state;

pub use change::{Aggregate, Change, Counters};
pub use codec::{Undecodable, decode_aggregate, decode_change, encode_aggregate, encode_change};
pub use command::{Admin, Ask, Command, Outcome, Rules, Step, Verdict, Wish};
pub use decide::{EXPIRED_AT_ONCE, Exchange, REMINDED_AT_ONCE};
pub use entity::{
    Code, Company, CompanyNo, Database, DatabaseNo, Device, DeviceNo, Digest, Route, Subsystem,
    SubsystemNo,
};
pub use key::Key;
pub use log::{Happened, LOG_KEPT, LogEntry, WORDS_BYTES_MAX};
pub use message::{Message, NewMessage, NewReply, Place, Seq, Spot, Standing, Way, Words};
pub use names::{BadName, EntityId, Kind, MessageId};
pub use process::{BadProcessId, Phase, Prepared, Process, ProcessId, Served, Status};
pub use reply::{Action, Begun, Cancelled, Handed, Receipt, Refusal, Reply, Unfit};
pub use state::{Counts, State};
