//! How far a producer is.

use std::time::{Duration, Instant};

use crate::clock;
use crate::commands::progress::Line;
use crate::config::bytes;
use crate::terminal::Terminal;

/// One line about what is done.
pub(super) struct Progress {
    line: Line,
    total: Option<u64>,
    read: u64,
    stored: u64,
    begun: Instant,
}

impl Progress {
    /// Of so many bytes, if that is known.
    pub(super) fn new(terminal: &Terminal, total: Option<u64>) -> Self {
        Self { line: Line::new(terminal), total, read: 0, stored: 0, begun: clock::moment() }
    }

    /// So many bytes are read.
    pub(super) fn read(&mut self, bytes: u64) {
        self.read = bytes;
        self.draw();
    }

    /// So many messages are stored.
    pub(super) fn stored(&mut self, messages: u64) {
        self.stored = messages;
        self.draw();
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }

    fn draw(&mut self) {
        let Self { line, total, read, stored, begun } = self;
        let part = total.map(|total| (*read, total));
        line.draw(part, || words(*read, *stored, clock::moment().duration_since(*begun)));
    }
}

fn words(read: u64, stored: u64, time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = stored.saturating_mul(1000) / millis;
    format!("{stored} messages, {rate}/s, {}", bytes::about(read))
}

#[cfg(test)]
mod tests {
    use super::words;
    use std::time::Duration;

    #[test]
    fn it_says_how_many_how_fast_and_how_much() {
        assert_eq!(words(2048, 10, Duration::from_secs(2)), "10 messages, 5/s, 2.0 KiB");
        assert_eq!(words(0, 0, Duration::ZERO), "0 messages, 0/s, 0 B");
    }
}
