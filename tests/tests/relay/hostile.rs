//! Destinations that say what makes no sense, and as much of it as they are let.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use handoff_relay::SegmentKey;
use handoff_relay::session::{HelloAck, Message, ShardState, encode};

use crate::world::{NAMES, World};

/// What is said to everybody who comes. Whoever is told nothing is left.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<Vec<u8>>>);

impl Words {
    fn set(&self, words: Vec<u8>) {
        *self.0.lock().unwrap() = words;
    }

    /// Where they are said. Ends with the test.
    fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let words = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), words) = (stream, words.clone()) else { return };
                thread::spawn(move || words.say(stream));
            }
        });
        address
    }

    /// Says them, and goes on reading until whoever listens has heard enough.
    fn say(&self, mut stream: TcpStream) {
        let mut bytes = [0; 4096];
        let greeted = stream.read(&mut bytes);
        let words = self.0.lock().unwrap().clone();
        if greeted.is_ok() && !words.is_empty() && stream.write_all(&words).is_ok() {
            while matches!(stream.read(&mut bytes), Ok(1..)) {}
        }
    }
}

fn said(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| encode(message, &mut bytes));
    bytes
}

/// A greeting of somebody who has one shard, and has it up to here.
fn greeting(mark: Option<u32>) -> Message {
    let stands = mark.map(|mark| mark + 1);
    let shards = vec![ShardState { mark, stands }];
    Message::HelloAck(HelloAck { frame_bytes_max: u32::MAX, credit: u32::MAX, shards })
}

#[test]
fn a_destination_that_says_nonsense_is_left_costs_no_memory_and_the_others_nothing() {
    let key = |shard, segment| SegmentKey { shard, segment };
    let mut flipped = said(&[greeting(None)]);
    *flipped.last_mut().unwrap() ^= 1;
    let mut unknown = said(&[Message::Pong]);
    unknown[1] = 99;
    let huge = [&[0xd7, 17, 0, 0, 0, 0, 0, 0][..], &[0xff; 8]].concat();
    let two_shards = HelloAck {
        frame_bytes_max: 1,
        credit: 1,
        shards: vec![ShardState { mark: None, stands: None }; 2],
    };
    let nonsense = [
        vec![0; 1 << 20],
        vec![b'x'; 1 << 20],
        huge,
        flipped,
        unknown,
        said(&[Message::HelloAck(two_shards)]),
        said(&[Message::Ack(key(0, 0))]),
        said(&[greeting(None), Message::Ack(key(9, 0))]),
        said(&[greeting(None), Message::Ack(key(0, 77))]),
        said(&[greeting(None), greeting(None)]),
        said(&[greeting(None), Message::Skip(key(0, 0))]),
    ];
    let mut world = World::before_an_agent(1);
    let bad = Words::default();
    let destinations = [(NAMES[0], world.centres[0].address), (NAMES[1], bad.listen())];
    world.den.send_to(&destinations).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    let lost = format!("handoff_relay_destination_lost_total{{destination=\"{}\"}}", NAMES[1]);
    let lose = |world: &mut World, times: f64| {
        let until = world.agent().metric(&lost).unwrap().unwrap_or(0.0) + times;
        while world.agent().metric(&lost).unwrap() < Some(until) {
            world.send(10);
        }
        world.agent().memory("VmHWM:").unwrap()
    };
    // What it takes to keep what one destination does not take.
    lose(&mut world, 30.0);
    for (number, words) in nonsense.into_iter().enumerate() {
        bad.set(Vec::new());
        let before = lose(&mut world, 10.0);
        bad.set(words);
        let after = lose(&mut world, 10.0);
        assert!(after < before + (1 << 10), "{number}: {before} kB, then {after} kB");
        let ready = world.agent().connect().unwrap().ask("GET", "/readyz", None).unwrap();
        assert_eq!(ready.status, 200);
    }
    world.centres[0].assert_exactly(&world.sent);
    assert!(!world.den.files().unwrap().is_empty(), "what it did not take is kept");
}
