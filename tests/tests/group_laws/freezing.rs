//! Consumers that are frozen, and partitions that are taken from the living and the dead.

use std::collections::BTreeMap;
use std::process::Command;

use handoff_tests::consumer::Word;
use handoff_tests::prey::{Prey, Said};
use handoff_tests::served::PATIENCE;
use serde_json::json;

use crate::world::{World, numbered, payloads};

/// The next word of a consumer.
fn word(consumer: &Prey) -> Word {
    match consumer.listen(PATIENCE) {
        Said::Line(line) => serde_json::from_str(&line).unwrap(),
        said => panic!("{said:?}: {}", consumer.last_words()),
    }
}

/// A consumer that says of what it was handed what it is told to.
fn consumer(world: &World, session_ms: u64) -> Prey {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consumer"));
    command.args(["--group", "billing", "--client", "frozen", "--obedient"]);
    command.args(["--messages-max", "10", "--session-ms", &session_ms.to_string()]);
    let consumer = Prey::start(&mut command, &world.place.path().join("consumer")).unwrap();
    consumer.say(format!("at {}", world.served.http));
    consumer
}

#[test]
fn what_a_frozen_consumer_says_when_it_wakes_is_fenced_and_nothing_counts_twice() {
    let mut world = World::start();
    world.topic("orders", 1);
    world.produce("orders", &numbered(0..20));
    let long = json!({"ordering": "none", "leaseMs": 3_600_000});
    world.group("billing", &["orders"], &long);
    let frozen = consumer(&world, 300);
    assert!(matches!(word(&frozen), Word::Joined { .. }));
    let Word::Got { batches } = word(&frozen) else { panic!("nothing was handed out") };
    assert_eq!((batches[0].base, batches[0].messages.len(), batches[0].attempt), (0, 10, 1));
    frozen.freeze().unwrap();
    // It will read this when it wakes.
    frozen.say("ok".to_owned());

    let other = world.join("billing", &json!({"client": "other", "sessionTimeoutMs": 3_600_000}));
    let mut generation = other.generation;
    while world.show("billing").clients() != ["other"] {
        let beat = json!({"version": 1, "generation": generation});
        let beat = world.ask("POST", &other.path("/heartbeat"), Some(&beat));
        generation = beat["generation"].as_u64().unwrap();
    }
    assert_eq!(world.status("billing", "orders", 0)["status"], "pending");
    let mut counted: BTreeMap<u64, u32> = BTreeMap::new();
    let again = world.poll_with(&other, &json!({"maxMessages": 5}));
    assert_eq!((again[0].base, again[0].messages.len(), again[0].attempt), (0, 5, 2));
    world.finish(&other, &again, "ok");
    again[0].offsets().for_each(|offset| *counted.entry(offset).or_default() += 1);
    // Some are out again when it wakes, some wait, some are done.
    let held = world.poll_with(&other, &json!({"maxMessages": 2}));
    assert_eq!((held[0].base, held[0].attempt), (5, 2));

    frozen.thaw().unwrap();
    let Word::Asks { commit, results } = word(&frozen) else { panic!("it says nothing") };
    assert_eq!((results[0].from, results[0].to, &*results[0].status), (0, 9, "ok"));
    let Word::Told { commit: told, results, .. } = word(&frozen) else { panic!("no answer") };
    assert_eq!(told, commit);
    for result in results {
        assert_eq!(result.outcome, "fenced", "{result:?}");
    }
    assert_eq!(word(&frozen), Word::Gone);
    assert_eq!(world.status("billing", "orders", 6)["status"], "processing");
    assert_eq!(world.status("billing", "orders", 9)["status"], "pending");
    world.finish(&other, &held, "ok");
    held[0].offsets().for_each(|offset| *counted.entry(offset).or_default() += 1);
    while world.show("billing").lag() > 0 {
        let batches = world.poll_now(&other);
        world.finish(&other, &batches, "ok");
        let offsets = batches.iter().flat_map(|batch| batch.offsets());
        offsets.for_each(|offset| *counted.entry(offset).or_default() += 1);
        // It is in again and may have been handed some.
        while let Said::Line(line) = frozen.listen(std::time::Duration::ZERO) {
            match serde_json::from_str(&line).unwrap() {
                Word::Got { .. } => frozen.say("ok".to_owned()),
                Word::Told { results, .. } => {
                    let done = results.iter().filter(|result| result.counts());
                    let done = done.flat_map(|result| result.from..=result.to);
                    done.for_each(|offset| *counted.entry(offset).or_default() += 1);
                }
                _ => {}
            }
        }
    }
    assert!(counted.len() == 20 && counted.values().all(|count| *count == 1), "{counted:?}");
}

#[test]
fn a_new_owner_reads_past_what_the_living_hold_and_again_what_the_dead_held() {
    let mut world = World::start();
    world.topic("orders", 2);
    for partition in 0..2 {
        let message =
            |n: u32| json!({"payload": format!("{partition}.{n}"), "partition": partition});
        world.produce("orders", &(0..8).map(message).collect::<Vec<_>>());
    }
    let settings = json!({"ordering": "none", "leaseMs": 3_600_000});
    world.group("billing", &["orders"], &settings);
    let long = json!({"sessionTimeoutMs": 3_600_000});
    let old = world.join("billing", &long);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.extend(world.poll_with(&old, &json!({"maxMessages": 2})));
    }
    assert_eq!(payloads(&held).len(), 8);
    let new = world.join("billing", &long);
    let theirs = new.assigned[0].1;
    let past = world.poll(&new);
    let out: Vec<String> = payloads(&held);
    for payload in payloads(&past) {
        assert!(!out.contains(&payload), "{payload} is held by the old owner");
        assert!(payload.starts_with(&format!("{theirs}.")));
    }
    let behind = held.iter().filter(|batch| batch.partition == theirs);
    let behind: usize = behind.map(|batch| batch.messages.len()).sum();
    assert!(behind > 0, "{held:?}");
    assert_eq!(payloads(&past).len(), 8 - behind, "all of the rest, at once");
    assert!(past.iter().all(|batch| batch.attempt == 1));
    assert!(world.poll_now(&new).is_empty());

    // The old one finishes one of what it holds there, and is gone.
    let (first, rest) = held.split_first().unwrap();
    let outcomes = world.commit(&old, &[first.verdict("ok")]);
    let expected = if first.partition == theirs { "late" } else { "done" };
    assert_eq!(outcomes[0].outcome, expected);
    world.leave(&old);
    let mut again = Vec::new();
    while payloads(&again).len() < 14 - payloads(&past).len() {
        again.extend(world.poll(&new));
    }
    for batch in rest {
        for offset in batch.offsets() {
            let is_it = |one: &&handoff_tests::member::Batch| {
                one.partition == batch.partition && one.offsets().any(|other| other == offset)
            };
            let came = again.iter().find(is_it).unwrap();
            assert_eq!(came.attempt, 2, "{came:?}");
            assert!(came.lease > batch.lease);
        }
    }
    let late: Vec<_> = rest.iter().map(|batch| batch.verdict("ok")).collect();
    assert!(world.commit(&old, &late).iter().all(|one| one.outcome == "fenced"));
    world.finish(&new, &past, "ok");
    world.finish(&new, &again, "ok");
    assert_eq!(world.show("billing").lag(), 0);
}
