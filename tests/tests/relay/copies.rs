//! Directories that were copied, and older copies that came back. A block is numbered by one process
//! only, so that nobody takes samples of one agent for those of another. An agent that went on with the
//! numbers in its files lost what it took on a copy: the centre knew them from the other life.

use handoff_tests::place::Place;
use handoff_tests::relay::{Agent, Den, Manner};

use crate::world::World;

/// Samples that an agent must acknowledge.
#[track_caller]
fn send(world: &mut World, agent: &Agent, count: usize) {
    let samples = world.fresh(count);
    let answer = agent.post(&samples).unwrap();
    assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
    world.sent.extend(samples);
}

/// An agent with something in its spool for a centre that is gone.
fn with_a_backlog() -> World {
    let mut world = World::new(1, &[]);
    world.send(100);
    world.centres[0].behave(Manner::Gone);
    for _ in 0..3 {
        world.send(100);
    }
    assert!(!world.den.files().unwrap().is_empty());
    world
}

fn end(world: &mut World, kill: bool) {
    let agent = world.agent.take().unwrap();
    if kill { drop(agent) } else { agent.stop().unwrap() }
}

#[test]
fn an_agent_on_an_older_copy_of_its_directory_delivers_all_that_it_takes_there() {
    for (copied_alive, kill) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = with_a_backlog();
        let elsewhere = Place::temporary().unwrap();
        let older = if copied_alive {
            let older = world.den.copied_to(elsewhere.path()).unwrap();
            end(&mut world, kill);
            older
        } else {
            end(&mut world, kill);
            world.den.copied_to(elsewhere.path()).unwrap()
        };
        // The agent goes on without knowing of the copy, and everything arrives.
        world.agent = Some(world.den.agent(&[]).unwrap());
        world.centres[0].behave(Manner::Takes);
        for _ in 0..5 {
            world.send(100);
        }
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
        end(&mut world, kill);
        // It is given the older directory. More is taken there than the centre has of any block before
        // the two meet again.
        world.den.restore(&older).unwrap();
        world.centres[0].behave(Manner::Gone);
        world.agent = Some(world.den.agent(&[]).unwrap());
        for _ in 0..10 {
            world.send(100);
        }
        world.centres[0].behave(Manner::Takes);
        world.send(100);
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
    }
}

#[test]
fn two_agents_on_copies_of_one_directory_deliver_what_each_takes_and_what_both_have_once() {
    for kill in [false, true] {
        let mut world = with_a_backlog();
        let elsewhere = Place::temporary().unwrap();
        let twin_den: Den = world.den.copied_to(elsewhere.path()).unwrap();
        let mut twin = twin_den.agent(&[]).unwrap();
        for round in 0..6 {
            world.send(100);
            send(&mut world, &twin, 100);
            match round {
                1 => world.centres[0].behave(Manner::Takes),
                2 => {
                    end(&mut world, kill);
                    world.agent = Some(world.den.agent(&[]).unwrap());
                }
                3 => world.centres[0].behave(Manner::Gone),
                4 => {
                    if kill {
                        drop(twin)
                    } else {
                        twin.stop().unwrap()
                    }
                    twin = twin_den.agent(&[]).unwrap();
                }
                5 => world.centres[0].behave(Manner::Takes),
                _ => {}
            }
        }
        world.assert_delivered();
        world.den.wait_until(<[String]>::is_empty);
        twin_den.wait_until(<[String]>::is_empty);
        world.assert_delivered();
    }
}
