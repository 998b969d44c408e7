//! The machine passes what every transport passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use handoff_calls::conformance::{self, Fresh, Memory, model};
use handoff_calls::transport::Transport as _;
use handoff_calls::{
    Ask, CallId, ChannelName, ClientId, NewCall, Notice, Outcome, Reply, Rules, Serves,
};
use handoff_types::Span;

/// How many schedules are run, unless `HANDOFF_SCHEDULES` says how many.
const SCHEDULES: u64 = 2_000;

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
fn a_restart_keeps_what_was_told_and_whoever_had_a_call_may_go_on() {
    let bench = Memory::new(Rules::default(), 7);
    let (caller, worker) = (ClientId::of_chance(1), ClientId::of_chance(2));
    let channel: ChannelName = "work".parse().unwrap();
    let ask = |ask: Ask| run(bench.ask(ask)).unwrap();
    let here = || {
        let serves = vec![Serves { channel: channel.clone(), concurrency: 1 }];
        ask(Ask::Init { client: caller, name: "".into(), serves: Vec::new(), eager: false });
        ask(Ask::Init { client: worker, name: "".into(), serves, eager: false });
    };
    let call = CallId::of_chance(7);
    let new = || NewCall {
        id: call,
        caller: Some(caller),
        channel: channel.clone(),
        params: Bytes::from("7"),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    };
    here();
    ask(Ask::Request(Box::new(new())));
    ask(Ask::Accept { client: worker, call, fence: 1 });
    bench.restart(Span::from_secs(5));
    here();
    let told = run(bench.heard(worker)).unwrap();
    let again = told.iter().any(|one| matches!(one, Notice::Offer(offer) if offer.fence == 1));
    assert!(again, "it is told again what it has: {told:?}");
    let beat = ask(Ask::Heartbeat { client: worker, call, fence: 1 });
    assert_eq!(beat, Reply::Held(true), "its lease goes on");
    let result = Ok(Bytes::from("8"));
    let taken = ask(Ask::Respond { client: worker, call, fence: 1, result });
    assert_eq!(taken, Reply::Taken(Ok(())));
    bench.restart(Span::from_secs(5));
    let attempt = bench.with_state(|state| state.call(call).unwrap().attempt);
    assert_eq!(attempt, 1, "it is known how often it was begun");
    here();
    run(bench.heard(caller)).unwrap();
    ask(Ask::Request(Box::new(new())));
    let told = run(bench.heard(caller)).unwrap();
    let outcome = Outcome::Answer(Bytes::from("8"));
    let ended = |one: &Notice| matches!(one, Notice::Ended { outcome: end, .. } if *end == outcome);
    assert!(told.iter().any(ended), "the answer is there: {told:?}");
}

/// A consumer that introduces itself hears again what it has. If that was answered before the offer was
/// on disk, a crash would leave it at work on a call that nobody knows, and its fence would be given again.
#[test]
fn whoever_has_something_is_told_of_it_again_only_once_it_is_on_disk() {
    let bench = Memory::new(Rules::default(), 7);
    let (caller, worker) = (ClientId::of_chance(1), ClientId::of_chance(2));
    let channel: ChannelName = "work".parse().unwrap();
    let serves = vec![Serves { channel: channel.clone(), concurrency: 1 }];
    let init = |client, serves| Ask::Init { client, name: "".into(), serves, eager: false };
    let is_light = |ask: &Ask| bench.with_state(|state| ask.is_light(state));
    assert!(is_light(&init(worker, serves.clone())), "it has nothing");
    run(bench.ask(init(caller, Vec::new()))).unwrap();
    run(bench.ask(init(worker, serves.clone()))).unwrap();
    let new = NewCall {
        id: CallId::of_chance(7),
        caller: Some(caller),
        channel,
        params: Bytes::from("7"),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    };
    run(bench.ask(Ask::Request(Box::new(new)))).unwrap();
    assert!(!is_light(&init(worker, serves)), "it has an offer");
    assert!(is_light(&init(caller, Vec::new())), "a caller hears nothing by it");
}

#[test]
fn random_schedules_end_every_call_once() {
    let asked = std::env::var("HANDOFF_SCHEDULES").ok();
    let many = asked.and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES);
    run(model::schedules(&InMemory, 0..many));
}

/// The answer to an accept was lost and the consumer asked again, late in its lease. It was told that
/// it has the call, and soon after another one was told the same.
#[test]
fn whoever_hears_late_that_it_has_a_call_has_it_for_a_whole_lease() {
    run(model::schedules(&InMemory, 3242..3243));
}
