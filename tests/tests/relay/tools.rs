//! `handoff relay inspect` and `handoff relay replay`.

use std::process::{Command, Output};

use handoff_tests::relay::{Centre, Manner};
use handoff_tests::served::program;
use serde_json::Value;

use crate::world::World;

fn relay(arguments: &[&str]) -> Output {
    Command::new(program()).arg("relay").args(arguments).output().unwrap()
}

/// A file with everything that was sent, and no agent any more.
fn left() -> (World, String) {
    let mut world = World::new(1, &["--set", "relay.shards=2"]);
    world.centres[0].behave(Manner::Gone);
    world.send(300);
    world.agent.take().unwrap().stop().unwrap();
    let files = world.den.files().unwrap();
    let path = world.den.spool().join(&files[0]);
    (world, path.to_str().unwrap().to_owned())
}

#[test]
fn a_file_is_shown_without_being_touched() {
    let (_world, file) = left();
    let before = std::fs::read(&file).unwrap();
    let output = relay(&["inspect", &file, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["destinations"], serde_json::json!(["one"]));
    assert_eq!(shown["delivered"], false);
    assert_eq!(shown["shards"].as_array().unwrap().len(), 2);
    assert!(shown["shards"][0]["segments"].as_u64().unwrap() > 0);
    let words = relay(&["inspect", &file]);
    assert!(String::from_utf8_lossy(&words.stdout).contains("one none"));
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_file_a_missing_one_and_something_else_are_told_apart() {
    let (world, file) = left();
    let missing = relay(&["inspect", "nowhere.refill"]);
    assert_eq!(missing.status.code(), Some(3));
    let other = world.place.path().join("other");
    std::fs::write(&other, "something else").unwrap();
    let other = relay(&["inspect", other.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("no refill file"));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = relay(&["inspect", &file]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("damaged"));
}

#[test]
fn a_file_that_is_replayed_arrives_once_however_often_it_is_replayed() {
    let (world, file) = left();
    let centre = Centre::new().unwrap();
    let to = format!("handoff://{}", centre.address);
    for _ in 0..3 {
        let output = relay(&["replay", &file, "--to", &to, "--agent", "edge", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["segments"], told["confirmed"]);
        assert_eq!(told["skipped"], 0);
    }
    centre.assert_exactly(&world.sent);
}

#[test]
fn a_receiver_that_is_not_there_is_said_with_what_to_do() {
    let (world, file) = left();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = format!("handoff://{nobody}");
    let output = relay(&["replay", &file, "--to", &to, "--agent", "edge"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("run it again"));
    let output = relay(&["replay", &file, "--to", "http://x", "--agent", "edge"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("handoff://HOST:PORT"));
    drop(world);
}

#[test]
fn a_replay_that_fails_says_so_and_leaves_the_file_as_it_was() {
    use handoff_relay::session::Reason;

    let (world, file) = left();
    let before = std::fs::read(&file).unwrap();
    let centre = Centre::new().unwrap();
    let to = format!("handoff://{}", centre.address);
    let failures = [
        Manner::Gone,
        // Before anything is there: of what is, nobody has to be told.
        Manner::Refuses(Reason::Unauthorized),
        Manner::Cuts(10, usize::MAX),
        Manner::Cuts(200, usize::MAX),
        Manner::Cuts(usize::MAX, 20),
        Manner::Cuts(usize::MAX, 60),
    ];
    for manner in failures {
        centre.behave(manner);
        let output = relay(&["replay", &file, "--to", &to, "--agent", "edge"]);
        assert!(!output.status.success(), "{manner:?}");
        assert_eq!(std::fs::read(&file).unwrap(), before, "{manner:?}");
    }
    centre.behave(Manner::Takes);
    let output = relay(&["replay", &file, "--to", &to, "--agent", "edge"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    centre.assert_exactly(&world.sent);
}
