//! How busy the machine was with something else, so that nobody reads figures of a busy machine as
//! those of a quiet one.

use std::fs;

/// Where `utime` stands in `/proc/self/stat` behind the name of the process; `stime` follows.
const TICKS_FIELD: usize = 11;
/// The fields of the first line of `/proc/stat` that are no work: idle and waiting for the disk.
const IDLE_FIELDS: [usize; 2] = [3, 4];
/// Time that guests had is counted in `user` and `nice` already.
const FIELDS: usize = 8;

/// Processor time since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    busy: u64,
    own: u64,
}

impl Ticks {
    /// What was used so far, if the system shows it.
    pub(crate) fn now() -> Option<Self> {
        let machine = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::read(&machine, &own)
    }

    /// The share of the processors, in percent, that others had since an earlier look.
    pub(crate) fn others_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        let busy = self.busy.saturating_sub(earlier.busy);
        let own = self.own.saturating_sub(earlier.own);
        100.0 * busy.saturating_sub(own) as f64 / all as f64
    }

    fn read(machine: &str, own: &str) -> Option<Self> {
        let fields = machine.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let (mut all, mut busy) = (0, 0);
        for (place, field) in fields.take(FIELDS).enumerate() {
            let ticks: u64 = field.parse().ok()?;
            all += ticks;
            busy += if IDLE_FIELDS.contains(&place) { 0 } else { ticks };
        }
        let (_, own) = own.rsplit_once(')')?;
        let own = own.split_ascii_whitespace().skip(TICKS_FIELD).take(2);
        let own = own.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
        Some(Self { all, busy, own })
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn what_others_used_is_what_was_busy_and_not_ours() {
        let own = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0";
        let before = Ticks::read("cpu  10 0 10 100 5 1 1 3 0 0\ncpu0 1\n", own).unwrap();
        assert_eq!(before, Ticks { all: 130, busy: 25, own: 42 });
        let after = Ticks { all: 330, busy: 125, own: 102 };
        assert!((after.others_since(before) - 20.0).abs() < 1e-9);
    }
}
