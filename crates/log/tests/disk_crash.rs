//! The fault model, proven of the disk that stands for it.
//!
//! If this disk kept too much, the crash tests of the log would pass for a log that loses data; if
//! it lost what was synced, they would fail for one that does not. So both sides are tested: every
//! case takes place, and nothing outside the model does.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first lie")]

mod disk_crash {
    mod cases;
    mod model;
}
