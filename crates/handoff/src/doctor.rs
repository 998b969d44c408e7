//! The doctor: looks at everything a server needs, changes nothing, and says what to do.
//!
//! A check gives findings; it does not print, ask or exit. What cannot be looked at is skipped,
//! with words: a check that did not happen is not a check that passed.

mod bundle;
mod clock;
mod directory;
mod disk;
mod journal;
mod limits;
mod looking;
mod ports;
mod running;
mod tar;
mod zones;

use handoff_server::settings::Settings;
use serde::Serialize;

pub(crate) use self::bundle::Bundle;
pub(crate) use self::directory::Directory;
pub(crate) use self::journal::{Journal, repair};
pub(crate) use self::limits::files_needed;
pub(crate) use self::ports::holder;
pub(crate) use self::running::Running;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and should be otherwise.
    Warn,
    /// It does not work.
    Fail,
    /// It could not be looked at.
    Skip,
}

impl Verdict {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skip => "skip",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) check: &'static str,
    /// How it is.
    pub(crate) verdict: Verdict,
    /// What was seen.
    pub(crate) what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, what: what.into(), remedy: None }
    }

    /// It could not be looked at.
    pub(crate) fn skip(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Skip, what: what.into(), remedy: None }
    }

    /// It works, and should be otherwise.
    pub(crate) fn warn(check: &'static str, what: impl Into<String>, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned());
        Self { check, verdict: Verdict::Warn, what: what.into(), remedy }
    }

    /// It does not work.
    pub(crate) fn fail(check: &'static str, what: impl Into<String>, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned());
        Self { check, verdict: Verdict::Fail, what: what.into(), remedy }
    }
}

/// Everything that was looked at.
#[derive(Debug)]
pub(crate) struct Examination {
    /// What was found, in the order people read it.
    pub(crate) findings: Vec<Finding>,
    /// The journal.
    pub(crate) journal: Journal,
}

/// Looks at everything that settings name. `running` is what a server said that was asked.
pub(crate) fn examine(settings: &Settings, running: &Running) -> Examination {
    let mut directory = Directory::look(&settings.server.data_dir);
    let journal = Journal::look(settings, &directory);
    // A server that starts while the rest is looked at must not be in anybody's way.
    directory.release();
    let mut findings = directory.findings.clone();
    findings.extend(journal.findings.iter().cloned());
    findings.extend(disk::space(settings, &directory));
    findings.extend(disk::syncs(&directory));
    findings.extend(ports::check(settings, &directory));
    findings.extend(limits::open_files(settings));
    findings.extend(limits::doors(settings));
    findings.extend(clock::check(journal.clock()));
    findings.push(zones::check());
    findings.extend(running.findings.iter().cloned());
    Examination { findings, journal }
}
