//! The data directory: is it there, is it ours, may we write, is it somewhere sensible, and who
//! has it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handoff_log::directory::{DIRS, Directory as Opened, Error, Lock};
use handoff_log::disk::Real;
use handoff_types::Entropy;
use rustix::fs::{Access, FlockOperation};

use super::looking::Looking;
use super::{Finding, Verdict};

const CHECK: &str = "data directory";
const LOCK: &str = "lock";

/// A data directory that was looked at.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What was found.
    pub(super) findings: Vec<Finding>,
    /// It, to read from, if it is ours.
    pub(super) opened: Option<Opened>,
    /// Who has it, if not us.
    pub(super) holder: Option<String>,
    /// Nobody else uses it while this lives.
    lock: Option<Guard>,
}

/// How others are kept out.
#[derive(Debug)]
enum Guard {
    /// By the lock that a server takes.
    #[expect(dead_code, reason = "held, not looked at")]
    Own(Lock),
    /// By a lock beside which none of those can be.
    #[expect(dead_code, reason = "held, not looked at")]
    Shared(fs::File),
}

impl Directory {
    /// Looks at a directory, and keeps others out if nobody is in.
    pub(crate) fn look(path: &Path) -> Self {
        let mut looked = Self {
            path: path.to_owned(),
            findings: Vec::new(),
            opened: None,
            holder: None,
            lock: None,
        };
        looked.look_around();
        looked
    }

    /// Whether it is ours alone, to write.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.lock, Some(Guard::Own(_)))
    }

    /// Whether nobody changes it while it is read.
    pub(super) fn is_quiet(&self) -> bool {
        self.lock.is_some()
    }

    /// Why it is not held, in words.
    pub(crate) fn obstacle(&self) -> String {
        let Some(holder) = &self.holder else {
            let failed =
                |finding: &&Finding| matches!(finding.verdict, Verdict::Fail | Verdict::Skip);
            let why = self.findings.iter().find(failed).or(self.findings.first());
            return why.map(|finding| finding.what.clone()).unwrap_or_default();
        };
        format!("it is in use by {holder}")
    }

    /// Whether a server, or somebody else, uses it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.holder.is_some()
    }

    fn look_around(&mut self) {
        let shown = self.path.display().to_string();
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.findings.push(self.missing());
                return;
            }
            Err(error) => {
                let what = format!("{shown} cannot be looked at: {error}");
                self.findings.push(Finding::fail(CHECK, what, "check the path and the rights"));
                return;
            }
        };
        if !found.is_dir() {
            let what = format!("{shown} is no directory");
            self.findings.push(Finding::fail(CHECK, what, "name another with --data-dir"));
            return;
        }
        if !self.path.join("VERSION").exists() {
            self.findings.push(self.empty());
            self.findings.extend(self.place());
            return;
        }
        match self.open() {
            Ok(opened) => {
                let what = format!("{shown} is a data directory with id {:032x}", opened.id);
                self.findings.push(Finding::ok(CHECK, what));
                self.opened = Some(opened);
            }
            Err(error) => {
                let what = format!("{shown}: {error}");
                self.findings.push(Finding::fail(CHECK, what, error.code().remedy()));
            }
        }
        self.findings.push(self.rights(&found));
        self.findings.extend(self.parts(&found));
        self.findings.extend(self.place());
        if self.opened.is_some() {
            self.take_lock();
        }
    }

    fn open(&self) -> Result<Opened, Error> {
        let fault = |fault| Error::Disk { path: self.path.display().to_string(), fault };
        let disk = Real::new(&self.path).map_err(fault)?;
        // No dice are needed: whatever they would be for is not written.
        Opened::open(Arc::new(Looking(Arc::new(disk))), Entropy(0))
    }

    fn missing(&self) -> Finding {
        let shown = self.path.display();
        let home = self.nearest();
        if may_write(&home) {
            return Finding::ok(CHECK, format!("{shown} is not there yet; `serve` makes it"));
        }
        let what = format!("{shown} is not there, and {} cannot be written", home.display());
        Finding::fail(
            CHECK,
            what,
            "make it and give it to this user, or name another with --data-dir",
        )
    }

    fn empty(&self) -> Finding {
        let shown = self.path.display();
        let names = fs::read_dir(&self.path).map(|entries| entries.flatten().count());
        match names {
            Ok(0) if may_write(&self.path) => {
                Finding::ok(CHECK, format!("{shown} is empty; `serve` makes it a data directory"))
            }
            Ok(0) => {
                let what = format!("{shown} is empty and cannot be written by this user");
                Finding::fail(CHECK, what, "give it to the user that runs the server")
            }
            Ok(_) => {
                let what =
                    format!("{shown} has no VERSION and is not empty: it is not one of ours");
                Finding::warn(CHECK, what, "check --data-dir; a data directory is best alone")
            }
            Err(error) => {
                let what = format!("{shown} cannot be listed: {error}");
                Finding::fail(CHECK, what, "give this user the right to read it")
            }
        }
    }

    fn rights(&self, found: &fs::Metadata) -> Finding {
        const CHECK: &str = "rights";
        let unwritable = |dir: &&str| {
            let path = self.path.join(dir);
            path.exists() && !may_write(&path)
        };
        let shut: Vec<&str> = DIRS.into_iter().filter(unwritable).collect();
        if !may_write(&self.path) || !shut.is_empty() {
            let what = format!("this user cannot write {} {}", self.path.display(), shut.join(" "));
            let remedy = "chown it to the user that runs the server";
            return Finding::fail(CHECK, what.trim_end(), remedy);
        }
        let me = rustix::process::geteuid().as_raw();
        if found.uid() != me {
            let what = format!("it belongs to user {} and this is user {me}", found.uid());
            return Finding::warn(
                CHECK,
                what,
                "run the server as its owner, or files of two users mix",
            );
        }
        Finding::ok(CHECK, "this user owns it and may write")
    }

    /// Whether all of it is on one filesystem.
    fn parts(&self, found: &fs::Metadata) -> Option<Finding> {
        let other = DIRS.into_iter().find(|dir| {
            fs::metadata(self.path.join(dir)).is_ok_and(|part| part.dev() != found.dev())
        })?;
        let what = format!("{other}/ is on another filesystem than the rest");
        Some(Finding::fail(
            "filesystem",
            what,
            "keep the data directory on one: one sync must cover it",
        ))
    }

    /// What kind of filesystem it is, and whether somebody tidies up there.
    fn place(&self) -> Vec<Finding> {
        const CHECK: &str = "filesystem";
        let mut findings = Vec::new();
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let temporary = ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|tmp| path.starts_with(tmp));
        if temporary {
            let what = format!("{} is a temporary place, which others tidy up", path.display());
            findings.push(Finding::warn(CHECK, what, "choose another with --data-dir"));
        }
        match filesystem(&path) {
            Some(Place::Disk(name)) => findings.push(Finding::ok(CHECK, name)),
            Some(Place::Memory(name)) => {
                let what = format!("{name} keeps everything in memory: a reboot empties it");
                findings.push(Finding::warn(CHECK, what, "choose a directory on a disk"));
            }
            Some(Place::Network(name)) => {
                let what =
                    format!("{name} comes over a network: locks and syncs may not hold there");
                findings.push(Finding::warn(CHECK, what, "choose a directory on a local disk"));
            }
            Some(Place::Layer) => {
                let what = "it is in a container's own layer, which goes with the container";
                findings.push(Finding::warn(CHECK, what, "mount a volume there"));
            }
            None => {}
        }
        findings
    }

    fn take_lock(&mut self) {
        if !may_write(&self.path) {
            return self.share_lock();
        }
        match Lock::take(&self.path) {
            Ok(lock) => {
                self.findings.push(Finding::ok(LOCK, "nobody uses the directory"));
                self.lock = Some(Guard::Own(lock));
            }
            Err(Error::InUse { holder, .. }) => self.in_use(holder),
            Err(error) => {
                let remedy = error.code().remedy();
                self.findings.push(Finding::fail(LOCK, error.to_string(), remedy));
            }
        }
    }

    /// Keeps others out without the right to write: a shared lock stands against their own.
    fn share_lock(&mut self) {
        let path = self.path.join("LOCK");
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                let what = format!("{} cannot be read: {error}", path.display());
                self.findings.push(Finding::skip(LOCK, what));
                return;
            }
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                self.findings.push(Finding::ok(LOCK, "nobody uses the directory"));
                self.lock = Some(Guard::Shared(file));
            }
            Err(_) => self.in_use(fs::read_to_string(&path).unwrap_or_default()),
        }
    }

    fn in_use(&mut self, holder: String) {
        let holder = match holder.trim() {
            "" => "another process".to_owned(),
            holder => holder.to_owned(),
        };
        self.findings.push(Finding::ok(LOCK, format!("in use by {holder}")));
        self.holder = Some(holder);
    }

    /// Lets others in again.
    pub(super) fn release(&mut self) {
        self.lock = None;
    }

    /// The directory, or the nearest above it that is there.
    pub(super) fn nearest(&self) -> PathBuf {
        let whole = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        whole
            .ancestors()
            .find(|path| path.is_dir())
            .map_or_else(|| PathBuf::from("/"), Path::to_owned)
    }
}

/// Whether this user may make files in a directory.
pub(super) fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

enum Place {
    Disk(String),
    Memory(&'static str),
    Network(&'static str),
    Layer,
}

/// The filesystem of a path, by the magic numbers of `statfs(2)`.
#[cfg(target_os = "linux")]
fn filesystem(path: &Path) -> Option<Place> {
    let found = rustix::fs::statfs(path).ok()?;
    // The type's width differs between architectures; the numbers have 32 bits.
    let magic = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
    Some(match magic {
        0x0102_1994 => Place::Memory("tmpfs"),
        0x8584_58f6 => Place::Memory("ramfs"),
        0x6969 => Place::Network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Place::Network("SMB"),
        0x0102_1997 => Place::Network("9p"),
        0x00c3_6400 => Place::Network("Ceph"),
        0x6573_5546 => Place::Network("FUSE"),
        0x794c_7630 => Place::Layer,
        0xef53 => Place::Disk("ext4 (or ext2, ext3)".to_owned()),
        0x5846_5342 => Place::Disk("XFS".to_owned()),
        0x9123_683e => Place::Disk("btrfs".to_owned()),
        0x2fc1_2fc1 => Place::Disk("ZFS".to_owned()),
        0xf2f5_2010 => Place::Disk("F2FS".to_owned()),
        other => Place::Disk(format!("a filesystem with number {other:#x}")),
    })
}

#[cfg(not(target_os = "linux"))]
fn filesystem(_: &Path) -> Option<Place> {
    None
}

#[cfg(test)]
mod tests {
    use super::{Directory, Error, Lock};
    use handoff_log::directory::Directory as Opened;
    use handoff_types::Entropy;

    #[test]
    fn whoever_may_not_write_still_sees_who_is_in_and_keeps_others_out() {
        let dir = tempfile::tempdir().unwrap();
        let (_, lock) = Opened::open_locked(dir.path(), Entropy(1)).unwrap();
        let mut looked = Directory::look(dir.path());
        let me = format!("process {}", std::process::id());
        assert!(looked.is_in_use() && looked.obstacle().contains(&me), "{looked:?}");
        looked.holder = None;
        looked.share_lock();
        assert!(looked.is_in_use() && !looked.is_quiet(), "{looked:?}");

        drop(lock);
        looked.holder = None;
        looked.share_lock();
        assert!(looked.is_quiet() && !looked.is_held() && !looked.is_in_use(), "{looked:?}");
        assert!(matches!(Lock::take(dir.path()), Err(Error::InUse { .. })));
        looked.release();
        assert!(Lock::take(dir.path()).is_ok());
    }
}
