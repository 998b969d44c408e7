//! A filesystem so small that it can be filled up, seen by nobody else.
//!
//! It is mounted in a namespace of its own, held by a process of its own, and reached through that
//! process (`/proc/<pid>/root`). When the process ends, the kernel takes the mount away: nothing
//! can be left behind, however the test ends.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BALLAST: &str = "ballast";

/// A small filesystem.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Child,
    path: PathBuf,
    /// What kind of filesystem it is.
    pub kind: &'static str,
}

impl SmallDisk {
    /// Makes a filesystem of about so many MiB: `ext4` for root, else `tmpfs` where the system
    /// lets users have namespaces. `place` is a directory for it to use.
    ///
    /// # Errors
    /// What the system had against both.
    pub fn new(place: &Path, mebibytes: u32) -> Result<Self, String> {
        let image = place.join("image");
        let mount = place.join("mount");
        fs::create_dir_all(&mount).map_err(|error| error.to_string())?;
        let ext4 = format!(
            "truncate -s {mebibytes}M \"$0\" && mkfs.ext4 -q -F -m 0 \"$0\" && \
             mount -o loop \"$0\" \"$1\""
        );
        let tmpfs = format!("mount -t tmpfs -o size={mebibytes}m none \"$1\"");
        let tries: [(&'static str, &[&str], String); 2] = [
            ("ext4", &["--mount"], ext4),
            ("tmpfs", &["--mount", "--user", "--map-root-user"], tmpfs),
        ];
        let mut against = String::new();
        for (kind, namespace, mounting) in tries {
            match hold(namespace, &mounting, &image, &mount) {
                Ok(holder) => {
                    let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
                    let inside = mount.strip_prefix("/").unwrap_or(&mount);
                    return Ok(Self { path: root.join(inside), holder, kind });
                }
                Err(error) => against += &format!("{kind}: {error}. "),
            }
        }
        Err(against)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes every byte that is left.
    ///
    /// # Errors
    /// Whatever the operating system answers, except that there is no more space.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast =
            File::options().create(true).append(true).open(self.path.join(BALLAST))?;
        for piece in [1 << 20, 64 << 10, 4096, 512] {
            let bytes = vec![0xbb; piece];
            loop {
                match ballast.write_all(&bytes).and_then(|()| ballast.sync_data()) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Gives back what [`SmallDisk::fill`] took.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn relieve(&self) -> io::Result<()> {
        fs::remove_file(self.path.join(BALLAST))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// Starts the process that has the mount, and waits for it to say so. It ends with its stdin.
fn hold(namespace: &[&str], mounting: &str, image: &Path, mount: &Path) -> Result<Child, String> {
    let script = format!("{mounting} && echo mounted && read -r end");
    let mut holder = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", &script])
        .args([image, mount])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("unshare cannot be started: {error}"))?;
    let mut said = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).map_err(|error| error.to_string())?;
    }
    if said.trim() == "mounted" {
        return Ok(holder);
    }
    drop(holder.kill());
    let status = holder.wait().map_err(|error| error.to_string())?;
    Err(format!("not mounted, {status}"))
}
