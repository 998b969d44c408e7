//! Starting and stopping a server, and every way in which it cannot start.

use std::fs;
use std::net::TcpListener;

use rustix::process::Signal;

use crate::program::Place;

#[test]
fn a_server_says_where_it_listens_and_stops_in_order() {
    let place = Place::small();
    let server = place.serve(&[]);
    let listeners = server.ready["listeners"].as_object().unwrap();
    assert_eq!(listeners.keys().collect::<Vec<_>>(), ["events", "http", "relay"]);
    place.run(&["--url", &server.url, "health"]).ended(0).said(&["lives"]);
    place.run(&["--url", &server.url, "health", "--ready"]).ended(0);
    server.wait_for("event add");
    let export = format!("export HANDOFF_URL={}", server.url);
    let (status, talk) = server.stop();
    assert_eq!(status.code(), Some(0), "{talk}");
    assert!(talk.contains("is up") && talk.contains(&export), "{talk}");
}

#[test]
fn a_room_that_is_off_has_no_listener() {
    let place = Place::small();
    let server = place.serve(&["--set", "events.enabled=false"]);
    assert!(server.ready["listeners"].get("events").is_none(), "{}", server.ready);
    place.run(&["--url", &server.url, "event", "list"]).ended(5).said(&["room_off"]);
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let place = Place::small();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let flags = ["--listen", "--events-listen", "--relay-listen"];
    for flag in flags {
        let mut words = vec!["serve", "--data-dir", "data"];
        for one in flags {
            words.extend([one, if one == flag { &address } else { "127.0.0.1:0" }]);
        }
        place.run(&words).ended(5).said(&[
            &address,
            "choose another address",
            flag,
            "note: it is process",
            "server.port_taken",
        ]);
    }
}

#[test]
fn a_directory_in_use_is_told_with_who_has_it() {
    let place = Place::small();
    let server = place.serve(&[]);
    let holder = format!("process {}", server.id());
    let second = [
        "serve",
        "--data-dir",
        "data",
        "--listen",
        "127.0.0.1:0",
        "--events-listen",
        "127.0.0.1:0",
        "--relay-listen",
        "127.0.0.1:0",
    ];
    place.run(&second).ended(5).said(&["in use", &holder, "--data-dir"]);
    place.run(&["--url", &server.url, "health"]).ended(0);
}

#[test]
fn a_directory_that_cannot_be_made_is_told_with_its_path() {
    let place = Place::small();
    place.file("file", "not a directory");
    let any = "127.0.0.1:0";
    let listen = ["--listen", any, "--events-listen", any, "--relay-listen", any];
    let below: Vec<&str> =
        ["serve", "--data-dir", "file/data"].iter().chain(&listen).copied().collect();
    place.run(&below).ended(1).said(&["file/data", "--data-dir"]);
    if std::path::Path::new("/sys/kernel").exists() {
        // Nobody may make anything there, not even root.
        let forbidden: Vec<&str> =
            ["serve", "--data-dir", "/sys/handoff-data"].iter().chain(&listen).copied().collect();
        place.run(&forbidden).ended(1).said(&["/sys/handoff-data", "--data-dir"]);
    }
    let foreign: Vec<&str> =
        ["serve", "--data-dir", "foreign"].iter().chain(&listen).copied().collect();
    fs::create_dir(place.path("foreign")).unwrap();
    place.file("foreign/VERSION", "something else\n");
    place.run(&foreign).ended(1).said(&["VERSION", "--data-dir"]);
    place.file("foreign/VERSION", "handoff data directory\nformat 999\nid 0\n");
    place.run(&foreign).ended(1).said(&["999", "newer version"]);
}

#[test]
fn a_door_to_the_network_without_a_lock_is_refused() {
    let place = Place::small();
    place.run(&["serve", "--data-dir", "data", "--listen", "0.0.0.0:0"]).ended(1).said(&[
        "server.listen",
        "not on loopback",
        "auth.enabled",
        "token create",
        "code: server.auth_required",
    ]);
    assert!(!place.path("data").exists(), "nothing was begun");
}

#[test]
fn a_server_inside_tls_is_reached_by_whoever_believes_its_certificate() {
    let place = Place::small();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    place.file("cert.pem", &made.cert.pem());
    place.file("key.pem", &made.signing_key.serialize_pem());
    let tls = ["--set", "server.tls_cert_file=cert.pem", "--set", "server.tls_key_file=key.pem"];
    let server = place.serve(&tls);
    let url = server.url.replace("http://", "https://");
    place.run(&["--url", &url, "--ca-file", "cert.pem", "health"]).ended(0);
    place.run(&["--url", &url, "health"]).ended(5).said(&["certificate", "CA"]);
    place.run(&["--url", &server.url, "health"]).ended(1).said(&["https as it speaks"]);
    let (_, talk) = server.stop();
    assert!(talk.contains(&format!("export HANDOFF_URL={url}")), "{talk}");
}

#[test]
fn a_certificate_that_is_not_there_is_named() {
    let place = Place::small();
    place
        .run(&[
            "serve",
            "--data-dir",
            "data",
            "--listen",
            "127.0.0.1:0",
            "--events-listen",
            "127.0.0.1:0",
            "--relay-listen",
            "127.0.0.1:0",
            "--set",
            "server.tls_cert_file=cert.pem",
            "--set",
            "server.tls_key_file=key.pem",
        ])
        .ended(1)
        .said(&["cert.pem", "server.tls_cert_file", "code: server.certificate"]);
}

#[test]
fn a_configuration_that_became_bad_leaves_the_server_as_it_was() {
    let place = Place::small();
    place.file("handoff.toml", "[server]\nlog_level = \"info\"\n");
    let server = place.serve(&[]);
    place.file("handoff.toml", "[server]\nlog_levl = \"debug\"\n");
    server.signal(Signal::HUP);
    server.wait_for("did you mean `log_level`?");
    place.run(&["--url", &server.url, "health", "--ready"]).ended(0);
    place.file("handoff.toml", "[server]\naccess_log = true\n");
    server.signal(Signal::HUP);
    server.wait_for("the configuration was read again");
    place.run(&["--url", &server.url, "event", "list"]).ended(0);
    server.wait_for("/v1/events");
    let (status, talk) = server.stop();
    assert_eq!(status.code(), Some(0), "{talk}");
}
