//! The operating system's disk.
//!
//! # What is durable when
//!
//! * [`File::sync`] is `fdatasync`, which also writes the length; on Apple systems the standard
//!   library makes it `F_FULLFSYNC`, because `fsync` there leaves the data in the drive's cache.
//! * [`Disk::sync_dir`] is `fsync` of the directory (`F_FULLFSYNC` likewise).
//! * [`Disk::rename_new`] is `renameat2(RENAME_NOREPLACE)` on Linux, elsewhere a hard link and the
//!   removal of the old name: a crash between them leaves the file under both.
//! * [`Disk::sync_all`] is `syncfs` on Linux: one journal commit and one flush of the drive for all
//!   files together. It reports a failed write-back since Linux 5.8, once per open descriptor, so
//!   the root stays open for as long as the disk lives and no failure between two calls is missed.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use portable as platform;

use super::{Disk, File, Found, FoundWhat, Open, Walk, path};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Files are read and written by nobody but their owner.
const FOR_THE_OWNER: Mode = Mode::from_raw_mode(0o600);

/// A link is never followed to a file that is not ours, and a pipe is not waited for.
const OPEN_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A directory of the operating system as a [`Disk`].
#[derive(Debug)]
pub struct Real {
    root: PathBuf,
    root_dir: fs::File,
}

impl Real {
    /// Opens the tree below `root`. Makes the directory if it is not there, and its name durable:
    /// a data directory that vanishes in a crash takes everything synced in it along.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        create_durably(&root)?;
        let root_dir = open_dir(&root)?;
        Ok(Self { root, root_dir })
    }

    /// The directory this disk lives in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many bytes this process may still write to the filesystem of the root.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.root_dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Whether the root lies on a filesystem that a reboot empties, where no sync means anything.
    /// Knows `tmpfs` and `ramfs` on Linux; says `false` elsewhere.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn on_memory_filesystem(&self) -> io::Result<bool> {
        platform::on_memory_filesystem(&self.root_dir)
    }

    /// Whether the root and the directories in it named by `dirs` lie on one filesystem. If not,
    /// a rename between them fails and [`Disk::sync_all`] does not reach all of them.
    ///
    /// # Errors
    /// `NotFound` if one is not there; else whatever the operating system answers.
    pub fn same_filesystem(&self, dirs: &[&str]) -> io::Result<bool> {
        let device = self.root_dir.metadata()?.dev();
        for dir in dirs {
            if fs::metadata(self.dir_path(dir)?)?.dev() != device {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn file_path(&self, path: &str) -> io::Result<PathBuf> {
        path::check_file(path)?;
        Ok(self.root.join(path))
    }

    fn dir_path(&self, dir: &str) -> io::Result<PathBuf> {
        path::check_dir(dir)?;
        // Joining the empty path would add a slash, and `root/` is not the same to each call.
        Ok(if dir.is_empty() { self.root.clone() } else { self.root.join(dir) })
    }
}

impl Disk for Real {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        path::check_file(path)?;
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // From the root on: what is above it need not be looked up for every file.
        let opened = rustix::io::retry_on_intr(|| {
            rustix::fs::openat(&self.root_dir, path, flags | OPEN_FLAGS, FOR_THE_OWNER)
        });
        let file = match opened {
            Ok(file) => fs::File::from(file),
            Err(Errno::LOOP) => return Err(no_file()),
            Err(error) => return Err(error.into()),
        };
        // What was made just now is a file.
        if how == Open::Create {
            return Ok(Arc::new(RealFile(file)));
        }
        // A directory can be opened for reading; it would fail at the first read instead.
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Err(no_file());
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.dir_path(dir)?)? {
            let name = entry?.file_name().into_string().map_err(|name| {
                let text = format!("not a name of ours, not UTF-8: {}", name.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?;
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        let entries = fs::read_dir(self.dir_path(dir)?)?;
        Ok(Box::new(entries.map(|entry| {
            let entry = entry?;
            let kind = entry.file_type()?;
            let (name, is_text) = match entry.file_name().into_string() {
                Ok(name) => (name, true),
                Err(name) => (name.display().to_string(), false),
            };
            let what = match is_text {
                true if kind.is_file() => FoundWhat::File,
                true if kind.is_dir() => FoundWhat::Dir,
                _ => FoundWhat::Other,
            };
            Ok(Found { name, what })
        })))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        fs::create_dir_all(self.dir_path(dir)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let from = self.file_path(from)?;
        let to = self.file_path(to)?;
        if fs::symlink_metadata(&from)?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        path::check_file(from)?;
        path::check_file(to)?;
        let what = rustix::fs::statat(&self.root_dir, from, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(what.st_mode).is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        platform::rename_new(&self.root_dir, from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.file_path(path)?)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        path::check_file(dir)?;
        fs::remove_dir(self.dir_path(dir)?)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        open_dir(&self.dir_path(dir)?)?.sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        platform::sync_tree(&self.root, &self.root_dir)
    }
}

#[derive(Debug)]
struct RealFile(fs::File);

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write_back(&self, range: Range<u64>) {
        platform::write_back(&self.0, range);
    }

    fn let_go(&self, range: Range<u64>) {
        platform::let_go(&self.0, range);
    }
}

/// What is neither a file nor a directory is never used.
fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Makes a directory and those above it, and the names of those it made durable.
fn create_durably(dir: &Path) -> io::Result<()> {
    // The parent of a relative `data` would be the empty path, which nothing can open.
    let dir = std::path::absolute(dir)?;
    let made = dir.ancestors().take_while(|above| !above.exists()).count();
    // What is inside is nobody else's: messages of all tokens, and what tokens are known by.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    dir.ancestors().skip(1).take(made).try_for_each(|above| open_dir(above)?.sync_all())
}

/// Moves a file to a name that nothing has, where the system cannot: a link fails if the name is taken.
fn rename_by_link(root: &fs::File, from: &str, to: &str) -> io::Result<()> {
    rustix::fs::linkat(root, from, root, to, AtFlags::empty())?;
    Ok(rustix::fs::unlinkat(root, from, AtFlags::empty())?)
}

fn open_dir(dir: &Path) -> io::Result<fs::File> {
    let file = fs::File::open(dir)?;
    if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

#[cfg(test)]
mod tests {
    use super::{Disk, FoundWhat, Open, Real};
    use std::io::ErrorKind;

    #[test]
    fn makes_the_root_and_those_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        let disk = Real::new(&root).unwrap();
        assert_eq!(disk.root(), root);
        disk.create_dir("c").unwrap();
        assert_eq!(Real::new(&root).unwrap().list("").unwrap(), ["c"]);
    }

    #[test]
    fn a_file_cannot_be_the_root() {
        let file = tempfile::NamedTempFile::new().unwrap();
        Real::new(file.path()).unwrap_err();
        Real::new(file.path().join("below")).unwrap_err();
    }

    #[test]
    fn knows_its_filesystem() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Real::new(dir.path()).unwrap();
        disk.create_dir("a").unwrap();
        assert!(disk.free_bytes().unwrap() > 0);
        assert!(disk.same_filesystem(&["", "a"]).unwrap());
        assert_eq!(disk.same_filesystem(&["b"]).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.same_filesystem(&["../b"]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_rename_by_link_takes_no_name_that_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::File::open(dir.path()).unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, b"a").unwrap();
        std::fs::write(&b, b"b").unwrap();
        let refused = super::rename_by_link(&root, "a", "b").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&b).unwrap(), b"b");
        std::fs::remove_file(&b).unwrap();
        super::rename_by_link(&root, "a", "b").unwrap();
        assert_eq!((std::fs::read(&b).unwrap().as_slice(), a.exists()), (&b"a"[..], false));
    }

    #[test]
    fn a_link_is_not_followed_and_a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink("secret", dir.path().join("link")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status();
        let disk = Real::new(dir.path()).unwrap();
        assert_eq!(disk.open("link", Open::Read).unwrap_err().kind(), ErrorKind::InvalidInput);
        let what = |name: &str| {
            let mut found = disk.walk("").unwrap().map(Result::unwrap);
            found.find(|found| found.name == name).map(|found| found.what)
        };
        assert_eq!(what("link"), Some(FoundWhat::Other));
        assert_eq!(what("secret"), Some(FoundWhat::File));
        if pipe.is_ok_and(|status| status.success()) {
            assert_eq!(disk.open("pipe", Open::Read).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(what("pipe"), Some(FoundWhat::Other));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_filesystem_below_the_root_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", dir.path().join("elsewhere")).unwrap();
        let disk = Real::new(dir.path()).unwrap();
        assert!(!disk.same_filesystem(&["elsewhere"]).unwrap());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_text_is_reported_and_not_skipped() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff")), b"").unwrap();
        let error = Real::new(dir.path()).unwrap().list("").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let found: Vec<_> = Real::new(dir.path()).unwrap().walk("").unwrap().collect();
        assert!(matches!(&found[..], [Ok(found)] if found.what == FoundWhat::Other), "{found:?}");
    }
}
