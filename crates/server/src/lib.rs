//! The server: listeners, rooms at work, and everything between a wire and a machine.
//!
//! ```text
//!  http/  ──┐  translate      ┌─ rooms/  one task a room: decide, append, release in order
//!  sevent/ ─┼─▶ a request ───▶┤
//!  relay/  ─┘                 │
//!                             └─ auth/   who is it, and what may they see
//!  runtime/  opens the data directory, keeps checkpoints, watches the disk, stops in order
//!  telemetry/ metrics and logs      tls  certificates      settings  what the operator decided
//! ```
//!
//! Nothing here decides what a room decides.

pub mod auth;
pub mod clock;
pub mod dice;
pub mod http;
pub mod relay;
pub mod rooms;
pub mod runtime;
pub mod serve;
pub mod settings;
pub mod sevent;
pub mod telemetry;
pub mod tls;

/// The words of the house, for whoever speaks to one that is stopped ([`auth::offline`]).
pub use handoff_house as house;
