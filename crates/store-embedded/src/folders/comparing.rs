//! The folders are compared with the state, in small pieces.
//!
//! ```text
//!  messages  every message has its file, or its body is on its way
//!  folders   every file is a message, and where it belongs
//! ```
//!
//! What is asked of the room is true when it is looked at the disk or was true a moment ago; then the
//! order that makes it true is on its way and is carried out later. A file in Messages that nobody
//! knows is offered as a new message only if its number was never given out: one of a message that
//! was processed and forgotten must not come back.

use std::io::{self, ErrorKind};

use handoff_exchange::{EntityId, Place, Seq};
use handoff_log::disk::{Found, FoundWhat, Walk};
use handoff_types::Steady;

use super::files::{length, read};
use super::known::{Answer, Filed, Known, Question};
use super::name::{FileName, ROOT, has_days, is_day, place_dir, place_name, spot_dir};
use super::{Compared, Folders, PAUSE_MAX, Report, ask_messages, list};
use crate::exchange::frame_of;

/// How many messages or names are looked at in a piece.
const AT_ONCE: usize = 512;

/// How many files wait to be taken in at most.
const OFFERED_MAX: usize = 16;

/// How many files that were not taken in are remembered.
const REFUSED_MAX: usize = 10_000;

const PLACES: [Place; 5] =
    [Place::Messages, Place::Prepared, Place::Log, Place::Unknown, Place::Error];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// Only the names in Messages.
    New,
    /// Everything.
    All,
}

/// How far a comparison is.
pub(super) struct Comparing {
    stage: Stage,
    found: Compared,
    /// Why something could not be looked at, the first time.
    trouble: Option<String>,
}

enum Stage {
    /// From this message on.
    Messages(Seq),
    /// The folders are next.
    Begin,
    /// The folders that are left, and the one that is being walked.
    Folders { databases: Vec<EntityId>, next: Seq, left: Vec<Folder>, open: Option<(Folder, Walk)> },
}

/// A folder to look into.
#[derive(Clone, Debug)]
struct Folder {
    dir: String,
    inside: Inside,
}

/// What is expected in a folder.
#[derive(Clone, Debug)]
enum Inside {
    Databases,
    Places(EntityId),
    Days(EntityId),
    Messages(EntityId, Place),
}

impl Inside {
    fn may_have_new(&self) -> bool {
        match self {
            Self::Databases | Self::Places(_) => true,
            Self::Days(_) => false,
            Self::Messages(_, place) => *place == Place::Messages,
        }
    }
}

impl std::fmt::Debug for Comparing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparing").field("found", &self.found).finish_non_exhaustive()
    }
}

impl Comparing {
    fn new(scope: Scope) -> Self {
        let (stage, whole) = match scope {
            Scope::New => (Stage::Begin, false),
            Scope::All => (Stage::Messages(Seq(0)), true),
        };
        Self { stage, found: Compared { whole, ..Compared::default() }, trouble: None }
    }

    fn check<T>(&mut self, path: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.found.failed += 1;
                self.trouble.get_or_insert_with(|| format!("{path}: {fault}"));
                None
            }
        }
    }
}

impl Folders {
    /// Compares a piece, if there is something to compare. Gives whether there is more.
    pub(super) fn compare(&mut self, known: &mut dyn Known, now: Steady) -> bool {
        if self.comparing.is_none() && self.compare_again.due.is_some_and(|due| due <= now) {
            self.compare_again.due = None;
            self.compare_next = Some(Scope::All);
        }
        if self.comparing.is_none() {
            self.comparing = self.compare_next.take().map(Comparing::new);
        }
        let Some(mut comparing) = self.comparing.take() else { return false };
        let more = match &mut comparing.stage {
            Stage::Messages(from) => {
                let from = *from;
                self.compare_messages(&mut comparing, from, known)
            }
            Stage::Begin => begin(&mut comparing, known),
            Stage::Folders { .. } => self.compare_names(&mut comparing, known),
        };
        match more {
            // The room is closed: later.
            None => {
                self.comparing = Some(comparing);
                false
            }
            Some(true) => {
                self.comparing = Some(comparing);
                true
            }
            Some(false) => {
                self.compared(comparing, now);
                self.compare_next.is_some()
            }
        }
    }

    fn compared(&mut self, comparing: Comparing, now: Steady) {
        let Comparing { mut found, trouble, .. } = comparing;
        match trouble {
            Some(words) => {
                found.trouble = Some(words.into());
                self.compare_again.failed(now, PAUSE_MAX);
            }
            None if !found.whole => {}
            None => {
                self.compare_again.succeeded();
                for number in std::mem::take(&mut self.after_comparing) {
                    if let Some(waiting) = self.processes.get_mut(&number) {
                        waiting.left = waiting.left.saturating_sub(1);
                    }
                }
            }
        }
        self.reports.push(Report::Compared(found));
    }

    fn compare_messages(
        &mut self,
        comparing: &mut Comparing,
        from: Seq,
        known: &mut dyn Known,
    ) -> Option<bool> {
        let Answer::From(messages) = known.ask(&Question::From(from, AT_ONCE))? else {
            return None;
        };
        for filed in &messages {
            comparing.found.messages += 1;
            let path = format!("{}/{}", spot_dir(&filed.database, filed.spot), filed.name);
            let reports = self.reports.len();
            let done = self.compare_message(&path, filed);
            let changed = comparing.check(&path, done).unwrap_or(false);
            comparing.found.mended += u64::from(changed && self.reports.len() == reports);
        }
        comparing.stage = match messages.last() {
            Some(last) => Stage::Messages(Seq(last.name.seq.0.saturating_add(1))),
            None => Stage::Begin,
        };
        Some(true)
    }

    /// Sees to it that a message has its file. Gives whether something had to be done.
    fn compare_message(&mut self, path: &str, filed: &Filed) -> io::Result<bool> {
        let found = length(&*self.files.disk, path)?;
        if found == Some(filed.bytes.into()) {
            return Ok(false);
        }
        // On its way, or to be on it.
        let (place, expected) = self.filing.shared.place(frame_of(filed.name.seq));
        if place.is_some() || expected {
            return Ok(false);
        }
        let Some(length) = found else { return self.set_right(filed, None).map(|()| true) };
        match self.bodies.read(filed) {
            // It is elsewhere as well.
            Ok(body) => {
                self.files.set_aside(path, length)?;
                let dir = spot_dir(&filed.database, filed.spot);
                self.files.replace(&dir, &filed.name.to_string(), &body)?;
                self.unsynced = true;
            }
            Err(error) if error.is_lost() => {
                let (seq, words) = (filed.name.seq, error.to_string().into());
                self.reports.push(Report::Damaged { seq, words });
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }

    fn compare_names(&mut self, comparing: &mut Comparing, known: &mut dyn Known) -> Option<bool> {
        let Stage::Folders { left, open, next, databases } = &mut comparing.stage else {
            return Some(false);
        };
        let (next, databases) = (*next, databases.clone());
        if open.is_none() {
            let Some(folder) = left.pop() else { return Some(false) };
            match self.files.disk.walk(&folder.dir) {
                Ok(walk) => *open = Some((folder, walk)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => drop(comparing.check::<()>(&folder.dir, Err(error))),
            }
            return Some(true);
        }
        let Some((folder, walk)) = open else { return Some(false) };
        let folder = folder.clone();
        let names: Vec<io::Result<Found>> = walk.take(AT_ONCE).collect();
        if names.len() < AT_ONCE {
            *open = None;
        }
        let names = names.into_iter();
        let names = names.filter_map(|name| comparing.check(&folder.dir, name)).collect();
        match &folder.inside {
            Inside::Messages(database, place) => {
                return self.compare_files(
                    comparing,
                    known,
                    &folder.dir,
                    (database, *place),
                    names,
                    next,
                );
            }
            inside => {
                let found = &mut comparing.found;
                let mut more = expected(inside, &databases, &folder.dir, names, found);
                if !found.whole {
                    more.retain(|folder| folder.inside.may_have_new());
                }
                if let Stage::Folders { left, .. } = &mut comparing.stage {
                    left.extend(more);
                }
            }
        }
        Some(true)
    }

    fn compare_files(
        &mut self,
        comparing: &mut Comparing,
        known: &mut dyn Known,
        dir: &str,
        (database, place): (&EntityId, Place),
        names: Vec<Found>,
        next: Seq,
    ) -> Option<bool> {
        let mut files = Vec::new();
        for Found { name, what } in names {
            let path = format!("{dir}/{name}");
            let parsed = name.parse::<FileName>();
            let leftover =
                name.strip_prefix('.').is_some_and(|name| name.parse::<FileName>().is_ok());
            match parsed {
                Ok(parsed) if what == FoundWhat::File => files.push(parsed),
                _ if what == FoundWhat::File && leftover => {
                    let removed = self.discard(&path);
                    comparing.found.mended += u64::from(comparing.check(&path, removed).is_some());
                }
                _ => comparing.found.foreign(path, "not the name of a message's file"),
            }
        }
        if files.is_empty() {
            return Some(true);
        }
        let seqs: Vec<Seq> = files.iter().map(|name| name.seq).collect();
        let answers = ask_messages(known, &seqs)?;
        for (name, answer) in files.into_iter().zip(answers) {
            comparing.found.files += 1;
            let path = format!("{dir}/{name}");
            match answer {
                Some(filed) if filed.name == name && filed.database == *database => {
                    if spot_dir(database, filed.spot) != dir {
                        let moved = self.move_here(&path, &filed);
                        comparing.found.mended +=
                            u64::from(comparing.check(&path, moved) == Some(true));
                    }
                }
                None if name.seq.0 > 0 && name.seq < next && place != Place::Messages => {
                    let removed = self.discard(&path);
                    comparing.found.mended += u64::from(comparing.check(&path, removed).is_some());
                }
                None if name.seq.0 > 0 && name.seq < next => {
                    comparing.found.foreign(
                        path,
                        "a message that is forgotten; to send it again name it 0000000000000000-…",
                    );
                }
                _ if place == Place::Messages && name.to == *database => {
                    self.offer(comparing, path, database, name);
                }
                _ => comparing.found.foreign(path, "no message of the exchange"),
            }
        }
        Some(true)
    }

    /// Offers a file as a new message.
    fn offer(
        &mut self,
        comparing: &mut Comparing,
        path: String,
        database: &EntityId,
        name: FileName,
    ) {
        if let Some(refused) = self.refused.get(&path).copied() {
            comparing.found.foreign(path.clone(), "could not be taken in as a message");
            if !comparing.found.whole {
                // Looks come often, and somebody is told of every refusal: only if it is another by now.
                let now = comparing.check(&path, length(&*self.files.disk, &path)).flatten();
                if now.is_none_or(|now| now == refused) {
                    return;
                }
            }
            self.refused.remove(&path);
        }
        while self.refused.len() > REFUSED_MAX {
            self.refused.pop_first();
        }
        if self.offered.contains_key(&path) {
            return;
        }
        if self.offered.len() >= OFFERED_MAX {
            comparing.found.left += 1;
            return;
        }
        let bytes_max = self.options.take_in_bytes_max;
        let content = read(&*self.files.disk, &path, bytes_max);
        let Some(Some((content, length))) = comparing.check(&path, content) else { return };
        if length > bytes_max {
            comparing.found.foreign(path, "too large to be taken in as a message");
            return;
        }
        self.offered.insert(path.clone(), length);
        let database = database.clone();
        self.reports.push(Report::TakeIn { path, database, name, content: content.into() });
    }
}

/// Begins with the folders.
fn begin(comparing: &mut Comparing, known: &mut dyn Known) -> Option<bool> {
    let Answer::Databases { ids: databases, next } = known.ask(&Question::Databases)? else {
        return None;
    };
    let root = Folder { dir: ROOT.to_owned(), inside: Inside::Databases };
    comparing.stage = Stage::Folders { databases, next, left: vec![root], open: None };
    Some(true)
}

/// What of these names is to be looked into; the rest is foreign.
fn expected(
    inside: &Inside,
    databases: &[EntityId],
    dir: &str,
    names: Vec<Found>,
    found: &mut Compared,
) -> Vec<Folder> {
    let mut more = Vec::new();
    for Found { name, what } in names {
        let path = format!("{dir}/{name}");
        let is_dir = what == FoundWhat::Dir;
        let folder = match inside {
            Inside::Databases if is_dir => {
                let database = databases.iter().find(|database| database.as_str() == name);
                database.map(|database| Inside::Places(database.clone()))
            }
            Inside::Databases if list::is_ours(&name) => continue,
            Inside::Places(database) if is_dir => {
                let place = PLACES.into_iter().find(|place| place_name(*place) == name);
                place.map(|place| match has_days(place) {
                    true => Inside::Days(database.clone()),
                    false => Inside::Messages(database.clone(), place),
                })
            }
            Inside::Days(database) if is_dir && is_day(&name) => {
                let log = dir == place_dir(database, Place::Log);
                let place = if log { Place::Log } else { Place::Error };
                Some(Inside::Messages(database.clone(), place))
            }
            _ => None,
        };
        match folder {
            Some(inside) => more.push(Folder { dir: path, inside }),
            None => found.foreign(path, "no folder of the exchange"),
        }
    }
    more
}
