//! Tokens, scopes and sight.

use handoff_server::settings::Settings;
use serde_json::json;

use crate::http_client::{ask, converse, get};
use crate::world::{World, ids};

fn locked(settings: &mut Settings) {
    settings.auth.enabled = true;
}

/// Every operation that asks for a token.
fn guarded() -> Vec<(String, String)> {
    let document = serde_json::to_value(handoff_server::http::openapi()).unwrap();
    let mut guarded = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation.get("security").is_some() {
                guarded.push((method.to_uppercase(), path.replace("{id}", "7")));
            }
        }
    }
    assert!(guarded.len() > 10);
    guarded
}

#[tokio::test]
async fn nothing_guarded_is_reached_without_a_token() {
    let world = World::start_with(locked).await;
    for (method, path) in guarded() {
        let answer = ask(world.address, &method, &path, &[], "").await;
        assert_eq!((answer.status, &*answer.code()), (401, "auth.token_missing"), "{path}");
        assert_eq!(answer.header("www-authenticate"), Some(r#"Bearer realm="handoff""#));
        for bad in ["Bearer nonsense", "Bearer hf_aaaaaaaa_bbbb"] {
            let answer = ask(world.address, &method, &path, &[("authorization", bad)], "").await;
            assert_eq!((answer.status, &*answer.code()), (401, "auth.token_unknown"), "{path}");
            assert!(answer.header("www-authenticate").unwrap().contains("invalid_token"));
        }
        let basic = [("authorization", "Basic aGk6aG8=")];
        let answer = ask(world.address, &method, &path, &basic, "").await;
        assert_eq!(answer.code(), "auth.token_missing", "{path}");
    }
    for path in ["/", "/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(get(world.address, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_house_that_is_damaged_has_not_unlocked_its_doors() {
    let world = World::without_house().await;
    // Devices have tokens of their own, which the exchange keeps.
    let of_devices = ["/v1/exchange/messages", "/v1/exchange/messages/ack", "/v1/exchange/device"];
    let of_devices = |path: &str| of_devices.contains(&path) || path == "/v1/exchange/device/log";
    for (method, path) in guarded().into_iter().filter(|(_, path)| !of_devices(path)) {
        for headers in [&[][..], &[("authorization", "Bearer nonsense")]] {
            let answer = ask(world.address, &method, &path, headers, "").await;
            assert_eq!((answer.status, &*answer.code()), (503, "log.room_damaged"), "{path}");
        }
    }
    assert_eq!(get(world.address, "/readyz").await.status, 503);
}

#[tokio::test]
async fn a_proxy_before_locked_doors_is_nobodys_business() {
    let world = World::start_with(locked).await;
    let token = world.token(&["admin"]).await;
    ask(world.address, "GET", "/healthz", &[("x-forwarded-for", "203.0.113.7")], "").await;
    ask(world.address, "GET", "/readyz", &[("x-forwarded-for", "203.0.113.7")], "").await;
    let server = world.ask(&token, "GET", "/v1/server", "").await.json();
    assert_eq!((&server["auth"], &server["proxyHeadersSeen"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn what_needs_everything_is_not_for_everybody() {
    let world = World::start_with(locked).await;
    let token = world.token(&["events", "streams:x"]).await;
    for (method, path) in [
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("DELETE", "/v1/tokens/abcdefgh"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/server/logs"),
    ] {
        let answer = world.ask(&token, method, path, "").await;
        assert_eq!((answer.status, &*answer.code()), (403, "auth.out_of_scope"), "{path}");
        assert!(answer.header("www-authenticate").unwrap().contains("insufficient_scope"));
    }
    for path in ["/v1/server", "/metrics", "/v1/events", "/v1/events/stats"] {
        assert_eq!(world.ask(&token, "GET", path, "").await.status, 200, "{path}");
    }
    let blind = world.token(&["streams"]).await;
    for path in ["/v1/events", "/v1/events/0", "/v1/events/stats", "/v1/events/stream"] {
        assert_eq!(world.ask(&blind, "GET", path, "").await.code(), "auth.out_of_scope", "{path}");
    }
}

#[tokio::test]
async fn figures_of_everything_are_not_for_who_sees_some_names() {
    let world = World::start_with(locked).await;
    let some = world.token(&["events:acme.*", "streams:x"]).await;
    let answer = world.ask(&some, "GET", "/metrics", "").await;
    assert_eq!((answer.status, &*answer.code()), (403, "auth.out_of_scope"));
    let all = world.token(&["events"]).await;
    assert_eq!(world.ask(&all, "GET", "/metrics", "").await.status, 200);
}

#[tokio::test]
async fn open_doors_are_not_opened_by_a_name_that_is_not_theirs() {
    let world = World::start().await;
    for (method, path) in guarded() {
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
        let answer = converse(world.address, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{path}: {answer}");
        assert!(answer.contains("auth.foreign_host"), "{path}: {answer}");
    }
    let locked = World::start_with(locked).await;
    let request = "GET /v1/events HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let answer = converse(locked.address, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "tokens are asked for by any name: {answer}");
}

#[tokio::test]
async fn names_out_of_sight_are_not_there() {
    let world = World::start_with(locked).await;
    let admin = world.token(&["admin"]).await;
    let acme = world.token(&["events:acme.*"]).await;
    let new = |kind: &str| {
        format!(r#"{{"version":1,"description":"x","types":["{kind}"],"periodSecs":3600}}"#)
    };
    for kind in ["acme.a", "globex.b", "acme.c"] {
        assert_eq!(world.ask(&admin, "POST", "/v1/events", &new(kind)).await.status, 201);
    }
    let listed = world.ask(&acme, "GET", "/v1/events", "").await.json();
    assert_eq!(ids(&listed), [0, 2]);
    let listed = world.ask(&acme, "GET", "/v1/events?type=globex.b", "").await.json();
    assert_eq!(ids(&listed), [] as [u64; 0]);
    for (method, path) in
        [("GET", "/v1/events/1"), ("DELETE", "/v1/events/1"), ("GET", "/v1/events/stream?id=1")]
    {
        let answer = world.ask(&acme, method, path, "").await;
        assert_eq!((answer.status, &*answer.code()), (404, "event_not_found"), "{path}");
    }
    let gone = world.ask(&acme, "DELETE", "/v1/events?id=1&type=globex.b&id=2", "").await;
    assert_eq!(gone.json()["deleted"], json!([2]));
    let made = world.ask(&acme, "POST", "/v1/events", &new("globex.d")).await;
    assert_eq!((made.status, &*made.code()), (403, "auth.out_of_scope"));
    assert_eq!(world.ask(&acme, "POST", "/v1/events", &new("acme.d")).await.status, 201);
    let nameless = r#"{"version":1,"description":"x","periodSecs":3600}"#;
    let made = world.ask(&acme, "POST", "/v1/events", nameless).await;
    assert_eq!(made.code(), "auth.out_of_scope");
    let watched = world.ask(&acme, "GET", "/v1/events/stream?type=globex.b", "").await;
    assert_eq!((watched.status, &*watched.code()), (403, "auth.out_of_scope"));
    let figures = world.ask(&acme, "GET", "/v1/events/stats", "").await;
    assert_eq!((figures.status, &*figures.code()), (403, "auth.out_of_scope"));
    assert!(
        world.acts().await.iter().all(|(kind, _)| kind.text() != "deleted"),
        "not an act of an administrator"
    );
}

#[tokio::test]
async fn a_token_is_made_shown_and_revoked() {
    let world = World::start_with(locked).await;
    let admin = world.token(&["admin"]).await;
    let asked = r#"{"version":1,"name":"backup job","scopes":["events:backup.*","events"],"expiresAt":"2099-01-01T00:00:00Z"}"#;
    let made = world.ask(&admin, "POST", "/v1/tokens", asked).await;
    assert_eq!(made.status, 201);
    let body = made.json();
    let (id, text) = (body["id"].as_str().unwrap(), body["token"].as_str().unwrap());
    assert_eq!(made.header("location"), Some(&*format!("/v1/tokens/{id}")));
    assert_eq!(body["scopes"], json!(["events:backup.*", "events"]));
    assert_eq!(world.ask(text, "GET", "/v1/events", "").await.status, 200);

    let listed = world.ask(&admin, "GET", "/v1/tokens", "").await;
    assert!(!listed.text().contains(text), "a text is shown once");
    let listed = listed.json();
    let shown = listed["tokens"].as_array().unwrap().iter().find(|token| token["id"] == id);
    let shown = shown.unwrap();
    assert_eq!(
        (&shown["name"], &shown["expiresAt"]),
        (&json!("backup job"), &json!("2099-01-01T00:00:00Z"))
    );

    let gone = world.ask(&admin, "DELETE", &format!("/v1/tokens/{id}"), "").await;
    assert_eq!((gone.status, gone.json()), (200, json!({"version": 1, "id": id})));
    assert_eq!(world.ask(text, "GET", "/v1/events", "").await.code(), "auth.token_unknown");
    let again = world.ask(&admin, "DELETE", &format!("/v1/tokens/{id}"), "").await;
    assert_eq!((again.status, &*again.code()), (404, "token_not_found"));
    for odd in ["/v1/tokens/x", "/v1/tokens/%FF"] {
        assert_eq!(world.ask(&admin, "DELETE", odd, "").await.code(), "token_not_found", "{odd}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_is_refused_with_words() {
    let world = World::start().await;
    for (fields, words) in [
        (r#""name":"x","scopes":["event"]"#, "`event` is no scope"),
        (r#""name":"x","scopes":[]"#, ""),
        (r#""name":"","scopes":["events"]"#, ""),
        (r#""name":"x","scopes":["events"],"expiresAt":"soon""#, "`soon` is no time"),
        (r#""name":"x","scope":["events"]"#, "did you mean `scopes`?"),
    ] {
        let answer = world.post("/v1/tokens", &format!(r#"{{"version":1,{fields}}}"#)).await;
        assert_eq!((answer.status, &*answer.code()), (422, "request.invalid"), "{fields}");
        assert!(answer.detail().contains(words), "{fields}: {}", answer.detail());
    }
}

#[tokio::test]
async fn acts_are_shown_page_by_page_the_latest_first() {
    let world = World::start_with(locked).await;
    let admin = world.token(&["admin"]).await;
    let made = r#"{"version":1,"name":"x","scopes":["events"]}"#;
    let id = world.ask(&admin, "POST", "/v1/tokens", made).await.json()["id"].clone();
    world.ask(&admin, "DELETE", &format!("/v1/tokens/{}", id.as_str().unwrap()), "").await;
    let page = world.ask(&admin, "GET", "/v1/audit?limit=2", "").await.json();
    let acts = page["acts"].as_array().unwrap();
    assert_eq!(
        (&acts[0]["kind"], &acts[1]["kind"]),
        (&json!("token_revoked"), &json!("token_created"))
    );
    assert!(acts[0]["target"].as_str().unwrap().contains(id.as_str().unwrap()), "{page}");
    assert_ne!(acts[0]["who"], "local", "it was a token");
    assert_eq!(page["next"], acts[1]["number"]);
    let path = format!("/v1/audit?limit=2&below={}", page["next"]);
    let rest = world.ask(&admin, "GET", &path, "").await.json();
    assert_eq!(rest["acts"][0]["who"], "local");
    assert_eq!((rest["acts"].as_array().unwrap().len(), rest.get("next")), (1, None));
    for odd in ["limit=0", "limit=1001", "below=x", "after=1"] {
        let answer = world.ask(&admin, "GET", &format!("/v1/audit?{odd}"), "").await;
        assert_eq!(answer.code(), "request.malformed", "{odd}");
    }
}
