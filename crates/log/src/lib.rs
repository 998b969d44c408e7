//! The log: a journal that never lies, checkpoints that never stop a room, and segments for what
//! is large.
pub mod disk;
pub mod journal;
