//! What a device sends is answered past hyper as hyper would.

use serde_json::{Value, json};

use crate::http_client::talk::{FOR_HYPER, Talk, both};
use crate::world::{Phone, World, message};

const JSON: &str = "host: localhost\r\ncontent-type: application/json\r\n";

fn request(lines: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /v1/exchange/messages HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}")
}

fn bearer(phone: &Phone) -> String {
    format!("{JSON}authorization: Bearer {}\r\n", phone.token)
}

fn one(id: &str) -> String {
    message(id, json!({"doc": 7})).to_string()
}

#[tokio::test]
async fn whatever_a_device_sends_is_answered_in_the_same_words_with_and_without_hyper() {
    let world = World::start_with(|settings| settings.exchange.request_bytes_max = 4096).await;
    let (phone, lost) = (world.phone("phone-1").await, world.phone("phone-2").await);
    world.admin("POST", "devices/acme/phone-2/block", Value::Null).await;
    let mine = bearer(&phone);
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let traced = format!("{mine}{trace}");
    let untold = mine.replace("content-type: application/json\r\n", "");
    let elsewhere = mine.replace("localhost", "evil.example");
    let other = format!("{JSON}authorization: Bearer hxd_nobodys\r\n");
    let changed = message("again", json!("changed")).to_string();
    let many =
        json!({"version": 1, "messages": [message("b-1", json!(1)), message("b-2", json!(2))]});
    let (many, long) = (many.to_string(), message("long", json!("x".repeat(5000))).to_string());
    world.send(&phone, "again", json!({"doc": 7})).await;
    for (lines, body, status) in [
        (mine.as_str(), one("again"), "200"),
        (&mine, one("MINE"), "201"),
        (&traced, one("TRACED"), "201"),
        (&mine, many.replace("b-", "NUMBER"), "201"),
        (&mine, changed, "409"),
        (&mine, one("no id"), "422"),
        (&mine, "{".to_owned(), "400"),
        (&mine, "[]".to_owned(), "422"),
        (&mine, String::new(), "400"),
        (&mine, long, "413"),
        (&untold, one("untold"), "415"),
        (&elsewhere, one("elsewhere"), "421"),
        (JSON, one("nobodys"), "401"),
        (&other, one("others"), "401"),
        (&bearer(&lost), one("lost"), "403"),
    ] {
        // What is new is new once: the second has other ids of the same length.
        let again = ["MINE", "TRACED", "NUMBER"]
            .into_iter()
            .fold(body.clone(), |body, id| body.replace(id, &id.to_lowercase()));
        let plain = request(lines, &body);
        let other = request(&format!("{lines}{FOR_HYPER}"), &again);
        let (plain, other) = both(world.address, &plain, &other).await;
        assert_eq!(plain, other);
        let said = &plain.first;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{body:.60}: {said}");
    }
    let kept: Vec<String> = world.places().await.into_iter().map(|(id, _)| id).collect();
    let expected =
        ["MINE", "NUMBER1", "NUMBER2", "TRACED", "again", "mine", "number1", "number2", "traced"];
    assert_eq!(kept, expected, "each of those that were taken, once");
}

#[tokio::test]
async fn a_device_that_is_locked_out_is_refused_on_a_connection_it_has() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let mut talk = Talk::begin(world.address).await;
    talk.say(&request(&bearer(&phone), &one("m-1"))).await;
    assert!(talk.hear().await.unwrap().first.contains(" 201 "));
    world.admin("POST", "devices/acme/phone-1/block", Value::Null).await;
    talk.say(&request(&bearer(&phone), &one("m-2"))).await;
    let refused = talk.hear().await.unwrap();
    assert_eq!(refused.body["code"], "exchange.device_blocked", "{refused:?}");
}

#[tokio::test]
async fn a_device_may_go_on_with_something_else() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let mut talk = Talk::begin(world.address).await;
    let both = [one("m-1"), one("m-2")].map(|body| request(&bearer(&phone), &body)).concat();
    talk.say(&both).await;
    for seq in 1..=2 {
        let heard = talk.hear().await.unwrap();
        assert_eq!(heard.body["results"][0]["seq"], seq, "{heard:?}");
    }
    let fetch = format!("GET /v1/exchange/messages HTTP/1.1\r\n{}\r\n", bearer(&phone));
    talk.say(&fetch).await;
    assert!(talk.hear().await.unwrap().first.contains(" 200 "));
    talk.say(&request(&bearer(&phone), &one("m-3"))).await;
    assert_eq!(talk.hear().await.unwrap().body["results"][0]["seq"], 3);
}

#[tokio::test]
async fn what_goes_past_the_router_is_counted_under_its_route() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let mut talk = Talk::begin(world.address).await;
    for (lines, id) in [("", "m-1"), ("", "m-1"), (FOR_HYPER, "m-2")] {
        talk.say(&request(&format!("{}{lines}", bearer(&phone)), &one(id))).await;
        talk.hear().await.unwrap();
    }
    let metrics = world.ask_raw(None, "GET", "/metrics", "").await;
    for (status, many) in [(201, 2), (200, 1)] {
        let labels = "route=\"/v1/exchange/messages\",method=\"POST\"";
        let line = format!("handoff_http_requests_total{{{labels},status=\"{status}\"}} {many}");
        assert!(metrics.text().contains(&line), "{line}");
    }
}
