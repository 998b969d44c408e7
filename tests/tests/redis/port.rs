//! What every transport promises, on a clock that the suite moves: each promise, random schedules, and
//! schedules that the machine goes through as well, compared step by step.

use handoff_calls::conformance::{self, model};
use handoff_tests::on_redis::OnServer;
use handoff_tests::on_redis::twin::Twins;
use handoff_tests::redis::Server;

use crate::runtime;

/// How many schedules are run, unless `HANDOFF_SCHEDULES` says how many.
const SCHEDULES: u64 = 25;

fn schedules() -> u64 {
    let asked = std::env::var("HANDOFF_SCHEDULES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES)
}

#[test]
fn redis_keeps_every_promise_of_a_transport() {
    let server = Server::start();
    runtime().block_on(conformance::of_calls(&OnServer(&server)));
}

#[test]
fn random_schedules_end_every_call_once_on_redis() {
    let server = Server::start();
    runtime().block_on(model::schedules(&OnServer(&server), 0..schedules()));
}

#[test]
fn redis_does_what_the_machine_does_step_by_step() {
    let server = Server::start();
    runtime().block_on(model::schedules_without_choice(&Twins(&server), 0..schedules()));
}
