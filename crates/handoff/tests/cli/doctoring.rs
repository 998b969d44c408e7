//! The doctor: finds what is wrong, changes nothing, and repairs when asked to.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{Place, names};

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    let found = all.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("nothing about {check} in {report:#}"))
}

/// Ports that nobody uses.
const FREE: [&str; 6] = [
    "--set",
    "server.listen=127.0.0.1:0",
    "--set",
    "events.listen=127.0.0.1:0",
    "--set",
    "relay.listen=127.0.0.1:0",
];

fn doctor<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    ["doctor", "--json"].iter().chain(&FREE).chain(flags).copied().collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn fixture(place: &Place, name: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).join("data");
    copy(&from, &place.path("data"));
}

/// Every file of a directory and its bytes, the lock aside.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in names(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            let below = contents(&path).into_iter();
            all.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else if name != "LOCK" {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
    all
}

#[test]
fn a_machine_on_which_nothing_was_started_yet_is_sound() {
    let place = Place::small();
    let report = place.run(&doctor(&[])).ended(0).json();
    assert_eq!(report["failed"], 0);
    assert_eq!(finding(&report, "data directory")["verdict"], "ok");
    assert_eq!(finding(&report, "journal")["verdict"], "skip");
    assert_eq!(finding(&report, "time zones")["verdict"], "ok");
    assert_eq!(names(&place.path("")), [] as [&str; 0], "nothing is left behind");
    let text: Vec<&str> = ["doctor"].iter().chain(&FREE).copied().collect();
    place.run(&text).ended(0).printed(&["ok    data directory", "sync speed"]);
}

#[test]
fn a_broken_configuration_is_a_finding() {
    let place = Place::small();
    place.file("handoff.toml", "[server]\nlisen = 1\n");
    let report = place.run(&doctor(&[])).ended(1).json();
    assert_eq!(finding(&report, "configuration")["verdict"], "fail");
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(1).json();
    assert_eq!(finding(&report, "data directory")["verdict"], "ok");
}

#[test]
fn a_port_that_is_taken_is_told_with_who_has_it() {
    let place = Place::small();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let set = format!("server.listen={}", taken.local_addr().unwrap());
    let report = place.run(&doctor(&["--set", &set])).ended(1).json();
    let found = finding(&report, "server.listen");
    assert_eq!(found["verdict"], "fail");
    assert!(found["remedy"].is_string(), "{found}");
}

#[test]
fn a_directory_that_is_none_of_ours_is_told() {
    let place = Place::small();
    place.file("data", "a file");
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(1).json();
    assert_eq!(finding(&report, "data directory")["verdict"], "fail");
    let place = Place::small();
    fixture(&place, "2-from-the-future");
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(1).json();
    let found = finding(&report, "data directory");
    assert!(found["what"].as_str().unwrap().contains("newer version"), "{found}");
}

#[test]
fn looking_changes_nothing_even_if_something_is_damaged() {
    for (name, verdict) in [("1/sound", "ok"), ("1/torn-tail", "ok"), ("1/flipped-record", "fail")]
    {
        let place = Place::small();
        fixture(&place, name);
        let before = contents(&place.path("data"));
        let ran = place.run(&doctor(&["--data-dir", "data"]));
        let report = ran.json();
        assert_eq!(finding(&report, "journal")["verdict"], verdict, "{name}: {report:#}");
        assert!(contents(&place.path("data")) == before, "{name} was changed");
    }
    let place = Place::small();
    fixture(&place, "1/damaged-checkpoint");
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(1).json();
    assert_eq!(finding(&report, "checkpoint")["verdict"], "fail");
    let place = Place::small();
    fixture(&place, "1/lost-header");
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(1).json();
    assert_eq!(finding(&report, "journal")["verdict"], "fail");
}

#[test]
fn a_repair_asks_first_then_sets_the_damage_aside_and_notes_it() {
    let place = Place::small();
    fixture(&place, "1/flipped-record");
    let before = contents(&place.path("data"));
    let repair = ["doctor", "--data-dir", "data", "--repair"];
    place.run(&repair).ended(4).said(&["set aside", "counter lost records", "--yes"]);
    assert!(contents(&place.path("data")) == before, "nothing happened without an answer");

    let ran = place.run(&[&repair[..], &["--yes"]].concat()).ended(0).printed(&["quarantine/"]);
    for file in ran.lines() {
        assert!(place.path("data").join(file).exists(), "{file}");
    }
    let report = place.run(&doctor(&["--data-dir", "data"])).ended(0).json();
    assert_ne!(finding(&report, "journal")["verdict"], "fail");
    place.run(&repair).ended(0).said(&["nothing to repair"]);
    let server = place.serve(&[]);
    place.run(&["--url", &server.url, "audit"]).ended(0).printed(&["local", "counter"]);
}

#[test]
fn what_no_repair_can_mend_is_told() {
    for name in ["1/damaged-checkpoint", "1/lost-header"] {
        let place = Place::small();
        fixture(&place, name);
        let before = contents(&place.path("data"));
        let repair = ["doctor", "--data-dir", "data", "--repair", "--yes"];
        place.run(&repair).ended(1).said(&["no repair can mend this", "backup"]);
        assert!(contents(&place.path("data")) == before, "{name} was changed");
    }
}

#[test]
fn a_server_that_runs_is_asked_and_its_directory_left_alone() {
    let place = Place::small();
    let server = place.serve(&[]);
    let http = server.ready["listeners"]["http"].as_str().unwrap();
    let set = format!("server.listen={http}");
    let report = place.run(&doctor(&["--data-dir", "data", "--set", &set])).ended(0).json();
    let holder = format!("process {}", server.id());
    assert!(finding(&report, "lock")["what"].as_str().unwrap().contains(&holder), "{report:#}");
    assert_eq!(finding(&report, "journal")["verdict"], "skip");
    assert_eq!(finding(&report, "server.listen")["verdict"], "ok");
    assert_eq!(finding(&report, "server")["verdict"], "ok");
    place
        .run(&["doctor", "--data-dir", "data", "--repair", "--yes"])
        .ended(4)
        .said(&["in use", &holder]);
}

#[test]
fn a_proxy_before_a_server_without_locks_is_told() {
    use std::io::{Read as _, Write as _};
    let place = Place::small();
    let server = place.serve(&[]);
    let http = server.ready["listeners"]["http"].as_str().unwrap();
    let mut stream = std::net::TcpStream::connect(http).unwrap();
    stream
        .write_all(b"GET /v1/server HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.1\r\nconnection: close\r\n\r\n")
        .unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    let report = place.run(&doctor(&["--data-dir", "data", "--url", &server.url])).json();
    assert_eq!(finding(&report, "proxy")["verdict"], "warn");
}

#[test]
fn a_bundle_holds_what_helps_and_no_secret() {
    let place = Place::small();
    let server = place.serve(&[]);
    let create = ["--url", &server.url, "token", "create", "--name", "x", "--scope", "admin"];
    let token = place.run(&create).ended(0).data.trim().to_owned();
    let bundle = [
        "--url",
        &server.url,
        "doctor",
        "--data-dir",
        "data",
        "--bundle",
        "help.tar",
        "--token",
        &token,
    ];
    let arguments: Vec<&str> = bundle.iter().chain(&FREE).copied().collect();
    place.run(&arguments).ended(0).said(&["help.tar", "metrics.txt", "logs.txt", "no secrets"]);
    let bytes = fs::read(place.path("help.tar")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for words in
        ["handoff-bundle/config.toml", "[events]", "handoff-bundle/readyz.json", "sync speed"]
    {
        assert!(text.contains(words), "{words}");
    }
    assert!(!text.contains(&token), "a bundle must hold no token");
    let listed = Command::new("tar").arg("-tf").arg(place.path("help.tar")).output().unwrap();
    assert!(listed.status.success());
    place.run(&arguments).ended(1).said(&["help.tar", "not there yet"]);
}

#[test]
fn nothing_is_repaired_by_guessed_limits() {
    let place = Place::small();
    fixture(&place, "1/flipped-record");
    let before = contents(&place.path("data"));
    place.file("handoff.toml", "[log]\njournal_bytes_maximum = \"8MiB\"\n");
    place.run(&["doctor", "--data-dir", "data", "--repair", "--yes"]).ended(1).said(&[
        "did you mean `journal_bytes_max`?",
        "nothing was repaired",
        "code: config.invalid",
    ]);
    assert!(contents(&place.path("data")) == before, "nothing was touched");
}
