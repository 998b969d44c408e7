//! What only Linux offers.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`.
const MEMORY_FILESYSTEMS: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes everything on the root's filesystem durable.
pub(super) fn sync_tree(_root: &Path, root_dir: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(root_dir)?)
}

/// Moves a file to a name that nothing has.
pub(super) fn rename_new(root: &File, from: &str, to: &str) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(root, from, root, to, flags) {
        // Some filesystems know no such rename.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            super::rename_by_link(root, from, to)
        }
        other => Ok(other?),
    }
}

/// Begins to write a range. The kernel does so for pages it is told to free and cannot, because
/// they are not on disk yet; they stay.
pub(super) fn write_back(file: &File, range: Range<u64>) {
    let_go(file, range);
}

/// Frees the pages of a range that are on disk.
pub(super) fn let_go(file: &File, range: Range<u64>) {
    let Some(len) = NonZeroU64::new(range.end.saturating_sub(range.start)) else { return };
    // A hint may be refused; the pages are then freed when the kernel needs them.
    rustix::fs::fadvise(file, range.start, Some(len), rustix::fs::Advice::DontNeed)
        .unwrap_or_default();
}

pub(super) fn on_memory_filesystem(root_dir: &File) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(root_dir)?.f_type;
    // A magic number has 32 bits; the field is as wide as the machine's word and signed on most.
    let is = |magic: &u32| kind.to_le_bytes().starts_with(&magic.to_le_bytes());
    Ok(MEMORY_FILESYSTEMS.iter().any(is))
}

#[cfg(test)]
mod tests {
    use super::on_memory_filesystem;
    use std::fs::File;
    use std::path::Path;

    #[test]
    fn shared_memory_is_known_as_a_memory_filesystem_and_proc_is_not() {
        if Path::new("/dev/shm").exists() {
            assert!(on_memory_filesystem(&File::open("/dev/shm").unwrap()).unwrap());
        }
        assert!(!on_memory_filesystem(&File::open("/proc").unwrap()).unwrap());
    }
}
