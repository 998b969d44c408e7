//! Calls on Redis, beside peers that are not ours.
//!
//! Constraints first:
//!
//! * **Rules are written once.** Four steps are scripts, each a comparison of state and fence and what
//!   follows from it: a call comes and is offered, is accepted, is answered, is acknowledged. Whatever
//!   depends on time or policy is decided by [`handoff_calls::Calls`] on what was loaded, and made true
//!   by one script that compares first (`apply.lua`); if somebody was faster, it is loaded and decided
//!   again.
//! * **Others are there.** Keys, fields, gates and lists are those that stock peers use; what they have
//!   no place for is in `x_` fields and below `origami:x:`. Each node is told in the layout that it
//!   understands ([`layout`]). A call that nobody serves never lies where a stock tick would break on it.
//! * **A connection is alive when a ping comes back through the subscription**, whatever its socket
//!   says. If none does, all three connections are closed, whoever waited is told, three new ones are
//!   opened, the client registers again, and everything unconfirmed is sent again under its own id.
//!
//! ```text
//!  Client ── ping ─────────▶ ┌───────┐ ◀── scripts ── stock peers
//!         ── publisher ────▶ │ Redis │
//!         ◀── listener ───── └───────┘ ◀── guard.lua, apply.lua ── Guardian
//! ```
//!
//! * **Why no client library.** What is needed is an array of bulks one way and six kinds of value the
//!   other ([`resp`]), and what a library keeps to itself: when a socket is closed, who is told, how much
//!   waits, and that nothing is sent twice behind one's back.
//! * **A single node.** Keys of one call lie on several slots; a cluster is refused with words.
//!
//! What is kept when Redis is lost is what Redis keeps: with its log synced always, everything; without
//! one, what callers still wait for and send again, which may then run twice.

mod address;
mod client;
mod dice;
mod direct;
mod ears;
mod guardian;
mod header;
mod inspector;
mod introduction;
pub mod layout;
mod line;
mod link;
mod listener;
mod options;
mod publisher;
mod record;
pub mod resp;
mod room;
mod scene;
mod scripts;
mod session;
mod settings;
mod socket;
mod steps;
mod tally;
mod tick;
mod trouble;
mod wire;
mod words;

pub use address::{Address, BadAddress};
pub use client::{Answer, Called, Client, Connections, Handled, Job, NoAnswer, Request, Service};
pub use direct::Direct;
pub use guardian::Guardian;
pub use inspector::{Channel, Inspector, KEYS_MAX, Page, Query};
pub use introduction::Introduction;
pub use options::Options;
pub use scripts::Clock;
pub use socket::Tls;
pub use trouble::Trouble;
