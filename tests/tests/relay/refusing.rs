//! Requests that are not taken, and what they cost.

use handoff_tests::relay::Manner;
use handoff_tests::relay::samples::{body_v1, pack, put_bytes, put_number};

use crate::world::World;

const V1: (&str, &str) = ("content-type", "application/x-protobuf");
const SNAPPY: (&str, &str) = ("content-encoding", "snappy");

#[track_caller]
fn status(world: &World, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let mut http = world.agent().connect().unwrap();
    http.send_octets("POST", path, headers, body).unwrap();
    let answer = http.answer().unwrap();
    let code = answer.json().map(|body| body["code"].as_str().unwrap_or_default().to_owned());
    (answer.status, code.unwrap_or_default())
}

#[test]
fn what_cannot_be_taken_is_refused_with_a_code_and_changes_nothing() {
    let mut world = World::new(1, &["--set", "relay.body_bytes_max=64KiB"]);
    let good = body_v1(&world.fresh(3));
    let write = "/api/v1/write";
    let check = |path: &str, headers: &[(&str, &str)], body: &[u8], expected: (u16, &str)| {
        let (status, code) = status(&world, path, headers, body);
        assert_eq!((status, code.as_str()), expected, "{path} {headers:?}");
    };
    let json = ("content-type", "application/json");
    let v3 = ("content-type", "application/x-protobuf;proto=io.prometheus.write.v3.Request");
    check(write, &[json, SNAPPY], &good, (415, "request.wrong_media_type"));
    check(write, &[v3, SNAPPY], &good, (415, "request.wrong_media_type"));
    check(write, &[V1, ("content-encoding", "zstd")], &good, (415, "request.wrong_media_type"));
    check(write, &[V1, SNAPPY], b"", (400, "request.malformed"));
    check(write, &[V1, SNAPPY], b"no snappy at all", (400, "request.malformed"));
    check(write, &[V1, SNAPPY], &good[..good.len() - 1], (400, "request.malformed"));
    check(write, &[V1, SNAPPY], &pack(&[0xff; 100]), (400, "request.malformed"));
    check(write, &[V1, SNAPPY], &vec![0; 65 << 10], (413, "request.too_large"));
    check(write, &[V1, SNAPPY], &pack(&vec![0; 65 << 10]), (413, "request.too_large"));
    check("/nowhere", &[V1, SNAPPY], &good, (404, "request.no_such_path"));
    let mut http = world.agent().connect().unwrap();
    assert_eq!(http.ask("GET", write, None).unwrap().status, 405);
    assert_eq!(http.ask("GET", "/healthz", None).unwrap().status, 200);
    assert_eq!(http.ask("GET", "/readyz", None).unwrap().status, 200);
    world.send(3);
    world.assert_delivered();
}

#[test]
fn one_bad_series_does_not_take_the_others_with_it() {
    let mut world = World::new(1, &[]);
    let good = world.fresh(2);
    let mut message = Vec::new();
    let mut packed = &body_v1(&good)[..];
    // Its length, and then one literal after the other.
    let length_bytes = packed.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    packed = &packed[length_bytes..];
    while let Some((tag, rest)) = packed.split_first() {
        let (literal, behind) = rest.split_at(usize::from(tag >> 2) + 1);
        message.extend_from_slice(literal);
        packed = behind;
    }
    // A series that has the same label twice.
    let (mut label, mut series) = (Vec::new(), Vec::new());
    put_bytes(&mut label, 1, b"a");
    put_bytes(&mut label, 2, b"b");
    put_bytes(&mut series, 1, &label);
    put_bytes(&mut series, 1, &label);
    put_bytes(&mut series, 2, &[]);
    put_bytes(&mut message, 1, &series);
    let (status, code) = status(&world, "/api/v1/write", &[V1, SNAPPY], &pack(&message));
    assert_eq!((status, code.as_str()), (400, "request.malformed"));
    world.sent.extend(good);
    world.assert_delivered();
}

#[test]
fn hostile_bodies_cost_less_than_a_mebibyte() {
    let world = World::new(1, &[]);
    let claims = |len: u64, rest: &[u8]| {
        let mut body = Vec::new();
        put_number(&mut body, len);
        body.extend_from_slice(rest);
        body
    };
    let send = |body: &[u8]| {
        let (status, _) = status(&world, "/api/v1/write", &[V1, SNAPPY], body);
        assert!(status == 400 || status == 413, "{status}");
    };
    // What it takes to read so much and to refuse it.
    (0..20).for_each(|_| send(&[0xff; 600 << 10]));
    for body in [
        claims(0xffff_ffff, &[0; 16]),
        claims(32 << 20, &[0xfe; 64]),
        claims(32 << 20, &[0xfe; 600 << 10]),
        claims(32 << 20, &[b'x'; 600 << 10]),
        // A field that says it has four gigabytes.
        pack(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        let before = world.agent().memory("VmHWM:").unwrap();
        (0..20).for_each(|_| send(&body));
        let after = world.agent().memory("VmHWM:").unwrap();
        assert!(after < before + (1 << 10), "{before} kB, then {after} kB");
    }
}

#[test]
fn whoever_sends_shows_the_token() {
    let mut world = World::new(1, &[]);
    let token = world.place.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let flag = format!("agent.token_file={}", token.display());
    world.agent.take().unwrap().stop().unwrap();
    world.agent = Some(world.den.agent(&["--set", &flag]).unwrap());
    let body = body_v1(&world.fresh(1));
    let with =
        |value| status(&world, "/api/v1/write", &[V1, SNAPPY, ("authorization", value)], &body);
    let none = status(&world, "/api/v1/write", &[V1, SNAPPY], &body);
    assert_eq!(none, (401, "auth.token_missing".to_owned()));
    assert_eq!(with("Bearer secre").0, 401);
    assert_eq!(with("Bearer secret1").0, 401);
    assert_eq!(with("Basic secret").0, 401);
    assert_eq!(with("Bearer secret").0, 204);
}

/// A megabyte of spool, and as much memory.
const SMALL: [&str; 8] = [
    "--set",
    "relay.spool_bytes_max=1MiB",
    "--set",
    "relay.exchange_bytes_max=1MiB",
    "--set",
    "relay.promise_secs_max=1s",
    "--set",
    "agent.promise=memory",
];

/// Samples that cannot be packed.
fn noise(count: usize, time: i64, dice: &mut u64) -> Vec<(String, i64, u64)> {
    let mut roll = || {
        *dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *dice
    };
    (0..count).map(|n| (format!("s{n}"), time * 1_000, roll())).collect()
}

#[test]
fn a_full_agent_says_so_takes_nothing_more_and_goes_on_by_itself_once_its_destination_is_back() {
    let mut world = World::new(1, &SMALL);
    world.centres[0].behave(Manner::Gone);
    let mut dice = 1_u64;
    let mut number = 0;
    let full = loop {
        let samples = noise(5_000, number, &mut dice);
        number += 1;
        let answer = world.agent().post(&samples).unwrap();
        if answer.status != 204 {
            break answer;
        }
        world.sent.extend(samples);
        assert!(number < 10_000, "it takes everything");
    };
    assert_eq!(full.status, 429);
    assert!(full.header("retry-after").is_some());
    assert!(world.agent().memory("VmRSS:").unwrap() < 200 << 10);
    world.centres[0].behave(Manner::Takes);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
    let more = noise(10, number, &mut dice);
    assert_eq!(world.agent().post(&more).unwrap().status, 204);
    world.sent.extend(more);
    world.assert_delivered();
}
