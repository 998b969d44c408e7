//! Commits, and messages that are stored with them.

use serde_json::json;

use crate::members::{all_answered, answered, delivered, outcomes};
use crate::world::World;

#[tokio::test]
async fn messages_are_stored_with_a_commit_or_not_at_all() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.topic("bills", 1).await;
    world.orders(&["a"]).await;
    world.group("billing", json!({"leaseMs": 100, "backoffMs": 1, "maxAttempts": 1000})).await;
    let member = world.join("billing").await;
    let stale = world.poll(&member).await;
    let fresh = world.poll(&member).await;
    assert_eq!(fresh[0]["attempt"], 2);
    let body = json!({
        "version": 1, "results": all_answered(&stale, "ok"),
        "produce": [{"topic": "bills", "messages": [{"payload": "bill"}]}],
    });
    let refused = world.try_commit(&member, &body).await;
    assert_eq!((refused.status, refused.code()), (409, "streams.fenced".to_owned()));
    assert!(refused.detail().contains("nothing was stored"), "{}", refused.detail());
    assert!(world.payloads("bills", 0).await.is_empty());

    world
        .send("PATCH", "/v1/streams/groups/billing", &json!({"version": 1, "leaseMs": 60_000}))
        .await;
    let fresh = world.poll(&member).await;
    let body = json!({
        "version": 1, "results": all_answered(&fresh, "ok"),
        "produce": [{"topic": "bills", "messages": [{"payload": "bill"}, {"payload": "copy"}]}],
    });
    let answer = world.try_commit(&member, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let committed = answer.json();
    assert_eq!(committed["results"][0]["outcome"], "done");
    let stored = json!({"version": 1, "results": [
        {"status": "stored", "partition": 0, "offset": 0},
        {"status": "stored", "partition": 0, "offset": 1},
    ]});
    assert_eq!(committed["produced"], json!([stored]));
    assert_eq!(world.payloads("bills", 0).await, ["bill", "copy"]);
    // Said again it is refused: nobody knows whether these messages are those.
    assert_eq!(world.try_commit(&member, &body).await.code(), "streams.fenced");
    assert_eq!(world.payloads("bills", 0).await.len(), 2);
}

#[tokio::test]
async fn a_commit_of_a_known_producer_may_be_repeated() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.topic("bills", 1).await;
    world.orders(&["a"]).await;
    let member = world.join("billing").await;
    let held = world.poll(&member).await;
    let body = json!({
        "version": 1, "results": all_answered(&held, "ok"),
        "produce": [{
            "topic": "bills", "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab", "sequence": 0,
            "messages": [{"payload": "bill"}],
        }],
    });
    let first = world.try_commit(&member, &body).await.json();
    assert_eq!(first["produced"][0]["results"][0]["status"], "stored");
    let second = world.try_commit(&member, &body).await.json();
    assert_eq!(second["results"][0]["outcome"], "done");
    assert_eq!(second["produced"][0]["results"][0]["status"], "duplicate");
    assert_eq!(world.payloads("bills", 0).await, ["bill"]);
}

#[tokio::test]
async fn if_one_message_cannot_be_stored_nothing_is_committed() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    let member = world.join("billing").await;
    let held = world.poll(&member).await;
    for (produce, code) in [
        (json!({"topic": "none", "messages": [{"payload": "x"}]}), "streams.topic_not_found"),
        (json!({"topic": "orders", "messages": []}), "streams.invalid"),
        (
            json!({"topic": "orders", "messages": [{"payload": "x", "partition": 9}]}),
            "streams.partition_not_found",
        ),
        (json!({"topic": "orders", "messages": [{}]}), "request.invalid"),
    ] {
        let body = json!({
            "version": 1, "results": all_answered(&held, "ok"),
            "produce": [{"topic": "orders", "messages": [{"payload": "fine"}]}, produce],
        });
        assert_eq!(world.try_commit(&member, &body).await.code(), code);
    }
    assert_eq!(world.payloads("orders", 0).await, ["a"]);
    assert_eq!(world.status("billing", 0).await["status"], "processing");
    assert_eq!(outcomes(&world.commit(&member, all_answered(&held, "ok")).await), ["done"]);
}

#[tokio::test]
async fn parts_of_a_lease_are_answered_each_for_itself() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c"]).await;
    let member = world.join("billing").await;
    let held = world.poll(&member).await;
    let mut middle = answered(&held[0], "ok");
    (middle["from"], middle["to"]) = (json!(1), json!(1));
    assert_eq!(outcomes(&world.commit(&member, json!([middle])).await), ["done"]);
    let shown = world.shown_group("billing").await;
    assert_eq!(shown["partitions"][0]["committed"], 0, "it never goes over what is not finished");
    let rest = world.commit(&member, all_answered(&held, "ok")).await;
    assert_eq!(outcomes(&rest), ["done"]);
    assert_eq!(world.shown_group("billing").await["partitions"][0]["committed"], 3);
}

#[tokio::test]
async fn what_cannot_be_committed_is_said_in_words() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a"]).await;
    let member = world.join("billing").await;
    let result = |status: &str, from: u64, to: u64| json!({"topic": "orders", "partition": 0, "from": from, "to": to, "status": status});
    for (results, code, words) in [
        (json!([result("fine", 0, 0)]), "request.invalid", "ok, failed, retry or extend"),
        (json!([result("ok", 1, 0)]), "streams.invalid", "1 to 0"),
        (json!([result("ok", 0, 1), result("ok", 1, 1)]), "streams.invalid", "two results"),
        (json!([{"topic": "a b"}]), "request.invalid", "missing field"),
        (json!(7), "request.invalid", ""),
    ] {
        let body = json!({"version": 1, "results": results});
        let answer = world.try_commit(&member, &body).await;
        assert_eq!(answer.code(), code, "{results}");
        assert!(answer.detail().contains(words), "{}", answer.detail());
    }
    let results = world.commit(&member, json!([result("ok", 0, 9)])).await;
    assert_eq!(outcomes(&results), ["fenced"], "nobody was handed them");
    let elsewhere = json!([{"topic": "gone", "partition": 0, "from": 0, "to": 0, "status": "ok"}]);
    assert_eq!(outcomes(&world.commit(&member, elsewhere).await), ["fenced"]);
    assert_eq!(delivered(&world.poll(&member).await), ["a"]);
}

#[tokio::test]
async fn with_a_disk_that_is_low_commits_and_leaves_go_on_and_nothing_new_is_stored() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b"]).await;
    let long = json!({"topics": ["orders"], "sessionTimeoutMs": 3_600_000});
    let member = world.join_with("billing", long).await;
    let held = world.poll_with(&member, json!({"maxMessages": 1})).await;
    let world = world.restart_with(|settings| settings.server.disk_free_min = Some(1 << 60)).await;
    let produce = json!({"version": 1, "messages": [{"payload": "c"}]});
    let refused = world.post("/v1/streams/topics/orders/messages", &produce).await;
    assert_eq!((refused.status, refused.code()), (507, "disk_low".to_owned()));
    let body = json!({
        "version": 1, "results": all_answered(&held, "ok"),
        "produce": [{"topic": "orders", "messages": [{"payload": "c"}]}],
    });
    assert_eq!(world.try_commit(&member, &body).await.code(), "disk_low");
    assert_eq!(outcomes(&world.commit(&member, all_answered(&held, "ok")).await), ["done"]);
    let next = world.poll(&member).await;
    assert_eq!(delivered(&next), ["b"]);
    let failed = world.commit(&member, all_answered(&next, "failed")).await;
    assert_eq!(outcomes(&failed), ["done"], "a letter finishes what was promised");
    assert_eq!(world.letters("billing").await.len(), 1);
    world.leave(&member).await;
}
