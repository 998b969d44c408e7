//! Occurrences that were missed while nobody was there.

use handoff_server::clock::{Clock, Hands};
use handoff_server::settings::{CatchUp, Settings};
use handoff_types::Span;
use tempfile::TempDir;

use crate::room::{Rented, clock, next, of_type, settings, told_by_now};

/// A directory with an event that occurs every ten seconds, fifty times, and was left alone for
/// thirty-five.
async fn left_alone() -> (TempDir, Clock, Hands) {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let room = Rented::open(directory.path(), &clock, &settings()).await;
    assert_eq!(room.register(10, 50, "a").await, 0);
    room.close().await;
    hands.pass(Span::from_secs(35));
    (directory, clock, hands)
}

fn catching_up(catch_up: CatchUp) -> Settings {
    let mut settings = settings();
    settings.events.catch_up = catch_up;
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skipped_occurrences_are_counted_and_nobody_is_told() {
    let (directory, clock, hands) = left_alone().await;
    let room = Rented::open(directory.path(), &clock, &catching_up(CatchUp::Skip)).await;
    let session = room.session("a").await;
    assert_eq!(room.room.stats().await.unwrap().totals.skipped, 3);
    hands.pass(Span::from_secs(5));
    assert_eq!(next(&session).await.notification.occurrence, 4);
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_them_waits_for_whoever_subscribes() {
    let (directory, clock, _hands) = left_alone().await;
    let room = Rented::open(directory.path(), &clock, &catching_up(CatchUp::Once)).await;
    let session = room.session("a").await;
    let told = next(&session).await;
    assert!(told.notification.late);
    assert_eq!(told.notification.occurrence, 3);
    room.look().await;
    assert!(told_by_now(&session).await.is_empty());
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_them_is_given_once_to_each_session_in_order() {
    let (directory, clock, hands) = left_alone().await;
    let room = Rented::open(directory.path(), &clock, &catching_up(CatchUp::All)).await;
    let one = room.session("a").await;
    let other = room.session("b").await;
    for occurrence in 1..=3 {
        assert_eq!(next(&one).await.notification.occurrence, occurrence);
    }
    // A filter that comes to match the same again gives nothing twice.
    one.subscribe(of_type("b")).await.unwrap();
    one.subscribe_to_everything().await.unwrap();
    room.look().await;
    assert!(told_by_now(&one).await.is_empty() && told_by_now(&other).await.is_empty());
    // Who comes to match later gets them as long as they are held.
    hands.pass(Span::from_secs(4));
    other.subscribe(of_type("a")).await.unwrap();
    for occurrence in 1..=3 {
        assert_eq!(next(&other).await.notification.occurrence, occurrence);
    }
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_held_longer_than_was_decided() {
    let (directory, clock, hands) = left_alone().await;
    let mut settings = catching_up(CatchUp::All);
    settings.events.catch_up_wait = std::time::Duration::from_secs(3);
    let room = Rented::open(directory.path(), &clock, &settings).await;
    assert_eq!(room.room.stats().await.unwrap().held, 3);
    hands.pass(Span::from_secs(3));
    room.look().await;
    let session = room.session("a").await;
    room.look().await;
    assert!(told_by_now(&session).await.is_empty());
    assert_eq!(room.room.stats().await.unwrap().held, 0);
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_held_than_was_decided_and_the_rest_is_counted() {
    let (directory, clock, _hands) = left_alone().await;
    let mut settings = catching_up(CatchUp::All);
    settings.events.catch_up_max = 2;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    let stats = room.room.stats().await.unwrap();
    assert_eq!((stats.held, stats.totals.skipped), (2, 1));
    room.close().await;
}
