use handoff_exchange::{
    Action, Ask, Cancelled, Happened, Phase, Place, Reply, Standing, Status, Step,
};

use crate::world::{Started, World, mid, reply, verdict};

/// How a process ends.
type End = fn(&mut World, &Started);

const MIXED: [(&str, Status); 3] =
    [("m1", Status::Processed), ("m2", Status::Deadlock), ("m3", Status::Incorrect)];

fn mixed(world: &mut World) -> Started {
    world.sent("a", &["m1", "m2", "m3"]);
    world.ready(&MIXED)
}

fn places(world: &World) -> [Option<Place>; 4] {
    ["m1", "m2", "m3", "r1"].map(|name| world.place(name))
}

const COMMITTED: [Option<Place>; 4] =
    [Some(Place::Log), Some(Place::Messages), Some(Place::Error), Some(Place::Messages)];

#[test]
fn a_commit_sends_every_message_where_its_verdict_says() {
    let mut world = World::new();
    let started = mixed(&mut world);
    assert_eq!(world.logged(), [Happened::Deadlock, Happened::Incorrect]);
    world.step(started.id, Step::Commit).unwrap();
    assert_eq!(world.phase(started.id), Phase::Cleanup);
    assert_eq!(places(&world), COMMITTED);
    assert_eq!(world.inbox("a"), ["r1"]);
    let (_, incorrect) = world.message("m3").unwrap();
    assert_eq!(incorrect.standing, Standing::Aside("no such article".into()));
    let again = world.started();
    assert_eq!(world.names(&again.messages), ["m2"]);
    assert_eq!(again.messages[0].attempt, 2);
}

#[test]
fn a_commit_repeated_ten_times_has_one_effect() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.step(started.id, Step::Commit).unwrap();
    world.unchanged(|world| {
        for _ in 0..10 {
            world.step(started.id, Step::Commit).unwrap();
        }
    });
    world.ask(Ask::Settled { number: started.id.number, round: 1 });
    assert_eq!(world.phase(started.id), Phase::Done);
    world.unchanged(|world| {
        world.step(started.id, Step::Commit).unwrap();
        assert_eq!(world.ask(Ask::Settled { number: started.id.number, round: 1 }), Reply::Done);
    });
}

#[test]
fn a_rollback_puts_everything_back_and_the_replies_were_never_there() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.logged();
    world.step(started.id, Step::Rollback("constraint".into())).unwrap();
    let messages = Some(Place::Messages);
    assert_eq!(places(&world), [messages, messages, messages, None]);
    let gone = |action: &Action| matches!(action, Action::Move { to: None, gone: Some(_), .. });
    assert!(world.actions.iter().any(gone));
    assert_eq!(world.logged(), [Happened::RolledBack]);
    world.unchanged(|world| world.step(started.id, Step::Rollback("".into())).map(|_| ()).unwrap());
    let again = world.started();
    assert_eq!(world.names(&again.messages), ["m1", "m2", "m3"]);
    let verdicts = ["m1", "m2", "m3"].map(|name| verdict(name, Status::Processed));
    world.prepare(again.id, &verdicts, &[reply("r1", "a")]).unwrap();
}

#[test]
fn a_commit_of_what_was_not_prepared_is_refused() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.unchanged(|world| {
        assert_eq!(world.step(started.id, Step::Commit), Err(Cancelled::NotPrepared(started.id)));
    });
}

#[test]
fn a_rollback_before_the_third_call_is_an_interruption() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.step(started.id, Step::Rollback("".into())).unwrap();
    assert_eq!(world.phase(started.id), Phase::Interrupted);
}

#[test]
fn silence_sets_aside_what_may_have_been_processed_and_nothing_else() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.logged();
    world.expire();
    assert_eq!(world.phase(started.id), Phase::Unknown);
    let (unknown, error) = (Some(Place::Unknown), Some(Place::Error));
    assert_eq!(places(&world), [unknown, Some(Place::Messages), error, unknown]);
    assert!(world.inbox("a").is_empty());
    assert_eq!(world.logged(), [Happened::Unknown]);
    assert!(Happened::Unknown.is_alarming());
    // The database is not busy with it.
    let next = world.started();
    assert_eq!(world.names(&next.messages), ["m2"]);
}

#[test]
fn a_commit_after_unknown_delivers() {
    for by_step in [true, false] {
        let mut world = World::new();
        let started = mixed(&mut world);
        world.expire();
        match by_step {
            true => world.step(started.id, Step::Commit).map(|_| ()).unwrap(),
            false => world.resolve(started.id, true).unwrap(),
        }
        assert_eq!(world.phase(started.id), Phase::Resolved { committed: true });
        assert_eq!(places(&world), COMMITTED);
        assert_eq!(world.inbox("a"), ["r1"]);
        world.unchanged(|world| {
            world.step(started.id, Step::Commit).unwrap();
            world.resolve(started.id, true).unwrap();
        });
    }
}

#[test]
fn a_rollback_after_unknown_serves_again_at_the_old_place() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.expire();
    world.sent("a", &["m9"]);
    world.step(started.id, Step::Rollback("".into())).unwrap();
    assert_eq!(world.phase(started.id), Phase::Resolved { committed: false });
    assert_eq!(world.place("r1"), None);
    let again = world.started();
    assert_eq!(world.names(&again.messages), ["m1", "m2", "m9"]);
}

#[test]
fn a_contradiction_moves_nothing_and_is_announced_once() {
    let ends: [(End, Step); 4] = [
        (|world, started| drop(world.step(started.id, Step::Rollback("".into()))), Step::Commit),
        (|world, started| drop(world.step(started.id, Step::Commit)), Step::Rollback("".into())),
        (
            |world, started| {
                world.expire();
                world.resolve(started.id, true).unwrap();
            },
            Step::Rollback("".into()),
        ),
        (
            |world, started| {
                world.expire();
                world.resolve(started.id, false).unwrap();
            },
            Step::Commit,
        ),
    ];
    for (end, opposite) in ends {
        let mut world = World::new();
        let started = mixed(&mut world);
        end(&mut world, &started);
        world.logged();
        let before = (places(&world), world.phase(started.id));
        for _ in 0..3 {
            let answer = world.step(started.id, opposite.clone());
            assert!(matches!(answer, Err(Cancelled::Contradicts { .. })), "{answer:?}");
        }
        assert_eq!((places(&world), world.phase(started.id)), before);
        assert_eq!(world.logged(), [Happened::Contradiction]);
    }
}

#[test]
fn a_commit_of_what_expired_is_a_contradiction_too() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.expire();
    let answer = world.step(started.id, Step::Commit);
    assert!(matches!(answer, Err(Cancelled::Contradicts { phase: Phase::Expired, .. })));
    assert_eq!(world.logged(), [Happened::Expired, Happened::Contradiction]);
}

#[test]
fn outcomes_that_contradict_each_other_in_one_call_are_not_both_followed() {
    let mut world = World::new();
    let started = mixed(&mut world);
    let outcome = |committed| handoff_exchange::Outcome { id: started.id, committed };
    let outcomes = vec![outcome(true), outcome(true), outcome(false)];
    let Reply::Resolved(results) = world.ask(Ask::Resolve { database: world.db(), outcomes })
    else {
        panic!("no results")
    };
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(world.phase(started.id), Phase::Cleanup);
}

#[test]
fn a_database_that_crashed_while_ready_is_announced_at_the_start_and_waited_for() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.logged();
    world.pass(handoff_types::Span::from_secs(3_600));
    world.ask(Ask::Opened);
    assert_eq!(world.logged(), [Happened::InDoubt]);
    world.ask(Ask::Tick);
    assert_eq!(world.phase(started.id), Phase::Ready);
    world.pass(handoff_types::Span::from_secs(120));
    world.ask(Ask::Tick);
    assert_eq!(world.phase(started.id), Phase::Unknown);
}

#[test]
fn what_a_device_acknowledged_is_not_delivered_again_by_a_late_commit() {
    let mut world = World::new();
    let started = mixed(&mut world);
    world.step(started.id, Step::Commit).unwrap();
    world.ask(Ask::Ack { device: world.no("a"), ids: vec![mid("r1")] });
    world.ask(Ask::Opened);
    world.step(started.id, Step::Commit).unwrap();
    assert_eq!(world.place("r1"), Some(Place::Log));
}
