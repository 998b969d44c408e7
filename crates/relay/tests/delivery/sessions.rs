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

#[test]
fn a_session_cut_after_any_byte_in_either_direction_loses_and_doubles_nothing() {
    let mut longest = 0;
    for direction in 0..2 {
        for passing in (0..400).chain((400..4_000).step_by(7)) {
            let mut world = World::new(small(), Arc::new(Memory::new()));
            let all = usize::MAX;
            world.cut_next = Some(if direction == 0 { (passing, all) } else { (all, passing) });
            for _ in 0..5 {
                world.send(8, Mode::Memory).unwrap();
                world.turn();
            }
            longest = longest.max(world.cuts);
            world.cut_next = None;
            world.run(Span::from_secs(6));
            world.assert_exactly_once(0, &format!("cut {direction} after {passing} bytes"));
        }
    }
    assert!(longest > 1, "connections were cut again and again");
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
fn a_receiver_with_more_than_was_encoded_closes_the_block_instead_of_losing_samples() {
    let mut world = World::new(small(), Arc::new(Memory::new()));
    let block = world.keeper.present().block();
    for shard in 0..2 {
        world.destinations[0].marks.insert((block, shard), 7);
    }
    world.send(8, Mode::Memory).unwrap();
    world.run(Span::from_secs(6));
    assert_ne!(world.keeper.present().block(), block);
    // The numbers of the first block are used up; what comes later has numbers of its own.
    world.sent.clear();
    world.destinations[0].taken.clear();
    world.send(8, Mode::Memory).unwrap();
    world.run(Span::from_secs(6));
    world.assert_exactly_once(0, "the block after it");
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
