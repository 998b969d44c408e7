//! Blocks that follow each other while many send and a centre does not take everything.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use handoff_relay::session::Reason;
use handoff_sim::dice::Dice;
use handoff_tests::http::Http;
use handoff_tests::relay::Manner;
use handoff_tests::relay::samples::{Taken, body_v1};
use handoff_tests::served::PATIENCE;

use crate::world::World;

const SENDERS: usize = 4;

fn post(http: &mut Http, samples: &[Taken]) -> u16 {
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    http.send_octets("POST", "/api/v1/write", &headers, &body_v1(samples)).unwrap();
    http.answer().unwrap().status
}

const ROTATIONS: usize = 100;

#[test]
fn a_hundred_rotations_under_load_and_random_rejects_leave_no_gap_and_block_nobody_for_ever() {
    // A block knows so few series that it is full all the time.
    let mut world = World::new(2, &["--set", "relay.series_max=40", "--set", "relay.shards=2"]);
    let (enough, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut dice = Dice::new(7);
    let sent: Vec<Taken> = thread::scope(|scope| {
        let (enough, refused, address) = (&enough, &refused, world.agent().http);
        let send = move |sender: usize| {
            let mut http = Http::connect(address, PATIENCE).unwrap();
            let mut sent: Vec<Taken> = Vec::new();
            for round in 0_i64.. {
                if enough.load(Ordering::Relaxed) {
                    break;
                }
                let name = |n| format!("s{sender}.{}.{n}", round % 50);
                let samples: Vec<Taken> =
                    (0..10).map(|n| (name(n), round, round.cast_unsigned())).collect();
                // 429: nothing was taken, the block before has to leave first. It always does.
                loop {
                    match post(&mut http, &samples) {
                        204 => break,
                        429 => refused.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other}"),
                    };
                }
                sent.extend(samples);
            }
            sent
        };
        let senders: Vec<_> = (0..SENDERS).map(|n| scope.spawn(move || send(n))).collect();
        let blocks = || world.agent().count("handoff_relay_blocks_total").unwrap();
        while blocks() <= ROTATIONS {
            let bytes = usize::try_from(dice.below(4_000)).unwrap();
            match dice.below(6) {
                0 => world.centres[1].turn(Manner::Refuses(Reason::RetryAfter)),
                1 => world.centres[1].behave(Manner::Cuts(bytes, usize::MAX)),
                2 => world.centres[1].behave(Manner::Cuts(usize::MAX, bytes)),
                3 => world.centres[1].restart(),
                _ => world.centres[1].turn(Manner::Takes),
            }
        }
        enough.store(true, Ordering::Relaxed);
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    world.centres[1].behave(Manner::Takes);
    world.sent = sent;
    assert!(world.sent.len() > ROTATIONS * 10);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
    world.assert_delivered();
}
