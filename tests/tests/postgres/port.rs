//! The port's promises.

use handoff_store_postgres::Postgres;
use handoff_streams::conformance;
use handoff_tests::postgres::Server;

use crate::{open, runtime};

/// Lets something run on stores that are empty when they are made. One database is emptied again and
/// again: making another takes longer than most of what is looked at.
fn on_fresh_stores(run: impl FnOnce(&dyn Fn() -> Postgres)) {
    let server = Server::start();
    let address = server.database();
    let runtime = runtime();
    run(&|| {
        server.sql(&address, "DROP SCHEMA IF EXISTS handoff CASCADE");
        runtime.block_on(open(&address))
    });
}

#[test]
fn postgresql_keeps_every_promise_of_the_port() {
    on_fresh_stores(|fresh| conformance::promises(fresh));
}

#[test]
fn postgresql_keeps_every_promise_of_the_port_through_failures() {
    on_fresh_stores(|fresh| conformance::promises_through_failures(fresh));
}
