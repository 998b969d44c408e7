//! The events room: timed events, when they are due, and who is told.
//!
//! # Rules
//! * Ids count from 0, one per registration that was accepted, and are never used again.
//! * A periodic event runs on steady time: its next occurrence is due one period after the one
//!   before *was due*, so it does not drift and does not feel a clock being set. Cron events and
//!   one-shot times run on the operator's clock, in their time zone.
//! * What is told of an occurrence is the event as it was before it.
//! * An occurrence that the server could not tell in time, because it was down or asleep, is
//!   *missed*; the catch-up policy decides what becomes of it ([`CatchUp`]).
//! * A filter matches an event by its id or by any of its types, and each session is told once.
//! * An event may be published to a topic. Whatever is told of it is also handed over, one after the
//!   other: it is kept until the topic has answered, and handed over again under the same producer
//!   and sequence after a restart. What the topic refuses becomes a dead letter. The topic drops
//!   repetitions, so it has each occurrence once.
//!
//! [`Events`] is the machine, [`State`] what it has decided so far, [`Sessions`] who listens. The
//! last is not durable: a session ends with its connection.

mod change;
mod command;
mod course;
pub mod cron;
mod decide;
mod digest;
mod due;
mod event;
mod happen;
mod outlet;
mod outlets;
mod publish;
mod register;
mod schedule;
mod sessions;
mod state;
mod types;
mod union;

pub use change::{Change, Gone};
pub use command::{
    Action, Bounds, CatchUp, Command, Notification, Refusal, Registered, Registration, Reply,
    Selection, Tardiness,
};
pub use decide::Events;
pub use event::{Due, Event, EventView, Id, Repeat};
pub use outlet::{
    Handed, Letter, LetterView, Letters, Outlet, Publication, Publish, PublishView, Publishing,
    Source,
};
pub use schedule::{BadSchedule, Period, Schedule};
pub use sessions::{Filter, FilterError, SessionId, Sessions};
pub use state::{State, Totals};
