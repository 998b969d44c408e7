//! Consumers that take their time, beside others that do not.

use std::io::{Read, Write};
use std::net::TcpStream;

use handoff_tests::member::Member;
use handoff_tests::served::PATIENCE;
use serde_json::json;

use crate::world::{WAIT, World, payloads};

const MESSAGES: usize = 160;

/// Those of one partition are more than may be on their way at once.
const MESSAGE_BYTES: usize = 256 << 10;

fn world() -> World {
    let mut world = World::start_with(|lair| lair.with("--set=streams.delivery_bytes_max=16MiB"));
    world.topic("orders", 2);
    let text = |n: usize| format!("{n} {}", "x".repeat(MESSAGE_BYTES));
    for n in 0..MESSAGES {
        world.produce("orders", &[json!({"payload": text(n), "partition": n % 2})]);
    }
    for group in ["slow", "quick"] {
        world.group(group, &["orders"], &json!({"ordering": "none", "leaseMs": 3_600_000}));
    }
    world
}

fn joined(world: &mut World, group: &str) -> Member {
    world.join(group, &json!({"sessionTimeoutMs": 3_600_000}))
}

/// What is out of a partition.
fn processing(world: &mut World, group: &str, partition: usize) -> usize {
    let out = world.show(group).partition(partition)["processing"].as_u64().unwrap();
    usize::try_from(out).unwrap()
}

/// A poll whose answer is taken a little at a time.
struct Sip {
    stream: TcpStream,
    taken: Vec<u8>,
}

impl Sip {
    fn poll(world: &World, member: &Member) -> Self {
        let mut stream = TcpStream::connect(world.served.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = json!({"version": 1, "maxBytes": 16 << 20}).to_string();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            member.path("/poll"),
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        Self { stream, taken: Vec::new() }
    }

    /// Takes some more.
    fn sip(&mut self) {
        let mut some = [0; 512];
        self.stream.read_exact(&mut some).unwrap();
        self.taken.extend_from_slice(&some);
    }

    /// Takes the rest; gives how many messages there were.
    fn finish(mut self) -> usize {
        self.stream.read_to_end(&mut self.taken).unwrap();
        String::from_utf8(self.taken).unwrap().matches("\"payload\"").count()
    }
}

/// Lets a member have so many messages, and somebody do something between any two polls.
fn everything(world: &mut World, member: &Member, count: usize, mut meanwhile: impl FnMut()) {
    let mut seen = 0;
    while seen < count {
        let batches = world.poll_now(member);
        assert!(!batches.is_empty(), "{seen} of {count} came");
        seen += payloads(&batches).len();
        world.finish(member, &batches, "ok");
        meanwhile();
    }
}

#[test]
fn consumers_that_read_their_sockets_slowly_slow_nobody_else() {
    let mut world = world();
    let slow = joined(&mut world, "slow");
    let other = joined(&mut world, "slow");
    // What the other did not get.
    let own = 1 - usize::try_from(other.assigned[0].1).unwrap();
    // The first is as large as all that may be on its way; the second gets what is its own.
    let mut sips = [Sip::poll(&world, &slow), Sip::poll(&world, &slow)];
    sips.iter_mut().for_each(Sip::sip);
    let on_their_way = processing(&mut world, "slow", own);
    assert!(on_their_way > 1);
    let quick = joined(&mut world, "quick");
    everything(&mut world, &quick, MESSAGES, || sips.iter_mut().for_each(Sip::sip));
    everything(&mut world, &other, MESSAGES / 2, || sips.iter_mut().for_each(Sip::sip));
    assert_eq!(world.show("quick").lag(), 0);
    assert_eq!(processing(&mut world, "slow", own), on_their_way);
    let taken: usize = sips.into_iter().map(Sip::finish).sum();
    assert_eq!(taken, on_their_way, "they get what they were promised");
}

#[test]
fn consumers_that_hold_polls_and_leases_slow_nobody_else() {
    let mut world = world();
    let slow = joined(&mut world, "slow");
    let mut held = Vec::new();
    while held.len() < MESSAGES {
        held.extend(payloads(&world.poll(&slow)));
    }
    let mut waiting: Vec<_> = (0..8).map(|_| world.connect()).collect();
    for http in &mut waiting {
        let body = json!({"version": 1, "waitMs": WAIT, "maxBytes": 16 << 20});
        http.send("POST", &slow.path("/poll"), Some(&body)).unwrap();
    }
    let mut waits = 0;
    while waits < 8 {
        waits = world.ask("GET", "/v1/streams/stats", None)["waitingReaders"].as_u64().unwrap();
    }
    let quick = joined(&mut world, "quick");
    everything(&mut world, &quick, MESSAGES, || {});
    assert_eq!(world.show("quick").lag(), 0);
    assert_eq!(processing(&mut world, "slow", 0) + processing(&mut world, "slow", 1), MESSAGES);
}
