use handoff_exchange::{Admin, Ask, NewMessage, Place, Refusal, Reply, Status};

use crate::world::{World, id, message, mid, reply, verdict};

#[test]
fn a_message_sent_twice_is_stored_once_and_answered_the_same() {
    let mut world = World::new();
    let first = world.post("a", &[message("m1")]).unwrap()[0];
    world.pass(handoff_types::Span::from_secs(5));
    world.unchanged(|world| {
        let again = world.post("a", &[message("m1")]).unwrap()[0];
        assert!(again.again && !first.again);
        assert_eq!((again.seq, again.received), (first.seq, first.received));
    });
}

#[test]
fn an_id_used_for_another_content_is_refused() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let other = NewMessage { digest: 8, ..message("m1") };
    world.unchanged(|world| {
        assert_eq!(world.post("a", &[other]), Err(Refusal::IdReused(mid("m1"))));
    });
}

#[test]
fn a_batch_is_stored_whole_or_not_at_all() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let other = NewMessage { digest: 8, ..message("m1") };
    world.unchanged(|world| {
        assert!(world.post("a", &[message("m2"), other]).is_err());
        assert_eq!(
            world.post("a", &[message("m3"), message("m3")]),
            Err(Refusal::IdTwice(mid("m3")))
        );
    });
    let receipts = world.post("a", &[message("m2"), message("m1")]).unwrap();
    assert_eq!(receipts.iter().map(|one| one.again).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn two_devices_may_use_the_same_id() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    world.sent("b", &["m1"]);
    assert_eq!(world.state.counts(world.db()).to_erp, 2);
}

#[test]
fn a_message_without_a_route_is_refused_and_not_guessed() {
    let mut world = World::new();
    world.sent("a", &["before"]);
    world.admin(Admin::RemoveRoute { company: id("acme"), subsystem: id("stock") });
    world.unchanged(|world| {
        assert!(world.post("a", &[message("before")]).unwrap()[0].again);
        assert!(matches!(world.post("a", &[message("m1")]), Err(Refusal::NoRoute { .. })));
    });
}

#[test]
fn a_device_that_is_locked_out_does_nothing_and_its_messages_wait() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    world.ready(&[("m1", Status::Processed)]);
    let block = |blocked| Admin::BlockDevice { company: id("acme"), id: id("a"), blocked };
    world.admin(block(true));
    world.unchanged(|world| {
        assert_eq!(world.post("a", &[message("m2")]), Err(Refusal::Blocked));
        let ack = Ask::Ack { device: world.no("a"), ids: vec![mid("r1")] };
        assert_eq!(world.ask(ack), Reply::Refused(Refusal::Blocked));
    });
    let process = world.state.live(world.db()).unwrap().id;
    world.step(process, handoff_exchange::Step::Commit).unwrap();
    world.admin(block(false));
    assert_eq!(world.inbox("a"), ["r1"]);
}

#[test]
fn what_a_device_has_goes_to_the_log_once() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.ready(&[("m1", Status::Processed)]);
    world.step(started.id, handoff_exchange::Step::Commit).unwrap();
    let ack = Ask::Ack { device: world.no("a"), ids: vec![mid("r1"), mid("r1")] };
    assert_eq!(world.ask(ack.clone()), Reply::Acked { fresh: 1, again: 0 });
    assert_eq!(world.place("r1"), Some(Place::Log));
    assert!(world.inbox("a").is_empty());
    world.unchanged(|world| assert_eq!(world.ask(ack), Reply::Acked { fresh: 0, again: 1 }));
}

#[test]
fn two_databases_that_call_their_replies_the_same_are_both_acknowledged() {
    let mut world = World::new();
    let (company, database) = (id("acme"), id("db9"));
    world.sent("a", &["m1"]);
    let first = world.ready(&[("m1", Status::Processed)]);
    world.step(first.id, handoff_exchange::Step::Commit).unwrap();
    world.admin(Admin::PutDatabase {
        id: database.clone(),
        company: company.clone(),
        name: "".into(),
    });
    world.admin(Admin::PutRoute { company, subsystem: id("stock"), database: database.clone() });
    world.sent("a", &["m2"]);
    let other = world.state.database_by_id(&database).unwrap().no;
    let begin = Ask::Begin { database: other, wish: handoff_exchange::Wish::default() };
    let Reply::Begun(handoff_exchange::Begun::Started { id: process, .. }) = world.ask(begin)
    else {
        panic!("not started")
    };
    let step = |step| Ask::Process { database: other, id: process, step };
    let verdicts = vec![verdict("m2", Status::Processed)];
    let messages = vec![reply("r1", "a")];
    world.ask(step(handoff_exchange::Step::Prepare { verdicts, messages, digest: 1 }));
    world.ask(step(handoff_exchange::Step::Commit));
    let ack = Ask::Ack { device: world.no("a"), ids: vec![mid("r1")] };
    for left in [1, 0] {
        assert_eq!(world.ask(ack.clone()), Reply::Acked { fresh: 1, again: 0 });
        assert_eq!(world.inbox("a").len(), left);
    }
}

#[test]
fn a_device_cannot_acknowledge_what_is_not_its_own_or_not_there_yet() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    world.ready(&[("m1", Status::Processed)]);
    world.unchanged(|world| {
        for (device, name) in [("a", "r1"), ("b", "r1"), ("a", "m1"), ("a", "nothing")] {
            let ack = Ask::Ack { device: world.no(device), ids: vec![mid(name)] };
            assert_eq!(world.ask(ack), Reply::Refused(Refusal::NoMessage(mid(name))), "{name}");
        }
    });
}

#[test]
fn a_full_queue_refuses_and_knows_what_it_has() {
    let mut world = World::new();
    world.rules.queue_max = 2;
    world.sent("a", &["m1", "m2"]);
    world.unchanged(|world| {
        assert!(matches!(world.post("a", &[message("m3")]), Err(Refusal::Full { .. })));
        assert!(world.post("a", &[message("m2")]).unwrap()[0].again);
    });
}

#[test]
fn a_reply_goes_to_its_device_and_to_no_other() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    let verdicts = [verdict("m1", Status::Processed)];
    world.prepare(started.id, &verdicts, &[reply("r1", "a"), reply("r2", "b")]).unwrap();
    assert!(world.inbox("a").is_empty() && world.inbox("b").is_empty());
    world.step(started.id, handoff_exchange::Step::Commit).unwrap();
    assert_eq!((world.inbox("a"), world.inbox("b")), (vec!["r1".into()], vec!["r2".into()]));
}
