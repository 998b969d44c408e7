//! Bodies on their way to segments.

use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Disk, Faulty, Memory, Open};
use handoff_log::segments::Lane;
use handoff_store_embedded::BulkError;

use crate::server::Server;
use crate::tally::frame;

const SEGMENTS: &str = "segments/0000000000000001";

#[test]
fn a_body_reads_from_when_it_is_durable_on_wherever_it_is() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    drop(server.note(1, b"hello"));
    let body = |server: &Server| server.host.body(frame(1, 0)).unwrap();
    assert_eq!(body(&server), None);
    server.journal.commit().unwrap();
    assert_eq!(body(&server).unwrap(), "hello");
    assert_eq!(server.host.bulk().copy(9).unwrap(), 1);
    assert_eq!(body(&server).unwrap(), "hello");
    server.host.bulk().sync().unwrap();
    assert_eq!(body(&server).unwrap(), "hello");
    server.checkpoint().unwrap();
    assert_eq!(body(&Server::open(Arc::new(disk))).unwrap(), "hello");
}

/// The end of a lane is the one thing that its own files cannot witness. The room knows it.
#[test]
fn a_body_that_the_end_of_its_lane_has_lost_is_told_as_damage() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    drop(server.note(1, b"kept"));
    drop(server.note(1, b"lost"));
    server.journal.commit().unwrap();
    server.checkpoint().unwrap();
    let segment = format!("{SEGMENTS}/{:020}.segment", 0);
    let file = disk.open(&segment, Open::Write).unwrap();
    file.set_len(file.len().unwrap() - 48).unwrap();
    let again = Server::open(Arc::new(disk));
    assert_eq!(again.host.body(frame(1, 0)).unwrap().unwrap(), "kept");
    let lost = again.host.body(frame(1, 1));
    assert!(matches!(lost, Err(BulkError::Corrupt { lane: Lane(1), from: 1, to: 2 })), "{lost:?}");
}

#[test]
fn a_failed_sync_costs_nothing_but_another_copy() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk));
    drop(server.note(1, b"hello"));
    server.journal.commit().unwrap();
    server.host.bulk().copy(9).unwrap();
    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
    assert!(matches!(server.host.bulk().sync(), Err(BulkError::Sync(_))));
    assert_eq!(server.host.body(frame(1, 0)).unwrap().unwrap(), "hello");
    assert_eq!(server.host.bulk().copy(9).unwrap(), 1, "copied again");
    server.host.bulk().sync().unwrap();
    server.checkpoint().unwrap();
    assert_eq!(server.host.body(frame(1, 0)).unwrap().unwrap(), "hello");
}

/// Retention syncs the names of a lane and poisons the segments when that fails. A mover that is
/// only ever asked to copy has to get over it as well.
#[test]
fn segments_that_retention_has_poisoned_are_opened_again_by_the_next_copy() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk));
    for _ in 0..4 {
        drop(server.note(1, &[7; 6000]));
        server.journal.commit().unwrap();
    }
    server.host.bulk().copy(9).unwrap();
    faults.fail_nth(Calls::Only(Call::SyncDir), 1);
    server.host.bulk().segments().trim(Lane(1), 3).unwrap_err();
    drop(server.note(1, b"later"));
    server.journal.commit().unwrap();
    assert_eq!(server.host.bulk().copy(9).unwrap(), 5, "everything since the last sync again");
    server.checkpoint().unwrap();
    assert_eq!(server.host.body(frame(1, 4)).unwrap().unwrap(), "later");
}
