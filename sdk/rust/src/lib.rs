//! The client library of Handoff: its HTTP API, calls over WebSocket or through Redis, samples of the
//! relay, and the sevent protocol.
//!
//! # Constraints
//! * Everything is bounded: time of a connection and of a request, length of an answer, number of
//!   kept connections, notifications not taken yet.
//! * A request that changes something is never sent twice by itself. After a failure the error
//!   says which of two things is known: it did not happen, or nobody knows ([`Error::outcome`]).
//! * What a newer server says besides is ignored.
//! * No future loses anything when it is dropped, except where its documentation says what.
//!
//! ```no_run
//! use std::time::Duration;
//! use handoff_sdk::events::{Filter, NewEvent, Notice};
//! use handoff_sdk::{Client, Options};
//!
//! # async fn run() -> Result<(), handoff_sdk::Error> {
//! let client = Client::new(Options::new("http://127.0.0.1:7070"))?;
//! let backup = NewEvent::every(Duration::from_secs(86_400), "nightly backup").of_type("backup");
//! let registered = client.events().register(&backup.times(7)).await?;
//! println!("event {} is due at {:?}", registered.id, registered.next_at);
//!
//! let mut watch = client.events().watch(Filter::new().of_type("backup")).await?;
//! while let Some(notice) = watch.next().await {
//!     if let Notice::Occurred(occurrence) = notice? {
//!         println!("{}", occurrence.description);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

pub mod audit;
mod backoff;
pub mod calls;
mod client;
mod connect;
mod error;
pub mod events;
pub mod exchange;
pub mod relay;
pub mod server;
pub mod sevent;
mod sse;
pub mod streams;
mod target;
mod time;
mod tls;
pub mod tokens;
mod transport;
mod websocket;

pub use backoff::Backoff;
pub use client::{Client, Options};
pub use error::{Cause, Error, Outcome, Problem};
pub use target::Target;
pub use time::Time;
pub use tls::Tls;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
