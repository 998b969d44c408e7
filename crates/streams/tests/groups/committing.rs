//! How it went: leases, fencing, retries, letters, and messages stored with a commit.

use handoff_streams::groups::{
    CommitOutcome, GroupCommand, GroupRefusal, GroupReply, Join, Letter, MessageStatus,
    ReplayOutcome, VerdictStatus,
};
use handoff_streams::{Command, Message, Place, Produce, ProducerId, Refusal, Status};
use handoff_types::{Machine, Span};

use crate::world::{BOUNDS, SESSION, World, committing, joining, lease, name, shape, work};

fn message(text: &str) -> Message {
    Message { payload: text.to_owned().into(), partition: Some(0), ..Message::default() }
}

#[test]
fn a_result_may_name_any_part_of_a_lease() {
    let mut world = World::with(1);
    world.fill(0, 10);
    let member = world.join();
    world.poll(member, 10);
    assert_eq!(world.ok(member, 3, 5), [CommitOutcome::Done]);
    assert_eq!(shape(world.position(0)), [(0, 3, 'l'), (3, 3, 'd'), (6, 4, 'l')]);
    assert_eq!(world.ok(member, 0, 2), [CommitOutcome::Done]);
    assert_eq!(world.position(0).start(), 6);
    world.ok(member, 6, 9);
    assert_eq!((world.position(0).start(), world.position(0).leases().count()), (10, 0));
}

#[test]
fn a_range_of_which_only_a_part_counts_is_answered_in_parts() {
    let mut world = World::with(1);
    world.fill(0, 6);
    let member = world.join();
    world.poll(member, 4);
    let verdict = world.verdict(0, 2, 8, VerdictStatus::Ok);
    let results = world.commit(member, vec![verdict]);
    let parts: Vec<_> = results.iter().map(|one| (one.from, one.to, one.outcome)).collect();
    assert_eq!(parts, [(2, 3, CommitOutcome::Done), (4, 8, CommitOutcome::Fenced)]);
    let huge = world.verdict(0, 0, u64::MAX, VerdictStatus::Ok);
    assert_eq!(world.commit(member, vec![huge]).len(), 2, "however far it reaches");
}

/// The sweeper's letter was taken for the member's own answer: `done` was said of a message that is
/// dead, and what a commit in one piece had to produce for it was stored.
#[test]
fn a_commit_for_what_died_when_its_lease_was_over_finishes_nothing() {
    let mut world = World::like(1, |settings| settings.max_attempts = 1);
    world.topic("answers", 1);
    world.fill(0, 2);
    let member = world.join();
    let batch = world.poll(member, 2)[0];
    world.pass(Span::from_secs(30));
    assert_eq!(world.sweep(), (0, 0, 2));
    let mut verdict = world.verdict(0, 0, 1, VerdictStatus::Ok);
    verdict.lease = Some(batch.lease);
    let results = world.commit(member, vec![verdict.clone()]);
    assert_eq!(results[0].outcome, CommitOutcome::Fenced);
    let answer = Produce {
        topic: name("answers"),
        producer: Some((ProducerId(7), 0)),
        messages: vec![message("done")],
    };
    let refused = world.refused(committing(member, vec![verdict], vec![answer]));
    assert!(matches!(refused, Refusal::Group(GroupRefusal::Fenced { .. })), "{refused:?}");
    assert_eq!(world.records("answers").len(), 0);
    assert_eq!(world.records("work.dead").len(), 2);
}

/// Whoever was gone could go on holding messages, and was told so; they were taken from it all the
/// same by the next sweep.
#[test]
fn whoever_was_silent_for_too_long_cannot_hold_messages_any_longer() {
    let mut world = World::like(1, |settings| settings.max_attempts = 1);
    world.fill(0, 2);
    let member = world.join();
    let lease = world.poll(member, 2)[0].lease;
    let deadline = |world: &World| world.position(0).lease(lease).unwrap().deadline;
    let until = deadline(&world);
    world.pass(SESSION);
    let extend = world.verdict(0, 0, 0, VerdictStatus::Extend);
    let fenced = |world: &mut World| {
        let answer = world.commit(member, vec![extend.clone()]);
        assert_eq!(answer[0].outcome, CommitOutcome::Fenced);
    };
    fenced(&mut world);
    assert_eq!(deadline(&world), until);
    // Nobody read the messages, so they are still to be buried when their holder is gone.
    let (group, due) = (work(), world.state.due(&work(), world.now));
    let sweep = GroupCommand::Sweep { group, due, bodies: Vec::new(), bounds: BOUNDS };
    assert!(matches!(world.group(sweep), GroupReply::Swept { more: true, dead: 0, .. }));
    fenced(&mut world);
    assert_eq!(deadline(&world), until);
    assert_eq!(world.ok(member, 0, 0), [CommitOutcome::Late], "what is done is done");
    assert_eq!(world.sweep(), (0, 0, 1));
}

/// Once nobody read a topic any more, letters from it said its number where its name belongs, and
/// could not be replayed.
#[test]
fn a_letter_says_where_it_is_from_when_nobody_reads_there_any_more() {
    let mut world = World::like(1, |settings| settings.max_attempts = 1);
    world.topic("other", 1);
    let produce = Produce { topic: name("other"), producer: None, messages: vec![message("x")] };
    world.apply(&Command::Produce { produce, bounds: BOUNDS });
    let (reads, soon) = (vec![name("other")], Span::from_secs(10));
    let silent = world.join_as(&Join { topics: reads, session: soon, ..joining() }).0;
    assert_eq!(world.poll(silent, 1).len(), 1);
    world.join();
    world.pass(soon);
    // Its holder goes first, the message when it was read.
    let due = world.state.due(&work(), world.now);
    let (group, bodies) = (work(), Vec::new());
    world.group(GroupCommand::Sweep { group, due, bodies, bounds: BOUNDS });
    assert_eq!(world.view().members.len(), 1);
    assert_eq!(world.sweep(), (0, 0, 1));
    let letter = Letter::of(&world.records("work.dead")[0]).unwrap();
    assert_eq!((letter.topic, letter.message.payload), (name("other"), "x".into()));
}

#[test]
fn a_lease_that_is_named_must_be_the_one() {
    let mut world = World::with(1);
    world.fill(0, 1);
    let member = world.join();
    let first = world.poll(member, 1)[0].lease;
    world.pass(Span::from_secs(30));
    world.sweep();
    world.pass(Span::from_secs(1));
    let second = world.poll(member, 1)[0].lease;
    assert!(second > first, "a fencing token grows");
    let mut verdict = world.verdict(0, 0, 0, VerdictStatus::Ok);
    verdict.lease = Some(first);
    assert_eq!(world.commit(member, vec![verdict.clone()])[0].outcome, CommitOutcome::Fenced);
    verdict.lease = Some(lease(99));
    assert_eq!(world.commit(member, vec![verdict.clone()])[0].outcome, CommitOutcome::Fenced);
    verdict.lease = Some(second);
    assert_eq!(world.commit(member, vec![verdict.clone()])[0].outcome, CommitOutcome::Done);
    // The answer was lost: said again it is the same.
    let before = world.state.clone();
    assert_eq!(world.commit(member, vec![verdict.clone()])[0].outcome, CommitOutcome::Done);
    verdict.lease = Some(first);
    assert_eq!(world.commit(member, vec![verdict])[0].outcome, CommitOutcome::Fenced);
    assert_eq!(world.state, before);
}

#[test]
fn whoever_says_it_takes_longer_has_longer() {
    let mut world = World::with(1);
    world.fill(0, 2);
    let member = world.join();
    world.poll(member, 2);
    world.pass(Span::from_secs(20));
    let extend = world.verdict(0, 0, 0, VerdictStatus::Extend);
    assert_eq!(world.commit(member, vec![extend])[0].outcome, CommitOutcome::Done);
    world.pass(Span::from_secs(29));
    assert_eq!(world.sweep(), (0, 0, 0));
    world.pass(Span::from_secs(1));
    assert_eq!(world.sweep(), (0, 2, 0));
}

#[test]
fn a_retry_waits_longer_each_time_or_as_long_as_is_asked() {
    let mut world = World::with(1);
    world.fill(0, 1);
    let member = world.join();
    for (attempt, secs) in [(1, 1), (2, 2), (3, 4)] {
        assert_eq!(world.offsets(member, 1), [(0, 0, attempt)]);
        let mut retry = world.verdict(0, 0, 0, VerdictStatus::Retry);
        retry.error = Some("not yet".to_owned());
        world.commit(member, vec![retry]);
        let (wait, error) = (Span::from_secs(secs), Some("not yet".to_owned()));
        assert_eq!(world.status(0), MessageStatus::Pending { attempt, wait, error });
        world.pass(Span::from_secs(secs - 1));
        assert_eq!(world.offsets(member, 1), []);
        world.pass(Span::from_secs(1));
    }
    assert_eq!(world.offsets(member, 1), [(0, 0, 4)]);
    let mut retry = world.verdict(0, 0, 0, VerdictStatus::Retry);
    retry.delay = Some(Span::from_secs(100_000));
    world.commit(member, vec![retry.clone()]);
    world.pass(Span::from_secs(300));
    assert_eq!(world.offsets(member, 1), [(0, 0, 5)], "never longer than the longest back-off");
    retry.delay = None;
    world.commit(member, vec![retry]);
    assert_eq!(world.records("work.dead").len(), 1, "the fifth was the last");
}

#[test]
fn a_commit_without_the_bodies_it_needs_says_which_and_changes_nothing() {
    let mut world = World::with(1);
    world.fill(0, 4);
    let member = world.join();
    world.poll(member, 4);
    let failed = world.verdict(0, 1, 2, VerdictStatus::Failed);
    let reply = world.group(committing(member, vec![failed.clone()], Vec::new()));
    assert_eq!(reply, GroupReply::Wants(vec![(world.at(0), 1..=2)]));
    assert!(world.records("work.dead").is_empty());
    world.commit(member, vec![failed]);
    assert_eq!(world.records("work.dead").len(), 2);
}

#[test]
fn a_message_that_is_gone_when_it_dies_is_dead_all_the_same_and_its_letter_says_so() {
    let mut world = World::with(1);
    world.fill(0, 2);
    let member = world.join();
    world.poll(member, 2);
    let partition = world.at(0);
    world.apply(&Command::Trim { partition, below: 1, bytes: 0 });
    let failed = world.verdict(0, 0, 1, VerdictStatus::Failed);
    world.commit(member, vec![failed]);
    let letters = world.records("work.dead");
    let lost: Vec<bool> =
        letters.iter().map(|one| Letter::of(one).unwrap().lost.is_some()).collect();
    assert_eq!(lost, [true, false]);
    assert!(matches!(world.status(0), MessageStatus::Dead { .. }));
}

#[test]
fn letters_of_a_run_are_found_by_the_offsets_of_their_messages() {
    let mut world = World::with(1);
    world.fill(0, 6);
    let member = world.join();
    world.poll(member, 6);
    let failed = world.verdict(0, 1, 4, VerdictStatus::Failed);
    world.commit(member, vec![failed]);
    assert_eq!(world.position(0).dead().count(), 1, "one run");
    let at = world.at_of("work.dead", 0);
    for offset in 1..=4 {
        assert_eq!(world.status(offset), MessageStatus::Dead { letter: Some((at, offset - 1)) });
    }
    world.ok(member, 0, 0);
    assert_eq!(world.position(0).start(), 5);
    assert!(matches!(world.status(3), MessageStatus::Dead { .. }), "known below what is committed");
}

#[test]
fn what_is_produced_with_a_commit_sees_what_was_produced_before_it_in_the_same_commit() {
    let mut world = World::with(1);
    world.topic("answers", 1);
    world.fill(0, 3);
    let member = world.join();
    world.poll(member, 3);
    let id = ProducerId(7);
    let send = |topic: &str, sequence: u64| Produce {
        topic: name(topic),
        producer: Some((id, sequence)),
        messages: vec![message(&format!("{topic} {sequence}"))],
    };
    let produce = vec![send("answers", 1), send("answers", 2), send("work.dead", 3)];
    let ok = world.verdict(0, 0, 1, VerdictStatus::Ok);
    // The topic of the letters is not there yet, so nothing of it is stored.
    let refused = world.refused(committing(member, vec![ok.clone()], produce.clone()));
    assert_eq!(refused, Refusal::NoTopic(name("work.dead")));
    assert_eq!(world.position(0).start(), 0);
    world.topic("work.dead", 1);
    let failed = world.verdict(0, 2, 2, VerdictStatus::Failed);
    let reply = world.commit_with(member, vec![ok.clone(), failed.clone()], produce.clone());
    let GroupReply::Committed { produced, .. } = reply else { panic!("{reply:?}") };
    let places: Vec<_> = produced.iter().flatten().map(|one| one.place.unwrap()).collect();
    let (answers, dead) = (world.at_of("answers", 0), world.at_of("work.dead", 0));
    assert_eq!(places, [Place::At(answers, 0), Place::At(answers, 1), Place::At(dead, 0)]);
    assert_eq!(world.records("work.dead").len(), 2, "the letter is behind it");
    // The answer was lost. Said again, nothing is stored twice.
    let reply = world.commit_with(member, vec![ok, failed], produce);
    let GroupReply::Committed { produced, results, .. } = reply else { panic!("{reply:?}") };
    assert!(produced.iter().flatten().all(|one| one.status == Status::Duplicate));
    assert!(results.iter().all(|one| one.outcome == CommitOutcome::Done));
    assert_eq!((world.records("answers").len(), world.records("work.dead").len()), (2, 2));
}

#[test]
fn messages_of_a_member_that_was_fenced_are_not_stored() {
    let mut world = World::with(1);
    world.topic("answers", 1);
    world.fill(0, 2);
    let member = world.join();
    world.poll(member, 1);
    let ok = world.verdict(0, 0, 1, VerdictStatus::Ok);
    let answer = Produce { topic: name("answers"), producer: None, messages: vec![message("x")] };
    let refused = world.refused_group(committing(member, vec![ok], vec![answer]));
    let partition = world.at(0);
    assert_eq!(refused, GroupRefusal::Fenced { partition, from: 1, to: 1 });
    assert_eq!(world.position(0).start(), 0, "nor are its results");
}

#[test]
fn results_that_make_no_sense_are_refused_with_words() {
    let mut world = World::with(1);
    world.fill(0, 4);
    let member = world.join();
    world.poll(member, 4);
    let backwards = world.verdict(0, 3, 2, VerdictStatus::Ok);
    let refused = world.refused_group(committing(member, vec![backwards], Vec::new()));
    assert_eq!(refused, GroupRefusal::Backwards { from: 3, to: 2 });
    let one = world.verdict(0, 0, 2, VerdictStatus::Ok);
    let two = world.verdict(0, 2, 3, VerdictStatus::Failed);
    let refused = world.refused_group(committing(member, vec![two, one], Vec::new()));
    let partition = world.at(0);
    assert_eq!(refused, GroupRefusal::Twice { partition, offset: 2 });
}

#[test]
fn a_sweep_buries_a_bounded_number_and_goes_on_with_the_next() {
    let mut world = World::like(1, |settings| settings.max_attempts = 1);
    world.careful = false;
    world.fill(0, 2_500);
    let member = world.join();
    assert_eq!(world.offsets(member, 2_500).len(), 2_500);
    world.pass(Span::from_secs(30));
    assert_eq!(world.sweep(), (0, 0, 2_500));
    assert_eq!((world.position(0).start(), world.records("work.dead").len()), (2_500, 2_500));
    assert_eq!(world.position(0).dead().count(), 1);
}

#[test]
fn messages_a_dead_member_held_for_the_last_time_die_however_long_their_lease_is() {
    let mut world = World::like(1, |settings| {
        settings.max_attempts = 1;
        settings.lease = Span::from_secs(80_000);
    });
    world.careful = false;
    world.fill(0, 1_500);
    let member = world.join();
    world.poll(member, 1_500);
    world.pass(crate::world::SESSION);
    assert_eq!(world.sweep(), (1, 0, 1_500));
    assert_eq!(world.position(0).start(), 1_500);
}

#[test]
fn where_letters_find_no_place_messages_do_not_die() {
    let mut world = World::like(1, |settings| settings.max_attempts = 1);
    // How many topics there are is not told by keys.
    world.careful = false;
    for n in 1..20 {
        world.topic(&format!("t{n}"), 1);
    }
    world.fill(0, 1);
    let member = world.join();
    world.poll(member, 1);
    let failed = world.verdict(0, 0, 0, VerdictStatus::Failed);
    let mut command = committing(member, vec![failed], Vec::new());
    if let GroupCommand::Commit { bodies, .. } = &mut command {
        *bodies = world.read(&vec![(world.at(0), 0..=0)]);
    }
    assert!(matches!(world.refused(command), Refusal::Limit(_)));
    world.pass(Span::from_secs(30));
    assert_eq!(world.sweep(), (0, 0, 0));
    world.pass(Span::from_secs(300));
    assert_eq!(world.offsets(member, 1), [(0, 0, 2)], "it is tried once more");
    assert!(handoff_streams::Streams::next_deadline(&world.state, world.now).is_some());
}

#[test]
fn a_dead_letter_is_replayed_once_and_only_its_group_gets_it() {
    let mut world = World::with(2);
    world.keyed(&["a", "b"]);
    let member = world.join();
    world.poll(member, 5);
    let failed = world.verdict(0, 0, 1, VerdictStatus::Failed);
    world.commit(member, vec![failed]);
    let at = world.at_of("work.dead", 0);
    let letters = world.read(&vec![(at, 0..=1)]);
    let replay = GroupCommand::Replay { group: work(), letters, bounds: BOUNDS };
    let GroupReply::Replayed(done) = world.group(replay.clone()) else { panic!() };
    let places: Vec<_> = done.iter().map(|one| one.outcome.clone()).collect();
    let home = world.at(0);
    assert_eq!(places, [ReplayOutcome::Stored(home, 2), ReplayOutcome::Stored(home, 3)]);
    let id = world.state.group(&work()).unwrap().id;
    assert!(world.state.letters(id, at).unwrap().contains(1));
    let GroupReply::Replayed(again) = world.group(replay) else { panic!() };
    assert!(again.iter().all(|one| one.outcome == ReplayOutcome::Already));
    assert_eq!(world.records("orders").len(), 4);
    assert_eq!(world.offsets(member, 5), [(0, 2, 1), (0, 3, 1)]);
    // Another group had them when they came first: it passes by.
    let fact = handoff_streams::groups::Fact::of(&world.log[&(home, 2)]);
    assert_eq!(fact.only_for, Some(work()));
    let group: handoff_streams::groups::GroupName = "other".parse().unwrap();
    let join = handoff_streams::groups::Join {
        group: group.clone(),
        topics: vec![name("orders")],
        begin: vec![(home, 2)],
        ..crate::world::joining()
    };
    let (other, ..) = world.join_as(&join);
    let facts: Vec<_> =
        (2..4).map(|at| handoff_streams::groups::Fact::of(&world.log[&(home, at)])).collect();
    let found = handoff_streams::groups::Found { partition: home, facts, ..Default::default() };
    let mut poll = crate::world::polling(other, 5, vec![found], Default::default());
    if let GroupCommand::Poll { group: of, .. } = &mut poll {
        *of = group.clone();
    }
    let reply = world.group(poll);
    assert!(
        matches!(&reply, GroupReply::Polled { batches, again: true, .. } if batches.is_empty())
    );
    let status = world.state.message_status(&group, home, 2, world.now);
    assert_eq!(status, Some(MessageStatus::Processed));
}

#[test]
fn a_letter_that_cannot_go_back_says_why() {
    let mut world = World::with(1);
    world.fill(0, 1);
    let member = world.join();
    world.poll(member, 1);
    let failed = world.verdict(0, 0, 0, VerdictStatus::Failed);
    world.commit(member, vec![failed]);
    let at = world.at_of("work.dead", 0);
    let mut letters = world.read(&vec![(at, 0..=1), (world.at(0), 0..=0)]);
    world.apply(&Command::DeleteTopic { name: name("orders") });
    letters.truncate(3);
    let replay = GroupCommand::Replay { group: work(), letters, bounds: BOUNDS };
    let GroupReply::Replayed(done) = world.group(replay) else { panic!() };
    let why = |n: usize| match &done[n].outcome {
        ReplayOutcome::Not(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(why(0), "there is no topic `orders` any more");
    assert_eq!(why(1), "the letter is not kept any more");
    assert_eq!(why(2), "it is no dead letter of group `work`");
}
