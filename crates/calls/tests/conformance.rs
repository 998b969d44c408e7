//! The machine passes what every transport passes.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use handoff_calls::Rules;
use handoff_calls::conformance::{self, Fresh, Memory, model};

/// How many schedules are run, unless `HANDOFF_SCHEDULES` says how many.
const SCHEDULES: u64 = 3_000;

struct InMemory;

impl Fresh for InMemory {
    type Bench = Memory;

    async fn fresh(&self, rules: Rules) -> Memory {
        Memory::new(rules, 7)
    }
}

/// The machine never waits.
fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a machine in memory waits for nobody"),
    }
}

#[test]
fn machine_keeps_every_promise_of_a_transport() {
    run(conformance::all(&InMemory));
}

#[test]
fn random_schedules_end_every_call_once() {
    let asked = std::env::var("HANDOFF_SCHEDULES").ok();
    let many = asked.and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES);
    run(model::schedules(&InMemory, 0..many));
}
