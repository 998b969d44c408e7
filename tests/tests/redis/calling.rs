//! One client calls and another answers: what each of them can rely on when nothing breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handoff_calls::{Failing, Failure, HandlerError, Outcome, Refusal, TimedOut};
use handoff_store_redis::{Client, Job, NoAnswer, Options, Request, Service, Trouble};
use handoff_tests::redis::{Said, Server, Setup};
use handoff_types::Span;
use tokio::sync::Notify;

use crate::{Begun, answer, channel, client, echo, must, runtime};

#[test]
fn every_call_is_answered_once_whatever_it_carries() {
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let worker = client(&server.address(), vec![echo("work", 8, &begun)]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let large = format!("\"{}\"", "x".repeat(900_000));
        let texts = ["null", "0", "\"\"", "{\"ä\":[1,2.5e-3,true]}", "\"\\u0000 \\r\\n\"", &large];
        for text in texts {
            assert_eq!(answer(&caller, "work", text).await, text);
        }
        let many: Vec<_> = (0..200)
            .map(|n| {
                let caller = caller.clone();
                tokio::spawn(async move { answer(&caller, "work", &n.to_string()).await })
            })
            .collect();
        for (n, one) in many.into_iter().enumerate() {
            assert_eq!(one.await.unwrap(), n.to_string());
        }
        assert_eq!(begun.lock().unwrap().len(), texts.len() + 200);
        let request = Request::new(channel("work"), "7");
        let known = must("an answer", caller.call(request)).await.unwrap();
        assert_eq!(known.executor, Some(worker.id()));
        assert!(worker.stop(Duration::from_secs(10)).await, "nothing is left to settle");
        assert!(caller.stop(Duration::from_secs(10)).await, "nothing is left to settle");
        let open = server.ask(&["ZCARD", "origami:x:due"]);
        assert_eq!(open, Said::Number(0), "what is settled is due no more");
    });
}

/// Calls of scripts that the server has run so far.
fn scripts_run(server: &Server) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.text().lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn calls_that_come_together_share_the_calls_of_scripts() {
    const CALLS: u64 = 256;
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let worker = client(&server.address(), vec![echo("work", 256, &begun)]).await;
        let caller = client(&server.address(), Vec::new()).await;
        // Whoever comes first gives Redis the scripts.
        assert_eq!(answer(&caller, "work", "0").await, "0");
        let before = scripts_run(&server);
        let mut asked = Vec::new();
        for n in 0..CALLS {
            let request = Request::new(channel("work"), n.to_string());
            asked.push(must("room", caller.start(request, ())).await.unwrap());
        }
        for (n, one) in asked.into_iter().enumerate() {
            let ended = must("an answer", one.ended).await.unwrap().unwrap();
            assert_eq!(ended.outcome, Outcome::Answer(n.to_string().into()));
        }
        assert!(caller.stop(Duration::from_secs(10)).await, "nothing is left to settle");
        assert!(worker.stop(Duration::from_secs(10)).await, "nothing is left to settle");
        let run = scripts_run(&server) - before;
        assert!(run < CALLS * 4 / 2, "{run} calls of scripts for {CALLS} calls");
    });
}

#[test]
fn a_call_that_is_refused_among_others_is_refused_alone() {
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 64, &begun)]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let id = handoff_calls::CallId::of_chance(7);
        let first = Request { id: Some(id), ..Request::new(channel("work"), "7") };
        must("an answer", caller.call(first)).await.unwrap();
        let mut asked = Vec::new();
        for n in 0..32 {
            let id = (n == 9).then_some(id);
            let request = Request { id, ..Request::new(channel("work"), n.to_string()) };
            asked.push(must("room", caller.start(request, ())).await.unwrap());
        }
        for (n, one) in asked.into_iter().enumerate() {
            let ended = must("an end", one.ended).await.unwrap();
            match n {
                9 => assert_eq!(ended, Err(NoAnswer::Refused(Refusal::IdReused(id)))),
                _ => assert_eq!(ended.unwrap().outcome, Outcome::Answer(n.to_string().into())),
            }
        }
        assert_eq!(begun.lock().unwrap().len(), 32, "each of the others ran once");
        assert_eq!(caller.connections(), 1, "nobody lost a connection over it");
    });
}

#[test]
fn a_handlers_error_and_a_panic_reach_the_caller_and_both_live_on() {
    let server = Server::start();
    runtime().block_on(async {
        let service = Service::new(channel("work"), 4, |job: Job| async move {
            match &job.params[..] {
                b"1" => {
                    let error = HandlerError {
                        name: "Stock".into(),
                        message: "none \"left\"".into(),
                        code: "E1".into(),
                    };
                    Err(Failing { error, terminal: true, retry_after: None })
                }
                b"2" => panic!("on purpose"),
                _ => Ok(job.params),
            }
        });
        let _worker = client(&server.address(), vec![service]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let fails = async |params: &'static str| {
            let request = Request::new(channel("work"), params);
            match must("an end", caller.call(request)).await.unwrap().outcome {
                Outcome::Failed(Failure::Handler(error)) => error,
                other => panic!("{other:?}"),
            }
        };
        let error = fails("1").await;
        assert_eq!((&*error.name, &*error.message, &*error.code), ("Stock", "none \"left\"", "E1"));
        assert_eq!(&*fails("2").await.code, "panic");
        assert_eq!(answer(&caller, "work", "3").await, "3");
    });
}

#[test]
fn what_fails_is_tried_again_until_it_succeeds() {
    let server = Server::start();
    runtime().block_on(async {
        let tries = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&tries);
        let fences = AtomicU64::new(0);
        let service = Service::new(channel("work"), 1, move |job: Job| {
            let attempt = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let before = fences.swap(job.fence, Ordering::SeqCst);
            assert!(job.fence > before, "every offer has a larger fence: {before}, {}", job.fence);
            async move {
                assert_eq!(u64::from(job.attempt), attempt, "it is told which attempt it is");
                match attempt {
                    1 | 2 => Err(Failing::default()),
                    _ => Ok(job.params),
                }
            }
        });
        let _worker = client(&server.address(), vec![service]).await;
        let caller = client(&server.address(), Vec::new()).await;
        assert_eq!(answer(&caller, "work", "1").await, "1");
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_call_without_a_consumer_ends_at_once_if_asked_and_in_time_otherwise() {
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 1, &begun)]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let at_once = Request { only_with_consumer: true, ..Request::new(channel("void"), "1") };
        let ended = must("an end", caller.call(at_once)).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Failed(Failure::NoConsumer));
        let queue_timeout = Some(Span::from_millis(600));
        let in_time = Request { queue_timeout, ..Request::new(channel("void"), "2") };
        let ended = must("an end", caller.call(in_time)).await.unwrap();
        assert_eq!(ended.outcome, Outcome::TimedOut(TimedOut::InQueue));
        assert_eq!(answer(&caller, "work", "3").await, "3", "nobody else was stopped");
    });
}

#[test]
fn a_call_that_waited_for_a_consumer_gets_the_first_that_comes() {
    let server = Server::start();
    runtime().block_on(async {
        let caller = client(&server.address(), Vec::new()).await;
        let waits = tokio::spawn({
            let caller = caller.clone();
            async move { answer(&caller, "work", "1").await }
        });
        let parked = async {
            while server.ask(&["ZCARD", "origami:x:queue:work"]) != Said::Number(1) {
                tokio::task::yield_now().await;
            }
        };
        must("the call in its queue", parked).await;
        let pending = server.ask(&["LLEN", "origami:requests:pending_pool:list"]);
        assert_eq!(pending, Said::Number(0), "it lies where no foreign tick breaks on it");
        let begun = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 1, &begun)]).await;
        assert_eq!(must("the answer", waits).await.unwrap(), "1");
    });
}

#[test]
fn a_cancelled_call_ends_and_its_handler_is_told() {
    let server = Server::start();
    runtime().block_on(async {
        let (began, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, tells) = (Arc::clone(&began), Arc::clone(&told));
        let service = Service::new(channel("work"), 1, move |mut job: Job| {
            let (begins, tells) = (Arc::clone(&begins), Arc::clone(&tells));
            async move {
                begins.notify_one();
                job.unwanted().await;
                tells.notify_one();
                Ok(job.params)
            }
        });
        let _worker = client(&server.address(), vec![service]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let id = handoff_calls::CallId::of_chance(7);
        let request = Request { id: Some(id), ..Request::new(channel("work"), "1") };
        let waits = tokio::spawn({
            let caller = caller.clone();
            async move { caller.call(request).await.unwrap().outcome }
        });
        must("the handler", began.notified()).await;
        caller.cancel(id).await.unwrap();
        assert_eq!(must("the end", waits).await.unwrap(), Outcome::Cancelled);
        must("the handler's notice", told.notified()).await;
    });
}

#[test]
fn a_key_makes_two_calls_one_and_another_content_is_refused() {
    let server = Server::start();
    runtime().block_on(async {
        let begun = Begun::default();
        let _worker = client(&server.address(), vec![echo("work", 1, &begun)]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let other = client(&server.address(), Vec::new()).await;
        let keyed = |params: &'static str| Request {
            key: Some("order/7".parse().unwrap()),
            ..Request::new(channel("work"), params)
        };
        let one = must("an answer", caller.call(keyed("1"))).await.unwrap();
        let two = must("an answer", other.call(keyed("1"))).await.unwrap();
        assert_eq!(one.outcome, two.outcome);
        assert_eq!(*begun.lock().unwrap(), ["1"], "it ran once");
        let refused = must("a refusal", other.call(keyed("2"))).await.unwrap_err();
        assert!(matches!(refused, NoAnswer::Refused(_)), "{refused}");
    });
}

#[test]
fn a_consumer_that_stops_answers_what_it_runs_and_hands_back_the_rest() {
    let server = Server::start();
    runtime().block_on(async {
        let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, goes) = (Arc::clone(&began), Arc::clone(&go));
        let service = Service::new(channel("work"), 1, move |job: Job| {
            let (begins, goes) = (Arc::clone(&begins), Arc::clone(&goes));
            async move {
                begins.notify_one();
                goes.notified().await;
                Ok(job.params)
            }
        });
        let slow = client(&server.address(), vec![service]).await;
        let caller = client(&server.address(), Vec::new()).await;
        let call = |params: &'static str| {
            let caller = caller.clone();
            tokio::spawn(async move { answer(&caller, "work", params).await })
        };
        let first = call("1");
        must("the handler", began.notified()).await;
        let second = call("2");
        let stops = tokio::spawn(slow.stop(Duration::from_secs(20)));
        let begun = Begun::default();
        let _quick = client(&server.address(), vec![echo("work", 1, &begun)]).await;
        assert_eq!(must("the second", second).await.unwrap(), "2");
        go.notify_one();
        assert_eq!(must("the first", first).await.unwrap(), "1");
        assert!(must("the stop", stops).await.unwrap(), "everything was settled");
        assert_eq!(*begun.lock().unwrap(), ["2"]);
    });
}

#[test]
fn an_acl_user_a_password_and_a_database_are_used_and_their_lack_is_said() {
    let users = ["--user", "default", "off"].map(str::to_owned).to_vec();
    let own = "on >secret ~origami:* &origami.* +@all -@dangerous +info".split(' ');
    let more = users.into_iter().chain(["--user", "me"].map(str::to_owned));
    let more = more.chain(own.map(str::to_owned)).collect();
    let server = Server::with(Setup { more, ..Setup::default() });
    runtime().block_on(async {
        let port = server.socket().port();
        let begun = Begun::default();
        let there = format!("redis://me:secret@127.0.0.1:{port}/3");
        let _worker = client(&there, vec![echo("work", 1, &begun)]).await;
        let caller = client(&there, Vec::new()).await;
        assert_eq!(answer(&caller, "work", "1").await, "1");
        let wrong = format!("redis://me:wrong@127.0.0.1:{port}/3");
        let refused = Client::connect(&wrong, Options::default(), Vec::new()).await.unwrap_err();
        assert!(matches!(refused, Trouble::NotLetIn { .. }), "{refused}");
        let nobody = Client::connect(&server.address(), Options::default(), Vec::new()).await;
        assert!(matches!(nobody, Err(Trouble::NotLetIn { .. })), "{nobody:?}");
    });
}

#[test]
fn a_clustered_server_is_refused_with_words() {
    let server = Server::with(Setup { cluster: true, ..Setup::default() });
    runtime().block_on(async {
        let refused = Client::connect(&server.address(), Options::default(), Vec::new()).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("single node"), "{words}");
    });
}
