//! Seeds of calls.

use std::ops::Range;

use handoff_sim::history::Kind;
use handoff_sim::scenario::Scenario;

use crate::{all_seeds, missed};

const SEEDS_OF_CALLS: Range<u64> = 0..80;

const OF_CALLS: &[(Kind, &[&str])] = &[
    (
        Kind::Acknowledged,
        &[
            "init",
            "ping",
            "stop",
            "away",
            "request",
            "accept",
            "heartbeat",
            "answer",
            "fail",
            "acknowledge",
            "cancel",
            "purge",
            "set channel",
            "opened",
            "tick",
        ],
    ),
    (Kind::Unknown, &["request", "answer", "fail", "cancel", "tick", "set channel"]),
    (Kind::Repeated, &["request"]),
    (
        Kind::Refusal,
        &[
            "no client",
            "no call",
            "id reused",
            "full",
            "late: unknown",
            "late: over",
            "late: fenced",
            "not held",
        ],
    ),
    (
        Kind::Performed,
        &[
            "a",
            "b",
            "b, again",
            "c",
            "d, held",
            "d, not held",
            "e: answer",
            "e: failed",
            "e: executor lost",
            "e: no consumer",
            "e: in the queue",
            "e: deadline",
            "e: cancelled",
            "f",
            "g, taken",
            "g, late",
            "h",
            "cancelled",
        ],
    ),
    (Kind::Injected, &["a notice lost"]),
    (Kind::Restart, &["unanswered commands survived"]),
];

#[test]
fn one_server_with_calls_keeps_every_promise_and_meets_everything_that_can_happen() {
    let census = all_seeds(Scenario::Calls, SEEDS_OF_CALLS);
    let missing = missed(&census, OF_CALLS);
    assert_eq!(missing, [], "never happened in {SEEDS_OF_CALLS:?}");
}
