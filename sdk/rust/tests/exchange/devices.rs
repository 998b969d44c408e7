//! What a device asks, and how it becomes one.

use handoff_sdk::Client;
use handoff_sdk::exchange::{DeviceEntry, NewMessage};
use serde_json::json;

use crate::peer::{answer, listener, ok, within};
use crate::{call, time, try_call};

#[tokio::test]
async fn a_code_is_given_for_a_token_that_is_not_shown_by_accident() {
    let reply = json!({"version": 1, "token": "hxd_secret", "company": "acme", "id": "phone-1",
        "name": "Vera", "appSystem": "sales"});
    let (device, asked) = call(&reply, async |room| room.activate("ABCD-EFGH").await).await;
    assert_eq!(asked.line, "POST /v1/exchange/device/activate");
    assert_eq!(asked.json(), json!({"version": 1, "code": "ABCD-EFGH"}));
    assert_eq!((device.token.as_str(), device.app_system.as_str()), ("hxd_secret", "sales"));
    assert!(!format!("{device:?}").contains("secret"));
    let code = json!({"version": 1, "code": "ABCD-EFGH", "expiresAt": "2027-01-15T08:00:00Z"});
    let (code, asked) = call(&code, async |room| room.device_code("acme", "phone-1").await).await;
    assert_eq!(asked.line, "POST /v1/exchange/devices/acme/phone-1/code");
    assert!(code.code == "ABCD-EFGH" && !format!("{code:?}").contains("ABCD"));
}

#[tokio::test]
async fn devices_share_connections_and_each_shows_its_own_token() {
    let listener = listener().await;
    let house = Client::new(listener.options().token("house")).unwrap();
    let phones = [house.with_token("one").unwrap(), house.with_token("two").unwrap()];
    let serve = async {
        let mut peer = listener.accept().await;
        let mut shown = Vec::new();
        for _ in 0..3 {
            let asked = peer.asked().await;
            shown.push(asked.header("authorization").unwrap().to_owned());
            peer.json(r#"{"version":1,"messages":[],"more":false}"#).await;
        }
        shown
    };
    let ask = async {
        for client in [&phones[0], &phones[1], &house] {
            client.exchange().as_device().receive(None, 0).await.unwrap();
        }
    };
    let (shown, ()) = within(async { tokio::join!(serve, ask) }).await;
    assert_eq!(shown, ["Bearer one", "Bearer two", "Bearer house"]);
    assert!(house.with_token("two\nlines").is_err());
}

#[tokio::test]
async fn messages_are_sent_under_their_ids() {
    let reply = json!({"version": 1, "results": [
        {"id": "a", "status": "stored", "seq": 7, "receivedAt": "2027-01-15T08:00:00Z"},
        {"id": "b", "status": "duplicate", "seq": 3, "receivedAt": "2027-01-15T07:00:00Z"}]});
    let messages = [
        NewMessage::new("a", time(), json!({"n": 1})),
        NewMessage::new("b", time(), json!(null)).kind("order").reply_to("z"),
    ];
    let reply = answer("201 Created", "application/json", &reply.to_string());
    let (receipts, asked) =
        try_call(&reply, async |room| room.as_device().send(&messages).await).await;
    assert_eq!(asked.line, "POST /v1/exchange/messages");
    let expected = json!({"version": 1, "messages": [
        {"id": "a", "createdAt": "2027-01-15T08:00:00Z", "payload": {"n": 1}},
        {"id": "b", "createdAt": "2027-01-15T08:00:00Z", "type": "order", "replyTo": "z",
            "payload": null}]});
    assert_eq!(asked.json(), expected);
    let receipts = receipts.unwrap();
    assert_eq!((receipts[0].seq, receipts[1].status.as_str()), (7, "duplicate"));
}

#[tokio::test]
async fn messages_are_read_and_acknowledged() {
    let reply = json!({"version": 1, "more": true, "messages": [{"version": 1, "id": "r1",
        "from": "books", "to": "phone-1", "appSystem": "sales", "replyTo": "a",
        "createdAt": "2027-01-15T08:00:00Z", "type": "bill", "payload": {"ok": true}}]});
    let (inbox, asked) =
        call(&reply, async |room| room.as_device().receive(Some(5), 20).await).await;
    assert_eq!(asked.line, "GET /v1/exchange/messages?limit=5&wait=20");
    let message = &inbox.messages[0];
    assert!(inbox.more && message.payload == json!({"ok": true}));
    assert_eq!((message.reply_to.as_deref(), message.kind.as_deref()), (Some("a"), Some("bill")));

    let reply = json!({"version": 1, "acked": 1, "again": 1});
    let (acked, asked) = call(&reply, async |room| room.as_device().ack(&["r1", "r2"]).await).await;
    assert_eq!((acked, asked.line.as_str()), (1, "POST /v1/exchange/messages/ack"));
    assert_eq!(asked.json(), json!({"version": 1, "ids": ["r1", "r2"]}));
}

#[tokio::test]
async fn a_device_asks_about_itself_and_tells_of_itself() {
    let reply = json!({"version": 1, "company": "acme", "id": "phone-1", "name": "",
        "appSystem": "sales", "database": "books", "waiting": 3});
    let (device, asked) = call(&reply, async |room| room.as_device().look().await).await;
    assert_eq!(asked.line, "GET /v1/exchange/device");
    assert_eq!((device.database.as_deref(), device.waiting), (Some("books"), Some(3)));
    let entries = [DeviceEntry::new(time(), "low battery")];
    let (told, asked) = try_call(&ok(r#"{"version":1,"kept":1}"#), async |room| {
        room.as_device().tell(&entries).await
    })
    .await;
    told.unwrap();
    assert_eq!(asked.line, "POST /v1/exchange/device/log");
    let entry = json!({"at": "2027-01-15T08:00:00Z", "text": "low battery"});
    assert_eq!(asked.json(), json!({"version": 1, "entries": [entry]}));
}
