//! What goes out over one connection, piece by piece, as the socket takes it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Buf, BytesMut};
use handoff_sevent::{Answer, Chunks};

use crate::rooms::events::Told;

/// Pieces written with one call.
const SLICES: usize = 64;

/// An answer above this is made as the socket drains.
const LARGE_BYTES: usize = 32 << 10;

/// How much of a large answer is made at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Small answers share a piece up to this.
const SHARED_BYTES: usize = 8 << 10;

/// What goes out.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Piece>,
    /// How much of the first piece is out.
    written: usize,
}

#[derive(Debug)]
enum Piece {
    Told(Arc<Told>),
    /// One or several answers, and what was reserved for them.
    Octets(BytesMut, usize),
    /// A large answer: what of it is made, the rest, and what was reserved for it.
    Large(Box<(BytesMut, Chunks)>, usize),
}

impl Output {
    /// Whether nothing waits to go out.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether there is enough for one call already.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= SLICES
    }

    pub(super) fn tell(&mut self, told: Arc<Told>) {
        self.pieces.push_back(Piece::Told(told));
    }

    /// Puts an answer behind everything else, with what was reserved for it.
    pub(super) fn answer(&mut self, answer: Answer, reserved: usize) {
        if answer.encoded_len() > LARGE_BYTES {
            let large = Box::new((BytesMut::new(), Chunks::new(answer)));
            self.pieces.push_back(Piece::Large(large, reserved));
            return;
        }
        if let Some(Piece::Octets(octets, sum)) = self.pieces.back_mut()
            && octets.len() < SHARED_BYTES
        {
            answer.encode(octets);
            *sum += reserved;
            return;
        }
        let mut octets = BytesMut::new();
        answer.encode(&mut octets);
        self.pieces.push_back(Piece::Octets(octets, reserved));
    }

    /// Lets one call of `write` take what it takes, and gives what of the reserved is free again.
    pub(super) fn poll_write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Some(Piece::Large(large, _)) = self.pieces.front_mut() {
            let (made, chunks) = &mut **large;
            if made.is_empty() {
                chunks.fill(made, CHUNK_BYTES);
            }
        }
        let first = self.pieces.front().map_or(&[][..], Piece::made);
        let first = IoSlice::new(first.get(self.written..).unwrap_or_default());
        let written = if self.pieces.len() == 1 {
            ready!(write(&[first]))?
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = if count == 0 { first } else { IoSlice::new(piece.made()) };
                count += 1;
                // What follows cannot go out before the rest of it is made.
                if matches!(piece, Piece::Large(..)) {
                    break;
                }
            }
            ready!(write(slices.get(..count).unwrap_or_default()))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        Poll::Ready(Ok(self.advance(written)))
    }

    fn advance(&mut self, mut written: usize) -> usize {
        let mut freed = 0;
        while let Some(piece) = self.pieces.front_mut() {
            if let Piece::Large(large, reserved) = piece {
                let (made, chunks) = &mut **large;
                let out = written.min(made.len());
                made.advance(out);
                written -= out;
                if !made.is_empty() || chunks.remaining() > 0 {
                    break;
                }
                freed += *reserved;
            } else {
                let left = piece.made().len() - self.written;
                if written < left {
                    self.written += written;
                    break;
                }
                written -= left;
                self.written = 0;
                if let Piece::Octets(_, reserved) = piece {
                    freed += *reserved;
                }
            }
            self.pieces.pop_front();
            if written == 0 {
                break;
            }
        }
        freed
    }
}

impl Piece {
    /// Octets that can go out.
    fn made(&self) -> &[u8] {
        match self {
            Self::Told(told) => &told.frame,
            Self::Octets(octets, _) => octets,
            Self::Large(large, _) => &large.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;
    use std::task::Poll;

    use bytes::{Bytes, BytesMut};
    use handoff_events::{Id, Notification, Repeat};
    use handoff_sevent::Answer;
    use handoff_types::Wall;
    use proptest::prelude::*;

    use super::Output;
    use crate::rooms::events::Told;

    fn told(frame: Vec<u8>) -> Arc<Told> {
        let notification = Notification {
            id: Id::default(),
            types: Vec::new(),
            description: "".into(),
            period_secs: 1.0,
            repeat: Repeat::Forever,
            updated: Wall(0),
            due: Wall(0),
            occurrence: 1,
            late: false,
        };
        Arc::new(Told { notification, frame: Bytes::from(frame) })
    }

    /// A notification of so many octets, or a list of so many ids.
    #[derive(Clone, Debug)]
    enum Put {
        Told(usize),
        Listed(usize),
    }

    fn put() -> impl Strategy<Value = Put> {
        prop_oneof![
            (1..300_usize).prop_map(Put::Told),
            (0..50_usize).prop_map(Put::Listed),
            (20_000..60_000_usize).prop_map(Put::Listed),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_the_socket_takes_at_once_the_octets_are_those_that_were_put_in(
            puts in prop::collection::vec(put(), 1..100),
            takes in prop::collection::vec(1..100_000_usize, 1..20),
        ) {
            let (mut output, mut wanted) = (Output::default(), BytesMut::new());
            for (n, put) in puts.iter().enumerate() {
                match put {
                    Put::Told(octets) => {
                        let frame = vec![u8::try_from(n).unwrap(); *octets];
                        wanted.extend_from_slice(&frame);
                        output.tell(told(frame));
                    }
                    Put::Listed(count) => {
                        let ids = (0..i32::try_from(*count).unwrap()).collect();
                        let answer = Answer::ListedEvents { ids };
                        answer.encode(&mut wanted);
                        output.answer(answer, 7);
                    }
                }
            }
            let (mut out, mut freed, mut takes) = (Vec::new(), 0, takes.iter().cycle());
            while !output.is_empty() {
                let take = *takes.next().unwrap();
                let written = output.poll_write(|slices: &[IoSlice<'_>]| {
                    let all = slices.iter().flat_map(|slice| slice.iter().copied());
                    let before = out.len();
                    out.extend(all.take(take));
                    Poll::Ready(Ok(out.len() - before))
                });
                let Poll::Ready(Ok(some)) = written else { panic!("{written:?}") };
                freed += some;
            }
            prop_assert!(out == wanted, "other octets");
            let answers = puts.iter().filter(|put| matches!(put, Put::Listed(_))).count();
            prop_assert_eq!(freed, 7 * answers);
        }
    }
}
