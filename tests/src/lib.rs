//! Black-box tests.

pub mod workspace;
