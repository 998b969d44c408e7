//! The real server as the receiver: what it forgets, who may come, and what people see.

use std::fs;
use std::path::Path;
use std::time::Duration;

use handoff_tests::http::Http;
use handoff_tests::place::Place;
use handoff_tests::relay::samples::Taken;
use handoff_tests::relay::{Agent, Den, Reception, samples_of, wait};
use handoff_tests::served::{PATIENCE, Served};
use serde_json::Value;

/// An agent's directory and a receiver's.
fn both(place: &Place) -> (Den, Reception) {
    let (edge, centre) = (place.path().join("edge"), place.path().join("centre"));
    fs::create_dir_all(&edge).unwrap();
    fs::create_dir_all(&centre).unwrap();
    let reception = Reception::new(&centre).unwrap();
    (Den::new(&edge, &[("centre", reception.relay)]).unwrap(), reception)
}

fn samples(numbers: std::ops::Range<i64>) -> Vec<Taken> {
    numbers.map(|n| (format!("s{}", n % 3), n, n.cast_unsigned())).collect()
}

fn send(agent: &Agent, samples: &[Taken]) {
    assert_eq!(agent.post(samples).unwrap().status, 204);
}

/// Waits until the topic has these samples, each once, and no others.
#[track_caller]
fn expect(server: &Served, samples: &[Taken]) {
    // nextest ends a test that waits for ever.
    while samples_of(server.http).unwrap().len() < samples.len() {
        wait(Duration::from_millis(20));
    }
    let found = samples_of(server.http).unwrap();
    for sample in samples {
        assert_eq!(found.get(sample), Some(&1), "{sample:?}");
    }
    assert_eq!(found.len(), samples.len(), "there are others");
}

fn ask(server: &Served, path: &str) -> Value {
    Http::connect(server.http, PATIENCE).unwrap().ask("GET", path, None).unwrap().json().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

#[test]
fn a_receiver_that_is_restarted_asks_for_a_key_frame_and_doubles_nothing() {
    let place = Place::temporary().unwrap();
    let (den, reception) = both(&place);
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let all = samples(0..300);
    send(&agent, &all[..100]);
    expect(&server, &all[..100]);
    server.stop().unwrap();
    let server = reception.start().unwrap();
    send(&agent, &all[100..200]);
    drop(server);
    let server = reception.start().unwrap();
    send(&agent, &all[200..]);
    expect(&server, &all);
    agent.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_receiver_without_its_directory_goes_on_by_itself_and_says_what_it_does_not_have() {
    let place = Place::temporary().unwrap();
    let (den, reception) = both(&place);
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let all = samples(0..300);
    send(&agent, &all[..100]);
    expect(&server, &all[..100]);
    drop(server);
    fs::remove_dir_all(reception.data_dir()).unwrap();
    send(&agent, &all[100..200]);
    let server = reception.start().unwrap();
    send(&agent, &all[200..]);
    // What was confirmed was in the directory that is gone; everything else is there.
    expect(&server, &all[100..]);
    den.wait_until(<[String]>::is_empty);
    let missing = ask(&server, "/v1/relay/agents/edge")["missing"].as_u64().unwrap();
    assert!(missing > 0, "nobody is told");
    agent.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_receiver_restored_from_an_older_copy_goes_on_from_there_and_doubles_nothing() {
    let place = Place::temporary().unwrap();
    let (den, reception) = both(&place);
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let all = samples(0..400);
    send(&agent, &all[..100]);
    expect(&server, &all[..100]);
    server.stop().unwrap();
    let older = place.path().join("older");
    copy(reception.data_dir(), &older);
    let server = reception.start().unwrap();
    send(&agent, &all[100..200]);
    expect(&server, &all[..200]);
    drop(server);
    fs::remove_dir_all(reception.data_dir()).unwrap();
    copy(&older, reception.data_dir());
    send(&agent, &all[200..300]);
    let server = reception.start().unwrap();
    send(&agent, &all[300..]);
    den.wait_until(<[String]>::is_empty);
    let found = samples_of(server.http).unwrap();
    assert_eq!(found.values().find(|times| **times > 1), None, "each once");
    let not_there = all.iter().filter(|sample| !found.contains_key(*sample));
    let lost: Vec<&Taken> = not_there.collect();
    let confirmed_meanwhile: Vec<&Taken> = all[100..200].iter().collect();
    assert!(lost.iter().all(|sample| confirmed_meanwhile.contains(sample)), "{lost:?}");
    agent.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_receiver_whose_disk_is_full_confirms_nothing_and_loses_nothing() {
    let place = Place::temporary().unwrap();
    let (den, reception) = both(&place);
    let full = reception.clone().set("HANDOFF_SERVER__DISK_FREE_MIN", "1000TiB");
    let server = full.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let all = samples(0..100);
    send(&agent, &all);
    den.wait_until(|files| !files.is_empty());
    assert_eq!(samples_of(server.http).unwrap().len(), 0);
    let trouble = ask(&server, "/v1/relay/agents/edge")["trouble"].to_string();
    assert!(trouble.contains("disk"), "{trouble}");
    server.stop().unwrap();
    let server = reception.start().unwrap();
    expect(&server, &all);
    den.wait_until(<[String]>::is_empty);
    agent.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn agents_are_listed_with_what_they_say_of_themselves() {
    let place = Place::temporary().unwrap();
    let (den, reception) = both(&place);
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let all = samples(0..50);
    send(&agent, &all);
    expect(&server, &all);
    let told = || ask(&server, "/v1/relay/agents/edge")["told"].clone();
    while told().is_null() {
        wait(Duration::from_millis(20));
    }
    let listed = ask(&server, "/v1/relay/agents");
    let one = &listed["agents"][0];
    assert_eq!((&one["agent"], &one["connected"]), (&"edge".into(), &true.into()));
    assert_eq!(one["samples"], 50);
    assert_eq!(one["sessions"][0]["backlog"], false);
    assert_eq!(one["told"]["destinations"][0]["name"], "centre");
    assert_eq!(one["told"]["destinations"][0]["connected"], true);
    assert_eq!(listed["sinks"][0]["name"], "topic metrics");
    let nobody = Http::connect(server.http, PATIENCE).unwrap();
    let answer = { nobody }.ask("GET", "/v1/relay/agents/nobody", None).unwrap();
    assert_eq!(answer.status, 404);
    agent.stop().unwrap();
    server.stop().unwrap();
}

/// A token of this scope, made while the server is stopped, in a file.
fn token(reception: &Reception, place: &Place, scope: &str) -> std::path::PathBuf {
    let mut command = std::process::Command::new(handoff_tests::served::program());
    command.args(["token", "create", "--name", "agent", "--scope", scope, "--data-dir"]);
    let made = command.arg(reception.data_dir()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = place.path().join("token");
    fs::write(&file, made.stdout).unwrap();
    file
}

#[test]
fn an_agent_is_received_by_a_token_for_its_name_and_by_no_other() {
    for (scope, is_let_in) in [("relay:edge", true), ("relay:other", false), ("streams", false)] {
        let place = Place::temporary().unwrap();
        let (den, reception) = both(&place);
        let file = token(&reception, &place, scope);
        let config = place.path().join("edge/relay.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{text}token_file = \"{}\"\n", file.display())).unwrap();
        let server = reception.set("HANDOFF_AUTH__ENABLED", "true").start().unwrap();
        let agent = den.agent(&[]).unwrap();
        send(&agent, &samples(0..10));
        let line = "handoff_relay_destination_confirmations_total{destination=\"centre\"}";
        assert_eq!(agent.count(line).unwrap() > 0, is_let_in, "{scope}");
        assert_eq!(den.files().unwrap().is_empty(), is_let_in, "{scope}");
        drop(agent);
        server.stop().unwrap();
    }
}
