//! From a device to the database and back.

use serde_json::json;

use crate::world::{World, ids, is_ok, message, reply};

#[tokio::test]
async fn a_message_goes_to_the_database_and_its_reply_to_the_device() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let mut sent = message("m-1", json!({"doc": 7, "lines": ["a", "b"]}));
    sent["type"] = "DOCS".into();
    sent["from"] = "phone-1".into();
    sent["to"] = "erp1".into();
    sent["appSystem"] = "stock".into();
    let posted = world.post(&phone, &sent).await;
    assert_eq!(posted.status, 201, "{}", posted.text());
    assert_eq!(posted.json()["results"][0]["status"], "stored");

    let answer = world.begin_process(json!({})).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer = answer.json();
    assert_eq!((&answer["version"], &answer["status"]), (&json!(1), &json!("OK")));
    assert!(answer["deadline"].as_str().unwrap().ends_with('Z'));
    let given = &answer["messages"][0];
    sent["attempt"] = 1.into();
    assert_eq!(given, &sent, "it is as it was sent");

    let process = answer["processId"].as_str().unwrap();
    let mut answers = reply("r-1", "phone-1", json!("done"));
    answers["replyTo"] = "m-1".into();
    let prepared = world.prepare(process, &["m-1".to_owned()], json!([answers])).await;
    assert!(is_ok(&prepared), "{}", prepared.text());
    assert_eq!(world.state_of(process).await, "READY_TO_COMMIT");
    assert!(ids(&world.fetch(&phone, "").await).is_empty(), "the database has not committed");

    let committed = world.commit(process).await;
    assert!(is_ok(&committed), "{}", committed.text());
    let fetched = world.fetch(&phone, "").await;
    assert_eq!(fetched["more"], false);
    let got = &fetched["messages"][0];
    assert_eq!((&got["from"], &got["to"]), (&json!("erp1"), &json!("phone-1")));
    assert_eq!((&got["replyTo"], &got["payload"]), (&json!("m-1"), &json!("done")));
    assert_eq!(world.places().await, [at("m-1", "log"), at("r-1", "messages")]);

    let acked = world.ack(&phone, &["r-1"]).await;
    assert_eq!(acked.json(), json!({"version": 1, "acked": 1, "again": 0}));
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
    assert_eq!(world.places().await, [at("m-1", "log"), at("r-1", "log")]);
    let idle = world.begin_process(json!({})).await;
    assert_eq!((idle.status, idle.json()), (200, json!({"version": 1, "status": "IDLE"})));
}

fn at(id: &str, place: &str) -> (String, String) {
    (id.to_owned(), place.to_owned())
}
