//! Questions over topics: each gets its own answer, or is told that none came.

use std::time::Duration;

use handoff_sdk::Backoff;
use handoff_sdk::streams::{RequestError, Requester, RequesterOptions};
use serde_json::{Value, json};

use crate::pack::{GUID, refusal, stored, unpack};
use crate::peer::{Listener, Peer, listener, ok, within};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn options() -> RequesterOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    RequesterOptions::new().backoff(backoff)
}

fn topic(name: &str) -> String {
    ok(&json!({"version": 1, "topic": {"name": name, "id": 1, "partitions": 1,
        "durability": "fsync", "compression": "none", "createdAt": "2027-01-15T08:00:00Z",
        "partitionList": [{"partition": 0, "start": 0, "end": 0}]}})
    .to_string())
}

/// A requester, and the other ends of its connections.
struct Counter {
    requester: Requester,
    calls: Peer,
    /// What the tail tells.
    answers: Peer,
    /// Where questions arrive.
    questions: Option<Peer>,
}

impl Counter {
    /// With the topic of its answers being its own, or this one.
    async fn open(listener: &Listener, shared: Option<&str>, options: RequesterOptions) -> Self {
        let client = listener.client();
        let streams = client.streams();
        let own = format!("replies.{GUID}");
        let name = shared.unwrap_or(&own);
        let options = match shared {
            Some(topic) => options.topic(topic),
            None => options,
        };
        let server = async {
            let mut calls = listener.accept().await;
            assert_eq!(calls.asked().await.line, "POST /v1/streams/producers");
            let registered = json!({"version": 1, "producer": GUID, "scope": "topic", "last": {}});
            calls.json(&registered.to_string()).await;
            if shared.is_none() {
                let asked = calls.asked().await;
                assert_eq!(asked.line, "POST /v1/streams/topics");
                assert_eq!(
                    asked.json(),
                    json!({"version": 1, "name": name, "retentionMs": 3_600_000})
                );
                calls.write(topic(name).as_bytes()).await;
            }
            assert_eq!(calls.asked().await.line, format!("GET /v1/streams/topics/{name}"));
            calls.write(topic(name).as_bytes()).await;
            // The tail: nothing is there yet, then it is opened, and looked at once more.
            let mut answers = None;
            while answers.is_none() {
                let asked = calls.asked().await;
                if asked.line.contains("/tail") {
                    calls.write(HEAD.as_bytes()).await;
                    answers = Some(calls);
                    break;
                }
                calls.write(&crate::reading::page(&[], 0, 0)).await;
            }
            let mut calls = listener.accept().await;
            assert!(calls.asked().await.line.contains("/messages?offset=0"));
            calls.write(&crate::reading::page(&[], 0, 0)).await;
            (calls, answers.unwrap())
        };
        let (requester, (calls, answers)) =
            within(async { tokio::join!(streams.requester(options), server) }).await;
        let requester = requester.unwrap();
        assert_eq!(requester.topic(), name);
        Self { requester, calls, answers, questions: None }
    }

    /// Takes the next question.
    async fn question(&mut self, listener: &Listener) -> Value {
        self.together(listener).await.remove(0)
    }

    /// Takes the questions that travel together.
    async fn together(&mut self, listener: &Listener) -> Vec<Value> {
        let mut peer = match self.questions.take() {
            Some(peer) => peer,
            None => listener.accept().await,
        };
        let asked = peer.asked().await;
        assert_eq!(asked.line, "POST /v1/streams/topics/prices/messages");
        let messages = unpack(&asked.body)["messages"].clone();
        let messages = messages.as_array().unwrap().clone();
        peer.write(&stored("stored", 0, messages.len())).await;
        self.questions = Some(peer);
        messages
    }

    async fn answer(&mut self, offset: u64, id: &str, payload: &str) {
        let data = json!({"timestamp": "2027-01-15T08:00:00Z", "payload": payload,
            "headers": {"correlation-id": id}});
        let text = format!("event: message\nid: 0:{offset}\ndata: {data}\n\n");
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.answers.write(chunk.as_bytes()).await;
    }
}

#[tokio::test]
async fn each_question_gets_its_own_answer_in_whatever_order_they_come() {
    for shared in [None, Some("answers")] {
        let listener = listener().await;
        let mut counter = Counter::open(&listener, shared, options()).await;
        let requester = counter.requester.clone();
        let tea = async { requester.request("prices", "tea").await.unwrap().payload };
        let milk = async { requester.request("prices", "milk").await.unwrap().payload };
        let server = async {
            let mut ids = Vec::new();
            while ids.len() < 2 {
                for question in counter.together(&listener).await {
                    let headers = &question["headers"];
                    assert_eq!(headers["reply-to"], requester.topic());
                    assert_eq!(question["ttlMs"], 30000, "nobody works for who has gone");
                    let id = headers["correlation-id"].as_str().unwrap().to_owned();
                    ids.push((id, question["payload"].as_str().unwrap().to_owned()));
                }
            }
            counter.answer(0, "somebody else's", "no").await;
            for (offset, (id, what)) in (1..).zip(ids.iter().rev()) {
                counter.answer(offset, id, &format!("price of {what}")).await;
            }
            counter
        };
        let (tea, milk, _counter) = within(async { tokio::join!(tea, milk, server) }).await;
        assert_eq!((tea, milk), ("price of tea".into(), "price of milk".into()));
    }
}

#[tokio::test]
async fn a_question_without_an_answer_is_told_in_time_and_a_late_answer_is_passed_over() {
    let listener = listener().await;
    let quick = options().timeout(Duration::from_millis(300));
    let mut counter = Counter::open(&listener, None, quick).await;
    let requester = counter.requester.clone();
    let (none, question) = within(async {
        tokio::join!(requester.request("prices", "tea"), counter.question(&listener))
    })
    .await;
    assert!(matches!(none, Err(RequestError::NoAnswer { .. })), "{none:?}");
    let late = question["headers"]["correlation-id"].as_str().unwrap().to_owned();
    let server = async {
        counter.answer(0, &late, "too late").await;
        let question = counter.question(&listener).await;
        let id = question["headers"]["correlation-id"].as_str().unwrap().to_owned();
        assert_ne!(id, late);
        counter.answer(1, &id, "in time").await;
        counter
    };
    let (answer, _counter) =
        within(async { tokio::join!(requester.request("prices", "tea"), server) }).await;
    assert_eq!(answer.unwrap().payload, "in time");
}

#[tokio::test]
async fn a_question_that_cannot_be_sent_is_told_at_once() {
    let listener = listener().await;
    let counter = Counter::open(&listener, None, options()).await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(refusal("404 No", "streams.topic_not_found").as_bytes()).await;
        peer
    };
    let asking = counter.requester.request("prices", "tea");
    let (refused, _peer) = within(async { tokio::join!(asking, server) }).await;
    match refused {
        Err(RequestError::NotSent(error)) => {
            assert_eq!(error.code(), Some("streams.topic_not_found"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_requester_that_is_closed_takes_its_topic_with_it_and_tells_who_waits() {
    let listener = listener().await;
    let mut counter = Counter::open(&listener, None, options()).await;
    let requester = counter.requester.clone();
    let waiting = async { requester.request("prices", "tea").await };
    let close = async {
        counter.question(&listener).await;
        let own = format!("DELETE /v1/streams/topics/replies.{GUID}");
        let server = async {
            assert_eq!(counter.calls.asked().await.line, own);
            counter.calls.json(r#"{"version":1}"#).await;
        };
        let (closed, ()) = tokio::join!(counter.requester.close(), server);
        closed.unwrap();
    };
    let (waited, ()) = within(async { tokio::join!(waiting, close) }).await;
    assert!(matches!(waited, Err(RequestError::Closed)), "{waited:?}");
    let again = within(requester.request("prices", "tea")).await;
    assert!(matches!(again, Err(RequestError::Closed)), "{again:?}");
}

#[tokio::test]
async fn whoever_waits_is_told_when_answers_cannot_be_followed_any_more() {
    let listener = listener().await;
    let mut counter = Counter::open(&listener, None, options()).await;
    let requester = counter.requester.clone();
    let server = async {
        counter.question(&listener).await;
        let Counter { mut calls, answers, questions: _questions, .. } = counter;
        drop(answers);
        // It looks whether the topic is still the same.
        calls.asked().await;
        calls.write(refusal("404 No", "streams.topic_not_found").as_bytes()).await;
        calls
    };
    let (told, _calls) =
        within(async { tokio::join!(requester.request("prices", "tea"), server) }).await;
    match told {
        Err(RequestError::Over(error)) => {
            assert_eq!(error.code(), Some("streams.topic_not_found"));
        }
        other => panic!("{other:?}"),
    }
    let again = within(requester.request("prices", "tea")).await;
    assert!(matches!(again, Err(RequestError::Over(_))), "{again:?}");
}
