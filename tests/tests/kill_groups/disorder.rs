//! Very many messages that are out at once, answered in any order.

use std::collections::BTreeSet;

use handoff_sim::dice::Dice;
use handoff_tests::member::{Batch, Member, Verdict};
use handoff_tests::stalk::restless;
use serde_json::json;

use crate::world::{Shown, World, numbered};

const MESSAGES: u64 = 100_000;

/// One in so many is never answered.
const KEPT: u64 = 100;

/// Verdicts in one commit.
const COMMIT: usize = 1_000;

/// What a message that is out or lies between two that are may take of the server's memory, at most,
/// checkpoints and requests on their way included: about 150 bytes of it are the range itself.
const BYTES_EACH: u64 = 1_000;

/// What a server has in memory, in bytes.
fn resident(world: &World) -> u64 {
    let path = format!("/proc/{}/status", world.served.prey.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn processing(world: &mut World) -> u64 {
    world.show("billing").partition(0)["processing"].as_u64().unwrap()
}

fn ranges(shown: &Shown) -> u64 {
    shown.partition(0)["ranges"].as_u64().unwrap()
}

/// Everything there is for a member, unanswered.
fn all(world: &mut World, member: &Member) -> Vec<Batch> {
    let mut batches = Vec::new();
    loop {
        let more = json!({"maxMessages": 10_000, "maxBytes": 16 << 20});
        let polled = world.poll_with(member, &more);
        if polled.is_empty() {
            return batches;
        }
        batches.extend(polled);
    }
}

fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for n in (1..items.len()).rev() {
        let other = usize::try_from(dice.below(n as u64 + 1)).unwrap();
        items.swap(n, other);
    }
}

#[test]
fn after_a_hundred_thousand_answers_in_random_order_and_kills_only_the_rest_comes_again() {
    let mut dice = Dice::new(3);
    let mut world = World::start_with(restless);
    world.topic("orders", 1);
    world.produce("orders", &numbered(0..MESSAGES));
    let settings = json!({
        "ordering": "none", "leaseMs": 3_600_000, "inFlightMax": MESSAGES, "maxAttempts": 100,
    });
    world.group("billing", &["orders"], &settings);
    let long = json!({"sessionTimeoutMs": 3_600_000});
    let member = world.join("billing", &long);
    let before = resident(&world);
    let held = all(&mut world, &member);
    assert_eq!(held.iter().map(|batch| batch.messages.len() as u64).sum::<u64>(), MESSAGES);

    let one =
        |batch: &Batch| batch.offsets().map(|at| batch.part(at, at, "ok")).collect::<Vec<_>>();
    let mut verdicts: Vec<Verdict> = held.iter().flat_map(one).collect();
    drop(held);
    shuffle(&mut verdicts, &mut dice);
    let kept = verdicts.split_off(usize::try_from(MESSAGES - MESSAGES / KEPT).unwrap());
    let kept: BTreeSet<u64> = kept.iter().map(|verdict| verdict.from).collect();
    let mut unknown: BTreeSet<u64> = BTreeSet::new();
    let (mut most, mut grown) = (0, 0);
    let mut out = MESSAGES;
    for (n, some) in verdicts.chunks(COMMIT).enumerate() {
        if n % 33 == 20 {
            // Nobody hears what becomes of this one.
            let body = json!({"version": 1, "results": some});
            world.http.send("POST", &member.path("/commit"), Some(&body)).unwrap();
            unknown.extend(some.iter().map(|verdict| verdict.from));
            if n > 50 {
                let other = world.connect();
                // It stays open: whoever hangs up may not be waited for.
                let unheard = std::mem::replace(&mut world.http, other);
                while processing(&mut world) + COMMIT as u64 > out {}
                drop(unheard);
            }
            world.die_and_rise();
            out = processing(&mut world);
            continue;
        }
        let outcomes = world.commit(&member, some);
        assert!(outcomes.iter().all(|one| one.outcome == "done"), "{outcomes:?}");
        out -= some.len() as u64;
        if n % 10 == 0 {
            most = most.max(ranges(&world.show("billing")));
            grown = grown.max(resident(&world).saturating_sub(before));
        }
    }
    world.die_and_rise();
    let shown = world.show("billing");
    assert_eq!(shown.partition(0)["processing"], json!(out));
    let (least, top) = (kept.len() as u64, (kept.len() + unknown.len()) as u64);
    assert!(least <= out && out < top, "{out} are out, {least} to {top} may be");
    eprintln!(
        "{most} ranges at most, {} in the end, {out} out; {} KiB more memory at most, {} after a restart",
        ranges(&shown),
        grown / 1024,
        resident(&world).saturating_sub(before) / 1024,
    );
    assert!(most > MESSAGES / 4, "{most} ranges are no disorder");
    assert!(ranges(&shown) <= 2 * out + 1, "what is finished takes nothing but what lies between");
    assert!(grown < MESSAGES * BYTES_EACH, "{grown} bytes");

    world.leave(&member);
    let other = world.join("billing", &long);
    let again = all(&mut world, &other);
    assert!(again.iter().all(|batch| batch.attempt == 2));
    let came: BTreeSet<u64> = again.iter().flat_map(Batch::offsets).collect();
    assert_eq!(came.len() as u64, out);
    assert!(came.is_superset(&kept), "{:?} are lost", kept.difference(&came));
    let rest: BTreeSet<u64> = came.difference(&kept).copied().collect();
    assert!(rest.is_subset(&unknown), "finished, and there again: {:?}", rest.difference(&unknown));
    let results: Vec<Verdict> = again.iter().map(|batch| batch.verdict("ok")).collect();
    for some in results.chunks(COMMIT) {
        let outcomes = world.commit(&other, some);
        assert!(outcomes.iter().all(|one| one.outcome == "done"), "{outcomes:?}");
    }
    let shown = world.show("billing");
    assert_eq!((shown.lag(), ranges(&shown)), (0, 0));
    assert_eq!(shown.partition(0)["committed"], json!(MESSAGES));
}
