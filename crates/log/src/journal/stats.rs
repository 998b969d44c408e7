//! What a journal counts of its own work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::round::Round;

/// Upper bounds, in microseconds, of all but the last of [`Stats::sync_times`].
pub const SYNC_BOUNDS_MICROS: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// What the journal has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rounds made durable; each cost one sync.
    pub rounds: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of rounds written, padding included.
    pub bytes: u64,
    /// Time spent in write and sync.
    pub sync_micros: u64,
    /// Rounds by the time their write and sync took: each counts those above the bound before its
    /// own in [`SYNC_BOUNDS_MICROS`] and not above its own, the last those above all of them.
    pub sync_times: [u64; SYNC_BOUNDS_MICROS.len() + 1],
    /// Times the journal moved to a fresh file because the disk failed it.
    pub continuations: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    rounds: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    sync_micros: AtomicU64,
    sync_times: [AtomicU64; SYNC_BOUNDS_MICROS.len() + 1],
    continuations: AtomicU64,
}

impl Counters {
    /// A round became durable.
    pub(crate) fn count(&self, round: &Round, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(round.records.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(round.extent(), Ordering::Relaxed);
        self.sync_micros.fetch_add(micros, Ordering::Relaxed);
        let class = SYNC_BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        if let Some(times) = self.sync_times.get(class) {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The disk failed the journal, which goes on in a fresh file.
    pub(crate) fn count_continuation(&self) {
        self.continuations.fetch_add(1, Ordering::Relaxed);
    }

    /// Each figure as it stands; a round that becomes durable meanwhile may be in some of them.
    pub(crate) fn read(&self) -> Stats {
        Stats {
            rounds: self.rounds.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            sync_micros: self.sync_micros.load(Ordering::Relaxed),
            sync_times: self.sync_times.each_ref().map(|times| times.load(Ordering::Relaxed)),
            continuations: self.continuations.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_types::{Now, Room};

    #[test]
    fn every_round_is_in_one_class_of_sync_times_and_a_bound_belongs_to_its_own() {
        let counters = Counters::default();
        let counts = [0; Room::MAX];
        let round = Round { position: 0, counts, now: Now::default(), records: vec![] };
        for micros in [0, 50, 51, 5_000_000, 5_000_001, u64::MAX] {
            counters.count(&round, Duration::from_micros(micros));
        }
        let stats = counters.read();
        let mut expected = [0; SYNC_BOUNDS_MICROS.len() + 1];
        (expected[0], expected[1], expected[13], expected[14]) = (2, 1, 1, 2);
        assert_eq!((stats.rounds, stats.sync_times), (6, expected));
    }
}
