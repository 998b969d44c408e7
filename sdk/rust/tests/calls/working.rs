//! Whoever is called, and every answer that can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use handoff_sdk::Error;
use handoff_sdk::calls::{Channel, HandlerError, Job, Serving, Worker, WorkerOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::peer::{HASTY, Listener, ONE, Peer, TWO, backoff, calm_worker, listener, offer, within};

/// A worker, and the server's end of its first connection.
async fn started(listener: &Listener, worker: Worker<'_>) -> (Serving, Peer) {
    let (serving, peer) = within(async { tokio::join!(worker.start(), listener.greeted()) }).await;
    (serving.unwrap(), peer)
}

async fn double(n: u64, _: Job) -> Result<u64, HandlerError> {
    Ok(n * 2)
}

/// Takes a result, and says that it is stored.
async fn stored(peer: &mut Peer) -> Value {
    let response = peer.asked("response").await;
    let (id, fence) = (&response["id"], &response["fence"]);
    peer.say(json!({"g": {"id": id, "fence": fence, "taken": true}})).await;
    response
}

#[tokio::test]
async fn a_handler_is_told_everything_about_its_call() {
    let listener = listener().await;
    let client = listener.client();
    let worker = client.calls().worker(calm_worker().name("billing"));
    let worker =
        worker.serve(Channel::new("double").concurrency(3), |n: u64, job: Job| async move {
            let caller = job.caller().map(|caller| caller.to_string());
            assert!(job.time_left() <= Duration::from_secs(60) && !job.is_cancelled());
            Ok(json!([
                n,
                job.id().to_string(),
                job.channel(),
                job.attempt(),
                job.fence(),
                caller,
                job.traceparent()
            ]))
        });
    let (serving, mut peer) = started(&listener, worker).await;
    assert_eq!(peer.init["serves"], json!([{"channel": "double", "concurrency": 3}]));
    assert_eq!(
        (&peer.init["name"], peer.client.clone()),
        (&json!("billing"), serving.id().to_string())
    );
    let mut offer = offer(ONE, 2, &json!(21));
    offer["caller"] = json!(TWO);
    offer["traceparent"] = json!("00-ab-cd-01");
    peer.offer(offer).await;
    let response = stored(&mut peer).await;
    assert_eq!(response["answer"], json!([21, ONE, "double", 2, 2, TWO, "00-ab-cd-01"]));
    let (left, ()) = within(async {
        tokio::join!(serving.drain(Duration::from_secs(20)), async {
            peer.asked("stop").await;
            peer.say(json!({"h": {}})).await;
        })
    })
    .await;
    assert_eq!(left, 0);
    peer.closed().await;
}

#[tokio::test]
async fn whatever_goes_wrong_in_a_handler_is_an_error_on_the_other_side_and_nowhere_else() {
    let listener = listener().await;
    let client = listener.client();
    let worker =
        client.calls().worker(calm_worker()).serve("double", |what: String, _: Job| async move {
            match &*what {
                "panic" => panic!("out of tea"),
                "late" => std::future::pending().await,
                "terminal" => {
                    Err(HandlerError::new("OutOfStock", "none left").code("stock").terminal())
                }
                "later" => Err(HandlerError::new("Busy", "").retry_after(Duration::from_secs(7))),
                number => Ok(number.parse::<u64>()?),
            }
        });
    let (_serving, mut peer) = started(&listener, worker).await;
    let mut fence = 0;
    let mut run = async |params: Value, deadline_ms: u64| {
        fence += 1;
        let mut offer = offer(ONE, fence, &params);
        offer["deadlineMs"] = json!(deadline_ms);
        peer.offer(offer).await;
        stored(&mut peer).await
    };
    let panicked = run(json!("panic"), 60_000).await;
    assert_eq!(
        (&panicked["error"]["name"], &panicked["error"]["message"]),
        (&json!("Panic"), &json!("out of tea"))
    );
    assert_eq!(panicked["terminal"], Value::Null, "another attempt may do better");
    let late = run(json!("late"), 1).await;
    assert_eq!(
        (&late["error"]["code"], &late["terminal"]),
        (&json!("handler_deadline"), &json!(true))
    );
    let terminal = run(json!("terminal"), 60_000).await;
    assert_eq!(
        (&terminal["error"]["code"], &terminal["terminal"]),
        (&json!("stock"), &json!(true))
    );
    let later = run(json!("later"), 60_000).await;
    assert_eq!((&later["retryAfterMs"], &later["terminal"]), (&json!(7000), &Value::Null));
    let unread = run(json!(7), 60_000).await;
    assert_eq!(
        (&unread["error"]["code"], &unread["terminal"]),
        (&json!("bad_params"), &json!(true))
    );
    let asked = run(json!("x"), 60_000).await;
    assert_eq!(asked["error"]["name"], "ParseIntError", "{asked}");
    assert_eq!(run(json!("8"), 60_000).await["answer"], 8, "it goes on");
}

/// Where the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    Acceptance,
    Held,
    Result,
    Stored,
}

#[tokio::test]
async fn whatever_is_lost_a_call_is_begun_once_and_its_result_arrives() {
    for lost in [Lost::Acceptance, Lost::Held, Lost::Result, Lost::Stored] {
        let listener = listener().await;
        let client = listener.client();
        let begun = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&begun);
        let worker =
            client.calls().worker(calm_worker()).serve("double", move |n: u64, job: Job| {
                counted.fetch_add(1, Ordering::Relaxed);
                double(n, job)
            });
        let (_serving, mut peer) = started(&listener, worker).await;
        let offer = offer(ONE, 1, &json!(4));
        peer.say(json!({"b": offer})).await;
        if lost != Lost::Acceptance {
            peer.asked("request_ack").await;
        }
        if !matches!(lost, Lost::Acceptance | Lost::Held) {
            peer.hold(&offer).await;
        }
        if lost == Lost::Stored {
            peer.asked("response").await;
        }
        drop(peer);
        let mut peer = listener.greeted().await;
        // It hears of what it has once more.
        peer.say(json!({"b": offer})).await;
        let response = loop {
            let frame = peer.heard().await.unwrap();
            if frame.get("request_ack").or(frame.get("heartbeat")).is_some() {
                peer.hold(&offer).await;
            } else if let Some(response) = frame.get("response") {
                break response.clone();
            }
        };
        assert_eq!((&response["answer"], &response["fence"]), (&json!(8), &json!(1)), "{lost:?}");
        peer.say(json!({"g": {"id": ONE, "fence": 1, "taken": true}})).await;
        assert_eq!(begun.load(Ordering::Relaxed), 1, "{lost:?}");
    }
}

#[tokio::test]
async fn a_lease_is_kept_while_the_handler_runs_and_a_call_that_is_lost_is_let_go() {
    let listener = listener().await;
    let client = listener.client();
    let (tell, mut told) = mpsc::channel(1);
    let worker = client.calls().worker(calm_worker()).serve("double", move |_: u64, job: Job| {
        let tell = tell.clone();
        async move {
            job.cancelled().await;
            tell.send(job.fence()).await?;
            Ok(0)
        }
    });
    let (serving, mut peer) = started(&listener, worker).await;
    let mut offer = offer(ONE, 5, &json!(1));
    offer["leaseMs"] = json!(60);
    peer.offer(offer.clone()).await;
    for _ in 0..3 {
        let beat = peer.asked("heartbeat").await;
        assert_eq!((&beat["id"], &beat["fence"]), (&json!(ONE), &json!(5)));
        peer.hold(&offer).await;
    }
    peer.asked("heartbeat").await;
    peer.say(json!({"d": {"id": ONE, "fence": 5, "held": false}})).await;
    assert_eq!(within(told.recv()).await, Some(5), "the handler is told");
    assert_eq!((serving.stored(), serving.late()), (0, 0));
    // The next one is as good as any.
    offer["fence"] = json!(6);
    peer.offer(offer).await;
    peer.say(json!({"cancelled": {"id": ONE, "fence": 6}})).await;
    assert_eq!(within(told.recv()).await, Some(6));
}

#[tokio::test]
async fn a_handler_that_does_not_end_when_it_is_told_is_dropped() {
    struct Bell(mpsc::Sender<()>);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.try_send(()).unwrap();
        }
    }
    let listener = listener().await;
    let client = listener.client();
    let (ring, mut rung) = mpsc::channel(1);
    let options = calm_worker().cancel_grace(HASTY);
    let worker = client.calls().worker(options).serve("double", move |_: u64, _: Job| {
        let bell = Bell(ring.clone());
        async move {
            let _bell = bell;
            std::future::pending::<Result<u64, HandlerError>>().await
        }
    });
    let (_serving, mut peer) = started(&listener, worker).await;
    peer.offer(offer(ONE, 1, &json!(1))).await;
    peer.say(json!({"cancelled": {"id": ONE, "fence": 1}})).await;
    within(rung.recv()).await.unwrap();
}

#[tokio::test]
async fn draining_finishes_what_runs_and_leaves_what_does_not_end() {
    let listener = listener().await;
    let client = listener.client();
    let (release, gate) = tokio::sync::watch::channel(false);
    let (begin, mut begun) = mpsc::channel(2);
    let worker = client.calls().worker(calm_worker());
    let worker = worker.serve(Channel::new("double").concurrency(2), move |n: u64, _: Job| {
        let (mut gate, begin) = (gate.clone(), begin.clone());
        async move {
            begin.send(()).await?;
            gate.wait_for(|open| *open && n == 1).await?;
            Ok(n)
        }
    });
    let (serving, mut peer) = started(&listener, worker).await;
    peer.offer(offer(ONE, 1, &json!(1))).await;
    peer.offer(offer(TWO, 1, &json!(2))).await;
    for _ in 0..2 {
        within(begun.recv()).await.unwrap();
    }
    let draining = tokio::spawn(serving.drain(20 * HASTY));
    peer.asked("stop").await;
    peer.say(json!({"b": offer(ONE, 9, &json!(1))})).await;
    release.send_replace(true);
    assert_eq!(stored(&mut peer).await["id"], ONE, "what can be finished is");
    assert_eq!(within(draining).await.unwrap(), 1, "what cannot is left");
    peer.closed().await;
}

#[tokio::test]
async fn a_result_that_came_too_late_is_counted() {
    let listener = listener().await;
    let client = listener.client();
    let (serving, mut peer) =
        started(&listener, client.calls().worker(calm_worker()).serve("double", double)).await;
    for (fence, taken) in [(1, false), (2, true)] {
        peer.offer(offer(ONE, fence, &json!(1))).await;
        peer.asked("response").await;
        peer.say(json!({"g": {"id": ONE, "fence": fence, "taken": taken}})).await;
    }
    // What is counted is counted before the next frame is answered.
    peer.offer(offer(ONE, 3, &json!(1))).await;
    peer.asked("response").await;
    assert_eq!((serving.stored(), serving.late()), (1, 1));
}

#[tokio::test]
async fn a_worker_that_cannot_be_is_not_started() {
    let listener = listener().await;
    let client = listener.client();
    let worker = || client.calls().worker(WorkerOptions::new().backoff(backoff()));
    let bad = within(worker().serve("a b", double).start()).await.unwrap_err();
    assert!(matches!(bad, Error::Invalid(_)), "{bad:?}");
    let twice = worker().serve("double", double).serve("double", double);
    let twice = within(twice.start()).await.unwrap_err();
    assert!(twice.to_string().contains("twice"), "{twice:?}");
}
