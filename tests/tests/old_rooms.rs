//! A server opens the rooms that earlier versions left: `fixtures/rooms/`. A directory there is
//! never written again.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::fixture::copy;
use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::served::{PATIENCE, Served, lair};
use handoff_tests::workspace;
use serde_json::{Value, json};

fn ask(http: &mut Http, method: &str, path: &str, body: Option<&Value>) -> Value {
    let answer = http.ask(method, path, body).unwrap();
    let words = String::from_utf8_lossy(&answer.body);
    assert!((200..300).contains(&answer.status), "{method} {path}: {words}");
    answer.json().unwrap()
}

/// Id, types, when, what is left, and occurrences so far, of each event.
fn events(http: &mut Http) -> Vec<String> {
    let page = ask(http, "GET", "/v1/events", None);
    let line = |event: &Value| {
        let words = event["description"].as_str().unwrap().chars().take(24).collect::<String>();
        let when = match event.get("cron").or_else(|| event.get("at")) {
            Some(when) => format!("{} {}", when, event["timeZone"]),
            None => event["periodSecs"].to_string(),
        };
        format!("{} {} {when} {} {words}", event["id"], event["types"], event["repeat"])
    };
    page["events"].as_array().unwrap().iter().map(line).collect()
}

const EVENTS: [&str; 7] = [
    r#"0 ["yearly"] "0 0 1 1 *" "Europe/Minsk" -1 happy new year"#,
    r#"1 ["both","slow"] 2592000000.0 -1 once in a lifetime"#,
    r#"2 ["both"] "2100-01-01T00:00:00Z" null 1 the end of a century"#,
    r#"5 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"6 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"7 ["many"] 2592000000.0 -1 xxxxxxxxxxxxxxxxxxxxxxxx"#,
    r#"8 ["last"] 2592000000.0 -1 behind the checkpoint"#,
];

#[test]
fn events_and_tokens_from_before_events_were_published_are_there_and_go_on() {
    let place = Place::temporary().expect("the temporary directory takes files");
    let fixture = workspace::root().join("fixtures/rooms/1-events-and-house/data");
    copy(&fixture, &place.path().join("data")).unwrap();
    let small = ["journal_bytes_max=1MiB", "journal_file_bytes=256KiB"];
    let lair = lair(place.path());
    let lair = small.iter().fold(lair, |lair, set| lair.with(&format!("--set=log.{set}")));
    let lair = lair.with("--set=log.journal_reserve_bytes=64KiB");
    let lair = lair.with("--set=log.change_bytes_max=128KiB");
    for life in 0..2 {
        let served = Served::start(&lair).unwrap();
        let mut http = Http::connect(served.http, PATIENCE).unwrap();
        let mut found = events(&mut http);
        found.retain(|line| !line.contains("published"));
        assert_eq!(found, EVENTS);
        let tokens = ask(&mut http, "GET", "/v1/tokens", None);
        assert_eq!(tokens["tokens"].as_array().unwrap().len(), 1, "{tokens}");
        assert_eq!(tokens["tokens"][0]["name"], "keeper");
        let stats = ask(&mut http, "GET", "/v1/events/stats", None);
        assert_eq!(stats["finished"], 1);
        let name = format!("topic-{life}");
        let topic = json!({"version": 1, "name": name, "partitions": 1});
        ask(&mut http, "POST", "/v1/streams/topics", Some(&topic));
        let event = json!({"version": 1, "description": "published", "types": ["new"],
            "periodSecs": 1e9, "publish": name});
        let registered = ask(&mut http, "POST", "/v1/events", Some(&event));
        assert_eq!(registered["id"], 9 + life);
        served.stop().unwrap();
    }
}
