//! What any Unix offers in place of what only Linux does.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Makes everything below `root` durable, one file at a time: `sync(2)` may return before the
/// data is on the medium, and reports no failure.
pub(super) fn sync_tree(root: &Path, root_dir: &File) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let file = match File::open(&path) {
            // Removed since it was listed: nothing to keep.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        if file.metadata()?.is_dir() {
            sync_tree(&path, &file)?;
        } else {
            file.sync_all()?;
        }
    }
    root_dir.sync_all()
}

#[cfg(not(target_os = "linux"))]
pub(super) use super::rename_by_link as rename_new;

/// Left to the kernel: not every system has a call for it.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled here only to test the rest"))]
pub(super) fn write_back(_file: &File, _range: Range<u64>) {}

/// Left to the kernel: not every system has a call for it.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled here only to test the rest"))]
pub(super) fn let_go(_file: &File, _range: Range<u64>) {}

/// Not asked of other systems: a data directory on a memory disk is a habit of Linux containers.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled here only to test the rest"))]
pub(super) fn on_memory_filesystem(_root_dir: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::sync_tree;
    use std::fs::{self, File};

    #[test]
    fn syncing_file_by_file_walks_the_whole_tree() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/c"), b"x").unwrap();
        sync_tree(dir.path(), &File::open(dir.path()).unwrap()).unwrap();
    }
}
