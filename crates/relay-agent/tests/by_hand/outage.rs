//! One destination of two is gone for hours.

use std::sync::Arc;

use handoff_log::disk::{Counting, Memory};
use handoff_relay::Outcome;
use handoff_types::Span;

use crate::world::{World, settings};

#[test]
fn two_hours_without_one_of_two_cost_the_other_nothing_and_the_disk_little_more_than_the_segments()
{
    let counting = Counting::new(Arc::new(Memory::new()));
    let mut world = World::new(settings(2), Arc::new(counting.clone()));
    world.centres[1].up = false;
    let mut most = 0;
    for _ in 0..240 {
        // The other one has them within the second.
        assert_eq!(world.ask(500), Ok(Outcome::Kept));
        world.run(Span::from_millis(500));
        world.assert_has_all(0);
        most = most.max(world.agent().memory_bytes());
        world.leap(Span::from_secs(29));
    }
    assert!(most < 1 << 20, "{most} bytes in memory");
    assert!(world.centres[1].taken.is_empty());
    // Snapshots, heads, statuses and all, beside the segments as the other one got them.
    let (written, encoded) = (counting.counts().bytes_written, world.centres[0].segment_bytes);
    assert!(encoded > 500_000, "{encoded}");
    assert!(written * 10 <= encoded * 11, "{written} bytes written for {encoded}");
    world.centres[1].up = true;
    world.run(Span::from_secs(20));
    world.assert_has_all(1);
    assert_eq!(world.files(), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_read_for_a_while_arrives_and_keeps_no_other_back() {
    use handoff_log::disk::{Call, Calls};

    let mut world = World::new(settings(1), Arc::new(Memory::new()));
    world.centres[0].up = false;
    world.ask(50).unwrap();
    world.run(Span::from_secs(3));
    world.ask(50).unwrap();
    world.run(Span::from_secs(3));
    world.faults.fail_all(Calls::Only(Call::Read));
    world.centres[0].up = true;
    world.run(Span::from_secs(5));
    assert_eq!(world.ask(50), Ok(Outcome::Kept), "what is new needs no file");
    assert!(world.centres[0].taken.contains_key(&world.last()));
    assert!(!world.files().is_empty());
    world.faults.clear();
    world.run(Span::from_secs(20));
    world.assert_has_all(0);
    assert_eq!(world.files(), [""; 0]);
}
