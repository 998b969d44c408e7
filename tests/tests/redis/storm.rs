//! Calls that go on while something breaks, and what must be true of them afterwards.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use handoff_store_redis::Client;
use handoff_tests::redis::{Said, Server};
use tokio::task::JoinSet;

use crate::{Begun, answer, must};

/// How many call at once.
const CALLERS: usize = 8;

/// Calls without a break until what is done meanwhile is over, and until each call that was begun is
/// answered. Every answer is the one to its own call.
pub(crate) async fn through<T>(caller: &Client, what: impl Future<Output = T>) -> (T, u64) {
    let (go_on, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (caller, go_on, asked) = (caller.clone(), Arc::clone(&go_on), Arc::clone(&asked));
        callers.spawn(async move {
            while go_on.load(Ordering::SeqCst) {
                let n = asked.fetch_add(1, Ordering::SeqCst).to_string();
                assert_eq!(answer(&caller, "work", &n).await, n, "an answer to another call");
            }
        });
    }
    let came = what.await;
    go_on.store(false, Ordering::SeqCst);
    while let Some(one) = must("every answer", callers.join_next()).await {
        one.unwrap();
    }
    (came, asked.load(Ordering::SeqCst))
}

/// Every call was begun, and none twice.
pub(crate) fn each_ran_once(begun: &Begun, asked: u64) {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for params in begun.lock().unwrap().iter() {
        *times.entry(params.clone()).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "these ran more than once: {twice:?}");
    assert_eq!(times.len() as u64, asked, "some never ran");
}

/// Each of so many clients has three connections and one subscription to its pings, no more.
pub(crate) async fn no_connection_is_left_over(server: &Server, clients: usize) {
    let counted = async {
        loop {
            let list = server.ask(&["CLIENT", "LIST"]);
            let lines = list.text().lines().filter(|line| line.contains("name=handoff-")).count();
            if lines == clients * 3 {
                return;
            }
            assert!(lines <= clients * 6, "connections pile up: {}", list.text());
            tokio::task::yield_now().await;
        }
    };
    must("three connections for each client", counted).await;
}

/// Nothing is open, and whatever is kept of calls will lapse.
pub(crate) fn no_key_is_left_over(server: &Server) {
    assert_eq!(server.ask(&["ZCARD", "origami:x:due"]), Said::Number(0), "calls are still open");
    for list in ["pending", "request_ack", "executing", "response_ack"] {
        let list = format!("origami:requests:{list}_pool:list");
        assert_eq!(server.ask(&["LLEN", &list]), Said::Number(0), "{list}");
    }
    let mut wire = server.connect();
    for key in wire.ask(&["KEYS", "origami:requests:list:*"]).texts() {
        let Said::Number(lapses) = wire.ask(&["PTTL", key]) else { panic!("no time") };
        assert!(lapses > 0, "{key} is kept for ever");
    }
}

/// A fault lasts as long as the test says; nothing is expected to have happened by its end.
pub(crate) async fn lasts(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}
