//! Calls on a real Redis server: what every transport promises, peers in the layouts of others, the
//! guardian, and what goes wrong with a server, a connection or a peer.
//!
//! What whoever shares a Redis relies on, and where it is shown:
//!
//! | | |
//! |---|---|
//! | our caller and a foreign consumer, any JSON | `foreign::our_caller_…`, `mixed::a_thousand_calls_…_from_a_foreign_consumer_…` |
//! | a foreign caller and our consumer; errors and panics | `foreign::a_foreign_caller_…`, `mixed::a_thousand_calls_…_of_a_foreign_caller_…` |
//! | a pool of both: each call once, a share for everybody | `mixed::a_mixed_pool_…` |
//! | every byte of every event | `foreign::every_event_…`, `crates/store-redis/tests/layout.rs` |
//! | a guarded pair, and the pair without its guardian | `guarding::a_foreign_pair_…`, `guarding::without_any_guardian_…`; how fast is for `bench/` |
//! | one request has stopped everybody: healed | `guarding::a_deployment_…`, `mixed::one_client_of_ours_…` |
//! | nobody serves the channel | `calling::a_call_without_a_consumer_…`, `guarding::a_call_that_nobody_serves_…` |
//! | a consumer killed, ours or another's | `killed::what_a_killed_consumer_ran_…`, `guarding::a_foreign_consumer_that_dies_…`, `mixed::what_a_foreign_consumer_ran_…` |
//! | a consumer frozen | `killed::what_a_frozen_consumer_…`, `killed::a_late_answer_…` |
//! | silent links and a frozen server | `cut::a_silent_link_…`, `cut::a_server_that_freezes_…`; any length in `scripts/torture calls` |
//! | a killed server, with and without its writes on disk | `cut::a_server_that_is_killed_…`, `cut::a_server_that_forgot_everything_…` |
//! | scripts forgotten, connections closed | `cut::a_server_that_forgot_its_scripts_…`, `cut::each_connection_…` |
//! | one id, one key, one call | `mixed::one_id_…`, `calling::a_key_makes_…` |
//! | ten thousand orphans | `orphans`, `killed::what_a_killed_caller_left_…` |
//! | the same promises elsewhere | `port`, `crates/calls/tests/conformance.rs`, `crates/store-embedded/tests/calls.rs`, `tests/tests/{calls,kill_calls,orphans}.rs` |

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod calling;
mod command;
mod cut;
mod doors;
mod fences;
mod foreign;
mod guarding;
mod killed;
mod measured;
mod mixed;
mod orphans;
mod port;
mod sdk;

use handoff_tests::storm::{Begun, answer, channel, client, echo, must, runtime};
