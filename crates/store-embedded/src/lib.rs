//! Rooms on embedded storage: state in memory, every durable step one entry of the journal.
//!
//! ```text
//!  load:   checkpoint chunks ──restore──▶ state ◀──evolve── journal, from the lowest mark on
//!  live:   admit ──▶ decide ──▶ append ──▶ evolve ──▶ (ticket) ──▶ reply, actions
//!  behind: bodies ──mover──▶ segments;   state ──chunk by chunk──▶ checkpoint ──▶ trim
//! ```
//!
//! A room's rules are in its machine. Here are none: this crate maps changes onto records, keeps
//! the order "durable, then told", and lets the journal forget what is safe elsewhere.

mod books;
mod bulk;
mod calls;
mod checkpointing;
mod events;
mod exchange;
mod filing;
pub mod folders;
mod host;
mod house;
mod lanes;
mod load;
mod moving;
mod patience;
mod persist;
mod reader;
mod records;
mod streams;
mod streams_store;

pub use books::{Called, Unsynced};
pub use bulk::{Bulk, BulkError};
pub use checkpointing::{Checkpointing, Progress, StepError};
pub use filing::Filing;
pub use host::{Applied, Held, Host};
pub use lanes::{Lanes, Retained};
pub use load::{LoadError, Loading, Loads, open_journal};
pub use moving::{Bell, Moving};
pub use persist::{Frame, Persist, Undecodable};
pub use reader::Reader;
pub use streams_store::{Locks, StreamsStore};
