//! What goes out over one connection, piece by piece, as the socket takes it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use handoff_sevent::{Answer, Chunks};

use super::wire::Wire;
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

    /// Writes what the socket takes with one call and gives what of the reserved is free again.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        wire: &mut Wire,
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
            ready!(wire.poll_write(context, &[first]))?
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
            ready!(wire.poll_write(context, slices.get(..count).unwrap_or_default()))?
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
