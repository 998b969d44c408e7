//! How far it is: one line on stderr that is written again and again, where stderr is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::clock;
use crate::config::bytes;
use crate::terminal::Terminal;

/// How often it is written anew.
const EVERY: Duration = Duration::from_millis(100);

/// How wide the bar is.
const WIDTH: u64 = 30;

/// One line about what is done.
pub(super) struct Progress {
    shown: bool,
    total: Option<u64>,
    read: u64,
    stored: u64,
    begun: Instant,
    last: Instant,
    drawn: bool,
}

impl Progress {
    /// Of so many bytes, if that is known.
    pub(super) fn new(terminal: &Terminal, total: Option<u64>) -> Self {
        let shown = io::stderr().is_terminal() && !terminal.quiet;
        let now = clock::moment();
        Self { shown, total, read: 0, stored: 0, begun: now, last: now, drawn: false }
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
        if std::mem::take(&mut self.drawn) {
            write("\r\x1b[K");
        }
    }

    fn draw(&mut self) {
        if !self.shown {
            return;
        }
        let now = clock::moment();
        if now.duration_since(self.last) < EVERY {
            return;
        }
        self.last = now;
        self.drawn = true;
        let line = line(self.total, self.read, self.stored, now.duration_since(self.begun));
        write(&format!("\r{line}\x1b[K"));
    }
}

/// Nobody can be told that stderr is gone.
fn write(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

fn line(total: Option<u64>, read: u64, stored: u64, time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = stored.saturating_mul(1000) / millis;
    let words = format!("{stored} messages, {rate}/s, {}", bytes::about(read));
    let Some(total) = total.filter(|total| *total > 0) else { return words };
    let done = read.min(total);
    let part = |of: u64| u64::try_from(u128::from(done) * u128::from(of) / u128::from(total));
    let (full, percent) = (part(WIDTH).unwrap_or(0), part(100).unwrap_or(0));
    let bar: String = (0..WIDTH).map(|at| if at < full { '█' } else { '░' }).collect();
    format!("{bar} {percent:>3} % {words}")
}

#[cfg(test)]
mod tests {
    use super::line;
    use std::time::Duration;

    #[test]
    fn a_bar_is_drawn_where_the_end_is_known() {
        let second = Duration::from_secs(2);
        assert_eq!(line(None, 2048, 10, second), "10 messages, 5/s, 2.0 KiB");
        let half = line(Some(100), 50, 10, second);
        assert!(half.contains(" 50 % 10 messages"), "{half}");
        assert_eq!(half.matches('█').count(), 15);
        assert!(line(Some(100), 500, 10, second).contains("100 %"));
        assert_eq!(line(Some(0), 0, 0, Duration::ZERO), "0 messages, 0/s, 0 B");
    }
}
