//! Blocks one after the other: the present one takes samples, the one before it is on its way out.
//!
//! ```text
//!  present   ▐██████ A ██████▌▐██████ B ██████▌▐███ C …      a new block begins with nothing said
//!  leaving                    ▐─ A ─▌           ▐─ B ─▌      until all is confirmed or on disk
//!                                   └ its file, if there is one, is sealed: backlog
//! ```
//!
//! Whoever sends never waits for a rotation: the new block is there before the old one is closed.

use handoff_types::{Entropy, Now, Span, Steady};

use crate::ack::DestinationId;
use crate::batch::Batch;
use crate::codec::Workbench;
use crate::delivery::{DeliveryManager, DeliveryRules, SendError};
use crate::key::BlockId;
use crate::promise::{Mode, Outcome, Ticket};

/// A promise, and the block it was given by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pledge {
    /// The block.
    pub block: BlockId,
    /// The promise.
    pub ticket: Ticket,
}

/// The present block, and at most one that is leaving.
#[derive(Debug)]
pub struct DeliveryManagerKeeper {
    rules: DeliveryRules,
    present: DeliveryManager,
    leaving: Option<DeliveryManager>,
    stopping: Option<Steady>,
    /// Who is known to be gone, a bit for each destination.
    parted: u64,
}

impl DeliveryManagerKeeper {
    /// Begins with a new block.
    #[must_use]
    pub fn new(rules: DeliveryRules, now: Now, entropy: Entropy) -> Self {
        let present = begin(0, &rules, now, entropy);
        Self { rules, present, leaving: None, stopping: None, parted: 0 }
    }

    /// A destination is gone. Blocks that begin from now on do not wait for it.
    pub fn part(&mut self, destination: DestinationId) {
        self.parted |= bit(destination);
    }

    /// A destination is here, or here again: a block that began without it is followed by another.
    pub fn meet(&mut self, destination: DestinationId) {
        if self.parted & bit(destination) != 0 {
            self.parted &= !bit(destination);
            self.present.strand();
        }
    }

    /// The block that takes samples.
    #[must_use]
    pub const fn present(&self) -> &DeliveryManager {
        &self.present
    }

    /// The block that is leaving.
    #[must_use]
    pub const fn leaving(&self) -> Option<&DeliveryManager> {
        self.leaving.as_ref()
    }

    /// A block by its name, for what its senders and its file have to say.
    pub fn block_mut(&mut self, block: BlockId) -> Option<&mut DeliveryManager> {
        if self.present.block() == block {
            return Some(&mut self.present);
        }
        self.leaving.as_mut().filter(|leaving| leaving.block() == block)
    }

    /// Takes a batch, all of it or nothing. A block that is full is followed by another.
    ///
    /// # Errors
    /// See [`SendError`]. While it stops, everything is [`SendError::Full`].
    pub fn send(
        &mut self,
        batch: &Batch,
        mode: Mode,
        now: Now,
        entropy: Entropy,
        bench: &mut Workbench,
    ) -> Result<(Pledge, Option<Outcome>), SendError> {
        // A block that cannot leave for want of disk would only be followed by others.
        let stuck = self.leaving.as_ref().is_some_and(DeliveryManager::needs_spool);
        if self.stopping.is_some() || stuck {
            return Err(SendError::Full);
        }
        let mut sent = self.present.send(batch, mode, now.steady, bench);
        if sent == Err(SendError::BlockFull) && self.rotate(now, entropy, bench) {
            sent = self.present.send(batch, mode, now.steady, bench);
        }
        match sent {
            Ok((ticket, outcome)) => Ok((Pledge { block: self.present.block(), ticket }, outcome)),
            // The block before has to leave first.
            Err(SendError::BlockFull) => Err(SendError::Full),
            Err(error) => Err(error),
        }
    }

    /// Begins a new block. False while the one before is still leaving: it is sent to disk, so that
    /// it will not be for long.
    pub fn rotate(&mut self, now: Now, entropy: Entropy, bench: &mut Workbench) -> bool {
        if let Some(leaving) = &mut self.leaving {
            leaving.reject_all();
            return false;
        }
        let next = begin(self.parted, &self.rules, now, entropy);
        let mut old = std::mem::replace(&mut self.present, next);
        old.close(now.steady, bench);
        self.leaving = Some(old);
        true
    }

    /// Lets time pass: segments close, promises end, and a block that is due is followed by another.
    pub fn tick(&mut self, now: Now, entropy: Entropy, bench: &mut Workbench) {
        self.present.tick(now.steady, bench);
        if let Some(leaving) = &mut self.leaving {
            leaving.tick(now.steady, bench);
        }
        if self.stopping.is_none() && self.present.is_due(now.steady) {
            self.rotate(now, entropy, bench);
        }
    }

    /// Gives out the block that has left: nothing of it is in memory any more. Its file, if there is
    /// one, is to be sealed.
    pub fn take_left(&mut self) -> Option<DeliveryManager> {
        self.leaving.take_if(|leaving| leaving.is_drained())
    }

    /// Promises of all blocks that have ended since this was asked last.
    pub fn take_ended(&mut self) -> Vec<(Pledge, Outcome)> {
        let mut ended = Vec::new();
        for one in [Some(&mut self.present), self.leaving.as_mut()].into_iter().flatten() {
            let block = one.block();
            let mine = one.take_ended().into_iter();
            ended.extend(mine.map(|(ticket, outcome)| (Pledge { block, ticket }, outcome)));
        }
        ended
    }

    /// Begins to stop. Nothing is taken any more; what the destinations do not confirm within half
    /// of `within` goes to disk, so that the other half is left to write it.
    pub fn shutdown(&mut self, within: Span, now: Steady, bench: &mut Workbench) {
        self.present.close(now, bench);
        self.stopping = Some(now + Span(within.0 / 2));
        if within == Span::ZERO {
            self.give_up();
        }
    }

    /// Whether it has stopped: nothing is in memory any more. Until then the shell keeps writing what
    /// [`DeliveryManager::spooling`] asks for.
    pub fn has_stopped(&mut self, now: Steady) -> bool {
        if self.stopping.is_some_and(|at| at <= now) {
            self.give_up();
        }
        let leaving = self.leaving.as_ref().is_none_or(DeliveryManager::is_drained);
        self.stopping.is_some() && self.present.is_drained() && leaving
    }

    /// When it wants to be driven next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        let leaving = self.leaving.as_ref().and_then(DeliveryManager::next_deadline);
        [self.present.next_deadline(), leaving, self.stopping].into_iter().flatten().min()
    }

    fn give_up(&mut self) {
        self.present.reject_all();
        if let Some(leaving) = &mut self.leaving {
            leaving.reject_all();
        }
    }
}

/// A new block. Chance is in its age, so that a fleet that was started at once does not rotate at
/// once.
fn begin(parted: u64, rules: &DeliveryRules, now: Now, entropy: Entropy) -> DeliveryManager {
    let mut rules = rules.clone();
    let eighth = rules.block_age_max.0 / 8;
    rules.block_age_max.0 -= entropy.word(1) % (eighth + 1);
    DeliveryManager::without(parted, rules, BlockId::from_entropy(entropy.0), now)
}

/// The bit of a destination.
fn bit(destination: DestinationId) -> u64 {
    u32::try_from(destination).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}
