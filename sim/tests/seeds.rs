//! 200 seeds of every scenario, with every invariant checked after every step.

use handoff_sim::history::{Census, Keep, Kind};
use handoff_sim::scenario::{Scenario, run};
use handoff_sim::store::Injected;

const SEEDS: std::ops::Range<u64> = 0..200;

fn all_seeds(scenario: Scenario) -> Census {
    let mut census = Census::default();
    for seed in SEEDS {
        match run(scenario, seed, scenario.steps(), Keep::Last) {
            Ok(history) => census.merge(history.census()),
            Err(failure) => panic!("{failure}"),
        }
    }
    census
}

#[test]
fn two_brokers_keep_every_promise_and_meet_everything_that_can_happen() {
    let census = all_seeds(Scenario::Brokers);
    let missed = |kind: Kind, whats: &[&'static str]| -> Vec<(Kind, &'static str)> {
        whats
            .iter()
            .map(|what| (kind, *what))
            .filter(|(_, what)| census.of(kind, what) == 0)
            .collect()
    };
    let commands = ["add", "hold", "release", "move", "note", "tick", "read"];
    let missing = [
        missed(Kind::Sent, &commands),
        missed(Kind::Acknowledged, &commands),
        missed(Kind::Unknown, &commands),
        missed(Kind::Repeated, &["add", "move"]),
        missed(Kind::Refused, &["add", "hold", "release", "move"]),
        missed(Kind::Refusal, &["over limit", "held", "not held", "same key"]),
        missed(Kind::Performed, &["announce", "hold ended"]),
        missed(Kind::Injected, &Injected::ALL.map(Injected::name)),
        missed(
            Kind::Injected,
            &[
                "answer lost",
                "clock set back",
                "clock set forward",
                "time leaps",
                "delayed commit applied",
                "delayed commit in vain",
                "delayed commit gone",
            ],
        ),
        missed(
            Kind::Broker,
            &[
                "bodies read",
                "could not load",
                "decided",
                "goes on waiting",
                "has to load",
                "loaded",
                "loaded and locked",
                "met a conflict",
                "restarted",
                "tries again",
                "waits for a hold to end",
                "waits for a lock",
                "was woken by a commit",
                "was woken by time",
            ],
        ),
    ]
    .concat();
    assert_eq!(missing, [], "never happened in {SEEDS:?}");
}
