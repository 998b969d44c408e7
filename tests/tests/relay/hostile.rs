//! Destinations that say what makes no sense, and as much of it as they are let.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use handoff_relay::SegmentKey;
use handoff_relay::session::{HelloAck, Message, ShardState, encode};

use crate::world::{NAMES, World};

/// Says this to everybody who comes and goes on reading, until they leave. Ends with the test.
fn says(words: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let words = words.clone();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                // Somebody who leaves meanwhile has heard enough.
                if stream.read(&mut bytes).is_ok() && stream.write_all(&words).is_ok() {
                    while matches!(stream.read(&mut bytes), Ok(1..)) {}
                }
            });
        }
    });
    address
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
    for (number, words) in nonsense.into_iter().enumerate() {
        let mut world = World::new(1, &[]);
        world.agent.take().unwrap().stop().unwrap();
        let (good, bad) = (world.centres[0].address, says(words));
        world.den.send_to(&[(NAMES[0], good), (NAMES[1], bad)]).unwrap();
        world.agent = Some(world.den.agent(&[]).unwrap());
        world.send(100);
        let before = world.agent().memory("VmHWM:").unwrap();
        let lost = format!("handoff_relay_destination_lost_total{{destination=\"{}\"}}", NAMES[1]);
        while world.agent().metric(&lost).unwrap() < Some(10.0) {
            world.send(10);
        }
        world.centres[0].assert_exactly(&world.sent);
        let after = world.agent().memory("VmHWM:").unwrap();
        assert!(after < before + (8 << 10), "{number}: {before} kB, then {after} kB");
        assert!(!world.den.files().unwrap().is_empty(), "{number}: what it did not take is kept");
        let ready = world.agent().connect().unwrap().ask("GET", "/readyz", None).unwrap();
        assert_eq!(ready.status, 200);
    }
}
