//! Events that are published to topics, through a whole server.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../http_client/mod.rs"]
mod http_client;
#[path = "../streams/world.rs"]
mod world;

use handoff_server::settings::{CatchUp, Settings};
use serde_json::{Value, json};

use self::world::World;

fn with_events(settings: &mut Settings) {
    settings.events.enabled = true;
    settings.events.listen.set_port(0);
    settings.relay.enabled = false;
    // What a restart misses is told too, so that numbers have no hole.
    settings.events.catch_up = CatchUp::All;
}

async fn topic(world: &World, name: &str) {
    let body = json!({"version": 1, "name": name, "partitions": 1});
    let answer = world.post("/v1/streams/topics", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn ticking(publish: &str, repeat: i32) -> Value {
    json!({"version": 1, "description": "tick", "types": ["b", "a"], "periodSecs": 0.1,
        "repeat": repeat, "publish": publish})
}

async fn register(world: &World, publish: &str, repeat: i32) -> u64 {
    let answer = world.post("/v1/events", &ticking(publish, repeat)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_u64().unwrap()
}

/// What a topic has once it has this many messages, in order.
async fn messages(world: &World, topic: &str, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    while all.len() < count {
        let path = format!(
            "/v1/streams/topics/{topic}/partitions/0/messages?offset={}&waitMs=10000",
            all.len()
        );
        let answer = world.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        all.extend(answer.json()["messages"].as_array().unwrap().iter().cloned());
    }
    all
}

fn payload(message: &Value) -> Value {
    serde_json::from_str(message["payload"].as_str().unwrap()).unwrap()
}

/// Asks until the answer is as it should be.
async fn until(world: &World, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = world.get(path).await.json();
        if holds(&answer) {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

async fn letters(world: &World, count: usize) -> Vec<Value> {
    let path = "/v1/events/dead-letters";
    let has = |page: &Value| page["deadLetters"].as_array().is_some_and(|all| all.len() == count);
    let page = until(world, path, has).await;
    page["deadLetters"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_occurrence_is_in_the_topic_once_and_says_what_happened() {
    let world = World::start_with(with_events).await;
    topic(&world, "ticks").await;
    let id = register(&world, "ticks", 3).await;
    let found = messages(&world, "ticks", 3).await;
    for (number, message) in (1..).zip(&found) {
        assert_eq!(message["key"], id.to_string());
        assert_eq!(message["headers"]["event-id"], id.to_string());
        let payload = payload(message);
        assert_eq!(payload["version"], 1);
        assert_eq!(payload["id"], id);
        assert_eq!(payload["description"], "tick");
        assert_eq!(payload["types"], json!(["a", "b"]));
        assert_eq!(payload["number"], number);
        assert_eq!(payload["late"], false);
        assert!(payload["at"].as_str().unwrap().ends_with('Z'), "{payload}");
    }
    let stats = until(&world, "/v1/events/stats", |stats| stats["published"] == 3).await;
    assert_eq!((&stats["publishWaiting"], &stats["deadLetters"]), (&json!(0), &json!(0)));
    assert_eq!(messages(&world, "ticks", 3).await.len(), 3, "and no more");
    world.stop().await;
}

#[tokio::test]
async fn an_event_says_where_it_is_published_and_may_have_a_key_of_its_own() {
    let world = World::start_with(with_events).await;
    topic(&world, "ticks").await;
    let id = register(&world, "ticks:mine", -1).await;
    let shown = world.get(&format!("/v1/events/{id}")).await.json();
    assert_eq!(shown["publish"]["topic"], "ticks");
    assert_eq!(shown["publish"]["key"], "mine");
    assert_eq!(shown["publish"]["deadLetters"], 0);
    let found = messages(&world, "ticks", 1).await;
    assert_eq!(found[0]["key"], "mine");
    world.stop().await;
}

#[tokio::test]
async fn an_event_is_not_registered_for_a_topic_that_is_not_there() {
    let world = World::start_with(with_events).await;
    let answer = world.post("/v1/events", &ticking("ticks", 1)).await;
    assert_eq!((answer.status, &*answer.code()), (404, "streams.topic_not_found"));
    for bad in ["", "a b", "no/name", ":key"] {
        let answer = world.post("/v1/events", &ticking(bad, 1)).await;
        assert_eq!((answer.status, &*answer.code()), (422, "event_invalid"), "{bad}");
    }
    topic(&world, "ticks").await;
    let answer = world.post("/v1/events", &ticking("ticks:", 1)).await;
    assert_eq!((answer.status, &*answer.code()), (422, "event_invalid"));
    world.stop().await;
}

#[tokio::test]
async fn without_a_room_for_streams_nothing_is_published() {
    let world = World::start_with(|settings| {
        with_events(settings);
        settings.streams.enabled = false;
    })
    .await;
    let answer = world.post("/v1/events", &ticking("ticks", 1)).await;
    assert_eq!((answer.status, &*answer.code()), (503, "room_off"), "{}", answer.text());
    world.stop().await;
}

#[tokio::test]
async fn a_token_publishes_only_to_topics_it_sees() {
    let keys = tempfile::tempdir().unwrap();
    let file = keys.path().join("token");
    let admin = handoff_server::auth::mint("first", Vec::new(), None).unwrap().0;
    std::fs::write(&file, &admin).unwrap();
    let world = World::start_with(|settings| {
        with_events(settings);
        settings.auth.enabled = true;
        settings.auth.bootstrap_token_file = Some(file);
    })
    .await;
    for name in ["acme.ticks", "other"] {
        let body = json!({"version": 1, "name": name, "partitions": 1});
        let answer = world.ask(&admin, "POST", "/v1/streams/topics", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let blind = world.token(&admin, &["events"]).await;
    let seeing = world.token(&admin, &["events", "streams:acme.*"]).await;
    for (token, topic, status) in [
        (&blind, "acme.ticks", 403),
        (&seeing, "other", 403),
        (&seeing, "missing", 403),
        (&seeing, "acme.ticks", 201),
        (&admin, "other", 201),
    ] {
        let answer = world.ask(token, "POST", "/v1/events", &ticking(topic, 1)).await;
        assert_eq!(answer.status, status, "{topic}: {}", answer.text());
    }
    world.stop().await;
}

#[tokio::test]
async fn what_a_topic_does_not_take_is_kept_as_a_dead_letter_and_can_be_retried() {
    let world = World::start_with(with_events).await;
    topic(&world, "ticks").await;
    let id = register(&world, "ticks", 3).await;
    messages(&world, "ticks", 1).await;
    assert_eq!(world.delete("/v1/streams/topics/ticks").await.status, 200);
    let stats = until(&world, "/v1/events/stats", |stats| {
        stats["published"].as_u64().unwrap() + stats["dead"].as_u64().unwrap() == 3
    })
    .await;
    let dead = usize::try_from(stats["dead"].as_u64().unwrap()).unwrap();
    let found = letters(&world, dead).await;
    assert!(dead >= 1, "{stats}");
    for letter in &found {
        assert_eq!((&letter["event"], &letter["topic"]), (&json!(id), &json!("ticks")));
        assert!(letter["why"].as_str().unwrap().contains("there is no topic `ticks`"), "{letter}");
        assert_eq!(letter["retrying"], false);
    }
    // Still no topic: it comes back.
    let retried = world.post("/v1/events/dead-letters/retry?all=true", &json!({})).await;
    assert_eq!(retried.status, 200, "{}", retried.text());
    assert_eq!(retried.json()["numbers"].as_array().unwrap().len(), dead);
    let has = |page: &Value| {
        page["deadLetters"].as_array().unwrap().iter().all(|letter| letter["retrying"] == false)
    };
    until(&world, "/v1/events/dead-letters", has).await;
    topic(&world, "ticks").await;
    let retried = world.post("/v1/events/dead-letters/retry?all=true", &json!({})).await;
    assert_eq!(retried.json()["numbers"].as_array().unwrap().len(), dead);
    letters(&world, 0).await;
    let numbers: Vec<u64> = messages(&world, "ticks", dead)
        .await
        .iter()
        .map(|message| payload(message)["number"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> =
        found.iter().map(|letter| letter["occurrence"].as_u64().unwrap()).collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    world.stop().await;
}

#[tokio::test]
async fn dead_letters_are_deleted_by_number_or_all_of_them() {
    let world = World::start_with(with_events).await;
    topic(&world, "ticks").await;
    register(&world, "ticks", 3).await;
    assert_eq!(world.delete("/v1/streams/topics/ticks").await.status, 200);
    letters(&world, 3).await;
    let path = "/v1/events/dead-letters";
    for query in ["", "?all=false", "?all=true&number=1", "?number=x"] {
        assert_eq!(world.delete(&format!("{path}{query}")).await.status, 400, "{query}");
    }
    let page = world.get(&format!("{path}?limit=2")).await.json();
    assert_eq!(page["next"], 1);
    let page = world.get(&format!("{path}?limit=2&after=1")).await.json();
    assert_eq!((&page["deadLetters"][0]["number"], page.get("next")), (&json!(2), None));
    let gone = world.delete(&format!("{path}?number=1&number=77")).await.json();
    assert_eq!(gone["numbers"], json!([1]));
    assert_eq!(world.delete(&format!("{path}?all=true")).await.json()["numbers"], json!([0, 2]));
    letters(&world, 0).await;
    world.stop().await;
}

#[tokio::test]
async fn numbers_are_dense_over_restarts() {
    let mut world = World::start_with(with_events).await;
    topic(&world, "ticks").await;
    register(&world, "ticks", -1).await;
    let mut count = 0;
    for _ in 0..3 {
        count = messages(&world, "ticks", count + 2).await.len();
        world = world.restart().await;
    }
    let found = messages(&world, "ticks", count + 2).await;
    let numbers: Vec<u64> =
        found.iter().map(|message| payload(message)["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    world.stop().await;
}
