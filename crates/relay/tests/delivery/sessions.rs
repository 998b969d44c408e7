//! Connections break at the worst moment, and receivers forget.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::{DeliveryRules, Mode};
use handoff_types::Span;

use crate::world::{World, rules};

/// Small segments, so that a session has many.
fn small() -> DeliveryRules {
    DeliveryRules { segment_samples: 4, ..rules(1) }
}

#[test]
fn lost_confirmations_of_any_number_of_segments_double_nothing() {
    for lost in [1, 2, 50] {
        let mut world = World::new(small(), Arc::new(Memory::new()));
        world.send(10, Mode::Memory).unwrap();
        world.settle();
        world.destinations[0].mute = true;
        for _ in 0..lost {
            world.send(10, Mode::Memory).unwrap();
            world.settle();
        }
        let stored = world.destinations[0].taken.len();
        assert!(stored > 10, "they are stored, only nobody was told");
        world.destinations[0].up = false;
        world.settle();
        world.destinations[0].up = true;
        world.destinations[0].mute = false;
        world.send(10, Mode::Memory).unwrap();
        world.run(Span::from_secs(6));
        world.assert_exactly_once(0, &format!("{lost} lost"));
        assert_eq!(world.files(), 0);
    }
}

#[test]
fn a_receiver_that_lost_its_decoders_gets_a_key_frame_and_nobody_has_to_help() {
    let mut world = World::new(small(), Arc::new(Memory::new()));
    for round in 0..20 {
        world.send(10, Mode::Memory).unwrap();
        if round % 3 == 0 {
            world.settle();
        }
        // It dies with the connection; in some rounds with segments on their way.
        world.destinations[0].up = false;
        world.turn();
        world.destinations[0].restart();
        world.destinations[0].up = true;
        world.settle();
    }
    world.run(Span::from_secs(6));
    world.assert_exactly_once(0, "twenty restarts");
    assert_eq!(world.files(), 0);
}

/// Sends what twenty segments and more are made of, turn by turn.
fn twenty_segments(world: &mut World) {
    for _ in 0..14 {
        world.send(8, Mode::Memory).unwrap();
        world.turn();
    }
}

#[test]
fn a_session_cut_after_any_byte_in_either_direction_loses_and_doubles_nothing() {
    // How long an undisturbed one is, and that it is of twenty segments.
    let mut whole = World::new(small(), Arc::new(Memory::new()));
    twenty_segments(&mut whole);
    whole.settle();
    let present = whole.keeper.present();
    let segments: u32 = (0..2).map(|shard| present.encoded(shard).unwrap() + 1).sum();
    assert!(segments >= 20, "{segments} segments");
    let (there, back) = whole.carried;
    assert!(there > 1_000 && back > 300, "{there} bytes there, {back} back");
    let mut cut = 0;
    let there = (0..there).map(|passing| (passing, usize::MAX));
    let back = (0..back).map(|passing| (usize::MAX, passing));
    for passing in there.chain(back) {
        let mut world = World::new(small(), Arc::new(Memory::new()));
        world.cut_next = Some(passing);
        twenty_segments(&mut world);
        cut += usize::from(world.cuts > 0);
        world.cut_next = None;
        world.run(Span::from_secs(6));
        world.assert_exactly_once(0, &format!("cut after {passing:?} bytes"));
    }
    assert!(cut > 1_000, "{cut} were cut");
}

#[test]
fn a_session_of_a_backlog_cut_after_any_byte_loses_and_doubles_nothing() {
    let mut cuts = 0;
    for passing in (0..300).chain((300..3_000).step_by(11)) {
        let mut world = World::new(small(), Arc::new(Memory::new()));
        world.destinations[0].up = false;
        for _ in 0..5 {
            world.send(8, Mode::Memory).unwrap();
        }
        world.run(Span::from_secs(20));
        assert_eq!(world.files(), 1);
        world.destinations[0].up = true;
        world.cut_next = Some((passing, usize::MAX));
        world.turn();
        world.turn();
        cuts += world.cuts;
        world.cut_next = None;
        world.run(Span::from_secs(6));
        world.assert_exactly_once(0, &format!("cut after {passing} bytes"));
        assert_eq!(world.files(), 0, "cut after {passing} bytes");
    }
    assert!(cuts > 100);
}

#[test]
fn a_receiver_with_more_than_was_encoded_gets_the_block_under_another_name_and_the_others_once() {
    for ahead in [1, 2] {
        let rules = DeliveryRules { segment_samples: 4, ..rules(2) };
        let mut world = World::new(rules, Arc::new(Memory::new()));
        let block = world.keeper.present().block();
        for shard in 0..ahead {
            world.destinations[0].marks.insert((block, shard), 7);
        }
        for _ in 0..3 {
            world.send(8, Mode::Memory).unwrap();
            world.turn();
        }
        world.run(Span::from_secs(6));
        assert_ne!(world.keeper.present().block(), block, "its numbers are used up");
        world.send(8, Mode::Memory).unwrap();
        world.run(Span::from_secs(6));
        world.assert_all_exactly_once(&format!("ahead in {ahead} shards"));
        assert_eq!(world.files(), 0);
    }
}

#[test]
fn a_peer_that_names_another_segment_than_it_sends_moves_no_mark() {
    use bytes::Bytes;
    use handoff_relay::codec::{CodecLimits, Decoded, Encoder, Workbench};
    use handoff_relay::session::{Hello, Message};
    use handoff_relay::{Batch, BlockId, Origin, Received, Receiver, Sample, SegmentKey};
    use handoff_relay::{Sharder, Shards};

    let mut bench = Workbench::new().unwrap();
    let block = BlockId([4; 16]);
    let mut encoder = Encoder::new(block, 0, CodecLimits::default());
    let mut batch = Batch::default();
    batch.push([(&b"a"[..], &b"b"[..])], &[Sample::new(1, 1.0)]).unwrap();
    encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).unwrap();
    let bytes = encoder.encode(&mut bench).unwrap().bytes;
    let hello = Hello {
        origin: Origin { agent: crate::world::name("agent"), block },
        shards: Shards::ONE,
        encoder: 1,
        backlog: false,
        token: String::new(),
        first: vec![0],
    };
    let mut decoded = Decoded::default();
    let mut hear = |shard, segment, bytes: Bytes| {
        let mut receiver = Receiver::new(&hello, Default::default()).unwrap();
        receiver.greeted(&hello, |_| None);
        let key = SegmentKey { shard, segment };
        receiver.received(&Message::Segment { key, bytes }, &mut bench, &mut decoded)
    };
    for (shard, segment) in [(0, 1), (0, 77), (0, u32::MAX), (1, 0), (u16::MAX, 0)] {
        let heard = hear(shard, segment, bytes.clone());
        assert!(matches!(heard, Received::Broken(_)), "{shard}/{segment}: {heard:?}");
    }
    let key = SegmentKey { shard: 0, segment: 0 };
    assert_eq!(hear(0, 0, bytes), Received::Samples(key));
    assert!(matches!(hear(0, 0, Bytes::new()), Received::Broken(_)));
}

/// A greeting, and the first segments of its only shard.
fn greeting_and_segments(count: u32) -> (handoff_relay::session::Hello, Vec<bytes::Bytes>) {
    use handoff_relay::codec::{CodecLimits, Encoder, Workbench};
    use handoff_relay::{Batch, BlockId, Origin, Sample, Sharder, Shards};

    let mut bench = Workbench::new().unwrap();
    let block = BlockId([7; 16]);
    let mut encoder = Encoder::new(block, 0, CodecLimits::default());
    let mut segments = Vec::new();
    for number in 0..count {
        let mut batch = Batch::default();
        let sample = Sample::new(i64::from(number) * 1_000, f64::from(number));
        batch.push([(&b"__name__"[..], &b"up"[..])], &[sample]).unwrap();
        encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).unwrap();
        segments.push(encoder.encode(&mut bench).unwrap().bytes);
    }
    let hello = handoff_relay::session::Hello {
        origin: Origin { agent: crate::world::name("agent"), block },
        shards: Shards::ONE,
        encoder: 1,
        backlog: false,
        token: String::new(),
        first: vec![0],
    };
    (hello, segments)
}

#[test]
fn what_is_not_above_the_mark_is_decoded_confirmed_and_given_to_nobody() {
    use handoff_relay::codec::{Decoded, Workbench};
    use handoff_relay::session::Message;
    use handoff_relay::{Received, Receiver, SegmentKey};

    let mut bench = Workbench::new().unwrap();
    let mut decoded = Decoded::default();
    let (hello, segments) = greeting_and_segments(6);
    // Nothing is left of it but what its sink knows: it was restarted.
    let mut receiver = Receiver::new(&hello, Default::default()).unwrap();
    receiver.greeted(&hello, |_| Some(3));
    for (number, bytes) in (0..).zip(segments) {
        let key = SegmentKey { shard: 0, segment: number };
        let heard = receiver.received(&Message::Segment { key, bytes }, &mut bench, &mut decoded);
        if number <= 3 {
            assert_eq!(heard, Received::Answer(Message::Ack(key)), "segment {number}");
            assert_eq!(decoded.samples(), [], "segment {number} was given out again");
        } else {
            assert_eq!(heard, Received::Samples(key));
            assert_eq!(decoded.samples().len(), 1);
        }
    }
}

/// A sink refused the second of two segments while it still had the first. The first was forgotten, and
/// the agent, which goes on from the second, never sent it again (seed 3235 of the simulator).
#[test]
fn what_was_handed_over_before_a_segment_that_is_refused_is_still_stored_and_confirmed() {
    use handoff_relay::codec::{Decoded, Workbench};
    use handoff_relay::session::{Message, Reason};
    use handoff_relay::{Received, Receiver, SegmentKey};

    let mut bench = Workbench::new().unwrap();
    let mut decoded = Decoded::default();
    let (hello, segments) = greeting_and_segments(3);
    let mut receiver = Receiver::new(&hello, Default::default()).unwrap();
    receiver.greeted(&hello, |_| None);
    let key = |segment| SegmentKey { shard: 0, segment };
    for (number, bytes) in (0..).zip(segments) {
        let message = Message::Segment { key: key(number), bytes };
        let heard = receiver.received(&message, &mut bench, &mut decoded);
        assert_eq!(heard, Received::Samples(key(number)));
    }
    let refused = receiver.refused(key(1), Reason::RetryAfter, Span::ZERO, String::new());
    assert!(matches!(refused, Some(Message::Reject { key: rejected, .. }) if rejected == key(1)));
    assert_eq!(receiver.stored(key(2)), None, "it was behind the refused one and comes again");
    assert_eq!(receiver.stored(key(0)), Some(Message::Ack(key(0))));
}

#[test]
fn a_mark_confirms_what_was_never_heard_to_be_confirmed_and_nothing_of_it_is_sent_again() {
    use handoff_relay::session::{HelloAck, Message, ShardState};
    use handoff_relay::{Happened, SegmentKey, Sender, Shards, Want};
    use handoff_types::Steady;

    let (hello, segments) = greeting_and_segments(6);
    let name = crate::world::name("d0");
    let now = Steady(0);
    let mut sender = Sender::new(name, hello.origin, Shards::ONE, String::new(), false, |_| None);
    let ack = |mark: Option<u32>| {
        let stands = mark.map(|mark| mark + 1);
        let shards = vec![ShardState { mark, stands }];
        Message::HelloAck(HelloAck { frame_bytes_max: 1 << 20, credit: 1 << 20, shards })
    };
    let key = |segment| SegmentKey { shard: 0, segment };
    sender.connected(now);
    assert_eq!(sender.received(ack(None), now, |_| Some(5)), [Happened::Opened]);
    for (number, bytes) in (0..).zip(&segments) {
        assert_eq!(sender.wanted(now), Some(Want::Segment(key(number))));
        sender.segment(key(number), bytes).unwrap();
    }
    assert_eq!(sender.lost().len(), 6, "nobody said that any of them arrived");
    sender.connected(now);
    let happened = sender.received(ack(Some(3)), now, |_| Some(5));
    assert_eq!(happened, [Happened::Opened, Happened::Acked(key(3))]);
    assert_eq!(sender.wanted(now), Some(Want::Segment(key(4))));
}

#[test]
fn a_receiver_that_lost_what_it_confirmed_is_noticed_once_and_what_was_skipped_is_no_loss() {
    use handoff_relay::session::{HelloAck, Message, ShardState};
    use handoff_relay::{Happened, SegmentKey, Sender, Shards};
    use handoff_types::Steady;

    let (hello, segments) = greeting_and_segments(6);
    let name = crate::world::name("d0");
    let now = Steady(0);
    let mut sender = Sender::new(name, hello.origin, Shards::ONE, String::new(), false, |_| None);
    let ack = |mark: Option<u32>| {
        let shards = vec![ShardState { mark, stands: None }];
        Message::HelloAck(HelloAck { frame_bytes_max: 1 << 20, credit: 1 << 20, shards })
    };
    let key = |segment| SegmentKey { shard: 0, segment };
    let greeted = |sender: &mut Sender, mark| {
        sender.lost();
        sender.connected(now);
        sender.received(ack(mark), now, |_| Some(5))
    };
    assert_eq!(greeted(&mut sender, None), [Happened::Opened]);
    for (number, bytes) in (0..).zip(&segments[..4]) {
        sender.segment(key(number), bytes).unwrap();
    }
    sender.received(Message::Ack(key(3)), now, |_| Some(5));
    // The one behind is never taken: nothing has to be known of it.
    sender.skip(key(4)).unwrap();
    sender.received(Message::Ack(key(4)), now, |_| Some(5));
    assert_eq!(greeted(&mut sender, Some(3)), [Happened::Opened]);
    let missing = [Happened::Opened, Happened::Missing(2)];
    assert_eq!(greeted(&mut sender, Some(1)), missing);
    assert_eq!(greeted(&mut sender, Some(1)), [Happened::Opened], "it was told");
    assert_eq!(greeted(&mut sender, None), missing, "and these besides");
}
