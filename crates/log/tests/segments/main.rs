//! What segments promise, from the outside.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test fails")]

mod bounds;
mod damage;
mod faults;
mod model;
mod moving;
mod recovery;
mod retention;
mod support;
