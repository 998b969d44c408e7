//! A stream is cut into the same messages however it arrives, and a broken one stays broken.

use crate::support::{any_request, encoded, hex};
use bytes::Bytes;
use handoff_sevent::{Answer, FrameError, Frames};
use proptest::collection::vec;
use proptest::prelude::*;

/// The messages of a stream that arrives in these pieces, and what broke it.
fn cut<'a>(
    max: u32,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Bytes>, Option<FrameError>, usize) {
    let mut frames = Frames::new(max);
    let mut found = Vec::new();
    for piece in pieces {
        frames.extend(piece);
        loop {
            match frames.next() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => return (found, Some(error), frames.pending()),
            }
        }
    }
    (found, None, frames.pending())
}

fn broken(max: u32, text: &str) -> FrameError {
    let octets = hex(text);
    let at_once = cut(max, [&octets[..]]);
    assert_eq!(at_once.1, cut(max, octets.chunks(1)).1);
    at_once.1.unwrap_or_else(|| panic!("{text} breaks a stream"))
}

#[test]
fn messages_are_cut_by_their_sizes() {
    let octets = hex("02 0b 00  01 0b  03 01 02 03  02");
    let (found, error, pending) = cut(100, [&octets[..]]);
    assert_eq!(found, [&[0x0b, 0][..], &[0x0b], &[1, 2, 3]]);
    assert_eq!((error, pending), (None, 1));
}

#[test]
fn a_size_may_be_longer_than_it_need_be() {
    let octets = hex("82 00 0b 00  82 80 80 80 00 0b 00");
    let (found, error, pending) = cut(100, octets.chunks(1));
    assert_eq!(found, [&[0x0b, 0][..], &[0x0b, 0]]);
    assert_eq!((error, pending), (None, 0));
}

#[test]
fn the_largest_message_is_taken_and_a_larger_one_breaks_the_stream() {
    let content = vec![7; 200];
    let stream = [&hex("c8 01")[..], &content].concat();
    let (found, error, _) = cut(200, [&stream[..]]);
    assert_eq!((found, error), (vec![Bytes::from(content)], None));
    assert_eq!(cut(199, [&stream[..]]).1, Some(FrameError::TooLarge { size: 200, max: 199 }));
}

#[test]
fn a_size_is_judged_before_its_message_arrives() {
    assert_eq!(broken(1 << 20, "81 80 40"), FrameError::TooLarge { size: 1_048_577, max: 1 << 20 });
    assert_eq!(
        broken(1 << 20, "ff ff ff ff 0f"),
        FrameError::TooLarge { size: u32::MAX, max: 1 << 20 }
    );
}

#[test]
fn size_zero_breaks_the_stream() {
    assert_eq!(broken(100, "00"), FrameError::Empty);
    assert_eq!(broken(100, "80 00"), FrameError::Empty);
    assert_eq!(broken(100, "80 80 80 80 00"), FrameError::Empty);
}

#[test]
fn a_size_that_is_no_number_breaks_the_stream() {
    assert_eq!(broken(100, "80 80 80 80 80 00"), FrameError::BadSize);
    assert_eq!(broken(100, "80 80 80 80 10"), FrameError::BadSize);
    assert_eq!(broken(100, "ff ff ff ff ff"), FrameError::BadSize);
}

#[test]
fn messages_before_the_break_are_whole() {
    let octets = hex("02 0b 00  00  02 0b 00");
    for pieces in [1, 2, 3, 100] {
        let (found, error, pending) = cut(100, octets.chunks(pieces));
        assert_eq!(found, [&[0x0b, 0][..]]);
        assert_eq!((error, pending), (Some(FrameError::Empty), 0));
    }
}

#[test]
fn a_broken_stream_stays_broken_and_keeps_nothing() {
    let mut frames = Frames::new(100);
    frames.extend(&[0]);
    assert_eq!(frames.next(), Err(FrameError::Empty));
    for _ in 0..10 {
        frames.extend(&hex("02 0b 00"));
        frames.buffer_mut().extend_from_slice(&[1; 1000]);
        assert_eq!(frames.next(), Err(FrameError::Empty));
        assert!(frames.buffer_mut().capacity() < 20_000);
    }
    assert_eq!(frames.pending(), 0);
}

#[test]
fn a_size_alone_allocates_nothing() {
    let mut frames = Frames::new(u32::MAX);
    frames.extend(&hex("ff ff ff ff 0e"));
    assert_eq!(frames.next(), Ok(None));
    assert!(frames.buffer_mut().capacity() <= 8 << 10);
    frames.buffer_mut().extend_from_slice(&[1; 100]);
    assert_eq!(frames.next(), Ok(None));
    assert!(frames.buffer_mut().capacity() <= 16 << 10);
}

#[test]
fn there_is_always_room_to_read_to() {
    let mut frames = Frames::new(1 << 20);
    frames.extend(&hex("80 80 40"));
    for _ in 0..100 {
        let buffer = frames.buffer_mut();
        assert!(buffer.capacity() - buffer.len() >= 4 << 10);
        buffer.extend_from_slice(&[1; 4 << 10]);
        assert_eq!(frames.next(), Ok(None));
    }
}

#[test]
fn a_message_is_not_copied() {
    let mut frames = Frames::new(1 << 20);
    frames.extend(&hex("04 01 02 03 04  02 0b 00"));
    let start = frames.buffer_mut().as_ptr();
    let (first, second) = (frames.next().unwrap().unwrap(), frames.next().unwrap().unwrap());
    assert_eq!(first.as_ptr(), start.wrapping_add(1));
    assert_eq!(second.as_ptr(), start.wrapping_add(6));
}

#[test]
fn a_large_message_takes_its_buffer_with_it() {
    let mut frames = Frames::new(1 << 20);
    frames.extend(&hex("80 80 40"));
    frames.extend(&vec![1; 1 << 20]);
    frames.extend(&hex("02 0b"));
    let large = frames.next().unwrap().unwrap();
    assert_eq!(large.len(), 1 << 20);
    drop(large);
    frames.extend(&[0]);
    assert_eq!(frames.next(), Ok(Some(Bytes::from_static(&[0x0b, 0]))));
    // Of the large buffer, nothing comes back.
    frames.buffer_mut().reserve(100 << 10);
    assert!(frames.buffer_mut().capacity() < 512 << 10);
}

#[test]
fn a_client_takes_a_list_of_a_million_events() {
    let answer = Answer::ListedEvents { ids: (0..1_000_000).collect() };
    let octets = answer.to_bytes();
    assert_eq!(octets.len(), 2_983_502);
    let (found, error, pending) = cut(16 << 20, octets.chunks(10_000));
    assert_eq!((error, pending), (None, 0));
    let [frame] = &found[..] else { panic!("one message, not {}", found.len()) };
    assert_eq!(Answer::decode(frame), Ok(answer));
}

/// Streams that are often messages, and pieces to cut them to.
fn any_stream() -> impl Strategy<Value = (Vec<u8>, Vec<prop::sample::Index>)> {
    let messages = || {
        vec(any_request().prop_map(|request| encoded(&request, None)), 0..8)
            .prop_map(|messages| messages.concat())
    };
    let stream = prop_oneof![
        vec(any::<u8>(), 0..300),
        messages(),
        (messages(), vec(any::<u8>(), 0..20))
            .prop_map(|(messages, rest)| [messages, rest].concat()),
    ];
    (stream, vec(any::<prop::sample::Index>(), 0..20))
}

proptest! {
    #[test]
    fn a_stream_is_cut_the_same_however_it_arrives((stream, cuts) in any_stream(), max in 1_u32..500) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        let at_once = cut(max, [&stream[..]]);
        prop_assert_eq!(&cut(max, pieces), &at_once);
        prop_assert_eq!(&cut(max, stream.chunks(1)), &at_once);
        let octets: usize = at_once.0.iter().map(Bytes::len).sum();
        prop_assert!(octets <= stream.len());
        prop_assert!(at_once.0.iter().all(|frame| (1..=max as usize).contains(&frame.len())));
    }
}
