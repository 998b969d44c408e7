//! What a server says that cannot start, through the real binary: no space, no rights. And who may
//! look into the directory of one that did.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use handoff_tests::fixture::DATA;
use handoff_tests::place::Place;
use handoff_tests::served::{Served, lair, program};
use handoff_tests::small_disk::SmallDisk;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Whoever this is has no rights that others do not have.
const NOBODY: u32 = 65_534;

/// A journal that fits a small disk.
const SMALL: [(&str, &str); 5] = [
    ("HANDOFF_LOG__JOURNAL_BYTES_MAX", "8MiB"),
    ("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB"),
    ("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "1MiB"),
    ("HANDOFF_LOG__CHANGE_BYTES_MAX", "4MiB"),
    ("HANDOFF_SERVER__DISK_FREE_MIN", "0"),
];

/// A server that is expected to end by itself.
fn serve(program: &Path, data_dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args([
        "serve",
        "--listen=127.0.0.1:0",
        "--events-listen=127.0.0.1:0",
        "--relay-listen=127.0.0.1:0",
        "--data-dir",
    ]);
    command.arg(data_dir).current_dir("/").env_clear().envs(SMALL).stdin(Stdio::null());
    command
}

#[track_caller]
fn refused(output: &Output, exit: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{said}");
    for words in words {
        assert!(said.contains(words), "{words} is not in: {said}");
    }
}

/// What is said when there is not a byte to write to.
fn refused_for_space(output: &Output, data_dir: &Path) {
    let path = data_dir.display().to_string();
    let words = ["is full", &path, "o space left", "free some space", "code: log.disk_full"];
    refused(output, 5, &words);
}

#[test]
fn a_full_disk_is_told_at_the_start_and_space_is_all_it_takes() {
    let place = Place::temporary().unwrap();
    let disk = SmallDisk::new(place.path(), 48)
        .unwrap_or_else(|against| panic!("this test needs root, or user namespaces: {against}"));
    let data_dir = disk.path().join(DATA);
    disk.fill().unwrap();
    let start = || serve(&program(), &data_dir).output().unwrap();
    refused_for_space(&start(), &data_dir);
    disk.relieve().unwrap();
    let mut lair = SMALL.iter().fold(lair(place.path()), |lair, (key, value)| lair.set(key, value));
    lair.data_dir.clone_from(&data_dir);
    Served::start(&lair).unwrap().stop().unwrap();
}

/// Starts a server as somebody who may not use a directory: as root that is nobody, and otherwise
/// whoever runs this test takes the rights from himself.
fn as_a_stranger(place: &Path, data_dir: &Path) -> Output {
    if !rustix::process::geteuid().is_root() {
        return serve(&program(), data_dir).output().unwrap();
    }
    // The way to the binary may be closed to others; the way to a copy is not.
    let copy = place.join("handoff");
    if !copy.exists() {
        fs::copy(program(), &copy).unwrap();
    }
    serve(&copy, data_dir).uid(NOBODY).gid(NOBODY).output().unwrap()
}

/// Root keeps what it has; anybody else is kept out by the mode.
fn close(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o500)).unwrap();
}

#[test]
fn a_directory_of_somebody_else_is_told_at_the_start() {
    let place = Place::temporary().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let words = ["cannot be used", "ermission denied", "chown", "--data-dir", "data.forbidden"];

    let parent = place.path().join("parent");
    fs::create_dir(&parent).unwrap();
    close(&parent);
    let below = parent.join(DATA);
    let path = below.display().to_string();
    refused(&as_a_stranger(place.path(), &below), 1, &[&words[..], &[&path]].concat());

    // One that was in use, by another user.
    let data_dir = place.path().join("used");
    let mut lair = SMALL.iter().fold(lair(place.path()), |lair, (key, value)| lair.set(key, value));
    lair.data_dir.clone_from(&data_dir);
    Served::start(&lair).unwrap().stop().unwrap();
    let path = data_dir.display().to_string();
    let mut closed = vec![data_dir.clone()];
    closed.extend(fs::read_dir(&data_dir).unwrap().map(|entry| entry.unwrap().path()));
    closed
        .iter()
        .for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap());
    let output = as_a_stranger(place.path(), &data_dir);
    let open = |path| fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    closed.iter().for_each(open);
    refused(&output, 1, &[&words[..], &[&path]].concat());
}

#[test]
fn a_single_file_of_somebody_else_is_named() {
    let place = Place::temporary().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let data_dir = place.path().join(DATA);
    let mut lair = SMALL.iter().fold(lair(place.path()), |lair, (key, value)| lair.set(key, value));
    lair.data_dir.clone_from(&data_dir);
    Served::start(&lair).unwrap().stop().unwrap();
    if rustix::process::geteuid().is_root() {
        give(&data_dir, NOBODY);
    }
    let journal = data_dir.join("journal");
    let file = fs::read_dir(&journal).unwrap().next().unwrap().unwrap().path();
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    let output = as_a_stranger(place.path(), &data_dir);
    let path = file.display().to_string();
    refused(&output, 1, &[&path, "ermission denied", "chown", "data.forbidden"]);
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), user));
    }
}

#[test]
fn nobody_else_may_look_into_the_data_directory() {
    let place = Place::temporary().unwrap();
    let served = Served::start(&lair(place.path())).unwrap();
    let data_dir = place.path().join(DATA);
    register(&served);
    let private = || {
        // Whatever is below is out of reach with it, and would not be where it is copied to.
        assert_eq!(mode(&data_dir), 0o700);
        let mut files = 0;
        every(&data_dir, &mut |path| {
            if path.is_file() {
                assert_eq!(mode(path), 0o600, "{}", path.display());
                files += 1;
            }
        });
        assert!(files > 2, "{files} files");
    };
    private();
    served.stop().unwrap();
    private();
}

/// So that there is a journal.
fn register(served: &Served) {
    let body = r#"{"version":1,"description":"x","periodSecs":3600}"#;
    let mut stream = TcpStream::connect(served.http).unwrap();
    write!(
        stream,
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn every(path: &Path, look: &mut impl FnMut(&Path)) {
    look(path);
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| every(&entry.unwrap().path(), look));
    }
}
