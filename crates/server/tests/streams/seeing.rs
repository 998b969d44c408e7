//! What a token sees and may send.

use serde_json::{Value, json};

use crate::world::World;

async fn acme() -> (World, String, String) {
    let (world, admin) = World::locked().await;
    for name in ["acme.orders", "globex.orders"] {
        let body = json!({"version": 1, "name": name, "partitions": 1});
        assert_eq!(world.ask(&admin, "POST", "/v1/streams/topics", &body).await.status, 201);
    }
    let acme = world.token(&admin, &["streams:acme.*"]).await;
    (world, admin, acme)
}

#[tokio::test]
async fn a_token_sees_its_own_names_everywhere_and_no_others_anywhere() {
    let (world, admin, acme) = acme().await;
    let page = world.ask(&acme, "GET", "/v1/streams/topics", &Value::Null).await.json();
    let names: Vec<&Value> =
        page["topics"].as_array().unwrap().iter().map(|topic| &topic["name"]).collect();
    assert_eq!(names, ["acme.orders"]);
    let message = json!({"version": 1, "messages": [{"payload": "a"}]});
    let topic = |name: &str| json!({"version": 1, "name": name});
    let grow = json!({"version": 1, "partitions": 2});
    let patch = json!({"version": 1, "compression": "lz4"});
    let asked = |name: &str| {
        let path = format!("/v1/streams/topics/{name}");
        [
            ("POST", "/v1/streams/topics".to_owned(), topic(name)),
            ("GET", path.clone(), Value::Null),
            ("PATCH", path.clone(), patch.clone()),
            ("POST", format!("{path}/partitions"), grow.clone()),
            ("POST", format!("{path}/messages"), message.clone()),
            ("GET", format!("{path}/messages?key=k"), Value::Null),
            ("GET", format!("{path}/partitions/0/messages"), Value::Null),
            ("GET", format!("{path}/scheduled"), Value::Null),
            ("GET", format!("{path}/tail?partition=999"), Value::Null),
            ("DELETE", path, Value::Null),
        ]
    };
    // Whether there is such a topic makes no difference.
    for name in ["globex.orders", "globex.none"] {
        for (method, path, body) in asked(name) {
            let answer = world.ask(&acme, method, &path, &body).await;
            assert_eq!(
                (answer.status, &*answer.code()),
                (403, "auth.out_of_scope"),
                "{method} {path}"
            );
        }
    }
    for (method, path, body) in asked("acme.orders") {
        let answer = world.ask(&acme, method, &path, &body).await;
        assert_ne!(answer.status, 403, "{method} {path}: {}", answer.text());
    }
    let left = world.ask(&admin, "GET", "/v1/streams/topics/globex.orders", &Value::Null).await;
    assert_eq!(left.json()["topic"]["messages"], 0);
    let stats = world.ask(&acme, "GET", "/v1/streams/stats", &Value::Null).await;
    assert_eq!((stats.status, &*stats.code()), (403, "auth.out_of_scope"));
}

#[tokio::test]
async fn a_message_that_waits_in_a_topic_out_of_sight_cannot_be_taken_back() {
    let (world, admin, acme) = acme().await;
    let later = {
        let server = world.ask(&admin, "GET", "/v1/server", &Value::Null).await.json();
        let started: jiff::Timestamp = server["startedAt"].as_str().unwrap().parse().unwrap();
        jiff::Timestamp::from_second(started.as_second() + 3_600).unwrap().to_string()
    };
    let body = json!({"version": 1, "messages": [{"payload": "", "deliverAt": later}]});
    let path = "/v1/streams/topics/globex.orders/messages";
    let stored = world.ask(&admin, "POST", path, &body).await.json();
    let id = stored["results"][0]["id"].as_str().unwrap();
    let path = format!("/v1/streams/scheduled/{id}");
    let answer = world.ask(&acme, "DELETE", &path, &Value::Null).await;
    assert_eq!((answer.status, &*answer.code()), (404, "streams.scheduled_not_found"));
    assert_eq!(world.ask(&admin, "DELETE", &path, &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_producer_hears_only_of_topics_in_sight() {
    let (world, admin, acme) = acme().await;
    let scope = json!({"version": 1, "scope": "topic"});
    let made = world.ask(&admin, "POST", "/v1/streams/producers", &scope).await.json();
    let producer = made["producer"].as_str().unwrap();
    for name in ["acme.orders", "globex.orders"] {
        let body = json!({
            "version": 1, "producer": producer, "sequence": 5, "messages": [{"payload": ""}],
        });
        let path = format!("/v1/streams/topics/{name}/messages");
        assert_eq!(world.ask(&admin, "POST", &path, &body).await.status, 200);
    }
    let who = json!({"version": 1, "producer": producer});
    let known = world.ask(&acme, "POST", "/v1/streams/producers", &who).await.json();
    assert_eq!(known["last"], json!({"acme.orders": 5}));
}

#[tokio::test]
async fn without_a_scope_of_the_room_nothing_is_seen() {
    let (world, admin, _) = acme().await;
    let events = world.token(&admin, &["events"]).await;
    let answer = world.ask(&events, "GET", "/v1/streams/topics", &Value::Null).await;
    assert_eq!((answer.status, &*answer.code()), (403, "auth.out_of_scope"));
    assert_eq!(world.get("/v1/streams/topics").await.code(), "auth.token_missing");
}

#[tokio::test]
async fn a_token_that_sends_too_much_is_told_when_to_come_again() {
    let world = World::start_with(|settings| settings.streams.token_bytes_per_sec = 1_000).await;
    world.topic("orders", 1).await;
    let body = json!({"version": 1, "messages": [{"payload": "x".repeat(100_000)}]});
    let path = "/v1/streams/topics/orders/messages";
    assert_eq!(world.post(path, &body).await.status, 200);
    let refused = world.post(path, &body).await;
    assert_eq!((refused.status, &*refused.code()), (429, "streams.quota"));
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((90..=101).contains(&seconds), "{seconds}");
    let topic = world.get("/v1/streams/topics/orders").await.json();
    assert_eq!(topic["topic"]["messages"], 1, "nothing was stored");
}

#[tokio::test]
async fn what_is_stored_is_counted() {
    let world = World::start().await;
    world.topic("orders", 3).await;
    let body = json!({
        "version": 1, "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab", "sequence": 0,
        "messages": [{"payload": "a"}, {"payload": "b"}],
    });
    world.produced("orders", &body).await;
    world.produced("orders", &body).await;
    let metrics = world.get("/metrics").await;
    let text = metrics.text();
    for line in [
        "handoff_streams_messages_total 2",
        "handoff_streams_duplicates_total 2",
        "handoff_streams_topics 1",
        "handoff_streams_partitions 3",
        "handoff_streams_producers 1",
        "handoff_streams_scheduled 0",
        "handoff_streams_waiting_readers 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains("orders"), "no topic has a label");
}
