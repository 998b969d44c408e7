//! Seeds that once failed.
//!
//! A world that learns something new walks another way from the same seed, so what each of these
//! found has a test of its own as well.

use handoff_sim::history::Keep;
use handoff_sim::scenario::{Scenario, run};

/// * 1: a chunk counted as true at the round that made it durable, not at its cut
///   (`store-embedded`, `rooms/checkpoints.rs`).
/// * 114: a checkpoint that only the page cache had let the journal forget (the same).
/// * 1945: a journal file vanished with a name that a killed process had not synced (`log`,
///   `crash_openings.rs`).
/// * 100092: two openings cut short recycled the only durable copy of the last round (the same).
/// * 401272: a fault cost the space that an entry had been admitted for, and no checkpoint could
///   free any, for it waited for that entry.
/// * 700948: files recycled in the order of their names made a journal look cut short.
/// * 404093: a round that an opening had not seen came back with an old header (`log`,
///   `crash_openings.rs`).
#[test]
fn seeds_of_the_embedded_world_that_once_failed() {
    for seed in [1, 114, 1945, 100_092, 401_272, 700_948, 404_093] {
        if let Err(failure) = run(Scenario::Embedded, seed, 1_000, Keep::Last) {
            panic!("{failure}");
        }
    }
}

/// * 100316: a room that had never written anything was closed for damage, because the file that
///   says how far the journal went was recycled before an older one (`log`, `known_faults.rs`).
#[test]
fn seeds_of_the_events_world_that_once_failed() {
    if let Err(failure) = run(Scenario::Events, 100_316, 500, Keep::Last) {
        panic!("{failure}");
    }
}
