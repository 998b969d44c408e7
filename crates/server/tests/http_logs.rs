//! What a request leaves in the log. The log is the process's, so there is one test.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod http_client;

use std::sync::Arc;
use std::time::Duration;

use handoff_server::http::{App, Limits, serve};
use handoff_server::runtime::Readiness;
use handoff_server::settings::{LogFormat, Settings};
use handoff_server::telemetry::{self, LogHandle, Metrics};
use http_client::ask;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn lines(logs: &LogHandle, message: &str) -> Vec<Value> {
    let lines = logs.recent();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["message"] == message).collect()
}

#[tokio::test]
async fn requests_are_logged_with_their_id_and_trace_and_without_their_secrets() {
    let logs = telemetry::init(LogFormat::Json, "info").unwrap();
    assert!(telemetry::init(LogFormat::Text, "info").is_err(), "a process has one log");
    let metrics = Arc::new(Metrics::new("1"));
    let readiness = Readiness::new();
    let app = App::new(&Settings::default(), "1", readiness, metrics, logs.clone());
    app.set_limits(Limits { access_log: true, ..app.limits() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = tokio::spawn(serve(listener, None, Arc::clone(&app), CancellationToken::new()));

    let headers = [
        ("x-request-id", "order-7"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("authorization", "Bearer hf_secret"),
    ];
    ask(address, "GET", "/v1/events?type=secret", &headers, "").await;
    let access = lines(&logs, "request");
    assert_eq!(access.len(), 1, "{access:?}");
    let line = &access[0];
    assert_eq!(line["span"]["request_id"], "order-7", "{line}");
    assert_eq!(line["span"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{line}");
    assert_eq!((&line["method"], &line["path"]), (&"GET".into(), &"/v1/events".into()));
    assert_eq!((&line["status"], &line["level"]), (&503.into(), &"INFO".into()));
    assert!(!logs.recent().concat().contains("secret"));

    // Off, there are no lines; slow requests have theirs all the same.
    let limits = Limits { access_log: false, slow: Duration::ZERO, ..app.limits() };
    app.set_limits(limits);
    ask(address, "GET", "/readyz", &[], "").await;
    assert_eq!(lines(&logs, "request").len(), 1);
    let slow = lines(&logs, "slow request");
    assert_eq!((slow.len(), &slow[0]["route"]), (1, &"/readyz".into()), "{slow:?}");
    assert_eq!(slow[0]["span"]["request_id"].as_str().unwrap().len(), 16);

    // The level is changed while the server runs, and a bad one changes nothing.
    logs.set_level("error").unwrap();
    assert!(logs.set_level("eror").is_err());
    ask(address, "GET", "/readyz", &[], "").await;
    assert_eq!(lines(&logs, "slow request").len(), 1);
    logs.set_level("info,handoff_server=debug").unwrap();
    ask(address, "GET", "/readyz", &[], "").await;
    assert_eq!(lines(&logs, "slow request").len(), 2);

    // A proxy is warned of once.
    for _ in 0..3 {
        ask(address, "GET", "/readyz", &[("forwarded", "for=203.0.113.7")], "").await;
    }
    let warned = logs.recent().iter().filter(|line| line.contains("set auth.enabled")).count();
    assert_eq!(warned, 1);

    // Panics are lines too.
    let panicked = std::thread::spawn(|| panic!("on purpose")).join();
    assert!(panicked.is_err());
    let panics = lines(&logs, "panicked");
    assert_eq!(panics[0]["panic"], "on purpose");
    assert!(panics[0]["at"].as_str().unwrap().contains("http_logs.rs"), "{panics:?}");
}
