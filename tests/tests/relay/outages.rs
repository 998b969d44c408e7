//! Centres that are gone, silent or unwilling, for a while or for ever.

use handoff_relay::session::Reason;
use handoff_tests::relay::Manner;

use crate::world::World;

#[test]
fn what_a_centre_missed_is_on_disk_before_it_is_acknowledged_and_arrives_when_it_is_back() {
    let mut world = World::new(1, &[]);
    world.send(100);
    world.centres[0].behave(Manner::Gone);
    for _ in 0..3 {
        world.send(100);
    }
    assert!(!world.den.files().unwrap().is_empty());
    assert!(world.agent().metric("handoff_relay_spooled_bytes_total").unwrap() > Some(0.0));
    world.centres[0].behave(Manner::Takes);
    world.send(100);
    world.assert_delivered();
    world.den.wait_until(<[String]>::is_empty);
}

#[test]
fn one_dead_centre_of_two_costs_the_other_nothing() {
    for dead in [Manner::Gone, Manner::Silent, Manner::Refuses(Reason::RetryAfter)] {
        let mut world = World::new(2, &["--set", "agent.promise=memory"]);
        world.centres[1].behave(dead);
        for round in 1..=10 {
            world.send(50);
            // It has them before anything else is sent.
            world.centres[0].wait_for(round * 50);
        }
        world.centres[0].assert_exactly(&world.sent);
        assert_eq!(world.centres[1].taken().len(), 0, "{dead:?}");
        world.den.wait_until(|files| !files.is_empty());
        world.centres[1].behave(Manner::Takes);
        world.send(50);
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
    }
}

#[test]
fn what_a_centre_will_never_take_is_set_aside_and_the_rest_goes_on() {
    let mut world = World::new(2, &["--set", "agent.promise=memory"]);
    world.centres[1].turn(Manner::Refuses(Reason::Permanent));
    world.send(50);
    world.centres[0].wait_for(50);
    let given_up = "handoff_relay_given_up_total{reason=\"refused\"}";
    let quarantine = world.den.data_dir().join("quarantine");
    world.den.wait_until(|_| std::fs::read_dir(&quarantine).unwrap().count() > 0);
    world.centres[1].turn(Manner::Takes);
    world.den.wait_until(<[String]>::is_empty);
    assert!(world.agent().metric(given_up).unwrap() > Some(0.0));
    let refused = std::mem::take(&mut world.sent);
    world.sent = world.fresh(0);
    // What comes now has other times.
    let more: Vec<_> = (0..50).map(|n| (format!("later{n}"), 7, 7)).collect();
    assert_eq!(world.agent().post(&more).unwrap().status, 204);
    world.centres[1].assert_exactly(&more);
    world.centres[0].assert_exactly(&[refused, more].concat());
}

#[test]
fn delivered_means_delivered_and_says_no_when_it_is_not() {
    let flags = ["--set", "agent.promise=delivered", "--set", "relay.promise_secs_max=1s"];
    let mut world = World::new(2, &flags);
    world.send(50);
    for centre in &world.centres {
        centre.assert_exactly(&world.sent);
    }
    world.centres[1].behave(Manner::Gone);
    let samples = world.fresh(50);
    let answer = world.agent().post(&samples).unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
    // It is on its way all the same.
    world.sent.extend(samples);
    world.centres[1].behave(Manner::Takes);
    world.assert_delivered();
}

#[test]
fn a_destination_that_is_gone_from_the_configuration_blocks_nobody_and_keeps_its_file() {
    let mut world = World::new(2, &[]);
    world.centres[1].behave(Manner::Gone);
    world.send(100);
    world.agent.take().unwrap().stop().unwrap();
    world.den.send_to(&[("one", world.centres[0].address)]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.send(100);
    world.centres[0].assert_exactly(&world.sent);
    assert_eq!(world.den.files().unwrap().len(), 1, "what is for the other is kept");
}
