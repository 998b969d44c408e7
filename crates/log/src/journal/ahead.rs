//! What was read of the journal beyond what was asked for.

use bytes::Bytes;

/// How much one read brings.
pub(super) const AHEAD_BYTES: u64 = 256 << 10;

/// Bytes of the journal that were durable when they were read: they never change before they are
/// trimmed.
#[derive(Debug, Default)]
pub struct Ahead {
    from: u64,
    salt: u64,
    bytes: Bytes,
}

impl Ahead {
    pub(super) fn new(from: u64, salt: u64, bytes: Bytes) -> Self {
        Self { from, salt, bytes }
    }

    /// From the next time on everything is read.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// What there is from a position on, and the salt of its file.
    pub(super) fn from(&self, position: u64) -> Option<(u64, Bytes)> {
        let at = usize::try_from(position.checked_sub(self.from)?).ok()?;
        (at < self.bytes.len()).then(|| (self.salt, self.bytes.slice(at..)))
    }
}
