//! What must be true of every decoder, whatever bytes it is given. One function a target; the
//! targets in `fuzz_targets/` only call them.
//!
//! Files of the log have checksums, which a fuzzer does not get past by chance. So their targets
//! begin with sound files and the input says what happens to them ([`edits`]): damage, after which
//! everything that is served must have been written; or forgery with the checksums made right
//! again, after which nothing may panic, hang or grow.

pub mod checkpoint;
pub mod edits;
pub mod journal;
pub mod messagepack;
pub mod relay;
pub mod rooms;
pub mod segments;
pub mod sevent;
pub mod streams;
