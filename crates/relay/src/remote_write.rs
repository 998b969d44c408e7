//! Prometheus remote write, 1.0 and 2.0: bodies become batches, and segments bodies again.
//!
//! ```text
//!  Content-Type, Content-Encoding ──negotiate──▶ Protocol
//!  body ──unpack (Snappy block, size checked first)──▶ protobuf ──read──▶ Batch, Written
//!  Decoded, Decoder ──write_v1 · write_v2──▶ protobuf
//! ```
//!
//! The protobuf is read by hand. A generated reader makes an object of each label and a string of
//! each name; here the bytes go from the body into the batch in one copy, which is what the samples
//! per second are made of. Five messages, four wire types: there is not more of it.
//!
//! A series that cannot be taken is counted and described, and the others are taken.

mod protobuf;
mod reading;
mod request;
mod writing;

pub use reading::{ReadError, Written, read};
pub use request::{Protocol, Unsupported, negotiate, pack, unpack, unpacked_len};
pub use writing::{write_v1, write_v2};

/// Bounds of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWriteLimits {
    /// `relay.body_bytes_max`: a body, unpacked.
    pub body_bytes_max: usize,
    /// `relay.body_symbols_max`: symbols of a 2.0 body.
    pub symbols_max: usize,
}

impl Default for RemoteWriteLimits {
    fn default() -> Self {
        Self { body_bytes_max: 32 << 20, symbols_max: 1 << 20 }
    }
}
