//! A crash at every sync of a life in which everything happens to files that can: they are written,
//! moved, moved back and removed, the journal forgets them, and processes end in every way.

use std::sync::Arc;

use handoff_exchange::{Ask, Phase, Seq, Status, Step};
use handoff_log::disk::{Coverage, Crash, Disk, When};
use handoff_types::Span;

use crate::world::{Alive, World};

/// What was acknowledged, as far as the life went.
#[derive(Debug, Default)]
struct Ledger {
    posted: Vec<&'static str>,
    /// Messages that may be forgotten.
    forgotten: bool,
}

fn life(disk: &Arc<dyn Disk>, ledger: &mut Ledger) -> Alive<()> {
    let mut world = World::open(disk)?;
    world.rules.retention = Span::from_secs(1000);
    world.populate_all()?;
    for (device, name) in [("a", "m1"), ("a", "m2"), ("b", "m3"), ("b", "m4")] {
        world.post(device, name)?;
        ledger.posted.push(name);
    }
    world.work()?;
    let process = world.begin()?;
    let verdicts = [
        ("m1", Status::Processed),
        ("m2", Status::Incorrect),
        ("m3", Status::Deadlock),
        ("m4", Status::Processed),
    ];
    world.prepare(process, &verdicts, &[("r1", "a"), ("r2", "b")])?;
    ledger.posted.extend(["r1", "r2"]);
    world.step(process, Step::Commit)?;
    world.work()?;
    let device = world.no("a");
    world.ask(Ask::Ack { device, ids: vec![crate::world::mid("r1")] })?;
    world.post("a", "m5")?;
    ledger.posted.push("m5");
    world.checkpoint()?;
    world.ask(Ask::Requeue { database: world.db(), messages: vec![world.seq("m2")] })?;
    world.work()?;
    // Rolled back: its replies are gone.
    let process = world.begin()?;
    let served = world.state().process_by_number(process.number).unwrap().to_erp.clone();
    let names: Vec<String> = served
        .iter()
        .map(|served| world.state().message(served.seq).unwrap().id.to_string())
        .collect();
    let verdicts: Vec<(&str, Status)> =
        names.iter().map(|name| (name.as_str(), Status::Processed)).collect();
    world.prepare(process, &verdicts, &[("r3", "a")])?;
    world.work()?;
    world.step(process, Step::Rollback("no".into()))?;
    world.work()?;
    world.checkpoint()?;
    // Nobody says what became of it; then somebody does.
    let process = world.begin()?;
    world.prepare(process, &verdicts, &[("r4", "b")])?;
    ledger.posted.push("r4");
    world.pass(Span::from_secs(700));
    world.ask(Ask::Tick)?;
    assert_eq!(world.state().process_by_number(process.number).unwrap().phase, Phase::Unknown);
    world.work()?;
    world.step(process, Step::Commit)?;
    world.post("b", "m6")?;
    ledger.posted.push("m6");
    world.work()?;
    ledger.forgotten = true;
    world.pass(Span::from_secs(400));
    world.ask(Ask::Retain { many: 3 })?;
    world.work()?;
    world.ask(Ask::Retain { many: 100 })?;
    world.checkpoint()?;
    world.work()?;
    world.check_folders("at the end of a life without a crash");
    Ok(())
}

/// What must hold whenever the room is opened.
fn check(disk: &Crash, ledger: &Ledger, when: &str) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut world = World::open(&disk).unwrap();
    if world.state().databases().next().is_none() {
        return;
    }
    if !ledger.forgotten {
        for name in &ledger.posted {
            assert!(world.found(name).is_some(), "{when}: {name} is lost");
        }
    }
    world.check_bodies(when);
    world.ask(Ask::Opened).unwrap();
    world.work().unwrap();
    world.check_bodies(when);
    world.compare().unwrap();
    world.check_folders(when);
    let unsettled: Vec<u64> = world.state().unsettled().map(|one| one.id.number).collect();
    assert_eq!(unsettled, [0; 0], "{when}");
    let files = world.files();
    // What a crash left of a file that was being written is replaced, not kept for people.
    assert!(!files.keys().any(|path| path.contains(".conflict-")), "{when}: {:?}", files.keys());
    // Once more is the same.
    world.ask(Ask::Opened).unwrap();
    world.compare().unwrap();
    assert_eq!(world.files(), files, "{when}");
    assert!(world.reports.iter().all(|report| !is_loss(report)), "{when}: {:?}", world.reports);
    // Without the journal as well.
    world.checkpoint().unwrap();
    let world = World::open(&disk).unwrap();
    assert_eq!(world.orders.behind().bodies, 0, "{when}");
    world.check_bodies(when);
    world.check_folders(when);
}

fn is_loss(report: &handoff_store_embedded::folders::Report) -> bool {
    use handoff_store_embedded::folders::Report;
    matches!(report, Report::Damaged { .. } | Report::Stuck { .. } | Report::Behind { .. })
}

#[test]
fn a_crash_at_any_sync_loses_no_body_and_the_folders_come_to_agree_with_the_room() {
    let disk = Crash::new();
    let whole: Arc<dyn Disk> = Arc::new(disk.clone());
    life(&whole, &mut Ledger::default()).unwrap();
    let syncs = disk.syncs();
    assert!(syncs > 40, "{syncs}");
    let mut coverage = Coverage::default();
    for at in 1..=syncs {
        for side in [When::Before, When::After] {
            let disk = Crash::new();
            disk.halt_at_sync(at, side);
            let mut ledger = Ledger::default();
            let dying: Arc<dyn Disk> = Arc::new(disk.clone());
            assert!(life(&dying, &mut ledger).is_err() || !disk.is_halted(), "sync {at}");
            for seed in 0..4 {
                let (left, took_place) = disk.crash(at * 31 + seed);
                coverage += took_place;
                check(&left, &ledger, &format!("sync {at} {side:?} seed {seed}"));
            }
            for (left, how) in [
                (disk.crash_keeping_nothing().0, "nothing"),
                (disk.crash_keeping_everything().0, "everything"),
            ] {
                check(&left, &ledger, &format!("sync {at} {side:?} keeping {how}"));
            }
        }
    }
    assert_eq!(coverage.missing(), [""; 0], "{coverage:?}");
}

/// The crash comes while what the first one left is put right.
#[test]
fn a_second_crash_while_the_first_is_mended_changes_nothing() {
    let count = Crash::new();
    life(&(Arc::new(count.clone()) as Arc<dyn Disk>), &mut Ledger::default()).unwrap();
    for at in (1..=count.syncs()).step_by(5) {
        let disk = Crash::new();
        disk.halt_at_sync(at, When::Before);
        let mut ledger = Ledger::default();
        drop(life(&(Arc::new(disk.clone()) as Arc<dyn Disk>), &mut ledger));
        let (left, _) = disk.crash(at);
        for again in 1..12 {
            let (left, _) = left.crash(again);
            left.halt_at_sync(again, When::Before);
            let second: Arc<dyn Disk> = Arc::new(left.clone());
            let mend = || -> Alive<()> {
                let mut world = World::open(&second)?;
                world.ask(Ask::Opened)?;
                world.compare()?;
                world.checkpoint()
            };
            drop(mend());
            let (left, _) = left.crash(again + 100);
            check(&left, &ledger, &format!("sync {at}, then {again}"));
        }
    }
}

#[test]
fn a_body_leaves_the_journal_only_when_its_file_is_synced() {
    let disk = Crash::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut world = World::new(&shared);
    let seq = world.post("a", "m1").unwrap();
    let path = world.path(seq);
    assert_eq!(world.orders.behind().bodies, 1);
    // The file is written, and not synced.
    let mut known = crate::world::Direct(world.host.state());
    world.folders.work(&mut known, world.now.steady);
    assert!(disk.seen().contents(&path).is_some());
    assert_eq!(disk.durable().contents(&path), None);
    assert_eq!(world.orders.behind().bodies, 1, "the journal still has it");
    world.folders.sync(world.now.steady);
    assert!(disk.durable().contents(&path).is_some());
    assert_eq!(world.orders.behind().bodies, 0);
    assert_eq!(world.filed(seq).name.seq, Seq(1));
    world.check_bodies("from the file");
}
