//! What is not understood is refused with code 2, and helps.

use std::io::Read as _;
use std::process::Stdio;

use crate::program::Place;

#[test]
fn a_flag_that_is_not_there_is_refused_with_what_was_meant() {
    let place = Place::new();
    place.run(&["serve", "--listn", "127.0.0.1:0"]).ended(2).said(&["--listn", "--listen"]);
    place.run(&["event", "ad"]).ended(2).said(&["'ad'", "add"]);
    place.run(&["frobnicate"]).ended(2).said(&["frobnicate", "--help"]);
    place.run(&[]).ended(2).said(&["Usage"]);
    place.run(&["event"]).ended(2).said(&["Usage"]);
}

#[test]
fn a_value_that_cannot_be_read_is_refused_with_an_example() {
    let place = Place::new();
    place.run(&["event", "add", "--every", "10", "x"]).ended(2).said(&["no unit", "1h30m"]);
    place.run(&["event", "add", "x"]).ended(2).said(&["--every", "--cron", "--at"]);
    place.run(&["event", "add", "--at", "tomorrow", "x"]).ended(2).said(&["2027-01-01T00:00:00Z"]);
    place.run(&["event", "show", "first"]).ended(2).said(&["first"]);
    place.run(&["serve", "--listen", "localhost"]).ended(2).said(&["--listen"]);
    place.run(&["serve", "--set", "log_level=debug"]).ended(2).said(&["server.log_level=debug"]);
    place
        .run(&["token", "create", "--name", "x", "--scope", "evnts"])
        .ended(2)
        .said(&["is no scope"]);
    place
        .run(&["--url", "localhost:7070", "event", "list"])
        .ended(2)
        .said(&["http://127.0.0.1:7070"]);
    place
        .run(&["--token", "a", "--token-file", "b", "audit"])
        .ended(2)
        .said(&["cannot be used with"]);
}

#[test]
fn help_and_version_go_to_stdout() {
    let place = Place::new();
    place.run(&["--help"]).ended(0).printed(&["serve", "doctor", "Exit codes"]);
    place.run(&["event", "add", "--help"]).ended(0).printed(&["Examples:", "--cron"]);
    place.run(&["--version"]).ended(0).printed(&["handoff 0."]);
    let version = place.run(&["version", "--json"]).ended(0).json();
    assert!(version["timeZones"].as_str().unwrap().starts_with("20"), "{version}");
}

#[test]
fn completions_are_there_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        place.run(&["completions", shell]).ended(0).printed(&["handoff", "doctor"]);
    }
    place.run(&["completions", "tcsh"]).ended(2).said(&["bash"]);
}

#[test]
fn no_server_is_unavailable_and_says_what_to_do() {
    let place = Place::new();
    // A port that was free a moment ago; nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for verb in
        [&["event", "list"][..], &["event", "watch"], &["audit"], &["token", "list"], &["health"]]
    {
        let arguments: Vec<&str> = ["--url", &url].iter().chain(verb).copied().collect();
        place.run(&arguments).ended(5).said(&[&url, "handoff serve"]);
    }
}

#[test]
fn a_token_file_that_is_not_there_is_named() {
    let place = Place::new();
    place.run(&["--token-file", "nowhere", "audit"]).ended(1).said(&["nowhere"]);
    let place = Place::new().variable("HANDOFF_CA_FILE", "/nowhere/ca.pem");
    place.run(&["--url", "https://127.0.0.1:1", "audit"]).ended(2).said(&["/nowhere/ca.pem"]);
}

#[test]
fn whoever_stops_reading_has_had_enough() {
    let place = Place::new();
    let mut child = place
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{talk}");
    assert_eq!(talk, "");
}
