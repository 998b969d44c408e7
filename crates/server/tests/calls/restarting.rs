//! The server ends and begins anew.

use handoff_types::Span;
use serde_json::{Value, json};

use crate::world::{WORKER, World, id};

#[tokio::test]
async fn calls_and_answers_outlive_the_server() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 2).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    assert!(worker.respond(1, 1, json!("one")).await);
    assert_eq!(caller.expect("e").await["answer"], "one");
    caller.request(2, json!(2)).await;
    worker.begin(2).await;
    drop((worker, caller));
    let world = world.restart().await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    assert_eq!(caller.end(1).await["answer"], "one", "the answer is there");
    let mut worker = world.worker(WORKER, 2).await;
    let offer = worker.expect("b").await;
    let told = (&offer["id"], &offer["fence"], &offer["attempt"]);
    assert_eq!(told, (&json!(id(2)), &json!(2), &json!(1)), "it may go on under its own fence");
    assert!(worker.respond(2, 2, json!("two")).await);
    assert_eq!(caller.end(2).await["answer"], "two");
}

#[tokio::test]
async fn what_lives_in_memory_does_not() {
    let world = World::start().await;
    let settings = json!({"durability": "memory"});
    world.ask("PUT", "/channels/light", &settings).await;
    let light = world.ask_with("POST", "/light", &json!(1), &[("prefer", "wait=0")]).await.json();
    let heavy = world.ask_with("POST", "/heavy", &json!(1), &[("prefer", "wait=0")]).await.json();
    let world = world.restart().await;
    let path = |call: &Value| format!("/{}", call["id"].as_str().unwrap());
    assert_eq!(world.ask("GET", &path(&light), &Value::Null).await.status, 404);
    assert_eq!(world.see(&path(&heavy)).await["stage"], "waiting");
    let channel = world.see("/channels/light").await;
    assert_eq!(
        (&channel["described"], &channel["settings"]["durability"]),
        (&json!(true), &json!("memory"))
    );
}

#[tokio::test]
async fn channels_that_the_configuration_names_are_described_at_start() {
    let world = World::start_with(|settings| {
        let mut channel = handoff_server::settings::DeclaredChannel::named("pay".parse().unwrap());
        channel.attempts_max = Some(1);
        settings.calls.channels.push(channel);
        settings.calls.channel.lease = Span::from_secs(7);
    })
    .await;
    let channel = world.see("/channels/pay").await;
    assert_eq!(
        (&channel["described"], &channel["settings"]["attemptsMax"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(channel["settings"]["leaseMs"], 7_000, "what it does not say is as calls has it");
}
