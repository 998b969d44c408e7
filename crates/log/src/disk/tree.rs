//! Names and what they stand for, with the rules of a real filesystem.

use super::{Found, FoundWhat, path};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A directory tree whose files are `F`. The root is there from the start and has no entry.
#[derive(Clone, Debug)]
pub(super) struct Tree<F> {
    nodes: BTreeMap<String, Node<F>>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Node<F> {
    Dir,
    File(F),
}

impl<F> Default for Tree<F> {
    fn default() -> Self {
        Self { nodes: BTreeMap::new() }
    }
}

impl<F: Clone> Tree<F> {
    pub(super) fn file(&self, path: &str) -> io::Result<F> {
        path::check_file(path)?;
        self.check_above(path)?;
        match self.nodes.get(path) {
            Some(Node::File(file)) => Ok(file.clone()),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn create_file(&mut self, path: &str, file: F) -> io::Result<()> {
        path::check_file(path)?;
        self.check_above(path)?;
        if self.nodes.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put(path, Node::File(file));
        Ok(())
    }

    /// Makes a directory and those above it, and returns those that were not there, outermost
    /// first.
    pub(super) fn create_dir(&mut self, dir: &str) -> io::Result<Vec<String>> {
        path::check_dir(dir)?;
        let mut missing = Vec::new();
        for above in path::ancestors(dir) {
            match self.nodes.get(above) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => missing.push(above.to_owned()),
            }
        }
        match self.nodes.get(dir) {
            Some(Node::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            None if !dir.is_empty() => missing.push(dir.to_owned()),
            _ => {}
        }
        for dir in &missing {
            self.put(dir, Node::Dir);
        }
        Ok(missing)
    }

    pub(super) fn check_dir(&self, dir: &str) -> io::Result<()> {
        path::check_dir(dir)?;
        self.check_above(dir)?;
        match self.nodes.get(dir) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None if dir.is_empty() => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.check_dir(dir)?;
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        Ok(self
            .nodes
            .range(prefix.clone()..)
            .map_while(|(path, _)| path.strip_prefix(prefix.as_str()))
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect())
    }

    /// The names in a directory with what they stand for.
    pub(super) fn found(&self, dir: &str) -> io::Result<Vec<Found>> {
        let path =
            |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        let what = |name: &str| match self.nodes.get(&path(name)) {
            Some(Node::Dir) => FoundWhat::Dir,
            _ => FoundWhat::File,
        };
        let names = self.list(dir)?;
        Ok(names.into_iter().map(|name| Found { what: what(&name), name }).collect())
    }

    pub(super) fn rename_new(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.file(from)?;
        path::check_file(to)?;
        self.check_above(to)?;
        if self.nodes.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    pub(super) fn remove_dir(&mut self, dir: &str) -> io::Result<()> {
        path::check_file(dir)?;
        self.check_dir(dir)?;
        if !self.list(dir)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.take(dir);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.file(from)?;
        path::check_file(to)?;
        self.check_above(to)?;
        if matches!(self.nodes.get(to), Some(Node::Dir)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.take(from);
        self.put(to, Node::File(file));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        self.file(path)?;
        self.take(path);
        Ok(())
    }

    /// Every file with its path, in the order of the paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &F)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::File(file) => Some((path.as_str(), file)),
            Node::Dir => None,
        })
    }

    /// The same names over other files.
    pub(super) fn map<G>(&self, mut file: impl FnMut(&F) -> G) -> Tree<G> {
        let nodes = self.nodes.iter().map(|(path, node)| {
            let node = match node {
                Node::Dir => Node::Dir,
                Node::File(old) => Node::File(file(old)),
            };
            (path.clone(), node)
        });
        Tree { nodes: nodes.collect() }
    }

    /// Puts a name without asking whether its directory is there.
    pub(super) fn put(&mut self, path: &str, node: Node<F>) {
        self.nodes.insert(path.to_owned(), node);
    }

    /// Takes a name away without asking what it stands for.
    pub(super) fn take(&mut self, path: &str) -> Option<Node<F>> {
        self.nodes.remove(path)
    }

    /// Takes away what lies in a directory that is not there.
    pub(super) fn prune(&mut self) {
        let mut dirs = BTreeSet::from([String::new()]);
        // A directory sorts before what is in it.
        self.nodes.retain(|path, node| {
            let reachable = dirs.contains(path::parent(path));
            if reachable && matches!(node, Node::Dir) {
                dirs.insert(path.clone());
            }
            reachable
        });
    }

    fn check_above(&self, path: &str) -> io::Result<()> {
        path::ancestors(path).try_for_each(|above| match self.nodes.get(above) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}
