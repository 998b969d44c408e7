//! `/v1/events/stream`

use std::time::Duration;

use handoff_server::http::Limits;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http_client::{PATIENCE, until, until_closed};
use crate::world::World;

/// A stream that is ready.
async fn watch(world: &World, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!("GET /v1/events/stream{query} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let read = until(&mut stream, "event: ready\ndata: {\"version\":1}\n\n").await;
    assert!(read.starts_with("HTTP/1.1 200 OK"), "{read}");
    assert!(read.contains("content-type: text/event-stream\r\n"), "{read}");
    assert!(read.contains("cache-control: no-store\r\n"), "{read}");
    stream
}

/// The lines of one kind.
fn lines<'a>(read: &'a str, prefix: &str) -> Vec<&'a str> {
    read.lines().filter_map(|line| line.strip_prefix(prefix)).collect()
}

/// The data of every notification that came whole.
fn data(read: &str) -> Vec<Value> {
    let data = lines(read, "data: ").into_iter();
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// Reads until so many notifications have come whole.
async fn told(stream: &mut TcpStream, count: usize) -> String {
    let mut read = String::new();
    while data(&read).len() < count {
        read.push_str(&until(stream, "\n\n").await);
    }
    read
}

async fn sessions(world: &World) -> u64 {
    world.get("/v1/events/stats").await.json()["sessions"].as_u64().unwrap()
}

#[tokio::test]
async fn occurrences_are_told_as_they_happen() {
    let world = World::start().await;
    let mut stream = watch(&world, "").await;
    let fields = r#""description":"tick","types":["b","a"],"periodSecs":0.1,"repeat":3"#;
    world.register(fields).await;
    let read = told(&mut stream, 3).await;
    assert_eq!(lines(&read, "event: "), ["notify", "notify", "notify"]);
    assert_eq!(lines(&read, "id: "), ["0-1", "0-2", "0-3"]);
    let told = data(&read);
    for (n, told) in told.iter().enumerate() {
        assert_eq!(told["version"], 1);
        assert_eq!(
            (told["id"].as_u64(), told["occurrence"].as_u64()),
            (Some(0), Some(n as u64 + 1))
        );
        assert_eq!(told["description"], "tick");
        assert_eq!(told["types"], serde_json::json!(["a", "b"]));
        assert_eq!(told["periodSecs"], 0.1);
        assert_eq!(told["repeat"].as_i64(), Some(3 - n as i64), "as it was before");
        assert_eq!(told["late"], false);
    }
    assert_eq!(told[1]["updatedAt"], told[0]["dueAt"]);
    assert_eq!(told[2]["updatedAt"], told[1]["dueAt"]);
    assert_eq!(world.get("/v1/events/0").await.code(), "event_not_found", "it ran out");
}

#[tokio::test]
async fn a_filter_tells_only_what_it_matches() {
    let world = World::start().await;
    for kind in ["red", "green", "blue"] {
        let fields = format!(r#""description":"","types":["{kind}"],"periodSecs":0.1"#);
        world.register(&fields).await;
    }
    for (query, first) in [("?type=green", 1), ("?id=2", 2), ("?type=gre%65n&id=1", 1)] {
        let mut stream = watch(&world, query).await;
        let read = told(&mut stream, 3).await;
        for told in data(&read) {
            assert_eq!(told["id"], first, "{query}");
        }
        let ids: std::collections::BTreeSet<&str> = lines(&read, "id: ").into_iter().collect();
        assert_eq!(ids.len(), lines(&read, "id: ").len(), "{query}: none twice");
    }
    // A type need not exist to be watched, an event must.
    watch(&world, "?type=yellow").await;
    let unknown = world.get("/v1/events/stream?type=red&id=9").await;
    assert_eq!((unknown.status, &*unknown.code()), (404, "event_not_found"));
}

#[tokio::test]
async fn everything_is_everything_in_sight() {
    let world = World::start_with(|settings| settings.auth.enabled = true).await;
    let admin = world.token(&["admin"]).await;
    let acme = world.token(&["events:acme.*"]).await;
    for kind in ["globex.b", "acme.a"] {
        let body =
            format!(r#"{{"version":1,"description":"","types":["{kind}"],"periodSecs":0.1}}"#);
        assert_eq!(world.ask(&admin, "POST", "/v1/events", &body).await.status, 201);
    }
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "GET /v1/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {acme}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&mut stream, "event: ready\ndata: {\"version\":1}\n\n").await;
    for told in data(&told(&mut stream, 3).await) {
        assert_eq!(told["types"], serde_json::json!(["acme.a"]));
    }
}

#[tokio::test]
async fn a_silent_stream_says_that_it_is_there() {
    let world = World::start().await;
    let brief = Duration::from_millis(20);
    world.app.set_limits(Limits { heartbeat: brief, ..world.app.limits() });
    let mut stream = watch(&world, "").await;
    until(&mut stream, ":\n\n").await;
    until(&mut stream, ":\n\n").await;
}

#[tokio::test]
async fn a_stream_outlives_every_time_limit() {
    let world = World::start().await;
    let brief = Duration::from_millis(50);
    world.app.set_limits(Limits {
        header_time_max: brief,
        request_time_max: brief,
        keep_alive: brief,
        heartbeat: Duration::from_millis(100),
        ..world.app.limits()
    });
    let mut stream = watch(&world, "").await;
    for _ in 0..5 {
        until(&mut stream, ":\n\n").await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_client() {
    let world = World::start().await;
    let brief = Duration::from_millis(20);
    world.app.set_limits(Limits { heartbeat: brief, ..world.app.limits() });
    let stream = watch(&world, "").await;
    assert_eq!(sessions(&world).await, 1);
    drop(stream);
    let left = async {
        while sessions(&world).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, left).await.expect("the session ends");
    let metrics = world.get("/metrics").await;
    assert!(metrics.text().contains("\nhandoff_http_streams 0\n"));
}

#[tokio::test]
async fn a_stream_is_told_why_it_ends() {
    let mut world = World::start().await;
    let mut stream = watch(&world, "").await;
    world.stop().await;
    let read = until_closed(&mut stream).await;
    assert!(
        read.contains("event: closed\ndata: {\"version\":1,\"reason\":\"stopping\"}\n\n"),
        "{read}"
    );

    let mut world = World::start().await;
    let mut stream = watch(&world, "").await;
    world.set_events(handoff_server::runtime::RoomStatus::Closed("a test".to_owned()));
    world.lose_events().await;
    until(&mut stream, "event: closed\ndata: {\"version\":1,\"reason\":\"closed\"}\n\n").await;
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::start_with(|settings| settings.auth.enabled = true).await;
    let brief = Duration::from_millis(20);
    world.app.set_limits(Limits { heartbeat: brief, ..world.app.limits() });
    let admin = world.token(&["admin"]).await;
    let made = r#"{"version":1,"name":"x","scopes":["events"]}"#;
    let made = world.ask(&admin, "POST", "/v1/tokens", made).await.json();
    let token = made["token"].as_str().unwrap();
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "GET /v1/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&mut stream, ":\n\n").await;
    until(&mut stream, ":\n\n").await;
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(world.ask(&admin, "DELETE", &path, "").await.status, 200);
    until(&mut stream, "event: closed\ndata: {\"version\":1,\"reason\":\"revoked\"}\n\n").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_ended_and_told() {
    let small = |settings: &mut handoff_server::settings::Settings| {
        settings.events.session_queue_bytes_max = 64 << 10;
        settings.events.bounds.period_min = handoff_types::Span::from_millis(1);
    };
    let world = World::start_with(small).await;
    let mut stream = watch(&world, "?type=flood").await;
    let long = "x".repeat(60_000);
    for _ in 0..8 {
        let fields = format!(r#""description":"{long}","types":["flood"],"periodSecs":0.02"#);
        world.register(&fields).await;
    }
    let ended = async {
        while world.get("/v1/events/stats").await.json()["slowSessions"] == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("the session is ended");
    let read = until_closed_or(&mut stream, "\"reason\":\"slow\"").await;
    assert!(read, "it is told why");
    assert_eq!(sessions(&world).await, 0);
}

/// Reads on until a text has come, keeping little of it.
async fn until_closed_or(stream: &mut TcpStream, text: &str) -> bool {
    use tokio::io::AsyncReadExt;
    let mut tail = String::new();
    let mut buffer = vec![0; 64 << 10];
    let waiting = async {
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            if count == 0 {
                return false;
            }
            tail.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
            if tail.contains(text) {
                return true;
            }
            tail = tail.split_off(tail.len().saturating_sub(100));
        }
    };
    timeout(PATIENCE, waiting).await.expect("it ends")
}

#[tokio::test]
async fn there_are_as_many_streams_as_sessions_and_as_large_filters_as_allowed() {
    let few = |settings: &mut handoff_server::settings::Settings| {
        settings.events.sessions_max = 1;
        settings.events.filter_entries_max = 2;
    };
    let world = World::start_with(few).await;
    let large = world.get("/v1/events/stream?type=a&type=b&type=c").await;
    assert_eq!((large.status, &*large.code()), (422, "filter_too_large"));
    let _stream = watch(&world, "?type=a&type=b").await;
    let busy = world.get("/v1/events/stream").await;
    assert_eq!((busy.status, &*busy.code()), (503, "server.busy"));
    assert_eq!(busy.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_head_of_a_stream_is_a_head() {
    let world = World::start().await;
    let answer = crate::http_client::ask(world.address, "HEAD", "/v1/events/stream", &[], "").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
}

#[tokio::test]
async fn a_stream_goes_through_http_2_beside_other_requests() {
    use http_body_util::{BodyExt, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let mut world = World::start().await;
    let socket = TcpStream::connect(world.address).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let get = |path: &str| {
        let uri = format!("http://localhost{path}");
        hyper::Request::get(uri).body(Empty::<bytes::Bytes>::new()).unwrap()
    };
    let response = sender.send_request(get("/v1/events/stream")).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"event: ready\n"));
    let other = sender.send_request(get("/v1/events/stats")).await.unwrap();
    assert_eq!(other.status(), 200);
    drop(other.into_body().collect().await.unwrap());
    world.register(r#""description":"","periodSecs":0.1,"repeat":1"#).await;
    let told = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(told.starts_with(b"event: notify\nid: 0-1\n"), "{told:?}");
    world.stop().await;
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.starts_with(b"event: closed\n"), "{rest:?}");
    timeout(PATIENCE, connection).await.expect("the connection ends").unwrap().unwrap();
}
