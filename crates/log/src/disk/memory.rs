//! A disk that never fails.

use super::contents::{Contents, end_of};
use super::shared::Shared;
use super::tree::Tree;
use super::{Disk, File, Open, Walk};
use std::io;
use std::sync::Arc;

/// A disk in memory that never fails and forgets nothing until its last clone is dropped.
///
/// A clone is the same disk. It keeps the rules of a real one: a file needs its directory, and an
/// open handle follows its file through a rename and outlives its removal. Syncs do nothing; for
/// a disk on which they matter see [`super::Crash`].
#[derive(Clone, Debug, Default)]
pub struct Memory {
    tree: Shared<Tree<Shared<Contents>>>,
}

impl Memory {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds this.
    pub(super) fn over(tree: Tree<Shared<Contents>>) -> Self {
        Self { tree: Shared::new(tree) }
    }

    /// What the file holds, or `None` if there is no such file.
    #[must_use]
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.tree.lock().file(path).ok()?;
        let contents = file.lock().to_vec();
        Some(contents)
    }

    /// Replaces what the file holds, also for those who have it open. Makes the file and the
    /// directories above it if they are not there.
    ///
    /// # Errors
    /// As [`Disk::create_dir`] and [`Disk::open`].
    pub fn overwrite(&self, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let file = match tree.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = Shared::default();
                tree.create_dir(super::path::parent(path))?;
                tree.create_file(path, file.clone())?;
                file
            }
            found => found?,
        };
        *file.lock() = Contents::from(bytes.as_slice());
        Ok(())
    }

    /// The path of every file, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.tree.lock().files().map(|(path, _)| path.to_owned()).collect()
    }

    /// Another disk that holds the same and goes its own way from here. Costs little: the two
    /// share pages until one of them writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::over(self.tree.lock().map(|file| Shared::new(file.lock().clone())))
    }
}

impl Disk for Memory {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let mut tree = self.tree.lock();
        let contents = match how {
            Open::Read | Open::Write => tree.file(path)?,
            Open::Create => {
                let contents = Shared::default();
                tree.create_file(path, contents.clone())?;
                contents
            }
        };
        Ok(Arc::new(MemoryFile { contents, how }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.tree.lock().list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        Ok(Box::new(self.tree.lock().found(dir)?.into_iter().map(Ok)))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.tree.lock().create_dir(dir).map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.tree.lock().rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.tree.lock().rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.tree.lock().remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.tree.lock().remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.tree.lock().check_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    contents: Shared<Contents>,
    how: Open,
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.contents.lock().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.contents.lock().read_at(buffer, end_of(offset, 0)?))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.how.check_writable()?;
        let end = end_of(offset, bytes.len())?;
        self.contents.lock().write_at(bytes, end - bytes.len());
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.how.check_writable()?;
        self.contents.lock().set_len(end_of(len, 0)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, Memory, Open};

    #[test]
    fn a_fork_goes_its_own_way() {
        let disk = Memory::new();
        disk.overwrite("d/a", vec![1; 5000]).unwrap();
        let file = disk.open("d/a", Open::Write).unwrap();
        let fork = disk.fork();
        file.write_at(&[2], 0).unwrap();
        fork.remove("d/a").unwrap();
        fork.overwrite("b", vec![3]).unwrap();
        assert_eq!(disk.contents("d/a").unwrap()[..2], [2, 1]);
        assert_eq!(disk.paths(), ["d/a"]);
        assert_eq!(fork.paths(), ["b"]);
        assert_eq!(disk.contents("b"), None);
    }

    #[test]
    fn overwriting_is_seen_by_those_who_have_the_file_open() {
        let disk = Memory::new();
        disk.overwrite("a", vec![1; 3]).unwrap();
        let file = disk.open("a", Open::Read).unwrap();
        disk.overwrite("a", vec![2; 1]).unwrap();
        assert_eq!(file.len().unwrap(), 1);
    }
}
