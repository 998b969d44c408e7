//! Messages that are delivered later.

use serde_json::{Value, json};

use crate::world::{World, payloads};

const SCHEDULED: &str = "/v1/streams/topics/orders/scheduled";

async fn listed(world: &World) -> Vec<Value> {
    world.get(SCHEDULED).await.json()["scheduled"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_message_waits_unseen_is_listed_and_can_be_taken_back() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let (first, second) = (world.later(3_600_000).await, world.later(7_200_000).await);
    let stored = world
        .produce(
            "orders",
            json!([
                {"payload": "second", "deliverAt": second},
                {"key": "k", "payload": "first", "deliverAt": first},
                {"payload": "now"},
            ]),
        )
        .await;
    assert_eq!(stored[0]["status"], "scheduled");
    assert_eq!((stored[0].get("partition"), stored[0].get("offset")), (None, None));
    assert_eq!(stored[2], json!({"status": "stored", "partition": 0, "offset": 0}));
    assert_eq!(world.payloads("orders", 0).await, ["now"]);
    let waiting = listed(&world).await;
    assert_eq!(
        waiting[0],
        json!({"id": stored[1]["id"], "deliverAt": first, "key": "k", "bytes": 6})
    );
    assert_eq!(waiting[1], json!({"id": stored[0]["id"], "deliverAt": second, "bytes": 6}));
    assert_eq!(world.get("/v1/streams/stats").await.json()["scheduled"], 2);

    let page = world.get(&format!("{SCHEDULED}?limit=1")).await.json();
    assert_eq!(page["scheduled"], json!([waiting[0]]));
    let next = page["next"].as_str().unwrap();
    let page = world.get(&format!("{SCHEDULED}?limit=1&after={next}")).await.json();
    assert_eq!((&page["scheduled"], page.get("next")), (&json!([waiting[1]]), None));

    let path = format!("/v1/streams/scheduled/{}", stored[0]["id"].as_str().unwrap());
    let gone = world.delete(&path).await;
    assert_eq!((gone.status, &gone.json()["cancelled"]), (200, &stored[0]["id"]));
    assert_eq!(world.delete(&path).await.code(), "streams.scheduled_not_found");
    let world = world.restart().await;
    assert_eq!(listed(&world).await, [waiting[0].clone()]);
}

#[tokio::test]
async fn a_message_gets_its_place_when_it_is_due() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let later = world.later(1_500).await;
    let body = json!([{"payload": "late", "deliverAt": later}]);
    assert_eq!(world.produce("orders", body).await[0]["status"], "scheduled");
    let page = world.read("orders", 0, "?waitMs=30000").await;
    assert_eq!(payloads(&page), ["late"]);
    let stamped = page["messages"][0]["timestamp"].as_str().unwrap();
    assert!(stamped[..19] >= later[..19], "{stamped} is before {later}");
    assert!(listed(&world).await.is_empty());
}

#[tokio::test]
async fn a_time_that_is_past_is_now() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let body = json!([{"payload": "at once", "deliverAt": "1999-01-01T00:00:00Z"}]);
    assert_eq!(world.produce("orders", body).await[0]["status"], "stored");
}

#[tokio::test]
async fn a_message_that_is_due_while_the_server_is_down_is_delivered_at_the_start() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let later = world.later(1_000).await;
    world.produce("orders", json!([{"payload": "late", "deliverAt": later}])).await;
    let world = world.restart().await;
    assert_eq!(payloads(&world.read("orders", 0, "?waitMs=30000").await), ["late"]);
}
