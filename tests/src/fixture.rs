//! Data directories of every format there has been, sound and damaged, and what opening one of
//! them finds.
//!
//! ```text
//! fixtures/<format>/<name>/data/       a data directory, as a program of that format left it
//! fixtures/<format>/<name>/EXPECT.txt  what every later program must find in it
//! ```
//!
//! A directory that was committed is never written again; the suite opens all of them, for ever.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::disk::Real;
use handoff_log::journal::{self, Inline, Journal, Purpose, Report};
use handoff_log::segments::{self, Segments};
use handoff_sim::room::{Command, Counter, Name, note_frame};
use handoff_store_embedded::{BulkError, Host, LoadError, Loading, open_journal};
use handoff_types::{Code, Entropy, Limits, Now, Steady, Wall};

/// What a fixture's directory is called inside.
pub const DATA: &str = "data";

/// What a fixture's expectation is called.
pub const EXPECT: &str = "EXPECT.txt";

/// The bounds fixtures are made and opened with: small, so that files are small.
#[must_use]
pub fn limits() -> Limits {
    Limits {
        journal_bytes_max: 512 << 10,
        journal_file_bytes: 64 << 10,
        journal_reserve_bytes: 4 << 10,
        room_queue_bytes_max: 64 << 10,
        change_bytes_max: 64 << 10,
        segment_bytes: 8 << 10,
        segment_files_open_max: 8,
        segment_warm_bytes: 1 << 20,
        poison_secs_max: 1,
        checkpoint_chunk_bytes: 128,
    }
}

/// A data directory with its room at work.
#[derive(Debug)]
pub struct Open {
    /// The directory.
    pub directory: Directory,
    /// What recovery found.
    pub report: Report,
    /// The journal.
    pub journal: Arc<Inline>,
    /// The room.
    pub host: Host<Counter>,
}

/// A directory that was not opened: the code, and what the error says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Code, pub String);

impl Open {
    /// Opens a data directory as a server would, but without threads and without a lock.
    ///
    /// # Errors
    /// [`Refused`] with the code of whatever was in the way.
    pub fn new(data: &Path, entropy: Entropy) -> Result<Self, Refused> {
        let disk = Real::new(data).map_err(|error| Refused(Code::DiskFault, error.to_string()))?;
        let directory = Directory::open(Arc::new(disk), entropy)
            .map_err(|error| Refused(error.code(), error.to_string()))?;
        let unloadable = |error: &LoadError| match error {
            LoadError::Checkpoint(error) => Refused(error.code(), error.to_string()),
            error => Refused(Code::RoomDamaged, error.to_string()),
        };
        let mut loading =
            Loading::<Counter>::begin(&directory).map_err(|error| unloadable(&error))?;
        let options = journal::Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) = open_journal(&directory, options, &mut [&mut loading])
            .map_err(|error| Refused(error.code(), error.to_string()))?;
        if let Some(error) = failed.first() {
            return Err(unloadable(error));
        }
        let segments =
            Segments::open(Arc::clone(&directory.disk), segments::Options::from(&limits()))
                .map_err(|error| Refused(error.code(), error.to_string()))?;
        let journal = Arc::new(Inline::start(opened));
        let host = loading.into_host(Arc::clone(&journal) as Arc<dyn Journal>, Arc::new(segments));
        Ok(Self { directory, report, journal, host })
    }

    /// Has a command decided and made durable.
    ///
    /// # Errors
    /// The code and words of a refusal.
    ///
    /// # Panics
    /// If the journal, once it has taken the command, does not make it durable.
    pub fn act(&mut self, command: &Command, now: Now, chance: Entropy) -> Result<(), Refused> {
        let bodies = command.body().cloned().into_iter().collect();
        let applied = self.host.apply(command, bodies, Purpose::Accept, (now, chance));
        let applied = applied.map_err(|refused| Refused(refused.code(), refused.to_string()))?;
        self.journal.commit().expect("the disk works");
        assert!(applied.ticket.outcome().is_some_and(|outcome| outcome.is_ok()));
        Ok(())
    }
}

/// What is found in a data directory, line by line. Writes to it, as opening and going on does.
///
/// # Panics
/// If a directory that opened cannot be read at all.
#[must_use]
pub fn findings(data: &Path) -> String {
    let open = match Open::new(data, Entropy(0x0123_4567_89ab_cdef)) {
        Ok(open) => open,
        Err(Refused(code, words)) => return refusal(code, &words),
    };
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
    let Report { tail, end, damage, closed, healed, shortened, clock, entries, .. } = &open.report;
    line(format!("tail {tail:?}"));
    line(format!("end {end}"));
    line(format!("entries {entries}"));
    if let Some(Now { wall: Wall(wall), steady: Steady(steady) }) = clock {
        line(format!("clock wall {wall} steady {steady}"));
    }
    for range in damage {
        let rooms = range.rooms.iter().map(|(room, lost)| format!(", {room} lost {lost}"));
        let rooms: String = rooms.collect();
        line(format!("damage from {} to {}{rooms}", range.from, range.to));
    }
    closed.iter().for_each(|(room, at)| line(format!("closed {room} at {at}")));
    healed.iter().for_each(|path| line(format!("healed {path}")));
    shortened.iter().for_each(|path| line(format!("shortened {path}")));
    // What is not known to be durable is written again before anything is served.
    open.journal.commit().expect("the disk works");
    line(format!("state {:016x}", open.host.state().hash()));
    let keys: Vec<Name> = open.host.state().keys().collect();
    for key in keys {
        let seen = open.host.state().tally(key).seen();
        line(format!("{key}: {seen}"));
        for offset in 0..seen.notes {
            line(format!("{key} note {offset}: {}", note(&open.host, key, offset)));
        }
    }
    line(goes_on(open, data));
    text
}

fn refusal(code: Code, words: &str) -> String {
    let mut text = format!("refused {}\n", code.text());
    let named = words.split([' ', ';', ':', ',']).find(|word| word.contains('/'));
    if let Some(path) = named {
        text += &format!("names {path}\n");
    }
    text
}

fn note(host: &Host<Counter>, key: Name, offset: u64) -> String {
    match host.body(note_frame(key, offset)) {
        Ok(Some(body)) => format!("{} bytes, crc {:08x}", body.len(), crc32c::crc32c(&body)),
        Ok(None) => "missing".to_owned(),
        Err(BulkError::Corrupt { from, to, .. }) => format!("corrupt from {from} to {to}"),
        Err(error) => format!("unreadable: {error}"),
    }
}

/// Adds something, closes, opens again and looks for it.
fn goes_on(mut open: Open, data: &Path) -> String {
    let key = Name::numbered(255);
    let now = open.report.clock.unwrap_or_default();
    let add = Command::Add { key, by: 7, ticket: 1 };
    if let Err(Refused(code, _)) = open.act(&add, now, Entropy(1)) {
        return format!("does not go on: {}", code.text());
    }
    let state = open.host.state().hash();
    drop(open);
    match Open::new(data, Entropy(0xfedc_ba98_7654_3210)) {
        Ok(open) if open.host.state().hash() == state => "goes on".to_owned(),
        Ok(_) => "goes on and forgets".to_owned(),
        Err(Refused(code, words)) => format!("goes on and is refused: {} {words}", code.text()),
    }
}

/// Every fixture there is.
///
/// # Errors
/// Whatever the operating system answers.
pub fn all(fixtures: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![fixtures.to_path_buf()];
    while let Some(dir) = open.pop() {
        if dir.join(EXPECT).is_file() {
            found.push(dir);
            continue;
        }
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a directory and all that is in it.
///
/// # Errors
/// Whatever the operating system answers.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
