//! Messages that wait for a day, and everybody else who does not.

use std::collections::BTreeSet;

use handoff_tests::member::Member;
use handoff_tests::wall::{rfc3339, wall_millis};
use serde_json::{Value, json};

use crate::world::{World, numbered, payloads};

const DAY_MS: u64 = 86_400_000;

/// Far fewer than the messages there are.
const IN_FLIGHT: u64 = 100;

const MESSAGES: u64 = 1_000;

/// A group in which the first message of a topic was put off for a day.
fn delayed(ordering: &str, messages: &[Value]) -> (World, Member) {
    let mut world = World::start();
    world.topic("orders", 1);
    world.produce("orders", messages);
    let settings = json!({
        "ordering": ordering, "backoffMaxMs": DAY_MS, "inFlightMax": IN_FLIGHT,
        "leaseMs": 3_600_000,
    });
    world.group("billing", &["orders"], &settings);
    let member = world.join("billing", &json!({"sessionTimeoutMs": 3_600_000}));
    let first = world.poll_with(&member, &json!({"maxMessages": 1}));
    assert_eq!(first[0].base, 0);
    let mut later = first[0].verdict("retry");
    later.delay_ms = Some(DAY_MS);
    assert_eq!(world.commit(&member, &[later])[0].outcome, "done");
    (world, member)
}

/// Everything a member is handed until there is nothing, finished.
fn drained(world: &mut World, member: &Member) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    loop {
        let batches = world.poll_now(member);
        if batches.is_empty() {
            return seen;
        }
        world.finish(member, &batches, "ok");
        for payload in payloads(&batches) {
            assert!(seen.insert(payload.clone()), "{payload} came twice");
        }
        let ranges = world.show("billing").partition(0)["ranges"].as_u64().unwrap();
        assert!(ranges <= 2 * IN_FLIGHT, "{ranges} ranges");
    }
}

#[test]
fn a_message_that_waits_for_a_day_keeps_no_other_from_being_delivered() {
    let (mut world, member) = delayed("none", &numbered(0..MESSAGES));
    let expected: BTreeSet<String> = (1..MESSAGES).map(|n| n.to_string()).collect();
    assert_eq!(drained(&mut world, &member), expected);
    world.die_and_rise();
    let shown = world.show("billing");
    let partition = shown.partition(0);
    assert_eq!((&partition["committed"], &partition["waiting"]), (&json!(0), &json!(1)));
    assert_eq!((shown.lag(), &partition["ranges"]), (1, &json!(2)), "what waits, and the rest");
    let blocked = partition["blockedBy"].as_str().unwrap();
    assert!(blocked.starts_with("1 message waits for its retry, next in"), "{blocked}");
    // What comes later comes at once.
    world.produce("orders", &numbered([MESSAGES]));
    assert_eq!(payloads(&world.poll(&member)), [MESSAGES.to_string()]);
}

#[test]
fn a_key_that_waits_for_a_day_keeps_no_other_key_from_being_delivered() {
    let slow = |n: u64| n.is_multiple_of(100);
    let key = |n: u64| if slow(n) { "slow".to_owned() } else { format!("k{}", n % 7) };
    let messages: Vec<Value> = (0..MESSAGES)
        .map(|n| json!({"payload": n.to_string(), "key": key(n), "partition": 0}))
        .collect();
    let (mut world, member) = delayed("key", &messages);
    let expected: BTreeSet<String> =
        (0..MESSAGES).filter(|n| !slow(*n)).map(|n| n.to_string()).collect();
    assert_eq!(drained(&mut world, &member), expected);
    let shown = world.show("billing");
    assert_eq!((shown.lag(), &shown.partition(0)["waiting"]), (10, &json!(1)));
    assert_eq!(shown.partition(0)["ranges"], 20, "what waits, and what lies between");
}

#[test]
fn a_message_to_be_delivered_in_a_day_has_no_place_yet_and_blocks_nobody() {
    let mut world = World::start();
    world.topic("orders", 1);
    world.group("billing", &["orders"], &json!({"inFlightMax": IN_FLIGHT}));
    let in_a_day = rfc3339(wall_millis() + i64::try_from(DAY_MS).unwrap());
    let tomorrow = json!({"payload": "tomorrow", "deliverAt": in_a_day});
    world.produce("orders", &[tomorrow]);
    world.produce("orders", &numbered(0..MESSAGES));
    let member = world.join("billing", &json!({}));
    assert_eq!(drained(&mut world, &member).len() as u64, MESSAGES);
    let shown = world.show("billing");
    assert_eq!((shown.lag(), &shown.partition(0)["committed"]), (0, &json!(MESSAGES)));
    assert_eq!(shown.partition(0)["ranges"], 0);
}
