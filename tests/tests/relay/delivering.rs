//! The healthy path, and conversations that break.

use handoff_tests::relay::Manner;
use handoff_tests::relay::samples::{Taken, body_v2};

use crate::world::World;

#[test]
fn samples_of_both_protocols_arrive_once_and_bit_for_bit_without_a_file() {
    let mut world = World::new(2, &[]);
    world.send(300);
    // Values that are easily lost on the way.
    let stale = 0x7ff0_0000_0000_0002_u64;
    let odd: Vec<Taken> = [stale, (-0.0_f64).to_bits(), f64::INFINITY.to_bits(), u64::MAX, 1]
        .into_iter()
        .enumerate()
        .map(|(n, bits)| (format!("odd{n}"), -5 + n as i64, bits))
        .collect();
    let mut http = world.agent().connect().unwrap();
    let kind = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    let headers = [("content-type", kind), ("content-encoding", "snappy")];
    http.send_octets("POST", "/api/v1/write", &headers, &body_v2(&odd)).unwrap();
    let answer = http.answer().unwrap();
    assert_eq!(answer.status, 204);
    let written = |what: &str| answer.header(&format!("x-prometheus-remote-write-{what}-written"));
    assert_eq!(written("samples"), Some("5"));
    assert_eq!(written("histograms"), Some("0"));
    assert_eq!(written("exemplars"), Some("0"));
    world.sent.extend(odd);
    world.assert_delivered();
    assert_eq!(world.den.files().unwrap(), [""; 0], "a healthy path writes nothing to disk");
}

#[test]
fn conversations_cut_after_any_number_of_bytes_lose_and_double_nothing() {
    let mut world = World::new(1, &[]);
    for passing in (0..40).map(|n| n * n) {
        for manner in [Manner::Cuts(passing, usize::MAX), Manner::Cuts(usize::MAX, passing)] {
            world.centres[0].behave(manner);
            world.send(20);
        }
    }
    assert!(world.centres[0].met().1 > 20, "connections were cut again and again");
    world.centres[0].behave(Manner::Takes);
    world.send(20);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
}

#[test]
fn confirmations_that_are_lost_double_nothing() {
    let mut world = World::new(1, &["--set", "agent.promise=memory"]);
    world.send(100);
    world.centres[0].wait_for(100);
    world.centres[0].turn(Manner::Mute);
    for _ in 0..5 {
        world.send(100);
    }
    world.centres[0].wait_for(600);
    // They are stored, only nobody was told; the connection breaks, and they are sent again.
    world.centres[0].behave(Manner::Takes);
    world.send(100);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
}

#[test]
fn a_centre_that_lost_its_decoders_is_helped_by_nobody() {
    let mut world = World::new(1, &[]);
    for _ in 0..10 {
        world.send(70);
        world.centres[0].restart();
    }
    world.send(70);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
}
