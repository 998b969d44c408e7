//! Bodies: their size, their pace, their format.

use std::time::Duration;

use handoff_server::http::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http_client::{ask, until, until_closed};
use crate::world::World;

const JSON: &str = "content-type: application/json\r\n";

/// A body of exactly so many bytes.
fn body_of(bytes: usize) -> String {
    let body = r#"{"version":1,"description":"x","periodSecs":3600}"#;
    format!("{body}{}", " ".repeat(bytes - body.len()))
}

/// The same in pieces whose lengths nobody announced.
fn chunked(body: &str) -> String {
    let mut text = String::new();
    for piece in body.as_bytes().chunks(100) {
        let piece = std::str::from_utf8(piece).unwrap();
        text.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    text.push_str("0\r\n\r\n");
    text
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_above_is_not() {
    let world = World::start_with(|settings| settings.server.body_bytes_max = 1_000).await;
    assert_eq!(world.post("/v1/events", &body_of(1_000)).await.status, 201);
    let answer = world.post("/v1/events", &body_of(1_001)).await;
    assert_eq!((answer.status, &*answer.code()), (413, "request.too_large"));
    assert!(answer.detail().contains("1000 bytes"));

    for (bytes, status) in [(1_000, "201 Created"), (1_001, "413 Payload Too Large")] {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(format!("{head}{}", chunked(&body_of(bytes))).as_bytes()).await.unwrap();
        let read = until(&mut stream, "}").await;
        assert!(read.starts_with(&format!("HTTP/1.1 {status}")), "{bytes}: {read}");
    }
    assert_eq!(world.listed("").await, [0, 1]);
}

#[tokio::test]
async fn whoever_asks_first_is_not_let_send_too_much() {
    let world = World::start_with(|settings| settings.server.body_bytes_max = 1_000).await;
    let head = |bytes| {
        format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}expect: 100-continue\r\ncontent-length: {bytes}\r\n\r\n"
        )
    };
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(head(1_001).as_bytes()).await.unwrap();
    let read = until(&mut stream, "}").await;
    assert!(read.starts_with("HTTP/1.1 413"), "{read}");

    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(head(1_000).as_bytes()).await.unwrap();
    until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
    stream.write_all(body_of(1_000).as_bytes()).await.unwrap();
    assert!(until(&mut stream, "}").await.starts_with("HTTP/1.1 201"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let world = World::start().await;
    let brief = Duration::from_millis(50);
    world.app.set_limits(Limits { request_time_max: brief, ..world.app.limits() });
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let read = until(&mut stream, "}").await;
    assert!(read.starts_with("HTTP/1.1 408 Request Timeout"), "{read}");
    assert!(read.contains("request.too_slow") && !read.contains("outcome"), "{read}");
    assert!(world.listed("").await.is_empty());
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let world = World::start().await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head =
        format!("POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 500\r\n\r\n");
    stream.write_all(format!("{head}{}", body_of(100)).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let read = until_closed(&mut stream).await;
    assert!(read.is_empty() || read.starts_with("HTTP/1.1 400"), "{read}");
    assert!(world.listed("").await.is_empty());
}

#[tokio::test]
async fn what_is_not_the_json_that_is_expected_is_refused_with_its_place() {
    let world = World::start().await;
    for (body, status, code, words) in [
        ("", 400, "request.malformed", "the body is empty"),
        ("{", 400, "request.malformed", "line 1 column 1"),
        ("{\"version\":1,\n \"description\" \"x\"}", 400, "request.malformed", "line 2 column 16"),
        ("description=x", 400, "request.malformed", "expected value at line 1 column 1"),
        ("null", 422, "request.invalid", "invalid type: null"),
        ("[1]", 422, "request.invalid", "it is an object"),
        ("{\"version\":1}", 422, "request.invalid", "missing field `description`"),
        (
            "{\"description\":\"x\",\"periodSecs\":1}",
            422,
            "request.invalid",
            "missing field `version`",
        ),
        (
            "{\"version\":1,\"descripton\":\"x\"}",
            422,
            "request.invalid",
            "did you mean `description`?",
        ),
        ("{\"version\":2,\"text\":\"x\"}", 422, "request.invalid", "version 2 is not known"),
        (
            "{\"version\":1,\"description\":7}",
            422,
            "request.invalid",
            "expected a string at line 1",
        ),
        (
            "{\"version\":1,\"description\":\"x\",\"repeat\":99999999999}",
            422,
            "request.invalid",
            "expected i32",
        ),
        (
            "{\"version\":1,\"description\":\"x\",\"repeat\":1.5}",
            422,
            "request.invalid",
            "expected i32",
        ),
        (
            "{\"version\":1,\"description\":\"x\",\"types\":\"a\"}",
            422,
            "request.invalid",
            "expected a sequence",
        ),
        (
            "{\"version\":1,\"description\":\"x\",\"periodSecs\":1e999}",
            400,
            "request.malformed",
            "number out of range",
        ),
    ] {
        let answer = world.post("/v1/events", body).await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{body}");
        assert!(answer.detail().contains(words), "{body}: {}", answer.detail());
    }
    let deep = "[".repeat(100_000);
    let answer = world.post("/v1/events", &format!("{{\"version\":{deep}")).await;
    assert!([400, 422].contains(&answer.status), "{}", answer.text());
    let answer =
        crate::http_client::post(world.address, "/v1/events", &b"{\"version\":\xff}"[..]).await;
    assert_eq!((answer.status, &*answer.code()), (400, "request.malformed"));
}

#[tokio::test]
async fn a_body_in_another_format_is_refused() {
    let world = World::start().await;
    let body = body_of(100);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""]
    {
        let headers = [("content-type", kind)];
        let answer = ask(world.address, "POST", "/v1/events", &headers, body.clone()).await;
        assert_eq!((answer.status, &*answer.code()), (415, "request.wrong_media_type"), "{kind}");
    }
    let answer = ask(world.address, "POST", "/v1/events", &[], body.clone()).await;
    assert!(answer.detail().contains("Content-Type is missing"), "{}", answer.detail());
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        let headers = [("content-type", kind)];
        let answer = ask(world.address, "POST", "/v1/events", &headers, body.clone()).await;
        assert_eq!(answer.status, 201, "{kind}");
    }
}

#[tokio::test]
async fn pipelined_registrations_are_answered_in_order() {
    let world = World::start().await;
    let body = body_of(80);
    let mut asked = String::new();
    for _ in 0..30 {
        asked.push_str(&format!(
            "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: {}\r\n\r\n{body}",
            body.len()
        ));
    }
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(asked.as_bytes()).await.unwrap();
    let read = until(&mut stream, "\"id\":29,").await;
    let places: Vec<&str> =
        read.lines().filter_map(|line| line.strip_prefix("location: /v1/events/")).collect();
    assert_eq!(places, (0..30).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_request_under_way_is_finished_when_the_server_stops() {
    let mut world = World::start().await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let body = body_of(100);
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\n{JSON}expect: 100-continue\r\ncontent-length: 100\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The handler reads the body: it is under way.
    until(&mut stream, "100 Continue\r\n\r\n").await;
    world.stop.cancel();
    let stopping = world.stop();
    let finishing = async {
        stream.write_all(body.as_bytes()).await.unwrap();
        until_closed(&mut stream).await
    };
    let ((), read) = tokio::join!(stopping, finishing);
    assert!(read.starts_with("HTTP/1.1 201 Created"), "{read}");
    assert!(read.contains("connection: close"), "{read}");
}
