//! The SDK through Redis: what is promised of callers and workers through a server holds here too, by
//! the same code.

use std::sync::Arc;
use std::time::Duration;

use handoff_sdk::calls::{
    CallError, CallQuery, Caller, CallerOptions, Channel, HandlerError, Job, Link, Redis, Worker,
    WorkerOptions,
};
use handoff_sdk::{Client, Options, Outcome};
use handoff_tests::place::Place;
use handoff_tests::redis::Server;
use handoff_tests::served::{Served, lair};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use crate::{must, runtime};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    tea: String,
    cups: u64,
}

fn redis(server: &Server) -> Redis {
    Redis::new(server.address()).unwrap()
}

async fn caller(server: &Server) -> Caller {
    redis(server).caller(CallerOptions::new()).await.unwrap()
}

/// Handlers of every kind, wherever they are served.
fn handlers(worker: Worker<'_>) -> Worker<'_> {
    worker
        .serve(Channel::new("brew").concurrency(8), |order: Order, job: Job| async move {
            assert!(job.time_left() > Duration::ZERO && job.caller().is_some());
            match order.cups {
                0 => Err(HandlerError::new("NoCups", "nobody drinks").code("cups").terminal()),
                cups => Ok(Order { cups: cups * 2, ..order }),
            }
        })
        .serve("panic", |(): (), _: Job| async move {
            assert!(std::hint::black_box(false), "on purpose");
            Ok(())
        })
        .serve("hang", |(): (), _: Job| std::future::pending::<Result<(), HandlerError>>())
}

/// What every caller can rely on, wherever it calls.
async fn is_served(caller: &Caller) {
    let order = Order { tea: "ä\u{0} \"green\"".to_owned(), cups: 21 };
    let brewed: Order =
        must("an answer", async { caller.call("brew", &order).await }).await.unwrap();
    assert_eq!(brewed, Order { cups: 42, ..order });

    let none = Order { tea: String::new(), cups: 0 };
    let failed = caller.call::<_, Order>("brew", &none).await.unwrap_err();
    assert_eq!(failed.code(), Some("cups"));
    assert!(matches!(&failed, CallError::Failed(said) if said.message == "nobody drinks"));
    let unread = caller.call::<_, Value>("brew", &7).await.unwrap_err();
    assert_eq!(unread.code(), Some("bad_params"));
    let unread = caller.call::<_, u64>("brew", &Order { tea: String::new(), cups: 1 }).await;
    assert!(matches!(unread, Err(CallError::Unreadable(_))), "{unread:?}");

    let panicked = caller.call::<_, ()>("panic", &()).await.unwrap_err();
    assert_eq!(panicked.code(), Some("handler_panicked"));
    assert!(panicked.to_string().contains("on purpose"), "{panicked}");
    let hung = caller.call::<_, ()>("hang", &()).timeout(Duration::from_millis(300)).await;
    assert!(matches!(hung, Err(CallError::TimedOut(_))), "{hung:?}");

    let nobody = caller.call::<_, ()>("void", &()).only_with_consumer().await.unwrap_err();
    assert!(matches!(nobody, CallError::NoConsumer), "{nobody}");
    let waits = caller.call::<_, ()>("void", &()).queue_timeout(Duration::from_millis(300)).await;
    assert_eq!(waits.unwrap_err().outcome(), Outcome::NotApplied);

    let keyed = |cups| {
        let order = Order { tea: "mint".to_owned(), cups };
        let call = caller.call::<_, Order>("brew", &order);
        async move { call.key("order-7").await }
    };
    assert_eq!(keyed(1).await.unwrap(), keyed(1).await.unwrap());
    assert_eq!(keyed(2).await.unwrap_err().code(), Some("calls.key_reused"));
    let large = "x".repeat(2 << 20);
    let large = caller.call::<_, Value>("brew", &large).await.unwrap_err();
    assert!(matches!(large, CallError::TooLarge { .. }), "{large}");
}

#[test]
fn one_code_serves_and_calls_through_redis_and_through_a_server() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    let served = Served::start(&lair(place.path())).unwrap();
    runtime().block_on(async {
        let redis = redis(&server);
        let worker = handlers(redis.worker(WorkerOptions::new())).start().await.unwrap();
        is_served(&caller(&server).await).await;
        assert!(worker.stored() > 0);
        assert_eq!(must("an end", worker.drain(Duration::from_secs(20))).await, 0);

        let client = Client::new(Options::new(format!("http://{}", served.http))).unwrap();
        let worker = handlers(client.calls().worker(WorkerOptions::new())).start().await.unwrap();
        is_served(&client.calls().caller(CallerOptions::new()).await.unwrap()).await;
        assert_eq!(must("an end", worker.drain(Duration::from_secs(20))).await, 0);
    });
}

/// A handler that says when it begins, and ends when it is let.
fn gate(worker: Worker<'_>) -> (Worker<'_>, Arc<Notify>, Arc<Notify>) {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (Arc::clone(&began), Arc::clone(&go));
    let worker = worker.serve("gate", move |n: u64, _: Job| {
        let (begins, goes) = (Arc::clone(&begins), Arc::clone(&goes));
        async move {
            begins.notify_one();
            goes.notified().await;
            Ok(n)
        }
    });
    (worker, began, go)
}

#[test]
fn a_worker_that_drains_finishes_what_runs_and_leaves_the_rest_to_others() {
    let server = Server::start();
    runtime().block_on(async {
        let redis = redis(&server);
        let (worker, began, go) = gate(redis.worker(WorkerOptions::new()));
        let slow = worker.start().await.unwrap();
        let caller = caller(&server).await;
        let first = caller.call::<_, u64>("gate", &1).start().await.unwrap();
        must("the handler", began.notified()).await;
        let mut second = caller.call::<_, u64>("gate", &2).start().await.unwrap();
        assert!(must("a confirmation", second.registered()).await);
        let drains = tokio::spawn(slow.drain(Duration::from_secs(20)));
        let quick =
            redis.worker(WorkerOptions::new()).serve("gate", |n: u64, _: Job| async move { Ok(n) });
        let quick = quick.start().await.unwrap();
        assert_eq!(must("the second", second).await.unwrap(), 2);
        go.notify_one();
        assert_eq!(must("the first", first).await.unwrap(), 1);
        assert_eq!(must("the end", drains).await.unwrap(), 0);
        drop(quick);
    });
}

#[test]
fn what_is_not_done_when_draining_ends_is_counted_and_its_handler_is_dropped() {
    struct Tells(Arc<Notify>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let server = Server::start();
    runtime().block_on(async {
        let redis = redis(&server);
        let (began, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, goes) = (Arc::clone(&began), Arc::clone(&gone));
        let options = WorkerOptions::new().cancel_grace(Duration::from_millis(10));
        let worker = redis.worker(options).serve("hang", move |(): (), _: Job| {
            let (begins, tells) = (Arc::clone(&begins), Tells(Arc::clone(&goes)));
            async move {
                begins.notify_one();
                std::future::pending::<()>().await;
                drop(tells);
                Ok(())
            }
        });
        let worker = worker.start().await.unwrap();
        let caller = caller(&server).await;
        let pending = caller.call::<_, ()>("hang", &()).start().await.unwrap();
        must("the handler", began.notified()).await;
        assert_eq!(must("the end", worker.drain(Duration::from_millis(50))).await, 1);
        must("the handler's end", gone.notified()).await;
        drop(pending);
    });
}

#[test]
fn a_dropped_call_is_cancelled_if_that_was_asked_for_and_its_handler_is_told() {
    let server = Server::start();
    runtime().block_on(async {
        let redis = redis(&server);
        let (began, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, tells) = (Arc::clone(&began), Arc::clone(&told));
        let worker = redis.worker(WorkerOptions::new()).serve("wait", move |(): (), job: Job| {
            let (begins, tells) = (Arc::clone(&begins), Arc::clone(&tells));
            async move {
                begins.notify_one();
                job.cancelled().await;
                tells.notify_one();
                Ok(())
            }
        });
        let _worker = worker.start().await.unwrap();
        let caller = caller(&server).await;
        let pending = caller.call::<_, ()>("wait", &()).cancel_on_drop().start().await.unwrap();
        must("the handler", began.notified()).await;
        drop(pending);
        must("the handler's notice", told.notified()).await;

        let pending = caller.call::<_, ()>("wait", &()).start().await.unwrap();
        must("the handler", began.notified()).await;
        pending.cancel().await;
        let ended = must("the end", pending).await.unwrap_err();
        assert!(matches!(ended, CallError::Cancelled), "{ended}");
    });
}

#[test]
fn a_lost_connection_is_told_of_and_replaced_and_calls_go_on() {
    let mut server = Server::start();
    runtime().block_on(async {
        let redis = redis(&server);
        let worker = handlers(redis.worker(WorkerOptions::new())).start().await.unwrap();
        let caller = caller(&server).await;
        let mut links = caller.links();
        server.kill();
        let down = async {
            while !matches!(links.now(), Link::Down { .. }) {
                links.next().await.unwrap();
            }
        };
        must("that it is down", down).await;
        // Taken while nobody is there, and given up when its time is over.
        let void = caller.call::<_, ()>("void", &()).timeout(Duration::from_millis(1)).await;
        let void = void.unwrap_err();
        assert!(matches!(void, CallError::Unanswered { .. }), "{void}");
        assert_eq!(void.outcome(), Outcome::NotApplied, "it was never sent");
        let order = Order { tea: "mint".to_owned(), cups: 1 };
        let waits = caller.call::<_, Order>("brew", &order).start().await.unwrap();
        let unmade = caller.call::<_, Order>("brew", &order).start().await.unwrap();
        unmade.cancel().await;
        let unmade = must("its end", unmade).await.unwrap_err();
        assert!(matches!(unmade, CallError::Cancelled), "{unmade}");
        server.go_on();
        let up = async {
            while !matches!(links.now(), Link::Up) {
                links.next().await.unwrap();
            }
        };
        must("that it is up", up).await;
        assert_eq!(must("the answer", waits).await.unwrap().cups, 2);
        assert_eq!(must("the end", worker.drain(Duration::from_secs(20))).await, 0);
        must("the end", caller.close()).await;
        must("that it is over", async {
            while !matches!(links.now(), Link::Over { .. }) {
                links.next().await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn what_redis_keeps_of_calls_is_listed_shown_cancelled_and_called_again() {
    let server = Server::start();
    runtime().block_on(async {
        let redis = redis(&server);
        let caller = caller(&server).await;
        let mut first = caller.call::<_, Value>("later", &1).start().await.unwrap();
        assert!(must("a confirmation", first.registered()).await);
        let mut second = caller.call::<_, Value>("later", &2).start().await.unwrap();
        assert!(must("a confirmation", second.registered()).await);

        let books = redis.books().await.unwrap();
        let page = books.list(&CallQuery::new().open().limit(1)).await.unwrap();
        assert_eq!(page.calls[0].id, second.id().to_string(), "the latest first");
        let query = CallQuery::new().channel("later").before(page.next.unwrap());
        let page = books.list(&query).await.unwrap();
        assert_eq!((&page.calls[0].id, page.next), (&first.id().to_string(), None));
        let shown = books.show(first.id()).await.unwrap();
        assert_eq!((&*shown.stage, shown.params), ("waiting", Some(Value::from(1))));
        assert_eq!(shown.history[0].what, "registered");
        let channels = books.channels().await.unwrap();
        assert_eq!((&*channels[0].channel, channels[0].waiting), ("later", 2));

        let cancelled = books.cancel(first.id()).await.unwrap();
        assert_eq!(cancelled.outcome.as_deref(), Some("cancelled"));
        assert!(matches!(must("its end", first).await, Err(CallError::Cancelled)));

        let fails =
            redis.worker(WorkerOptions::new()).serve("later", |_: Value, _: Job| async move {
                Err::<(), _>(HandlerError::new("Broken", "as ever").retry_after(Duration::ZERO))
            });
        let fails = fails.start().await.unwrap();
        let id = second.id();
        must("its end", second).await.unwrap_err();
        assert_eq!(must("the end", fails.drain(Duration::from_secs(20))).await, 0);
        let dead = books.dead("later", None, None).await.unwrap();
        assert_eq!((dead.total, &dead.calls[0].id), (1, &id.to_string()));
        assert_eq!(dead.calls[0].error.as_ref().unwrap().message, "as ever");
        let again = books.requeue(id).await.unwrap();
        assert_eq!(books.show(again).await.unwrap().requeued_from, Some(id.to_string()));
        let none = handoff_sdk::calls::CallId::of_chance(7);
        assert_eq!(books.show(none).await.unwrap_err().code(), Some("calls.not_found"));
        assert_eq!(books.cancel(none).await.unwrap_err().code(), Some("calls.not_found"));
        books.purge("later", None).await.unwrap();
        assert_eq!(books.dead("later", None, None).await.unwrap().total, 0);
    });
}
