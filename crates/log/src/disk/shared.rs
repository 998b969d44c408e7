//! State that clones share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value behind a lock; a clone is the same value.
///
/// A holder that panicked does not spoil it: each twin leaves its state whole between statements,
/// and a harness wants to look at the disk of a test that failed.
#[derive(Debug, Default)]
pub(super) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
