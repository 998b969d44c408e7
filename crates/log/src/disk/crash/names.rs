//! The names as the medium has them, as the process sees them, and the way from one to the other.
//!
//! # What a crash may do to names
//!
//! * A creation, a rename or a removal is atomic, also between two directories, and durable once a
//!   directory it touches is synced. So a renamed file is under its old name or its new one.
//! * Those not yet durable survive each on its own, except that one survives only with the
//!   earlier ones that touch the same name: `x` is not renamed if it was never made.
//! * A rename into a directory survives only with that directory, for else the file would be lost.
//! * The removal of a directory survives only with all that had left it before, for else a file that
//!   is still in it would be lost.
//! * A directory that does not survive takes along what is in it, synced or not.

use super::super::path;
use super::super::tree::{Node, Tree};
use super::coverage::Coverage;
use super::survival::Survival;
use std::collections::BTreeSet;
use std::io;

/// The durable and the current names, and the changes between them.
#[derive(Debug)]
pub(super) struct Names<F> {
    durable: Tree<F>,
    current: Tree<F>,
    unsynced: Vec<Change<F>>,
}

#[derive(Clone, Debug)]
enum Change<F> {
    Create {
        path: String,
        node: Node<F>,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    /// With the names in it that changes before it are about.
    RemoveDir {
        path: String,
        inside: Vec<String>,
    },
}

/// What became of a change in a crash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Kept,
    Undone,
    /// Undone only because it builds on one that was.
    Dragged,
}

impl<F: Clone> Names<F> {
    /// Names of which all are durable.
    pub(super) fn synced(tree: Tree<F>) -> Self {
        Self { durable: tree.clone(), current: tree, unsynced: Vec::new() }
    }

    pub(super) fn current(&self) -> &Tree<F> {
        &self.current
    }

    pub(super) fn create_file(&mut self, path: &str, file: F) -> io::Result<()> {
        self.current.create_file(path, file.clone())?;
        self.unsynced.push(Change::Create { path: path.to_owned(), node: Node::File(file) });
        Ok(())
    }

    pub(super) fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        let made = self.current.create_dir(dir)?.into_iter();
        self.unsynced.extend(made.map(|path| Change::Create { path, node: Node::Dir }));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.current.rename(from, to)?;
        if from != to {
            self.unsynced.push(Change::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        self.current.remove(path)?;
        self.unsynced.push(Change::Remove { path: path.to_owned() });
        Ok(())
    }

    pub(super) fn rename_new(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.current.rename_new(from, to)?;
        self.unsynced.push(Change::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &str) -> io::Result<()> {
        self.current.remove_dir(dir)?;
        let names = self.unsynced.iter().flat_map(Change::names);
        let inside = names.filter(|name| path::parent(name) == dir).map(str::to_owned).collect();
        self.unsynced.push(Change::RemoveDir { path: dir.to_owned(), inside });
        Ok(())
    }

    /// Makes the names of one directory durable, with all that those changes build on.
    pub(super) fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        self.current.check_dir(dir)?;
        // Backwards, so that what a change builds on is known before it is reached.
        let mut needed = BTreeSet::new();
        let (mut synced, mut rest) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut self.unsynced).into_iter().rev() {
            let here = change.names().any(|name| path::parent(name) == dir);
            if here || change.names().any(|name| needed.contains(name)) {
                needed.extend(change.builds_on().map(str::to_owned));
                synced.push(change);
            } else {
                rest.push(change);
            }
        }
        self.unsynced.extend(rest.into_iter().rev());
        for change in synced.into_iter().rev() {
            change.apply(&mut self.durable);
        }
        Ok(())
    }

    pub(super) fn sync_all(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// The names a crash leaves.
    pub(super) fn survive(&self, survival: &mut Survival, coverage: &mut Coverage) -> Tree<F> {
        let mut tree = self.durable.clone();
        let mut undone = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(self.unsynced.len());
        for change in &self.unsynced {
            let outcome = if change.builds_on().any(|name| undone.contains(name)) {
                Outcome::Dragged
            } else if survival.name() {
                Outcome::Kept
            } else {
                Outcome::Undone
            };
            if outcome == Outcome::Kept {
                change.clone().apply(&mut tree);
            } else {
                undone.extend(change.names());
            }
            outcomes.push((change, outcome));
        }
        tree.prune();
        for (change, outcome) in outcomes {
            change.count(outcome, &tree, coverage);
        }
        tree
    }
}

impl<F: Clone> Change<F> {
    /// The names it changes.
    fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Create { path, .. } | Self::Remove { path } | Self::RemoveDir { path, .. } => {
                (path, None)
            }
            Self::Rename { from, to } => (from, Some(to.as_str())),
        };
        [Some(first.as_str()), second].into_iter().flatten()
    }

    /// The names that must be as they were when it was made.
    fn builds_on(&self) -> impl Iterator<Item = &str> {
        let into = match self {
            Self::Rename { from, to } if path::parent(from) != path::parent(to) => to,
            _ => "",
        };
        let inside = match self {
            Self::RemoveDir { inside, .. } => inside.as_slice(),
            _ => &[],
        };
        self.names().chain(path::ancestors(into)).chain(inside.iter().map(String::as_str))
    }

    fn apply(self, tree: &mut Tree<F>) {
        match self {
            Self::Create { path, node } => tree.put(&path, node),
            Self::Rename { from, to } => {
                if let Some(node) = tree.take(&from) {
                    tree.put(&to, node);
                }
            }
            Self::Remove { path } | Self::RemoveDir { path, .. } => drop(tree.take(&path)),
        }
    }

    fn count(&self, outcome: Outcome, left: &Tree<F>, coverage: &mut Coverage) {
        let kept = outcome == Outcome::Kept;
        let undone = outcome == Outcome::Undone;
        let has_dir = |path: &str| left.check_dir(path::parent(path)).is_ok();
        let has_file = |path: &str| left.file(path).is_ok();
        match self {
            Self::Create { path, .. } => {
                coverage.creations_undone += u64::from(!kept || !has_dir(path));
            }
            Self::Rename { from, to } => {
                coverage.renames_kept += u64::from(kept && has_dir(to));
                coverage.renames_undone += u64::from(undone && has_file(from));
            }
            // That a directory is there again nobody misses.
            Self::RemoveDir { .. } => {}
            Self::Remove { path } => {
                coverage.removals_undone += u64::from(undone && has_file(path));
            }
        }
    }
}
