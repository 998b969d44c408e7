//! Checkpoints while the room works, and the journal that they keep small.

use std::path::Path;

use handoff_log::journal::{Journal as _, Refused};
use handoff_server::rooms::RoomError;
use handoff_types::Span;
use tokio::task::yield_now;

use crate::room::{Rented, clock, settings};

/// The numbers of the room's checkpoints that are in force.
fn in_force(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path.join("checkpoints")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("events-") && name.ends_with(".checkpoint")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_is_taken_in_time_and_has_what_the_room_has() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let mut settings = settings();
    settings.log.limits.checkpoint_chunk_bytes = 512;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    for _ in 0..100 {
        room.register(3600, -1, "a").await;
    }
    assert!(in_force(directory.path()).is_empty());
    hands.pass(Span::from_secs(300));
    while in_force(directory.path()).is_empty() {
        room.look().await;
        yield_now().await;
    }
    // Nothing was written since: no other is taken.
    hands.pass(Span::from_secs(3000));
    room.look().await;
    room.close().await;
    assert_eq!(in_force(directory.path()).len(), 1);
    let room = Rented::open(directory.path(), &clock, &settings).await;
    assert_eq!(room.room.stats().await.unwrap().events, 100);
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_written_many_times_over_while_checkpoints_free_it() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let mut settings = settings();
    settings.log.limits.journal_file_bytes = 256 << 10;
    settings.log.limits.journal_bytes_max = 2 << 20;
    settings.log.limits.journal_reserve_bytes = 512 << 10;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    let goal = 8 * settings.log.limits.journal_bytes_max;
    while room.journal.durable().0 < goal {
        let asks = (0..64).map(|_| room.try_register(3600, -1, "a"));
        let ids = futures(asks).await.into_iter().filter_map(|registered| match registered {
            Ok(id) => Some(id),
            // It may be full until the checkpoint that is under way is in force.
            Err(RoomError::Journal(Refused::Full { .. })) => None,
            Err(error) => panic!("{error}"),
        });
        let selection = handoff_events::Selection { ids: ids.collect(), types: vec![] };
        room.room.delete(selection, handoff_types::Sight::All).await.unwrap();
    }
    room.close().await;
}

/// All of them at once.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(|one| Box::pin(one)).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        match all.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done
}
