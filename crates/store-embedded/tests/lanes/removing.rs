//! Lanes that go: piece by piece, or as a whole.

use std::sync::Arc;
use std::time::Duration;

use handoff_log::disk::{Disk, Memory};
use handoff_log::segments::{Lane, Read};
use handoff_store_embedded::{Called, Retained};
use handoff_types::Wall;

use crate::lines::Command;
use crate::server::{Server, bodies};

#[test]
fn what_may_go_is_said_without_taking_it_away() {
    let mut server = Server::open(Arc::new(Memory::new()));
    for _ in 0..40 {
        server.write(1, 1, &[7; 1000]);
    }
    server.move_all();
    let lanes = server.host.lanes();
    let bytes = lanes.bytes(Lane(1)).unwrap();
    let all = Retained { below: 0, bytes };
    assert_eq!(lanes.retained(Lane(1), None, None).unwrap(), all);
    assert_eq!(lanes.retained(Lane(1), Some(bytes), None).unwrap(), all);
    let by_bytes = lanes.retained(Lane(1), Some(10_000), None).unwrap();
    assert!(by_bytes.below >= 21 && by_bytes.bytes >= 10_000, "{by_bytes:?}");
    let by_age = lanes.retained(Lane(1), None, Some(Wall(200))).unwrap();
    assert!((12..20).contains(&by_age.below), "{by_age:?}");
    assert_eq!(lanes.bytes(Lane(1)).unwrap(), bytes, "nothing has gone yet");
    assert_eq!(lanes.trim(Lane(1), by_bytes.below).unwrap(), by_bytes.below);
    assert_eq!(lanes.bytes(Lane(1)).unwrap(), by_bytes.bytes);
    let start = by_bytes.below;
    let reader = server.host.reader();
    assert_eq!(reader.read(Lane(1), 0, 0).unwrap(), Read::Trimmed { start });
}

/// A topic is deleted while its messages are appended, durable, copied and synced, all at once.
#[test]
fn a_removed_lane_is_gone_wherever_its_bodies_were_and_the_others_stay() {
    let mut server = Server::open(Arc::new(Memory::new()));
    server.append(&[(1, 1, b"synced"), (2, 1, b"synced")]);
    server.journal.commit().unwrap();
    server.move_all();
    server.append(&[(1, 1, b"copied"), (2, 1, b"copied")]);
    server.journal.commit().unwrap();
    server.host.bulk().copy(1).unwrap();
    server.append(&[(1, 1, b"durable"), (2, 1, b"durable")]);
    server.append(&[(1, 1, b"only")]);
    server.journal.commit().unwrap();
    server.append(&[(1, 1, b"expected"), (2, 1, b"expected")]);
    server.apply(&Command::Close(vec![1]), 0);
    server.host.lanes().remove(&[Lane(1)]);
    server.journal.commit().unwrap();
    server.move_all();
    let reader = server.host.reader();
    assert_eq!(reader.read(Lane(1), 0, 0).unwrap(), Read::End { end: 0 });
    assert_eq!(server.host.lanes().on_disk().unwrap(), [Lane(2)]);
    let words = ["synced", "copied", "durable", "expected"];
    assert_eq!(bodies(&reader, 2, 0, 1 << 20), words);
    server.checkpoint().unwrap();
    assert_eq!(bodies(&reader, 2, 0, 1 << 20), words);
}

#[test]
fn the_mover_is_called_to_remove_a_lane() {
    let mut server = Server::open(Arc::new(Memory::new()));
    server.write(1, 1, b"hello");
    server.move_all();
    let mut moving = server.host.bulk().take_moving().unwrap();
    server.host.lanes().remove(&[Lane(1)]);
    assert_eq!(moving.wait(Duration::from_secs(3600)), Called::Enough);
    assert!(!moving.copy_some().unwrap());
    assert_eq!(server.host.lanes().on_disk().unwrap(), []);
}

/// The journal brings back the moves of a lane that was closed behind them. They are not made, or a
/// lane would be there that nobody knows.
#[test]
fn replay_brings_no_lane_back_that_the_state_does_not_know() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.append(&[(1, 1, b"gone"), (2, 1, b"stays")]);
    server.write(1, 1, b"gone too");
    server.apply(&Command::Close(vec![1]), 0);
    server.journal.commit().unwrap();
    drop(server);
    let mut again = Server::open(Arc::new(disk));
    again.move_all();
    assert_eq!(again.host.lanes().on_disk().unwrap(), [Lane(2)]);
    assert_eq!(bodies(&again.host.reader(), 2, 0, 0), ["stays"]);
    again.checkpoint().unwrap();
}

/// The process died between the decision and the removal of the files.
#[test]
fn lanes_on_disk_that_the_state_does_not_know_are_found_and_removed() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.write(1, 1, b"gone");
    server.write(2, 1, b"stays");
    server.move_all();
    server.apply(&Command::Close(vec![1]), 0);
    server.journal.commit().unwrap();
    drop(server);
    let mut again = Server::open(Arc::new(disk.clone()));
    let strays = again.host.strays().unwrap();
    assert_eq!(strays, [Lane(1)]);
    again.host.lanes().remove(&strays);
    again.move_all();
    assert_eq!(again.host.strays().unwrap(), []);
    assert_eq!(disk.list("segments/0000000000000001").unwrap(), Vec::<String>::new());
    assert_eq!(bodies(&again.host.reader(), 2, 0, 0), ["stays"]);
}
