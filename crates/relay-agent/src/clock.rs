//! Time and chance, which come from outside.

use std::fmt;
use std::sync::Arc;

use handoff_types::{Entropy, Now};

/// The clock and the dice of the process that the agent runs in. A clone shows the same time and goes
/// on with the same dice.
#[derive(Clone)]
pub struct Outside {
    now: Arc<dyn Fn() -> Now + Send + Sync>,
    roll: Arc<dyn Fn() -> Entropy + Send + Sync>,
}

impl Outside {
    /// A clock and dice.
    pub fn new(
        now: impl Fn() -> Now + Send + Sync + 'static,
        roll: impl Fn() -> Entropy + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), roll: Arc::new(roll) }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Now {
        (self.now)()
    }

    /// Rolls the dice.
    #[must_use]
    pub fn roll(&self) -> Entropy {
        (self.roll)()
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}
