//! Blocks whose decoders are kept from one connection to the next, and who speaks for them.
//!
//! A decoder that was lost costs a key frame, so nothing here must be kept; but a block has one
//! connection at a time, and whoever comes for one that is spoken for waits until the other has left
//! and all that it handed over was answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_relay::{Origin, Receiver};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How long whoever comes waits for another connection of the same block to leave.
const TAKE_OVER_MAX: Duration = Duration::from_secs(15);

#[derive(Debug)]
enum Slot {
    /// Somebody speaks for it; told so, they leave.
    Spoken(CancellationToken),
    /// Nobody does, since then.
    Kept(Box<Receiver>, Instant),
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    slots: Mutex<BTreeMap<Origin, Slot>>,
    left: Notify,
}

/// Why a block cannot be spoken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Its other connection does not leave.
    Spoken,
    /// There are as many as may be.
    Full(usize),
}

/// A block to speak for, with the decoders that were kept of it.
type Claimed = Result<(Claim, Option<Box<Receiver>>), Busy>;

/// The right to speak for a block. Dropped, its decoders are lost.
#[derive(Debug)]
pub(super) struct Claim {
    blocks: Arc<Blocks>,
    origin: Origin,
    leave: CancellationToken,
    is_released: bool,
}

impl Blocks {
    fn slots(&self) -> MutexGuard<'_, BTreeMap<Origin, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.slots().len()
    }

    /// Forgets decoders that nobody used for so long.
    pub(super) fn forget(&self, idle: Duration) {
        let now = Instant::now();
        self.slots().retain(|_, slot| match slot {
            Slot::Spoken(_) => true,
            Slot::Kept(_, since) => now.saturating_duration_since(*since) < idle,
        });
    }

    /// Speaks for a block from now on, with the decoders that were kept of it.
    ///
    /// # Cancel safety
    /// Changes nothing, except that another connection may have been told to leave.
    pub(super) async fn claim(self: &Arc<Self>, origin: &Origin, max: usize) -> Claimed {
        let claiming = async {
            loop {
                let left = self.left.notified();
                tokio::pin!(left);
                // Whoever leaves between the look and the wait is heard.
                left.as_mut().enable();
                if let Some(claimed) = self.try_claim(origin, max) {
                    return claimed;
                }
                left.await;
            }
        };
        timeout(TAKE_OVER_MAX, claiming).await.unwrap_or(Err(Busy::Spoken))
    }

    fn try_claim(self: &Arc<Self>, origin: &Origin, max: usize) -> Option<Claimed> {
        let mut slots = self.slots();
        let kept = match slots.get(origin) {
            Some(Slot::Spoken(leave)) => {
                leave.cancel();
                return None;
            }
            Some(Slot::Kept(..)) => match slots.remove(origin) {
                Some(Slot::Kept(receiver, _)) => Some(receiver),
                _ => None,
            },
            None => None,
        };
        if slots.len() >= max {
            let kept = slots.iter().filter_map(|(origin, slot)| match slot {
                Slot::Kept(_, since) => Some((*since, origin)),
                Slot::Spoken(_) => None,
            });
            let Some((_, oldest)) = kept.min_by_key(|(since, _)| *since) else {
                return Some(Err(Busy::Full(max)));
            };
            let oldest = oldest.clone();
            slots.remove(&oldest);
        }
        let leave = CancellationToken::new();
        slots.insert(origin.clone(), Slot::Spoken(leave.clone()));
        drop(slots);
        let (blocks, origin) = (Arc::clone(self), origin.clone());
        Some(Ok((Claim { blocks, origin, leave, is_released: false }, kept)))
    }
}

impl Claim {
    /// Somebody else has come for the block.
    ///
    /// # Cancel safety
    /// It may be waited for again.
    pub(super) async fn told_to_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Leaves. All that was handed over has been answered; decoders that stand at what was stored are
    /// kept.
    pub(super) fn release(mut self, receiver: Option<Box<Receiver>>) {
        self.is_released = true;
        let mut slots = self.blocks.slots();
        match receiver {
            Some(receiver) => {
                slots.insert(self.origin.clone(), Slot::Kept(receiver, Instant::now()));
            }
            None => {
                slots.remove(&self.origin);
            }
        }
        drop(slots);
        self.blocks.left.notify_waiters();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_released {
            self.blocks.slots().remove(&self.origin);
            self.blocks.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, Busy};
    use handoff_relay::codec::ENCODER_VERSION;
    use handoff_relay::session::Hello;
    use handoff_relay::{BlockId, Name, Origin, Receiver, ReceiverLimits, Shards};
    use std::sync::Arc;
    use std::time::Duration;

    fn origin(block: u8) -> Origin {
        Origin { agent: Name::try_from("edge").unwrap(), block: BlockId([block; 16]) }
    }

    fn receiver(block: u8) -> Box<Receiver> {
        let hello = Hello {
            origin: origin(block),
            shards: Shards::ONE,
            encoder: ENCODER_VERSION,
            backlog: false,
            token: String::new(),
            first: vec![0],
        };
        Box::new(Receiver::new(&hello, ReceiverLimits::default()).unwrap())
    }

    #[tokio::test]
    async fn whoever_comes_later_waits_until_the_other_has_left() {
        let blocks = Arc::new(Blocks::default());
        let (first, none) = blocks.claim(&origin(1), 10).await.unwrap();
        assert!(none.is_none());
        let theirs = Arc::clone(&blocks);
        let second = tokio::spawn(async move { theirs.claim(&origin(1), 10).await.unwrap() });
        first.told_to_leave().await;
        assert!(!second.is_finished());
        first.release(Some(receiver(1)));
        let (_, kept) = second.await.unwrap();
        assert!(kept.is_some(), "its decoders are kept");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_leave_is_not_waited_for_for_ever() {
        let blocks = Arc::new(Blocks::default());
        let (_first, _) = blocks.claim(&origin(1), 10).await.unwrap();
        assert_eq!(blocks.claim(&origin(1), 10).await.unwrap_err(), Busy::Spoken);
    }

    #[tokio::test]
    async fn when_there_are_too_many_the_one_that_was_left_first_is_forgotten() {
        let blocks = Arc::new(Blocks::default());
        for block in [1, 2] {
            let (claim, _) = blocks.claim(&origin(block), 2).await.unwrap();
            claim.release(Some(receiver(block)));
        }
        let (third, _) = blocks.claim(&origin(3), 2).await.unwrap();
        let (second, kept) = blocks.claim(&origin(2), 2).await.unwrap();
        assert!(kept.is_some());
        assert_eq!(blocks.claim(&origin(1), 2).await.unwrap_err(), Busy::Full(2));
        drop((second, third));
        let (_, kept) = blocks.claim(&origin(1), 2).await.unwrap();
        assert!(kept.is_none(), "it was forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn decoders_of_a_block_that_nobody_sends_are_forgotten() {
        let blocks = Arc::new(Blocks::default());
        let (claim, _) = blocks.claim(&origin(1), 2).await.unwrap();
        claim.release(Some(receiver(1)));
        blocks.forget(Duration::from_secs(10));
        assert_eq!(blocks.len(), 1);
        tokio::time::advance(Duration::from_secs(11)).await;
        blocks.forget(Duration::from_secs(10));
        assert_eq!(blocks.len(), 0);
    }
}
