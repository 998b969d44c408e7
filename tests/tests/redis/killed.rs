//! Peers that are killed or frozen in the middle of something.

use std::process::Command;
use std::time::Duration;

use handoff_calls::{Ask, CallId, ChannelSettings, Failure, OnLost, Outcome, Reply};
use handoff_store_redis::{Direct, Guardian, Options, Request};
use handoff_tests::place::Place;
use handoff_tests::prey::{Prey, Said as Line};
use handoff_tests::redis::{Said, Server};
use handoff_types::Span;

use crate::{Begun, answer, channel, client, echo, must, runtime};

const PATIENCE: Duration = Duration::from_secs(30);

/// A node of ours as a process.
fn node(server: &Server, place: &Place, role: &str) -> Prey {
    let mut node = Command::new(env!("CARGO_BIN_EXE_node"));
    node.args(["--role", role, "--address", &server.address()]);
    let node = Prey::start(&mut node, &place.path().join(format!("{role}.stderr"))).unwrap();
    assert!(line(&node).starts_with("here "));
    node
}

fn line(prey: &Prey) -> String {
    match prey.listen(PATIENCE) {
        Line::Line(line) => line,
        other => panic!("{other:?}: {}", prey.last_words()),
    }
}

/// A lease that is over soon.
fn short(on_lost: OnLost) -> ChannelSettings {
    ChannelSettings { on_lost, lease: Span::from_secs(1), ..ChannelSettings::default() }
}

async fn set(direct: &Direct, settings: ChannelSettings) {
    let set = Ask::SetChannel { channel: channel("work"), settings };
    assert_eq!(direct.step(&set).await.unwrap(), Reply::Done);
}

/// A call that a consumer runs and will never answer.
fn held(id: u128) -> Request {
    Request { id: Some(CallId::of_chance(id)), ..Request::new(channel("work"), "\"hold\"") }
}

#[test]
fn what_a_killed_consumer_ran_goes_to_another_or_ends_as_its_channel_says() {
    for on_lost in [OnLost::Redeliver, OnLost::Fail] {
        let server = Server::start();
        let place = Place::temporary().unwrap();
        runtime().block_on(async {
            let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
            set(&direct, short(on_lost)).await;
            let _guardian = Guardian::start(&server.address(), Options::default()).await.unwrap();
            let caller = client(&server.address(), Vec::new()).await;
            let mut victim = node(&server, &place, "consumer");
            let waits = tokio::spawn({
                let caller = caller.clone();
                async move { caller.call(held(1)).await.unwrap().outcome }
            });
            let begun = line(&victim);
            let attempt = begun.split(' ').rev().nth(1);
            assert_eq!(attempt, Some("1"), "{begun}: the first attempt");
            victim.kill().unwrap();
            let runs = Begun::default();
            let _other = client(&server.address(), vec![echo("work", 1, &runs)]).await;
            let outcome = must("the end", waits).await.unwrap();
            match on_lost {
                OnLost::Redeliver => {
                    assert_eq!(outcome, Outcome::Answer("\"hold\"".into()));
                    assert_eq!(runs.lock().unwrap().len(), 1);
                }
                OnLost::Fail => {
                    assert_eq!(outcome, Outcome::Failed(Failure::ExecutorLost));
                    assert!(runs.lock().unwrap().is_empty(), "it is not run again");
                }
            }
        });
    }
}

#[test]
fn what_a_frozen_consumer_was_offered_goes_to_another_and_the_late_one_runs_nothing() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    runtime().block_on(async {
        let _guardian = Guardian::start(&server.address(), Options::default()).await.unwrap();
        let caller = client(&server.address(), Vec::new()).await;
        let victim = node(&server, &place, "consumer");
        assert_eq!(answer(&caller, "work", "1").await, "1");
        assert!(line(&victim).starts_with("begun "));
        victim.freeze().unwrap();
        let waits = tokio::spawn({
            let caller = caller.clone();
            async move { answer(&caller, "work", "2").await }
        });
        let offered = async {
            while server.ask(&["LLEN", "origami:requests:request_ack_pool:list"]) != Said::Number(1)
            {
                tokio::task::yield_now().await;
            }
        };
        must("the offer", offered).await;
        let lost = server.ask(&["LINDEX", "origami:requests:request_ack_pool:list", "0"]);
        let lost = lost.text().to_owned();
        assert_eq!(lost.len(), 36, "{lost}");
        let runs = Begun::default();
        let _other = client(&server.address(), vec![echo("work", 1, &runs)]).await;
        assert_eq!(must("the answer", waits).await.unwrap(), "2");
        assert_eq!(*runs.lock().unwrap(), ["2"]);
        victim.thaw().unwrap();
        assert_eq!(answer(&caller, "work", "3").await, "3");
        // It is heard of again, and of what it was offered before it has begun nothing.
        let mut served = runs.lock().unwrap().clone();
        let mut next = 4;
        while served.len() as u64 == next - 2 {
            assert_eq!(answer(&caller, "work", &next.to_string()).await, next.to_string());
            served = runs.lock().unwrap().clone();
            next += 1;
        }
        let begun = line(&victim);
        let own = begun.starts_with("begun ") && !begun.contains(&lost);
        assert!(own, "{begun}: a call of its own, not {lost}, which was taken away");
    });
}

#[test]
fn a_late_answer_of_a_consumer_that_lost_its_call_is_refused_and_counted() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    runtime().block_on(async {
        let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
        set(&direct, short(OnLost::Redeliver)).await;
        let _guardian = Guardian::start(&server.address(), Options::default()).await.unwrap();
        let caller = client(&server.address(), Vec::new()).await;
        let mut victim = node(&server, &place, "consumer");
        let waits = tokio::spawn({
            let caller = caller.clone();
            async move { caller.call(held(1)).await.unwrap().outcome }
        });
        let begun = line(&victim);
        let id = CallId::of_chance(1);
        let frozen = direct.call(id).await.unwrap().unwrap().executor().unwrap();
        assert!(begun.contains(&id.to_string()));
        victim.freeze().unwrap();
        let runs = Begun::default();
        let _other = client(&server.address(), vec![echo("work", 1, &runs)]).await;
        assert_eq!(must("the end", waits).await.unwrap(), Outcome::Answer("\"hold\"".into()));
        victim.kill().unwrap();
        let fence = begun.rsplit(' ').next().unwrap().parse().unwrap();
        let late = Ask::Respond { client: frozen, call: id, fence, result: Ok("0".into()) };
        assert_eq!(direct.step(&late).await.unwrap(), Reply::Taken(Err(handoff_calls::Late::Over)));
        assert_eq!(server.ask(&["HGET", "origami:x:counts", "late"]).text(), "1");
    });
}

#[test]
fn what_a_killed_caller_left_is_in_nobodys_way_and_lapses() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    runtime().block_on(async {
        let runs = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 8, &runs)]).await;
        let mut victim = node(&server, &place, "caller");
        victim.say("1".to_owned());
        assert_eq!(line(&victim), "ended 1 1");
        victim.freeze().unwrap();
        let caller = client(&server.address(), Vec::new()).await;
        assert_eq!(answer(&caller, "work", "2").await, "2");
        victim.kill().unwrap();
        victim.thaw().unwrap();
        for n in 3..20 {
            assert_eq!(answer(&caller, "work", &n.to_string()).await, n.to_string());
        }
        let mut wire = server.connect();
        for key in wire.ask(&["KEYS", "origami:*"]).texts() {
            let calls = key.contains(":requests:list:") || key.contains(":clients:list:");
            let Said::Number(lapses) = wire.ask(&["PTTL", key]) else { panic!("no time") };
            // One that is gone since it was listed is kept by nobody either.
            assert!(!calls || lapses != -1, "{key} is kept for ever");
        }
    });
}
