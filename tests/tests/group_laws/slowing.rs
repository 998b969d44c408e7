//! Consumers that take their time, beside others that do not.

use std::io::{Read, Write};
use std::net::TcpStream;

use handoff_tests::member::Member;
use handoff_tests::served::PATIENCE;
use serde_json::{Value, json};

use crate::world::{WAIT, World, payloads};

const MESSAGES: usize = 96;

/// All of them are more than may be on their way at once.
const MESSAGE_BYTES: usize = 256 << 10;

fn world() -> World {
    let mut world = World::start_with(|lair| lair.with("--set=streams.delivery_bytes_max=16MiB"));
    world.topic("orders", 1);
    let text = |n: usize| format!("{n} {}", "x".repeat(MESSAGE_BYTES));
    for n in 0..MESSAGES {
        world.produce("orders", &[json!({"payload": text(n)})]);
    }
    world
}

fn joined(world: &mut World, group: &str) -> Member {
    world.group(group, &["orders"], &json!({"ordering": "none", "leaseMs": 3_600_000}));
    world.join(group, &json!({"sessionTimeoutMs": 3_600_000}))
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
        let mut some = [0; 1024];
        self.stream.read_exact(&mut some).unwrap();
        self.taken.extend_from_slice(&some);
    }

    /// Takes the rest; gives how many messages there were.
    fn finish(mut self) -> usize {
        self.stream.read_to_end(&mut self.taken).unwrap();
        String::from_utf8(self.taken).unwrap().matches("\"payload\"").count()
    }
}

/// Lets a member have everything there is, and tells somebody between any two polls.
fn everything(world: &mut World, member: &Member, mut meanwhile: impl FnMut()) -> usize {
    let mut seen = 0;
    while world.show(&member.group).lag() > 0 {
        let answer = member.poll(&mut world.http, &json!({})).unwrap();
        let batches = handoff_tests::member::Batch::all(&answer).unwrap();
        seen += payloads(&batches).len();
        world.finish(member, &batches, "ok");
        meanwhile();
    }
    seen
}

#[test]
fn consumers_that_read_their_sockets_slowly_slow_nobody_else() {
    let mut world = world();
    let slow = joined(&mut world, "slow");
    // Two answers, together as large as all that may be on their way.
    let mut sips = [Sip::poll(&world, &slow), Sip::poll(&world, &slow)];
    sips.iter_mut().for_each(Sip::sip);
    let on_their_way = world.show("slow").partition(0)["processing"].as_u64().unwrap();
    assert!(on_their_way > 0);
    let quick = joined(&mut world, "quick");
    let seen = everything(&mut world, &quick, || sips.iter_mut().for_each(Sip::sip));
    assert_eq!(seen, MESSAGES);
    let shown = world.show("slow");
    assert_eq!(shown.partition(0)["processing"], json!(on_their_way));
    let taken: usize = sips.into_iter().map(Sip::finish).sum();
    assert_eq!(taken as u64, on_their_way, "they get what they were promised");
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
    while waiting_readers(&mut world) < 8 {}
    let quick = joined(&mut world, "quick");
    assert_eq!(everything(&mut world, &quick, || {}), MESSAGES);
    assert_eq!(world.show("slow").partition(0)["processing"], json!(MESSAGES));
}

fn waiting_readers(world: &mut World) -> u64 {
    let stats: Value = world.ask("GET", "/v1/streams/stats", None);
    stats["waitingReaders"].as_u64().unwrap()
}
