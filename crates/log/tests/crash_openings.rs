//! A machine that dies while it opens its journal, more than once: what was acknowledged before
//! is still there.
//!
//! Found by the simulator. An opening finds files that the process before named and did not live
//! to sync, and copies of the last round that only the page cache has. Whatever it recycles
//! before it has made both durable may be all that a power cut leaves.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod journal_model;

use std::sync::Arc;

use handoff_log::disk::{Calls, Crash, Faulty, When};
use journal_model::{Model, Run};

/// Lives through some steps, the last of them acknowledged, and gives what must come back.
fn live(disk: &Crash, model: &Model, seed: u64, steps: usize) -> Model {
    let (mut run, _) = Run::open(Arc::new(disk.clone()), model, seed).unwrap();
    for _ in 0..steps {
        run.step();
    }
    run.commit();
    run.model
}

/// Opens a journal on a machine that stops at a sync, if it gets that far.
fn open_halted(disk: &Crash, model: &Model, seed: u64, n: u64) {
    disk.halt_at_sync(n, When::Before);
    drop(Run::open(Arc::new(disk.clone()), model, seed));
}

/// As long as the ring grows, every file that is made syncs the names of those before it. So it
/// is the last one that a process may leave without a name that stays.
#[test]
fn a_file_that_was_named_and_not_synced_does_not_take_rounds_with_it() {
    let fill = |run: &mut Run, disk: &Crash| {
        for _ in 0..250 {
            run.append();
            run.commit();
            if disk.is_halted() {
                break;
            }
        }
    };
    for n in 1.. {
        let disk = Crash::new();
        disk.halt_at_sync(n, When::Before);
        let Ok((mut run, _)) = Run::open(Arc::new(disk.clone()), &Model::default(), 1) else {
            continue;
        };
        fill(&mut run, &disk);
        if !disk.is_halted() {
            return;
        }
        let disk = disk.kill();
        let (mut run, _) = Run::open(Arc::new(disk.clone()), &run.model, n).unwrap();
        run.checkpoint();
        fill(&mut run, &disk);
        let (left, _) = disk.crash_keeping_nothing();
        Run::open(Arc::new(left), &run.model, n)
            .map(drop)
            .unwrap_or_else(|error| panic!("sync {n}: {error}"));
    }
}

#[test]
fn two_openings_cut_short_leave_the_last_round_wherever_it_stood() {
    for seed in 0..60 {
        for (first, second) in (1..8).flat_map(|first| (1..8).map(move |second| (first, second))) {
            let disk = Crash::new();
            let steps = usize::try_from(10 + seed).unwrap();
            let model = live(&disk, &Model::default(), seed, steps);
            let (disk, _) = disk.crash_keeping_nothing();
            open_halted(&disk, &model, seed + 1, first);
            let disk = disk.kill();
            open_halted(&disk, &model, seed + 2, second);
            let (left, _) = disk.crash_keeping_nothing();
            Run::open(Arc::new(left), &model, seed).map(drop).unwrap_or_else(|error| {
                panic!("seed {seed}, openings cut at syncs {first} and {second}: {error}")
            });
        }
    }
}

/// A round that was never synced stood in a file that got a fresh header, and that was never
/// synced either. An opening saw the fresh header and no round. The power failed, the old header
/// came back, and with it the round that everybody had been told did not happen.
#[test]
fn a_round_that_an_opening_did_not_see_does_not_come_back() {
    for (commits, end) in (1..8).flat_map(|commits| (0..60).map(move |end| (commits, end))) {
        let disk = Crash::new();
        let model = live(&disk, &Model::default(), 5, 400);
        let disk = disk.kill();
        let (faulty, faults) = Faulty::new(Arc::new(disk.clone()));
        let (mut run, _) = Run::open(Arc::new(faulty), &model, 6).unwrap();
        faults.fail_all(Calls::Syncs);
        run.append();
        for _ in 0..commits {
            run.commit();
        }
        let disk = disk.kill();
        let (run, _) = Run::open(Arc::new(disk.clone()), &run.model, 7).unwrap();
        let (left, _) = disk.crash(end);
        Run::open(Arc::new(left), &run.model, 8)
            .map(drop)
            .unwrap_or_else(|error| panic!("{commits} commits, end {end}: {error}"));
    }
}
