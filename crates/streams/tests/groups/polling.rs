//! Which messages a member gets, and when.

use bytes::Bytes;
use handoff_streams::groups::{
    CommitOutcome, GroupCommand, GroupReply, MessageStatus, OnCorrupt, Order, VerdictStatus,
};
use handoff_streams::{Command, Message};
use handoff_types::Span;

use crate::world::{World, polling, shape, work};

#[test]
fn later_messages_of_a_key_wait_while_one_is_out() {
    let mut world = World::with(1);
    world.keyed(&["a", "b", "a", "", "b", "c"]);
    let member = world.join();
    assert_eq!(world.offsets(member, 1), [(0, 0, 1)]);
    // `a` is out: what comes of it waits, the rest does not.
    assert_eq!(world.offsets(member, 10), [(0, 1, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1)]);
    assert_eq!(world.offsets(member, 10), []);
    assert_eq!(world.ok(member, 0, 0), [CommitOutcome::Done]);
    assert_eq!(world.offsets(member, 10), [(0, 2, 1)]);
}

#[test]
fn later_messages_of_a_key_wait_while_one_waits_for_its_retry() {
    let mut world = World::with(1);
    world.keyed(&["a", "a"]);
    let member = world.join();
    world.offsets(member, 1);
    let retry = world.verdict(0, 0, 0, VerdictStatus::Retry);
    world.commit(member, vec![retry]);
    assert_eq!(world.offsets(member, 10), []);
    assert_eq!(
        world.state.ready_at(&work(), member, world.now),
        Some(world.now.steady + Span::from_secs(1))
    );
    world.pass(Span::from_secs(1));
    assert_eq!(world.offsets(member, 10), [(0, 0, 2), (0, 1, 1)]);
}

#[test]
fn a_retry_takes_back_what_was_handed_out_behind_it_with_the_same_key() {
    let mut world = World::with(1);
    world.keyed(&["a", "b", "a", "a"]);
    let member = world.join();
    assert_eq!(world.offsets(member, 10).len(), 4);
    let retry = world.verdict(0, 0, 0, VerdictStatus::Retry);
    let ok = world.verdict(0, 3, 3, VerdictStatus::Ok);
    let results = world.commit(member, vec![retry, ok]);
    assert!(results.iter().all(|one| one.outcome == CommitOutcome::Done));
    assert!(matches!(world.status(2), MessageStatus::Pending { attempt: 0, .. }));
    assert_eq!(world.ok(member, 2, 2), [CommitOutcome::Fenced], "it is not held any more");
    assert_eq!(world.ok(member, 1, 1), [CommitOutcome::Done], "another key is not its affair");
    world.pass(Span::from_secs(1));
    assert_eq!(world.offsets(member, 10), [(0, 0, 2), (0, 2, 1)], "in order, and not counted");
}

#[test]
fn a_partition_that_is_ordered_hands_out_one_batch_at_a_time() {
    let mut world = World::like(1, |settings| settings.order = Order::Partition);
    world.keyed(&["a", "b", "c", "d"]);
    let member = world.join();
    assert_eq!(world.offsets(member, 2), [(0, 0, 1), (0, 1, 1)]);
    assert_eq!(world.offsets(member, 2), []);
    world.ok(member, 0, 0);
    assert_eq!(world.offsets(member, 2), []);
    world.ok(member, 1, 1);
    assert_eq!(world.offsets(member, 2), [(0, 2, 1), (0, 3, 1)]);
}

#[test]
fn without_order_only_what_is_out_is_passed_by() {
    let mut world = World::like(1, |settings| settings.order = Order::Free);
    world.keyed(&["a", "a", "a"]);
    let member = world.join();
    assert_eq!(world.offsets(member, 1), [(0, 0, 1)]);
    assert_eq!(world.offsets(member, 1), [(0, 1, 1)]);
}

#[test]
fn no_more_than_the_window_is_out_and_one_that_takes_long_is_one() {
    let mut world = World::like(1, |settings| settings.in_flight_max = 5);
    world.fill(0, 20);
    let member = world.join();
    world.poll(member, 1);
    assert_eq!(world.offsets(member, 100).len(), 4);
    assert_eq!(world.offsets(member, 100), []);
    let blocked = world.view().partitions[0].blocked_by.clone().unwrap();
    assert_eq!(blocked, "window full: 5 in flight; 5 messages are held by test, 30 s left");
    // The first is never answered for, and the others pass it by.
    for from in [1, 5, 9, 13] {
        world.ok(member, from, from + 3);
        let more: Vec<u64> =
            world.offsets(member, 100).iter().map(|(_, offset, _)| *offset).collect();
        assert_eq!(more, (from + 4..20.min(from + 8)).collect::<Vec<_>>());
        let position = world.position(0);
        assert_eq!((position.start(), position.open()), (0, 1 + more.len() as u64));
        assert!(position.range_count() <= 3);
    }
}

#[test]
fn a_poll_keeps_to_its_bytes_and_gives_one_message_however_large() {
    let mut world = World::with(1);
    let large = |bytes: usize| Message {
        payload: Bytes::from(vec![b'x'; bytes]),
        partition: Some(0),
        ..Message::default()
    };
    world.produce(vec![large(1_000), large(10), large(10), large(10)]);
    let member = world.join();
    let mut take = |max_bytes: usize| {
        let found = world.found(member, 10);
        let mut command = polling(member, 10, found, OnCorrupt::Stop);
        if let GroupCommand::Poll { max_bytes: max, .. } = &mut command {
            *max = max_bytes;
        }
        match world.group(command) {
            GroupReply::Polled { batches, .. } => batches.iter().map(|one| one.count).sum::<u64>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(take(100), 1);
    assert_eq!(take(25), 2);
    assert_eq!(take(25), 1);
    assert_eq!(take(25), 0);
}

#[test]
fn messages_past_their_time_are_processed_unseen() {
    let mut world = World::with(1);
    let short = Message {
        payload: Bytes::from_static(b"x"),
        partition: Some(0),
        ttl: Some(Span::from_secs(5)),
        ..Message::default()
    };
    world.produce(vec![short]);
    world.fill(0, 1);
    let member = world.join();
    world.pass(Span::from_secs(6));
    assert_eq!(world.offsets(member, 10), [(0, 1, 1)]);
    assert_eq!(world.status(0), MessageStatus::Processed);
}

#[test]
fn what_retention_took_before_it_was_read_is_counted_and_passed() {
    let mut world = World::with(1);
    world.fill(0, 10);
    let member = world.join();
    world.poll(member, 2);
    let retry = world.verdict(0, 1, 1, VerdictStatus::Retry);
    world.commit(member, vec![retry]);
    let partition = world.at(0);
    world.apply(&Command::Trim { partition, below: 6, bytes: 0 });
    assert_eq!(world.offsets(member, 10), [(0, 6, 1), (0, 7, 1), (0, 8, 1), (0, 9, 1)]);
    // One waited and four were not looked at; the first is still out and may be answered.
    assert_eq!(world.position(0).lost(), 5);
    assert_eq!(world.position(0).start(), 0);
    assert_eq!(world.ok(member, 0, 0), [CommitOutcome::Done]);
    assert_eq!(world.position(0).start(), 6);
    assert_eq!(world.view().lost, 5);
}

/// A position jumped over what retention took, and handed out a whole window behind it while another
/// was still held before it.
#[test]
fn what_retention_took_does_not_widen_the_window() {
    let mut world = World::like(1, |settings| settings.in_flight_max = 3);
    world.fill(0, 12);
    let member = world.join();
    assert_eq!(world.offsets(member, 2), [(0, 0, 1), (0, 1, 1)]);
    let partition = world.at(0);
    world.apply(&Command::Trim { partition, below: 6, bytes: 0 });
    assert_eq!(world.offsets(member, 10), [(0, 6, 1)], "the first two are still out");
    assert_eq!(world.ok(member, 0, 1), [CommitOutcome::Done]);
    assert_eq!(world.position(0).start(), 6);
    assert_eq!(world.offsets(member, 10), [(0, 7, 1), (0, 8, 1)]);
}

#[test]
fn damage_stops_one_partition_of_the_group_and_says_so() {
    let mut world = World::with(2);
    world.fill(0, 6);
    world.fill(1, 2);
    let member = world.join();
    world.damaged = Some((world.at(0), 2, 4));
    let mut offsets = world.offsets(member, 10);
    offsets.sort_unstable();
    assert_eq!(offsets, [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]);
    assert_eq!(world.offsets(member, 10), []);
    let blocked = world.view().partitions[0].blocked_by.clone();
    assert_eq!(blocked.as_deref(), Some("partition damaged at 2–3"));
    let before = world.state.clone();
    world.offsets(member, 10);
    assert_eq!(world.state, before, "it is noted once");
    // Somebody repaired it.
    world.damaged = None;
    assert_eq!(world.offsets(member, 10).len(), 4);
    assert_eq!(world.position(0).damaged(), None);
}

#[test]
fn damage_that_may_be_passed_counts_as_dead() {
    let mut world = World::with(1);
    world.on_corrupt = OnCorrupt::Skip;
    world.fill(0, 6);
    let member = world.join();
    world.damaged = Some((world.at(0), 2, 4));
    assert_eq!(world.offsets(member, 10), [(0, 0, 1), (0, 1, 1)]);
    assert_eq!(world.offsets(member, 10), [(0, 4, 1), (0, 5, 1)]);
    assert_eq!(world.status(2), MessageStatus::Dead { letter: None });
    assert_eq!(world.position(0).dead_count(), 2);
    world.ok(member, 0, 5);
    assert_eq!(world.position(0).start(), 6);
}

#[test]
fn no_partition_starves_behind_another() {
    let mut world = World::with(3);
    for partition in 0..3 {
        world.fill(partition, 30);
    }
    let member = world.join();
    let mut seen = [0; 3];
    for _ in 0..9 {
        for (partition, _, _) in world.offsets(member, 1) {
            seen[partition as usize] += 1;
        }
    }
    assert_eq!(seen, [3, 3, 3]);
}

#[test]
fn what_is_read_in_order_takes_no_ranges_at_all() {
    let mut world = World::with(1);
    world.fill(0, 100);
    let member = world.join();
    for _ in 0..10 {
        let batch = world.poll(member, 10)[0];
        assert_eq!(shape(world.position(0)).len(), 1);
        world.ok(member, batch.base, batch.base + batch.count - 1);
        assert_eq!(world.position(0).range_count(), 0);
    }
    assert_eq!(world.position(0).start(), 100);
}

/// Acceptance check 15 of the research: the ranges are bounded by the disorder, and go.
#[test]
fn a_hundred_thousand_answers_in_random_order_leave_nothing_behind() {
    const MESSAGES: usize = 100_000;
    const WINDOW: u32 = 2_000;
    let mut world = World::like(1, |settings| {
        settings.order = Order::Free;
        settings.in_flight_max = WINDOW;
        settings.lease = Span::from_secs(3_600);
    });
    world.careful = false;
    for _ in 0..10 {
        world.fill(0, MESSAGES / 10);
    }
    let member = world.join();
    let mut out: Vec<u64> = Vec::new();
    let (mut done, mut most, mut draw) = (0, 0, 7_u64);
    while done < MESSAGES {
        out.extend(world.offsets(member, 500).iter().map(|(_, offset, _)| *offset));
        for _ in 0..250.min(out.len()) {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = usize::try_from(draw >> 33).unwrap() % out.len();
            let offset = out.swap_remove(n);
            assert_eq!(world.ok(member, offset, offset), [CommitOutcome::Done]);
            done += 1;
        }
        most = most.max(world.position(0).range_count());
        assert!(world.position(0).open() <= u64::from(WINDOW));
    }
    assert!(most <= 2 * WINDOW as usize, "{most} ranges");
    assert_eq!((world.position(0).range_count(), world.position(0).start()), (0, MESSAGES as u64));
}
