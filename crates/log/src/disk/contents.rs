//! The bytes of a file, sparse and cheap to copy.
//!
//! Pages are shared between copies until one of them writes, and a hole costs nothing. So a crash
//! state costs what was written since the last sync, not what the file holds, and preallocating
//! costs no memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

const PAGE: usize = 4096;

/// A byte string with holes that read as zeros.
///
/// Invariant: what lies past `len` inside the last page is zero and no page lies wholly past it,
/// so growing shows zeros whatever was cut before.
#[derive(Clone, Default)]
pub(super) struct Contents {
    len: usize,
    pages: BTreeMap<usize, Arc<[u8; PAGE]>>,
}

impl Contents {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Reads at `offset` and says how many bytes there were before the end.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: usize) -> usize {
        let count = buffer.len().min(self.len.saturating_sub(offset));
        let mut rest = buffer;
        for piece in blocks(offset..offset.saturating_add(count), PAGE) {
            let (head, tail) = rest.split_at_mut(piece.len());
            rest = tail;
            match self.pages.get(&page_of(&piece)).and_then(|page| page.get(within(&piece))) {
                Some(stored) => head.copy_from_slice(stored),
                None => head.fill(0),
            }
        }
        count
    }

    /// Writes all of `bytes` at `offset`, growing with zeros as far as needed. The end must have
    /// come from [`end_of`].
    pub(super) fn write_at(&mut self, bytes: &[u8], offset: usize) {
        let mut rest = bytes;
        for piece in blocks(offset..offset + bytes.len(), PAGE) {
            let (head, tail) = rest.split_at(piece.len());
            rest = tail;
            let page = self.pages.entry(page_of(&piece)).or_insert_with(|| Arc::new([0; PAGE]));
            if let Some(stored) = Arc::make_mut(page).get_mut(within(&piece)) {
                stored.copy_from_slice(head);
            }
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len());
        }
    }

    /// Turns what is stored of a range into a hole; the length stays.
    pub(super) fn zero(&mut self, range: Range<usize>) {
        for piece in blocks(range.start..range.end.min(self.len), PAGE) {
            if piece.len() == PAGE {
                self.pages.remove(&page_of(&piece));
            } else if let Some(page) = self.pages.get_mut(&page_of(&piece))
                && let Some(stored) = Arc::make_mut(page).get_mut(within(&piece))
            {
                stored.fill(0);
            }
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        if len < self.len {
            let first_past = len.next_multiple_of(PAGE);
            self.zero(len..first_past);
            self.pages.split_off(&(first_past / PAGE));
        }
        self.len = len;
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read_at(&mut bytes, 0);
        bytes
    }
}

impl From<&[u8]> for Contents {
    fn from(bytes: &[u8]) -> Self {
        let mut contents = Self::default();
        contents.write_at(bytes, 0);
        contents
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents")
            .field("len", &self.len)
            .field("pages", &self.pages.len())
            .finish()
    }
}

/// The place of a write of `count` bytes at `offset`, if a file can be that long.
pub(super) fn end_of(offset: u64, count: usize) -> io::Result<usize> {
    // One page short of the largest, so that rounding up to a page never overflows.
    const LARGEST: usize = isize::MAX as usize - PAGE;
    usize::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_add(count))
        .filter(|end| *end <= LARGEST)
        .ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Cuts a range where a multiple of `unit` lies inside it.
pub(super) fn blocks(range: Range<usize>, unit: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        (start < range.end).then(|| {
            let end = (start + 1).next_multiple_of(unit).min(range.end);
            std::mem::replace(&mut start, end)..end
        })
    })
}

fn page_of(piece: &Range<usize>) -> usize {
    piece.start / PAGE
}

fn within(piece: &Range<usize>) -> Range<usize> {
    let start = piece.start % PAGE;
    start..start + piece.len()
}

#[cfg(test)]
mod tests {
    use super::{Contents, PAGE, blocks};

    #[test]
    fn blocks_cut_a_range_at_multiples_only() {
        assert_eq!(blocks(3..10, 4).collect::<Vec<_>>(), [3..4, 4..8, 8..10]);
        assert_eq!(blocks(4..12, 4).collect::<Vec<_>>(), [4..8, 8..12]);
        assert_eq!(blocks(5..5, 4).count(), 0);
    }

    #[test]
    fn a_copy_keeps_what_it_had_when_the_other_writes() {
        let mut contents = Contents::from(vec![1; 3 * PAGE].as_slice());
        let copy = contents.clone();
        contents.write_at(&[2; 10], PAGE - 5);
        assert_eq!(copy.to_vec(), vec![1; 3 * PAGE]);
        assert_eq!(contents.to_vec().iter().filter(|byte| **byte == 2).count(), 10);
    }

    #[test]
    fn growing_after_a_cut_shows_zeros_wherever_the_cut_was() {
        for cut in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE] {
            let mut contents = Contents::from(vec![1; 3 * PAGE].as_slice());
            contents.set_len(cut);
            contents.set_len(3 * PAGE);
            let mut expected = vec![1; cut];
            expected.resize(3 * PAGE, 0);
            assert_eq!(contents.to_vec(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_hole_as_large_as_a_disk_costs_no_memory() {
        let mut contents = Contents::default();
        contents.set_len(1 << 40);
        contents.write_at(b"x", 1 << 39);
        assert_eq!(contents.len(), 1 << 40);
        assert_eq!(contents.pages.len(), 1);
    }
}
