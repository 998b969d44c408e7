//! Where samples go besides a topic: a database by remote write, a program, and several at once.

use std::fs;
use std::path::Path;

use handoff_tests::http::Http;
use handoff_tests::prometheus::free;
use handoff_tests::relay::{Database, Den, Keeping, Reception, Says, samples_of};
use handoff_tests::served::PATIENCE;
use tokio::runtime::Runtime;

use crate::scene::{Scene, each_once, samples, until};
use crate::tls::front;

#[test]
fn a_segment_is_confirmed_when_both_sinks_have_it_and_neither_gets_it_twice() {
    let database = Database::new().unwrap();
    let mut scene = Scene::with(&[
        ("HANDOFF_RELAY__TOPIC", "metrics"),
        ("HANDOFF_RELAY__WRITE_URL", &database.url()),
    ]);
    let all = samples(0..400);
    scene.send(&all[..100]);
    each_once(&all[..100], || database.taken());
    scene.expect(&all[..100]);
    // One of them is down: the other has it, and the agent keeps it.
    database.say(Says::Status(503));
    scene.send(&all[100..200]);
    scene.den.wait_until(|files| !files.is_empty());
    let confirmed = || {
        let line = "handoff_relay_destination_confirmations_total{destination=\"centre\"}";
        scene.agent().count(line).unwrap()
    };
    until(|| samples_of(scene.server().http).unwrap().len() >= 200);
    let before = confirmed();
    let asked = database.answers().len();
    // It comes again and again, and is in the topic once.
    until(|| database.answers().len() > asked + 3);
    assert_eq!(confirmed(), before, "something was confirmed that one sink does not have");
    let sinks = scene.ask("/v1/relay/agents")["sinks"].clone();
    let trouble = |name: &str| {
        let all = sinks.as_array().unwrap();
        let one = all.iter().find(|one| one["name"].as_str().unwrap().starts_with(name));
        one.unwrap()["takes"] == false
    };
    assert!(trouble("remote write") && !trouble("topic"), "{sinks}");
    // Through a crash of the server, too: each sink has a mark of its own.
    scene.kill();
    scene.send(&all[200..300]);
    scene.start();
    database.say(Says::Yes);
    scene.send(&all[300..]);
    each_once(&all, || database.taken());
    scene.expect(&all);
    scene.end();
}

#[test]
fn a_database_that_took_a_segment_and_did_not_say_so_is_written_to_again() {
    let database = Database::new().unwrap();
    let scene = Scene::with(&[("HANDOFF_RELAY__WRITE_URL", &database.url())]);
    let all = samples(0..100);
    database.say(Says::NothingOnce);
    scene.send(&all);
    until(|| database.taken().len() == all.len());
    until(|| scene.den.files().unwrap().is_empty() && database.answers().len() > 1);
    let taken = database.taken();
    // At least once, with the same times and values.
    assert!(taken.values().all(|times| (1..=2).contains(times)), "{taken:?}");
    scene.end();
}

#[test]
fn a_database_that_objects_to_what_is_in_a_segment_gets_no_more_of_it_and_all_others() {
    let database = Database::new().unwrap();
    let scene = Scene::with(&[("HANDOFF_RELAY__WRITE_URL", &database.url())]);
    let all = samples(0..300);
    scene.send(&all[..100]);
    each_once(&all[..100], || database.taken());
    // It does not say that it has them: nothing of that counts as written.
    database.say(Says::Status(400));
    scene.send(&all[100..200]);
    until(|| database.answers().contains(&400));
    let set_aside = || {
        let line = "handoff_relay_quarantine_bytes";
        scene.agent().metric(line).unwrap() > Some(0.0)
    };
    until(set_aside);
    database.say(Says::Yes);
    scene.send(&all[200..]);
    until(|| all[200..].iter().all(|sample| database.taken().contains_key(sample)));
    let taken = database.taken();
    assert!(taken.values().all(|times| *times == 1), "{taken:?}");
    scene.end();
}

#[test]
fn a_database_inside_tls_is_written_to_if_its_authority_is_believed_and_shown_the_token() {
    let database = Database::new().unwrap();
    let runtime = Runtime::new().unwrap();
    let (address, pem) = front(&runtime, database.address);
    let url = format!("https://{address}/api/v1/write");
    let mut scene = Scene::empty();
    let (ca, token) = (scene.place.path().join("ca.pem"), scene.place.path().join("token"));
    fs::write(&ca, pem).unwrap();
    fs::write(&token, "secret\n").unwrap();
    scene.reception = scene.reception.set("HANDOFF_RELAY__WRITE_URL", &url);
    scene.start();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    let all = samples(0..200);
    scene.send(&all[..100]);
    until(|| {
        let trouble = scene.ask("/v1/relay/agents")["sinks"][0]["trouble"].to_string();
        trouble.contains("certificate")
    });
    assert!(database.answers().is_empty(), "somebody who is not believed was written to");
    scene.stop();
    scene.reception = scene
        .reception
        .set("HANDOFF_RELAY__WRITE_CA_FILE", &ca.display().to_string())
        .set("HANDOFF_RELAY__WRITE_TOKEN_FILE", &token.display().to_string());
    scene.start();
    scene.send(&all[100..]);
    each_once(&all, || database.taken());
    assert!(database.tokens().iter().all(|shown| shown.as_deref() == Some("Bearer secret")));
    scene.end();
}

/// A server whose samples go to a program, and how that is started.
fn kept(more: &[(&str, &str)]) -> (Scene, Keeping) {
    let mut scene = Scene::empty();
    let http = free().unwrap();
    let place = scene.place.path().to_owned();
    scene.reception = Reception::at(&place.join("centre"), http).unwrap();
    scene.reception = scene.reception.set("HANDOFF_RELAY__CALLBACK", "true");
    for (variable, value) in more {
        scene.reception = scene.reception.set(variable, value);
    }
    scene.den = Den::new(&place.join("edge"), &[("centre", scene.reception.relay)]).unwrap();
    scene.start();
    scene.agent = Some(scene.den.agent(&[]).unwrap());
    (scene, Keeping::new(Path::new(env!("CARGO_BIN_EXE_keeper")), http, &place))
}

#[test]
fn a_program_with_the_sdk_keeps_samples_and_while_none_is_there_agents_do() {
    let (scene, keeping) = kept(&[]);
    let all = samples(0..300);
    scene.send(&all[..100]);
    scene.den.wait_until(|files| !files.is_empty());
    let sinks = scene.ask("/v1/relay/agents")["sinks"].clone();
    assert_eq!(sinks[0]["name"], "callback");
    assert!(sinks[0]["trouble"].to_string().contains("no program"), "{sinks}");
    let keeper = keeping.start(&[]).unwrap();
    scene.send(&all[100..200]);
    each_once(&all[..200], || keeping.samples().unwrap().0);
    drop(keeper);
    scene.send(&all[200..]);
    let _keeper = keeping.start(&[]).unwrap();
    each_once(&all, || keeping.samples().unwrap().0);
    let topics = scene.ask("/v1/streams/topics").to_string();
    assert!(!topics.contains("metrics"), "there is a topic that nobody asked for: {topics}");
    scene.end();
}

#[test]
fn a_program_and_a_topic_have_the_same_and_a_program_that_is_gone_doubles_nothing_in_the_topic() {
    let (scene, keeping) = kept(&[("HANDOFF_RELAY__TOPIC", "metrics")]);
    let all = samples(0..300);
    let keeper = keeping.start(&[]).unwrap();
    scene.send(&all[..100]);
    scene.expect(&all[..100]);
    drop(keeper);
    scene.send(&all[100..200]);
    scene.den.wait_until(|files| !files.is_empty());
    let _keeper = keeping.start(&[]).unwrap();
    scene.send(&all[200..]);
    each_once(&all, || keeping.samples().unwrap().0);
    scene.expect(&all);
    scene.end();
}

#[test]
fn the_later_of_two_programs_takes_the_samples_and_the_earlier_is_told() {
    let (scene, keeping) = kept(&[]);
    let mut first = keeping.start(&[]).unwrap();
    let all = samples(0..100);
    scene.send(&all[..50]);
    each_once(&all[..50], || keeping.samples().unwrap().0);
    let _second = keeping.start(&[]).unwrap();
    assert!(!first.ended().unwrap().success());
    assert!(first.last_words().contains("another program"), "{}", first.last_words());
    scene.send(&all[50..]);
    each_once(&all, || keeping.samples().unwrap().0);
    scene.end();
}

#[test]
fn where_samples_go_elsewhere_a_program_is_sent_away_with_words() {
    let scene = Scene::new();
    let keeper = Path::new(env!("CARGO_BIN_EXE_keeper"));
    let keeping = Keeping::new(keeper, scene.server().http, scene.place.path());
    let mut sent_away = keeping.start(&[]).unwrap();
    assert!(!sent_away.ended().unwrap().success());
    let words = sent_away.last_words();
    assert!(words.contains("relay.callback"), "{words}");
    let mut http = Http::connect(scene.server().http, PATIENCE).unwrap();
    let answer = http.ask("GET", "/v1/relay/segments", None).unwrap();
    assert_eq!(
        (answer.status, &answer.json().unwrap()["code"]),
        (409, &"relay.callback_off".into())
    );
    scene.end();
}
