//! More than the ring can hold, as fast as it is taken, on threads as in a server.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Call, Calls, Disk, Faulty, Memory};
use handoff_log::journal::{Journal, Options, Purpose, Refused, Threaded};
use handoff_log::segments::Segments;
use handoff_store_embedded::{
    Called, Checkpointing, Host, Loading, Moving, Progress, open_journal,
};
use handoff_types::{Entropy, Now, Room};

use crate::lines::{Command, Line, Lines};
use crate::server::{bodies, limits};

fn drive(mut moving: Moving) {
    loop {
        let called = moving.wait(Duration::from_millis(1));
        if called == Called::Closing {
            return;
        }
        // A failure is healed by the next attempt.
        let copied = moving.copy_some();
        if copied.is_ok() && (called == Called::Asked || moving.unsynced().bodies > 100) {
            drop(moving.sync());
        }
    }
}

/// The producer is refused while the ring is full; checkpoints ask the mover, the mover moves, the
/// journal forgets, and the producer goes on. Some syncs fail on the way.
#[test]
fn a_ring_that_fills_faster_than_the_mover_copies_slows_producers_and_never_stops_them() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let directory = Directory::open(Arc::clone(&disk), Entropy(7)).unwrap();
    let mut loading = Loading::<Lines>::begin(&directory).unwrap();
    let options = Options { limits: limits(), directory: directory.id, entropy: Entropy(7) };
    let (opened, ..) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
    let journal = Arc::new(Threaded::start(opened).unwrap());
    let segments = Arc::new(Segments::open(disk, (&limits()).into()).unwrap());
    let mut host: Host<Lines> = loading.into_host(Arc::clone(&journal) as _, segments);
    let moving = host.bulk().take_moving().unwrap();
    let bell = moving.bell();
    let mover = thread::spawn(move || drive(moving));

    let body = Bytes::from(vec![7; 20_000]);
    let mut checkpoint = None;
    let (mut appended, mut refused, mut checkpoints) = (0_u64, 0_u64, 0);
    let ring = limits().journal_bytes_max;
    while appended * 20_000 < 6 * ring {
        let lines = vec![Line { lane: appended % 3, count: 1, body: body.clone() }];
        let when = (Now::default(), Entropy(0));
        match host.apply_made(&Command::Append(lines), 20_100, Purpose::Accept, when) {
            Ok(applied) => {
                appended += 1;
                drop(applied.ticket);
                if appended % 70 == 0 {
                    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
                }
            }
            Err(Refused::Busy { .. }) => thread::yield_now(),
            // As late as can be.
            Err(Refused::Full { .. }) => {
                refused += 1;
                let begin = || Checkpointing::begin::<Lines>(&directory, 1 << 10).unwrap();
                checkpoint.get_or_insert_with(begin);
            }
            Err(other) => panic!("{other}"),
        }
        let Some(taking) = &mut checkpoint else { continue };
        match taking.step(&mut host, Now::default()).unwrap() {
            Progress::Done => {
                checkpoint = None;
                checkpoints += 1;
            }
            Progress::Waiting => thread::yield_now(),
            Progress::More => {}
        }
    }
    assert!(refused > 0 && checkpoints > 3, "{refused} refused, {checkpoints} checkpoints");
    journal.barrier(Room::Streams).wait().unwrap();
    bell.close();
    mover.join().unwrap();
    let reader = host.reader();
    let read: usize = (0..3).map(|lane| bodies(&reader, lane, 0, 1 << 20).len()).sum();
    assert_eq!(read as u64, appended);
}
