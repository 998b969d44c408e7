//! Time and chance of a running victim.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use handoff_types::{Entropy, Now, Steady, Wall, time};

use crate::clock;

/// Both clocks, the steady one going on from where the journal stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
    steady: Steady,
}

impl Clock {
    pub(super) fn resume(last: Option<Now>) -> Self {
        let steady = last.map_or(Steady::default(), |last| time::resume(last, wall()));
        Self { began: clock(), steady }
    }

    pub(super) fn now(&self) -> Now {
        let passed = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { wall: wall(), steady: self.steady + handoff_types::Span::from_micros(passed) }
    }
}

/// Chance from the system.
pub(super) fn entropy() -> io::Result<Entropy> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Entropy(u128::from_le_bytes(bytes)))
}

#[expect(clippy::disallowed_methods, reason = "the victim is a shell of its own")]
fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
