//! A stock Prometheus in front of the relay's agent, and another behind its receiver. It speaks remote write 1.0; no sender of 2.0 is in
//! Debian, so that is tried with bodies made by hand (`tests/tests/relay`).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::time::Duration;

use handoff_tests::place::Place;
use handoff_tests::prometheus::{Prometheus, free};
use handoff_tests::relay::{Centre, Den, Manner, Reception, wait};

#[test]
fn what_a_stock_prometheus_sends_arrives_once_through_an_outage() {
    let place = Place::temporary().unwrap();
    let centre = Centre::new().unwrap();
    let den = Den::new(place.path(), &[("centre", centre.address)]).unwrap();
    let agent = den.agent(&[]).unwrap();
    let prometheus = Prometheus::start(place.path(), agent.http).unwrap();
    let samples = || agent.count("handoff_relay_samples_total").unwrap();
    centre.wait_for(500);
    centre.behave(Manner::Gone);
    let before = samples();
    // It goes on sending, and is answered: nextest ends a test that waits for ever.
    while samples() < before + 500 {
        wait(Duration::from_millis(50));
    }
    assert!(!den.files().unwrap().is_empty(), "what the centre misses is on disk");
    centre.behave(Manner::Takes);
    let back = samples();
    while samples() < back + 500 {
        wait(Duration::from_millis(50));
    }
    prometheus.stop().unwrap();
    let sent = samples();
    centre.wait_for(sent);
    let taken = centre.taken();
    assert_eq!(taken.len(), sent);
    assert_eq!(taken.values().find(|times| **times != 1), None, "each once");
    assert!(taken.keys().any(|(series, ..)| series.starts_with("up,")), "the labels are there");
    for refused in ["400", "413", "415", "429", "503"] {
        let line = format!("handoff_relay_requests_total{{status=\"{refused}\"}}");
        assert_eq!(agent.metric(&line).unwrap(), None, "{refused}");
    }
    den.wait_until(<[String]>::is_empty);
    agent.stop().unwrap();
}

/// Prometheus → agent → server → Prometheus, with the server gone for a while and the agent killed
/// meanwhile.
#[test]
fn two_stock_prometheuses_have_the_same_samples_through_kills_of_all_between_them() {
    let place = Place::temporary().unwrap();
    let dirs = ["sender", "sink", "edge", "centre"].map(|name| place.path().join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
    let [sender, sink, edge, centre] = &dirs;
    let sink = Prometheus::sink(sink).unwrap();
    let url = format!("http://{}/api/v1/write", sink.http);
    let reception = Reception::new(centre).unwrap().set("HANDOFF_RELAY__WRITE_URL", &url);
    let den = Den::new(edge, &[("centre", reception.relay)]).unwrap().at(free().unwrap());
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let sender = Prometheus::start(sender, agent.http).unwrap();
    let more = |agent: &handoff_tests::relay::Agent, samples: usize| {
        let taken = || agent.count("handoff_relay_samples_total").unwrap();
        let before = taken();
        // nextest ends a test that waits for ever.
        while taken() < before + samples {
            wait(Duration::from_millis(50));
        }
    };
    more(&agent, 500);
    drop(server);
    more(&agent, 500);
    drop(agent);
    let agent = den.agent(&[]).unwrap();
    more(&agent, 500);
    assert!(!den.files().unwrap().is_empty(), "what the server misses is on disk");
    let server = reception.start().unwrap();
    more(&agent, 500);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let sent = sender.samples(now).unwrap();
    assert!(sent.len() > 100, "{} series", sent.len());
    sink.wait_for(&sent, now);
    den.wait_until(<[String]>::is_empty);
    sender.stop().unwrap();
    agent.stop().unwrap();
    server.stop().unwrap();
    sink.stop().unwrap();
}
