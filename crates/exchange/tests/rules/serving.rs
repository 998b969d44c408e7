use handoff_exchange::{Begun, Step, Wish};
use handoff_types::{Span, Wall};

use crate::world::{World, id, message, sized};

#[test]
fn an_empty_queue_is_idle_and_leaves_no_trace() {
    let mut world = World::new();
    world.unchanged(|world| assert_eq!(world.begin(Wish::default()), Begun::Idle));
}

#[test]
fn a_second_start_finds_the_database_busy_and_another_database_is_not() {
    let mut world = World::new();
    world.company("other", "db2");
    let theirs = world.device("other", "x");
    world.sent("a", &["m1"]);
    world.ask(handoff_exchange::Ask::Post { device: theirs, messages: vec![message("m1")] });
    world.started();
    world.unchanged(|world| {
        let Begun::Busy { retry_after } = world.begin(Wish::default()) else { panic!("not busy") };
        assert!(retry_after > Span::ZERO && retry_after <= Span::from_secs(30));
    });
    let other = world.state.database_by_id(&id("db2")).unwrap().no;
    let ask = handoff_exchange::Ask::Begin { database: other, wish: Wish::default() };
    let reply = world.ask(ask);
    assert!(matches!(reply, handoff_exchange::Reply::Begun(Begun::Started { .. })), "{reply:?}");
}

#[test]
fn the_smaller_limit_counts() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2", "m3", "m4"]);
    world.rules.files_max = 3;
    for (asked, served) in [(Some(2), 2), (Some(9), 3), (None, 3)] {
        let wish = Wish { files_max: asked, ..Wish::default() };
        let Begun::Started { id, messages, .. } = world.begin(wish) else { panic!("not started") };
        assert_eq!(messages.len(), served);
        world.step(id, Step::Interrupt("".into())).unwrap();
    }
}

#[test]
fn bytes_are_limited_and_the_first_is_served_however_large() {
    let mut world = World::new();
    world.post("a", &[sized("big", 5_000), sized("m2", 1_000), sized("m3", 1_000)]).unwrap();
    let wish = || Wish { bytes_max: Some(2_500), ..Wish::default() };
    let Begun::Started { id, messages, .. } = world.begin(wish()) else { panic!("not started") };
    assert_eq!(world.names(&messages), ["big"]);
    let verdicts = [crate::world::verdict("big", handoff_exchange::Status::Processed)];
    world.prepare(id, &verdicts, &[]).unwrap();
    world.step(id, Step::Commit).unwrap();
    let Begun::Started { messages, .. } = world.begin(wish()) else { panic!("not started") };
    assert_eq!(world.names(&messages), ["m2", "m3"]);
}

#[test]
fn the_oldest_is_served_first_by_when_it_was_received() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    world.now.wall = Wall(0);
    world.sent("b", &["m2"]);
    world.sent("a", &["m3"]);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2", "m3"]);
}

#[test]
fn or_by_when_it_was_made_if_the_operator_wants_it() {
    let mut world = World::new();
    world.rules.by_created = true;
    let made = |name: &str, at| handoff_exchange::NewMessage { created: Wall(at), ..message(name) };
    world.post("a", &[made("m1", 30), made("m2", 10)]).unwrap();
    world.post("b", &[made("m3", 20)]).unwrap();
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m2", "m3", "m1"]);
}

#[test]
fn only_wanted_subsystems_and_producers_are_served() {
    let mut world = World::new();
    let (name, subsystem): (Box<str>, _) = ("".into(), id("sales"));
    world
        .admin(handoff_exchange::Admin::PutSubsystem { id: subsystem.clone(), name: name.clone() });
    world.admin(handoff_exchange::Admin::PutRoute {
        company: id("acme"),
        subsystem: subsystem.clone(),
        database: id("db"),
    });
    let (company, device) = (id("acme"), id("b"));
    world.admin(handoff_exchange::Admin::PutDevice { company, id: device, subsystem, name });
    world.sent("a", &["m1"]);
    world.sent("b", &["m2"]);
    for (wish, served) in [
        (Wish { subsystems: Some(vec![id("sales")]), ..Wish::default() }, "m2"),
        (Wish { producers: Some(vec![id("a")]), ..Wish::default() }, "m1"),
    ] {
        let Begun::Started { id, messages, .. } = world.begin(wish) else { panic!("not started") };
        assert_eq!(world.names(&messages), [served]);
        world.step(id, Step::Interrupt("".into())).unwrap();
    }
    let nothing = Wish {
        subsystems: Some(vec![id("sales")]),
        producers: Some(vec![id("a")]),
        ..Wish::default()
    };
    world.unchanged(|world| assert_eq!(world.begin(nothing), Begun::Idle));
}

#[test]
fn a_message_belongs_to_the_subsystem_it_was_sent_in() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let (name, subsystem): (Box<str>, _) = ("".into(), id("sales"));
    world
        .admin(handoff_exchange::Admin::PutSubsystem { id: subsystem.clone(), name: name.clone() });
    let (company, device) = (id("acme"), id("a"));
    world.admin(handoff_exchange::Admin::PutDevice { company, id: device, subsystem, name });
    let wish = |of: &str| Wish { subsystems: Some(vec![id(of)]), ..Wish::default() };
    world.unchanged(|world| assert_eq!(world.begin(wish("sales")), Begun::Idle));
    assert!(matches!(world.begin(wish("stock")), Begun::Started { .. }));
}

#[test]
fn a_repeated_start_with_its_key_gets_the_same_process_until_the_next_call() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let wish = || Wish { request_key: Some("k".into()), ..Wish::default() };
    let first = world.begin(wish());
    world.sent("a", &["m2"]);
    world.unchanged(|world| {
        assert_eq!(world.begin(wish()), first);
        let other = Wish { request_key: Some("l".into()), ..Wish::default() };
        assert!(matches!(world.begin(other), Begun::Busy { .. }));
    });
    let Begun::Started { id, .. } = first else { panic!("not started") };
    world.step(id, Step::Narrow(vec![crate::world::mid("m1")])).unwrap();
    assert!(matches!(world.begin(wish()), Begun::Busy { .. }));
}

#[test]
fn two_messages_of_one_id_are_never_in_one_process() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    world.sent("b", &["m1", "m2"]);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2"]);
    let verdicts =
        ["m1", "m2"].map(|m| crate::world::verdict(m, handoff_exchange::Status::Processed));
    world.prepare(started.id, &verdicts, &[]).unwrap();
    world.step(started.id, Step::Commit).unwrap();
    assert_eq!(world.state.counts(world.db()).to_erp, 1);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1"]);
}

#[test]
fn a_device_in_order_waits_for_what_it_sent_earlier() {
    let mut world = World::new();
    world.rules.in_order = true;
    world.sent("a", &["m1", "m2"]);
    world.sent("b", &["m3"]);
    // Two deadlocks: the second one has to wait.
    for _ in 0..2 {
        let wish = Wish { producers: Some(vec![id("a")]), files_max: Some(1), ..Wish::default() };
        let Begun::Started { id, messages, .. } = world.begin(wish) else { panic!("not started") };
        assert_eq!(world.names(&messages), ["m1"]);
        world
            .prepare(id, &[crate::world::verdict("m1", handoff_exchange::Status::Deadlock)], &[])
            .unwrap();
        world.step(id, Step::Commit).unwrap();
    }
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m3"], "m2 waits for m1");
    world.step(started.id, Step::Interrupt("".into())).unwrap();
    world.rules.in_order = false;
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m2", "m3"]);
    world.step(started.id, Step::Interrupt("".into())).unwrap();
    world.pass(Span::from_secs(1));
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2", "m3"]);
}
