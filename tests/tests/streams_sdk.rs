//! The SDK and the real binary: what is acknowledged is there once, whatever happens to the server.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use handoff_sdk::streams::{
    Commit, ConsumerOptions, Message, NewTopic, ProducerOptions, ReadQuery, RequesterOptions,
    Scope, Start, Status, TailOptions, Told,
};
use handoff_sdk::{Backoff, Client, Options};
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{self, Served};

/// A server that is killed and comes back where it was.
struct Phoenix {
    lair: Lair,
    served: Option<Served>,
    address: SocketAddr,
    _place: Place,
}

impl Phoenix {
    fn new() -> Self {
        let place = Place::temporary().unwrap();
        // Free now; whoever takes it meanwhile makes the start fail with words.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let lair = Lair::new(served::program(), place.path())
            .verb("serve")
            .with("--json")
            .with(&format!("--listen={address}"))
            .with("--events-listen=127.0.0.1:0")
            .with("--relay-listen=127.0.0.1:0");
        let served = Some(Served::start(&lair).unwrap());
        Self { lair, served, address, _place: place }
    }

    fn client(&self) -> Client {
        Client::new(Options::new(format!("http://{}", self.address))).unwrap()
    }

    /// `kill -9`, and a new life.
    fn die_and_rise(&mut self) {
        let mut served = self.served.take().unwrap();
        served.prey.kill().unwrap();
        drop(served);
        self.served = Some(Served::start(&self.lair).unwrap());
    }
}

fn patient() -> Backoff {
    Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(200) }
}

fn options() -> ProducerOptions {
    ProducerOptions::new().backoff(patient()).retries(1000)
}

async fn payloads(client: &Client, topic: &str, partition: u32) -> Vec<String> {
    let mut reader = client.streams().reader(ReadQuery::new(topic, partition).limit(100));
    let mut found = Vec::new();
    while let Some(message) = reader.next().await {
        found.push(String::from_utf8(message.unwrap().payload.to_vec()).unwrap());
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_under_a_producer_lose_nothing_and_store_nothing_twice() {
    let mut phoenix = Phoenix::new();
    let client = phoenix.client();
    client.streams().create(&NewTopic::new("orders")).await.unwrap();
    let producer = client.streams().producer(options().batch_messages_max(20)).await.unwrap();
    let mut deliveries = Vec::new();
    let mut tail = client
        .streams()
        .tail("orders", TailOptions::new().from(Start::Earliest).reconnect(Some(patient())))
        .await
        .unwrap();
    for n in 0..2000 {
        deliveries.push(producer.send("orders", n.to_string()).await.unwrap());
        if n % 500 == 499 {
            // Some are answered, some on their way.
            let middle = deliveries.len() - 400;
            (&mut deliveries[middle]).await.unwrap();
            let answered = deliveries.swap_remove(middle);
            drop(answered);
            tokio::task::block_in_place(|| phoenix.die_and_rise());
        }
    }
    producer.flush().await.unwrap();
    let expected: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    assert_eq!(payloads(&client, "orders", 0).await, expected, "once, and in order");
    let mut told = Vec::new();
    while told.len() < expected.len() {
        match tail.next().await.unwrap().unwrap() {
            Told::Message(message) => {
                assert_eq!(message.offset, told.len() as u64, "none twice, none left out");
                told.push(String::from_utf8(message.payload.to_vec()).unwrap());
            }
            Told::Interrupted { .. } | Told::Reconnected => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_producer_goes_on_and_what_it_repeats_is_a_duplicate() {
    let mut phoenix = Phoenix::new();
    let client = phoenix.client();
    for topic in ["a", "b"] {
        client.streams().create(&NewTopic::new(topic)).await.unwrap();
    }
    let producer = client.streams().producer(options().scope(Scope::Topic)).await.unwrap();
    let guid = producer.id().to_owned();
    for sequence in 1..=5 {
        let message = Message::new(sequence.to_string()).sequence(sequence);
        let sent = producer.send("a", message).await.unwrap().await.unwrap();
        assert_eq!((sent.status, sent.offset), (Status::Stored, Some(sequence - 1)));
    }
    producer.close().await.unwrap();
    tokio::task::block_in_place(|| phoenix.die_and_rise());

    let again = client.streams().producer(options().producer(&*guid)).await.unwrap();
    assert_eq!((again.id(), again.scope()), (&*guid, Scope::Topic));
    assert_eq!((again.last_sequence("a"), again.last_sequence("b")), (Some(5), None));
    let message = Message::new("5").sequence(5);
    let sent = again.send("a", message).await.unwrap().await.unwrap();
    assert_eq!((sent.status, sent.offset), (Status::Duplicate, Some(4)));
    let other = Message::new("another").sequence(5);
    let error = again.send("a", other).await.unwrap().await.unwrap_err();
    assert_eq!(error.code(), Some("streams.sequence_reused"));
    let sent = again.send("a", "6").await.unwrap().await.unwrap();
    assert_eq!((sent.status, sent.sequence), (Status::Stored, Some(6)));
    let gap = Message::new("9").sequence(9);
    let sent = again.send("a", gap).await.unwrap().await.unwrap();
    assert_eq!(sent.status, Status::StoredAfterGap);
    let late = Message::new("8").sequence(8);
    let sent = again.send("a", late).await.unwrap().await.unwrap();
    assert_eq!(sent.status, Status::StoredLate);
    assert_eq!(payloads(&client, "a", 0).await, ["1", "2", "3", "4", "5", "6", "9", "8"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_back_as_they_were_sent() {
    let phoenix = Phoenix::new();
    let client = phoenix.client();
    let streams = client.streams();
    streams.create(&NewTopic::new("orders").partitions(3)).await.unwrap();
    let producer = streams.producer(options()).await.unwrap();
    let octets = vec![0, 159, 146, 150];
    let message = Message::new(octets.clone())
        .key(octets.clone())
        .header("text", "ä")
        .header("octets", octets.clone())
        .partition(2);
    let sent = producer.send("orders", message).await.unwrap().await.unwrap();
    assert_eq!((sent.partition, sent.offset), (Some(2), Some(0)));
    let page = streams.read(&ReadQuery::new("orders", 2)).await.unwrap();
    let message = &page.messages[0];
    assert_eq!((&*message.payload, message.key.as_deref()), (&*octets, Some(&*octets)));
    assert_eq!(message.header("text").map(|value| &**value), Some("ä".as_bytes()));
    assert_eq!(message.header("octets").map(|value| &**value), Some(&*octets));
    assert!(message.timestamp.to_system_time().is_some(), "{}", message.timestamp);

    // A bad message among good ones does not keep them out.
    let mut deliveries = Vec::new();
    for n in 0..100 {
        let message = Message::new(n.to_string()).partition(if n == 50 { 99 } else { 0 });
        deliveries.push(producer.send("orders", message).await.unwrap());
    }
    for (n, delivery) in deliveries.into_iter().enumerate() {
        let result = delivery.await;
        assert_eq!(result.is_err(), n == 50, "{n}: {result:?}");
    }
    assert_eq!(payloads(&client, "orders", 0).await.len(), 99);
    let topic = streams.topic("orders").await.unwrap();
    assert_eq!((topic.messages, topic.partition_list[0].end), (Some(100), 99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_under_a_consumer_leave_one_bill_for_each_order() {
    let mut phoenix = Phoenix::new();
    let client = phoenix.client();
    client.streams().create(&NewTopic::new("orders").partitions(2)).await.unwrap();
    client.streams().create(&NewTopic::new("bills")).await.unwrap();
    let producer = client.streams().producer(options()).await.unwrap();
    for n in 0..300 {
        let message = Message::new(format!("{n:03}")).key(format!("customer {}", n % 7));
        drop(producer.send("orders", message).await.unwrap());
    }
    producer.flush().await.unwrap();
    let consuming = ConsumerOptions::new("billing").topic("orders").max_messages(10);
    let consuming = consuming.backoff(patient()).retries(1000);
    let mut consumer = client.streams().consumer(consuming).await.unwrap();
    let mut done = 0;
    while done < 300 {
        let order = consumer.next().await.unwrap().unwrap();
        let bill = Message::new(order.message.payload.clone());
        match consumer.commit(Commit::of(order.ok()).produce("bills", bill)).await {
            Ok(_) => done += 1,
            Err(error) => assert!(error.is_fenced(), "{error}"),
        }
        if done % 100 == 50 {
            tokio::task::block_in_place(|| phoenix.die_and_rise());
        }
    }
    consumer.leave().await.unwrap();
    let mut bills = payloads(&client, "bills", 0).await;
    bills.sort();
    let expected: Vec<String> = (0..300).map(|n| format!("{n:03}")).collect();
    assert_eq!(bills, expected);
    let group = client.streams().groups().show("billing").await.unwrap();
    assert_eq!((group.lag, group.members.len()), (Some(0), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_get_their_answers_also_from_a_server_that_was_killed_meanwhile() {
    let mut phoenix = Phoenix::new();
    let client = phoenix.client();
    client.streams().create(&NewTopic::new("prices")).await.unwrap();
    let consuming = ConsumerOptions::new("prices").topic("prices").backoff(patient());
    let mut consumer = client.streams().consumer(consuming.retries(1000)).await.unwrap();
    let answering = tokio::spawn(async move {
        while let Some(question) = consumer.next().await {
            let question = question.unwrap();
            let answer = [b"price of ", &question.message.payload[..]].concat();
            if let Err(error) = consumer.reply(&question, answer).await {
                assert!(error.is_fenced(), "{error}");
            }
        }
    });
    let requester =
        client.streams().requester(RequesterOptions::new().backoff(patient())).await.unwrap();
    for what in ["tea", "milk"] {
        let answer = requester.request("prices", what).await.unwrap();
        assert_eq!(answer.payload, format!("price of {what}"));
        tokio::task::block_in_place(|| phoenix.die_and_rise());
    }
    requester.close().await.unwrap();
    answering.abort();
}
