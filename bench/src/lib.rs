//! Measures Handoff against floors of the same run.
//!
//! # Constraints
//! * A goal is a ratio to a floor, or a distance from one, measured in the same run by the same
//!   client. Floors are plain code and live in `handoff-probe`.
//! * Measurement and floor take turns, several times, and the median counts: a machine that is
//!   busy with something else is so for both.
//! * It refuses filesystems in memory, where no sync means anything, and says how often the
//!   device itself was told to flush.
//! * It ends by itself and leaves nothing behind.

mod bystanders;
pub mod calls;
mod cleaner;
pub mod cli;
mod device;
pub mod events;
pub mod exchange;
mod failed;
mod http;
mod load;
pub mod log;
mod peers;
pub mod relay;
mod report;
mod samples;
mod server;
mod site;
pub mod streams;

pub use failed::Failed;
pub use report::{Report, Row, Settings};
