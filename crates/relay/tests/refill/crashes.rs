//! A crash at every sync, with every kind of loss the fault model allows: what was durable is there.

use std::sync::Arc;

use handoff_log::disk::{Coverage, Crash, Disk, When};
use handoff_relay::refill::{Frame, Opened, Refill, RefillLimits, Spool, SpoolLimits};
use handoff_relay::{AckStatus, SegmentKey};

use crate::world::{BEGUN, BLOCK, key, names, payload, shards, snapshot};

/// Segments of more than a sector, so that parts of one may be lost.
fn large(shard: u16, segment: u32) -> Frame {
    let key = key(shard, segment);
    Frame::Segment { key, bytes: payload(key, 1_500) }
}

/// Writes until the disk stops; says which segments were durable, and which were tried. Once the
/// file is to be removed, nothing of it is promised.
fn live(disk: &Crash) -> (Vec<SegmentKey>, Vec<SegmentKey>) {
    let (mut durable, mut tried) = (Vec::new(), Vec::new());
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok(spool) = Spool::open(disk, "spool", "quarantine", SpoolLimits::default()) else {
        return (durable, tried);
    };
    let acks = AckStatus::new(names(), shards());
    let mut refill = Refill::new(spool, RefillLimits::default(), BEGUN, BLOCK, acks);
    for round in 0..4 {
        let mut frames = vec![large(0, round), large(1, round)];
        if round == 2 {
            frames.insert(0, snapshot(0, 2));
        }
        let keys = [key(0, round), key(1, round)];
        tried.extend(keys);
        if refill.append(&frames).is_err() {
            return (durable, tried);
        }
        durable.extend(keys);
    }
    if refill.seal().is_ok() {
        durable.clear();
        // Whether that succeeds is for the disk to say.
        refill.finish().ok();
    }
    (durable, tried)
}

#[test]
fn a_crash_at_any_sync_keeps_what_was_durable_and_needs_nobody() {
    let whole = Crash::new();
    live(&whole);
    let syncs = whole.syncs();
    assert!(syncs > 6);
    let mut coverage = Coverage::default();
    for n in 1..=syncs {
        for when in [When::Before, When::After] {
            for seed in 0..24 {
                let disk = Crash::new();
                disk.halt_at_sync(n, when);
                let (durable, tried) = live(&disk);
                let (after, covered) = disk.crash(seed);
                coverage += covered;
                let context = format!("sync {n} {when:?} seed {seed}");
                let disk: Arc<dyn Disk> = Arc::new(after);
                let spool =
                    Spool::open(disk, "spool", "quarantine", SpoolLimits::default()).unwrap();
                let files = spool.files().unwrap();
                assert!(files.len() <= 1, "{context}: {files:?}");
                let mut found = Vec::new();
                if let Some(file) = files.first() {
                    let limits = RefillLimits::default();
                    match Refill::open(spool.clone(), limits, &file.name).unwrap() {
                        Opened::Nothing(_) => {}
                        Opened::Refill(mut refill, troubles) => {
                            assert!(troubles.damage.is_empty(), "{context}: {troubles:?}");
                            for key in &tried {
                                if let Some(bytes) = refill.get(*key).unwrap() {
                                    assert_eq!(bytes, payload(*key, 1_500), "{context}: {key}");
                                    found.push(*key);
                                }
                            }
                            // It goes on.
                            let next = refill.ledger().last_segment(0).map_or(0, |last| last + 1);
                            refill.append(&[large(0, next)]).unwrap();
                            assert!(refill.get(key(0, next)).unwrap().is_some(), "{context}");
                        }
                    }
                }
                for key in durable {
                    assert!(found.contains(&key), "{context}: {key} was durable");
                }
            }
        }
    }
    // A file is written once a sync: there is nothing to reorder.
    assert_eq!(coverage.missing(), ["writes_reordered"]);
}
