//! The floor of group commit.
