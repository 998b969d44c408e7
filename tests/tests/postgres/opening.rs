//! What people are told when a database cannot be used, and how its schema comes about.

use std::fs;

use handoff_store_postgres::{OpenError, Options, Postgres};
use handoff_tests::postgres::{PASSWORD, Server};

use crate::{open, runtime};

async fn refused(address: &str) -> OpenError {
    let error = Postgres::open(address, Options::default()).await.unwrap_err();
    assert!(!error.to_string().contains(PASSWORD), "{error}");
    error
}

#[test]
fn what_keeps_a_broker_out_is_said_in_words_that_help() {
    let mut server = Server::start();
    let address = server.database();
    let runtime = runtime();
    let refused = |address: &str| runtime.block_on(refused(address));
    let wrong = refused(&address.replace(PASSWORD, "wrong"));
    assert!(matches!(wrong, OpenError::NotLetIn { .. }), "{wrong:?}");
    assert!(wrong.to_string().contains("pg_hba.conf"), "{wrong}");
    let missing = refused(&server.address("nowhere"));
    assert!(matches!(missing, OpenError::NoDatabase { .. }), "{missing:?}");
    assert!(missing.to_string().contains("createdb"), "{missing}");
    let tls = refused(&format!("{address}?sslmode=require"));
    assert!(matches!(tls, OpenError::Tls { .. }), "{tls:?}");
    let address_less = refused("postgres://");
    assert!(matches!(address_less, OpenError::Address(_)), "{address_less:?}");
    server.sql(&address, "CREATE ROLE guest LOGIN PASSWORD 'not-a-secret'");
    let guest = refused(&address.replace("handoff:", "guest:"));
    assert!(matches!(guest, OpenError::NotAllowed { .. }), "{guest:?}");
    assert!(guest.to_string().contains("GRANT CREATE"), "{guest}");

    drop(runtime.block_on(open(&address)));
    server.sql(&address, "INSERT INTO handoff.migration (number) VALUES (99)");
    let newer = refused(&address);
    assert!(matches!(newer, OpenError::Newer { found: 99, .. }), "{newer:?}");
    server.sql(&address, "DELETE FROM handoff.migration WHERE number = 99");
    drop(runtime.block_on(open(&address)));

    server.stop();
    let down = refused(&address);
    assert!(matches!(down, OpenError::Unreachable { .. }), "{down:?}");
    assert!(down.to_string().contains("Is it running"), "{down}");
    // A replica whose primary is gone.
    fs::write(server.data().join("standby.signal"), "").unwrap();
    server.go_on();
    let replica = refused(&address);
    assert!(matches!(replica, OpenError::ReadOnly { .. }), "{replica:?}");
}

#[test]
fn brokers_that_start_at_once_on_an_empty_database_make_its_schema_once() {
    let server = Server::start();
    let address = server.database();
    runtime().block_on(async {
        let starts = (0..6).map(|_| {
            let address = address.clone();
            tokio::spawn(async move { drop(open(&address).await) })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap();
        }
    });
    assert_eq!(
        server.ask(&address, "SELECT string_agg(number::text, ',') FROM handoff.migration"),
        "1"
    );
}

/// Whoever runs the broker need not own the database.
#[test]
fn a_user_that_may_only_use_the_schema_can_open_it() {
    let server = Server::start();
    let address = server.database();
    let runtime = runtime();
    drop(runtime.block_on(open(&address)));
    server.sql(
        &address,
        "CREATE ROLE guest LOGIN PASSWORD 'not-a-secret'; \
         GRANT USAGE ON SCHEMA handoff TO guest; \
         GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA handoff TO guest",
    );
    let guest = address.replace("handoff:", "guest:");
    runtime.block_on(async {
        let broker = handoff_streams::Broker::<_>::new(open(&guest).await);
        broker.execute(&crate::create(1), crate::chance(0)).await.unwrap();
        crate::send(&broker, &crate::produce("k", "text", None), 1).await.unwrap();
    });
}
