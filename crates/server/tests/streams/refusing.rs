//! Bad input of every kind: the right code, and nothing changed.

use serde_json::{Value, json};

use crate::http_client::{self, Answer};
use crate::world::{World, pack};

const MESSAGES: &str = "/v1/streams/topics/orders/messages";
const GUID: &str = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";

async fn with_topic() -> World {
    let world = World::start_with(|settings| {
        let streams = &mut settings.streams;
        streams.bounds.message_bytes_max = 1_000;
        streams.bounds.batch_messages_max = 10;
        streams.bounds.headers_max = 2;
        streams.bounds.topics_max = 2;
        streams.bounds.partitions_max = 8;
        streams.bounds.scheduled_max = 1;
        streams.request_bytes_max = 4_000;
    })
    .await;
    world.topic("orders", 2).await;
    world.produce("orders", json!([{"payload": "a", "partition": 0}])).await;
    world
}

#[tokio::test]
async fn messages_that_cannot_be_stored_are_refused_in_both_formats() {
    let world = with_topic().await;
    let before = world.everything().await;
    let later = world.later(3_600_000).await;
    let one = |message: Value| json!({"version": 1, "messages": [message]});
    let many: Vec<Value> = (0..11).map(|_| json!({"payload": ""})).collect();
    let cases = [
        (json!({}), 422, "request.invalid"),
        (json!({"version": 1}), 422, "request.invalid"),
        (json!({"version": 2, "messages": [{"payload": ""}]}), 422, "request.invalid"),
        (json!({"version": 1, "messages": []}), 422, "streams.invalid"),
        (json!({"version": 1, "messages": many}), 409, "streams.limit"),
        (json!({"version": 1, "messages": "x"}), 422, "request.invalid"),
        (one(json!({})), 422, "request.invalid"),
        (one(json!({"payload": 1})), 422, "request.invalid"),
        (one(json!({"payload": null})), 422, "request.invalid"),
        (one(json!({"payload": "", "colour": 1})), 422, "request.invalid"),
        (one(json!({"payload": "x".repeat(1_001)})), 422, "streams.invalid"),
        (one(json!({"payload": "", "key": "x".repeat(1_001)})), 422, "streams.invalid"),
        (one(json!({"payload": "", "partition": 2})), 404, "streams.partition_not_found"),
        (one(json!({"payload": "", "partition": -1})), 422, "request.invalid"),
        (
            one(json!({"payload": "", "headers": {"a": "", "b": "", "c": ""}})),
            422,
            "streams.invalid",
        ),
        (one(json!({"payload": "", "headers": {"handoff.x": ""}})), 422, "streams.invalid"),
        (one(json!({"payload": "", "headers": {"a": 1}})), 422, "request.invalid"),
        (one(json!({"payload": "", "deliverAt": "noon"})), 422, "request.invalid"),
        (one(json!({"payload": "", "deliverAt": "2999-01-01T00:00:00Z"})), 422, "streams.invalid"),
        (one(json!({"payload": "", "ttlMs": "1"})), 422, "request.invalid"),
        (
            json!({"version": 1, "sequence": 1, "messages": [{"payload": ""}]}),
            422,
            "request.invalid",
        ),
        (
            json!({"version": 1, "producer": "x", "sequence": 1, "messages": [{"payload": ""}]}),
            422,
            "streams.invalid",
        ),
        (
            json!({"version": 1, "producer": GUID, "sequence": u64::MAX, "messages": [{"payload": ""}]}),
            422,
            "streams.invalid",
        ),
        // The first is sound: all or none.
        (
            json!({"version": 1, "messages": [{"payload": "ok"}, {"payload": "", "partition": 9}]}),
            404,
            "streams.partition_not_found",
        ),
        (
            json!({"version": 1, "messages": [
                {"payload": "", "deliverAt": later},
                {"payload": "", "deliverAt": later},
            ]}),
            409,
            "streams.limit",
        ),
    ];
    for (body, status, code) in cases {
        for answer in [world.post(MESSAGES, &body).await, world.post_packed(MESSAGES, &body).await]
        {
            assert_eq!(
                (answer.status, &*answer.code()),
                (status, code),
                "{body}: {}",
                answer.text()
            );
        }
    }
    assert_eq!(world.everything().await, before);
}

async fn raw(world: &World, kind: &str, body: Vec<u8>) -> Answer {
    http_client::ask(world.address, "POST", MESSAGES, &[("content-type", kind)], body).await
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let world = with_topic().await;
    let before = world.everything().await;
    let sound = json!({"version": 1, "messages": [{"payload": "abc", "key": "k"}]});
    let (text, packed) = (sound.to_string().into_bytes(), pack(&sound));
    for cut in 0..text.len() {
        let answer = raw(&world, "application/json", text[..cut].to_vec()).await;
        assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"), "cut at {cut}");
    }
    for cut in 0..packed.len() {
        let answer = raw(&world, "application/msgpack", packed[..cut].to_vec()).await;
        assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"), "cut at {cut}");
    }
    let malformed: [(&str, &[u8]); 6] = [
        ("application/json", b"\xff\xfe"),
        ("application/json", b"{\"version\":1,\"messages\":[{\"payload\":\"\\ud800\"}]}"),
        ("application/msgpack", &[0xc1]),
        ("application/msgpack", &[0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("application/msgpack", &[0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1]),
        ("application/msgpack", &[0x81, 0xa1, 0xff, 0xc0]),
    ];
    for (kind, body) in malformed {
        let answer = raw(&world, kind, body.to_vec()).await;
        assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"), "{body:x?}");
    }
    for (kind, status, code) in [
        ("text/plain", 415, "request.wrong_media_type"),
        ("application/msgpack", 413, "request.too_large"),
        ("application/json", 413, "request.too_large"),
    ] {
        let body = json!({"version": 1, "messages": [{"payload": "x".repeat(5_000)}]});
        let body =
            if kind == "application/msgpack" { pack(&body) } else { body.to_string().into() };
        let answer = raw(&world, kind, body).await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{kind}");
    }
    let answer = http_client::ask(world.address, "POST", MESSAGES, &[], text).await;
    assert_eq!((answer.status, &*answer.code()), (415, "request.wrong_media_type"));
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = with_topic().await;
    let before = world.everything().await;
    let message = json!({"version": 1, "messages": [{"payload": ""}]});
    let grow = json!({"version": 1, "partitions": 3});
    for (method, path, body, code) in [
        ("POST", "/v1/streams/topics/none/messages", message, "streams.topic_not_found"),
        ("GET", "/v1/streams/topics/none", Value::Null, "streams.topic_not_found"),
        ("DELETE", "/v1/streams/topics/none", Value::Null, "streams.topic_not_found"),
        ("PATCH", "/v1/streams/topics/none", json!({"version": 1}), "streams.topic_not_found"),
        ("POST", "/v1/streams/topics/none/partitions", grow, "streams.topic_not_found"),
        ("GET", "/v1/streams/topics/none/scheduled", Value::Null, "streams.topic_not_found"),
        ("GET", "/v1/streams/topics/none/tail", Value::Null, "streams.topic_not_found"),
        ("GET", "/v1/streams/topics/none/messages?key=k", Value::Null, "streams.topic_not_found"),
        (
            "GET",
            "/v1/streams/topics/none/partitions/0/messages",
            Value::Null,
            "streams.topic_not_found",
        ),
        (
            "GET",
            "/v1/streams/topics/orders/partitions/2/messages",
            Value::Null,
            "streams.partition_not_found",
        ),
        (
            "GET",
            "/v1/streams/topics/orders/tail?partition=2",
            Value::Null,
            "streams.partition_not_found",
        ),
        (
            "DELETE",
            "/v1/streams/scheduled/00000000000000000000000000000007",
            Value::Null,
            "streams.scheduled_not_found",
        ),
    ] {
        let answer = world.send(method, path, &body).await;
        assert_eq!((answer.status, &*answer.code()), (404, code), "{method} {path}");
    }
    assert_eq!(world.everything().await, before);
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let world = with_topic().await;
    let messages = "/v1/streams/topics/orders/partitions/0/messages";
    for (path, status, code) in [
        (format!("{messages}?offset=-1"), 400, "request.malformed"),
        (format!("{messages}?offset=x"), 400, "request.malformed"),
        (format!("{messages}?offset=1&offset=2"), 400, "request.malformed"),
        (format!("{messages}?offset=1&time=2027-01-01T00:00:00Z"), 400, "request.malformed"),
        (format!("{messages}?time=noon"), 400, "request.malformed"),
        (format!("{messages}?limit=0"), 400, "request.malformed"),
        (format!("{messages}?limit=10001"), 400, "request.malformed"),
        (format!("{messages}?maxBytes=0"), 400, "request.malformed"),
        (format!("{messages}?maxBytes=16777217"), 400, "request.malformed"),
        (format!("{messages}?waitMs=30001"), 400, "request.malformed"),
        (format!("{messages}?colour=red"), 400, "request.malformed"),
        ("/v1/streams/topics/orders/partitions/x/messages".into(), 400, "request.malformed"),
        ("/v1/streams/topics/orders/tail?from=now".into(), 400, "request.malformed"),
        ("/v1/streams/topics/orders/scheduled?after=x".into(), 400, "request.malformed"),
        ("/v1/streams/topics?after=%20".into(), 400, "request.malformed"),
        ("/v1/streams/topics/..%2Fx".into(), 422, "streams.invalid"),
        ("/v1/streams/topics/%D0%BC".into(), 422, "streams.invalid"),
    ] {
        let answer = world.get(&path).await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{path}: {}", answer.text());
    }
    let answer = world.delete("/v1/streams/scheduled/7").await;
    assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"));
}

#[tokio::test]
async fn topics_that_cannot_be_made_are_refused() {
    let world = with_topic().await;
    let before = world.everything().await;
    let path = "/v1/streams/topics";
    let named = |name: &str| json!({"version": 1, "name": name});
    for (body, status, code) in [
        (named("orders"), 409, "streams.topic_exists"),
        (named(""), 422, "streams.invalid"),
        (named("a b"), 422, "streams.invalid"),
        (named(".."), 422, "streams.invalid"),
        (named(&"x".repeat(250)), 422, "streams.invalid"),
        (json!({"version": 1, "name": "x", "partitions": 0}), 422, "streams.invalid"),
        (json!({"version": 1, "name": "x", "partitions": 7}), 409, "streams.limit"),
        (json!({"version": 1, "name": "x", "durability": "maybe"}), 422, "request.invalid"),
        (json!({"version": 1, "name": "x", "compression": "rar"}), 422, "request.invalid"),
        (json!({"version": 1, "name": "x", "retentionMs": -1}), 422, "request.invalid"),
        (json!({"version": 1, "name": "x", "partition": 1}), 422, "request.invalid"),
        (json!({"name": "x"}), 422, "request.invalid"),
        (json!([]), 422, "request.invalid"),
    ] {
        for answer in [world.post(path, &body).await, world.post_packed(path, &body).await] {
            assert_eq!(
                (answer.status, &*answer.code()),
                (status, code),
                "{body}: {}",
                answer.text()
            );
        }
    }
    assert_eq!(world.everything().await, before);
    world.topic("second", 1).await;
    let third = world.post(path, &named("third")).await;
    assert_eq!((third.status, &*third.code()), (409, "streams.limit"));
    let grow = json!({"version": 1, "partitions": 8});
    let grown = world.post("/v1/streams/topics/second/partitions", &grow).await;
    assert_eq!((grown.status, &*grown.code()), (409, "streams.limit"));
    let large = vec![b' '; 70_000];
    let headers = [("content-type", "application/json")];
    let answer = http_client::ask(world.address, "POST", path, &headers, large).await;
    assert_eq!((answer.status, &*answer.code()), (413, "request.too_large"));
}

#[tokio::test]
async fn producers_that_cannot_be_are_refused() {
    let world = with_topic().await;
    let path = "/v1/streams/producers";
    for (body, code) in [
        (json!({"version": 1, "producer": "x"}), "streams.invalid"),
        (json!({"version": 1, "scope": "all"}), "request.invalid"),
        (json!({}), "request.invalid"),
    ] {
        let answer = world.post(path, &body).await;
        assert_eq!((answer.status, &*answer.code()), (422, code), "{body}");
    }
    world.post(path, &json!({"version": 1, "producer": GUID, "scope": "topic"})).await;
    let other =
        world.post(path, &json!({"version": 1, "producer": GUID, "scope": "producer"})).await;
    assert_eq!((other.status, &*other.code()), (422, "streams.invalid"));
}

#[tokio::test]
async fn a_full_disk_refuses_producers_and_nobody_else() {
    let world = with_topic().await;
    let later = world.later(3_600_000).await;
    let waiting = json!([{"payload": "later", "deliverAt": later}]);
    let id = world.produce("orders", waiting).await[0]["id"].as_str().unwrap().to_owned();
    let world = world.restart_with(|settings| settings.server.disk_free_min = Some(1 << 60)).await;
    let message = json!({"version": 1, "messages": [{"payload": ""}]});
    let grow = json!({"version": 1, "partitions": 3});
    let topic = json!({"version": 1, "name": "second"});
    for (path, body) in [
        (MESSAGES, message),
        ("/v1/streams/topics/orders/partitions", grow),
        ("/v1/streams/topics", topic),
    ] {
        let answer = world.post(path, &body).await;
        assert_eq!((answer.status, &*answer.code()), (507, "disk_low"), "{path}");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(world.payloads("orders", 0).await, ["a"]);
    let alter = json!({"version": 1, "retentionMs": 1_000});
    assert_eq!(world.send("PATCH", "/v1/streams/topics/orders", &alter).await.status, 200);
    assert_eq!(world.delete(&format!("/v1/streams/scheduled/{id}")).await.status, 200);
    assert_eq!(world.delete("/v1/streams/topics/orders").await.status, 200);
}
