//! The end of an agent, and the beginning of the next.

use handoff_tests::relay::Manner;
use handoff_tests::served::PATIENCE;

use crate::world::World;

#[test]
fn an_agent_that_is_told_to_stop_ends_with_everything_on_disk_and_the_next_delivers_it() {
    for dead in [Manner::Gone, Manner::Silent] {
        let mut world =
            World::new(2, &["--set", "agent.promise=memory", "--set", "relay.window_secs=60s"]);
        world.centres[1].behave(dead);
        world.send(200);
        world.centres[0].wait_for(200);
        world.agent.take().unwrap().stop().unwrap();
        assert_eq!(world.den.files().unwrap().len(), 1, "{dead:?}");
        world.centres[1].behave(Manner::Takes);
        world.agent = Some(world.den.agent(&[]).unwrap());
        world.send(200);
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
    }
}

#[test]
fn a_healthy_agent_stops_without_a_file() {
    let mut world = World::new(2, &[]);
    world.send(200);
    world.agent.take().unwrap().stop().unwrap();
    assert_eq!(world.den.files().unwrap(), [""; 0]);
    world.assert_delivered();
}

#[test]
fn whoever_sends_while_it_stops_is_told_to_come_back() {
    let mut world =
        World::new(1, &["--set", "relay.window_secs=60s", "--set", "relay.linger_ms=60s"]);
    world.centres[0].behave(Manner::Silent);
    let samples = world.fresh(10);
    let mut http = world.agent().connect().unwrap();
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    let body = handoff_tests::relay::samples::body_v1(&samples);
    http.send_octets("POST", "/api/v1/write", &headers, &body).unwrap();
    // It waits for its promise; to stop keeps it.
    while world.agent().metric("handoff_relay_requests_waiting").unwrap() != Some(1.0) {}
    let agent = world.agent.take().unwrap();
    agent.prey.terminate().unwrap();
    let answer = http.answer().unwrap();
    assert_eq!(answer.status, 204, "what was begun is finished");
    world.sent.extend(samples);
    let mut agent = agent;
    assert!(agent.prey.ended().unwrap().success());
    world.centres[0].behave(Manner::Takes);
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.assert_delivered();
}

#[test]
fn a_second_agent_in_the_same_directory_does_not_start() {
    let world = World::new(1, &[]);
    let mut second = world.den.start(&[]).unwrap();
    assert_eq!(second.listen(PATIENCE), handoff_tests::prey::Said::Gone);
    assert_eq!(second.ended().unwrap().code(), Some(5), "{}", second.last_words());
    assert!(second.last_words().contains("process"), "{}", second.last_words());
}

#[test]
fn an_idle_agent_is_small() {
    let mut world = World::new(1, &[]);
    world.send(10);
    world.assert_delivered();
    // Pages of the program itself are the kernel's to drop; a test's program has many.
    let anonymous = world.agent().memory("RssAnon:").unwrap();
    assert!(anonymous < 20 << 10, "{anonymous} kB");
}
