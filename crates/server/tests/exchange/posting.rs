//! What devices send.

use serde_json::{Value, json};

use crate::world::{World, cancelled, ids, is_ok, message, reply};

#[tokio::test]
async fn a_message_that_is_sent_again_is_known_again() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let first = world.post(&phone, &message("m-1", json!({"a": 1}))).await;
    assert_eq!(first.status, 201);
    let again = world.post(&phone, &message("m-1", json!({"a": 1}))).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let (first, again) = (first.json()["results"][0].clone(), again.json()["results"][0].clone());
    assert_eq!(again["status"], "duplicate");
    assert_eq!((&again["seq"], &again["receivedAt"]), (&first["seq"], &first["receivedAt"]));
    assert_eq!(world.places().await.len(), 1);
    let other = world.phone("phone-2").await;
    let same = world.post(&other, &message("m-1", json!({"a": 1}))).await;
    assert_eq!(same.status, 201, "ids are a device's own");
}

#[tokio::test]
async fn an_id_with_another_content_is_refused_and_nothing_of_its_batch_is_stored() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let before = world.everything().await;
    let reused = world.post(&phone, &message("m-1", json!(2))).await;
    assert_eq!((reused.status, reused.code().as_str()), (409, "exchange.message_reused"));
    let batch =
        json!({"version": 1, "messages": [message("m-2", json!(1)), message("m-1", json!(2))]});
    assert_eq!(world.post(&phone, &batch).await.code(), "exchange.message_reused");
    let twice =
        json!({"version": 1, "messages": [message("m-3", json!(1)), message("m-3", json!(1))]});
    let twice = world.post(&phone, &twice).await;
    assert_eq!((twice.status, twice.code().as_str()), (422, "exchange.invalid"));
    assert_eq!(world.everything().await, before);
    let batch =
        json!({"version": 1, "messages": [message("m-1", json!(1)), message("m-2", json!(1))]});
    let stored = world.post(&phone, &batch).await;
    assert_eq!(stored.status, 201, "{}", stored.text());
    let results = stored.json()["results"].clone();
    assert_eq!(
        (&results[0]["status"], &results[1]["status"]),
        (&json!("duplicate"), &json!("stored"))
    );
}

#[tokio::test]
async fn a_payload_is_kept_as_it_was_written() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let payload = "{ \"n\": 1.50e+400, \"n\" : \"\\u0041\\ud800\",\n\t\"deep\": [[[]]] }";
    let body = format!(
        r#"{{"payload": {payload}, "id":"m-1","createdAt":"2027-01-15T10:00:00+02:00","version":1}}"#
    );
    let stored = world.ask_raw(Some(&phone.token), "POST", "/v1/exchange/messages", body).await;
    assert_eq!(stored.status, 201, "{}", stored.text());
    let seq = stored.json()["results"][0]["seq"].as_u64().unwrap();
    let path = format!("databases/erp1/messages/{seq}/body");
    let body = world.admin("GET", &path, Value::Null).await;
    let expected = format!(
        r#"{{"version":1,"id":"m-1","from":"phone-1","to":"erp1","appSystem":"stock","createdAt":"2027-01-15T10:00:00+02:00","payload":{payload}}}"#
    );
    assert_eq!(body.text(), expected);
    let entry = world.see(&format!("databases/erp1/messages/{seq}")).await;
    assert_eq!(entry["message"]["createdAt"], "2027-01-15T08:00:00Z");
    assert_eq!(entry["message"]["bytes"], expected.len());
}

#[tokio::test]
async fn what_a_device_says_of_itself_must_be_true() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let before = world.everything().await;
    for (field, value) in
        [("from", "phone-2"), ("to", "erp2"), ("appSystem", "sales"), ("to", "..")]
    {
        let mut body = message("m-1", json!(1));
        body[field] = value.into();
        let refused = world.post(&phone, &body).await;
        assert_eq!((refused.status, refused.code().as_str()), (422, "exchange.invalid"), "{field}");
    }
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_body_that_is_no_message_is_refused_with_words() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let before = world.everything().await;
    for (body, status, words) in [
        ("", 400, "empty"),
        ("{", 400, "EOF"),
        ("[]", 422, "array"),
        (
            r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00Z","payload":1,}"#,
            400,
            "trailing",
        ),
        (
            r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00Z","payload":{"a":}}"#,
            400,
            "JSON",
        ),
        (
            r#"{"version":2,"id":"a","createdAt":"2027-01-15T08:00:00Z","payload":1}"#,
            422,
            "version 2",
        ),
        (r#"{"id":"a","createdAt":"2027-01-15T08:00:00Z","payload":1}"#, 422, "version"),
        (r#"{"version":1,"id":"a","payload":1}"#, 422, "createdAt"),
        (r#"{"version":1,"createdAt":"2027-01-15T08:00:00Z","payload":1}"#, 422, "id"),
        (r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00Z"}"#, 422, "payload"),
        (r#"{"version":1,"id":"a","createdAt":"yesterday","payload":1}"#, 422, "time"),
        (r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00","payload":1}"#, 422, "time"),
        (r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00Z\"","payload":1}"#, 422, "time"),
        (
            r#"{"version":1,"id":"a","createdAt":"2027-01-15T08:00:00Z","payload":1,"x":1}"#,
            422,
            "unknown field",
        ),
        (r#"{"version":1,"messages":[]}"#, 422, "no message"),
        (r#"{"version":1,"messages":[],"id":"a"}"#, 422, "stands alone"),
        (
            r#"{"version":1,"messages":[{"id":"a","createdAt":"2027-01-15T08:00:00Z"}]}"#,
            422,
            "payload",
        ),
    ] {
        let path = "/v1/exchange/messages";
        let answer = world.ask_raw(Some(&phone.token), "POST", path, body.to_owned()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.detail().contains(words), "{body}: {}", answer.detail());
    }
    let broken =
        b"{\"version\":1,\"id\":\"a\",\"createdAt\":\"2027-01-15T08:00:00Z\",\"payload\":\"\xff\"}";
    let answer =
        world.ask_raw(Some(&phone.token), "POST", "/v1/exchange/messages", &broken[..]).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn what_is_too_large_or_too_much_is_refused() {
    let world = World::start_with(|settings| {
        settings.exchange.message_bytes_max = 1_000;
        settings.exchange.request_bytes_max = 5_000;
        settings.exchange.request_messages_max = 3;
        settings.exchange.queue_max = 4;
    })
    .await;
    let phone = world.phone("phone-1").await;
    let fits = world.post(&phone, &message("m-0", json!("x".repeat(998)))).await;
    assert_eq!(fits.status, 201, "{}", fits.text());
    let large = world.post(&phone, &message("m-1", json!("x".repeat(999)))).await;
    assert_eq!((large.status, large.code().as_str()), (413, "request.too_large"));
    let large = world.post(&phone, &message("m-1", json!("x".repeat(6_000)))).await;
    assert_eq!((large.status, large.code().as_str()), (413, "request.too_large"));
    let many = |from: usize, count: usize| {
        let messages: Vec<Value> =
            (from..from + count).map(|n| message(&format!("m-{n}"), json!(1))).collect();
        json!({"version": 1, "messages": messages})
    };
    let four = world.post(&phone, &many(1, 4)).await;
    assert_eq!((four.status, four.code().as_str()), (422, "exchange.invalid"));
    assert_eq!(world.post(&phone, &many(1, 3)).await.status, 201);
    let full = world.post(&phone, &many(4, 1)).await;
    assert_eq!((full.status, full.code().as_str()), (503, "exchange.full"));
    assert!(full.header("retry-after").is_some());
    assert_eq!(world.post(&phone, &many(1, 3)).await.status, 200, "what is there is known");
}

#[tokio::test]
async fn a_subsystem_without_a_route_goes_nowhere() {
    let world = World::start().await;
    world.put("subsystems/sales", json!({"version": 1})).await;
    world.put("devices/acme/till", json!({"version": 1, "appSystem": "sales"})).await;
    let answer = world.activate(&world.code("acme", "till").await).await.json();
    let till = crate::world::Phone {
        id: "till".to_owned(),
        token: answer["token"].as_str().unwrap().to_owned(),
    };
    let refused = world.post(&till, &message("m-1", json!(1))).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "exchange.no_route"));
    let missing = world.admin("GET", "routes/acme/sales", Value::Null).await;
    assert_eq!((missing.status, missing.detail().as_str()), (404, "there is no route acme/sales"));
    let missing = world.admin("DELETE", "routes/acme/sales", Value::Null).await;
    assert_eq!((missing.status, missing.detail().as_str()), (404, "there is no route acme/sales"));
    world.put("routes/acme/sales", json!({"version": 1, "database": "erp1"})).await;
    assert_eq!(world.post(&till, &message("m-1", json!(1))).await.status, 201);
}

#[tokio::test]
async fn on_a_disk_that_is_nearly_full_nothing_new_is_taken_and_what_was_begun_is_finished() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    for n in 1..=3 {
        world.send(&phone, &format!("m-{n}"), json!(n)).await;
    }
    let answer = world.begin_process(json!({"maxFiles": 1})).await.json();
    let first = answer["processId"].as_str().unwrap().to_owned();
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&first, &["m-1".to_owned()], replies).await));
    let world =
        world.restart_with(|settings| settings.server.disk_free_min = Some(u64::MAX - 1)).await;
    let low = world.post(&phone, &message("m-9", json!(1))).await;
    assert_eq!((low.status, low.code().as_str()), (507, "disk_low"));
    assert!(is_ok(&world.commit(&first).await), "the database has decided");
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-1"]);
    assert_eq!(world.ack(&phone, &["r-1"]).await.status, 200);
    let answer = world.begin_process(json!({"maxFiles": 1})).await.json();
    let second = answer["processId"].as_str().unwrap().to_owned();
    let replies = json!([reply("r-2", "phone-1", json!(1))]);
    let refused = world.prepare(&second, &["m-2".to_owned()], replies).await;
    assert_eq!((refused.status, cancelled(&refused).as_str()), (507, "disk_low"));
    assert_eq!(world.state_of(&second).await, "STARTED");
    let prepared = world.prepare(&second, &["m-2".to_owned()], json!([])).await;
    assert!(is_ok(&prepared), "{}", prepared.text());
    assert!(is_ok(&world.rollback(&second).await));
}
