//! The cases of the seed's fourth point, one by one.

use handoff_streams::groups::{
    CommitOutcome, GroupRefusal, GroupReply, Letter, MessageStatus, VerdictStatus,
};
use handoff_streams::{Produce, Refusal};
use handoff_types::Span;

use crate::world::{World, committing, name, work};

/// 4.1: the broker looks which partition is the consumer's and where its group is, hands out a batch
/// with its offset and count, and the messages are processing for that group.
#[test]
fn a_poll_hands_out_the_next_messages_of_its_partitions_and_they_are_processing() {
    let mut world = World::with(1);
    world.fill(0, 5);
    let member = world.join();
    let batches = world.poll(member, 3);
    assert_eq!(batches.len(), 1);
    let batch = batches[0];
    assert_eq!((batch.partition, batch.base, batch.count, batch.attempt), (world.at(0), 0, 3, 1));
    assert_eq!(batch.deadline, world.now.steady + Span::from_secs(30));
    for offset in 0..3 {
        let status = world.status(offset);
        assert!(matches!(status, MessageStatus::Processing { attempt: 1, .. }), "{status:?}");
    }
    assert!(matches!(world.status(3), MessageStatus::Pending { attempt: 0, .. }));
    assert_eq!(world.offsets(member, 10), [(0, 3, 1), (0, 4, 1)], "a second poll goes on");
}

/// 4.1: status and offset are a group's own.
#[test]
fn another_group_has_its_own_offsets_and_statuses() {
    let mut world = World::with(1);
    world.fill(0, 2);
    let member = world.join();
    world.poll(member, 2);
    world.ok(member, 0, 1);
    let other: handoff_streams::groups::GroupName = "other".parse().unwrap();
    let join = handoff_streams::groups::Join {
        group: other.clone(),
        topics: vec![name("orders")],
        ..crate::world::joining()
    };
    world.join_as(&join);
    let status = world.state.message_status(&other, world.at(0), 0, world.now);
    assert!(matches!(status, Some(MessageStatus::Pending { attempt: 0, .. })));
    assert_eq!(world.status(0), MessageStatus::Processed);
}

/// 4.2.1: an answer with an error: to a topic of its own for bad messages.
#[test]
fn a_message_that_failed_goes_to_the_dead_letter_topic_in_the_same_step() {
    let mut world = World::with(1);
    world.keyed(&["a", "b"]);
    let member = world.join();
    world.poll(member, 2);
    let mut failed = world.verdict(0, 0, 0, VerdictStatus::Failed);
    failed.error = Some("HTTP 500: no such customer".to_owned());
    let ok = world.verdict(0, 1, 1, VerdictStatus::Ok);
    let results = world.commit(member, vec![failed, ok]);
    assert!(results.iter().all(|one| one.outcome == CommitOutcome::Done));
    let letters = world.records("work.dead");
    assert_eq!(letters.len(), 1);
    let letter = Letter::of(&letters[0]).unwrap();
    assert_eq!((letter.group, letter.topic), (work(), name("orders")));
    assert_eq!((letter.partition, letter.offset, letter.attempt), (0, 0, 1));
    assert_eq!(letter.error, "HTTP 500: no such customer");
    assert_eq!(letter.message.key.as_deref(), Some(&b"a"[..]));
    assert_eq!(letter.message.payload, "x");
    let letter = Some((world.at_of("work.dead", 0), 0));
    assert_eq!(world.status(0), MessageStatus::Dead { letter });
    assert_eq!(world.status(1), MessageStatus::Processed);
    assert_eq!(world.position(0).start(), 2, "the dead hold nobody up");
}

/// 4.2.2: a normal answer: processed; a commit below what is stored does not move it back.
#[test]
fn a_commit_below_what_is_stored_is_answered_and_never_moves_the_offset_back() {
    let mut world = World::with(1);
    world.fill(0, 10);
    let member = world.join();
    world.poll(member, 10);
    assert_eq!(world.ok(member, 0, 7), [CommitOutcome::Done]);
    assert_eq!(world.position(0).start(), 8);
    let before = world.state.clone();
    let stranger = handoff_streams::groups::MemberId(7);
    assert_eq!(world.ok(stranger, 2, 3), [CommitOutcome::Late]);
    assert_eq!(world.ok(member, 2, 3), [CommitOutcome::Done], "said again");
    assert_eq!(world.position(0).start(), 8);
    assert_eq!(world.state, before, "nothing changed");
}

/// 4.3.1: the previous owner died: its messages are as if they were never handed out.
#[test]
fn a_dead_owners_messages_roll_back_and_its_heir_gets_them() {
    let mut world = World::with(2);
    world.fill(0, 4);
    let dead = world.join();
    assert_eq!(world.poll(dead, 4).len(), 1);
    world.pass(Span::from_secs(20));
    world.fill(1, 1);
    // It is silent for longer than its session; another one is not.
    world.pass(Span::from_secs(300));
    let heir = world.join();
    world.pass(Span::from_secs(299));
    world.beat(heir, 0);
    let (gone, returned, died) = world.sweep();
    assert_eq!((gone, died), (1, 0));
    assert!(returned <= 4);
    // Leases of thirty seconds were over long before; they waited, then were free.
    world.pass(Span::from_secs(1));
    let mut offsets = world.offsets(heir, 10);
    offsets.sort_unstable();
    assert_eq!(offsets, [(0, 0, 2), (0, 1, 2), (0, 2, 2), (0, 3, 2), (1, 0, 1)]);
    let verdict = world.verdict(0, 0, 3, VerdictStatus::Ok);
    let late = world.commit(dead, vec![verdict]);
    assert_eq!(late[0].outcome, CommitOutcome::Fenced, "the dead do not finish anything");
}

/// 4.3.1, at once: within its lease the rollback needs no waiting.
#[test]
fn what_a_silent_member_held_is_free_the_moment_it_is_dead() {
    let mut world = World::like(1, |settings| settings.lease = Span::from_secs(3_600));
    world.fill(0, 3);
    let dead = world.join();
    world.poll(dead, 3);
    world.pass(Span::from_secs(300));
    let heir = world.join();
    assert_eq!(world.offsets(heir, 10), [], "it is alive, and one has the only partition");
    world.pass(Span::from_secs(300));
    assert_eq!(world.sweep(), (1, 3, 0));
    assert_eq!(world.offsets(heir, 10), [(0, 0, 2), (0, 1, 2), (0, 2, 2)]);
}

/// 4.3.2: the previous owner lives: the new one gets what comes after the messages in processing.
#[test]
fn a_new_owner_reads_past_what_a_living_owner_holds_and_that_one_finishes_it() {
    let mut world = World::with(2);
    world.fill(0, 4);
    world.fill(1, 4);
    let old = world.join();
    assert_eq!(world.offsets(old, 4).len(), 4);
    assert_eq!(world.offsets(old, 2).len(), 2);
    let new = world.join();
    let lost: Vec<u32> = world
        .view()
        .members
        .iter()
        .find(|one| one.member == new)
        .unwrap()
        .assigned
        .iter()
        .map(|partition| partition.number)
        .collect();
    assert_eq!(lost.len(), 1, "one of two partitions moved");
    let moved = lost[0];
    let held: Vec<u64> = world
        .position(moved)
        .leases()
        .flat_map(|(_, lease)| lease.runs.clone())
        .flat_map(|(first, last)| first..=last)
        .collect();
    assert!(!held.is_empty());
    let got: Vec<u64> = world.offsets(new, 10).iter().map(|(_, offset, _)| *offset).collect();
    let expected: Vec<u64> = (0..4).filter(|offset| !held.contains(offset)).collect();
    assert_eq!(got, expected, "what comes after, and nothing twice");
    if let (Some(first), Some(last)) = (expected.first(), expected.last()) {
        let verdict = world.verdict(moved, *first, *last, VerdictStatus::Ok);
        assert_eq!(world.commit(new, vec![verdict])[0].outcome, CommitOutcome::Done);
        assert_eq!(world.position(moved).start(), 0, "not past what is still out");
    }
    let verdict = world.verdict(moved, held[0], *held.last().unwrap(), VerdictStatus::Ok);
    assert_eq!(world.commit(old, vec![verdict])[0].outcome, CommitOutcome::Late);
    assert_eq!(world.position(moved).start(), 4, "the late commit finishes them");
}

/// 4.4: a commit below what is stored: its answers are taken as in 4.2, the offset stays.
#[test]
fn a_late_commit_of_failures_makes_dead_letters_and_leaves_the_offset() {
    let mut world = World::with(2);
    world.fill(0, 6);
    world.fill(1, 6);
    let old = world.join();
    world.poll(old, 4);
    world.poll(old, 4);
    let new = world.join();
    let number =
        world.view().members.iter().find(|one| one.member == new).unwrap().assigned[0].number;
    world.poll(new, 10);
    let (first, last) = world
        .position(number)
        .leases()
        .find(|(_, lease)| lease.member == old)
        .map(|(_, lease)| lease.runs[0])
        .unwrap();
    let verdict = world.verdict(number, last + 1, 5, VerdictStatus::Ok);
    world.commit(new, vec![verdict]);
    let failed = world.verdict(number, first, last, VerdictStatus::Failed);
    let results = world.commit(old, vec![failed]);
    assert_eq!(results[0].outcome, CommitOutcome::Late);
    assert_eq!(world.records("work.dead").len() as u64, last - first + 1);
    assert_eq!(world.position(number).start(), 6);
}

/// 4.5: something looks for messages that are in processing for long, and does something with them.
#[test]
fn a_lease_that_is_over_is_a_retry_and_after_so_many_a_dead_letter() {
    let mut world = World::like(1, |settings| settings.max_attempts = 3);
    world.keyed(&["a"]);
    let member = world.join();
    for attempt in 1..=2 {
        assert_eq!(world.offsets(member, 1), [(0, 0, attempt)]);
        world.pass(Span::from_secs(29));
        assert_eq!(world.sweep(), (0, 0, 0), "not before its time");
        world.pass(Span::from_secs(1));
        assert_eq!(world.sweep(), (0, 1, 0));
        assert_eq!(world.offsets(member, 1), [], "it waits");
        world.pass(Span::from_secs(2));
    }
    assert_eq!(world.offsets(member, 1), [(0, 0, 3)]);
    world.pass(Span::from_secs(30));
    assert_eq!(world.sweep(), (0, 0, 1));
    let letter = Letter::of(&world.records("work.dead")[0]).unwrap();
    assert_eq!((letter.attempt, letter.offset), (3, 0));
    assert_eq!(letter.error, "it was not answered before its lease was over");
    assert_eq!(world.position(0).start(), 1);
    assert!(matches!(world.status(0), MessageStatus::Dead { letter: Some(_) }));
}

/// Step 6 of the seed's advantages: an answer for the producer is stored with the commit.
#[test]
fn results_and_messages_of_one_commit_are_stored_together_or_not_at_all() {
    let mut world = World::with(1);
    world.topic("answers", 1);
    world.fill(0, 2);
    let member = world.join();
    let batch = world.poll(member, 2)[0];
    let answer = || {
        vec![Produce {
            topic: name("answers"),
            producer: None,
            messages: vec![handoff_streams::Message {
                payload: "done".into(),
                ..Default::default()
            }],
        }]
    };
    let mut verdict = world.verdict(0, 0, 1, VerdictStatus::Ok);
    verdict.lease = Some(batch.lease);
    let reply = world.commit_with(member, vec![verdict.clone()], answer());
    assert!(matches!(&reply, GroupReply::Committed { produced, .. } if produced.len() == 1));
    assert_eq!(world.records("answers").len(), 1);
    // Said again it is not known whether the messages are the same: they have no sequence.
    let refused = world.refused(committing(member, vec![verdict], answer()));
    assert!(matches!(refused, Refusal::Group(GroupRefusal::Fenced { .. })), "{refused:?}");
    assert_eq!(world.records("answers").len(), 1);
}
