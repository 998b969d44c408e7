//! Connections: how they begin, what they carry, how they end.

use serde_json::{Value, json};
use tokio_websockets::CloseCode;

use crate::http_client;
use crate::world::{CALLER, Client, OTHER, WORKER, World, id};

#[tokio::test]
async fn whoever_comes_is_told_how_to_stay() {
    let world = World::start().await;
    let mut client = world.connect().await;
    let greeting = client.init(json!({"client": CALLER})).await;
    let expected = json!({
        "n": 0, "pingIntervalMs": 1000, "pingTimeoutMs": 1000, "bodyBytesMax": 1 << 20,
        "many": true,
    });
    assert_eq!(greeting, expected);
    for n in [7, 8, 9] {
        client.say(json!({"ping": {"n": n}})).await;
        assert_eq!(client.expect("a").await, json!({"n": n}));
    }
}

/// The frames of the next messages, until there are so many.
async fn hear_many(client: &mut Client, count: usize) -> Vec<Value> {
    let mut frames = Vec::new();
    while frames.len() < count {
        match client.hear().await {
            Value::Array(several) => frames.extend(several),
            one => frames.push(one),
        }
    }
    frames
}

#[tokio::test]
async fn whoever_reads_several_frames_in_a_message_says_and_hears_them_so() {
    let world = World::start().await;
    let mut worker = world.connect().await;
    let serves = json!([{"channel": "work", "concurrency": 3}]);
    worker.init(json!({"client": WORKER, "serves": serves, "many": true})).await;
    let mut caller = world.connect().await;
    caller.init(json!({"client": CALLER, "many": true})).await;
    let request = |n: u32| json!({"request": {"id": id(n), "channel": "work", "params": n}});
    caller.say(json!([request(1), request(2), request(3), {"ping": {"n": 7}}])).await;
    let heard = hear_many(&mut caller, 4).await;
    let registered: Vec<&Value> = heard.iter().filter_map(|frame| frame.get("c")).collect();
    assert_eq!(registered, [&json!({"id": id(1)}), &json!({"id": id(2)}), &json!({"id": id(3)})]);
    let offers = hear_many(&mut worker, 3).await;
    let answers: Vec<Value> = offers
        .iter()
        .map(|frame| &frame["b"])
        .map(|offer| json!({"response": {"id": offer["id"], "fence": offer["fence"], "answer": 1}}))
        .collect();
    worker.say(json!(answers)).await;
    let taken = hear_many(&mut worker, 3).await;
    assert!(taken.iter().all(|frame| frame["g"]["taken"] == true), "{taken:?}");
    let ends = hear_many(&mut caller, 3).await;
    assert!(ends.iter().all(|frame| frame["e"]["status"] == 0), "{ends:?}");
}

#[tokio::test]
async fn whoever_does_not_say_so_is_told_one_thing_in_a_message() {
    let world = World::start().await;
    let mut caller = world.caller().await;
    let request = |n: u32| json!({"request": {"id": id(n), "channel": "work"}});
    caller.say(json!([request(1), request(2)])).await;
    caller.expect("c").await;
    caller.expect("c").await;
}

#[tokio::test]
async fn more_frames_than_a_message_takes_end_the_connection() {
    let world = World::start().await;
    let mut client = world.caller().await;
    client.say(json!(vec![json!({"ping": {}}); 129])).await;
    assert_eq!(client.closed().await.0, CloseCode::PROTOCOL_ERROR);
}

#[tokio::test]
async fn whoever_begins_at_once_is_not_asked_to_accept() {
    let world = World::start().await;
    let mut worker = world.connect().await;
    let serves = json!([{"channel": "work"}, {"channel": "once"}]);
    worker.init(json!({"client": WORKER, "serves": serves, "eager": true})).await;
    let settings = json!({"onLost": "fail"});
    assert_eq!(world.ask("PUT", "/channels/once", &settings).await.status, 200);
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    let offer = worker.expect("b").await;
    assert_eq!(offer["held"], true, "{offer}");
    assert_eq!(world.see(&format!("/{}", id(1))).await["stage"], "running");
    assert!(worker.respond(1, offer["fence"].as_u64().unwrap(), json!(2)).await);
    assert_eq!(caller.end(1).await["answer"], 2);
    caller.say(json!({"request": {"id": id(2), "channel": "once"}})).await;
    let offer = worker.expect("b").await;
    assert_eq!(offer.get("held"), None, "it must not run twice: {offer}");
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection_with_a_reason() {
    let world = World::start().await;
    for text in ["", "{}", "[{}]", "[[]]", "hello", r#"{"shout":{}}"#, r#"{"request":{"id":"1"}}"#]
    {
        let mut client = world.caller().await;
        client.say_text(text.to_owned()).await;
        let (code, why) = client.closed().await;
        assert_eq!(code, CloseCode::PROTOCOL_ERROR, "{text}: {why}");
        assert!(!why.is_empty(), "{text}");
    }
    let mut client = world.caller().await;
    client.say_binary().await;
    assert_eq!(client.closed().await.0, CloseCode::PROTOCOL_ERROR);
}

#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_connection() {
    let world = World::start_with(|settings| settings.calls.body_bytes_max = 1 << 10).await;
    let mut client = world.caller().await;
    client.say_text("x".repeat(64 << 10)).await;
    assert_eq!(client.closed().await.0, CloseCode::MESSAGE_TOO_BIG);
}

#[tokio::test]
async fn whoever_does_not_introduce_itself_is_sent_away() {
    let world = World::start().await;
    let mut client = world.connect().await;
    client.say(json!({"ping": {}})).await;
    let (code, why) = client.closed().await;
    assert_eq!((code, &*why), (CloseCode::POLICY_VIOLATION, "the first frame is init"));
}

#[tokio::test]
async fn a_connection_is_of_one_client() {
    let world = World::start().await;
    let mut client = world.caller().await;
    client.say(json!({"init": {"client": OTHER}})).await;
    assert_eq!(client.closed().await.0, CloseCode::POLICY_VIOLATION);
}

#[tokio::test]
async fn whoever_is_silent_is_sent_away() {
    let world = World::start_with(|settings| {
        settings.calls.client_timeout = handoff_types::Span::from_millis(500);
    })
    .await;
    let mut client = world.caller().await;
    let (code, _) = client.closed().await;
    assert_eq!(code, CloseCode::POLICY_VIOLATION);
}

#[tokio::test]
async fn a_client_that_connects_again_ends_its_connection_before_and_goes_on() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    let mut again = world.worker(WORKER, 1).await;
    let (_, why) = worker.closed().await;
    assert_eq!(why, "the client has connected again");
    let offer = again.expect("b").await;
    assert_eq!((&offer["id"], &offer["fence"]), (&json!(id(1)), &json!(1)), "it has it still");
    assert!(again.respond(1, 1, json!("done")).await);
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    assert_eq!(caller.end(1).await["answer"], "done");
}

#[tokio::test]
async fn what_a_lost_connection_was_offered_goes_to_another() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.expect("b").await;
    let mut other = world.worker(OTHER, 1).await;
    drop(worker);
    let offer = other.begin(1).await;
    assert_eq!((&offer["fence"], &offer["attempt"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn whoever_stops_is_told_so_and_keeps_what_it_runs() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 2).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    worker.say(json!({"stop": {}})).await;
    worker.expect("h").await;
    caller.request(2, json!(2)).await;
    assert!(worker.respond(1, 1, json!("done")).await);
    assert_eq!(caller.end(1).await["answer"], "done");
    assert_eq!(world.see(&format!("/{}", id(2))).await["stage"], "waiting");
}

#[tokio::test]
async fn a_request_that_asks_for_no_websocket_is_told_so() {
    let world = World::start().await;
    let answer = http_client::ask(world.address, "GET", "/v1/calls/connect", &[], "").await;
    assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("request.malformed")));
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "chat"),
    ];
    let answer = http_client::ask(world.address, "GET", "/v1/calls/connect", &upgrade, "").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn a_server_that_stops_says_so_to_its_clients() {
    let world = World::start().await;
    let mut client = world.caller().await;
    let stopped = tokio::spawn(world.stop());
    assert_eq!(client.closed().await.0, CloseCode::SERVICE_RESTART);
    drop(client);
    drop(stopped.await.unwrap());
}

#[tokio::test]
async fn as_many_are_connected_as_may_be() {
    let world = World::start_with(|settings| settings.calls.clients_max = 1).await;
    let _client = world.caller().await;
    assert!(world.connect_as(None).await.is_err());
    let answer = world.ask("GET", "/stats", &Value::Null).await;
    assert_eq!(answer.json()["clients"], 1);
}
