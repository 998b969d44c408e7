//! Codes, tokens, and who is locked out.

use handoff_types::Span;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http_client;
use crate::world::{Phone, World, ids};

async fn device(world: &World, phone: &Phone) -> crate::http_client::Answer {
    world.ask(Some(&phone.token), "GET", "/v1/exchange/device", &Value::Null).await
}

#[tokio::test]
async fn a_code_activates_its_device_once_however_it_is_typed() {
    let world = World::start().await;
    let body = json!({"version": 1, "appSystem": "stock"});
    world.put("devices/acme/phone-1", body).await;
    let code = world.code("acme", "phone-1").await;
    assert_eq!(code.len(), 8);
    let typed = format!(" {}-{} ", code[..4].to_lowercase(), &code[4..]);
    let answer = world.activate(&typed).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let activated = answer.json();
    assert_eq!((&activated["company"], &activated["id"]), (&json!("acme"), &json!("phone-1")));
    let token = activated["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("hxd_"));
    let again = world.activate(&code).await;
    assert_eq!((again.status, again.code().as_str()), (403, "exchange.wrong_code"));
    let phone = Phone { id: "phone-1".to_owned(), token };
    let shown = device(&world, &phone).await.json();
    assert_eq!(shown["database"], "erp1");
    assert_eq!((&shown["appSystem"], &shown["waiting"]), (&json!("stock"), &json!(0)));
    for seen in world.everything().await {
        assert!(!seen.to_string().contains(&phone.token));
    }
}

#[tokio::test]
async fn a_newer_code_voids_the_one_before_and_a_new_token_the_old_one() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let old = world.code("acme", "phone-1").await;
    let new = world.code("acme", "phone-1").await;
    assert_eq!(device(&world, &phone).await.status, 200, "until the code is used");
    assert_eq!(world.activate(&old).await.code(), "exchange.wrong_code");
    let answer = world.activate(&new).await;
    let again =
        Phone { token: answer.json()["token"].as_str().unwrap().to_owned(), ..phone.clone() };
    let refused = device(&world, &phone).await;
    assert_eq!((refused.status, refused.code().as_str()), (401, "auth.token_unknown"));
    assert_eq!(device(&world, &again).await.status, 200);
    let sent = world.post(&again, &crate::world::message("m-1", json!(1))).await;
    assert_eq!(sent.json()["results"][0]["status"], "duplicate", "it is the same device");
}

#[tokio::test]
async fn a_code_that_is_past_its_time_opens_nothing() {
    let world = World::start_with(|settings| settings.exchange.activation = Span::ZERO).await;
    world.put("devices/acme/phone-1", json!({"version": 1, "appSystem": "stock"})).await;
    let code = world.code("acme", "phone-1").await;
    let answer = world.activate(&code).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "exchange.wrong_code"));
}

#[tokio::test]
async fn whoever_tries_codes_has_to_wait() {
    let world = World::start().await;
    world.put("devices/acme/phone-1", json!({"version": 1, "appSystem": "stock"})).await;
    let code = world.code("acme", "phone-1").await;
    for _ in 0..5 {
        assert_eq!(world.activate("AAAAAAAA").await.code(), "exchange.wrong_code");
    }
    let refused = world.activate(&code).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "exchange.too_many_tries"));
    let seconds: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    let metrics = world.ask(None, "GET", "/metrics", &Value::Null).await;
    assert!(metrics.text().contains("handoff_exchange_activations_refused_total 6"));
}

/// Behind one address many devices may be made ready at the same time.
#[tokio::test]
async fn right_codes_that_come_at_once_are_no_wrong_tries() {
    let world = World::start().await;
    let mut codes = Vec::new();
    for n in 0..12 {
        let id = format!("phone-{n}");
        let body = json!({"version": 1, "appSystem": "stock"});
        world.put(&format!("devices/acme/{id}"), body).await;
        codes.push(world.code("acme", &id).await);
    }
    let mut asked = JoinSet::new();
    for code in codes {
        let (address, body) = (world.address, json!({"version": 1, "code": code}).to_string());
        asked.spawn(async move {
            let headers = [("content-type", "application/json")];
            let path = "/v1/exchange/device/activate";
            http_client::ask(address, "POST", path, &headers, body).await
        });
    }
    for answer in asked.join_all().await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Many at once are as many tries, whenever each is answered.
#[tokio::test]
async fn wrong_codes_that_come_at_once_count_each() {
    let world = World::start().await;
    let mut asked = JoinSet::new();
    for n in 0..12 {
        let body = json!({"version": 1, "code": format!("AAAAAA{}{}", n / 8 + 2, n % 8 + 2)});
        let (address, body) = (world.address, body.to_string());
        asked.spawn(async move {
            let headers = [("content-type", "application/json")];
            let path = "/v1/exchange/device/activate";
            http_client::ask(address, "POST", path, &headers, body).await
        });
    }
    let mut answers: Vec<u16> = asked.join_all().await.iter().map(|one| one.status).collect();
    answers.sort_unstable();
    assert_eq!(answers, [[403; 5].as_slice(), &[429; 7]].concat());
}

#[tokio::test]
async fn a_device_that_is_locked_out_has_no_door_and_keeps_its_messages() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let blocked = world.admin("POST", "devices/acme/phone-1/block", Value::Null).await;
    assert_eq!(blocked.json()["device"]["blocked"], true);
    let body = json!({"version": 1, "entries": []});
    for (method, path, body) in [
        ("GET", "device", Value::Null),
        ("GET", "messages", Value::Null),
        ("POST", "messages", crate::world::message("m-2", json!(1))),
        ("POST", "messages/ack", json!({"version": 1, "ids": []})),
        ("POST", "device/log", body),
    ] {
        let path = format!("/v1/exchange/{path}");
        let answer = world.ask(Some(&phone.token), method, &path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "exchange.device_blocked"));
    }
    let code = world.code("acme", "phone-1").await;
    assert_eq!(world.activate(&code).await.code(), "exchange.device_blocked");
    let (_, served) = world.started().await;
    assert_eq!(served, ["m-1"], "what it sent before is processed");
    world.admin("POST", "devices/acme/phone-1/unblock", Value::Null).await;
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
}

#[tokio::test]
async fn without_its_token_nobody_is_a_device_also_while_auth_is_off() {
    let world = World::start().await;
    let nobody = world.ask(None, "GET", "/v1/exchange/messages", &Value::Null).await;
    assert_eq!((nobody.status, nobody.code().as_str()), (401, "auth.token_missing"));
    let erp = world.erp_token("erp1").await;
    let other = world.ask(Some(&erp), "GET", "/v1/exchange/messages", &Value::Null).await;
    assert_eq!((other.status, other.code().as_str()), (401, "auth.token_unknown"));
}

#[tokio::test]
async fn a_database_has_one_token_and_the_last_one() {
    let world = World::start().await;
    let (old, new) = (world.erp_token("erp1").await, world.erp_token("erp1").await);
    let path = "/v1/exchange/databases/erp1/indoubt";
    let refused = world.ask(Some(&old), "GET", path, &Value::Null).await;
    assert_eq!((refused.status, refused.code().as_str()), (401, "auth.token_unknown"));
    assert_eq!(world.ask(Some(&new), "GET", path, &Value::Null).await.status, 200);
    let manages = world.ask(Some(&new), "GET", "/v1/exchange/companies", &Value::Null).await;
    assert_eq!(manages.status, 401, "it is no administrator");
}

#[tokio::test]
async fn what_a_device_says_of_itself_can_be_looked_at() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let body = json!({"version": 1, "entries": [{"at": "2027-01-01T00:00:00Z", "text": "low\u{1b} battery"}]});
    let kept = world.ask(Some(&phone.token), "POST", "/v1/exchange/device/log", &body).await;
    assert_eq!(kept.json(), json!({"version": 1, "kept": 1}));
    let log = world.see("devices/acme/phone-1/log").await;
    assert_eq!(log["entries"][0]["text"], "low  battery");
}
