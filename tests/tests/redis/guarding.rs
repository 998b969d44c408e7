//! A guardian makes foreign pairs fast and keeps one bad request from stopping all.

use std::process::Command;
use std::time::Duration;

use handoff_store_redis::{Guardian, Options};
use handoff_tests::origami::{Peer, Version};
use handoff_tests::place::Place;
use handoff_tests::prey::{Prey, Said as Line};
use handoff_tests::redis::{Said, Server};
use handoff_tests::served::{Served, lair};

use crate::{must, runtime};

const PATIENCE: Duration = Duration::from_secs(30);

/// A guardian as a process.
fn guardian(server: &Server, place: &Place) -> Prey {
    let mut node = Command::new(env!("CARGO_BIN_EXE_node"));
    node.args(["--role", "guardian", "--address", &server.address()]);
    Prey::start(&mut node, &place.path().join("guardian.stderr")).unwrap()
}

fn says(prey: &Prey, wanted: &str) {
    match prey.listen(PATIENCE) {
        Line::Line(line) => assert_eq!(line, wanted),
        other => panic!("{other:?} instead of {wanted}: {}", prey.last_words()),
    }
}

/// One call of a foreign pair, from end to end.
fn round(caller: &mut Peer, consumer: &mut Peer, text: &str) {
    let id = caller.request("work", text, "0");
    assert_eq!(
        consumer.serve_one(|params| ("0", params.to_owned())),
        (id.clone(), text.to_owned())
    );
    assert_eq!(caller.end_of(&id), ("0".to_owned(), text.to_owned()));
}

#[test]
fn a_foreign_pair_works_under_a_guardian_and_its_own_ticks_rest() {
    for version in Version::ALL {
        let server = Server::start();
        let runtime = runtime();
        let mut guardian = runtime.block_on(async {
            Guardian::start(&server.address(), Options::default()).await.unwrap()
        });
        runtime.block_on(guardian.guards(true));
        let mut consumer = Peer::start(&server, version, "work");
        let mut caller = Peer::start(&server, version, "");
        for n in 0..50 {
            round(&mut caller, &mut consumer, &n.to_string());
        }
        let turns = server.ask(&["HGET", "origami:channels:work:info", "rr_counter"]);
        assert_eq!(turns, Said::Text("0".to_owned()), "no foreign tick dispatched anything");
    }
}

#[test]
fn a_server_guards_the_redis_that_it_is_told_of() {
    let redis = Server::start();
    let place = Place::temporary().unwrap();
    let lair = lair(place.path()).set("HANDOFF_CALLS__REDIS_URL", &redis.address());
    let served = Served::start(&lair).unwrap();
    let guarded = async {
        while redis.ask(&["EXISTS", "origami:x:guardian"]) != Said::Number(1) {
            tokio::task::yield_now().await;
        }
    };
    runtime().block_on(must("a guardian", guarded));
    let mut consumer = Peer::start(&redis, Version::Swapped, "work");
    let mut caller = Peer::start(&redis, Version::Swapped, "");
    for n in 0..20 {
        round(&mut caller, &mut consumer, &n.to_string());
    }
    let turns = redis.ask(&["HGET", "origami:channels:work:info", "rr_counter"]);
    assert_eq!(turns, Said::Text("0".to_owned()), "no foreign tick dispatched anything");
    served.stop().unwrap();
}

#[test]
fn a_call_that_nobody_serves_stops_nobody_and_gets_its_timeout() {
    let server = Server::start();
    let runtime = runtime();
    let _guardian = runtime
        .block_on(async { Guardian::start(&server.address(), Options::default()).await.unwrap() });
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    let mut lost = Peer::start(&server, Version::Swapped, "");
    let id = lost.request("void", "1", "1");
    for n in 0..10 {
        round(&mut caller, &mut consumer, &n.to_string());
    }
    assert_eq!(lost.end_of(&id), ("2".to_owned(), String::new()));
    assert_eq!(server.ask(&["GET", "origami:tick:lock"]).text(), "1");
}

#[test]
fn a_deployment_that_one_request_has_stopped_is_healed() {
    let server = Server::start();
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    let stuck = caller.request("void", "1", "0");
    assert_eq!(caller.told_of('c').message, stuck);
    assert_eq!(server.ask(&["GET", "origami:tick:lock"]).text(), "2", "a foreign tick broke");
    let waits = caller.request("work", "2", "0");
    assert_eq!(caller.told_of('c').message, waits);
    let runtime = runtime();
    let _guardian = runtime
        .block_on(async { Guardian::start(&server.address(), Options::default()).await.unwrap() });
    assert_eq!(consumer.serve_one(|params| ("0", params.to_owned())).0, waits);
    assert_eq!(caller.end_of(&waits).1, "2");
    assert_eq!(server.ask(&["GET", "origami:tick:lock"]).text(), "1");
    let mut late = Peer::start(&server, Version::Swapped, "void");
    assert_eq!(late.serve_one(|params| ("0", params.to_owned())).0, stuck);
    assert_eq!(caller.end_of(&stuck).1, "1");
}

#[test]
fn a_foreign_consumer_that_dies_before_and_after_accepting_is_made_up_for() {
    let server = Server::start();
    let runtime = runtime();
    let _guardian = runtime
        .block_on(async { Guardian::start(&server.address(), Options::default()).await.unwrap() });
    let mut dies = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    let accepted = caller.request("work", "1", "0");
    let offer = dies.told_of('b');
    assert_eq!(offer.message, accepted);
    dies.accept(&accepted);
    dies.told_of('d');
    let offered = caller.request("work", "2", "0");
    assert_eq!(dies.told_of('b').message, offered);
    // Nothing is heard of it any more.
    let gone = format!("origami:clients:active_pool:{}", dies.node);
    assert_eq!(server.ask(&["DEL", &gone]), Said::Number(1));
    drop(dies);
    // Looked at while it was still heard of, a call is looked at again much later: nobody waits for that here.
    drop(server.ask(&["ZADD", "origami:x:due", "0", &accepted, "0", &offered]));
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut served = vec![
        consumer.serve_one(|params| ("0", params.to_owned())).0,
        consumer.serve_one(|params| ("0", params.to_owned())).0,
    ];
    served.sort();
    let mut both = vec![accepted, offered];
    both.sort();
    assert_eq!(served, both, "each was given to somebody else");
}

#[test]
fn of_two_guardians_one_guards_and_the_other_takes_over_when_it_freezes() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    let one = guardian(&server, &place);
    says(&one, "guards");
    let two = guardian(&server, &place);
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    round(&mut caller, &mut consumer, "1");
    one.freeze().unwrap();
    says(&two, "guards");
    consumer.ping();
    caller.ping();
    round(&mut caller, &mut consumer, "2");
    one.thaw().unwrap();
    says(&one, "idle");
    round(&mut caller, &mut consumer, "3");
    drop(two);
    says(&one, "guards");
    round(&mut caller, &mut consumer, "4");
}

#[test]
fn without_any_guardian_a_foreign_pair_falls_back_to_its_own_ticks() {
    let server = Server::start();
    let place = Place::temporary().unwrap();
    let mut guards = guardian(&server, &place);
    says(&guards, "guards");
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    round(&mut caller, &mut consumer, "1");
    guards.kill().unwrap();
    let id = caller.request("work", "2", "0");
    // Their ticks run again once the time that they were put off by is over; each ping is one.
    let waiting = || server.ask(&["LLEN", "origami:requests:pending_pool:list"]) != Said::Number(0);
    let begun = server.ask(&["TIME"]).texts()[0].parse::<u64>().unwrap();
    while waiting() {
        caller.ping();
        let now = server.ask(&["TIME"]).texts()[0].parse::<u64>().unwrap();
        assert!(now - begun < 30, "no foreign tick took the call");
    }
    assert_eq!(consumer.serve_one(|params| ("0", params.to_owned())).0, id);
    assert_eq!(caller.end_of(&id).1, "2");
}
