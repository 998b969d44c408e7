//! The real server as the receiver: what it forgets, who may come, and what people see.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use handoff_tests::http::Http;
use handoff_tests::prometheus::free;
use handoff_tests::relay::samples::Taken;
use handoff_tests::relay::samples_of;
use handoff_tests::served::{PATIENCE, program};
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::scene::{Scene, copy, samples, until};

#[test]
fn a_receiver_that_is_restarted_asks_for_a_key_frame_and_doubles_nothing() {
    let mut scene = Scene::new();
    let all = samples(0..300);
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    scene.stop();
    scene.start();
    scene.send(&all[100..200]);
    scene.kill();
    scene.start();
    scene.send(&all[200..]);
    scene.expect(&all);
    scene.end();
}

#[test]
fn a_receiver_without_its_directory_goes_on_by_itself_and_says_what_it_does_not_have() {
    let mut scene = Scene::new();
    let all = samples(0..300);
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    scene.kill();
    fs::remove_dir_all(scene.reception.data_dir()).unwrap();
    scene.send(&all[100..200]);
    scene.start();
    scene.send(&all[200..]);
    // What was confirmed was in the directory that is gone; everything else is there.
    scene.expect(&all[100..]);
    scene.den.wait_until(<[String]>::is_empty);
    assert_told(&scene);
    scene.end();
}

/// Server and agent say that something is missing that was confirmed.
#[track_caller]
fn assert_told(scene: &Scene) {
    let missing = scene.ask("/v1/relay/agents/edge")["missing"].as_u64().unwrap();
    assert!(missing > 0, "nobody is told");
    let told = "handoff_relay_destination_missing_segments_total{destination=\"centre\"}";
    assert_eq!(scene.agent().metric(told).unwrap(), Some(missing as f64), "the agent is not told");
}

#[test]
fn a_receiver_restored_from_an_older_copy_goes_on_from_there_and_doubles_nothing() {
    let mut scene = Scene::new();
    let all = samples(0..400);
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    scene.stop();
    let older = scene.place.path().join("older");
    copy(scene.reception.data_dir(), &older);
    scene.start();
    scene.send(&all[100..200]);
    scene.expect(&all[..200]);
    scene.kill();
    fs::remove_dir_all(scene.reception.data_dir()).unwrap();
    copy(&older, scene.reception.data_dir());
    scene.send(&all[200..300]);
    scene.start();
    scene.send(&all[300..]);
    scene.den.wait_until(<[String]>::is_empty);
    let found = samples_of(scene.server().http).unwrap();
    assert_eq!(found.values().find(|times| **times > 1), None, "each once");
    let not_there = all.iter().filter(|sample| !found.contains_key(*sample));
    let lost: Vec<&Taken> = not_there.collect();
    let confirmed_meanwhile: Vec<&Taken> = all[100..200].iter().collect();
    assert!(lost.iter().all(|sample| confirmed_meanwhile.contains(sample)), "{lost:?}");
    assert!(!lost.is_empty(), "the copy was not an older one");
    assert_told(&scene);
    scene.end();
}

#[test]
fn a_receiver_whose_disk_is_full_confirms_nothing_and_loses_nothing() {
    let mut scene = Scene::with(&[("HANDOFF_SERVER__DISK_FREE_MIN", "1000TiB")]);
    let all = samples(0..100);
    scene.send(&all);
    scene.den.wait_until(|files| !files.is_empty());
    assert_eq!(samples_of(scene.server().http).unwrap().len(), 0);
    let trouble = scene.ask("/v1/relay/agents/edge")["trouble"].to_string();
    assert!(trouble.contains("disk"), "{trouble}");
    scene.stop();
    scene.reception = scene.reception.set("HANDOFF_SERVER__DISK_FREE_MIN", "0");
    scene.start();
    scene.expect(&all);
    scene.end();
}

#[test]
fn a_receiver_whose_disk_fills_up_under_way_sets_nothing_aside_and_goes_on_when_there_is_space() {
    let mut scene = Scene::empty();
    let config = scene.place.path().join("handoff.toml");
    let write = |least: u64| {
        fs::write(&config, format!("[server]\ndisk_free_min = {least}\n")).unwrap();
    };
    // On a full disk nothing says in the audit that the file was read.
    let reload = |scene: &Scene, least: u64| {
        write(least);
        scene.hang_up();
        until(|| scene.metric("handoff_disk_free_min_bytes") == Some(least as f64));
    };
    write(0);
    scene.reception = scene.reception.unset("HANDOFF_SERVER__DISK_FREE_MIN");
    scene.reception = scene.reception.with(&format!("--config={}", config.display()));
    scene.start();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    let all = samples(0..300);
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    reload(&scene, 1 << 50);
    scene.send(&all[100..200]);
    // It is offered again and again, from a file then.
    let refused = "handoff_relay_destination_rejected_segments_total{destination=\"centre\"}";
    until(|| scene.agent().metric(refused).unwrap() > Some(0.0));
    scene.den.wait_until(|files| !files.is_empty());
    let trouble = scene.ask("/v1/relay/agents/edge")["trouble"].to_string();
    assert!(trouble.contains("disk"), "{trouble}");
    scene.send(&all[200..]);
    scene.expect(&all[..100]);
    reload(&scene, 0);
    scene.expect(&all);
    assert_eq!(scene.agent().metric("handoff_relay_quarantine_bytes").unwrap(), Some(0.0));
    scene.end();
}

#[test]
fn agents_are_listed_with_what_they_say_of_themselves() {
    let scene = Scene::new();
    let all = samples(0..50);
    scene.send(&all);
    scene.expect(&all);
    until(|| !scene.ask("/v1/relay/agents/edge")["told"].is_null());
    let listed = scene.ask("/v1/relay/agents");
    let one = &listed["agents"][0];
    assert_eq!((&one["agent"], &one["connected"]), (&"edge".into(), &true.into()));
    assert_eq!(one["samples"], 50);
    assert_eq!(one["sessions"][0]["backlog"], false);
    assert_eq!(one["told"]["destinations"][0]["name"], "centre");
    assert_eq!(one["told"]["destinations"][0]["connected"], true);
    assert_eq!(listed["sinks"][0]["name"], "topic metrics");
    let mut http = Http::connect(scene.server().http, PATIENCE).unwrap();
    let answer = http.ask("GET", "/v1/relay/agents/nobody", None).unwrap();
    assert_eq!(answer.status, 404);
    scene.end();
}

#[test]
fn how_far_behind_each_destination_of_an_agent_is_is_told_to_those_who_answer() {
    let mut scene = Scene::empty();
    scene.start();
    let url = format!("handoff://{}", scene.reception.relay);
    let nobody = format!("handoff://{}", free().unwrap());
    scene.den.send_by(&[("centre", &url, ""), ("nobody", &nobody, "")]).unwrap();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    let all = samples(0..100);
    scene.send(&all);
    scene.expect(&all);
    let lag = |name: &str| {
        let told = scene.ask("/v1/relay/agents/edge")["told"]["destinations"].clone();
        let all = told.as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["name"] == name).map(|one| one["lagMs"].as_u64())
    };
    until(|| lag("nobody").flatten().is_some());
    let first = lag("nobody").flatten();
    assert_eq!(lag("centre"), Some(None), "it has everything");
    until(|| lag("nobody").flatten() > first);
    assert_eq!(lag("centre"), Some(None), "it has everything");
}

/// A token of this scope, made while the server is stopped, in a file.
fn token(scene: &Scene, scope: &str) -> PathBuf {
    let mut command = Command::new(program());
    command.args(["token", "create", "--name", "agent", "--scope", scope, "--data-dir"]);
    let made = command.arg(scene.reception.data_dir()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = scene.place.path().join("token");
    fs::write(&file, made.stdout).unwrap();
    file
}

#[test]
fn an_agent_is_received_by_a_token_for_its_name_and_by_no_other() {
    for (scope, is_let_in) in [("relay:edge", true), ("relay:other", false), ("streams", false)] {
        let mut scene = Scene::empty();
        let shown = format!("token_file = \"{}\"\n", token(&scene, scope).display());
        let url = format!("handoff://{}", scene.reception.relay);
        scene.den.send_by(&[("centre", &url, &shown)]).unwrap();
        scene.reception = scene.reception.set("HANDOFF_AUTH__ENABLED", "true");
        scene.start();
        scene.agent = Some(scene.den.agent(&[]).unwrap());
        scene.send(&samples(0..10));
        let line = "handoff_relay_destination_confirmations_total{destination=\"centre\"}";
        assert_eq!(scene.agent().count(line).unwrap() > 0, is_let_in, "{scope}");
        assert_eq!(scene.den.files().unwrap().is_empty(), is_let_in, "{scope}");
    }
}

/// A certificate for this machine and its key, in files of the scene.
fn certificate(scene: &Scene, name: &str) -> (PathBuf, PathBuf) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (chain, key) = (format!("{name}.pem"), format!("{name}.key"));
    let (chain, key) = (scene.place.path().join(chain), scene.place.path().join(key));
    fs::write(&chain, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    (chain, key)
}

#[test]
fn agents_come_inside_tls_to_a_receiver_that_they_believe_and_to_no_other() {
    let mut scene = Scene::empty();
    let (chain, key) = certificate(&scene, "server");
    let (other, _) = certificate(&scene, "other");
    let shown = |path: &PathBuf| path.display().to_string();
    scene.reception = scene
        .reception
        .set("HANDOFF_RELAY__TLS", "true")
        .set("HANDOFF_SERVER__TLS_CERT_FILE", &shown(&chain))
        .set("HANDOFF_SERVER__TLS_KEY_FILE", &shown(&key));
    scene.start();
    let url = format!("handoffs://{}", scene.reception.relay);
    let by = |ca: &PathBuf| format!("ca_file = \"{}\"\n", ca.display());
    let all = samples(0..300);
    // Whoever is not believed gets nothing, and neither does one that is spoken to without TLS.
    let plain = format!("handoff://{}", scene.reception.relay);
    for (way, more, from) in [(&url, by(&other), 0), (&plain, String::new(), 100)] {
        scene.den.send_by(&[("centre", way, &more)]).unwrap();
        scene.agent = Some(scene.den.agent(&[]).unwrap());
        scene.send(&all[from..from + 100]);
        let line = "handoff_relay_destination_confirmations_total{destination=\"centre\"}";
        assert_eq!(scene.agent().count(line).unwrap(), 0, "{way}");
        scene.agent.take().unwrap().stop().unwrap();
    }
    scene.den.send_by(&[("centre", &url, &by(&chain))]).unwrap();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    scene.send(&all[200..]);
    scene.den.wait_until(<[String]>::is_empty);
    let answered = Command::new("curl")
        .args(["-s", "--cacert", &shown(&chain)])
        .arg(format!("https://{}/v1/relay/agents/edge", scene.server().http))
        .output()
        .unwrap();
    let agent: serde_json::Value = serde_json::from_slice(&answered.stdout).unwrap();
    assert_eq!(agent["samples"], 300, "{agent}");
}

/// What SIGHUP brings in force counts for agents that connect from then on; what needs a restart is named.
#[test]
fn limits_that_are_read_again_hold_for_agents_that_come_then_and_nobody_is_cut_off() {
    let mut scene = Scene::empty();
    let config = scene.place.path().join("handoff.toml");
    let write = |text: &str| fs::write(&config, format!("[relay]\n{text}")).unwrap();
    write("sessions_max = 1000\n");
    scene.reception = scene.reception.with(&format!("--config={}", config.display()));
    scene.start();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    let all = samples(0..300);
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    write("series_max = 2\nwrite_url = \"http://127.0.0.1:9/\"\n");
    scene.reload();
    // Whoever is connected goes on under the old rules.
    scene.send(&all[100..200]);
    scene.expect(&all[..200]);
    let sessions = scene.ask("/v1/relay/agents/edge")["sessions"].clone();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    let sinks = scene.ask("/v1/relay/agents")["sinks"].clone();
    assert_eq!(
        sinks.as_array().map(Vec::len),
        Some(1),
        "where samples go needs a restart: {sinks}"
    );
    let words = scene.server().prey.last_words();
    assert!(words.contains("relay.write_url"), "{words}");
    // The next agent has three series where two are allowed: nothing of it is taken.
    scene.agent.take().unwrap().stop().unwrap();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    scene.send(&all[200..]);
    until(|| scene.ask("/v1/relay/agents/edge")["rejected"].as_u64() > Some(0));
    // And back again.
    write("");
    scene.reload();
    scene.agent.take().unwrap().stop().unwrap();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    let last = samples(300..400);
    scene.send(&last);
    until(|| {
        let found = samples_of(scene.server().http).unwrap();
        last.iter().all(|sample| found.contains_key(sample))
    });
    scene.end();
}
