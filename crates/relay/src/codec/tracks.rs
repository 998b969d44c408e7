//! The tracks of all series of a shard.

use super::dictionary::grow;
use super::track::Track;

/// Tracks of a piece: 16 KiB.
const PIECE: usize = 512;

/// Tracks by the number of their series, in pieces. What is there stays where it is when more series
/// come: nothing is copied, and nothing that was outgrown is left to the allocator.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracks {
    /// All but the last are full.
    pieces: Vec<Vec<Track>>,
}

impl Tracks {
    pub(super) fn len(&self) -> usize {
        let last = self.pieces.last().map_or(0, Vec::len);
        self.pieces.len().saturating_sub(1) * PIECE + last
    }

    #[inline]
    pub(super) fn get_mut(&mut self, series: u32) -> Option<&mut Track> {
        let at = series as usize;
        self.pieces.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Track> + Clone {
        self.pieces.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.pieces.iter_mut().flatten()
    }

    /// New tracks until there are so many.
    pub(super) fn grow(&mut self, len: usize) {
        let mut left = len.saturating_sub(self.len());
        while left > 0 {
            let Some(piece) = self.open() else { return };
            let more = left.min(PIECE - piece.len());
            grow(piece, more);
            piece.resize(piece.len() + more, Track::default());
            left -= more;
        }
    }

    pub(super) fn push(&mut self, track: Track) {
        let Some(piece) = self.open() else { return };
        grow(piece, 1);
        piece.push(track);
    }

    /// Becomes the same as another, in the place that is there.
    pub(super) fn copy(&mut self, other: &Self) {
        self.pieces.truncate(other.pieces.len());
        for (at, theirs) in other.pieces.iter().enumerate() {
            match self.pieces.get_mut(at) {
                Some(own) => {
                    own.clear();
                    grow(own, theirs.len());
                    own.extend_from_slice(theirs);
                }
                None => self.pieces.push(theirs.clone()),
            }
        }
    }

    /// The piece that has room. Only the first grows by and by: a shard may be small.
    fn open(&mut self) -> Option<&mut Vec<Track>> {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            let room = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        self.pieces.last_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Track, Tracks};

    fn numbered(len: u32) -> Tracks {
        let mut tracks = Tracks::default();
        for number in 0..len {
            tracks.push(Track { time: number.into(), ..Track::default() });
        }
        tracks
    }

    #[test]
    fn tracks_are_found_by_their_number_across_pieces() {
        let len = u32::try_from(PIECE).unwrap() * 2 + 3;
        let mut tracks = numbered(len);
        assert_eq!(tracks.len(), len as usize);
        for number in [0, 511, 512, 1_023, 1_024, len - 1] {
            assert_eq!(tracks.get_mut(number).map(|track| track.time), Some(number.into()));
        }
        assert!(tracks.get_mut(len).is_none());
        assert!(tracks.iter().map(|track| track.time).eq(0..i64::from(len)));
    }

    #[test]
    fn tracks_grow_and_are_copied_over_more_and_over_fewer() {
        for (from, to) in [(0, 1), (1, 511), (5, 512), (512, 513), (700, 3_000), (9, 9)] {
            let mut tracks = numbered(from);
            tracks.grow(to);
            assert_eq!(tracks.len(), to);
            assert_eq!(
                tracks.iter().filter(|track| track.time > 0).count() + 1,
                from.max(1) as usize
            );
            for before in [0, 3, 600, 4_000] {
                let mut copy = numbered(before);
                copy.copy(&tracks);
                assert!(copy.iter().eq(tracks.iter()), "{to} over {before}");
                assert_eq!(copy.len(), to);
            }
        }
    }
}
