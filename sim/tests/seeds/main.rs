//! Seeds of every scenario, with every invariant checked after every step.

mod calls;
mod relay;

use std::ops::Range;

use handoff_sim::history::{Census, Keep, Kind};
use handoff_sim::scenario::{Scenario, run};
use handoff_sim::store::Injected;

const SEEDS: Range<u64> = 0..200;

/// A world of several rooms costs more.
const SEEDS_OF_EVENTS: Range<u64> = 0..160;

/// And one that reads every message over and over.
const SEEDS_OF_STREAMS: Range<u64> = 0..30;

const SEEDS_OF_STREAMS_BROKERS: Range<u64> = 0..40;

const SEEDS_OF_GROUPS: Range<u64> = 0..24;

const SEEDS_OF_GROUPS_BROKERS: Range<u64> = 0..60;

const SEEDS_OF_EXCHANGE: Range<u64> = 0..40;

fn all_seeds(scenario: Scenario, seeds: Range<u64>) -> Census {
    let mut census = Census::default();
    for seed in seeds {
        match run(scenario, seed, scenario.steps(), Keep::Last) {
            Ok(history) => census.merge(history.census()),
            Err(failure) => panic!("{failure}"),
        }
    }
    census
}

/// What never happened, of all that should have.
fn missed(
    census: &Census,
    expected: &[(Kind, &'static [&'static str])],
) -> Vec<(Kind, &'static str)> {
    expected
        .iter()
        .flat_map(|(kind, whats)| whats.iter().map(|what| (*kind, *what)))
        .filter(|(kind, what)| census.of(*kind, what) == 0)
        .collect()
}

const COMMANDS: &[&str] = &["add", "hold", "release", "move", "note", "tick", "read"];

/// What happens in a room wherever it lives.
const OF_THE_ROOM: &[(Kind, &[&str])] = &[
    (Kind::Sent, COMMANDS),
    (Kind::Acknowledged, COMMANDS),
    (Kind::Unknown, COMMANDS),
    (Kind::Repeated, &["add", "move"]),
    (Kind::Refused, &["add", "hold", "release", "move"]),
    (Kind::Refusal, &["over limit", "held", "not held", "same key"]),
    (Kind::Performed, &["announce", "hold ended"]),
];

#[test]
fn two_brokers_keep_every_promise_and_meet_everything_that_can_happen() {
    let census = all_seeds(Scenario::Brokers, SEEDS);
    let injected = Injected::ALL.map(Injected::name).into_iter();
    let uninjected: Vec<_> = injected.filter(|what| census.of(Kind::Injected, what) == 0).collect();
    assert_eq!(uninjected, [""; 0], "never happened in {SEEDS:?}");
    let missing = [
        missed(&census, OF_THE_ROOM),
        missed(
            &census,
            &[
                (
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
                (
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
            ],
        ),
    ];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS:?}");
}

/// Everything that can happen to a server on embedded storage.
const OF_EMBEDDED_STORAGE: &[(Kind, &[&str])] = &[
    (
        Kind::Injected,
        &[
            "a call of an opening fails",
            "a fault struck",
            "a read fails",
            "a sync fails",
            "a sync of everything fails",
            "a write fails",
            "a write fails halfway",
            "all syncs fail",
            "bit flipped in a checkpoint",
            "bit flipped in a segment",
            "bit flipped in the journal",
            "clock set back",
            "clock set forward",
            "some call fails",
            "the disk is nearly full",
            "the machine sleeps",
            "the machine stops",
            "the machine stops in an opening",
            "writes are short",
        ],
    ),
    (Kind::NotAdmitted, &["busy", "journal full", "no file", "poisoned", "too large"]),
    (
        Kind::Storage,
        &[
            "bodies copied",
            "body not durable yet",
            "body not kept",
            "body read",
            "body read failed",
            "checkpoint done",
            "checkpoint given up",
            "checkpoint goes on",
            "checkpoint waits",
            "commit stalled",
            "committed",
            "copy failed",
            "relieved",
            "retained by age",
            "retained by size",
            "retention failed",
            "segments not synced",
            "segments synced",
            "trimmed by offset",
        ],
    ),
    (
        Kind::Restart,
        &[
            "closed",
            "closed by damage",
            "header healed",
            "killed",
            "opening failed",
            "power cut",
            "power cut keeping nothing",
            "stopped in the middle",
            "tail clean",
            "tail marked",
            "tail torn",
            "tail unordered",
            "tail zeroed",
            "unanswered commands survived",
        ],
    ),
];

#[test]
fn a_server_on_embedded_storage_keeps_every_promise_through_everything_that_can_happen() {
    let census = all_seeds(Scenario::Embedded, SEEDS);
    let missing = [missed(&census, OF_THE_ROOM), missed(&census, OF_EMBEDDED_STORAGE)];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS:?}");
}

/// Everything that can happen to the events room and whoever uses it.
const OF_EVENTS: &[(Kind, &[&str])] = &[
    (Kind::Sent, &["register", "delete", "tick", "resume", "reschedule"]),
    (
        Kind::Acknowledged,
        &[
            "register",
            "delete",
            "tick",
            "resume",
            "reschedule",
            "open",
            "close",
            "subscribe",
            "unsubscribe",
            "replace",
            "everything",
            "list",
            "select",
            "view",
            "look",
            "create token",
            "revoke token",
            "note act",
            "add",
            "note",
        ],
    ),
    (Kind::Unknown, &["register", "delete", "tick", "resume", "reschedule", "subscribe", "list"]),
    (Kind::Refused, &["register", "subscribe", "unsubscribe", "replace", "create token"]),
    (
        Kind::Refusal,
        &[
            "description",
            "filter out of sight",
            "filter too large",
            "full",
            "no event",
            "no period at all",
            "out of sight",
            "repeat",
            "schedule",
            "types",
        ],
    ),
    (
        Kind::Performed,
        &[
            "cron event",
            "event forgotten",
            "event scheduled anew",
            "event that never occurs",
            "late occurrence",
            "missed more than may be told",
            "missed under all",
            "missed under once",
            "missed under skip",
            "more is due",
            "more to delete",
            "more to look at",
            "occurrence",
            "occurrences skipped",
            "one-shot event",
            "periodic event",
            "session told",
            "session told late",
        ],
    ),
    (
        Kind::Injected,
        &[
            "a call of an opening fails",
            "a fault struck",
            "all syncs fail",
            "bit flipped in a checkpoint",
            "bit flipped in the journal",
            "clock set back",
            "clock set forward",
            "the disk is nearly full",
            "the machine sleeps",
            "the machine stops",
            "the machine stops in an opening",
            "the process pauses",
            "writes are short",
        ],
    ),
    (Kind::NotAdmitted, &["busy", "journal full", "no file", "poisoned"]),
    (
        Kind::Storage,
        &[
            "checkpoint done",
            "checkpoint given up",
            "checkpoint goes on",
            "checkpoint waits",
            "commit stalled",
            "committed",
            "relieved",
        ],
    ),
    (
        Kind::Restart,
        &[
            "closed",
            "closed by damage",
            "killed",
            "opening failed",
            "other rooms whole after damage",
            "power cut",
            "power cut keeping nothing",
            "room whole after damage",
            "stopped in the middle",
            "tail clean",
            "tail marked",
            "unanswered commands survived",
        ],
    ),
];

#[test]
fn a_server_with_events_keeps_every_promise_through_everything_that_can_happen() {
    let census = all_seeds(Scenario::Events, SEEDS_OF_EVENTS);
    assert_eq!(missed(&census, OF_EVENTS), [], "never happened in {SEEDS_OF_EVENTS:?}");
}

/// Everything that can happen to messages, wherever they are.
const OF_MESSAGES: &[(Kind, &[&str])] = &[
    (
        Kind::Sent,
        &[
            "alter topic",
            "create topic",
            "delete topic",
            "grow topic",
            "produce",
            "produce in sequence",
            "register producer",
            "trim",
        ],
    ),
    (
        Kind::Acknowledged,
        &[
            "alter topic",
            "create topic",
            "delete topic",
            "grow topic",
            "produce",
            "produce in sequence",
            "register producer",
            "trim",
        ],
    ),
    (Kind::Unknown, &["create topic", "produce", "produce in sequence", "register producer"]),
    (
        Kind::Refusal,
        &[
            "another",
            "empty",
            "limit",
            "message",
            "no partition",
            "no topic",
            "partitions",
            "scope fixed",
            "sequence range",
            "sequence reused",
            "sequence too old",
            "too far ahead",
            "topic exists",
        ],
    ),
    (
        Kind::Performed,
        &[
            "duplicate",
            "duplicate, place forgotten",
            "published",
            "scheduled",
            "stored",
            "stored after gap",
            "stored late",
            "to be dropped",
            "to be removed",
        ],
    ),
];

/// What happens to them on embedded storage.
const OF_STREAMS: &[(Kind, &[&str])] = &[
    (Kind::Sent, &["cancel", "tick"]),
    (Kind::Acknowledged, &["cancel", "tick", "create token"]),
    (Kind::Unknown, &["cancel", "tick"]),
    (Kind::Refusal, &["not scheduled"]),
    (Kind::Performed, &["more is due", "scheduled message delivered"]),
    (
        Kind::Injected,
        &[
            "a call of an opening fails",
            "a fault struck",
            "a sync fails",
            "a write fails",
            "clock set back",
            "clock set forward",
            "the disk is nearly full",
            "the machine sleeps",
            "the machine stops",
            "the machine stops in an opening",
            "writes are short",
        ],
    ),
    (Kind::NotAdmitted, &["journal full", "no file", "poisoned"]),
    (
        Kind::Storage,
        &[
            "batch not durable yet",
            "batches read",
            "bodies copied",
            "checkpoint done",
            "checkpoint waits",
            "commit stalled",
            "committed",
            "copy failed",
            "lane removed",
            "nothing more to read",
            "relieved",
            "segments not synced",
            "segments synced",
            "segments trimmed",
            "strays removed",
        ],
    ),
    (
        Kind::Restart,
        &[
            "closed",
            "killed",
            "opening failed",
            "power cut",
            "power cut keeping nothing",
            "stopped in the middle",
            "tail clean",
            "tail marked",
            "unanswered commands survived",
        ],
    ),
];

#[test]
fn a_server_with_streams_keeps_every_promise_through_everything_that_can_happen() {
    let census = all_seeds(Scenario::Streams, SEEDS_OF_STREAMS);
    let missing = [missed(&census, OF_MESSAGES), missed(&census, OF_STREAMS)];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS_OF_STREAMS:?}");
}

#[test]
fn two_brokers_of_streams_keep_every_promise_and_meet_everything_that_can_happen() {
    let census = all_seeds(Scenario::StreamsBrokers, SEEDS_OF_STREAMS_BROKERS);
    let missing = [
        missed(&census, OF_MESSAGES),
        missed(
            &census,
            &[
                (Kind::Acknowledged, &["cancel", "tick"]),
                (Kind::Refusal, &["not scheduled"]),
                (Kind::Performed, &["more is due", "scheduled message delivered"]),
                (Kind::Injected, &["clock set back", "clock set forward", "time leaps"]),
                (
                    Kind::Broker,
                    &[
                        "answer lost",
                        "batches read",
                        "commit delayed",
                        "commit failed",
                        "committed",
                        "conflict for no reason",
                        "could not load",
                        "late commit in vain",
                        "late commit made",
                        "loaded",
                        "loaded and locked",
                        "met a conflict",
                        "restarted",
                        "waited for a lock",
                    ],
                ),
            ],
        ),
    ];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS_OF_STREAMS_BROKERS:?}");
}

/// Everything that can happen to consumers and what they read, wherever it is.
const OF_GROUPS: &[(Kind, &[&str])] = &[
    (
        Kind::Acknowledged,
        &[
            "alter group",
            "commit",
            "commit and produce",
            "create group",
            "create topic",
            "delete group",
            "grow topic",
            "heartbeat",
            "join",
            "leave",
            "poll",
            "produce",
            "produce in sequence",
            "replay",
            "seek",
            "sweep",
            "tick",
            "trim",
        ],
    ),
    (Kind::Unknown, &["commit", "commit and produce", "join", "leave", "poll", "sweep"]),
    (
        Kind::Refusal,
        &[
            "backwards",
            "fenced",
            "group exists",
            "member gone",
            "no group",
            "no topic",
            "settings",
            "topic exists",
            "twice",
        ],
    ),
    (
        Kind::Performed,
        &[
            "came back",
            "committed",
            "committed late",
            "fenced",
            "handed out",
            "handed out again",
            "lease voided by a seek",
            "member gone",
            "not replayed",
            "replayed",
            "swept to death",
            "topic for letters made",
        ],
    ),
    (Kind::Injected, &["clock set back", "clock set forward"]),
];

#[test]
fn a_server_with_groups_keeps_every_promise_through_everything_that_can_happen() {
    let census = all_seeds(Scenario::Groups, SEEDS_OF_GROUPS);
    let missing = [
        missed(&census, OF_GROUPS),
        missed(
            &census,
            &[
                (Kind::Acknowledged, &["delete topic"]),
                (Kind::Performed, &["had to be read"]),
                (
                    Kind::Injected,
                    &[
                        "a call of an opening fails",
                        "a fault struck",
                        "the disk is nearly full",
                        "the machine sleeps",
                        "the machine stops",
                        "the machine stops in an opening",
                    ],
                ),
                (
                    Kind::Storage,
                    &[
                        "bodies copied",
                        "checkpoint done",
                        "commit stalled",
                        "committed",
                        "relieved",
                        "segments synced",
                        "segments trimmed",
                    ],
                ),
                (
                    Kind::Restart,
                    &[
                        "closed",
                        "killed",
                        "opening failed",
                        "power cut",
                        "power cut keeping nothing",
                        "stopped in the middle",
                        "unanswered commands survived",
                    ],
                ),
            ],
        ),
    ];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS_OF_GROUPS:?}");
}

#[test]
fn two_brokers_of_groups_keep_every_promise_and_meet_everything_that_can_happen() {
    let census = all_seeds(Scenario::GroupsBrokers, SEEDS_OF_GROUPS_BROKERS);
    let missing = [
        missed(&census, OF_GROUPS),
        missed(
            &census,
            &[
                (Kind::Injected, &["time leaps"]),
                (
                    Kind::Broker,
                    &[
                        "answer lost",
                        "commit delayed",
                        "commit failed",
                        "committed",
                        "conflict for no reason",
                        "could not load",
                        "late commit in vain",
                        "late commit made",
                        "loaded",
                        "loaded and locked",
                        "met a conflict",
                        "restarted",
                        "waited for a lock",
                    ],
                ),
            ],
        ),
    ];
    assert_eq!(missing.concat(), [], "never happened in {SEEDS_OF_GROUPS_BROKERS:?}");
}

/// Everything that can happen between devices, ERPs and their databases.
const OF_EXCHANGE: &[(Kind, &[&str])] = &[
    (
        Kind::Acknowledged,
        &[
            "ack",
            "activate",
            "begin",
            "block device",
            "commit",
            "damaged",
            "device code",
            "fetch",
            "heartbeat",
            "interrupt",
            "narrow",
            "opened",
            "post",
            "prepare",
            "put route",
            "remind",
            "remove route",
            "requeue",
            "resolve",
            "retain",
            "rollback",
            "settled",
            "stuck",
            "take in",
            "tick",
        ],
    ),
    (Kind::Unknown, &["ack", "begin", "commit", "post", "prepare", "rollback", "tick"]),
    (
        Kind::Refusal,
        &[
            "blocked",
            "busy",
            "contradicts",
            "full",
            "id reused",
            "id twice",
            "in use",
            "named twice",
            "no device",
            "no message",
            "no process",
            "no route",
            "no verdict",
            "not aside",
            "not prepared",
            "not served",
            "past",
            "ready",
        ],
    ),
    (
        Kind::Performed,
        &[
            "acknowledged",
            "acknowledged before",
            "begun",
            "commit of what was unknown",
            "device rung for",
            "file moved",
            "file removed",
            "given again",
            "idle",
            "log: contradiction",
            "log: deadlock",
            "log: expired",
            "log: failed",
            "log: in doubt",
            "log: incorrect",
            "log: mended",
            "log: poison",
            "log: resolved",
            "log: still unknown",
            "log: too late",
            "log: unknown",
            "nothing taken",
            "put back",
            "rollback of what was unknown",
            "served again",
            "stored before",
        ],
    ),
    (
        Kind::Injected,
        &[
            "a call of an opening fails",
            "a fault struck",
            "clock set back",
            "clock set forward",
            "the disk is nearly full",
            "the machine sleeps",
            "the machine stops",
            "the machine stops in an opening",
        ],
    ),
    (Kind::Storage, &["checkpoint done", "commit stalled", "committed", "relieved"]),
    (
        Kind::Restart,
        &[
            "closed",
            "killed",
            "opening failed",
            "power cut",
            "power cut keeping nothing",
            "stopped in the middle",
            "unanswered commands survived",
        ],
    ),
];

#[test]
fn a_server_with_the_exchange_keeps_every_promise_through_everything_that_can_happen() {
    let census = all_seeds(Scenario::Exchange, SEEDS_OF_EXCHANGE);
    assert_eq!(missed(&census, OF_EXCHANGE), [], "never happened in {SEEDS_OF_EXCHANGE:?}");
}
