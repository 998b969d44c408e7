//! Devices that wait for messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handoff_exchange::DeviceNo;
use tokio::sync::Notify;

/// Who waits, by device and number.
#[derive(Debug, Default)]
pub(super) struct Bells {
    hung: Mutex<Hung>,
}

#[derive(Debug, Default)]
struct Hung {
    bells: BTreeMap<(DeviceNo, u64), Arc<Notify>>,
    next: u64,
}

/// A bell that rings whenever its device has messages that it had not. Dropped, it does not.
#[derive(Debug)]
pub(crate) struct Bell {
    bells: Arc<Bells>,
    at: (DeviceNo, u64),
    notify: Arc<Notify>,
}

impl Bells {
    /// Hangs a bell. Whoever hangs one looks only then, at a state in which all that it did not ring
    /// for has happened.
    pub(super) fn hang(self: &Arc<Self>, device: DeviceNo) -> Bell {
        let notify = Arc::new(Notify::new());
        let mut hung = self.hung();
        let at = (device, hung.next);
        hung.next += 1;
        hung.bells.insert(at, Arc::clone(&notify));
        drop(hung);
        Bell { bells: Arc::clone(self), at, notify }
    }

    pub(super) fn ring(&self, device: DeviceNo) {
        let hung = self.hung();
        let of_device = hung.bells.range((device, 0)..=(device, u64::MAX));
        of_device.for_each(|(_, bell)| bell.notify_one());
    }

    pub(super) fn ring_all(&self) {
        self.hung().bells.values().for_each(|bell| bell.notify_one());
    }

    fn hung(&self) -> MutexGuard<'_, Hung> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    /// Waits until it rings. A ring that nobody waited for is heard by the next who does.
    ///
    /// # Cancel safety
    /// No ring is lost.
    pub(crate) async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.bells.hung().bells.remove(&self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bell, Bells};
    use handoff_exchange::DeviceNo;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn rung(bell: &Bell) -> bool {
        pin!(bell.rung()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_bell_rings_for_its_device_only_and_nothing_is_left_of_it() {
        let bells = Arc::new(Bells::default());
        let (one, same, other) =
            (bells.hang(DeviceNo(1)), bells.hang(DeviceNo(1)), bells.hang(DeviceNo(2)));
        bells.ring(DeviceNo(1));
        assert!(rung(&one) && rung(&same) && !rung(&other));
        assert!(!rung(&one), "once");
        bells.ring_all();
        assert!(rung(&one) && rung(&other));
        drop((one, same, other));
        assert!(bells.hung().bells.is_empty());
    }
}
