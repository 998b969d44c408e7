//! Ten thousand calls that nobody serves, and what they cost the others: counted in commands that Redis
//! runs, those of scripts included.

use bytes::Bytes;
use handoff_calls::conformance::Bench as _;
use handoff_calls::transport::{Transport as _, Whereabouts};
use handoff_calls::{Ask, CallId, ClientId, NewCall, Reply, Rules, Serves};
use handoff_store_redis::{Direct, Guardian, Options};
use handoff_tests::on_redis::OnRedis;
use handoff_tests::origami::{Peer, Version};
use handoff_tests::redis::{Said, Server};
use handoff_types::Span;

use crate::{channel, runtime};

const ORPHANS: u64 = 10_000;
const CHANNELS: u64 = 1_000;

const CALLER: ClientId = ClientId::of_chance(1);
const LOST: ClientId = ClientId::of_chance(2);
const WORKER: ClientId = ClientId::of_chance(3);

/// Commands that the server has run so far.
fn commands(server: &Server) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let calls = stats
        .text()
        .lines()
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

fn new(n: u64, caller: ClientId, name: &str, queue_timeout: Option<Span>) -> Ask {
    Ask::Request(Box::new(NewCall {
        id: CallId::of_chance(u128::from(n)),
        caller: Some(caller),
        channel: channel(name),
        params: Bytes::from("1"),
        key: None,
        timeout: None,
        queue_timeout,
        only_with_consumer: false,
        trace: None,
    }))
}

async fn here(room: &OnRedis, client: ClientId, serves: Vec<Serves>) {
    let init = Ask::Init { client, name: "".into(), serves, eager: false };
    assert_eq!(room.ask(init).await.unwrap(), Reply::Done);
}

/// Requests to channels that nobody serves, of a caller that is never heard of again.
async fn orphans(room: &OnRedis, queue_timeout: Option<Span>) {
    here(room, LOST, Vec::new()).await;
    for n in 0..ORPHANS {
        let ask = new(1_000_000 + n, LOST, &format!("void.{}", n % CHANNELS), queue_timeout);
        let reply = room.step(&ask).await.unwrap();
        assert!(matches!(reply, Reply::Registered { again: false, .. }), "{reply:?}");
    }
}

/// Some calls from end to end, with what is due done after every step. Gives what they cost.
async fn cost(server: &Server, room: &OnRedis, from: u64) -> u64 {
    let before = commands(server);
    for n in from..from + 50 {
        let call = CallId::of_chance(u128::from(n));
        let registered = room.ask(new(n, CALLER, "work", None)).await.unwrap();
        assert_eq!(registered, Reply::Registered { call, again: false });
        let client = WORKER;
        let fence = room.look(call).await.unwrap().unwrap().fence;
        assert_eq!(room.ask(Ask::Accept { client, call, fence }).await, Ok(Reply::Held(true)));
        let answer = Ask::Respond { client, call, fence, result: Ok(Bytes::from("2")) };
        assert_eq!(room.ask(answer).await, Ok(Reply::Taken(Ok(()))));
        assert_eq!(room.ask(Ask::Acknowledge { client: CALLER, call }).await, Ok(Reply::Done));
    }
    commands(server) - before
}

#[test]
fn ten_thousand_orphans_cost_the_calls_of_others_no_command_more() {
    let server = Server::start();
    runtime().block_on(async {
        let room = OnRedis::new(&server, Rules::default()).await.unwrap();
        here(&room, CALLER, Vec::new()).await;
        here(&room, WORKER, vec![Serves { channel: channel("work"), concurrency: 4 }]).await;
        let alone = cost(&server, &room, 0).await;
        orphans(&room, None).await;
        let beside = cost(&server, &room, 1_000).await;
        eprintln!("{alone} commands for 50 calls alone, {beside} beside {ORPHANS} orphans");
        assert!(beside * 100 <= alone * 105, "{beside} commands instead of {alone}");
        for list in ["pending", "request_ack", "executing", "response_ack"] {
            let list = format!("origami:requests:{list}_pool:list");
            assert_eq!(server.ask(&["LLEN", &list]), Said::Number(0), "{list} is gone through");
        }
    });
}

#[test]
fn ten_thousand_orphans_that_time_out_leave_nothing_behind() {
    let server = Server::start();
    runtime().block_on(async {
        let room = OnRedis::new(&server, Rules::default()).await.unwrap();
        orphans(&room, Some(Span::from_secs(1))).await;
        room.pass(Span::from_secs(2)).await;
        let look = room.look(CallId::of_chance(1_000_000)).await.unwrap().unwrap();
        assert_eq!(look.whereabouts, Whereabouts::Over);
        let mut wire = server.connect();
        for key in wire.ask(&["KEYS", "origami:requests:list:*"]).texts() {
            let Said::Number(lapses) = wire.ask(&["PTTL", key]) else { panic!("no time") };
            assert!(lapses > 0, "{key} is kept for ever");
        }
        room.pass(Rules::default().kept).await;
        let mut left = wire.ask(&["KEYS", "origami:requests:*"]).texts().len();
        left += wire.ask(&["KEYS", "origami:x:queue:*"]).texts().len();
        assert_eq!(left, 0, "keys of calls are left");
        for set in ["origami:x:due", "origami:x:parked"] {
            assert_eq!(wire.ask(&["ZCARD", set]), Said::Number(0), "{set}");
        }
        assert_eq!(wire.ask(&["SCARD", "origami:x:waiting"]), Said::Number(0));
        for key in wire.ask(&["KEYS", "origami:clients:list:*"]).texts() {
            let Said::Number(lapses) = wire.ask(&["PTTL", key]) else { panic!("no time") };
            assert!(lapses > 0, "{key} is kept for ever");
        }
    });
}

/// Some calls of a foreign pair under a guardian, from end to end. Gives what they cost.
fn cost_of_foreign(server: &Server, caller: &mut Peer, consumer: &mut Peer) -> u64 {
    let before = commands(server);
    for n in 0..200 {
        let id = caller.request("work", &n.to_string(), "0");
        assert_eq!(consumer.serve_one(|params| ("0", params.to_owned())).0, id);
        assert_eq!(caller.end_of(&id).1, n.to_string());
    }
    commands(server) - before
}

/// A guardian looks after every call and every answer, so what a look costs every call pays.
#[test]
fn ten_thousand_orphans_cost_a_guarded_pair_little() {
    let server = Server::start();
    let runtime = runtime();
    let mut guardian = runtime
        .block_on(async { Guardian::start(&server.address(), Options::default()).await.unwrap() });
    runtime.block_on(guardian.guards(true));
    let mut consumer = Peer::start(&server, Version::Swapped, "work");
    let mut caller = Peer::start(&server, Version::Swapped, "");
    let alone = cost_of_foreign(&server, &mut caller, &mut consumer);
    runtime.block_on(async {
        let room = Direct::open(&server.address(), Options::default()).await.unwrap();
        let init = Ask::Init { client: LOST, name: "".into(), serves: Vec::new(), eager: false };
        assert_eq!(room.step(&init).await.unwrap(), Reply::Done);
        for n in 0..ORPHANS {
            let ask = new(1_000_000 + n, LOST, &format!("void.{}", n % CHANNELS), None);
            let reply = room.step(&ask).await.unwrap();
            assert!(matches!(reply, Reply::Registered { .. }), "{reply:?}");
        }
    });
    let beside = cost_of_foreign(&server, &mut caller, &mut consumer);
    eprintln!("{alone} commands for 200 calls alone, {beside} beside {ORPHANS} orphans");
    assert!(beside * 100 <= alone * 120, "{beside} commands instead of {alone}");
}
