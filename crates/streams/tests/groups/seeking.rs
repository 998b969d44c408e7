//! A group is sent elsewhere, and what people see of it.

use handoff_streams::groups::{
    CommitOutcome, GroupReply, GroupSettings, Join, MessageStatus, Sought, VerdictStatus,
};
use handoff_types::{Sight, Span};

use crate::world::{World, joining, name, work};

fn sought(reply: GroupReply) -> Vec<Sought> {
    match reply {
        GroupReply::Sought { partitions, .. } => partitions,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_preview_says_what_a_seek_does_and_changes_nothing() {
    let mut world = World::with(1);
    world.fill(0, 10);
    let member = world.join();
    world.poll(member, 6);
    world.ok(member, 0, 1);
    world.ok(member, 4, 4);
    let retry = world.verdict(0, 5, 5, VerdictStatus::Retry);
    world.commit(member, vec![retry]);
    let partition = world.at(0);
    let before = world.state.clone();
    let preview = sought(world.seek(vec![(partition, 1)], true));
    let back = Sought { partition, from: 2, to: 1, again: 2, skipped: 0, voided: 2 };
    assert_eq!(preview, [back]);
    let ahead = sought(world.seek(vec![(partition, 9)], true));
    let ahead_expected = Sought { partition, from: 2, to: 9, again: 0, skipped: 6, voided: 2 };
    assert_eq!(ahead, [ahead_expected]);
    assert_eq!(world.state, before);
    assert_eq!(sought(world.seek(vec![(partition, 1)], false)), [back]);
    assert_eq!(world.position(0).start(), 1);
}

#[test]
fn what_was_out_when_somebody_sought_does_not_count_any_more() {
    let mut world = World::with(1);
    world.fill(0, 5);
    let member = world.join();
    let lease = world.poll(member, 5)[0].lease;
    let failed = world.verdict(0, 1, 1, VerdictStatus::Failed);
    world.commit(member, vec![failed]);
    let partition = world.at(0);
    world.seek(vec![(partition, 0)], false);
    assert_eq!(world.ok(member, 0, 4), [CommitOutcome::Fenced]);
    assert!(matches!(world.status(1), MessageStatus::Pending { .. }), "not dead any more");
    assert_eq!(world.offsets(member, 5).len(), 5, "all of it again");
    assert!(world.position(0).leases().all(|(id, _)| id > lease), "fencing tokens go on growing");
}

#[test]
fn the_view_says_where_a_group_is_and_why_nothing_is_handed_out() {
    let mut world = World::with(2);
    world.fill(0, 10);
    let view = world.view();
    assert_eq!(view.blocked_by.as_deref(), Some("nobody is in the group"));
    assert_eq!((view.lag, view.partitions.len()), (10, 2));
    let member = world.join();
    world.poll(member, 4);
    world.ok(member, 0, 0);
    let retry = world.verdict(0, 1, 1, VerdictStatus::Retry);
    let failed = world.verdict(0, 2, 2, VerdictStatus::Failed);
    world.commit(member, vec![retry, failed]);
    let view = world.view();
    let one = &view.partitions[0];
    assert_eq!((one.committed, one.next, one.end, one.lag), (1, 4, 10, 8));
    assert_eq!((one.processing, one.waiting, one.dead), (1, 1, 1));
    assert_eq!((one.owner, &one.blocked_by), (Some(member), &None));
    assert_eq!(view.partitions[1].blocked_by, None, "there is nothing");
    world.poll(member, 10);
    let all = world.verdict(0, 4, 9, VerdictStatus::Ok);
    world.commit(member, vec![all]);
    world.ok(member, 3, 3);
    let blocked = world.view().partitions[0].blocked_by.clone();
    assert_eq!(blocked.as_deref(), Some("1 message waits for its retry, next in 1 s"));
    world.pass(Span::from_secs(1));
    assert_eq!(world.view().partitions[0].blocked_by, None);
    world.poll(member, 1);
    let blocked = world.view().partitions[0].blocked_by.clone();
    assert_eq!(blocked.as_deref(), Some("1 message is held by test, 30 s left"));
}

#[test]
fn the_view_says_when_nobody_has_a_partition() {
    let mut world = World::with(1);
    world.join();
    world.join();
    assert_eq!(world.view().blocked_by, None);
    let names = Sight::Names(Vec::new());
    assert!(world.state.group_view(&work(), &names, world.now).is_none());
    assert_eq!(world.state.groups(&names, None).count(), 0);
    assert_eq!(world.state.groups(&Sight::All, None).count(), 1);
    assert_eq!(world.state.groups(&Sight::All, Some(&work())).count(), 0);
}

/// Each of its dead letters would make another.
#[test]
fn letters_do_not_go_to_a_topic_that_a_member_reads() {
    use handoff_streams::groups::GroupCommand;
    let mut world = World::with(1);
    world.topic("other", 1);
    let other = world.join_as(&Join { topics: vec![name("other")], ..joining() }).0;
    let dead_letter = name("other");
    let settings = GroupSettings { dead_letter, ..world.view().group.settings };
    let alter = GroupCommand::Alter { name: work(), settings, begin: Vec::new() };
    assert_eq!(
        world.refused(alter.clone()).to_string(),
        "a group does not read the topic its dead letters go to"
    );
    world.leave(other);
    assert!(matches!(world.group(alter), GroupReply::Altered(_)));
}

#[test]
fn settings_are_changed_while_the_group_is_in_use() {
    use handoff_streams::groups::GroupCommand;
    let mut world = World::with(1);
    world.topic("other", 2);
    world.fill(0, 2);
    let member = world.join();
    world.poll(member, 2);
    let topics = vec![name("orders"), name("other")];
    let settings = GroupSettings { topics, max_attempts: 1, ..world.view().group.settings };
    let alter = |settings| GroupCommand::Alter { name: work(), settings, begin: Vec::new() };
    let reply = world.group(alter(settings.clone()));
    assert!(matches!(reply, GroupReply::Altered(_)));
    assert_eq!(world.beat(member, 0).1.len(), 3, "its topics are given out");
    let retry = world.verdict(0, 0, 0, VerdictStatus::Retry);
    world.commit(member, vec![retry]);
    assert_eq!(world.records("work.dead").len(), 1, "the first attempt is the last now");
    let wrong = GroupSettings { max_attempts: 0, ..settings };
    assert_eq!(world.refused(alter(wrong)).to_string(), "maxAttempts is at least 1");
}
