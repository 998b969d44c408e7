//! The log: a journal that never lies, checkpoints that never stop a room, and segments for what
//! is large.
//!
//! ```text
//!  rooms ──append──▶ journal ──mover──▶ segments        bulk data, one lane each
//!            │          │ ▲
//!            │          │ └── trim: below the lowest mark of checkpoints and mover
//!            └──chunks──▶ checkpoints                   state, one file a room
//!  all of it over the disk port, in one data directory
//! ```
//!
//! Nothing here knows what a room's bytes mean.

pub mod checkpoint;
pub mod directory;
pub mod disk;
pub mod journal;
pub mod segments;
