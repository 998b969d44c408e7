//! Plain HTTP: for whoever calls now and then, and for whoever looks after calls.

use serde_json::{Value, json};

use crate::world::{WORKER, World};

#[tokio::test]
async fn a_request_waits_for_the_answer() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let body = json!({"n": 1});
    let (answer, ()) = tokio::join!(world.ask("POST", "/work", &body), async {
        let offer = worker.expect("b").await;
        assert_eq!((&offer["params"], offer.get("caller")), (&json!({"n": 1}), None));
        let done = json!({"id": offer["id"], "fence": offer["fence"], "answer": "done"});
        worker.say(json!({"response": done})).await;
        worker.expect("g").await;
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
    let call = answer.json();
    assert_eq!((&call["outcome"], &call["answer"]), (&json!("answer"), &json!("done")));
    let seen = world.see(&format!("/{}", call["id"].as_str().unwrap())).await;
    assert_eq!(seen["answer"], "done");
}

#[tokio::test]
async fn whoever_does_not_wait_is_told_where_to_ask() {
    let world = World::start().await;
    let answer = world.ask_with("POST", "/work", &json!(1), &[("prefer", "wait=0")]).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location").unwrap(), format!("/v1/calls/{id}"));
    let mut worker = world.worker(WORKER, 1).await;
    let path = format!("/{id}?wait=30");
    let (seen, ()) = tokio::join!(world.see(&path), async {
        worker.expect("b").await;
        worker.say(json!({"response": {"id": id, "fence": 1, "answer": 2}})).await;
        worker.expect("g").await;
    });
    assert_eq!(seen["answer"], 2);
}

#[tokio::test]
async fn the_same_key_is_the_same_call() {
    let world = World::start().await;
    let headers = [("idempotency-key", "order-7"), ("prefer", "wait=0")];
    let first = world.ask_with("POST", "/work", &json!(7), &headers).await;
    let second = world.ask_with("POST", "/work", &json!(7), &headers).await;
    assert_eq!((first.status, second.status), (202, 202));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = world.ask_with("POST", "/work", &json!(8), &headers).await;
    assert_eq!((other.status, &other.json()["code"]), (409, &json!("calls.key_reused")));
}

#[tokio::test]
async fn every_end_has_its_status() {
    let world = World::start().await;
    let lonely = world.ask("POST", "/lonely?onlyWithConsumer=true", &json!(1)).await;
    assert_eq!((lonely.status, &lonely.json()["error"]["code"]), (503, &json!("no_consumer")));
    let late = world.ask("POST", "/lonely?queueTimeoutMs=10", &json!(1)).await;
    assert_eq!((late.status, &late.json()["error"]["code"]), (504, &json!("queue_timeout")));
    let mut worker = world.worker(WORKER, 1).await;
    let body = json!(1);
    let (failed, ()) = tokio::join!(world.ask("POST", "/work", &body), async {
        let offer = worker.expect("b").await;
        let error = json!({"name": "E", "message": "m", "code": "c"});
        let said =
            json!({"id": offer["id"], "fence": offer["fence"], "error": error, "terminal": true});
        worker.say(json!({"response": said})).await;
        worker.expect("g").await;
    });
    assert_eq!((failed.status, &failed.json()["error"]["code"]), (502, &json!("c")));
}

#[tokio::test]
async fn a_call_is_cancelled() {
    let world = World::start().await;
    let made = world.ask_with("POST", "/work", &json!(1), &[("prefer", "wait=0")]).await.json();
    let path = format!("/{}", made["id"].as_str().unwrap());
    let cancelled = world.ask("DELETE", &path, &Value::Null).await;
    assert_eq!((cancelled.status, &cancelled.json()["outcome"]), (200, &json!("cancelled")));
    assert_eq!(world.ask("DELETE", &path, &Value::Null).await.status, 200, "it stays so");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let world = World::start().await;
    let refused = |answer: crate::http_client::Answer| {
        let code = answer.json()["code"].as_str().unwrap().to_owned();
        (answer.status, code)
    };
    let bad = world.ask("POST", "/a%20b", &json!(1)).await;
    assert_eq!(refused(bad), (422, "calls.invalid".to_owned()));
    let unknown = world.ask("GET", "/6ba04b7c-705f-4f86-9d77-a822d11acdb1", &Value::Null).await;
    assert_eq!(refused(unknown), (404, "calls.not_found".to_owned()));
    let no_id = world.ask("GET", "/seven", &Value::Null).await;
    assert_eq!(refused(no_id), (404, "calls.not_found".to_owned()));
    let long = world.ask("POST", "/work?timeoutMs=999999999999", &json!(1)).await;
    assert_eq!(refused(long), (422, "calls.invalid".to_owned()));
    let misspelt = world.ask("POST", "/work?timeout=1", &json!(1)).await;
    assert_eq!(refused(misspelt), (400, "request.malformed".to_owned()));
    let headers = [("content-type", "application/json"), ("idempotency-key", "a b")];
    let key = crate::http_client::ask(world.address, "POST", "/v1/calls/work", &headers, "1").await;
    assert_eq!(refused(key), (422, "calls.invalid".to_owned()));
    let json = [("content-type", "application/json")];
    let text = crate::http_client::ask(world.address, "POST", "/v1/calls/work", &json, "{").await;
    assert_eq!(refused(text), (400, "request.malformed".to_owned()));
}

#[tokio::test]
async fn dead_letters_are_seen_called_again_and_purged() {
    let world = World::start().await;
    let settings = json!({"version": 1, "attemptsMax": 1});
    let put = world.ask("PUT", "/channels/work", &settings).await;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(
        (&put.json()["described"], &put.json()["settings"]["attemptsMax"]),
        (&json!(true), &json!(1))
    );
    let mut worker = world.worker(WORKER, 1).await;
    let mut dies = async |n: u32| {
        let body = json!({"n": n});
        let (answer, ()) = tokio::join!(world.ask("POST", "/work", &body), async {
            let offer = worker.expect("b").await;
            let said = json!({"id": offer["id"], "fence": offer["fence"], "error": {"name": "E"}});
            worker.say(json!({"response": said})).await;
            worker.expect("g").await;
        });
        assert_eq!(answer.status, 502);
        answer.json()["id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (dies(1).await, dies(2).await);
    let dead = world.see("/channels/work/dead").await;
    assert_eq!((&dead["total"], &dead["calls"][0]["id"]), (&json!(2), &json!(first)));
    assert_eq!(dead["calls"][0]["params"], json!({"n": 1}));
    let page = world.see("/channels/work/dead?limit=1").await;
    assert_eq!((&page["calls"][0]["id"], &page["total"]), (&json!(first), &json!(2)));
    let rest = world.see(&format!("/channels/work/dead?from={}", page["next"])).await;
    assert_eq!((&rest["calls"][0]["id"], &rest["next"]), (&json!(second), &Value::Null));
    let again = world.ask("POST", &format!("/{first}/requeue"), &Value::Null).await;
    assert_eq!(again.status, 201, "{}", again.text());
    let offer = worker.expect("b").await;
    assert_eq!((&offer["id"], &offer["params"]), (&again.json()["id"], &json!({"n": 1})));
    let gone = world.ask("DELETE", &format!("/channels/work/dead/{second}"), &Value::Null).await;
    assert_eq!((gone.status, &gone.json()["purged"]), (200, &json!(1)));
    let none = world.ask("DELETE", "/channels/work/dead", &Value::Null).await;
    assert_eq!(none.json()["purged"], 0);
}

#[tokio::test]
async fn channels_are_described_listed_and_taken_back() {
    let world = World::start().await;
    let settings = json!({"onLost": "fail", "durability": "memory", "queueTimeoutMs": 5000});
    let put = world.ask("PUT", "/channels/pay", &settings).await.json();
    assert_eq!(
        (&put["settings"]["onLost"], &put["settings"]["leaseMs"]),
        (&json!("fail"), &json!(30_000))
    );
    let listed = world.see("/channels").await;
    assert_eq!(listed["channels"][0]["channel"], "pay");
    let bad = world.ask("PUT", "/channels/pay", &json!({"attemptsMax": 0})).await;
    assert_eq!((bad.status, &bad.json()["code"]), (422, &json!("calls.invalid")));
    let unset = world.ask("DELETE", "/channels/pay", &Value::Null).await;
    assert_eq!((unset.status, &unset.json()["described"]), (200, &json!(false)));
    let twice = world.ask("DELETE", "/channels/pay", &Value::Null).await;
    assert_eq!(twice.status, 404);
}

#[tokio::test]
async fn calls_are_listed_the_latest_first() {
    let world = World::start().await;
    for n in 0..5 {
        let channel = if n % 2 == 0 { "/even" } else { "/odd" };
        world.ask_with("POST", channel, &json!(n), &[("prefer", "wait=0")]).await;
    }
    let page = world.see("?limit=2").await;
    assert_eq!(page["calls"].as_array().unwrap().len(), 2);
    assert_eq!(page["calls"][0]["channel"], "even");
    let next = page["next"].as_u64().unwrap();
    let rest = world.see(&format!("?before={next}")).await;
    assert_eq!((rest["calls"].as_array().unwrap().len(), rest.get("next")), (3, None));
    let odd = world.see("?channel=odd&open=true").await;
    assert_eq!(odd["calls"].as_array().unwrap().len(), 2);
}
