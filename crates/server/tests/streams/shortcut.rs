//! What is answered past hyper is answered as hyper would.

use serde_json::json;

use crate::http_client::talk::{FOR_HYPER, Talk, both};
use crate::world::World;

fn request(topic: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/streams/topics/{topic}/messages HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}"
    )
}

const JSON: &str = "host: localhost\r\ncontent-type: application/json\r\n";

fn message(payload: &str) -> String {
    json!({"version": 1, "messages": [{"payload": payload}]}).to_string()
}

#[tokio::test]
async fn whatever_is_asked_is_answered_in_the_same_words_with_and_without_hyper() {
    let world = World::start_with(|settings| settings.streams.request_bytes_max = 4096).await;
    world.topic("orders", 1).await;
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let traced = format!("{JSON}{trace}");
    let (sound, long) = (message("one"), message(&"x".repeat(5000)));
    for (topic, lines, body, status) in [
        ("orders", JSON, sound.as_str(), "200"),
        ("orders", &traced, &sound, "200"),
        ("nobody", JSON, &sound, "404"),
        ("orders", JSON, "{", "400"),
        ("orders", JSON, "[]", "422"),
        ("orders", JSON, "", "400"),
        ("orders", JSON, &long, "413"),
        ("orders", "host: localhost\r\n", &sound, "415"),
        ("orders", "host: evil.example\r\ncontent-type: application/json\r\n", &sound, "421"),
    ] {
        let other = request(topic, &format!("{lines}{FOR_HYPER}"), body);
        let (plain, other) = both(world.address, &request(topic, lines, body), &other).await;
        assert_eq!(plain, other);
        let said = &plain.first;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{body:.40}: {said}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_when_something_else_is_asked() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let mut talk = Talk::begin(world.address).await;
    for offset in 0..3 {
        talk.say(&request("orders", JSON, &message("plain"))).await;
        let heard = talk.hear().await.unwrap();
        assert_eq!(heard.body["results"][0]["offset"], offset);
    }
    talk.say("GET /v1/streams/topics/orders HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(talk.hear().await.unwrap().body["topic"]["messages"], 3);
    talk.say(&request("orders", JSON, &message("after"))).await;
    assert_eq!(talk.hear().await.unwrap().body["results"][0]["offset"], 3);
}

#[tokio::test]
async fn requests_that_are_sent_together_are_answered_in_their_order() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let mut talk = Talk::begin(world.address).await;
    let both = request("orders", JSON, &message("one")) + &request("orders", JSON, &message("two"));
    talk.say(&both).await;
    for offset in 0..2 {
        assert_eq!(talk.hear().await.unwrap().body["results"][0]["offset"], offset);
    }
}

#[tokio::test]
async fn a_request_that_comes_byte_by_byte_is_stored_once() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let mut talk = Talk::begin(world.address).await;
    talk.stream.set_nodelay(true).unwrap();
    for byte in request("orders", JSON, &message("slow")).chars() {
        talk.say(&byte.to_string()).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(talk.hear().await.unwrap().body["results"][0]["offset"], 0);
    talk.say(&request("orders", JSON, &message("next"))).await;
    assert_eq!(talk.hear().await.unwrap().body["results"][0]["offset"], 1);
}

#[tokio::test]
async fn a_server_that_stops_closes_whoever_asks_nothing() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let mut talk = Talk::begin(world.address).await;
    talk.say(&request("orders", JSON, &message("one"))).await;
    assert!(talk.hear().await.is_some());
    let silent = Talk::begin(world.address).await;
    world.stop().await;
    assert_eq!(talk.hear().await, None);
    drop(silent);
}

#[tokio::test]
async fn a_token_is_asked_for_on_the_short_way_too() {
    let (world, token) = World::locked().await;
    let bearer = format!("{JSON}authorization: Bearer {token}\r\n");
    let create = json!({"version": 1, "name": "orders", "partitions": 1});
    world.ask(&token, "POST", "/v1/streams/topics", &create).await;
    let mut talk = Talk::begin(world.address).await;
    talk.say(&request("orders", JSON, &message("mine"))).await;
    assert!(talk.hear().await.unwrap().first.contains(" 401 "));
    talk.say(&request("orders", &bearer, &message("mine"))).await;
    assert!(talk.hear().await.unwrap().first.contains(" 200 "));
}
