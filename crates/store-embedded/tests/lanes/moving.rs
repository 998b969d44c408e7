//! A mover that works elsewhere.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use handoff_log::disk::{Call, Calls, Faulty, Memory};
use handoff_log::segments::{Lane, Read};
use handoff_store_embedded::{Called, Checkpointing, Progress};
use handoff_types::Now;

use crate::lines::Lines;
use crate::server::{Server, bodies};

#[test]
fn a_checkpoint_waits_for_a_mover_that_works_elsewhere_and_asks_it() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let mut moving = server.host.bulk().take_moving().unwrap();
    assert!(server.host.bulk().take_moving().is_none(), "there is one");
    server.write(1, 1, b"hello");
    assert_eq!(moving.wait(Duration::ZERO), Called::Tick, "nobody asks");
    let mut checkpoint = Checkpointing::begin::<Lines>(&server.directory, 1 << 10).unwrap();
    let step = |checkpoint: &mut Checkpointing, server: &mut Server| {
        checkpoint.step(&mut server.host, Now::default()).unwrap()
    };
    while step(&mut checkpoint, &mut server) == Progress::More {}
    assert_eq!(step(&mut checkpoint, &mut server), Progress::Waiting);
    assert_eq!(moving.wait(Duration::ZERO), Called::Asked);
    assert!(moving.copy_some().unwrap());
    assert_eq!(step(&mut checkpoint, &mut server), Progress::Waiting, "copied is not durable");
    moving.sync().unwrap();
    assert_eq!(step(&mut checkpoint, &mut server), Progress::Done);
}

/// A stop that nobody hears would keep a server from ending.
#[test]
fn a_mover_that_waits_for_work_is_woken_by_work_and_by_the_end() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let mut moving = server.host.bulk().take_moving().unwrap();
    let bell = moving.bell();
    let mover = thread::spawn(move || {
        let mut copied = 0;
        loop {
            match moving.wait(Duration::from_millis(1)) {
                Called::Closing => return copied,
                _ => copied += moving.copy(usize::MAX).unwrap(),
            }
            moving.sync().unwrap();
        }
    });
    server.write(1, 1, b"hello");
    let barrier = server.journal.clone();
    let through = handoff_log::journal::Journal::barrier(&*barrier, handoff_types::Room::Streams);
    let through = through.wait().unwrap().sequence;
    while !server.host.bulk().has(through) {
        thread::yield_now();
    }
    bell.close();
    assert_eq!(mover.join().unwrap(), 1);
}

#[test]
fn enough_bodies_call_the_mover_before_time_does() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let moving = server.host.bulk().take_moving().unwrap();
    for _ in 0..16 {
        server.append(&[(1, 1, &b""[..]); 256]);
        server.journal.commit().unwrap();
    }
    assert_eq!(moving.wait(Duration::from_secs(3600)), Called::Enough);
}

#[test]
fn a_failed_sync_is_healed_and_everything_since_the_last_is_moved_again() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk));
    let mut moving = server.host.bulk().take_moving().unwrap();
    let reader = server.host.reader();
    server.write(1, 1, b"synced");
    moving.copy(9).unwrap();
    moving.sync().unwrap();
    server.write(1, 1, b"in doubt");
    moving.copy(9).unwrap();
    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
    moving.sync().unwrap_err();
    assert_eq!(moving.unsynced().bodies, 1);
    assert_eq!(bodies(&reader, 1, 0, 0), ["synced", "in doubt"]);
    assert_eq!(moving.copy(9).unwrap(), 1);
    moving.sync().unwrap();
    assert_eq!(moving.unsynced().bodies, 0);
    assert_eq!(bodies(&reader, 1, 0, 0), ["synced", "in doubt"]);
}

/// Retention poisons the segments when a sync of names fails. The mover is called to open them
/// again, whether or not there is anything to move.
#[test]
fn segments_that_refuse_changes_are_opened_again_though_nothing_is_to_be_moved() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk));
    let mut moving = server.host.bulk().take_moving().unwrap();
    for _ in 0..40 {
        server.write(1, 1, &[7; 1000]);
    }
    moving.copy(usize::MAX).unwrap();
    moving.sync().unwrap();
    let lanes = server.host.lanes();
    faults.fail_nth(Calls::Only(Call::SyncDir), 1);
    lanes.trim(Lane(1), 30).unwrap_err();
    assert_eq!(moving.wait(Duration::ZERO), Called::Asked);
    assert!(!moving.copy_some().unwrap());
    assert!(lanes.trim(Lane(1), 30).unwrap() > 20);
    let reader = server.host.reader();
    assert!(matches!(reader.read(Lane(1), 0, 0).unwrap(), Read::Trimmed { .. }));
    assert_eq!(bodies(&reader, 1, 30, 0).len(), 10);
}
