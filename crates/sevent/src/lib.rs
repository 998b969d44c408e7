//! The sevent wire protocol, byte for byte: frames, primitive types, messages and errors.
//!
//! # Constraints
//! * No IO, no clock, no allocation that a peer's length field alone can cause.
//! * Every decoder is total: any bytes give a value or a [`Malformed`], never a panic.
//! * What is encoded here decodes to the same value; a canonical message encodes to the same bytes.
//!
//! ```text
//!  ┌────────────┬─────────┬──────────────────────────────────────────┬───────────┐
//!  │ size       │ id      │ options: (id 1..127, VarInt size, body)* │ body      │
//!  │ VarInt     │ 1 octet │ then one octet 0                         │ the rest  │
//!  └────────────┴─────────┴──────────────────────────────────────────┴───────────┘
//!               └────────────────────── size octets ─────────────────────────────┘
//! ```
//!
//! The module docs of [`frame`], [`primitive`] and [`message`] hold the rest.

pub mod frame;
pub mod message;
pub mod primitive;

pub use frame::{FrameError, Frames};
pub use message::{
    Answer, Chunks, ErrorCode, Event, Malformed, MessageCode, Received, Request, Selection,
};
