//! A stock Prometheus in front of the relay's agent, and another behind its receiver. It speaks remote write 1.0; no sender of 2.0 is in
//! Debian, so that is tried with bodies made by hand (`tests/tests/relay`).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::time::{Duration, UNIX_EPOCH};

use handoff_tests::place::Place;
use handoff_tests::prometheus::Prometheus;
use handoff_tests::relay::{BothEnds, Centre, Database, Den, Manner, Reception, Says, wait};

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
/// meanwhile. `scripts/torture prometheus` does the same for minutes.
#[test]
fn two_stock_prometheuses_have_the_same_samples_through_kills_of_all_between_them() {
    let place = Place::temporary().unwrap();
    let mut ends = BothEnds::new(place.path()).unwrap();
    ends.more(500).unwrap();
    ends.kill_server();
    ends.more(500).unwrap();
    ends.kill_agent().unwrap();
    ends.more(500).unwrap();
    assert!(ends.is_behind().unwrap(), "what the server misses is on disk");
    ends.start_server().unwrap();
    ends.more(500).unwrap();
    let (series, _) = ends.compare().unwrap();
    assert!(series > 100, "{series} series");
}

/// A Prometheus that takes nothing that is older than what it has. It took a segment, and the answer was
/// lost: what it says of the same segment then is that it has it. What it says of another that is too old
/// is not.
#[test]
fn what_a_stock_prometheus_says_of_a_segment_that_it_has_counts_as_written_and_of_no_other() {
    let place = Place::temporary().unwrap();
    let dirs = ["sink", "edge", "centre"].map(|name| place.path().join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
    let [sink, edge, centre] = &dirs;
    let sink = Prometheus::strict(sink).unwrap();
    let lossy = Database::before(sink.http).unwrap();
    let reception = Reception::new(centre).unwrap().set("HANDOFF_RELAY__WRITE_URL", &lossy.url());
    let den = Den::new(edge, &[("centre", reception.relay)]).unwrap();
    let server = reception.start().unwrap();
    let agent = den.agent(&[]).unwrap();
    let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let at = |ago: i64| ("up".to_owned(), now - ago, 1.0_f64.to_bits());
    let until = |so: &dyn Fn() -> bool| {
        // nextest ends a test that waits for ever.
        while !so() {
            wait(Duration::from_millis(20));
        }
    };
    let set_aside = || agent.metric("handoff_relay_quarantine_bytes").unwrap() > Some(0.0);
    // Several times of one series: sent again, all but the last are out of order.
    lossy.say(Says::NothingOnce);
    assert_eq!(agent.post(&[at(5_000), at(4_000), at(3_000)]).unwrap().status, 204);
    until(&|| lossy.answers().len() >= 2 && den.files().unwrap().is_empty());
    assert_eq!(lossy.answers(), [0, 400], "it took them, was not heard, and said so again");
    assert!(!set_aside(), "they are there");
    assert_eq!(agent.post(&[at(2_000)]).unwrap().status, 204);
    until(&|| lossy.answers().len() >= 3);
    assert_eq!(lossy.answers(), [0, 400, 204]);
    // One that is too old and was never sent before is not there, whatever it is called.
    assert_eq!(agent.post(&[at(60_000)]).unwrap().status, 204);
    until(&set_aside);
    assert_eq!(lossy.answers().last(), Some(&400));
    assert_eq!(agent.post(&[at(1_000)]).unwrap().status, 204);
    until(&|| lossy.answers().last() == Some(&204));
    drop(agent);
    server.stop().unwrap();
    sink.stop().unwrap();
}
