//! An answer in pieces is the same answer.

use crate::support::any_answer;
use bytes::BytesMut;
use handoff_sevent::{Answer, Chunks, Selection};
use proptest::prelude::*;

#[test]
fn pieces_have_the_size_that_was_asked_for() {
    let answer = Answer::Filter(Selection {
        ids: vec![0, 687, -1, 48_677],
        types: vec![String::new(), "a long name ".repeat(20)],
    });
    let whole = answer.to_bytes();
    for size in 1..whole.len() + 2 {
        let mut chunks = Chunks::new(answer.clone());
        assert_eq!(chunks.remaining(), whole.len());
        let mut out = BytesMut::new();
        while chunks.remaining() > 0 {
            let (before, remaining) = (out.len(), chunks.remaining());
            chunks.fill(&mut out, size);
            assert_eq!(out.len() - before, size.min(remaining));
            assert_eq!(chunks.remaining(), whole.len() - out.len());
        }
        assert_eq!(out, whole, "in pieces of {size}");
        chunks.fill(&mut out, size);
        assert_eq!(out.len(), whole.len(), "nothing comes after the end");
    }
}

#[test]
fn a_message_is_measured_before_it_is_written() {
    let mut out = BytesMut::new();
    Answer::ListedEvents { ids: (0..1_000_000).collect() }.encode(&mut out);
    assert_eq!(out.capacity(), out.len(), "one buffer, no larger than need be");
}

#[test]
fn a_million_ids_need_no_second_copy() {
    let answer = Answer::ListedEvents { ids: (0..1_000_000).collect() };
    let whole = answer.to_bytes();
    let mut chunks = Chunks::new(answer);
    let mut piece = BytesMut::with_capacity(64 << 10);
    let mut at = 0;
    while chunks.remaining() > 0 {
        piece.clear();
        chunks.fill(&mut piece, 64 << 10);
        assert!(piece.capacity() <= 64 << 10);
        assert_eq!(piece, whole[at..at + piece.len()]);
        at += piece.len();
    }
    assert_eq!(at, whole.len());
}

proptest! {
    #[test]
    fn any_answer_in_any_pieces_is_the_same(
        answer in any_answer(),
        sizes in proptest::collection::vec(0_usize..50, 1..10),
    ) {
        let whole = answer.to_bytes();
        let mut chunks = Chunks::new(answer);
        let mut out = BytesMut::new();
        for size in sizes {
            chunks.fill(&mut out, size);
        }
        chunks.fill(&mut out, usize::MAX);
        prop_assert_eq!(chunks.remaining(), 0);
        prop_assert_eq!(out, whole);
    }
}
