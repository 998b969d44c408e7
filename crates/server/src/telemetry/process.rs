//! What the kernel knows of this process.

/// Resident memory, open files, and how many may be open. What cannot be learnt is absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) resident: Option<u64>,
    pub(super) files: Option<u64>,
    pub(super) files_max: Option<u64>,
}

impl Process {
    pub(super) fn look() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self { resident: resident(), files: files(), files_max: limit }
    }
}

/// procfs answers from memory: this does not wait for a disk.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn files() -> Option<u64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is the directory that was just read.
    u64::try_from(count).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_knows_what_it_uses() {
        let process = Process::look();
        assert!(process.resident.unwrap() > 100_000);
        assert!(process.files.unwrap() >= 3);
    }
}
