use handoff_exchange::{
    Action, Ask, Begun, Happened, Phase, Place, Refusal, Reply, Standing, Status, Step, Wish,
};
use handoff_types::Span;

use crate::world::{World, message, verdict};

/// A process of what is there, with a deadlock for everything.
fn deadlock(world: &mut World) -> bool {
    let Begun::Started { id, messages, .. } = world.begin(Wish::default()) else { return false };
    let names = world.names(&messages);
    let verdicts: Vec<_> = names.iter().map(|name| verdict(name, Status::Deadlock)).collect();
    world.prepare(id, &verdicts, &[]).unwrap();
    world.step(id, Step::Commit).unwrap();
    true
}

#[test]
fn a_message_that_was_tried_too_often_is_set_aside_and_announced() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    for attempt in 1..=20 {
        assert_eq!(world.place("m1"), Some(Place::Messages), "before attempt {attempt}");
        assert!(deadlock(&mut world), "attempt {attempt}");
        world.pass(Span::from_secs(300));
    }
    let (_, message) = world.message("m1").unwrap();
    assert_eq!((message.place, message.attempts), (Place::Error, 20));
    assert!(world.logged().contains(&Happened::Poison));
    assert!(!deadlock(&mut world));
}

#[test]
fn without_a_limit_it_is_offered_for_ever() {
    let mut world = World::new();
    world.rules.attempts_max = 0;
    world.sent("a", &["m1"]);
    for _ in 0..100 {
        assert!(deadlock(&mut world));
        world.pass(Span::from_secs(300));
    }
    assert_eq!(world.place("m1"), Some(Place::Messages));
}

#[test]
fn what_is_tried_again_waits_longer_and_longer_and_holds_up_nobody() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    assert!(deadlock(&mut world));
    assert!(deadlock(&mut world), "the second time comes at once");
    world.sent("b", &["m2"]);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m2"]);
    world.step(started.id, Step::Interrupt("".into())).unwrap();
    world.pass(Span::from_secs(1));
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2"]);
}

#[test]
fn a_message_that_ends_every_erp_is_found_and_the_others_go_through() {
    let mut world = World::new();
    world.rules.attempts_max = 3;
    world.sent("a", &["m1", "killer", "m3"]);
    for _ in 0..30 {
        world.pass(Span::from_secs(300));
        let Begun::Started { id, messages, .. } = world.begin(Wish::default()) else { continue };
        let names = world.names(&messages);
        if names.contains(&"killer".to_owned()) {
            world.expire();
            continue;
        }
        let verdicts: Vec<_> = names.iter().map(|name| verdict(name, Status::Processed)).collect();
        world.prepare(id, &verdicts, &[]).unwrap();
        world.step(id, Step::Commit).unwrap();
    }
    assert_eq!(world.place("killer"), Some(Place::Error));
    assert_eq!((world.place("m1"), world.place("m3")), (Some(Place::Log), Some(Place::Log)));
}

#[test]
fn a_declined_message_counts_as_tried() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let started = world.started();
    world.step(started.id, Step::Narrow(vec!["m2".parse().unwrap()])).unwrap();
    let (_, declined) = world.message("m1").unwrap();
    assert_eq!((declined.attempts, &declined.standing), (1, &Standing::Free));
}

#[test]
fn a_process_whose_files_are_stuck_keeps_nobody_busy_and_ends_by_itself() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let wish = Wish { files_max: Some(1), ..Wish::default() };
    let Begun::Started { id, .. } = world.begin(wish) else { panic!("not started") };
    world.prepare(id, &[verdict("m1", Status::Processed)], &[]).unwrap();
    world.step(id, Step::Commit).unwrap();
    world.logged();
    let stuck = Ask::Stuck { number: id.number, words: "Log is read-only".into() };
    world.ask(stuck.clone());
    world.unchanged(|world| assert_eq!(world.ask(stuck), Reply::Done));
    assert_eq!((world.phase(id), world.logged()), (Phase::Failed, vec![Happened::Failed]));
    let next = world.started();
    assert_eq!(world.names(&next.messages), ["m2"], "what was processed is not served again");
    world.ask(Ask::Settled { number: id.number, round: 1 });
    assert_eq!((world.phase(id), world.logged()), (Phase::Done, vec![Happened::Mended]));
}

/// What the folders say of a decision may be on its way while the next one is made: taken for that,
/// nobody would drive its files after a crash.
#[test]
fn a_report_of_an_earlier_decision_settles_nothing() {
    for committed in [true, false] {
        let mut world = World::new();
        world.sent("a", &["m1"]);
        let started = world.ready(&[("m1", Status::Processed)]);
        let number = started.id.number;
        world.expire();
        assert!(world.actions.contains(&Action::Settle { number, round: 1 }));
        world.resolve(started.id, committed).unwrap();
        assert!(world.actions.contains(&Action::Settle { number, round: 2 }));
        world.unchanged(|world| drop(world.ask(Ask::Settled { number, round: 1 })));
        assert!(!world.process(started.id).settled);
        world.actions.clear();
        world.ask(Ask::Opened);
        assert!(world.actions.contains(&Action::Settle { number, round: 2 }));
        world.ask(Ask::Settled { number, round: 2 });
        assert!(world.process(started.id).settled);
    }
}

/// The files of messages that an ERP did not want move while its process goes on.
#[test]
fn a_report_of_before_a_process_decided_settles_nothing() {
    let mut world = World::new();
    world.rules.attempts_max = 1;
    world.sent("a", &["m1", "m2"]);
    let started = world.started();
    let number = started.id.number;
    world.step(started.id, Step::Narrow(vec!["m2".parse().unwrap()])).unwrap();
    assert_eq!(world.place("m1"), Some(Place::Error));
    world.prepare(started.id, &[verdict("m2", Status::Processed)], &[]).unwrap();
    world.step(started.id, Step::Commit).unwrap();
    world.unchanged(|world| drop(world.ask(Ask::Settled { number, round: 0 })));
    assert_eq!(world.phase(started.id), Phase::Cleanup);
}

#[test]
fn after_a_start_the_files_of_what_was_decided_are_driven_again() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.ready(&[("m1", Status::Processed)]);
    world.step(started.id, Step::Commit).unwrap();
    world.actions.clear();
    world.ask(Ask::Opened);
    let moves = world.actions.iter().filter_map(|action| match action {
        Action::Move { from, to: Some(to), .. } => Some((from.place, to.place)),
        _ => None,
    });
    let moves: Vec<_> = moves.collect();
    assert_eq!(moves, [(Place::Messages, Place::Log), (Place::Prepared, Place::Messages)]);
    assert!(world.actions.contains(&Action::Settle { number: started.id.number, round: 1 }));
    world.ask(Ask::Settled { number: started.id.number, round: 1 });
    world.actions.clear();
    world.ask(Ask::Opened);
    assert!(world.actions.is_empty());
}

#[test]
fn a_damaged_body_costs_its_own_message_only() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let wish = || Wish { request_key: Some("k".into()), ..Wish::default() };
    let Begun::Started { id, messages, .. } = world.begin(wish()) else { panic!("not started") };
    let damaged = Ask::Damaged { seq: messages[0].seq, words: "its checksum is wrong".into() };
    world.ask(damaged.clone());
    assert_eq!(world.place("m1"), Some(Place::Error));
    assert_eq!(world.logged(), [Happened::Damaged]);
    world.unchanged(|world| {
        assert_eq!(world.ask(damaged), Reply::Done);
        let Begun::Started { messages, .. } = world.begin(wish()) else { panic!("not the same") };
        assert_eq!(world.names(&messages), ["m2"]);
    });
    world.prepare(id, &[verdict("m2", Status::Processed)], &[]).unwrap();
}

#[test]
fn a_process_of_damaged_messages_only_is_over() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.ask(Ask::Damaged { seq: started.messages[0].seq, words: "gone".into() });
    assert_eq!(world.phase(started.id), Phase::Interrupted);
    assert_eq!(world.begin(Wish::default()), Begun::Idle);
}

#[test]
fn what_is_set_aside_can_be_put_back_and_what_is_undecided_cannot() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2", "m3"]);
    let started = world.ready(&[
        ("m1", Status::Processed),
        ("m2", Status::Incorrect),
        ("m3", Status::Deadlock),
    ]);
    world.expire();
    let seq = |world: &World, name| world.message(name).unwrap().0;
    let requeue = |world: &mut World, name| {
        let messages = vec![seq(world, name)];
        world.ask(Ask::Requeue { database: world.db(), messages })
    };
    world.unchanged(|world| {
        for name in ["m1", "m3"] {
            let refused = requeue(world, name);
            assert!(matches!(refused, Reply::Refused(Refusal::NotAside(_))), "{refused:?}");
        }
    });
    assert_eq!(requeue(&mut world, "m2"), Reply::Requeued(1));
    world.resolve(started.id, true).unwrap();
    assert_eq!(requeue(&mut world, "m1"), Reply::Requeued(1));
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2", "m3"]);
}

#[test]
fn retention_forgets_what_is_over_and_never_what_waits_or_is_undecided() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let done = world.ready(&[("m1", Status::Processed), ("m2", Status::Incorrect)]);
    world.step(done.id, Step::Commit).unwrap();
    world.ask(Ask::Settled { number: done.id.number, round: 1 });
    world.sent("a", &["m3"]);
    let unknown = world.ready(&[("m3", Status::Processed)]);
    world.expire();
    world.sent("a", &["m4"]);
    world.pass(Span::from_secs(91 * 86_400));
    assert_eq!(world.ask(Ask::Retain { many: 1 }), Reply::More(true));
    while world.ask(Ask::Retain { many: 10 }) == Reply::More(true) {}
    let left = ["m1", "m2", "m3", "r2", "m4", "r1"].map(|name| world.place(name));
    let (unknown_place, messages) = (Some(Place::Unknown), Some(Place::Messages));
    assert_eq!(left, [None, None, unknown_place, unknown_place, messages, messages]);
    assert!(world.state.process(world.db(), done.id).is_none());
    assert_eq!(world.phase(unknown.id), Phase::Unknown);
    world.logged();
    world.ask(Ask::Remind);
    assert_eq!(world.logged(), [Happened::StillUnknown]);
}

#[test]
fn what_a_process_still_moves_is_not_forgotten() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.ready(&[("m1", Status::Processed)]);
    world.step(started.id, Step::Commit).unwrap();
    world.pass(Span::from_secs(91 * 86_400));
    world.unchanged(|world| assert_eq!(world.ask(Ask::Retain { many: 9 }), Reply::More(false)));
    world.ask(Ask::Settled { number: started.id.number, round: 1 });
    world.ask(Ask::Retain { many: 9 });
    assert_eq!(world.place("m1"), None);
}

#[test]
fn a_full_house_can_empty_itself() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    world.rules.messages_max = 1;
    let started = world.started();
    let verdicts = ["m1", "m2"].map(|name| verdict(name, Status::Processed));
    world.prepare(started.id, &verdicts, &[]).unwrap();
    world.step(started.id, Step::Commit).unwrap();
}

#[test]
fn more_than_is_kept_makes_room_by_what_is_over() {
    let mut world = World::new();
    world.rules.messages_max = 3;
    world.sent("a", &["m1", "m2"]);
    let started = world.started();
    let verdicts = ["m1", "m2"].map(|name| verdict(name, Status::Processed));
    world.prepare(started.id, &verdicts, &[]).unwrap();
    world.step(started.id, Step::Commit).unwrap();
    world.ask(Ask::Settled { number: started.id.number, round: 1 });
    world.sent("a", &["m3", "m4", "m5"]);
    assert!(matches!(world.post("a", &[message("m6")]), Err(Refusal::Full { .. })));
    world.ask(Ask::Retain { many: 10 });
    assert_eq!(world.state.message_count(), 3);
    assert_eq!((world.place("m1"), world.place("m3")), (None, Some(Place::Messages)));
}

#[test]
fn a_file_that_is_taken_in_is_a_message_of_its_device() {
    let mut world = World::new();
    let ask = |world: &World| Ask::TakeIn {
        database: world.db(),
        device: world.no("a"),
        message: message("m1"),
    };
    let taken = ask(&world);
    let Reply::Posted(receipts) = world.ask(taken.clone()) else { panic!("not taken") };
    assert!(!receipts[0].again);
    assert_eq!(world.logged(), [Happened::TakenIn]);
    world.unchanged(|world| {
        let Reply::Posted(receipts) = world.ask(taken) else { panic!("not known") };
        assert!(receipts[0].again);
    });
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1"]);
}
