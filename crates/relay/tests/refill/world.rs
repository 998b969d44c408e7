//! A spool on some disk, and frames to put into it.

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::Disk;
use handoff_relay::refill::{Frame, Opened, Refill, RefillLimits, Spool, SpoolLimits, Troubles};
use handoff_relay::{AckStatus, BlockId, Name, SegmentKey, Shards};
use handoff_types::Wall;

pub const BLOCK: BlockId = BlockId([5; 16]);
pub const BEGUN: Wall = Wall(1_700_000_000_000_000);

pub fn shards() -> Shards {
    Shards::from_power(1).unwrap()
}

pub fn names() -> Vec<Name> {
    ["a", "b"].iter().map(|name| Name::try_from(*name).unwrap()).collect()
}

pub fn spool(disk: impl Disk + 'static) -> Spool {
    Spool::open(Arc::new(disk), "spool", "quarantine", SpoolLimits::default()).unwrap()
}

pub fn refill(spool: &Spool) -> Refill {
    let acks = AckStatus::new(names(), shards());
    Refill::new(spool.clone(), RefillLimits::default(), BEGUN, BLOCK, acks)
}

pub fn open(spool: &Spool, name: &str) -> (Option<Refill>, Troubles) {
    match Refill::open(spool.clone(), RefillLimits::default(), name).unwrap() {
        Opened::Refill(refill, troubles) => (Some(*refill), troubles),
        Opened::Nothing(troubles) => (None, troubles),
    }
}

pub fn key(shard: u16, segment: u32) -> SegmentKey {
    SegmentKey { shard, segment }
}

/// Bytes that are different for every segment.
pub fn payload(key: SegmentKey, len: usize) -> Bytes {
    let word = u64::from(key.segment) << 16 | u64::from(key.shard);
    let words = (0..).flat_map(|n| handoff_types::entropy::mix(word + (n << 40)).to_le_bytes());
    words.take(len).collect()
}

pub fn segment(shard: u16, segment: u32) -> Frame {
    let key = key(shard, segment);
    Frame::Segment { key, bytes: payload(key, 40) }
}

pub fn snapshot(shard: u16, segment: u32) -> Frame {
    let key = key(shard, segment);
    Frame::Snapshot { key, bytes: payload(key, 24) }
}

/// The file of three segments and a snapshot that is damaged in every way.
pub fn three_segments(spool: &Spool) -> (String, Vec<Frame>) {
    let frames = vec![
        segment(0, 0),
        segment(1, 0),
        segment(0, 1),
        Frame::Statuses(vec![0, u32::MAX, u32::MAX, u32::MAX]),
        snapshot(0, 2),
        segment(0, 2),
    ];
    let mut refill = refill(spool);
    for frame in &frames {
        refill.append(std::slice::from_ref(frame)).unwrap();
    }
    (refill.name().to_owned(), frames)
}

/// The segments that can be read, with their bytes checked.
pub fn readable(refill: &Refill) -> Vec<SegmentKey> {
    let mut found = Vec::new();
    for shard in shards().ids() {
        for number in 0..10 {
            let key = key(shard, number);
            if let Some(bytes) = refill.get(key).unwrap() {
                assert_eq!(bytes, payload(key, bytes.len()), "{key}");
                found.push(key);
            }
        }
    }
    found
}
