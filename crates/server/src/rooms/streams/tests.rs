//! Whoever wants something new waits while the ring is full; whoever finishes something, or only
//! looks, does not wait behind them.
//!
//! Time is paused here: it passes only when everybody waits for it. So a question that did wait
//! behind producers would be answered after [`FULL_MAX`], and the clock would show it.

use handoff_log::disk::Crash;
use handoff_log::journal::Refused;
use handoff_streams::{
    Compression, Durability, Message, Place, Produce, ScheduledId, TopicSettings, TopicSpec,
};
use handoff_types::{Sight, Span};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bench::{Bench, NOW};
use super::mailbox::MAILBOX_MAX;
use super::*;
use crate::rooms::line::{FULL_MAX, HELD_MAX};

type Producing = JoinHandle<Result<Stored, RoomError>>;

fn name(topic: &str) -> TopicName {
    topic.parse().unwrap()
}

fn topic(topic: &str) -> TopicSpec {
    let settings = TopicSettings {
        retention: None,
        retention_bytes: None,
        durability: Durability::Fsync,
        compression: Compression::None,
    };
    TopicSpec { name: name(topic), partitions: 1, settings }
}

fn message(payload: &'static str) -> Message {
    Message { payload: payload.into(), ..Message::default() }
}

fn produce(bench: &Bench, topic: &str, message: Message) -> Producing {
    produce_all(bench, topic, vec![message])
}

fn produce_all(bench: &Bench, topic: &str, messages: Vec<Message>) -> Producing {
    let produce = Produce { topic: name(topic), producer: None, messages };
    let room = bench.room.clone();
    tokio::spawn(async move { room.produce(produce).await })
}

/// A room with the topics `kept` and `doomed` and a message that waits for its time, whose ring is
/// full now and who has one producer that waits for space.
async fn full() -> (Bench, ScheduledId, Producing) {
    let bench = Bench::start().await;
    bench.room.create(topic("kept")).await.unwrap();
    bench.room.create(topic("doomed")).await.unwrap();
    let deliver_at = Some(NOW.wall + Span::from_secs(3600));
    let later = Message { deliver_at, ..message("later") };
    let stored = produce(&bench, "kept", later).await.unwrap().unwrap();
    let Some(Place::Scheduled(id)) = stored.results[0].place else { panic!("{stored:?}") };
    bench.journal.set_full(true);
    let waiting = produce(&bench, "kept", message("new"));
    bench.journal.refuses().await;
    (bench, id, waiting)
}

fn offset(stored: &Stored) -> u64 {
    let Some(Place::At(_, offset)) = stored.results[0].place else { panic!("{stored:?}") };
    offset
}

fn is_full(answer: Result<Stored, RoomError>) -> bool {
    matches!(answer, Err(RoomError::Journal(Refused::Full { .. })))
}

#[tokio::test(start_paused = true)]
async fn what_finishes_or_looks_overtakes_producers_that_wait_for_space() {
    let (bench, scheduled, waiting) = full().await;
    let (room, began) = (&bench.room, Instant::now());
    room.cancel(scheduled, Sight::All).await.unwrap();
    let alteration = Alteration { retention: Some(None), ..Alteration::default() };
    room.alter(name("kept"), alteration).await.unwrap();
    room.delete(name("doomed")).await.unwrap();
    let (topics, _) = room.topics(Sight::All, None, 10).await.unwrap();
    assert_eq!(topics.len(), 1);
    assert!(room.scheduled(name("kept"), None, 10).await.unwrap().0.is_empty());
    assert_eq!(room.stats().await.unwrap().counts.topics, 1);
    assert!(began.elapsed() < FULL_MAX && !waiting.is_finished());

    bench.journal.set_full(false);
    let stored = waiting.await.unwrap().unwrap();
    assert_eq!(offset(&stored), 0);
    bench.work.stop().await;
}

/// There were once so many of them that the room took no more questions, of whatever kind.
#[tokio::test(start_paused = true)]
async fn however_many_producers_wait_a_deletion_does_not_wait_behind_them() {
    let (bench, scheduled, first) = full().await;
    let began = Instant::now();
    let mut waiting = vec![first];
    for _ in 0..HELD_MAX + MAILBOX_MAX + 1 {
        waiting.push(produce(&bench, "kept", message("more")));
    }
    bench.journal.refuses().await;
    bench.room.delete(name("doomed")).await.unwrap();
    bench.room.cancel(scheduled, Sight::All).await.unwrap();
    assert!(began.elapsed() < FULL_MAX && waiting.iter().all(|one| !one.is_finished()));

    bench.journal.set_full(false);
    for (place, one) in (0..).zip(waiting) {
        let stored = one.await.unwrap().unwrap();
        assert_eq!(offset(&stored), place, "those that waited are taken in the order they came");
    }
    bench.work.stop().await;
}

#[tokio::test(start_paused = true)]
async fn everything_new_waits_in_line_also_what_would_fit() {
    let (bench, _, first) = full().await;
    let room = bench.room.clone();
    let creating = tokio::spawn(async move { room.create(topic("fresh")).await });
    let room = bench.room.clone();
    let growing = tokio::spawn(async move { room.grow(name("kept"), 2).await });
    let last = produce(&bench, "fresh", message("behind its topic"));
    bench.journal.refuses().await;
    bench.journal.set_full(false);
    first.await.unwrap().unwrap();
    creating.await.unwrap().unwrap();
    assert_eq!(growing.await.unwrap().unwrap().partitions, 2);
    last.await.unwrap().unwrap();
    bench.work.stop().await;
}

#[tokio::test(start_paused = true)]
async fn producers_are_told_when_the_ring_stays_full_too_long() {
    let (bench, _, first) = full().await;
    let began = Instant::now();
    let second = produce(&bench, "kept", message("second"));
    assert!(is_full(first.await.unwrap()));
    assert!(is_full(second.await.unwrap()), "it does not wait that long once more");
    // It was refused for the first time just before this began.
    let waited = began.elapsed();
    assert!(waited + FULL_MAX / 100 > FULL_MAX && waited < FULL_MAX * 2, "{waited:?}");
    assert!(is_full(produce(&bench, "kept", message("third")).await.unwrap()), "nor does this");

    bench.journal.set_full(false);
    produce(&bench, "kept", message("stored")).await.unwrap().unwrap();
    bench.journal.set_full(true);
    let began = Instant::now();
    assert!(is_full(produce(&bench, "kept", message("fourth")).await.unwrap()));
    assert!(began.elapsed() >= FULL_MAX, "there was space meanwhile: its time begins anew");
    bench.work.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_refuses_those_that_wait_at_once() {
    let (bench, _, first) = full().await;
    let began = Instant::now();
    let second = produce(&bench, "kept", message("second"));
    bench.journal.refuses().await;
    bench.work.stop().await;
    assert!(is_full(first.await.unwrap()));
    assert!(is_full(second.await.unwrap()));
    assert!(began.elapsed() < FULL_MAX / 10, "{:?}", began.elapsed());
}

/// A server closes its doors before its rooms, and whoever waits inside keeps a door open.
#[tokio::test(start_paused = true)]
async fn those_that_wait_are_refused_when_a_stop_is_announced() {
    let (bench, _, first) = full().await;
    let began = Instant::now();
    bench.room.refuse_to_wait();
    assert!(is_full(first.await.unwrap()));
    assert!(is_full(produce(&bench, "kept", message("late")).await.unwrap()));
    assert!(began.elapsed() < FULL_MAX / 10, "{:?}", began.elapsed());
    bench.journal.set_full(false);
    produce(&bench, "kept", message("fits")).await.unwrap().unwrap();
    bench.work.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_message_does_not_wait_behind_all_the_bulk_that_is_sent() {
    let bench = Bench::start().await;
    bench.room.create(topic("kept")).await.unwrap();
    let bulk = || vec![Message { payload: vec![7; 400 << 10].into(), ..Message::default() }; 3];
    bench.journal.pause();
    let mut large: Vec<_> = (0..4).map(|_| produce_all(&bench, "kept", bulk())).collect();
    bench.journal.has_appended(2).await;
    let small = produce(&bench, "kept", message("small"));
    bench.journal.has_appended(3).await;
    assert!(!small.is_finished(), "nothing is on disk yet");

    bench.journal.go_on();
    assert_eq!(offset(&small.await.unwrap().unwrap()), 6, "it passed those that waited");
    let mut places = Vec::new();
    for one in large.drain(..) {
        places.push(offset(&one.await.unwrap().unwrap()));
    }
    assert_eq!(places, [0, 3, 7, 10], "which are taken in the order they came");
    bench.work.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_room_does_not_answer_before_what_a_kill_left_is_on_disk_again() {
    let disk = Crash::new();
    let mut bench = Bench::open(Arc::new(disk.clone()));
    bench.journal.go_on();
    bench.work.resumed().await;
    bench.room.create(topic("kept")).await.unwrap();
    produce(&bench, "kept", message("the last")).await.unwrap().unwrap();
    let (left, _) = disk.crash_keeping_nothing();

    let mut bench = Bench::open(Arc::new(left));
    let early = tokio::time::timeout(FULL_MAX, bench.work.resumed()).await;
    assert!(early.is_err(), "nobody can read yet what the last round holds");
    bench.journal.go_on();
    bench.work.resumed().await;
    let stored = produce(&bench, "kept", message("the next")).await.unwrap().unwrap();
    assert_eq!(offset(&stored), 1);
    bench.work.stop().await;
}
