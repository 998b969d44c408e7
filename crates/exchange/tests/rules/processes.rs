use handoff_exchange::{
    Ask, Begun, Cancelled, Happened, Phase, Place, ProcessId, Reply, Status, Step, Unfit, Wish,
};
use handoff_types::Span;

use crate::world::{World, id, mid, reply, verdict};

const PROCESSED: Status = Status::Processed;

#[test]
fn the_second_call_narrows_and_never_widens() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2", "m3"]);
    let started = world.started();
    let narrow = |names: &[&str]| Step::Narrow(names.iter().map(|name| mid(name)).collect());
    world.step(started.id, narrow(&["m1", "m3"])).unwrap();
    assert_eq!(world.process(started.id).to_erp.len(), 2);
    world.unchanged(|world| {
        world.step(started.id, narrow(&["m3", "m1"])).unwrap();
        let wide = world.step(started.id, narrow(&["m1", "m2"]));
        assert_eq!(wide, Err(Cancelled::Unfit(Unfit::NotServed(mid("m2")))));
        let twice = world.step(started.id, narrow(&["m1", "m1"]));
        assert_eq!(twice, Err(Cancelled::Unfit(Unfit::Twice(mid("m1")))));
    });
    world.step(started.id, narrow(&["m1"])).unwrap();
}

#[test]
fn an_empty_second_call_is_an_interruption() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.step(started.id, Step::Narrow(Vec::new())).unwrap();
    assert_eq!(world.phase(started.id), Phase::Interrupted);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1"]);
}

#[test]
fn a_late_second_call_is_cancelled() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.ready(&[("m1", PROCESSED)]);
    world.unchanged(|world| {
        let late = world.step(started.id, Step::Narrow(vec![mid("m1")]));
        assert!(matches!(late, Err(Cancelled::Past { .. })));
    });
}

#[test]
fn every_message_needs_exactly_one_verdict_before_anything_is_written() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let started = world.started();
    let (one, two) = (verdict("m1", PROCESSED), verdict("m2", PROCESSED));
    world.unchanged(|world| {
        for (verdicts, unfit) in [
            (vec![one.clone()], Unfit::NoVerdict(mid("m2"))),
            (vec![one.clone(), two.clone(), one.clone()], Unfit::Twice(mid("m1"))),
            (vec![one.clone(), two.clone(), verdict("m9", PROCESSED)], Unfit::NotServed(mid("m9"))),
        ] {
            let answer = world.prepare(started.id, &verdicts, &[reply("r1", "a")]);
            assert_eq!(answer, Err(Cancelled::Unfit(unfit)));
        }
    });
    assert_eq!(world.phase(started.id), Phase::Started);
    world.prepare(started.id, &[one, two], &[]).unwrap();
}

#[test]
fn a_reply_that_cannot_be_kept_cancels_the_third_call() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let first = world.ready(&[("m1", PROCESSED), ("m2", Status::Deadlock)]);
    world.step(first.id, Step::Commit).unwrap();
    let started = world.started();
    let verdicts = [verdict("m2", PROCESSED)];
    world.unchanged(|world| {
        for (replies, unfit) in [
            (
                vec![reply("r7", "nobody")],
                Unfit::NoDevice { message: mid("r7"), device: "nobody".into() },
            ),
            (vec![reply("r7", "a"), reply("r7", "b")], Unfit::Twice(mid("r7"))),
            (vec![reply("r1", "a")], Unfit::IdUsed(mid("r1"))),
        ] {
            let answer = world.prepare(started.id, &verdicts, &replies);
            assert_eq!(answer, Err(Cancelled::Unfit(unfit)));
        }
    });
}

#[test]
fn a_repeated_third_call_is_ok_and_another_one_is_not() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    let verdicts = [verdict("m1", PROCESSED)];
    world.prepare(started.id, &verdicts, &[reply("r1", "a")]).unwrap();
    world.unchanged(|world| {
        world.prepare(started.id, &verdicts, &[reply("r1", "a")]).unwrap();
        let other = world.prepare(started.id, &verdicts, &[reply("r2", "a")]);
        assert_eq!(other, Err(Cancelled::PreparedOtherwise(started.id)));
    });
}

#[test]
fn a_process_that_took_too_long_is_cancelled_and_the_newer_one_is_undisturbed() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let zombie = world.started();
    world.expire();
    assert_eq!(world.phase(zombie.id), Phase::Expired);
    assert_eq!(world.logged(), [Happened::Expired]);
    let newer = world.started();
    let verdicts = [verdict("m1", PROCESSED)];
    world.unchanged(|world| {
        let late = world.prepare(zombie.id, &verdicts, &[]);
        assert!(matches!(late, Err(Cancelled::Past { phase: Phase::Expired, .. })));
    });
    world.prepare(newer.id, &verdicts, &[]).unwrap();
}

#[test]
fn expiry_and_the_third_call_cannot_both_win() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.pass(Span::from_secs(601));
    // The server was slower than the ERP: what it decided first counts.
    world.prepare(started.id, &[verdict("m1", PROCESSED)], &[]).unwrap();
    world.ask(Ask::Tick);
    assert_eq!(world.phase(started.id), Phase::Ready);
}

#[test]
fn a_heartbeat_gives_a_process_its_time_again() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let wish = Wish { lease: Some(Span::from_secs(60)), ..Wish::default() };
    let Begun::Started { id, deadline, .. } = world.begin(wish) else { panic!("not started") };
    world.pass(Span::from_secs(50));
    let later = world.step(id, Step::Heartbeat).unwrap().unwrap();
    assert_eq!(later.since(deadline), Span::from_secs(50));
    world.pass(Span::from_secs(59));
    world.ask(Ask::Tick);
    assert_eq!(world.phase(id), Phase::Started);
    world.pass(Span::from_secs(1));
    world.ask(Ask::Tick);
    assert_eq!(world.phase(id), Phase::Expired);
    assert!(matches!(world.step(id, Step::Heartbeat), Err(Cancelled::Past { .. })));
}

#[test]
fn a_process_is_found_only_by_its_whole_id_and_its_own_database() {
    let mut world = World::new();
    world.company("other", "db2");
    world.sent("a", &["m1"]);
    let started = world.started();
    let guess = ProcessId { nonce: started.id.nonce ^ 1, ..started.id };
    let foreign = world.state.database_by_id(&id("db2")).unwrap().no;
    world.unchanged(|world| {
        assert_eq!(world.step(guess, Step::Commit), Err(Cancelled::NoProcess(guess)));
        let (database, id) = (foreign, started.id);
        let reply = world.ask(Ask::Process { database, id, step: Step::Interrupt("".into()) });
        assert_eq!(reply, Reply::Cancelled(Cancelled::NoProcess(id)));
    });
}

#[test]
fn an_interruption_gives_messages_back_at_their_place() {
    let mut world = World::new();
    world.sent("a", &["m1", "m2"]);
    let wish = Wish { files_max: Some(1), ..Wish::default() };
    let Begun::Started { id, .. } = world.begin(wish) else { panic!("not started") };
    world.step(id, Step::Interrupt("debugging".into())).unwrap();
    world.unchanged(|world| world.step(id, Step::Interrupt("again".into())).map(|_| ()).unwrap());
    assert_eq!(world.logged(), [Happened::Interrupted]);
    let started = world.started();
    assert_eq!(world.names(&started.messages), ["m1", "m2"]);
    assert_eq!(started.messages[0].attempt, 1);
}

#[test]
fn an_interruption_that_comes_when_ready_is_refused_and_logged_once() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.ready(&[("m1", PROCESSED)]);
    world.logged();
    for _ in 0..3 {
        let late = world.step(started.id, Step::Interrupt("".into()));
        assert_eq!(late, Err(Cancelled::Ready(started.id)));
    }
    assert_eq!(world.logged(), [Happened::TooLate]);
    assert_eq!((world.phase(started.id), world.place("m1")), (Phase::Ready, Some(Place::Messages)));
}
