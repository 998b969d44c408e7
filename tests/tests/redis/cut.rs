//! Connections that go silent, are closed, or lead to a server that is frozen or was restarted.

use std::time::Duration;

use handoff_tests::redis::{Said, Server, Setup};
use handoff_tests::storm::{
    Link, close_connections, each_ran_once, lasts, no_connection_is_left_over, rage, stopped,
    through,
};

use crate::{Begun, answer, client, echo, runtime};

/// A caller and a consumer, one of them through a link that becomes a hole.
fn survives_a_hole(of_consumer: bool, time: Duration) {
    let server = Server::start();
    runtime().block_on(async {
        let link = Link::to(server.socket()).await;
        let direct = server.address();
        let (to_caller, to_consumer) =
            if of_consumer { (&direct, &link.address) } else { (&link.address, &direct) };
        let begun = Begun::default();
        let consumer = client(to_consumer, vec![echo("work", 16, &begun)]).await;
        let caller = client(to_caller, Vec::new()).await;
        let ((), asked) = through(&caller, link.is_a_hole_for(time)).await;
        each_ran_once(&begun, asked);
        let cut = if of_consumer { &consumer } else { &caller };
        assert!(cut.connections() > 1, "nobody noticed");
        no_connection_is_left_over(&server, 2).await;
        stopped(&server, caller, consumer).await;
    });
}

#[test]
fn a_silent_link_of_the_caller_loses_nothing_in_3_seconds() {
    survives_a_hole(false, Duration::from_secs(3));
}

#[test]
fn a_silent_link_of_the_consumer_loses_nothing_in_3_seconds() {
    survives_a_hole(true, Duration::from_secs(3));
}

#[test]
fn a_silent_link_of_the_caller_loses_nothing_in_12_seconds() {
    survives_a_hole(false, Duration::from_secs(12));
}

#[test]
fn a_silent_link_of_the_consumer_loses_nothing_in_12_seconds() {
    survives_a_hole(true, Duration::from_secs(12));
}

/// A caller and a consumer while something happens to the server.
fn survives(setup: Setup, what: impl AsyncFn(&mut Server)) -> (Begun, u64) {
    let mut server = Server::with(setup);
    let address = server.address();
    runtime().block_on(async {
        let begun = Begun::default();
        let consumer = client(&address, vec![echo("work", 16, &begun)]).await;
        let caller = client(&address, Vec::new()).await;
        assert_eq!(answer(&caller, "work", "\"before\"").await, "\"before\"");
        begun.lock().unwrap().clear();
        let ((), asked) = through(&caller, what(&mut server)).await;
        no_connection_is_left_over(&server, 2).await;
        stopped(&server, caller, consumer).await;
        (begun, asked)
    })
}

#[test]
fn a_server_that_freezes_for_3_seconds_loses_nothing() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        server.freeze();
        lasts(Duration::from_secs(3)).await;
        server.thaw();
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_freezes_for_12_seconds_loses_nothing() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        server.freeze();
        lasts(Duration::from_secs(12)).await;
        server.thaw();
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_is_killed_with_its_writes_on_disk_loses_nothing() {
    let setup = Setup { append_only: true, ..Setup::default() };
    let (begun, asked) = survives(setup, async |server| {
        lasts(Duration::from_millis(300)).await;
        server.kill();
        server.go_on();
        lasts(Duration::from_millis(300)).await;
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_forgot_everything_is_told_again_by_whoever_still_waits() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        lasts(Duration::from_millis(300)).await;
        server.kill();
        server.go_on();
        lasts(Duration::from_millis(300)).await;
    });
    // What it forgot may have run already; what matters is that everybody was answered.
    assert!(begun.lock().unwrap().len() as u64 >= asked);
}

#[test]
fn a_server_that_forgot_its_scripts_is_given_them_again() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        for _ in 0..5 {
            assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).text(), "OK");
            lasts(Duration::from_millis(50)).await;
        }
    });
    each_ran_once(&begun, asked);
}

#[test]
fn each_connection_may_be_closed_in_turn() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        for role in ["ping", "listener", "publisher"].into_iter().cycle().take(6) {
            close_connections(server, role);
            no_connection_is_left_over(server, 2).await;
        }
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_is_emptied_under_way_is_filled_again() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        lasts(Duration::from_millis(200)).await;
        assert_eq!(server.ask(&["FLUSHALL"]), Said::Text("OK".to_owned()));
        lasts(Duration::from_millis(200)).await;
    });
    assert!(begun.lock().unwrap().len() as u64 >= asked);
}

/// A slice of `scripts/torture calls`, with whatever breaks drawn by its seed.
#[test]
fn one_thing_after_the_other_may_break_and_each_call_runs_once() {
    let weather = rage(4);
    eprintln!("seed 4: {weather:?}");
    assert!(weather.answered > 0);
}
