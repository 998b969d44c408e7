//! An agent that starts again with another configuration, on the files of the one before.

use handoff_tests::relay::Manner;

use crate::world::{NAMES, World};

/// Ends the agent, with something in its spool for a centre that is gone.
fn leave(world: &mut World, kill: bool) {
    world.centres[0].behave(Manner::Gone);
    for _ in 0..3 {
        world.send(100);
    }
    assert!(!world.den.files().unwrap().is_empty());
    let agent = world.agent.take().unwrap();
    if kill { drop(agent) } else { agent.stop().unwrap() }
}

#[test]
fn another_number_of_shards_delivers_the_files_of_the_old_one() {
    for kill in [false, true] {
        let mut world = World::new(1, &["--set", "relay.shards=4"]);
        world.send(100);
        leave(&mut world, kill);
        world.agent = Some(world.den.agent(&["--set", "relay.shards=2"]).unwrap());
        world.send(100);
        world.centres[0].behave(Manner::Takes);
        world.send(100);
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
    }
}

#[test]
fn a_destination_that_is_added_gets_what_is_new_and_the_old_ones_everything() {
    let mut world = World::new(2, &[]);
    let addresses: Vec<_> = world.centres.iter().map(|centre| centre.address).collect();
    world.agent.take().unwrap().stop().unwrap();
    world.den.send_to(&[(NAMES[0], addresses[0])]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    leave(&mut world, false);
    let old = world.sent.len();
    world.den.send_to(&[(NAMES[0], addresses[0]), (NAMES[1], addresses[1])]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.send(100);
    world.centres[0].behave(Manner::Takes);
    world.centres[0].assert_exactly(&world.sent);
    world.centres[1].assert_exactly(&world.sent[old..]);
    world.den.wait_until(<[String]>::is_empty);
}

#[test]
fn a_destination_that_comes_back_to_the_configuration_gets_what_was_kept_for_it() {
    let mut world = World::new(2, &[]);
    let addresses: Vec<_> = world.centres.iter().map(|centre| centre.address).collect();
    leave(&mut world, false);
    let kept = world.sent.clone();
    world.den.send_to(&[(NAMES[1], addresses[1])]).unwrap();
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.send(100);
    world.centres[1].assert_exactly(&world.sent);
    world.agent.take().unwrap().stop().unwrap();
    world.den.send_to(&[(NAMES[0], addresses[0]), (NAMES[1], addresses[1])]).unwrap();
    world.centres[0].behave(Manner::Takes);
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.centres[0].assert_exactly(&kept);
    world.den.wait_until(<[String]>::is_empty);
}

#[test]
fn a_file_of_another_encoder_version_is_kept_for_whoever_knows_it_and_holds_nobody_up() {
    // Gone before anybody comes, so that everything is in files.
    let mut world = World::before_an_agent(1);
    world.centres[0].behave(Manner::Gone);
    world.agent = Some(world.den.agent(&[]).unwrap());
    leave(&mut world, false);
    let files = world.den.files().unwrap();
    let old = std::mem::take(&mut world.sent);
    // The eighth byte of a file is the version that its segments are of.
    let stamp = |version: u8| {
        for name in &files {
            let path = world.den.spool().join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[7] = version;
            std::fs::write(&path, bytes).unwrap();
        }
    };
    stamp(9);
    world.centres[0].behave(Manner::Takes);
    world.agent = Some(world.den.agent(&[]).unwrap());
    let new: Vec<_> = (0..100).map(|n| (format!("later{n}"), 7, 7)).collect();
    assert_eq!(world.agent().post(&new).unwrap().status, 204);
    world.centres[0].assert_exactly(&new);
    assert_eq!(world.den.files().unwrap(), files, "offered, refused, and kept");
    let refused = "handoff_relay_given_up_total{reason=\"refused\"}";
    assert_eq!(world.agent().count(refused).unwrap(), 0, "nothing of it is set aside");
    world.agent.take().unwrap().stop().unwrap();
    stamp(1);
    world.agent = Some(world.den.agent(&[]).unwrap());
    world.centres[0].assert_exactly(&[old, new].concat());
    world.den.wait_until(<[String]>::is_empty);
}
