//! Fences on a Redis that loses what it knows, or whose clock goes back. Whoever holds an old one outlives
//! both.

use bytes::Bytes;
use handoff_calls::{Ask, CallId, ClientId, NewCall, Reply, Serves};
use handoff_store_redis::{Direct, Options};
use handoff_tests::redis::Server;

use crate::{channel, runtime};

const CALLER: ClientId = ClientId::of_chance(1);
const WORKER: ClientId = ClientId::of_chance(2);

/// A caller and a consumer come, and the one call of all these tests is offered. Gives its fence.
async fn offered(direct: &Direct) -> u64 {
    let serves = vec![Serves { channel: channel("work"), concurrency: 1 }];
    for (client, serves) in [(CALLER, Vec::new()), (WORKER, serves)] {
        let init = Ask::Init { client, name: "".into(), serves, eager: false };
        assert_eq!(direct.step(&init).await.unwrap(), Reply::Done);
    }
    let id = CallId::of_chance(7);
    let new = NewCall {
        id,
        caller: Some(CALLER),
        channel: channel("work"),
        params: Bytes::from("1"),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    };
    let reply = direct.step(&Ask::Request(Box::new(new))).await.unwrap();
    assert_eq!(reply, Reply::Registered { call: id, again: false });
    direct.call(id).await.unwrap().unwrap().fence
}

async fn accept(direct: &Direct, fence: u64) -> Reply {
    let call = CallId::of_chance(7);
    direct.step(&Ask::Accept { client: WORKER, call, fence }).await.unwrap()
}

#[test]
fn a_redis_that_lost_everything_gives_no_fence_again() {
    let server = Server::start();
    runtime().block_on(async {
        let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
        let first = offered(&direct).await;
        assert_eq!(accept(&direct, first).await, Reply::Held(true));
        drop(server.ask(&["FLUSHALL"]));
        let second = offered(&direct).await;
        assert!(second > first, "{second} is not above {first}");
        assert_eq!(accept(&direct, first).await, Reply::Held(false), "it is another call");
        assert_eq!(accept(&direct, second).await, Reply::Held(true));
    });
}

#[test]
fn a_clock_that_goes_back_leads_to_no_smaller_fence() {
    let server = Server::start();
    runtime().block_on(async {
        let direct = Direct::open(&server.address(), Options::default()).await.unwrap();
        let first = offered(&direct).await;
        // As if the clock had been a day ahead when the last one was given.
        let ahead = first + 86_400_000_000;
        drop(server.ask(&["SET", "origami:x:fence", &ahead.to_string()]));
        let call = CallId::of_chance(7);
        assert_eq!(direct.step(&Ask::Away { client: WORKER }).await.unwrap(), Reply::Done);
        let serves = vec![Serves { channel: channel("work"), concurrency: 1 }];
        let init = Ask::Init { client: WORKER, name: "".into(), serves, eager: false };
        assert_eq!(direct.step(&init).await.unwrap(), Reply::Done);
        assert_eq!(direct.call(call).await.unwrap().unwrap().fence, ahead + 1);
    });
}
