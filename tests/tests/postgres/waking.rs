//! Whoever waits is woken, also by another broker.

use std::future::poll_fn;
use std::time::Duration;

use handoff_streams::port::{Hold, Step, Store, Version};
use handoff_streams::{Change, Key};
use handoff_tests::postgres::Server;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::{open, partition, runtime};

/// Not a figure: whoever is not woken hangs.
const PATIENCE: Duration = Duration::from_secs(30);

fn opened(number: u32) -> Step {
    let changes = vec![Change::PartitionOpened(partition(number))];
    Step { key: Key::Partition(partition(number)), expected: Version(0), changes }
}

#[test]
fn whoever_watches_is_woken_by_a_commit_of_another_broker() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let (here, there) = (open(&address).await, open(&address).await);
        for number in 0..20 {
            let watched = [(Key::Partition(partition(number)), Version(0))];
            let watch = tokio::spawn({
                let (here, watched) = (here.clone(), watched.clone());
                async move { here.watch(&watched).await }
            });
            there.commit(vec![opened(number)], there.now(), None).await.unwrap();
            timeout(PATIENCE, watch).await.expect("woken").unwrap();
            let (loaded, _) = here.load(&[watched[0].0.clone()], Hold::Free).await.unwrap();
            assert_eq!(loaded[0].version, Version(1), "what it was woken for is there");
        }
    });
}

/// As a broker that dies after its commit: nobody is told.
#[test]
fn a_commit_that_nobody_was_told_of_is_seen_by_looking() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let store = open(&address).await;
        let watched = [(Key::Partition(partition(0)), Version(0))];
        let watch = tokio::spawn({
            let store = store.clone();
            async move { store.watch(&watched).await }
        });
        server.sql(
            &address,
            "INSERT INTO handoff.fact (key, version, changes, gone) \
             VALUES ('\\x702f0000000100000000', 1, '\\x060100', false)",
        );
        timeout(PATIENCE, watch).await.expect("seen").unwrap();
    });
}

#[test]
fn others_are_told_by_a_connection_that_does_not_append() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let (client, mut connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        let (hear, mut heard) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(note) = message {
                    hear.send((note.process_id(), note.payload().to_owned())).await.unwrap();
                }
            }
        });
        client.batch_execute("LISTEN handoff").await.unwrap();
        let store = open(&address).await;
        store.commit(vec![opened(0)], store.now(), None).await.unwrap();
        let (teller, _) = timeout(PATIENCE, heard.recv()).await.expect("told").unwrap();
        let ask = format!("SELECT query FROM pg_stat_activity WHERE pid = {teller}");
        let said = server.ask(&address, &ask);
        assert!(said.contains("pg_notify"), "{said}");
        let appending = "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND pid = ";
        assert_eq!(server.ask(&address, &format!("{appending}{teller}")), "0");
    });
}

#[test]
fn watching_goes_on_after_the_server_was_restarted() {
    let mut server = Server::start();
    let address = server.database();
    let runtime = runtime();
    let store = runtime.block_on(open(&address));
    let watched = [(Key::Partition(partition(0)), Version(0))];
    let watch = runtime.spawn({
        let store = store.clone();
        async move { store.watch(&watched).await }
    });
    server.stop();
    server.go_on();
    runtime.block_on(async {
        let other = open(&address).await;
        other.commit(vec![opened(0)], other.now(), None).await.unwrap();
        timeout(PATIENCE, watch).await.expect("woken").unwrap();
    });
}
