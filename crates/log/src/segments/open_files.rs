//! At most so many segment files open, shared by readers and the mover.
//!
//! The bound is strict: a file that is in use counts, one that is being opened counts, and one
//! that makes room is closed before the next is opened. Whoever finds all files in use waits for
//! one to be given back. Nobody holds two at once, so nobody waits for himself.

use super::index::Index;
use super::lock;
use crate::disk::File;
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A segment instance. A file that is sealed, cut, or removed and made anew has a new one, so an
/// old handle is never taken for the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Instance(pub(super) u64);

/// An open segment file, with its index if it is sealed.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) file: Arc<dyn File>,
    pub(super) index: Option<Index>,
}

/// The open files, least recently used first to be closed.
#[derive(Debug)]
pub(super) struct OpenFiles {
    max: usize,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    /// How many files are open, being opened or being closed.
    open: usize,
    entries: HashMap<Instance, Entry>,
    /// Unused entries, by when they were given back.
    idle: BTreeMap<u64, Instance>,
    returns: u64,
}

#[derive(Debug, Default)]
struct Entry {
    /// Nothing while it is being opened.
    segment: Option<Arc<OpenSegment>>,
    users: usize,
    /// The key in `idle`, while there are no users.
    idle_since: u64,
    /// Close it as soon as nobody uses it.
    forgotten: bool,
}

/// An open file in use. It is given back when dropped.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    // Dropped in this order: the file is let go before it counts as given back.
    segment: Arc<OpenSegment>,
    _back: GiveBack<'a>,
}

#[derive(Debug)]
struct GiveBack<'a> {
    files: &'a OpenFiles,
    instance: Instance,
}

impl OpenFiles {
    /// Opens nothing yet.
    pub(super) fn new(max: usize) -> Self {
        assert!(max > 0, "without an open file nothing can be read or written");
        Self { max, table: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes an open file, opening it if need be. Waits while as many as may be are in use.
    ///
    /// `open` may open several files one after the other, but never holds two at once.
    ///
    /// # Errors
    /// What `open` answers.
    pub(super) fn lease<E>(
        &self,
        instance: Instance,
        open: impl FnOnce() -> Result<OpenSegment, E>,
    ) -> Result<Lease<'_>, E> {
        if let Some(segment) = self.take_open_or_reserve(instance) {
            return Ok(self.lend(segment, instance));
        }
        let opened = open().map(Arc::new);
        let mut table = lock(&self.table);
        match &opened {
            Ok(segment) => {
                let entry = table.entries.entry(instance).or_default();
                entry.segment = Some(Arc::clone(segment));
                entry.users = 1;
            }
            Err(_) => {
                table.entries.remove(&instance);
                table.open -= 1;
            }
        }
        drop(table);
        self.changed.notify_all();
        opened.map(|segment| self.lend(segment, instance))
    }

    /// Does something that opens a file and closes it again, with a place reserved for it under
    /// an instance of its own.
    pub(super) fn with_place<R>(&self, instance: Instance, act: impl FnOnce() -> R) -> R {
        self.take_open_or_reserve(instance);
        let result = act();
        self.close(lock(&self.table), instance);
        result
    }

    /// Closes a file now, or as soon as its last user gives it back.
    pub(super) fn forget(&self, instance: Instance) {
        let mut table = lock(&self.table);
        let Some(entry) = table.entries.get_mut(&instance) else { return };
        entry.forgotten = true;
        if entry.segment.is_some() && entry.users == 0 {
            let since = entry.idle_since;
            table.idle.remove(&since);
            self.close(table, instance);
        }
    }

    /// The open file, or nothing with a place reserved for it to be opened.
    fn take_open_or_reserve(&self, instance: Instance) -> Option<Arc<OpenSegment>> {
        let mut table = lock(&self.table);
        loop {
            if let Some(entry) = table.entries.get_mut(&instance) {
                if let Some(segment) = &entry.segment {
                    let segment = Arc::clone(segment);
                    entry.users += 1;
                    let since = entry.idle_since;
                    table.idle.remove(&since);
                    return Some(segment);
                }
            } else if table.open < self.max {
                table.open += 1;
                table.entries.insert(instance, Entry::default());
                return None;
            } else if let Some((_, oldest)) = table.idle.pop_first() {
                let evicted = table.entries.remove(&oldest);
                table.entries.insert(instance, Entry::default());
                drop(table);
                drop(evicted);
                return None;
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lend(&self, segment: Arc<OpenSegment>, instance: Instance) -> Lease<'_> {
        Lease { segment, _back: GiveBack { files: self, instance } }
    }

    fn give_back(&self, instance: Instance) {
        let mut table = lock(&self.table);
        table.returns += 1;
        let now = table.returns;
        let Some(entry) = table.entries.get_mut(&instance) else { return };
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        if entry.forgotten {
            return self.close(table, instance);
        }
        entry.idle_since = now;
        table.idle.insert(now, instance);
        drop(table);
        self.changed.notify_all();
    }

    fn close(&self, mut table: MutexGuard<'_, Table>, instance: Instance) {
        let closed = table.entries.remove(&instance);
        drop(table);
        drop(closed);
        lock(&self.table).open -= 1;
        self.changed.notify_all();
    }
}

impl Deref for Lease<'_> {
    type Target = OpenSegment;

    fn deref(&self) -> &OpenSegment {
        &self.segment
    }
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.files.give_back(self.instance);
    }
}
