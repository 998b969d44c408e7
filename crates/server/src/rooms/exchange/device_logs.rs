//! What devices say of themselves: the last lines, for an administrator who looks into something.
//!
//! In memory only. No promise rests on it: what must arrive is a message, what the exchange did is in
//! its own log, which is durable. A device talks as much as it likes, and its talk is not to compete
//! with messages for the journal and the disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_exchange::DeviceNo;
use handoff_types::Wall;

/// The longest line, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 512;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When, by the device's clock.
    pub(crate) at: Wall,
    /// When it was heard.
    pub(crate) received: Wall,
    /// What.
    pub(crate) text: Box<str>,
}

/// Lines of devices.
#[derive(Debug, Default)]
pub(super) struct DeviceLogs(Mutex<BTreeMap<DeviceNo, VecDeque<Line>>>);

impl DeviceLogs {
    /// Keeps lines, and of each device the last ones. Those of a device that says something when as
    /// many are kept as may be take the place of those that were silent longest.
    pub(super) fn keep(&self, device: DeviceNo, lines: Vec<Line>, lines_max: usize, max: usize) {
        if lines_max == 0 || max == 0 {
            return;
        }
        let mut logs = self.logs();
        if !logs.contains_key(&device) && logs.len() >= max {
            let last = |lines: &VecDeque<Line>| lines.back().map(|line| line.received);
            let oldest = logs.iter().min_by_key(|(_, lines)| last(lines)).map(|(no, _)| *no);
            oldest.map(|no| logs.remove(&no));
        }
        let kept = logs.entry(device).or_default();
        kept.extend(lines);
        let over = kept.len().saturating_sub(lines_max);
        kept.drain(..over);
    }

    /// What a device said, the latest last.
    pub(super) fn of(&self, device: DeviceNo) -> Vec<Line> {
        self.logs().get(&device).map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<DeviceNo, VecDeque<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceLogs, Line};
    use handoff_exchange::DeviceNo;
    use handoff_types::Wall;

    #[test]
    fn the_last_lines_of_the_last_devices_are_kept() {
        let logs = DeviceLogs::default();
        let line = |n: i64| Line { at: Wall(n), received: Wall(n), text: n.to_string().into() };
        logs.keep(DeviceNo(1), (0..5).map(line).collect(), 3, 2);
        assert_eq!(logs.of(DeviceNo(1)), [line(2), line(3), line(4)]);
        logs.keep(DeviceNo(2), vec![line(9)], 3, 2);
        logs.keep(DeviceNo(3), vec![line(10)], 3, 2);
        assert!(logs.of(DeviceNo(1)).is_empty());
        assert_eq!(logs.of(DeviceNo(2)).len(), 1);
    }
}
