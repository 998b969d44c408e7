//! What keeps the house running: opening the data directory, checkpoints, the watch over the disk,
//! and who may be asked already.

pub mod checkpoints;
mod foundation;
mod labour;
pub mod mover;
pub mod readiness;
mod start_error;
pub mod watch;

pub use checkpoints::Checkpoints;
pub use foundation::{Found, Foundation, Furnished};
pub(crate) use labour::Labour;
pub use mover::MoverThread;
pub use readiness::{Board, Phase, Readiness, RoomStatus};
pub use start_error::StartError;
pub use watch::Watermark;
