//! Messages as bytes: nothing is misread, and nobody makes room for what a peer only claims.

use bytes::Bytes;
use handoff_relay::session::{
    Frames, GREETING_BYTES_MAX, Hello, HelloAck, Message, Reason, SESSION_HEAD_BYTES, ShardState,
    encode,
};
use handoff_relay::{BlockId, Origin, SegmentKey, Shards};
use handoff_types::Span;
use proptest::prelude::*;

use crate::world::name;

fn key() -> impl Strategy<Value = SegmentKey> {
    (any::<u16>(), any::<u32>()).prop_map(|(shard, segment)| SegmentKey { shard, segment })
}

fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec![
        Reason::Permanent,
        Reason::RetryAfter,
        Reason::NeedSnapshot,
        Reason::TooLarge,
        Reason::Unauthorized,
    ])
}

fn message() -> impl Strategy<Value = Message> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let number = || prop::option::of(0..u32::MAX);
    let refusal = || (reason(), any::<u32>(), ".{0,20}");
    let state = (number(), number()).prop_map(|(mark, stands)| ShardState { mark, stands });
    let hello = (any::<[u8; 16]>(), 0..=2_u8, any::<u8>(), any::<bool>(), ".{0,20}", any::<u32>());
    prop_oneof![
        hello.prop_map(|(block, power, encoder, backlog, token, first)| {
            let shards = Shards::from_power(power).unwrap();
            let first = shards.ids().map(|shard| first.wrapping_add(shard.into())).collect();
            let origin = Origin { agent: name("agent"), block: BlockId(block) };
            Message::Hello(Hello { origin, shards, encoder, backlog, token, first })
        }),
        (any::<u32>(), any::<u32>(), prop::collection::vec(state, 0..5)).prop_map(
            |(frame_bytes_max, credit, shards)| {
                Message::HelloAck(HelloAck { frame_bytes_max, credit, shards })
            }
        ),
        (key(), bytes()).prop_map(|(key, bytes)| Message::KeyFrame { key, bytes }),
        (key(), bytes()).prop_map(|(key, bytes)| Message::Segment { key, bytes }),
        key().prop_map(Message::Skip),
        key().prop_map(Message::Ack),
        prop::sample::select(vec![Message::End, Message::Ping, Message::Pong]),
        (key(), refusal()).prop_map(|(key, (reason, millis, words))| {
            let retry_after = Span::from_millis(millis.into());
            Message::Reject { key, reason, retry_after, words }
        }),
        refusal().prop_map(|(reason, millis, words)| {
            let retry_after = Span::from_millis(millis.into());
            Message::Refuse { reason, retry_after, words }
        }),
    ]
}

fn bytes_of(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| encode(message, &mut bytes));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_come_out_as_they_went_in_however_the_bytes_arrive(
        messages in prop::collection::vec(message(), 1..6),
        piece in 1..50_usize,
    ) {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in bytes_of(&messages).chunks(piece) {
            frames.push(piece);
            while let Some(message) = frames.next_message().unwrap() {
                found.push(message);
            }
        }
        prop_assert_eq!(found, messages);
    }

    #[test]
    fn any_flipped_bit_is_found_or_waited_for(message in message(), bit in any::<prop::sample::Index>()) {
        let mut bytes = bytes_of(std::slice::from_ref(&message));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut frames = Frames::default();
        frames.push(&bytes);
        // A size that grew makes the reader wait for the rest; the rest does not have the checksum.
        match frames.next_message() {
            Ok(None) => {
                frames.push(&vec![0; frames.room()]);
                prop_assert!(frames.next_message().is_err());
            }
            Ok(Some(found)) => prop_assert!(false, "{found:?}"),
            Err(_) => {}
        }
    }

    #[test]
    fn any_bytes_at_all_are_refused_or_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut frames = Frames::default();
        frames.push(&bytes);
        prop_assert!(!matches!(frames.next_message(), Ok(Some(_))));
    }
}

#[test]
fn a_stranger_may_claim_no_more_than_a_greeting() {
    let mut frames = Frames::default();
    let mut bytes = bytes_of(&[Message::Ping]);
    let size = u32::try_from(GREETING_BYTES_MAX).unwrap() + 1;
    bytes[8..12].copy_from_slice(&size.to_le_bytes());
    frames.push(&bytes);
    assert!(frames.next_message().is_err());
    assert_eq!(Frames::default().room(), SESSION_HEAD_BYTES + GREETING_BYTES_MAX);
    let mut frames = Frames::default();
    frames.push(b"GET / HTTP/1.1\r\n");
    assert!(frames.next_message().is_err(), "told at the first byte");
}

#[test]
fn words_that_are_too_long_are_cut_between_characters() {
    let words = "é".repeat(400);
    let message = Message::Refuse { reason: Reason::Permanent, retry_after: Span::ZERO, words };
    let mut frames = Frames::default();
    frames.push(&bytes_of(&[message]));
    let Some(Message::Refuse { words, .. }) = frames.next_message().unwrap() else { panic!() };
    assert_eq!(words, "é".repeat(256));
}
