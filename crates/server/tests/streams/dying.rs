//! Messages that cannot be processed.

use serde_json::{Value, json};

use crate::members::{all_answered, delivered, outcomes};
use crate::world::World;

/// Fails everything a member holds, with words.
async fn failed(world: &World, member: &crate::members::Member, batches: &[Value]) {
    let mut results = all_answered(batches, "failed");
    for result in results.as_array_mut().unwrap() {
        result["error"] = json!("no paper");
    }
    let results = world.commit(member, results).await;
    assert!(outcomes(&results).iter().all(|outcome| *outcome == "done"), "{results:?}");
}

#[tokio::test]
async fn what_failed_is_a_letter_that_says_where_it_came_from() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let message = json!([{"key": "k", "payload": "a", "headers": {"trace": "1"}}]);
    world.produce("orders", message).await;
    let member = world.join("billing").await;
    let held = world.poll(&member).await;
    failed(&world, &member, &held).await;
    let status = world.status("billing", 0).await;
    let letter = json!({"topic": "billing.dead", "partition": 0, "offset": 0});
    assert_eq!((&status["status"], &status["letter"]), (&json!("dead"), &letter));

    let letters = world.letters("billing").await;
    let letter = &letters[0];
    let origin = &letter["origin"];
    assert_eq!((&origin["topic"], &origin["partition"]), (&json!("orders"), &json!(0)));
    assert_eq!(origin["offset"], 0);
    assert_eq!(origin["timestamp"], held[0]["messages"][0]["timestamp"]);
    assert_eq!((&letter["attempt"], &letter["error"]), (&json!(1), &json!("no paper")));
    assert_eq!((&letter["key"], &letter["payload"]), (&json!("k"), &json!("a")));
    assert_eq!((&letter["headers"], &letter["replayed"]), (&json!({"trace": "1"}), &json!(false)));

    let page = world.read("billing.dead", 0, "").await;
    let headers = page["messages"][0]["headers"].as_object().unwrap();
    for (name, value) in [
        ("handoff.origin-topic", "orders"),
        ("handoff.origin-partition", "0"),
        ("handoff.origin-offset", "0"),
        ("handoff.group", "billing"),
        ("handoff.attempt", "1"),
        ("handoff.error", "no paper"),
        ("trace", "1"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers.contains_key("handoff.origin-timestamp"));
    let shown = world.shown_group("billing").await;
    assert_eq!((&shown["dead"], &shown["lag"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn a_letter_is_sent_back_once_and_for_its_group_alone() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b"]).await;
    let (billing, other) = (world.join("billing").await, world.join("shipping").await);
    let held = world.poll(&billing).await;
    failed(&world, &billing, &held).await;
    let theirs = world.poll(&other).await;
    world.commit(&other, all_answered(&theirs, "ok")).await;

    let replay = "/v1/streams/groups/billing/dead/replay";
    let one = json!({"version": 1, "partition": 0, "from": 1});
    let answer = world.post(replay, &one).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let back = json!({"topic": "orders", "partition": 0, "offset": 2});
    let expected = json!({
        "version": 1, "replayed": 1, "already": 0,
        "results": [{"partition": 0, "offset": 1, "outcome": "replayed", "at": back}],
    });
    assert_eq!(answer.json(), expected);
    let all = world.post(replay, &json!({"version": 1, "all": true})).await.json();
    assert_eq!((&all["replayed"], &all["already"]), (&json!(1), &json!(1)));
    let again = world.post(replay, &json!({"version": 1, "all": true})).await.json();
    assert_eq!((&again["replayed"], &again["already"]), (&json!(0), &json!(2)));

    assert_eq!(delivered(&world.poll(&billing).await), ["b", "a"]);
    assert!(world.poll_now(&other).await.is_empty(), "they have had it");
    assert_eq!(world.status("shipping", 2).await["status"], "processed");
    let letters = world.letters("billing").await;
    assert!(letters.iter().all(|letter| letter["replayed"] == true), "{letters:?}");
    let audit = world.get("/v1/audit").await.text().to_owned();
    assert!(audit.contains("dead letters of group billing"), "{audit}");
}

#[tokio::test]
async fn what_is_tried_too_often_dies_by_a_commit_and_by_time() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    world.group("billing", json!({"maxAttempts": 2, "backoffMs": 1})).await;
    let member = world.join("billing").await;
    for _ in 0..2 {
        let held = world.poll(&member).await;
        assert_eq!(delivered(&held), ["a"]);
        assert_eq!(outcomes(&world.commit(&member, all_answered(&held, "retry")).await), ["done"]);
    }
    assert_eq!(world.letters("billing").await[0]["attempt"], 2);

    world.group("slow", json!({"maxAttempts": 2, "backoffMs": 1, "leaseMs": 100})).await;
    let member = world.join("slow").await;
    assert_eq!(world.poll(&member).await[0]["attempt"], 1);
    assert_eq!(world.poll(&member).await[0]["attempt"], 2);
    let mut letters = world.letters("slow").await;
    while letters.is_empty() {
        letters = world.letters("slow").await;
    }
    assert_eq!((&letters[0]["attempt"], &letters[0]["payload"]), (&json!(2), &json!("a")));
    let said = letters[0]["error"].as_str().unwrap();
    assert!(said.contains("not answered before its lease was over"), "{said}");
    assert_eq!(world.status("slow", 0).await["status"], "dead");
}

#[tokio::test]
async fn letters_are_paged_and_those_of_others_in_the_same_topic_are_not_shown() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c"]).await;
    world.topic("graves", 2).await;
    for group in ["billing", "shipping"] {
        world.group(group, json!({"deadLetter": "graves"})).await;
        let member = world.join(group).await;
        let held = world.poll(&member).await;
        failed(&world, &member, &held).await;
    }
    assert!(world.get("/v1/streams/topics/billing.dead").await.status == 404);
    let dead = "/v1/streams/groups/shipping/dead";
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("{dead}?limit=1{after}")).await.json();
        seen.extend(page["letters"].as_array().unwrap().iter().map(|one| one["payload"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, ["a", "b", "c"]);
    for bad in ["?after=x", "?limit=0", "?from=1"] {
        assert_eq!(world.get(&format!("{dead}{bad}")).await.code(), "request.malformed", "{bad}");
    }
    let replay = format!("{dead}/replay");
    for (body, words) in [
        (json!({}), "which letters?"),
        (json!({"all": true, "from": 1}), "stands alone"),
        (json!({"from": 2, "to": 1}), "not below"),
    ] {
        let mut whole = json!({"version": 1});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = world.post(&replay, &whole).await;
        assert_eq!(answer.code(), "request.invalid");
        assert!(answer.detail().contains(words), "{}", answer.detail());
    }
    let none = json!({"version": 1, "partition": 7, "from": 0});
    assert_eq!(world.post(&replay, &none).await.code(), "streams.partition_not_found");
    let nobody = world.get("/v1/streams/groups/nobody/dead").await;
    assert_eq!(nobody.code(), "streams.group_not_found");
}

#[tokio::test]
async fn a_compressed_message_dies_whole_and_letters_survive_a_restart() {
    let world = World::start().await;
    world.topic_with("orders", 1, json!({"compression": "lz4"})).await;
    world.orders(&["a", "b", "c"]).await;
    let member = world.join("billing").await;
    let held = world.poll(&member).await;
    failed(&world, &member, &held).await;
    let world = world.restart().await;
    let payloads: Vec<Value> =
        world.letters("billing").await.iter().map(|one| one["payload"].clone()).collect();
    assert_eq!(payloads, ["a", "b", "c"]);
    let replay = json!({"version": 1, "all": true});
    let done = world.post("/v1/streams/groups/billing/dead/replay", &replay).await.json();
    assert_eq!(done["replayed"], 3);
    let world = world.restart().await;
    assert!(world.letters("billing").await.iter().all(|one| one["replayed"] == true));
}
