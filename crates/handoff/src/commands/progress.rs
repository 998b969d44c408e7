//! How far it is: one line on stderr that is written again and again, where stderr is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::clock;
use crate::terminal::Terminal;

/// How often it is written anew.
const EVERY: Duration = Duration::from_millis(100);

/// How wide the bar is.
const WIDTH: u64 = 30;

/// One line about what is done.
pub(super) struct Line {
    shown: bool,
    last: Instant,
    drawn: bool,
}

impl Line {
    /// Nothing is done yet.
    pub(super) fn new(terminal: &Terminal) -> Self {
        let shown = io::stderr().is_terminal() && !terminal.quiet;
        Self { shown, last: clock::moment(), drawn: false }
    }

    /// Writes it anew, unless that was done just now. So much of so much is done, if that is known.
    pub(super) fn draw(&mut self, part: Option<(u64, u64)>, words: impl FnOnce() -> String) {
        let now = clock::moment();
        if !self.shown || now.duration_since(self.last) < EVERY {
            return;
        }
        self.last = now;
        self.drawn = true;
        write(&format!("\r{}\x1b[K", bar(part, &words())));
    }

    /// Takes it away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            write("\r\x1b[K");
        }
    }
}

/// Nobody can be told that stderr is gone.
fn write(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// A bar in front of the words, where the end is known.
fn bar(part: Option<(u64, u64)>, words: &str) -> String {
    let Some((done, total)) = part.filter(|(_, total)| *total > 0) else { return words.to_owned() };
    let done = done.min(total);
    let share = |of: u64| u64::try_from(u128::from(done) * u128::from(of) / u128::from(total));
    let (full, percent) = (share(WIDTH).unwrap_or(0), share(100).unwrap_or(0));
    let bar: String = (0..WIDTH).map(|at| if at < full { '█' } else { '░' }).collect();
    format!("{bar} {percent:>3} % {words}")
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_drawn_where_the_end_is_known() {
        assert_eq!(bar(None, "10 messages"), "10 messages");
        let half = bar(Some((50, 100)), "10 messages");
        assert!(half.contains(" 50 % 10 messages"), "{half}");
        assert_eq!(half.matches('█').count(), 15);
        assert!(bar(Some((500, 100)), "x").contains("100 %"));
        assert_eq!(bar(Some((0, 0)), "x"), "x");
    }
}
