//! Requests of plain HTTP that wait for the end of a call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handoff_calls::CallId;
use tokio::sync::Notify;

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<HashMap<CallId, Arc<Notify>>>);

/// Somebody who waits. Dropped, nobody does.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Arc<Waits>,
    call: CallId,
    bell: Option<Arc<Notify>>,
}

impl Waits {
    /// Waits for the end of a call, from now on.
    pub(super) fn hang(self: &Arc<Self>, call: CallId) -> Wait {
        let bell = Arc::clone(self.lock().entry(call).or_default());
        Wait { waits: Arc::clone(self), call, bell: Some(bell) }
    }

    /// A call is over.
    pub(super) fn ring(&self, call: CallId) {
        if let Some(bell) = self.lock().get(&call) {
            bell.notify_waiters();
        }
    }

    /// Whoever waits looks again, and finds that the server stops.
    pub(super) fn ring_all(&self) {
        self.lock().values().for_each(|bell| bell.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait {
    /// Its end, if it comes after this was called and before it is dropped.
    pub(crate) fn rung(&self) -> tokio::sync::futures::OwnedNotified {
        let bell = self.bell.as_ref().map_or_else(Arc::default, Arc::clone);
        bell.notified_owned()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.waits.lock();
        self.bell = None;
        if waits.get(&self.call).is_some_and(|bell| Arc::strong_count(bell) == 1) {
            waits.remove(&self.call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;
    use handoff_calls::CallId;
    use std::sync::Arc;

    #[tokio::test]
    async fn everybody_who_waits_for_a_call_is_told_and_then_nobody_is_left() {
        let waits = Arc::new(Waits::default());
        let call = CallId::of_chance(1);
        let (one, two) = (waits.hang(call), waits.hang(call));
        let (first, second) = (one.rung(), two.rung());
        waits.ring(CallId::of_chance(2));
        waits.ring(call);
        first.await;
        second.await;
        drop((one, two));
        assert!(waits.lock().is_empty());
    }
}
