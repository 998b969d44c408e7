//! The real binary, killed again and again while events are published to a topic: the topic has
//! each occurrence once, in order, and their numbers have no hole.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use handoff_sim::dice::Dice;
use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::served::{PATIENCE, Served, lair};
use serde_json::{Value, json};

const EVENTS: u64 = 4;
const KILLS: usize = 12;

fn ask(http: &mut Http, method: &str, path: &str, body: Option<&Value>) -> Value {
    let answer = http.ask(method, path, body).unwrap();
    let words = String::from_utf8_lossy(&answer.body);
    assert!((200..300).contains(&answer.status), "{method} {path}: {words}");
    answer.json().unwrap()
}

/// A page of the topic's messages from an offset on.
fn read(http: &mut Http, offset: usize, wait_ms: u32) -> Vec<Value> {
    let topic = "/v1/streams/topics/ticks/partitions/0";
    let path = format!("{topic}/messages?offset={offset}&waitMs={wait_ms}");
    let page = ask(http, "GET", &path, None);
    page["messages"].as_array().unwrap().clone()
}

/// Everything in the topic.
fn read_all(http: &mut Http) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = read(http, all.len(), 0);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[test]
fn every_occurrence_is_in_its_topic_once_whenever_the_server_is_killed() {
    let mut dice = Dice::new(5);
    let place = Place::temporary().expect("the temporary directory takes files");
    // What a kill makes late is told too, so that every number must be there.
    let lair = lair(place.path()).with("--set=events.catch_up=all");
    let mut served = Served::start(&lair).unwrap();
    let mut http = Http::connect(served.http, PATIENCE).unwrap();
    let topic = json!({"version": 1, "name": "ticks", "partitions": 1});
    ask(&mut http, "POST", "/v1/streams/topics", Some(&topic));
    for n in 0..EVENTS {
        let event = json!({"version": 1, "description": format!("event {n}"), "types": ["tick"],
            "periodSecs": 0.1, "publish": "ticks"});
        ask(&mut http, "POST", "/v1/events", Some(&event));
    }
    let mut found: Vec<Value> = Vec::new();
    for kill in 0..KILLS {
        let wanted = found.len() + usize::try_from(EVENTS + dice.below(8)).unwrap();
        while found.len() < wanted {
            let more = read(&mut http, found.len(), 10_000);
            found.extend(more);
        }
        // Anywhere between one occurrence and the next.
        served.prey.listen(Duration::from_micros(dice.below(100_000)));
        served.prey.kill().unwrap();
        served.prey.ended().unwrap();
        served = Served::start(&lair).unwrap();
        http = Http::connect(served.http, PATIENCE).unwrap();
        let again = read_all(&mut http);
        assert!(again.len() >= found.len(), "kill {kill}: messages are lost");
        assert_eq!(again[..found.len()], found, "kill {kill}: what was read has changed");
        found = again;
    }
    ask(&mut http, "DELETE", "/v1/events?type=tick", None);
    let stats = loop {
        let stats = ask(&mut http, "GET", "/v1/events/stats", None);
        if stats["publishWaiting"] == 0 {
            break stats;
        }
    };
    assert_eq!((&stats["dead"], &stats["skipped"]), (&json!(0), &json!(0)), "{stats}");
    let found = read_all(&mut http);
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for message in &found {
        let payload: Value = serde_json::from_str(message["payload"].as_str().unwrap()).unwrap();
        let number = payload["number"].as_u64().unwrap();
        numbers.entry(payload["id"].as_u64().unwrap()).or_default().push(number);
    }
    assert_eq!(numbers.len() as u64, EVENTS);
    for (id, numbers) in numbers {
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "event {id}: {numbers:?}");
    }
    assert_eq!(found.len() as u64, stats["occurred"].as_u64().unwrap(), "each once");
    served.stop().unwrap();
}
