//! The agent dies at any sync, the disk loses what it may: what was promised arrives.

use std::sync::Arc;

use handoff_log::disk::{Crash, Disk, When};
use handoff_relay::{DeliveryRules, Mode, Outcome};
use handoff_types::Span;

use crate::destination::Destination;
use crate::world::{World, rules};

fn small() -> DeliveryRules {
    DeliveryRules { segment_samples: 8, ..rules(2) }
}

/// Lives until the disk stops. One destination is up, the other comes and goes.
fn live(disk: &Crash) -> World {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut world = World::new(small(), disk);
    for round in 0..4 {
        world.destinations[1].up = false;
        if !world.dead {
            world.send(10, Mode::Durable).unwrap();
        }
        world.run(Span::from_secs(11));
        if round == 2 {
            world.destinations[1].up = true;
            world.run(Span::from_secs(1));
        }
    }
    world
}

#[test]
fn an_agent_killed_at_any_sync_delivers_what_it_promised_and_doubles_nothing() {
    let whole = Crash::new();
    assert!(!live(&whole).dead);
    let syncs = whole.syncs();
    assert!(syncs > 10, "{syncs} syncs");
    let mut promised = 0;
    // The first two make the directories.
    for n in 3..=syncs {
        for (seed, when) in [(1, When::Before), (2, When::Before), (3, When::After)] {
            let disk = Crash::new();
            disk.halt_at_sync(n, when);
            let mut world = live(&disk);
            assert!(world.dead, "sync {n}");
            let context = format!("sync {n} {when:?} seed {seed}");
            let (after, _) = disk.crash(seed);
            let kept: Vec<_> = world
                .pledged
                .iter()
                .filter(|(pledge, _)| world.ended.get(pledge) == Some(&Outcome::Kept))
                .flat_map(|(_, samples)| samples.clone())
                .collect();
            let mut destinations: Vec<Destination> = std::mem::take(&mut world.destinations);
            destinations.iter_mut().for_each(|one| one.up = true);
            let mut next = World::over(small(), Arc::new(after), destinations);
            next.run(Span::from_secs(3));
            for (to, destination) in next.destinations.iter().enumerate() {
                let mut taken = destination.taken.clone();
                taken.sort();
                let doubled = taken.windows(2).find(|pair| pair[0] == pair[1]);
                assert_eq!(doubled, None, "{context}: destination {to}");
                for sample in &kept {
                    assert!(
                        taken.binary_search(sample).is_ok(),
                        "{context}: {to} lacks {sample:?}, which was promised"
                    );
                }
            }
            promised += kept.len();
        }
    }
    assert!(promised > 100, "{promised} samples were promised");
}
