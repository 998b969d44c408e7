//! The folders of one database, by names alone.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::ledger::Trouble;

/// Waits until folders hold exactly the messages of a list, each in its place.
pub fn compare(
    root: &Path,
    listed: &BTreeMap<String, String>,
    patience: Duration,
) -> Result<(), Trouble> {
    let begun = clock();
    loop {
        let found = look(root).map_err(|error| Trouble(format!("{}: {error}", root.display())))?;
        let difference = differ(&found, listed);
        let Some(words) = difference else { return Ok(()) };
        if begun.elapsed() > patience {
            return Err(Trouble(format!("{}: {words}", root.display())));
        }
        // Another process writes them behind.
        thread::park_timeout(Duration::from_millis(50));
    }
}

/// What is in the folders: ids and their folders. Twice the same id is told as such.
fn look(root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for place in ["Messages", "Prepared", "Log", "Unknown", "Error"] {
        let mut dirs = vec![root.join(place)];
        while let Some(dir) = dirs.pop() {
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_dir = match entry.file_type() {
                    Ok(kind) => kind.is_dir(),
                    // It was moved meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                if is_dir {
                    dirs.push(entry.path());
                } else if let Some(rest) = name.get(17..).filter(|_| !name.starts_with('.')) {
                    let id = rest.split("_from_").next().unwrap_or_default();
                    found.push((id.to_owned(), place.to_ascii_lowercase()));
                } else {
                    found.push((name, place.to_ascii_lowercase()));
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

fn differ(found: &[(String, String)], listed: &BTreeMap<String, String>) -> Option<String> {
    if let Some(pair) =
        found.windows(2).find(|pair| pair.first().map(|a| &a.0) == pair.last().map(|b| &b.0))
    {
        return Some(format!("one message has two files: {pair:?}"));
    }
    let files: BTreeMap<_, _> = found.iter().cloned().collect();
    let missing = listed.iter().find(|(id, place)| files.get(*id) != Some(*place));
    if let Some((id, place)) = missing {
        return Some(format!("{id} belongs to {place} and its file is in {:?}", files.get(id)));
    }
    let strange = files.keys().find(|id| !listed.contains_key(*id))?;
    Some(format!("{strange} is a file of nobody"))
}
