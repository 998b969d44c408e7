//! How far it is: one line on stderr that is written again and again, where stderr is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use super::ledger::Counts;
use crate::terminal::Terminal;

/// One line about what is done.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    drawn: bool,
}

impl Progress {
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self { shown: io::stderr().is_terminal() && !terminal.quiet, drawn: false }
    }

    /// Writes the line anew.
    pub(super) fn draw(&mut self, counts: Counts, time: Duration, erp: bool) {
        if self.shown {
            self.drawn = true;
            write(&format!("\r{}\x1b[K", line(counts, time, erp)));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            write("\r\x1b[K");
        }
    }
}

fn line(counts: Counts, time: Duration, erp: bool) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = counts.acknowledged.saturating_mul(1000) / millis;
    let head = format!(
        "{} s: {} sent, {} acknowledged, {rate}/s",
        time.as_secs(),
        counts.sent,
        counts.acknowledged
    );
    if !erp {
        return format!(
            "{head}, {} received",
            counts.received + counts.other_replies + counts.older
        );
    }
    format!("{head}, {} processed, {} replies received", counts.processed, counts.received)
}

/// Nobody can be told that stderr is gone.
fn write(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::commands::exchange::simulate::ledger::Counts;
    use std::time::Duration;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let counts = Counts { sent: 12, acknowledged: 10, processed: 7, ..Counts::default() };
        let words = line(counts, Duration::from_secs(2), true);
        assert_eq!(words, "2 s: 12 sent, 10 acknowledged, 5/s, 7 processed, 0 replies received");
        assert!(line(counts, Duration::ZERO, false).ends_with("0 received"));
    }
}
