//! Log lines: to stderr, as text or JSON, and the last of them in memory.
//!
//! * The level can be changed while the server runs.
//! * The last [`LINES_KEPT`] lines are kept, so that `doctor --bundle` can show what happened
//!   before somebody looked.
//! * No payloads and no secrets: whoever logs sees to it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::settings::LogFormat;

/// How many lines are kept.
pub const LINES_KEPT: usize = 1_000;

/// What is kept of one line, in bytes.
pub const LINE_BYTES_KEPT: usize = 4 << 10;

/// Why there is no log, or why its level stays as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is none.
    #[error(
        "`{0}` is no log level: write error, warn, info, debug, trace or off, or a filter like info,handoff_server=debug"
    )]
    Level(String),
    /// The process has a log already.
    #[error("the process has a log already")]
    Taken,
}

/// The log of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogHandle {
    level: Option<reload::Handle<EnvFilter, Registry>>,
    recent: Arc<Recent>,
}

/// Begins the log of this process. Panics are logged too.
///
/// # Errors
/// [`LogError`]
pub fn init(format: LogFormat, level: &str) -> Result<LogHandle, LogError> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let recent = Arc::new(Recent::default());
    let lines = fmt::layer().with_ansi(false).with_writer(Tee(Arc::clone(&recent)));
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|_| LogError::Taken)?;
    std::panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload_as_str().unwrap_or("no words");
        let backtrace = Backtrace::capture();
        let backtrace =
            (backtrace.status() == BacktraceStatus::Captured).then(|| shortened(&backtrace));
        tracing::error!(at, panic = words, backtrace, "panicked");
    }));
    Ok(LogHandle { level: Some(handle), recent })
}

/// As much of a backtrace as leaves its line whole where the last lines are kept.
fn shortened(backtrace: &Backtrace) -> String {
    let text = backtrace.to_string();
    text.get(..text.floor_char_boundary(LINE_BYTES_KEPT / 2)).unwrap_or_default().to_owned()
}

impl LogHandle {
    /// A log that nobody writes to, for a server inside a test.
    #[must_use]
    pub fn silent() -> Self {
        Self { level: None, recent: Arc::default() }
    }

    /// Changes the level from now on.
    ///
    /// # Errors
    /// [`LogError::Level`]; the level is unchanged.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        let filter = filter(level)?;
        match &self.level {
            Some(handle) => handle.reload(filter).map_err(|_| LogError::Taken),
            None => Ok(()),
        }
    }

    /// The last lines, the latest last.
    #[must_use]
    pub fn recent(&self) -> Vec<String> {
        self.recent.lines().iter().map(|line| line.clone().into()).collect()
    }
}

/// A level or a filter. A single word must be a level: as a filter it would silently be the name
/// of a module that does not exist.
fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let bad = || LogError::Level(level.to_owned());
    let is_word = !level.contains([',', '=', '[', ':']);
    if level.trim().is_empty() || (is_word && level.trim().parse::<LevelFilter>().is_err()) {
        return Err(bad());
    }
    EnvFilter::builder().parse(level).map_err(|_| bad())
}

/// The last lines.
#[derive(Debug, Default)]
struct Recent(Mutex<VecDeque<Box<str>>>);

impl Recent {
    fn lines(&self) -> std::sync::MutexGuard<'_, VecDeque<Box<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, written: &[u8]) {
        let text = String::from_utf8_lossy(written);
        let text = text.trim_end();
        let line = text.get(..text.floor_char_boundary(LINE_BYTES_KEPT)).unwrap_or_default();
        let mut lines = self.lines();
        if lines.len() >= LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line.into());
    }
}

/// Gives every line to stderr and to whoever asks later.
#[derive(Debug)]
struct Tee(Arc<Recent>);

impl<'a> MakeWriter<'a> for Tee {
    type Writer = TeeWriter<'a>;

    fn make_writer(&'a self) -> TeeWriter<'a> {
        TeeWriter(&self.0)
    }
}

/// The formatter writes an event with one call.
struct TeeWriter<'a>(&'a Recent);

impl io::Write for TeeWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.keep(line);
        // Nobody can be told that stderr is gone.
        drop(io::stderr().lock().write_all(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_KEPT, LINES_KEPT, LogHandle, Recent, filter};

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for level in ["info", "WARN", "off", "info,handoff_server=debug", "handoff_server=trace"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for level in ["", " ", "inof", "verbose", "handoff=loud"] {
            let words = filter(level).unwrap_err().to_string();
            assert!(words.contains("is no log level"), "{level}: {words}");
        }
        assert!(LogHandle::silent().set_level("inof").is_err());
    }

    #[test]
    fn the_last_lines_are_kept_and_no_more() {
        let recent = Recent::default();
        for n in 0..LINES_KEPT + 5 {
            recent.keep(format!("line {n}\n").as_bytes());
        }
        let lines = recent.lines();
        assert_eq!(lines.len(), LINES_KEPT);
        assert_eq!(&*lines[0], "line 5");
        assert_eq!(&*lines[LINES_KEPT - 1], format!("line {}", LINES_KEPT + 4));
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let recent = Recent::default();
        recent.keep("é".repeat(LINE_BYTES_KEPT).as_bytes());
        recent.keep(b"\xff odd bytes");
        let lines = recent.lines();
        assert_eq!(lines[0].len(), LINE_BYTES_KEPT);
        assert_eq!(&*lines[1], "\u{fffd} odd bytes");
    }
}
