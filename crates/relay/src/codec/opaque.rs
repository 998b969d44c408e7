//! What is carried without being looked into.
//!
//! ```text
//! opaque      (kind u8 │ series, plus one; 0 for none │ sized bytes) …
//! ```
//!
//! What is known of a series says the same until it says something else: it is written only when it
//! changes.

use handoff_types::entropy::mix;
use hashbrown::HashTable;

use crate::OpaqueKind;
use crate::labels::hash;
use crate::wire::{self, Front, Malformed};

/// The most that is remembered to have been said; then all is said again.
const REMEMBERED_MAX: usize = 1 << 20;

/// Pieces that wait for their segment.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    bytes: Vec<u8>,
    count: usize,
    /// What was said last of each kind of each series, as two hashes: of whom, and what.
    said: HashTable<(u64, u64)>,
}

impl Waiting {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn push(&mut self, kind: OpaqueKind, series: Option<u32>, bytes: &[u8]) {
        if let Some(series) = series.filter(|_| kind.lasts())
            && self.was_said(mix(u64::from(series) << 8 | u64::from(kind.number())), hash(bytes))
        {
            return;
        }
        self.bytes.push(kind.number());
        wire::put(&mut self.bytes, series.map_or(0, |series| u64::from(series) + 1));
        wire::put_bytes(&mut self.bytes, bytes);
        self.count += 1;
    }

    /// Whether it was the last thing said; if not, it is now.
    fn was_said(&mut self, of: u64, what: u64) -> bool {
        if let Some((_, last)) = self.said.find_mut(of, |(known, _)| *known == of) {
            return std::mem::replace(last, what) == what;
        }
        if self.said.len() >= REMEMBERED_MAX {
            self.said.clear();
        }
        self.said.insert_unique(of, (of, what), |(of, _)| *of);
        false
    }

    /// Appends all that waits.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        self.bytes.clear();
        self.count = 0;
    }
}

/// Reads the pieces of a segment.
pub(super) fn read(
    mut front: Front<'_>,
    series_len: u32,
    mut each: impl FnMut(OpaqueKind, Option<u32>, &[u8]),
) -> Result<(), Malformed> {
    while !front.is_empty() {
        let kind = OpaqueKind::from_number(front.byte()?);
        let kind = kind.ok_or(Malformed("carries something of a kind that is not known"))?;
        let series = front.number()?.checked_sub(1);
        let series = series.map(u32::try_from).transpose();
        let series = series.map_err(|_| Malformed("names no series"))?;
        if series.is_some_and(|series| series >= series_len) {
            return Err(Malformed("names no series"));
        }
        each(kind, series, front.sized()?);
    }
    Ok(())
}
