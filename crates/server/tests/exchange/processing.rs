//! Processes: every call once, again, and in a state that is not its own.

use handoff_types::Span;
use serde_json::{Value, json};

use crate::world::{Phone, World, cancelled, ids, is_ok, message, reply};

const NOBODY: &str = "ffff-0123456789abcdef";

async fn with_messages(count: usize) -> (World, Phone) {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    for n in 1..=count {
        world.send(&phone, &format!("m-{n}"), json!(n)).await;
    }
    (world, phone)
}

/// Asks until a process is in a state.
async fn until(world: &World, process: &str, state: &str) {
    while world.state_of(process).await != state {
        tokio::task::yield_now().await;
    }
}

fn at(id: &str, place: &str) -> (String, String) {
    (id.to_owned(), place.to_owned())
}

#[tokio::test]
async fn an_empty_queue_is_idle_and_leaves_no_process() {
    let (world, _) = with_messages(0).await;
    let idle = world.begin_process(json!({})).await;
    assert_eq!((idle.status, idle.json()), (200, json!({"version": 1, "status": "IDLE"})));
    assert_eq!(world.see("databases/erp1/processes").await["processes"], json!([]));
    let unwanted = world.begin_process(json!({"requestKey": "k"})).await;
    assert_eq!(unwanted.json()["status"], "IDLE");
}

#[tokio::test]
async fn a_second_erp_finds_the_database_busy_and_another_database_is_not() {
    let (world, _) = with_messages(2).await;
    let (process, served) = world.started().await;
    assert_eq!(served, ["m-1", "m-2"]);
    let busy = world.begin_process(json!({})).await;
    assert_eq!((busy.status, &busy.json()["status"]), (200, &json!("BUSY")));
    assert!(busy.json()["retryAfterMs"].as_u64().unwrap() >= 1_000);
    world.put("databases/erp2", json!({"version": 1, "company": "acme"})).await;
    let path = "/v1/exchange/databases/erp2/processes";
    let other = world.ask(None, "POST", path, &json!({"version": 1})).await;
    assert_eq!(other.json()["status"], "IDLE");
    assert!(is_ok(&world.interrupt(&process).await));
    assert_eq!(world.started().await.1, ["m-1", "m-2"], "they are served again");
}

#[tokio::test]
async fn a_start_that_is_repeated_with_its_key_gives_the_same_process() {
    let (world, _) = with_messages(2).await;
    let first = world.begin_process(json!({"requestKey": "k-1"})).await.json();
    let again = world.begin_process(json!({"requestKey": "k-1"})).await;
    assert_eq!(again.status, 201);
    for field in ["status", "processId", "messages"] {
        assert_eq!(again.json()[field], first[field]);
    }
    assert_eq!(world.begin_process(json!({})).await.json()["status"], "BUSY");
    assert_eq!(world.begin_process(json!({"requestKey": "k-2"})).await.json()["status"], "BUSY");
    let process = first["processId"].as_str().unwrap();
    let files = json!({"version": 1, "files": ["m-1", "m-2"]});
    assert!(is_ok(&world.call("PUT", process, "files", files).await));
    let late = world.begin_process(json!({"requestKey": "k-1"})).await;
    assert_eq!(late.json()["status"], "BUSY", "it was answered for");
}

#[tokio::test]
async fn an_erp_may_take_fewer_messages_and_never_more() {
    let (world, _) = with_messages(3).await;
    let (process, _) = world.started().await;
    let files = async |ids: &[&str]| {
        world.call("PUT", &process, "files", json!({"version": 1, "files": ids})).await
    };
    assert!(is_ok(&files(&["m-1", "m-2", "m-3"]).await));
    assert!(is_ok(&files(&["m-2", "m-1"]).await));
    assert!(is_ok(&files(&["m-2", "m-1"]).await), "the same again");
    let before = world.everything().await;
    for unfit in [&["m-1", "m-2", "m-3"][..], &["m-9"], &["m-1", "m-1"]] {
        let answer = files(unfit).await;
        assert_eq!(
            (answer.status, cancelled(&answer).as_str()),
            (422, "exchange.unfit"),
            "{unfit:?}"
        );
    }
    assert_eq!(world.everything().await, before);
    let unknown = json!({"version": 1, "files": ["m-1"]});
    let unknown = world.call("PUT", NOBODY, "files", unknown).await;
    assert_eq!((unknown.status, cancelled(&unknown).as_str()), (200, "CANCELLED"));
    assert!(is_ok(&files(&[]).await), "none is an interruption");
    assert_eq!(world.state_of(&process).await, "INTERRUPTED");
    let past = files(&["m-1"]).await;
    assert_eq!((past.status, cancelled(&past).as_str()), (200, "CANCELLED"));
}

#[tokio::test]
async fn a_third_call_that_is_repeated_is_the_same_and_another_is_refused() {
    let (world, _) = with_messages(2).await;
    let (process, served) = world.started().await;
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&process, &served, replies.clone()).await));
    let before = world.everything().await;
    assert!(is_ok(&world.prepare(&process, &served, replies).await));
    for other in [json!([]), json!([reply("r-1", "phone-1", json!(2))])] {
        let refused = world.prepare(&process, &served, other).await;
        let code = cancelled(&refused);
        assert_eq!((refused.status, code.as_str()), (409, "exchange.prepared_otherwise"));
    }
    let late = json!({"version": 1, "files": ["m-1"]});
    assert_eq!(cancelled(&world.call("PUT", &process, "files", late).await), "CANCELLED");
    let unknown = world.prepare(NOBODY, &served, json!([])).await;
    assert_eq!((unknown.status, cancelled(&unknown).as_str()), (200, "CANCELLED"));
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn a_commit_may_be_reported_again_and_never_against_what_was_said() {
    let (world, _) = with_messages(1).await;
    let (process, served) = world.started().await;
    let early = world.commit(&process).await;
    assert_eq!((early.status, cancelled(&early).as_str()), (409, "exchange.not_prepared"));
    assert!(is_ok(&world.prepare(&process, &served, json!([])).await));
    for _ in 0..10 {
        assert!(is_ok(&world.commit(&process).await));
    }
    until(&world, &process, "DONE").await;
    assert!(is_ok(&world.commit(&process).await));
    let empty = world.call("POST", &process, "commit", Value::Null).await;
    assert!(is_ok(&empty), "a body is not needed: {}", empty.text());
    let contrary = world.rollback(&process).await;
    assert_eq!((contrary.status, cancelled(&contrary).as_str()), (409, "exchange.contradiction"));
    let log = world.see("databases/erp1/log?what=contradiction").await;
    assert_eq!(log["entries"].as_array().unwrap().len(), 1);
    let past = world.interrupt(&process).await;
    assert_eq!((past.status, cancelled(&past).as_str()), (200, "CANCELLED"));
    for call in ["commit", "rollback", "interrupt", "heartbeat"] {
        for process in [NOBODY, "nonsense", "..%2f"] {
            let unknown = world.call("POST", process, call, json!({"version": 1})).await;
            assert_eq!((unknown.status, cancelled(&unknown).as_str()), (404, "exchange.not_found"));
        }
    }
}

#[tokio::test]
async fn a_rollback_may_be_reported_again_and_gives_the_messages_back() {
    let (world, phone) = with_messages(2).await;
    let (process, served) = world.started().await;
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&process, &served, replies).await));
    let ready = world.interrupt(&process).await;
    assert_eq!((ready.status, cancelled(&ready).as_str()), (409, "exchange.process_ready"));
    assert!(is_ok(&world.rollback(&process).await));
    assert!(is_ok(&world.rollback(&process).await));
    let contrary = world.commit(&process).await;
    assert_eq!((contrary.status, cancelled(&contrary).as_str()), (409, "exchange.contradiction"));
    assert_eq!(world.places().await, [at("m-1", "messages"), at("m-2", "messages")]);
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
    let again = world.begin_process(json!({})).await.json();
    assert_eq!(again["messages"][0]["attempt"], 2);
    let process = again["processId"].as_str().unwrap();
    assert!(is_ok(&world.rollback(process).await), "before it was ready it is an interruption");
    assert_eq!(world.state_of(process).await, "INTERRUPTED");
    assert!(is_ok(&world.interrupt(process).await), "the same again");
    let early = world.commit(process).await;
    assert_eq!(cancelled(&early), "exchange.contradiction");
}

#[tokio::test]
async fn every_served_message_has_one_verdict_or_nothing_is_written() {
    let (world, _) = with_messages(2).await;
    let (process, _) = world.started().await;
    let before = world.everything().await;
    let one = |id: &str| json!({"messageId": id, "status": "PROCESSED"});
    let fine = || json!([one("m-1"), one("m-2")]);
    let to_nobody = json!([reply("r-1", "nobody", json!(1))]);
    let twice = json!([reply("r-1", "phone-1", json!(1)), reply("r-1", "phone-1", json!(1))]);
    for (verdicts, messages) in [
        (json!([]), json!([])),
        (json!([one("m-1")]), json!([])),
        (json!([one("m-1"), one("m-1"), one("m-2")]), json!([])),
        (json!([one("m-1"), one("m-2"), one("m-3")]), json!([])),
        (fine(), to_nobody),
        (fine(), twice),
    ] {
        let body = json!({"version": 1, "verdicts": verdicts, "messages": messages});
        let answer = world.call("PUT", &process, "prepare", body).await;
        assert_eq!((answer.status, cancelled(&answer).as_str()), (422, "exchange.unfit"));
    }
    for body in [
        json!({"version": 1}),
        json!({"verdicts": fine()}),
        json!({"version": 2, "verdicts": fine()}),
        json!({"version": 1, "verdicts": [{"messageId": "m-1", "status": "FINE"}]}),
        json!({"version": 1, "verdicts": [{"messageId": "../m", "status": "PROCESSED"}]}),
        json!({"version": 1, "verdicts": fine(), "messages": [{"id": "r-1", "createdAt": "2027-01-15T08:00:00Z", "payload": 1}]}),
        json!({"version": 1, "verdicts": fine(), "messages": [{"id": "r-1", "to": "phone-1", "payload": 1}]}),
        json!({"version": 1, "verdicts": fine(), "messages": [{"id": "r-1", "to": "phone-1", "from": "erp2", "createdAt": "2027-01-15T08:00:00Z", "payload": 1}]}),
        json!({"version": 1, "verdicts": fine(), "messages": [{"id": "r-1", "to": "../x", "createdAt": "2027-01-15T08:00:00Z", "payload": 1}]}),
    ] {
        let answer = world.call("PUT", &process, "prepare", body.clone()).await;
        assert_eq!(answer.status, 422, "{body}: {}", answer.text());
        cancelled(&answer);
    }
    let path = format!("/v1/exchange/databases/erp1/processes/{process}/prepare");
    for (broken, status) in [("{\"version\":1,\"verdicts\":[", 400), ("", 400), ("[]", 422)] {
        let answer = world.ask_raw(None, "PUT", &path, broken).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        cancelled(&answer);
    }
    let unread = crate::http_client::ask(world.address, "PUT", &path, &[], "x").await;
    assert_eq!(unread.status, 415);
    cancelled(&unread);
    assert_eq!(world.everything().await, before);
    let prepared =
        world.call("PUT", &process, "prepare", json!({"version": 1, "verdicts": fine()})).await;
    assert!(is_ok(&prepared), "the process is as it was: {}", prepared.text());
}

#[tokio::test]
async fn verdicts_send_messages_where_they_belong() {
    let (world, _) = with_messages(3).await;
    let (process, _) = world.started().await;
    let verdicts = json!([
        {"messageId": "m-1", "status": "PROCESSED"},
        {"messageId": "m-2", "status": "PROCESSED_DEADLOCK", "code": -913, "error": "deadlock"},
        {"messageId": "m-3", "status": "PROCESSED_INCORRECT", "code": -803, "error": "key \u{7} there"},
    ]);
    let body = json!({"version": 1, "verdicts": verdicts});
    assert!(is_ok(&world.call("PUT", &process, "prepare", body).await));
    let log = world.see("databases/erp1/log?what=deadlock&what=incorrect").await;
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!((&entries[0]["messageId"], &entries[0]["code"]), (&json!("m-3"), &json!(-803)));
    assert_eq!(entries[0]["words"], "key   there");
    assert_eq!(entries[0]["processId"], process);
    assert!(is_ok(&world.commit(&process).await));
    let expected = [at("m-1", "log"), at("m-2", "messages"), at("m-3", "error")];
    assert_eq!(world.places().await, expected);
    let again = world.begin_process(json!({})).await.json();
    assert_eq!(ids(&again), ["m-2"]);
    assert_eq!(again["messages"][0]["attempt"], 2);
    let page = world.see("databases/erp1/messages?place=error").await;
    assert_eq!(page["messages"][0]["reason"], "key   there");
    let seq = page["messages"][0]["seq"].as_u64().unwrap();
    let requeue = json!({"version": 1, "messages": [seq]});
    let requeued = world.admin("POST", "databases/erp1/requeue", requeue).await;
    assert_eq!(requeued.json(), json!({"version": 1, "requeued": 1}));
    assert_eq!(world.places().await[2], at("m-3", "messages"));
}

#[tokio::test]
async fn the_smaller_limit_of_files_and_bytes_counts_and_one_is_always_served() {
    let world = World::start_with(|settings| settings.exchange.max_files = 3).await;
    let (phone, other) = (world.phone("phone-1").await, world.phone("phone-2").await);
    world.put("subsystems/sales", json!({"version": 1})).await;
    world.send(&phone, "big", json!("x".repeat(2 << 20))).await;
    for n in 1..=3 {
        world.send(&phone, &format!("m-{n}"), json!(n)).await;
    }
    world.send(&other, "o-1", json!(1)).await;
    for (wish, expected) in [
        (json!({}), vec!["big", "m-1", "m-2"]),
        (json!({"maxFiles": 2}), vec!["big", "m-1"]),
        (json!({"maxFiles": 100}), vec!["big", "m-1", "m-2"]),
        (json!({"maxMb": 1}), vec!["big"]),
        (json!({"maxMb": 0.5}), vec!["big"]),
        (json!({"maxMb": 0}), vec!["big"]),
        (json!({"producers": ["phone-2"]}), vec!["o-1"]),
        (json!({"producers": ["phone-2"], "appSystems": ["stock"]}), vec!["o-1"]),
    ] {
        let answer = world.begin_process(wish.clone()).await;
        assert_eq!(answer.status, 201, "{wish}: {}", answer.text());
        assert_eq!(ids(&answer.json()), expected, "{wish}");
        let process = answer.json()["processId"].as_str().unwrap().to_owned();
        assert!(is_ok(&world.interrupt(&process).await));
    }
    for wish in [json!({"appSystems": ["sales"]}), json!({"producers": []})] {
        assert_eq!(world.begin_process(wish.clone()).await.json()["status"], "IDLE", "{wish}");
    }
    for (wish, status) in [
        (json!({"maxFiles": 0}), 422),
        (json!({"maxFiles": -1}), 422),
        (json!({"maxMb": -1}), 422),
        (json!({"requestKey": ""}), 422),
        (json!({"producers": ["../x"]}), 422),
        (json!({"producers": ["nobody"]}), 404),
        (json!({"appSystems": ["nothing"]}), 404),
    ] {
        assert_eq!(world.begin_process(wish.clone()).await.status, status, "{wish}");
    }
}

#[tokio::test]
async fn an_erp_that_is_too_slow_is_cancelled_and_its_messages_are_served_again() {
    let (world, _) = with_messages(1).await;
    let world = world
        .restart_with(|settings| settings.exchange.started_timeout = Span::from_millis(1_000))
        .await;
    let (process, served) = world.started().await;
    let beat = world.call("POST", &process, "heartbeat", Value::Null).await;
    assert!(is_ok(&beat) && beat.json()["deadline"].is_string(), "{}", beat.text());
    until(&world, &process, "EXPIRED").await;
    let late = world.prepare(&process, &served, json!([])).await;
    assert_eq!((late.status, cancelled(&late).as_str()), (200, "CANCELLED"));
    let late = world.call("POST", &process, "heartbeat", Value::Null).await;
    assert_eq!((late.status, cancelled(&late).as_str()), (200, "CANCELLED"));
    assert_eq!(world.started().await.1, ["m-1"]);
}

async fn unknown() -> (World, Phone, String) {
    let (world, phone) = with_messages(1).await;
    let world =
        world.restart_with(|settings| settings.exchange.ready_timeout = Span::from_millis(1)).await;
    let (process, served) = world.started().await;
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(&process, &served, replies).await));
    until(&world, &process, "UNKNOWN").await;
    assert_eq!(world.places().await, [at("m-1", "unknown"), at("r-1", "unknown")]);
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
    assert_eq!(
        world.begin_process(json!({})).await.json()["status"],
        "IDLE",
        "it keeps nobody busy"
    );
    (world, phone, process)
}

#[tokio::test]
async fn what_nobody_decided_can_be_committed_later() {
    let (world, phone, process) = unknown().await;
    let doubt = world.erp("GET", "indoubt", &Value::Null).await.json();
    assert_eq!(doubt["processes"][0]["processId"], process);
    assert_eq!(doubt["processes"][0]["state"], "UNKNOWN");
    assert!(is_ok(&world.commit(&process).await));
    assert_eq!(world.state_of(&process).await, "RESOLVED");
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-1"]);
    assert_eq!(world.places().await, [at("m-1", "log"), at("r-1", "messages")]);
    assert_eq!(cancelled(&world.rollback(&process).await), "exchange.contradiction");
    let log = world.see("databases/erp1/log").await;
    let what: Vec<&str> =
        log["entries"].as_array().unwrap().iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["contradiction", "resolved", "unknown"]);
}

#[tokio::test]
async fn what_nobody_decided_can_be_rolled_back_by_an_administrator_and_that_is_noted() {
    let (world, phone, process) = unknown().await;
    let outcomes = json!([
        {"processId": process, "outcome": "ROLLED_BACK"},
        {"processId": NOBODY, "outcome": "COMMITTED"},
    ]);
    let answer = world.erp("POST", "resolve", &json!({"version": 1, "outcomes": outcomes})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results = answer.json()["results"].clone();
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!("OK"), &json!("CANCELLED")));
    assert_eq!(results[1]["code"], "exchange.not_found");
    assert_eq!(world.places().await, [at("m-1", "messages")]);
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
    let acts = world.ask(None, "GET", "/v1/audit", &Value::Null).await;
    assert!(acts.text().contains("resolved 1 process of database erp1"), "{}", acts.text());
    for outcome in ["MAYBE", ""] {
        let outcomes = json!([{"processId": process, "outcome": outcome}]);
        let body = json!({"version": 1, "outcomes": outcomes});
        assert_eq!(world.erp("POST", "resolve", &body).await.status, 422);
    }
}

#[tokio::test]
async fn a_start_may_report_what_became_of_the_process_before() {
    let (world, phone) = with_messages(2).await;
    let first = world.begin_process(json!({"maxFiles": 1})).await.json();
    let process = first["processId"].as_str().unwrap();
    let replies = json!([reply("r-1", "phone-1", json!(1))]);
    assert!(is_ok(&world.prepare(process, &["m-1".to_owned()], replies).await));
    assert_eq!(world.begin_process(json!({})).await.json()["status"], "BUSY");
    let outcomes = json!([{"processId": process, "outcome": "COMMITTED"}]);
    let next = world.begin_process(json!({"outcomes": outcomes})).await.json();
    assert_eq!(ids(&next), ["m-2"]);
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-1"]);
}

#[tokio::test]
async fn a_device_is_told_of_what_could_not_be_processed_if_the_operator_wants_it() {
    let world = World::start_with(|settings| settings.exchange.notify_sender = true).await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let (process, _) = world.started().await;
    let verdicts = json!([{"messageId": "m-1", "status": "PROCESSED_INCORRECT", "code": 7, "error": "no such item"}]);
    let body = json!({"version": 1, "verdicts": verdicts});
    assert!(is_ok(&world.call("PUT", &process, "prepare", body.clone()).await));
    assert!(is_ok(&world.call("PUT", &process, "prepare", body).await), "the same again");
    assert!(ids(&world.fetch(&phone, "").await).is_empty());
    assert!(is_ok(&world.commit(&process).await));
    let fetched = world.fetch(&phone, "").await;
    let notice = &fetched["messages"][0];
    assert_eq!((&notice["type"], &notice["replyTo"]), (&json!("ERROR"), &json!("m-1")));
    assert_eq!(notice["payload"], json!({"code": 7, "error": "no such item"}));
    assert_eq!(fetched["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn messages_come_in_the_order_they_were_made_if_the_operator_wants_it() {
    let world = World::start_with(|settings| {
        settings.exchange.order = handoff_server::settings::ServeOrder::Created;
    })
    .await;
    let phone = world.phone("phone-1").await;
    for (id, hour) in [("late", 9), ("early", 7)] {
        let mut body = message(id, json!(1));
        body["createdAt"] = format!("2027-01-15T0{hour}:00:00Z").into();
        assert_eq!(world.post(&phone, &body).await.status, 201);
    }
    assert_eq!(world.started().await.1, ["early", "late"]);
}
