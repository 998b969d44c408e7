//! Fencing tokens, none of which ever comes again.
//!
//! All offers of the room take theirs from one row, so that a call whose id was used before, by one that is
//! forgotten, is offered under larger tokens than that one ever was. Whoever still holds an old one holds
//! nothing.
//!
//! ```text
//!   given ──────────▶ │                                │ until
//!   ─────────────────────────────────────────────────────────────▶ tokens
//!      may be held    │ may be given without a word    │ never given
//! ```
//!
//! Offers of calls in memory are not written. So what is written is up to where tokens may be given, a
//! block ahead; a server that begins goes on behind it, as if all of the block had been given.

use crate::{Change, Key};

/// Tokens that are written ahead at once. Half a block before the end the next is written, so that nobody
/// waits for it.
const BLOCK: u64 = 1 << 20;

/// Which tokens were given, and which may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fences {
    /// The largest that was given.
    given: u64,
    /// The largest that may be given.
    until: u64,
}

impl Fences {
    /// Those of a server that begins with what another left.
    pub(crate) const fn stored(until: u64) -> Self {
        Self { given: until, until }
    }

    /// The largest that may be given.
    pub(crate) const fn until(self) -> u64 {
        self.until
    }

    /// The next token, and what has to be written because of it.
    pub(crate) fn next(&mut self) -> (u64, Option<Change>) {
        self.given = self.given.saturating_add(1);
        let ends_soon = self.until.saturating_sub(self.given) < BLOCK / 2;
        let change = ends_soon.then(|| self.another_block(self.given));
        (self.given, change)
    }

    /// What a server writes that begins.
    pub(crate) fn begin(self) -> Change {
        self.another_block(self.given.max(self.until))
    }

    fn another_block(self, above: u64) -> Change {
        Change::Fences { above, until: above.saturating_add(BLOCK) }
    }

    /// A token was given.
    pub(crate) fn give(&mut self, fence: u64) {
        self.given = self.given.max(fence);
    }

    /// Tokens may be given up to this one, and none up to that one.
    pub(crate) fn allow(&mut self, above: u64, until: u64) {
        self.given = self.given.max(above);
        self.until = self.until.max(until);
    }

    /// The key of what is stored of them, if anything is.
    pub(crate) fn key(self) -> Option<Key> {
        (self.until > 0).then_some(Key::Fences)
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Fences};
    use crate::Change;

    fn next(fences: &mut Fences) -> u64 {
        let (fence, change) = fences.next();
        if let Some(Change::Fences { above, until }) = change {
            fences.allow(above, until);
        }
        fence
    }

    #[test]
    fn a_block_is_written_before_half_of_the_last_is_left() {
        let mut fences = Fences::default();
        let mut written = 0;
        for token in 1..=2 * BLOCK {
            let before = fences.until();
            assert_eq!(next(&mut fences), token);
            written += u64::from(fences.until() > before);
            assert!(fences.until() >= token + BLOCK / 2, "{token}: {fences:?}");
        }
        assert!(written <= 5, "a block each half block: {written}");
    }

    #[test]
    fn a_server_that_begins_gives_none_that_another_may_have_given() {
        let mut before = Fences::default();
        let mut last = 0;
        for _ in 0..100 {
            last = next(&mut before);
        }
        let mut after = Fences::stored(before.until());
        let Change::Fences { above, until } = after.begin() else { unreachable!() };
        after.allow(above, until);
        let (fence, change) = after.next();
        assert!(fence > last && fence > before.until(), "{fence}");
        assert_eq!(change, None, "what it began with is enough");
    }
}
