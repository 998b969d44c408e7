//! The data directory: made once, used by one process, refused by name when it is not ours.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use handoff_log::directory::{DIRS, Directory, Error, Lock};
use handoff_log::disk::{Crash, Disk, Memory, When};
use handoff_types::{Code, Entropy};

fn open(memory: &Memory) -> Result<Directory, Error> {
    Directory::open(Arc::new(memory.clone()), Entropy(3))
}

#[test]
fn a_directory_keeps_its_id_and_has_its_parts() {
    let memory = Memory::new();
    let id = open(&memory).unwrap().id;
    assert_eq!(Directory::open(Arc::new(memory.clone()), Entropy(4)).unwrap().id, id);
    for dir in DIRS {
        memory.list(dir).unwrap();
    }
    let version = String::from_utf8(memory.contents("VERSION").unwrap()).unwrap();
    assert_eq!(version, format!("handoff data directory\nformat 1\nid {id:032x}\n"));
}

#[test]
fn a_newer_directory_is_refused_by_name() {
    let memory = Memory::new();
    memory.overwrite("VERSION", b"handoff data directory\nformat 2\nid 00\n".to_vec()).unwrap();
    let error = open(&memory).unwrap_err();
    assert_eq!(error.code(), Code::DirectoryNewer);
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn what_is_not_ours_is_refused_and_not_touched() {
    for version in [&b""[..], b"\xff\xfe", b"something else\n", b"handoff data directory\n"] {
        let memory = Memory::new();
        memory.overwrite("VERSION", version.to_vec()).unwrap();
        assert_eq!(open(&memory).unwrap_err().code(), Code::DirectoryUnreadable);
        assert_eq!(memory.paths(), ["VERSION"]);
    }
    let memory = Memory::new();
    memory.overwrite("journal/0000.journal", vec![1]).unwrap();
    let error = open(&memory).unwrap_err();
    assert_eq!(error.code(), Code::DirectoryUnreadable);
    assert!(error.to_string().contains("0000.journal"), "{error}");
}

#[test]
fn a_crash_while_a_directory_is_made_leaves_one_that_opens() {
    let plain = Crash::new();
    Directory::open(Arc::new(plain.clone()), Entropy(1)).unwrap();
    for n in 1..=plain.syncs() {
        for when in [When::Before, When::After] {
            for seed in 0..30 {
                let crash = Crash::new();
                crash.halt_at_sync(n, when);
                let first = Directory::open(Arc::new(crash.clone()), Entropy(1)).is_ok();
                let (end, _) = crash.crash(seed);
                let again = Directory::open(Arc::new(end), Entropy(2));
                assert!(again.is_ok(), "sync {n} {when:?} seed {seed}: {again:?}");
                assert!(!first || again.unwrap().id == plain_id(), "sync {n} seed {seed}");
            }
        }
    }
}

fn plain_id() -> u128 {
    Directory::open(Arc::new(Memory::new()), Entropy(1)).unwrap().id
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (directory, lock) = Directory::open_locked(dir.path(), Entropy(1)).unwrap();
    let error = Directory::open_locked(dir.path(), Entropy(1)).unwrap_err();
    assert_eq!(error.code(), Code::DirectoryInUse);
    let words = error.to_string();
    assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
    assert!(words.contains("--data-dir"), "{words}");
    drop((directory, lock));
    Directory::open_locked(dir.path(), Entropy(1)).map(drop).unwrap();
    Lock::take(dir.path()).map(drop).unwrap();
}
