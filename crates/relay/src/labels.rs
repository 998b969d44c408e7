//! A label set as one piece of bytes, and its hash.
//!
//! ```text
//! label set   (name length │ name │ value length │ value) …      lengths are numbers of `wire`
//! ```

use crate::wire::{self, Front};

/// The labels of a series: pairs of name and value in the order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// Labels that [`push_label`] wrote.
    pub(crate) const fn of(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Each name and value.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut front = Front(self.0);
        std::iter::from_fn(move || Some((front.sized().ok()?, front.sized().ok()?)))
    }

    pub(crate) const fn bytes_len(self) -> usize {
        self.0.len()
    }

    /// A hash of all names and values in their order.
    pub(crate) fn hash(self) -> u64 {
        hash(self.0)
    }
}

/// Appends a label.
pub(crate) fn push_label(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    wire::put_bytes(text, name);
    wire::put_bytes(text, value);
}

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const LEFT: u64 = 0x1319_8a2e_0370_7344;
const RIGHT: u64 = 0xa409_3822_299f_31d0;

/// Sixteen bytes a step by one wide multiplication, as wyhash does it. Part of no format: it only
/// decides which shard has a series and where it is looked for.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut state = SEED ^ bytes.len() as u64;
    let (chunks, rest) = bytes.as_chunks::<16>();
    for chunk in chunks {
        state = fold(word(chunk, 0) ^ LEFT, word(chunk, 8) ^ state);
    }
    let mut last = [0; 16];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    state = fold(word(&last, 0) ^ LEFT, word(&last, 8) ^ state);
    fold(state ^ SEED, RIGHT)
}

fn word(chunk: &[u8; 16], at: usize) -> u64 {
    let bytes = chunk.get(at..).and_then(<[u8]>::first_chunk).copied();
    u64::from_le_bytes(bytes.unwrap_or_default())
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    {
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Labels, hash, push_label};

    #[test]
    fn labels_are_read_as_they_were_pushed() {
        let mut text = Vec::new();
        let long = [b'x'; 300];
        push_label(&mut text, b"__name__", b"up");
        push_label(&mut text, b"a", &long);
        push_label(&mut text, b"b", b"");
        let found: Vec<_> = Labels::of(&text).iter().collect();
        assert_eq!(found, [(&b"__name__"[..], &b"up"[..]), (b"a", &long), (b"b", b"")]);
    }

    #[test]
    fn hashes_of_many_alike_series_fill_every_shard_and_do_not_meet() {
        let mut counts = [0_u32; 16];
        let mut seen = std::collections::HashSet::new();
        for number in 0..16_000_u32 {
            let mut text = Vec::new();
            push_label(&mut text, b"instance", format!("host-{number}").as_bytes());
            let hash = hash(&text);
            assert!(seen.insert(hash), "number {number} has the hash of another");
            counts[usize::try_from(hash >> 60).unwrap()] += 1;
        }
        for (shard, count) in counts.into_iter().enumerate() {
            assert!((800..1_200).contains(&count), "shard {shard} has {count} of 16,000");
        }
    }
}
