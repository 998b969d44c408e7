//! Who may call and serve what.

use serde_json::{Value, json};
use tokio_websockets::CloseCode;

use crate::http_client::{self, Answer};
use crate::world::{CALLER, WORKER, World, id};

async fn ask(world: &World, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", &*bearer)];
    let text = if body.is_null() { String::new() } else { body.to_string() };
    http_client::ask(world.address, method, path, &headers, text).await
}

async fn token(world: &World, admin: &str, scope: &str) -> String {
    let body = json!({"version": 1, "name": "a test", "scopes": [scope]});
    let answer = ask(world, admin, "POST", "/v1/tokens", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_sees_its_channels_and_no_others() {
    let (world, admin) = World::locked().await;
    let acme = token(&world, &admin, "calls:acme.*").await;
    let made = ask(&world, &admin, "POST", "/v1/calls/other?queueTimeoutMs=1", &json!(1)).await;
    let hidden = format!("/v1/calls/{}", made.json()["id"].as_str().unwrap());
    for (method, path, status) in [
        ("POST", "/v1/calls/other", 403),
        ("PUT", "/v1/calls/channels/other", 403),
        ("GET", "/v1/calls/channels/other/dead", 403),
        ("GET", &*hidden, 404),
        ("DELETE", &*hidden, 404),
        ("GET", "/v1/calls/stats", 403),
    ] {
        let answer = ask(&world, &acme, method, path, &json!({})).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
    let listed = ask(&world, &acme, "GET", "/v1/calls", &Value::Null).await;
    assert_eq!(listed.json()["calls"], json!([]));
    let own = ask(&world, &acme, "POST", "/v1/calls/acme.x?queueTimeoutMs=1", &json!(1)).await;
    assert_eq!(own.status, 504, "{}", own.text());
}

#[tokio::test]
async fn a_client_serves_and_calls_only_what_its_token_sees() {
    let (world, admin) = World::locked().await;
    assert!(world.connect_as(None).await.is_err(), "no token");
    let events = token(&world, &admin, "events").await;
    assert!(world.connect_as(Some(&events)).await.is_err(), "another room's");
    let acme = token(&world, &admin, "calls:acme.*").await;
    let mut worker = world.connect_as(Some(&acme)).await.unwrap();
    worker.say(json!({"init": {"client": WORKER, "serves": [{"channel": "other"}]}})).await;
    assert_eq!(worker.closed().await.0, CloseCode::POLICY_VIOLATION);
    let mut caller = world.connect_as(Some(&acme)).await.unwrap();
    caller.init(json!({"client": CALLER})).await;
    caller.say(json!({"request": {"id": id(1), "channel": "other"}})).await;
    let refused = caller.expect("e").await;
    let about = (&refused["id"], &refused["error"]["name"], &refused["error"]["code"]);
    assert_eq!(about, (&json!(id(1)), &json!("Refused"), &json!("auth.out_of_scope")));
    caller.say(json!({"request": {"id": id(2), "channel": "acme.x"}})).await;
    assert_eq!(caller.expect("c").await["id"], json!(id(2)), "the connection is as good as before");
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_connections() {
    let (world, admin) = World::locked().await;
    let body = json!({"version": 1, "name": "a test", "scopes": ["calls"]});
    let made = ask(&world, &admin, "POST", "/v1/tokens", &body).await.json();
    let mut client = world.connect_as(Some(made["token"].as_str().unwrap())).await.unwrap();
    client.init(json!({"client": CALLER})).await;
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    let revoked = ask(&world, &admin, "DELETE", &path, &Value::Null).await;
    assert!(revoked.status < 300, "{}", revoked.text());
    client.say(json!({"ping": {}})).await;
    let (code, why) = client.closed().await;
    assert_eq!((code, &*why), (CloseCode::POLICY_VIOLATION, "the token is revoked or expired"));
}
