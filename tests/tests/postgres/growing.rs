//! What many changes cost.

use handoff_streams::port::{Hold, Step, Store, Version};
use handoff_streams::{Aggregate, Broker, Change, Key};
use handoff_tests::postgres::Server;
use tokio_postgres::NoTls;

use crate::{create, name, open, produce, runtime, send};

const TABLES: [&str; 3] = ["handoff.fact", "handoff.batch", "handoff.snapshot"];

/// A counter row that every append updates becomes slower with every append while somebody's
/// transaction is open: none of its versions can be taken away. Here nothing is ever updated.
#[test]
fn a_transaction_held_open_does_not_make_appends_dearer() {
    let server = Server::start();
    let address = server.database();
    server.sql(&address, "CREATE EXTENSION pgstattuple");
    runtime().block_on(async {
        let broker = Broker::<_>::new(open(&address).await);
        broker.execute(&create(1), crate::chance(0)).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM handoff.fact";
        client.batch_execute(hold).await.unwrap();
        let mut touched = Vec::new();
        for n in 0..600 {
            send(&broker, &produce("k", "text", None), n).await.unwrap();
            if n % 200 == 199 {
                // What the comparison of versions and the place of the next batch touch.
                touched.push(pages(
                    &server,
                    &address,
                    "handoff.fact WHERE key = '\\x702f0000000100000000' ORDER BY version DESC",
                ));
                touched.push(pages(
                    &server,
                    &address,
                    "handoff.batch WHERE topic = 1 AND partition = 0 ORDER BY base DESC",
                ));
            }
        }
        assert!(touched.iter().all(|pages| *pages <= 6), "pages touched: {touched:?}");
        for table in TABLES {
            let dead = format!("SELECT dead_tuple_count FROM pgstattuple('{table}')");
            assert_eq!(server.ask(&address, &dead), "0", "{table}");
        }
        client.batch_execute("ROLLBACK").await.unwrap();
    });
}

/// How many pages a lookup of the first row touches.
fn pages(server: &Server, address: &str, of: &str) -> u64 {
    let plan = server.ask(
        address,
        &format!(
            "SET enable_seqscan = off; EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) \
             SELECT * FROM {of} LIMIT 1"
        ),
    );
    let number = |name: &str| {
        let at = plan.find(name).map_or("0", |at| &plan[at + name.len()..]);
        let digits: String = at
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse::<u64>().unwrap()
    };
    number("\"Shared Hit Blocks\"") + number("\"Shared Read Blocks\"")
}

#[test]
fn after_a_thousand_changes_an_aggregate_is_kept_whole_and_older_facts_are_not_needed() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let store = open(&address).await;
        Broker::<_>::new(store.clone()).execute(&create(1), crate::chance(0)).await.unwrap();
        let key = Key::Topic(name("orders"));
        for version in 1..=1_005_u64 {
            let grown = Change::TopicGrown(name("orders"), u32::try_from(version).unwrap());
            let step = Step { key: key.clone(), expected: Version(version), changes: vec![grown] };
            store.commit(vec![step], store.now(), None).await.unwrap();
        }
        let kept = "SELECT version FROM handoff.snapshot";
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let mut looks = 0;
        while client.query(kept, &[]).await.unwrap().is_empty() {
            looks += 1;
            assert!(looks < 10_000, "no snapshot is made");
        }
        server.sql(&address, "DELETE FROM handoff.fact WHERE version < 1000");
        let (loaded, _) = store.load(std::slice::from_ref(&key), Hold::Free).await.unwrap();
        assert_eq!(loaded[0].version, Version(1_006));
        let topic = match &loaded[0].aggregate {
            Some(Aggregate::Topic(topic)) => topic,
            other => panic!("{other:?}"),
        };
        assert_eq!(topic.partitions, 1_005);
    });
}
