//! Crash anywhere, keep anything: the journal gives back exactly a prefix that holds everything
//! acknowledged, and nothing it served was ever not durable.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking and reports what it covered"
)]

mod journal_model;

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_log::disk::{Coverage, Crash, When};
use handoff_log::journal::Tail;
use journal_model::{Dice, Model, Run};

const STEPS: usize = 120;

/// Runs the workload of a seed until it ends or the disk stops it.
fn live(disk: &Crash, model: &Model, seed: u64, steps: usize) -> Result<Model, String> {
    let (mut run, _) = match Run::open(Arc::new(disk.clone()), model, seed) {
        Ok(opened) => opened,
        Err(_) if disk.is_halted() => return Ok(model.clone()),
        Err(error) => return Err(error),
    };
    for _ in 0..steps {
        run.step();
        if disk.is_halted() {
            break;
        }
    }
    run.collect();
    Ok(run.model)
}

/// Opens what a crash left, then crashes again keeping only what is durable: all that the first
/// open served must still be there.
fn look_twice(disk: &Crash, model: &Model, seed: u64) -> Result<(Model, Tail), String> {
    let (mut run, report) = Run::open(Arc::new(disk.clone()), model, seed)?;
    run.collect();
    let served = run.model.clone();
    drop(run);
    let (disk, _) = disk.crash_keeping_nothing();
    let (again, _) = Run::open(Arc::new(disk), &served, seed ^ 1)
        .map_err(|error| format!("served and then gone: {error}"))?;
    Ok((again.model, report.tail))
}

#[test]
fn a_crash_at_every_sync_point_keeps_everything_acknowledged() {
    const SEED: u64 = 11;
    let disk = Crash::new();
    live(&disk, &Model::default(), SEED, STEPS).unwrap();
    let syncs = disk.syncs();
    assert!(syncs > 60, "only {syncs} sync points");
    let mut states = 0;
    for n in 1..=syncs {
        for when in [When::Before, When::After] {
            let disk = Crash::new();
            disk.halt_at_sync(n, when);
            let model = live(&disk, &Model::default(), SEED, STEPS).unwrap();
            let mut ends: Vec<Crash> = (0..3).map(|end| disk.crash(n * 7 + end).0).collect();
            ends.push(disk.crash_keeping_nothing().0);
            ends.push(disk.crash_keeping_everything().0);
            for (end, disk) in ends.iter().enumerate() {
                states += 1;
                if let Err(error) = look_twice(disk, &model, n) {
                    panic!("seed {SEED}, sync {n} {when:?}, end {end}: {error}");
                }
            }
        }
    }
    println!("{syncs} sync points, {states} crash states");
}

/// A restart is a workload too, and writes the last round again: it is crashed at each of its own
/// syncs, after a crash at each sync of the workload.
#[test]
fn a_crash_at_every_sync_point_of_a_restart_keeps_everything_acknowledged() {
    const SEED: u64 = 21;
    let disk = Crash::new();
    live(&disk, &Model::default(), SEED, STEPS / 2).unwrap();
    let mut states = 0;
    for n in 1..=disk.syncs() {
        let disk = Crash::new();
        disk.halt_at_sync(n, When::After);
        let model = live(&disk, &Model::default(), SEED, STEPS / 2).unwrap();
        for again in 1..=9 {
            for end in 0..6 {
                let (disk, _) = disk.crash(n * 31 + end);
                disk.halt_at_sync(again, When::Before);
                // Most of these opens are stopped; what was acknowledged before them counts.
                live(&disk, &model, n, 0).unwrap();
                let (disk, _) = disk.crash(n * 17 + end * 3 + again);
                states += 1;
                if let Err(error) = look_twice(&disk, &model, n) {
                    panic!("seed {SEED}, sync {n}, restart {again}, end {end}: {error}");
                }
            }
        }
    }
    println!("{states} crash states");
}

#[test]
fn what_a_killed_process_left_in_the_page_cache_is_made_durable_before_it_is_served() {
    let mut kept = 0;
    for n in 1..60 {
        let disk = Crash::new();
        disk.halt_at_sync(n, When::Before);
        let model = live(&disk, &Model::default(), n, STEPS).unwrap();
        let found = look_twice(&disk.kill(), &model, n);
        let (seen, _) = found.unwrap_or_else(|error| panic!("seed and sync {n}: {error}"));
        kept += usize::from(seen.found() > model.acknowledged());
    }
    assert!(kept > 10, "only {kept} kills left a round that was written and not synced");
}

#[test]
fn ten_thousand_random_crash_states_keep_everything_acknowledged() {
    const STATES: u64 = 10_000;
    const LIVES: u64 = 50;
    let mut coverage = Coverage::default();
    let mut tails: BTreeMap<Tail, u64> = BTreeMap::new();
    let (mut states, mut seed) = (0, 0);
    while states < STATES {
        seed += 1;
        let (mut disk, mut model) = (Crash::new(), Model::default());
        for life in 0..LIVES {
            let seed = seed * 1_000_003 + life;
            let mut dice = Dice(seed);
            let steps = 3 + dice.size(23);
            // Most lives end in the middle of a sync, some between two steps.
            if dice.roll(4) > 0 {
                let when = if dice.roll(4) > 0 { When::Before } else { When::After };
                // The first few syncs are those of the start itself.
                let among = if dice.roll(2) > 0 { 6 } else { 14 };
                disk.halt_at_sync(1 + dice.roll(among), when);
            }
            model = live(&disk, &model, seed, steps)
                .unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
            // Several ends of one life; the last one is lived on.
            for end in 0..4 {
                let (crashed, report) = disk.crash(seed ^ (end << 40));
                coverage += report;
                states += 1;
                let (seen, tail) = look_twice(&crashed, &model, seed)
                    .unwrap_or_else(|error| panic!("seed {seed}, life {life}, end {end}: {error}"));
                *tails.entry(tail).or_insert(0) += 1;
                if end == 3 {
                    let (after, report) = crashed.crash(seed);
                    coverage += report;
                    (disk, model) = (after, seen);
                    break;
                }
            }
        }
    }
    let least = coverage.writes_torn.min(coverage.writes_lost).min(coverage.writes_kept);
    assert!(least > 100, "the crashes were too kind: {coverage:?}");
    assert_eq!(
        tails.keys().copied().collect::<Vec<_>>(),
        [Tail::Clean, Tail::Marked, Tail::Torn, Tail::Zeroed, Tail::Unordered],
        "not every kind of tail occurred: {tails:?}"
    );
    println!("{states} crash states: {coverage:?}, {tails:?}");
}
