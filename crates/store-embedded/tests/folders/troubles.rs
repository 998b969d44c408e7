//! Disks that refuse.

use std::sync::Arc;
use std::time::Duration;

use handoff_exchange::{Ask, Phase, Seq, Status, Step};
use handoff_log::disk::{Call, Calls, Crash, Disk, Faulty, Memory};
use handoff_store_embedded::Called;
use handoff_store_embedded::folders::Report;
use handoff_types::{Sequence, Span};

use crate::locked::Locked;
use crate::world::{DAY, Direct, World, message};

fn locked() -> (Locked, World) {
    let disk = Locked::new(Arc::new(Memory::new()));
    let world = World::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
    (disk, world)
}

fn stuck(world: &World) -> Vec<u64> {
    let number = |report: &Report| match report {
        Report::Stuck { process, .. } => Some(*process),
        _ => None,
    };
    world.reports.iter().filter_map(number).collect()
}

#[test]
fn a_process_whose_file_cannot_be_moved_fails_at_once_and_is_done_when_it_can() {
    let (disk, mut world) = locked();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Processed)], &[("r1", "a")]).unwrap();
    disk.lock("exchange/db/Log");
    world.step(process, Step::Commit).unwrap();
    world.work().unwrap();
    assert_eq!(stuck(&world), [process.number]);
    let phase = |world: &World| world.state().process_by_number(process.number).unwrap().phase;
    assert_eq!(phase(&world), Phase::Failed);
    // Its other files are where they belong, and nobody else is kept waiting.
    assert!(world.files().contains_key(&world.path(world.seq("r1"))));
    world.post("b", "m2").unwrap();
    world.work().unwrap();
    assert!(world.files().contains_key(&world.path(world.seq("m2"))));
    // Tried again after one second, two, four, told only once.
    for pause in [1, 2, 4] {
        world.pass(Span::from_secs(pause));
        let due = world.folders.next_due().unwrap();
        assert!(due <= world.now.steady, "{due:?}");
        world.work().unwrap();
        let due = world.folders.next_due().unwrap();
        assert_eq!(due, world.now.steady + Span::from_secs(2 * pause));
    }
    assert_eq!(stuck(&world), [process.number]);
    world.check_bodies("while the folder is locked");
    disk.unlock();
    world.work().unwrap();
    assert_eq!(phase(&world), Phase::Failed, "not before its time");
    world.pass(Span::from_secs(8));
    world.work().unwrap();
    assert_eq!(phase(&world), Phase::Done);
    world.check_folders("after it was unlocked");
    assert_eq!(world.folders.next_due(), None);
}

#[test]
fn pauses_grow_to_five_minutes_and_no_further() {
    let (disk, mut world) = locked();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    disk.lock("exchange/db");
    world.ask(Ask::Damaged { seq: Seq(1), words: "for a test".into() }).unwrap();
    for _ in 0..20 {
        world.work().unwrap();
        let due = world.folders.next_due().unwrap();
        assert!(due.since(world.now.steady) <= Span::from_secs(300));
        world.now.steady = due;
    }
    assert!(matches!(world.reports[..], [Report::Late { .. }]), "{:?}", world.reports);
    disk.unlock();
    world.work().unwrap();
    world.check_folders("after it was unlocked");
}

/// A body that cannot be filed keeps the journal, not the files of others.
#[test]
fn a_folder_that_cannot_be_written_to_hides_no_other_and_loses_nothing() {
    let (disk, mut world) = locked();
    disk.lock("exchange/db/Messages");
    world.post("a", "m1").unwrap();
    world.post("b", "m2").unwrap();
    world.work().unwrap();
    assert!(matches!(world.reports[..], [Report::Behind { .. }]), "{:?}", world.reports);
    assert_eq!(world.orders.behind().bodies, 2);
    world.check_bodies("from the journal");
    // A checkpoint that wants them does not turn the folders in circles.
    assert!(!world.host.bulk().want(Sequence(1 << 40)).unwrap());
    assert_eq!(world.folders.wait(Duration::ZERO), Called::Tick);
    // The second is set aside, into a folder that can be written to.
    let seq = world.seq("m2");
    world.ask(Ask::Damaged { seq, words: "for a test".into() }).unwrap();
    world.pass(Span::from_secs(1));
    world.work().unwrap();
    assert!(world.files().contains_key(&world.path(seq)), "{:?}", world.files().keys());
    assert_eq!(world.orders.behind().bodies, 2, "they leave the journal in order");
    disk.unlock();
    world.pass(Span::from_secs(2));
    world.work().unwrap();
    assert_eq!(world.orders.behind().bodies, 0);
    assert_eq!(world.reports.last(), Some(&Report::Recovered));
    world.check_folders("after it was unlocked");
}

#[test]
fn a_full_disk_leaves_bodies_in_the_journal_until_there_is_room() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut world = World::new(&(Arc::new(disk) as Arc<dyn Disk>));
    world.post("a", "m0").unwrap();
    world.work().unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m0", Status::Processed)], &[("r1", "a")]).unwrap();
    faults.fill(0);
    world.step(process, Step::Commit).unwrap();
    world.post("a", "m1").unwrap();
    world.work().unwrap();
    assert_eq!(stuck(&world), [process.number]);
    assert!(world.reports.iter().any(|report| matches!(report, Report::Behind { .. })));
    world.check_bodies("on a full disk");
    for _ in 0..8 {
        world.pass(Span::from_secs(10));
        world.work().unwrap();
        assert!(world.folders.next_due().unwrap().since(world.now.steady) <= Span::from_secs(10));
    }
    let left = |world: &World| world.files().keys().any(|path| path.contains("/."));
    assert!(!left(&world), "what could not be written is not left: {:?}", world.files());
    faults.clear();
    world.pass(Span::from_secs(10));
    world.work().unwrap();
    assert_eq!(world.orders.behind().bodies, 0, "the journal is not needed any more");
    world.pass(Span::from_secs(300));
    world.work().unwrap();
    world.check_folders("when there is room");
    let process = world.state().process_by_number(process.number).unwrap();
    assert_eq!(process.phase, Phase::Done);
}

/// After a failed sync the system may say that all is well though it dropped the pages: only what is
/// written again counts.
#[test]
fn whoever_is_helped_leaves_the_same_behind_whatever_fails() {
    let only = |call, nth| Some((Calls::Only(call), nth));
    for fault in [
        None,
        only(Call::Write, 1),
        only(Call::Write, 40),
        only(Call::Write, 100),
        only(Call::Open, 1),
        only(Call::Open, 70),
    ] {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let mut world = World::new(&(Arc::new(disk) as Arc<dyn Disk>));
        world.folders.get_help().unwrap();
        for number in 0..100 {
            world.post("a", &format!("m{number}")).unwrap();
        }
        if let Some((calls, nth)) = fault {
            faults.fail_nth(calls, nth);
        }
        world.work().unwrap();
        let when = format!("{fault:?}");
        assert_eq!(world.orders.behind().bodies > 0, fault.is_some(), "{when}");
        world.check_bodies(&when);
        world.pass(Span::from_secs(1));
        world.work().unwrap();
        assert_eq!(world.orders.behind().bodies, 0, "{when}");
        world.check_folders(&when);
        world.check_bodies(&when);
    }
}

/// More files than are handed over at once, in one batch.
#[test]
fn a_request_of_a_thousand_messages_is_written_by_both_hands() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut world = World::new(&(Arc::new(disk) as Arc<dyn Disk>));
    world.folders.get_help().unwrap();
    let device = world.no("a");
    for piece in 0..20 {
        let messages = (0..50).map(|at| message(&format!("m{piece}-{at}"))).collect();
        world.ask(Ask::Post { device, messages }).unwrap();
    }
    faults.fail_nth(Calls::Only(Call::Write), 700);
    world.work().unwrap();
    let behind = world.orders.behind();
    assert!(behind.unwritten > 0 && behind.written > 600, "{behind:?}");
    world.pass(Span::from_secs(1));
    world.work().unwrap();
    assert_eq!(world.orders.behind().bodies, 0);
    world.check_folders("a thousand");
}

#[test]
fn a_disk_that_is_full_for_both_hands_loses_nothing() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut world = World::new(&(Arc::new(disk) as Arc<dyn Disk>));
    world.folders.get_help().unwrap();
    for number in 0..100 {
        world.post("a", &format!("m{number}")).unwrap();
    }
    faults.fill(20_000);
    world.work().unwrap();
    assert!(
        matches!(world.reports[..], [Report::Behind { full: true, .. }]),
        "{:?}",
        world.reports
    );
    world.check_bodies("while there is no room");
    faults.clear();
    world.pass(Span::from_secs(1));
    world.work().unwrap();
    assert_eq!(world.orders.behind().bodies, 0);
    world.check_folders("there is room again");
}

#[test]
fn what_a_failed_sync_was_to_cover_is_written_again() {
    let crash = Crash::new();
    let (disk, faults) = Faulty::new(Arc::new(crash.clone()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut world = World::new(&disk);
    let seq = world.post("a", "m1").unwrap();
    let path = world.path(seq);
    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
    let mut known = Direct(world.host.state());
    world.folders.work(&mut known, world.now.steady);
    world.folders.sync(world.now.steady);
    let behind = world.orders.behind();
    assert_eq!(
        (behind.bodies, behind.unwritten),
        (1, 1),
        "the journal keeps it, and it has no file"
    );
    let told = world.folders.take_reports();
    assert!(matches!(told[..], [Report::Behind { .. }]), "{told:?}");
    // What is there may be anything by now.
    faults.flip(&path, 8).unwrap();
    world.pass(Span::from_secs(1));
    world.work().unwrap();
    assert_eq!(world.orders.behind().bodies, 0);
    assert_eq!(world.reports.last(), Some(&Report::Recovered));
    world.check_folders("written again");
    assert!(crash.durable().contents(&path).is_some());
}

#[test]
fn every_call_may_fail_once_and_the_folders_agree_in_the_end() {
    for call in [
        Call::Open,
        Call::List,
        Call::CreateDir,
        Call::Rename,
        Call::Remove,
        Call::Len,
        Call::Read,
        Call::Write,
        Call::SyncAll,
    ] {
        for nth in 1..8 {
            let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
            let mut world = World::new(&(Arc::new(disk) as Arc<dyn Disk>));
            world.post("a", "m1").unwrap();
            world.post("a", "m2").unwrap();
            world.work().unwrap();
            let process = world.begin().unwrap();
            let verdicts = [("m1", Status::Processed), ("m2", Status::Incorrect)];
            world.prepare(process, &verdicts, &[("r1", "a"), ("r2", "b")]).unwrap();
            world.step(process, Step::Commit).unwrap();
            world.post("b", "m3").unwrap();
            world.orders.compare();
            faults.fail_nth(Calls::Only(call), nth);
            world.work().unwrap();
            faults.clear();
            for _ in 0..3 {
                world.pass(Span::from_secs(300));
                world.work().unwrap();
            }
            let when = format!("{call:?} {nth}");
            world.check_folders(&when);
            world.check_bodies(&when);
            let process = world.state().process_by_number(process.number).unwrap();
            assert_eq!((process.phase, process.settled), (Phase::Done, true), "{when}");
            let lost = |report: &&Report| matches!(report, Report::Damaged { .. });
            assert_eq!(world.reports.iter().find(lost), None, "{when}");
        }
    }
}

#[test]
fn a_room_that_is_closed_is_asked_again() {
    struct Closed;
    impl handoff_store_embedded::folders::Known for Closed {
        fn ask(
            &mut self,
            _: &handoff_store_embedded::folders::Question,
        ) -> Option<handoff_store_embedded::folders::Answer> {
            None
        }
    }
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let mut world = World::new(&disk);
    let seq = world.post("a", "m1").unwrap();
    world.ask(Ask::Damaged { seq, words: "for a test".into() }).unwrap();
    world.orders.compare();
    world.folders.work(&mut Closed, world.now.steady);
    world.folders.sync(world.now.steady);
    assert!(world.folders.take_reports().is_empty());
    assert_eq!(world.orders.behind().orders, 1);
    world.work().unwrap();
    assert_eq!(world.orders.behind().orders, 0);
    assert!(world.path(seq).starts_with(&format!("exchange/db/Error/{DAY}/")));
    world.check_folders("asked again");
}
