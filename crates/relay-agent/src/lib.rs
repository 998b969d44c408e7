//! The relay at the edge: takes samples in, keeps them through outages, ships them.
//!
//! ```text
//!  remote write ─▶ http/ ──Ask──▶ core ◀──────▶ line   one task a connection: bytes and messages
//!                    ▲             │ one task: the machines of `handoff-relay`, and nothing else
//!                    └── answer ───┤
//!                                  └──Order──▶ shelf   one thread: refill files, and all that waits
//!                                  ◀──Done────         for a disk
//! ```
//!
//! * The core waits for nobody: not for a disk, not for a destination, not for whoever sends samples.
//!   What it wants done it orders, and hears of when it is done.
//! * One destination that is slow or gone has a line of its own, and what it does not take is on disk
//!   after the window. The others notice nothing.
//! * Every queue has a number, and bytes are admitted before a body is read.
//!
//! Nothing here decides what the machines decide, and nothing here links a server.

mod address;
mod by_hand;
mod clock;
mod core;
mod http;
mod line;
mod metrics;
mod replay;
mod run;
mod settings;
mod shelf;
mod way;

pub use address::{Address, BadAddress, DEFAULT_PORT};
pub use by_hand::{Answer, ByHand, Call};
pub use clock::Outside;
pub use replay::{Progress, ReplayError, replay};
pub use run::{AgentError, Hooks, run};
pub use settings::{Destination, Intake, Settings, WhenFull};
