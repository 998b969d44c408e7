//! Brokers that share a database.

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_streams::port::{CommitError, Hold, Step, Store, Version};
use handoff_streams::{Broker, Change, Key, ProducerId, Status};
use handoff_tests::postgres::Server;
use handoff_types::Outcome;

use crate::{all, create, name, open, place, produce, runtime, send};

const PARTITIONS: u32 = 3;

const MESSAGES: u64 = 60;

#[test]
fn two_brokers_that_produce_to_the_same_partitions_lose_nothing_and_double_nothing() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let stores = [open(&address).await, open(&address).await];
        let brokers = stores.clone().map(|store| Arc::new(Broker::<_>::new(store)));
        brokers[0].execute(&create(PARTITIONS), crate::chance(0)).await.unwrap();
        let tasks = (0..8_u64).map(|task| {
            let broker = Arc::clone(&brokers[usize::try_from(task % 2).unwrap()]);
            tokio::spawn(async move {
                let mut stored = Vec::new();
                // Half of them count, so that facts of several aggregates go together.
                let producer = |n| (task % 4 < 2).then_some((ProducerId(u128::from(task)), n));
                for n in 0..MESSAGES {
                    let text = format!("{task}/{n}");
                    let command = produce(&format!("k{}", n % 5), &text, producer(n));
                    let sent = loop {
                        match send(&broker, &command, task << 32 | n).await {
                            Ok(sent) => break sent,
                            // On a machine that stands still for half a minute a lock is waited for
                            // in vain. It says that nothing was done, so it is done again.
                            Err(failed) => assert_eq!(failed.outcome, Outcome::NotApplied),
                        }
                    };
                    assert_eq!(sent.status, Status::Stored);
                    stored.push((place(&sent), text));
                }
                stored
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut acknowledged = BTreeMap::new();
        for task in tasks {
            for (place, text) in task.await.unwrap() {
                assert_eq!(acknowledged.insert(place, text), None, "an offset twice");
            }
        }
        assert_eq!(acknowledged.len() as u64, 8 * MESSAGES);
        for store in &stores {
            assert_eq!(all(store, PARTITIONS).await, acknowledged, "as everybody reads it");
        }
    });
}

#[test]
fn brokers_that_look_at_a_topic_do_not_wait_for_each_other() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let store = open(&address).await;
        Broker::<_>::new(store.clone()).execute(&create(2), crate::chance(0)).await.unwrap();
        let looks = |number, at: u64| {
            let id = crate::partition(number);
            let topic =
                Step { key: Key::Topic(name("orders")), expected: Version(1), changes: vec![] };
            let trimmed = Change::Trimmed { partition: id, start: 0, bytes: at };
            let partition =
                Step { key: Key::Partition(id), expected: Version(at), changes: vec![trimmed] };
            vec![partition, topic]
        };
        // One has partition 0 and is not done; another changes partition 1 and looks at the topic.
        let held = [Key::Partition(crate::partition(0))];
        let (_, guard) = store.load(&held, Hold::Locked).await.unwrap();
        store.commit(looks(1, 1), store.now(), None).await.unwrap();
        store.commit(looks(0, 1), store.now(), guard).await.unwrap();
    });
}

#[test]
fn a_broker_that_vanishes_with_its_locks_keeps_nobody_waiting() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let (store, other) = (open(&address).await, open(&address).await);
        let key = Key::Partition(crate::partition(0));
        let open = || vec![Change::PartitionOpened(crate::partition(0))];
        let step = || Step { key: key.clone(), expected: Version(0), changes: open() };
        let (_, guard) = store.load(std::slice::from_ref(&key), Hold::Locked).await.unwrap();
        let waits = tokio::spawn({
            let (other, step) = (other.clone(), step());
            async move { other.commit(vec![step], other.now(), None).await }
        });
        server.sql(
            &address,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE state = 'idle in transaction'",
        );
        waits.await.unwrap().unwrap();
        let late = store.commit(vec![step()], store.now(), guard).await;
        assert!(matches!(late, Err(CommitError::Failed(_))), "{late:?}");
        let (loaded, _) = store.load(std::slice::from_ref(&key), Hold::Free).await.unwrap();
        assert_eq!(loaded[0].version, Version(1));
    });
}
