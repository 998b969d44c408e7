//! `exchange.notify_sender`: who is told of what cannot be processed.

use handoff_exchange::{Place, Status, Step, Verdict};

use crate::world::{Started, World, mid, reply, verdict};

/// A world whose operator wants devices to be told.
fn telling() -> World {
    let mut world = World::new();
    world.rules.notify_sender = true;
    world
}

/// A process of everything there is, ready, with nothing to devices but notices.
fn judged(world: &mut World, statuses: &[(&str, Status)]) -> Started {
    let started = world.started();
    let verdicts: Vec<_> = statuses.iter().map(|(name, one)| verdict(name, *one)).collect();
    world.prepare(started.id, &verdicts, &[]).unwrap();
    started
}

#[test]
fn a_device_is_told_of_what_cannot_be_processed_and_of_nothing_else() {
    let mut world = telling();
    world.sent("a", &["m1", "m2", "m3"]);
    world.sent("b", &["m4"]);
    let statuses = [Status::Processed, Status::Deadlock, Status::Incorrect, Status::Incorrect];
    let names = ["m1", "m2", "m3", "m4"];
    let said: Vec<_> = names.into_iter().zip(statuses).collect();
    let started = judged(&mut world, &said);
    assert!(world.inbox("a").is_empty(), "told before its database decided");
    world.step(started.id, Step::Commit).unwrap();
    assert_eq!(world.inbox("a"), ["n-1-3"]);
    assert_eq!(world.inbox("b"), ["n-1-4"]);
}

#[test]
fn nobody_is_told_unless_the_operator_wants_it() {
    let mut world = World::new();
    world.sent("a", &["m1"]);
    let started = judged(&mut world, &[("m1", Status::Incorrect)]);
    world.step(started.id, Step::Commit).unwrap();
    assert!(world.inbox("a").is_empty());
}

#[test]
fn a_notice_says_which_message_and_what_the_erp_said_of_it() {
    let mut world = telling();
    world.sent("a", &["m1", "m2"]);
    let started = world.started();
    let long = format!("\"a\\b\"\n{}", "x".repeat(2000));
    let verdicts = [
        Verdict { error: Some(long.as_str().into()), ..verdict("m1", Status::Incorrect) },
        Verdict { code: None, error: None, ..verdict("m2", Status::Incorrect) },
    ];
    world.prepare(started.id, &verdicts, &[]).unwrap();
    let head = |number: u8| {
        format!(
            r#"{{"version":1,"id":"n-1-{number}","from":"db","to":"a","appSystem":"stock","createdAt":"2023-11-14T22:13:20Z","replyTo":"m{number}","type":"ERROR","payload":"#
        )
    };
    // As much of a text as is kept anywhere.
    let kept = "x".repeat(1024 - "\"a\\b\"\n".len());
    let first = format!(r#"{}{{"code":-803,"error":"\"a\\b\"\u000a{kept}"}}}}"#, head(1));
    let second = format!(r#"{}{{"error":"the message could not be processed"}}}}"#, head(2));
    assert_eq!(world.bodies(), [first, second]);
}

#[test]
fn a_notice_is_told_also_when_nobody_knows() {
    let mut world = telling();
    world.sent("a", &["m1"]);
    judged(&mut world, &[("m1", Status::Incorrect)]);
    world.expire();
    assert_eq!(world.inbox("a"), ["n-1-1"]);
}

#[test]
fn a_notice_of_what_was_rolled_back_was_never_there() {
    let mut world = telling();
    world.sent("a", &["m1"]);
    let started = judged(&mut world, &[("m1", Status::Incorrect)]);
    world.step(started.id, Step::Rollback("".into())).unwrap();
    assert!(world.inbox("a").is_empty());
    assert_eq!(world.place("n-1-1"), None);
}

#[test]
fn the_same_call_again_tells_nobody_twice() {
    let mut world = telling();
    world.sent("a", &["m1"]);
    let started = judged(&mut world, &[("m1", Status::Incorrect)]);
    world.unchanged(|world| {
        world.prepare(started.id, &[verdict("m1", Status::Incorrect)], &[]).unwrap();
    });
}

#[test]
fn a_notice_is_never_in_the_way_of_a_process() {
    let incorrect = [verdict("m1", Status::Incorrect)];
    // As much waits for the device as may, with what the ERP sends.
    let mut world = telling();
    world.rules.queue_max = 1;
    world.sent("a", &["m1"]);
    let started = world.started();
    world.prepare(started.id, &incorrect, &[reply("r1", "a")]).unwrap();
    assert_eq!((world.place("r1"), world.place("n-1-1")), (Some(Place::Prepared), None));
    // There is no room for another message.
    let mut world = telling();
    world.rules.messages_max = 1;
    world.sent("a", &["m1"]);
    judged(&mut world, &[("m1", Status::Incorrect)]);
    assert_eq!(world.place("n-1-1"), None);
    // The ERP calls its own message so.
    let mut world = telling();
    world.sent("a", &["m1"]);
    let started = world.started();
    world.prepare(started.id, &incorrect, &[reply("n-1-1", "b")]).unwrap();
    world.step(started.id, Step::Commit).unwrap();
    assert!(world.inbox("a").is_empty());
    assert_eq!(world.inbox("b"), ["n-1-1"]);
    assert!(world.message("n-1-1").is_some_and(|(_, message)| message.id == mid("n-1-1")));
}
