//! Seeds of the relay.

use std::ops::Range;

use handoff_sim::history::Kind;
use handoff_sim::scenario::Scenario;

use crate::{all_seeds, missed};

const SEEDS_OF_THE_RELAY: Range<u64> = 0..120;

const OF_THE_RELAY: &[(Kind, &[&str])] = &[
    (Kind::Sent, &["put"]),
    (Kind::Acknowledged, &["put"]),
    (Kind::Refused, &["put"]),
    (Kind::Unknown, &["put"]),
    (Kind::Refusal, &["full"]),
    (
        Kind::Performed,
        &[
            "hello",
            "hello back",
            "segment",
            "key frame",
            "ack",
            "reject",
            "end",
            "ping",
            "pong",
            "late",
            "on disk only",
        ],
    ),
    (
        Kind::Injected,
        &[
            "a line is cut",
            "a destination is gone",
            "confirmations are lost",
            "a sink is down",
            "a receiver forgets its decoders",
            "something is said again",
            "a destination hangs up",
            "a sync fails",
            "a write fails",
            "a write fails halfway",
            "the disk is nearly full",
            "all syncs fail",
            "a read fails",
            "some call fails",
            "another agent begins on a copy",
            "it begins on an older copy",
        ],
    ),
    (Kind::Restart, &["killed", "the power fails", "stopped"]),
];

#[test]
fn one_agent_of_the_relay_keeps_every_promise_and_meets_everything_that_can_happen() {
    let census = all_seeds(Scenario::Relay, SEEDS_OF_THE_RELAY);
    let missing = missed(&census, OF_THE_RELAY);
    assert_eq!(missing, [], "never happened in {SEEDS_OF_THE_RELAY:?}");
}
