//! Requests that do not come to their end: cut off on their way (N6 of the crash matrix), or sent so
//! slowly that somebody waits for the rest (N7).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http_client::{until, until_closed};
use crate::world::{World, ids, is_ok, message, reply};

/// A connection that has sent the head of a request and some of its body.
async fn begun(world: &World, token: Option<&str>, asked: (&str, &str), body: &[u8]) -> TcpStream {
    let (method, path) = asked;
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} /v1/exchange/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body[..body.len() / 2]).await.unwrap();
    stream
}

/// What devices and ERPs may be cut off at: whose token, method, path, body.
fn requests(token: &str, process: &str) -> Vec<(Option<String>, &'static str, String, Value)> {
    let device = |method, path: &str, body| (Some(token.to_owned()), method, path.to_owned(), body);
    let erp =
        |method, path: &str, body| (None, method, format!("databases/erp1/processes{path}"), body);
    let verdicts = json!([{"messageId": "m-1", "status": "PROCESSED"}]);
    let replies = json!([reply("r-1", "phone-1", json!("x".repeat(500)))]);
    let prepare = json!({"version": 1, "verdicts": verdicts, "messages": replies});
    let words = json!({"version": 1, "error": "x".repeat(500)});
    vec![
        device("POST", "messages", message("m-2", json!("x".repeat(500)))),
        device("POST", "messages/ack", json!({"version": 1, "ids": ["r-0"]})),
        erp("PUT", &format!("/{process}/files"), json!({"version": 1, "files": ["m-1"]})),
        erp("PUT", &format!("/{process}/prepare"), prepare),
        erp("POST", &format!("/{process}/rollback"), words),
        erp("POST", &format!("/{process}/interrupt"), json!({"version": 1, "reason": "late"})),
    ]
}

#[tokio::test]
async fn a_body_that_is_cut_off_changes_nothing() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let (process, served) = world.started().await;
    let before = world.everything().await;
    for (token, method, path, body) in requests(&phone.token, &process) {
        let text = body.to_string();
        // The connection ends in the middle: nobody is there to be answered.
        let mut stream = begun(&world, token.as_deref(), (method, &path), text.as_bytes()).await;
        stream.shutdown().await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{method} {path}: {said}");
        // Half of it with a length that fits, as a broken proxy would send it.
        let half = text[..text.len() / 2].to_owned();
        let full_path = format!("/v1/exchange/{path}");
        let answer = world.ask_raw(token.as_deref(), method, &full_path, half).await;
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text());
        assert_eq!(answer.code(), "request.malformed");
        assert_eq!(world.everything().await, before, "{method} {path}");
    }
    assert!(is_ok(&world.prepare(&process, &served, json!([])).await), "the process is as it was");
}

#[tokio::test]
async fn whoever_is_slow_with_a_body_keeps_nobody_waiting_and_is_told_in_the_end() {
    let world = World::start_with(|settings| {
        settings.server.request_time_max = Duration::from_secs(2);
    })
    .await;
    let phone = world.phone("phone-1").await;
    world.send(&phone, "m-1", json!(1)).await;
    let (process, served) = world.started().await;
    let mut slow = Vec::new();
    for (token, method, path, body) in requests(&phone.token, &process) {
        let text = body.to_string();
        slow.push(begun(&world, token.as_deref(), (method, &path), text.as_bytes()).await);
    }
    // The same device, the same process.
    world.send(&phone, "m-3", json!(3)).await;
    let replies = json!([reply("r-2", "phone-1", json!(2))]);
    assert!(is_ok(&world.prepare(&process, &served, replies).await));
    assert!(is_ok(&world.commit(&process).await));
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-2"]);
    let after = world.everything().await;
    for stream in &mut slow {
        let said = until(stream, "\r\n\r\n").await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    }
    assert_eq!(world.everything().await, after);
}
