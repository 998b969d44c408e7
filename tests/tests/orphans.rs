//! Ten thousand calls that nobody serves, and what they cost the others in the embedded room: records,
//! and the time of the processor that decides. A room that went through what waits would take a hundred
//! times as long.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use bytes::Bytes;
use handoff_calls::conformance::{Bench as _, Memory};
use handoff_calls::transport::Transport as _;
use handoff_calls::{Ask, CallId, ClientId, NewCall, Notice, Reply, Rules, Serves};
use handoff_types::Span;
use rustix::time::{ClockId, clock_gettime};

const ORPHANS: u64 = 10_000;
const CHANNELS: u64 = 1_000;
const ROUNDS: u64 = 5;

const CALLER: ClientId = ClientId::of_chance(1);
const LOST: ClientId = ClientId::of_chance(2);
const WORKER: ClientId = ClientId::of_chance(3);

fn new(n: u64, caller: ClientId, channel: &str) -> Ask {
    Ask::Request(Box::new(NewCall {
        id: CallId::of_chance(u128::from(n)),
        caller: Some(caller),
        channel: channel.parse().unwrap(),
        params: Bytes::from("1"),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    }))
}

async fn room() -> Memory {
    let room = Memory::new(Rules::default(), 7);
    let serves = vec![Serves { channel: "work".parse().unwrap(), concurrency: 4 }];
    for (client, serves) in [(CALLER, Vec::new()), (LOST, Vec::new()), (WORKER, serves)] {
        let init = Ask::Init { client, name: "".into(), serves, eager: false };
        assert_eq!(room.ask(init).await, Ok(Reply::Done));
    }
    room
}

/// What the processor spent on this thread.
fn spent() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Some calls from end to end while time passes. Gives what they cost, and what everybody was told.
async fn cost(room: &Memory, from: u64) -> (i64, usize) {
    let before = spent();
    let mut told = 0;
    for n in from..from + 200 {
        let call = CallId::of_chance(u128::from(n));
        room.ask(new(n, CALLER, "work")).await.unwrap();
        let client = WORKER;
        let fence = room.look(call).await.unwrap().unwrap().fence;
        assert_eq!(room.ask(Ask::Accept { client, call, fence }).await, Ok(Reply::Held(true)));
        room.pass(Span::from_millis(1)).await;
        let answer = Ask::Respond { client, call, fence, result: Ok(Bytes::from("2")) };
        assert_eq!(room.ask(answer).await, Ok(Reply::Taken(Ok(()))));
        assert_eq!(room.ask(Ask::Acknowledge { client: CALLER, call }).await, Ok(Reply::Done));
        for client in [CALLER, WORKER] {
            let heard: Vec<Notice> = room.heard(client).await.unwrap();
            told += heard.len();
        }
    }
    (spent() - before, told)
}

#[tokio::test]
async fn ten_thousand_orphans_cost_the_calls_of_others_little() {
    let (alone, beside) = (room().await, room().await);
    for n in 0..ORPHANS {
        let reply = beside.ask(new(1_000_000 + n, LOST, &format!("void.{}", n % CHANNELS))).await;
        assert!(matches!(reply, Ok(Reply::Registered { again: false, .. })), "{reply:?}");
    }
    let (mut least_alone, mut least_beside) = (i64::MAX, i64::MAX);
    // Turn by turn, so that both meet the same machine; and the least of each, which is without guests.
    for round in 0..ROUNDS {
        let (spent_alone, told_alone) = cost(&alone, round * 1_000).await;
        let (spent_beside, told_beside) = cost(&beside, round * 1_000).await;
        assert_eq!(told_alone, told_beside, "everybody is told the same");
        least_alone = least_alone.min(spent_alone);
        least_beside = least_beside.min(spent_beside);
    }
    eprintln!("{least_alone} ns of processor alone, {least_beside} ns beside {ORPHANS} orphans");
    assert!(least_beside < least_alone * 3, "{least_beside} ns instead of {least_alone}");
}
