//! From a directory to a living room, or a refusal with words.

use std::sync::Arc;

use handoff_log::directory::{Directory, Lock};
use handoff_log::journal::{Journal, Report, Threaded};
use handoff_log::segments::{self, Segments};
use handoff_log::{checkpoint, journal};
use handoff_sim::room::Counter;
use handoff_store_embedded::{Host, LoadError, Loading, open_journal};
use handoff_types::{Code, Entropy};

use super::clock::Clock;
use super::{Arguments, End, say};

/// A room that can be used.
pub(super) struct Opening {
    pub(super) directory: Directory,
    pub(super) host: Host<Counter>,
    pub(super) clock: Clock,
    /// What recovery found, in one line.
    pub(super) ready: String,
}

pub(super) fn open(arguments: &Arguments, entropy: Entropy) -> Result<(Opening, Lock), End> {
    let limits = arguments.limits();
    say("event opening directory");
    let (directory, lock) = Directory::open_locked(&arguments.data_dir, entropy)
        .map_err(|error| End::new(error.code(), error))?;
    say("event opening checkpoint");
    let mut loading = Loading::<Counter>::begin(&directory).map_err(|error| unloadable(&error))?;
    say("event opening journal");
    let options = journal::Options { limits: limits.clone(), directory: directory.id, entropy };
    let (opened, report, failed) = open_journal(&directory, options, &mut [&mut loading])
        .map_err(|error| End::new(error.code(), error))?;
    if let Some(error) = failed.first() {
        return Err(unloadable(error));
    }
    if let Some((room, at)) = report.closed.first() {
        let words = format!("{room} lost records at position {at} and stays closed: {report:?}");
        return Err(End::new(Code::RoomDamaged, words));
    }
    say("event opening room");
    let clock = Clock::resume(report.clock.or(loading.clock()));
    let segments = Segments::open(Arc::clone(&directory.disk), segments::Options::from(&limits))
        .map_err(|error| End::new(error.code(), error))?;
    let journal = Threaded::start(opened).map_err(|error| End::new(Code::DiskFault, error))?;
    let journal: Arc<dyn Journal> = Arc::new(journal);
    let host = loading.into_host(journal, Arc::new(segments));
    let ready = ready_line(&report);
    Ok((Opening { directory, host, clock, ready }, lock))
}

fn ready_line(report: &Report) -> String {
    format!(
        "ready pid={} tail={:?} end={} entries={} damage={} healed={} shortened={}",
        std::process::id(),
        report.tail,
        report.end,
        report.entries,
        report.damage.len(),
        report.healed.len(),
        report.shortened.len(),
    )
}

fn unloadable(error: &LoadError) -> End {
    let code = match error {
        LoadError::Checkpoint(error) => checkpoint::Error::code(error),
        _ => Code::RoomDamaged,
    };
    End::new(code, error)
}
