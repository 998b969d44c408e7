//! Our peers and foreign ones in one pool: whatever is sent comes back as it was, once, whoever called
//! and whoever served.

use std::thread::JoinHandle;

use bytes::Bytes;
use handoff_calls::{Ask, CallId, ChannelSettings, Failure, NewCall, OnLost, Outcome, Reply};
use handoff_store_redis::{Client, Direct, Guardian, Job, Options, Request, Service};
use handoff_tests::origami::{Peer, Version};
use handoff_tests::redis::{Said, Server};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::{Begun, answer, channel, client, echo, must, runtime};

/// JSON of every kind; one of them is a megabyte.
fn payload(n: usize) -> String {
    match n % 7 {
        _ if n == 500 => format!("\"{}\"", "x".repeat(1_000_000)),
        0 => "null".to_owned(),
        1 => format!("{n}.5e-3"),
        2 => format!("\"ü € 🦀 \\u0000 {n}\""),
        3 => format!("{}{n}{}", "[".repeat(n % 40), "]".repeat(n % 40)),
        4 => format!("{{\"a\":{{\"ключ\":[true,false,null,{n}]}}}}"),
        5 => "\"\"".to_owned(),
        _ => format!("[{n},\"\\\"quoted\\\"\",-0.0]"),
    }
}

fn guardian(runtime: &Runtime, server: &Server) -> Guardian {
    runtime
        .block_on(async { Guardian::start(&server.address(), Options::default()).await.unwrap() })
}

/// A foreign consumer that echoes on a thread of its own, until it is told to stop.
struct Foreign {
    node: String,
    serves: JoinHandle<u64>,
}

impl Foreign {
    fn start(server: &Server, version: Version) -> Self {
        let mut peer = Peer::start(server, version, "work");
        let node = peer.node.clone();
        Self { node, serves: std::thread::spawn(move || peer.serve(str::to_owned)) }
    }

    fn stop(self, server: &Server) -> u64 {
        let heard = server.ask(&["PUBLISH", &format!("origami.h{}", self.node), "1"]);
        assert_eq!(heard, Said::Number(1));
        self.serves.join().unwrap()
    }
}

/// So many calls of ours, some at once, each answered with what it carried. Gives who answered.
async fn call_all(caller: &Client, payloads: Vec<String>) -> Vec<String> {
    let mut calls = JoinSet::new();
    let mut executors = Vec::new();
    let mut payloads = payloads.into_iter();
    loop {
        while calls.len() < 16 {
            let Some(payload) = payloads.next() else { break };
            let caller = caller.clone();
            calls.spawn(async move {
                let request = Request::new(channel("work"), Bytes::from(payload.clone()));
                let answer = must("an answer", caller.call(request)).await.unwrap();
                assert_eq!(answer.outcome, Outcome::Answer(Bytes::from(payload)));
                answer.executor.unwrap().to_string()
            });
        }
        match calls.join_next().await {
            Some(executor) => executors.push(executor.unwrap()),
            None => return executors,
        }
    }
}

#[test]
fn a_thousand_calls_of_all_kinds_come_back_from_a_foreign_consumer_as_they_were() {
    let server = Server::start();
    let runtime = runtime();
    let _guardian = guardian(&runtime, &server);
    let consumer = Foreign::start(&server, Version::Swapped);
    let node = consumer.node.clone();
    runtime.block_on(async {
        let caller = client(&server.address(), Vec::new()).await;
        let executors = call_all(&caller, (0..1_000).map(payload).collect()).await;
        assert_eq!(executors.len(), 1_000);
        assert!(executors.iter().all(|executor| *executor == node), "it is known who ran them");
    });
    assert_eq!(consumer.stop(&server), 1_000, "each ran once");
}

#[test]
fn a_thousand_calls_of_all_kinds_of_a_foreign_caller_come_back_as_they_were_and_a_panic_as_an_error()
 {
    let server = Server::start();
    let runtime = runtime();
    let _guardian = guardian(&runtime, &server);
    let service = Service::new(channel("work"), 4, |job: Job| async move {
        assert!(job.params != "\"panic\"", "on purpose");
        Ok(job.params)
    });
    let _worker = runtime.block_on(client(&server.address(), vec![service]));
    let mut caller = Peer::start(&server, Version::Swapped, "");
    for n in 0..1_000 {
        let sent = payload(n);
        let id = caller.request("work", &sent, "0");
        assert_eq!(caller.end_of(&id), ("0".to_owned(), sent), "{n}");
    }
    let id = caller.request("work", "\"panic\"", "0");
    let (digit, error) = caller.end_of(&id);
    assert_eq!(digit, "1");
    assert!(error.contains("\"code\":\"panic\""), "{error}");
    let id = caller.request("work", "1", "0");
    assert_eq!(caller.end_of(&id), ("0".to_owned(), "1".to_owned()), "both live on");
}

#[test]
fn a_mixed_pool_answers_each_call_once_and_everybody_has_a_share() {
    const OURS: usize = 1_500;
    const THEIRS: usize = 500;
    let server = Server::start();
    let runtime = runtime();
    let _guardian = guardian(&runtime, &server);
    // A stock consumer answers in its own layout, so those who share a channel are of one version.
    let foreign = [Version::Swapped; 2].map(|version| Foreign::start(&server, version));
    let begun = [Begun::default(), Begun::default()];
    let (caller, _workers) = runtime.block_on(async {
        let mut workers = Vec::new();
        for begun in &begun {
            workers.push(client(&server.address(), vec![echo("work", 4, begun)]).await);
        }
        (client(&server.address(), Vec::new()).await, workers)
    });
    let mut stranger = Peer::start(&server, Version::Swapped, "");
    let theirs = std::thread::spawn(move || {
        for n in 0..THEIRS {
            let id = stranger.request("work", &n.to_string(), "0");
            assert_eq!(stranger.end_of(&id), ("0".to_owned(), n.to_string()));
        }
    });
    runtime.block_on(call_all(&caller, (0..OURS).map(payload).collect()));
    theirs.join().unwrap();
    let mut shares: Vec<u64> = foreign.map(|one| one.stop(&server)).to_vec();
    shares.extend(begun.iter().map(|begun| begun.lock().unwrap().len() as u64));
    let all = (OURS + THEIRS) as u64;
    assert_eq!(shares.iter().sum::<u64>(), all, "each ran once: {shares:?}");
    assert!(shares.iter().all(|share| *share >= all / 10), "somebody has next to none: {shares:?}");
}

#[test]
fn one_client_of_ours_is_enough_to_heal_what_one_request_has_stopped() {
    let server = Server::start();
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    let stuck = caller.request("void", "1", "1");
    assert_eq!(caller.told_of('c').message, stuck);
    assert_eq!(server.ask(&["GET", "origami:tick:lock"]).text(), "2", "a foreign tick broke");
    let runtime = runtime();
    let _client = runtime.block_on(client(&server.address(), Vec::new()));
    assert_eq!(caller.end_of(&stuck).0, "2", "it gets its timeout");
    let id = caller.request("work", "2", "0");
    assert_eq!(consumer.serve_one(|params| ("0", params.to_owned())).0, id);
    assert_eq!(caller.end_of(&id).1, "2");
    assert_eq!(server.ask(&["GET", "origami:tick:lock"]).text(), "1");
}

#[test]
fn what_a_foreign_consumer_ran_and_lost_ends_where_nobody_may_run_it_again() {
    let server = Server::start();
    let runtime = runtime();
    let _guardian = guardian(&runtime, &server);
    let mut dies = Peer::start(&server, Version::Swapped, "work");
    runtime.block_on(async {
        let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
        let settings = ChannelSettings { on_lost: OnLost::Fail, ..ChannelSettings::default() };
        let set = Ask::SetChannel { channel: channel("work"), settings };
        assert_eq!(direct.step(&set).await.unwrap(), Reply::Done);
        let caller = client(&server.address(), Vec::new()).await;
        let id = CallId::of_chance(7);
        let waits = tokio::spawn({
            let request = Request { id: Some(id), ..Request::new(channel("work"), "1") };
            async move { caller.call(request).await.unwrap().outcome }
        });
        tokio::task::block_in_place(|| {
            assert_eq!(dies.told_of('b').message, id.to_string());
            dies.accept(&id.to_string());
            dies.told_of('d');
        });
        let gone = format!("origami:clients:active_pool:{}", dies.node);
        assert_eq!(server.ask(&["DEL", &gone]), Said::Number(1), "nothing is heard of it any more");
        let outcome = must("the end", waits).await.unwrap();
        assert_eq!(outcome, Outcome::Failed(Failure::ExecutorLost));
    });
}

#[test]
fn one_id_a_hundred_times_at_once_is_one_call() {
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 8, &begun)]).await;
        let id = CallId::of_chance(7);
        let new = NewCall {
            id,
            caller: None,
            channel: channel("work"),
            params: Bytes::from("1"),
            key: None,
            timeout: None,
            queue_timeout: None,
            only_with_consumer: false,
            trace: None,
        };
        let mut asked = JoinSet::new();
        for _ in 0..4 {
            let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
            let ask = Ask::Request(Box::new(new.clone()));
            asked.spawn(async move {
                let mut first = 0;
                for _ in 0..25 {
                    let reply = direct.step(&ask).await.unwrap();
                    first += u32::from(reply == Reply::Registered { call: id, again: false });
                }
                first
            });
        }
        let first: u32 = asked.join_all().await.into_iter().sum();
        assert_eq!(first, 1, "it was registered once");
        let caller = client(&server.address(), Vec::new()).await;
        assert_eq!(answer(&caller, "work", "2").await, "2");
        let ran = begun.lock().unwrap().iter().filter(|params| *params == "1").count();
        assert_eq!(ran, 1, "and ran once");
    });
}
