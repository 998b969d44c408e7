//! A disk that fails while the room works.

use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Disk, Faults, Faulty, Memory};
use handoff_log::journal::{Journal as _, Purpose, Refused};
use handoff_server::rooms::RoomError;
use handoff_server::runtime::{Readiness, Watermark, watch};
use handoff_types::{Room, Span};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::room::{PATIENCE, Rented, clock, next, settings};

fn disk() -> (Arc<dyn Disk>, Faults) {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    (Arc::new(disk), faults)
}

fn files(disk: &Arc<dyn Disk>, folder: &str, end: &str) -> usize {
    disk.list(folder).unwrap().iter().filter(|name| name.ends_with(end)).count()
}

/// Waits until the journal has made the files it makes ahead.
async fn settled(disk: &Arc<dyn Disk>) {
    while files(disk, "journal", ".journal") < 3 {
        yield_now().await;
    }
}

/// Waits until the journal has noticed that the disk fails it.
async fn poisoned(room: &Rented) {
    loop {
        let admitted = room.journal.admit(Room::Events, 1, Purpose::Finish);
        if matches!(admitted, Err(Refused::Poisoned { .. })) {
            return;
        }
        drop(admitted);
        yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occurrences_wait_for_a_disk_that_fails_and_none_is_lost() {
    let (disk, faults) = disk();
    let (clock, hands) = clock();
    let room = Arc::new(Rented::open_on(&disk, &clock, &settings()).await);
    room.register(10, 3, "a").await;
    let session = room.session("a").await;
    timeout(PATIENCE, settled(&disk)).await.unwrap();
    faults.fail_all(Calls::Syncs);
    let waiting = tokio::spawn({
        let room = Arc::clone(&room);
        async move { room.try_register(3600, -1, "b").await }
    });
    timeout(PATIENCE, poisoned(&room)).await.unwrap();
    // Who asks for something new hears at once that it is not taken.
    let refused = timeout(PATIENCE, room.try_register(3600, -1, "b")).await.unwrap();
    assert!(matches!(refused, Err(RoomError::Journal(Refused::Poisoned { .. }))), "{refused:?}");
    hands.pass(Span::from_secs(10));
    // Each is a turn of the room, in which it tries.
    for _ in 0..3 {
        assert_eq!(room.room.stats().await.unwrap().totals.occurred, 0);
    }
    faults.clear();
    let told = next(&session).await;
    assert_eq!((told.notification.occurrence, told.notification.late), (1, false));
    assert_eq!(timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap(), 1);
    Arc::into_inner(room).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_stopped_for_good_is_noticed_and_everybody_is_answered() {
    let (disk, faults) = disk();
    let (clock, _hands) = clock();
    let mut settings = settings();
    settings.log.limits.poison_secs_max = 0;
    let room = Rented::open_on(&disk, &clock, &settings).await;
    room.register(3600, -1, "a").await;
    timeout(PATIENCE, settled(&disk)).await.unwrap();
    faults.fail_all(Calls::Syncs);
    let lost = timeout(PATIENCE, room.try_register(3600, -1, "a")).await.unwrap();
    assert!(matches!(lost, Err(RoomError::Lost(_))), "{lost:?}");
    let watermark = Watermark::new(std::path::Path::new("/"), Some(0)).unwrap();
    timeout(PATIENCE, watch::watch(&watermark, &room.journal, &Readiness::new())).await.unwrap();
    let refused = timeout(PATIENCE, room.try_register(3600, -1, "a")).await.unwrap();
    assert!(matches!(refused, Err(RoomError::Journal(Refused::Closed))), "{refused:?}");
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_failed_is_taken_again_later() {
    let (disk, faults) = disk();
    let (clock, hands) = clock();
    let room = Rented::open_on(&disk, &clock, &settings()).await;
    room.register(3600, -1, "a").await;
    timeout(PATIENCE, settled(&disk)).await.unwrap();
    faults.fail_nth(Calls::Only(Call::Rename), 1);
    hands.pass(Span::from_secs(300));
    while faults.struck() == 0 {
        room.look().await;
    }
    assert_eq!(files(&disk, "checkpoints", ".checkpoint"), 0);
    while files(&disk, "checkpoints", ".checkpoint") == 0 {
        hands.pass(Span::from_secs(1));
        room.look().await;
        yield_now().await;
    }
    room.close().await;
    let room = Rented::open_on(&disk, &clock, &settings()).await;
    assert_eq!(room.room.stats().await.unwrap().events, 1);
    room.close().await;
}
