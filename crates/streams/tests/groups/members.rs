//! Who is in a group, and what each has.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::groups::{
    CommitOutcome, GroupCommand, GroupRefusal, GroupReply, Join, MemberId, MessageStatus,
};
use handoff_streams::{Command, PartitionId, Refusal};
use handoff_types::{Machine, Span};

use crate::world::{BOUNDS, SESSION, World, joining, name, work};

fn owners(world: &World) -> BTreeMap<PartitionId, MemberId> {
    let members = world.view().members;
    let mut owners = BTreeMap::new();
    for member in members {
        for partition in member.assigned {
            assert_eq!(owners.insert(partition, member.member), None, "two have {partition}");
        }
    }
    owners
}

fn loads(world: &World) -> BTreeSet<usize> {
    world.view().members.iter().map(|member| member.assigned.len()).collect()
}

#[test]
fn from_one_member_to_eight_and_back_only_what_must_move_moves() {
    for partitions in [1, 7, 8, 9, 24] {
        let mut world = World::with(partitions);
        let mut members = vec![world.join()];
        assert_eq!(owners(&world).len(), partitions as usize);
        for count in 2..=8_u32 {
            let before = owners(&world);
            let newcomer = world.join();
            members.push(newcomer);
            let after = owners(&world);
            let moved = before.iter().filter(|(at, who)| after.get(at) != Some(who)).count();
            let fair = (partitions / count) as usize;
            assert!(moved <= fair, "{moved} of {partitions} moved for {count} members");
            let to_newcomer = after.values().filter(|who| **who == newcomer).count();
            assert_eq!(moved, to_newcomer, "nothing moves between those who were there");
            let loads = loads(&world);
            assert!(loads.last().unwrap() - loads.first().unwrap() <= 1, "{loads:?}");
        }
        while members.len() > 1 {
            let before = owners(&world);
            let leaver = members.remove(members.len() / 2);
            world.leave(leaver);
            let after = owners(&world);
            assert_eq!(after.len(), partitions as usize);
            for (at, who) in before.iter().filter(|(_, who)| **who != leaver) {
                assert_eq!(after.get(at), Some(who), "whoever stays keeps what it has");
            }
            let loads = loads(&world);
            assert!(loads.last().unwrap() - loads.first().unwrap() <= 1, "{loads:?}");
        }
    }
}

#[test]
fn members_get_partitions_of_the_topics_they_read_and_of_no_others() {
    let mut world = World::with(4);
    world.topic("other", 4);
    let both = Join { topics: vec![name("orders"), name("other")], ..joining() };
    let (first, ..) = world.join_as(&both);
    let one = Join { topics: vec![name("other")], ..joining() };
    let (second, _, _) = world.join_as(&one);
    let other = world.at_of("other", 0).topic;
    let owners = owners(&world);
    assert_eq!(owners.len(), 8);
    let of = |who| owners.iter().filter(move |(_, owner)| **owner == who).map(|(at, _)| at.topic);
    assert!(of(second).all(|topic| topic == other));
    assert_eq!((of(first).count(), of(second).count()), (4, 4));
}

#[test]
fn more_members_than_partitions_wait_and_the_view_says_why() {
    let mut world = World::with(1);
    let first = world.join();
    let second = world.join();
    assert_eq!(owners(&world).len(), 1);
    assert_eq!(world.offsets(second, 5), []);
    world.leave(first);
    assert_eq!(owners(&world).values().collect::<Vec<_>>(), [&second]);
}

#[test]
fn a_named_instance_that_begins_anew_keeps_its_partitions_and_nobody_else_notices() {
    let mut world = World::with(4);
    world.fill(0, 3);
    world.fill(1, 3);
    world.fill(2, 3);
    world.fill(3, 3);
    let named = Join { instance: Some("pod-1".to_owned()), ..joining() };
    let (old, ..) = world.join_as(&named);
    let other = world.join();
    let generation = world.view().generation;
    let had: Vec<_> = owners(&world).into_iter().filter(|(_, who)| *who == old).collect();
    let out = world.offsets(old, 100);
    assert_eq!(out.len(), 6);
    let (new, after, numbers) = world.join_as(&named);
    assert_ne!(new, old);
    assert_eq!(after, generation, "no generation for it");
    assert_eq!(numbers, had.iter().map(|(at, _)| at.number).collect::<Vec<_>>());
    assert_eq!(world.beat(other, generation), (generation, numbers_of(&world, other), false));
    // What the old one held is free at once; the old one is nobody.
    let mut again = world.offsets(new, 100);
    again.sort_unstable();
    let mut expected: Vec<_> = out.iter().map(|(at, offset, _)| (*at, *offset, 2)).collect();
    expected.sort_unstable();
    assert_eq!(again, expected);
    let gone =
        world.refused_group(GroupCommand::Heartbeat { group: work(), member: old, generation });
    assert_eq!(gone, GroupRefusal::MemberGone(old));
}

fn numbers_of(world: &World, member: MemberId) -> Vec<u32> {
    let owners = owners(world);
    owners.iter().filter(|(_, who)| **who == member).map(|(at, _)| at.number).collect()
}

#[test]
fn whoever_leaves_gives_back_what_it_holds_at_once() {
    let mut world = World::with(1);
    world.fill(0, 2);
    let leaver = world.join();
    let heir = world.join();
    world.poll(leaver, 2);
    world.leave(leaver);
    assert!(matches!(world.status(0), MessageStatus::Pending { attempt: 1, .. }));
    assert_eq!(world.offsets(heir, 5), [(0, 0, 2), (0, 1, 2)]);
    assert_eq!(world.ok(leaver, 0, 1), [CommitOutcome::Fenced]);
}

#[test]
fn a_topic_that_grows_is_given_out_anew_with_the_next_sign_of_life() {
    let mut world = World::with(2);
    let first = world.join();
    let second = world.join();
    let generation = world.view().generation;
    let grow = Command::GrowTopic { name: name("orders"), partitions: 6, bounds: BOUNDS };
    world.apply(&grow);
    let (after, numbers, changed) = world.beat(first, generation);
    assert!(changed && after == generation + 1);
    assert_eq!(numbers.len(), 3);
    assert_eq!(owners(&world).len(), 6);
    world.fill(5, 1);
    let got = [world.offsets(first, 5), world.offsets(second, 5)].concat();
    assert_eq!(got, [(5, 0, 1)]);
}

#[test]
fn a_topic_that_is_deleted_and_made_again_is_read_from_its_beginning() {
    let mut world = World::with(1);
    world.fill(0, 3);
    let member = world.join();
    world.poll(member, 3);
    world.ok(member, 0, 2);
    world.apply(&Command::DeleteTopic { name: name("orders") });
    let old = world.state.keys_from(&handoff_streams::Key::Counters).count();
    world.apply(&Command::Tick { limit: 10, bytes_max: 1 << 20, bounds: BOUNDS });
    let new = world.state.keys_from(&handoff_streams::Key::Counters).count();
    assert_eq!(new, old - 1, "where the group was goes with the topic");
    assert_eq!(world.beat(member, 0).1, Vec::<u32>::new());
    world.topic("orders", 1);
    world.fill(0, 2);
    world.beat(member, 0);
    assert_eq!(world.offsets(member, 5), [(0, 0, 1), (0, 1, 1)]);
}

#[test]
fn a_group_that_is_deleted_leaves_nothing_and_its_name_begins_anew() {
    let mut world = World::with(3);
    world.fill(0, 3);
    let member = world.join();
    world.poll(member, 3);
    world.ok(member, 0, 2);
    let reply = world.group(GroupCommand::Delete { name: work() });
    assert!(matches!(reply, GroupReply::Deleted(_)));
    assert!(
        handoff_streams::Streams::next_deadline(&world.state, world.now) == Some(world.now.steady)
    );
    for _ in 0..2 {
        world.apply(&Command::Tick { limit: 2, bytes_max: 1 << 20, bounds: BOUNDS });
    }
    let left: Vec<_> = world.state.keys_from(&handoff_streams::Key::Counters).collect();
    assert_eq!(left.len(), 6, "counters, a topic, its name and its partitions: {left:?}");
    let (_, _, numbers) = world.join_as(&Join { topics: vec![name("orders")], ..joining() });
    assert_eq!(numbers, [0, 1, 2]);
    assert!(matches!(world.status(0), MessageStatus::Pending { attempt: 0, .. }));
}

#[test]
fn a_sign_of_life_is_written_only_when_a_third_of_the_session_is_over() {
    let mut world = World::with(1);
    let member = world.join();
    let beat = |world: &mut World| {
        let command = GroupCommand::Heartbeat { group: work(), member, generation: 0 };
        world.apply(&Command::Group(command)).changes.len()
    };
    assert_eq!(beat(&mut world), 0);
    world.pass(Span(SESSION.0 / 3));
    assert_eq!(beat(&mut world), 0);
    world.pass(Span::from_secs(1));
    assert_eq!(beat(&mut world), 1);
    assert_eq!(beat(&mut world), 0);
    assert_eq!(world.view().members[0].session_left, SESSION);
}

#[test]
fn a_member_silent_for_its_session_is_gone_even_before_anybody_swept() {
    let mut world = World::with(1);
    let member = world.join();
    let deadline = handoff_streams::Streams::next_deadline(&world.state, world.now);
    assert_eq!(deadline, Some(world.now.steady + SESSION));
    world.pass(SESSION);
    assert_eq!(world.state.groups_due(world.now).count(), 1);
    let found = Vec::new();
    let poll = crate::world::polling(member, 1, found, Default::default());
    assert_eq!(world.refused_group(poll), GroupRefusal::MemberGone(member));
    assert_eq!(world.sweep(), (1, 0, 0));
    assert_eq!(handoff_streams::Streams::next_deadline(&world.state, world.now), None);
}

#[test]
fn a_new_group_begins_where_it_is_told_and_an_old_one_where_it_was() {
    let mut world = World::with(2);
    world.fill(0, 5);
    let at = |world: &World, n| world.at(n);
    let latest = vec![(at(&world, 0), 5), (at(&world, 1), 0)];
    let group: handoff_streams::groups::GroupName = "late".parse().unwrap();
    let join = Join { group, topics: vec![name("orders")], begin: latest, ..joining() };
    let reply = world.group(GroupCommand::Join { join: join.clone(), limits: Default::default() });
    let GroupReply::Joined { created: true, assignment, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(assignment.iter().map(|one| one.committed).collect::<Vec<_>>(), [5, 0]);
    let earlier = Join { begin: vec![(at(&world, 0), 1)], ..join };
    let reply = world.group(GroupCommand::Join { join: earlier, limits: Default::default() });
    let GroupReply::Joined { created: false, assignment, .. } = reply else { panic!("{reply:?}") };
    let committed = assignment.iter().find(|one| one.partition == at(&world, 0));
    assert!(committed.is_none_or(|one| one.committed == 5), "it has a place already");
}

#[test]
fn what_cannot_be_joined_is_refused_with_words() {
    let mut world = World::with(1);
    let refused = |world: &mut World, join: Join| {
        world.refused(GroupCommand::Join { join, limits: Default::default() }).to_string()
    };
    let group: handoff_streams::groups::GroupName = "none".parse().unwrap();
    let none = Join { group, ..joining() };
    assert!(refused(&mut world, none).starts_with("there is no group `none`"));
    let missing = Join { topics: vec![name("missing")], ..joining() };
    assert!(refused(&mut world, missing).starts_with("there is no topic `missing`"));
    let own = Join { topics: vec![name("work.dead")], ..joining() };
    assert!(refused(&mut world, own).contains("dead letters"));
    let short = Join { session: Span::from_millis(1), ..joining() };
    assert!(refused(&mut world, short).contains("from 100 to 3600000"));
    let loud = Join { client: "x".repeat(300), ..joining() };
    assert!(refused(&mut world, loud).contains("256 bytes"));
    let full = handoff_streams::groups::GroupBounds { members_max: 0, ..Default::default() };
    let command = GroupCommand::Join { join: joining(), limits: full };
    assert!(matches!(world.refused(command), Refusal::Limit(_)));
}
