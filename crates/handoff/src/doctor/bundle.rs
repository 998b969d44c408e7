//! Everything that helps others to help, in one file. No secrets and no messages.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use super::tar::Tar;
use super::{Finding, Journal, Running};
use crate::clock;

/// What goes into the file.
#[derive(Debug)]
pub(crate) struct Bundle<'a> {
    /// The configuration without secrets, or what is wrong with it.
    pub(crate) config: String,
    /// What the doctor found.
    pub(crate) findings: &'a [Finding],
    /// What a server said.
    pub(crate) running: &'a Running,
    /// What recovery would find, if it could be looked at.
    pub(crate) journal: Option<&'a Journal>,
    /// Of this program.
    pub(crate) version: String,
}

impl Bundle<'_> {
    /// Writes the file, readable by its owner only. A file that is there is not replaced.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub(crate) fn write(&self, path: &Path) -> io::Result<Vec<String>> {
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let now = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut tar = Tar::new(io::BufWriter::new(out), now.as_secs());
        let mut names = Vec::new();
        for (name, content) in self.files() {
            tar.add(&format!("handoff-bundle/{name}"), content.as_bytes())?;
            names.push(name.to_owned());
        }
        let out = tar.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.sync_all()?;
        Ok(names)
    }

    fn files(&self) -> Vec<(&'static str, String)> {
        let doctor = serde_json::to_string_pretty(self.findings).unwrap_or_default();
        let recovery = self.journal.map_or_else(String::new, Journal::text);
        let mut files = vec![
            ("version.txt", self.version.clone()),
            ("config.toml", self.config.clone()),
            ("doctor.json", doctor),
            ("recovery.txt", recovery),
        ];
        files.extend(self.running.files.iter().cloned());
        files.retain(|(_, content)| !content.is_empty());
        files
    }
}
