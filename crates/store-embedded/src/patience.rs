//! When copies are worth their time, and when the disk had better be left to the journal.
//!
//! Every body is written twice, to the journal and to its segment. While they come faster than a
//! disk likes to take them twice, copies wait: they may be made when the flood is over, and only the
//! journal has somebody who waits for it. They wait for so many bytes at most, and not at all for
//! whoever asks for them.

/// What is handed to the mover at once, give or take an entry; fewer are not worth waking it for.
pub(crate) const BYTES_AT_ONCE: u64 = 16 << 20;

/// What arrives within a tick of the mover's waiting is a flood from here on.
const FLOOD_BYTES: u64 = 32 << 20;

/// How long copies wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    enough_bytes: u64,
    arrived_bytes: u64,
}

/// How much had arrived at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tide(u64);

impl Patience {
    /// Copies are made whenever they are worth it.
    pub(crate) const NONE: Self = Self { enough_bytes: BYTES_AT_ONCE, arrived_bytes: 0 };

    /// From now on copies wait for so many bytes while there is a flood of them.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.enough_bytes = bytes.max(BYTES_AT_ONCE);
    }

    /// Bodies arrived.
    pub(crate) fn arrive(&mut self, bytes: u64) {
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
    }

    /// Whether so many bytes that were not copied are enough, flood or not.
    pub(crate) const fn is_enough(&self, unmoved_bytes: u64) -> bool {
        unmoved_bytes >= self.enough_bytes
    }

    pub(crate) const fn tide(&self) -> Tide {
        Tide(self.arrived_bytes)
    }

    /// Whether copies had better wait for what goes on since a tick ago, and may.
    pub(crate) const fn is_flooded_since(&self, Tide(then): Tide) -> bool {
        self.enough_bytes > BYTES_AT_ONCE && self.arrived_bytes - then >= FLOOD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_AT_ONCE, FLOOD_BYTES, Patience};

    #[test]
    fn a_flood_is_waited_for_as_long_as_it_lasts() {
        let mut patience = Patience::NONE;
        patience.grow(1 << 30);
        let calm = patience.tide();
        patience.arrive(FLOOD_BYTES - 1);
        assert!(!patience.is_flooded_since(calm), "a disk takes that twice");
        patience.arrive(1);
        assert!(patience.is_flooded_since(calm));
        assert!(!patience.is_flooded_since(patience.tide()), "nothing came since");
    }

    #[test]
    fn a_flood_is_waited_for_only_until_there_is_enough() {
        let mut patience = Patience::NONE;
        patience.grow(1 << 30);
        assert!(!patience.is_enough((1 << 30) - 1));
        assert!(patience.is_enough(1 << 30));
    }

    #[test]
    fn without_patience_whatever_is_worth_a_copy_is_copied() {
        let mut patience = Patience::NONE;
        let tide = patience.tide();
        patience.arrive(u64::MAX);
        assert!(patience.is_enough(BYTES_AT_ONCE) && !patience.is_flooded_since(tide));
        patience.grow(1);
        assert!(!patience.is_enough(BYTES_AT_ONCE - 1), "less is never worth it");
    }
}
