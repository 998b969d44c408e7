//! Who is told, and when.

use handoff_types::{Span, Wall};

use crate::room::{Rented, clock, next, of_type, settings, told_by_now};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_occurrence_is_told_once_to_each_session_that_matches() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let room = Rented::open(directory.path(), &clock, &settings()).await;
    let id = room.register(10, 2, "a").await;
    let (by_type, by_both, nobody) =
        (room.session("a").await, room.session("a").await, room.session("b").await);
    by_both.subscribe(handoff_events::Selection { ids: vec![id], types: vec![] }).await.unwrap();
    hands.pass(Span::from_secs(10));
    for session in [&by_type, &by_both] {
        let told = next(session).await;
        assert_eq!((told.notification.occurrence, told.notification.late), (1, false));
    }
    hands.pass(Span::from_secs(10));
    for session in [&by_type, &by_both] {
        assert_eq!(next(session).await.notification.occurrence, 2);
    }
    room.look().await;
    for session in [&by_type, &by_both, &nobody] {
        assert!(told_by_now(session).await.is_empty());
    }
    // It ran out, so its id left the filter, and its type did not.
    let filter = by_both.filter().await.unwrap();
    assert!(filter.ids.is_empty() && filter.types.contains("a"));
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_back_stalls_no_event_for_longer_than_its_interval() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, hands) = clock();
    let room = Rented::open(directory.path(), &clock, &settings()).await;
    let cron = handoff_events::cron::Cron::parse("* * * * *", None).unwrap();
    let registration = handoff_events::Registration {
        description: "each minute".to_owned(),
        types: vec!["a".to_owned()],
        schedule: handoff_events::Schedule::Cron(Box::new(cron)),
        repeat: -1,
        publish: None,
    };
    let sight = handoff_types::Sight::All;
    let registered = room.room.register(registration, sight.clone()).await.unwrap();
    let session = room.session("a").await;
    let Wall(now) = clock.wall();
    hands.set_wall(Wall(now - 86_400_000_000));
    room.look().await;
    // Yesterday's next minute, not today's.
    let view = room.room.view(registered.id, sight).await.unwrap();
    assert!(view.next <= clock.wall() + Span::from_secs(60), "{view:?}");
    hands.pass(view.next.since(clock.wall()));
    assert_eq!(next(&session).await.notification.occurrence, 1);
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_dropped_leaves_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let mut settings = settings();
    settings.events.sessions_max = 1;
    let room = Rented::open(directory.path(), &clock, &settings).await;
    let session = room.session("a").await;
    assert!(room.room.open_session(handoff_types::Sight::All).await.is_err());
    drop(session);
    room.look().await;
    let session = room.session("a").await;
    drop(session);
    // One that is given up before the room has begun it leaves nothing behind.
    drop(room.room.open_session(handoff_types::Sight::All));
    let opening = Box::pin(room.room.open_session(handoff_types::Sight::All));
    drop(tokio::time::timeout(std::time::Duration::ZERO, opening).await);
    room.look().await;
    assert_eq!(room.room.stats().await.unwrap().sessions, 0);
    room.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_the_room() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, _hands) = clock();
    let room = Rented::open(directory.path(), &clock, &settings()).await;
    let session = room.session("a").await;
    room.close().await;
    assert!(session.next().await.is_none());
    assert!(session.subscribe(of_type("a")).await.is_err());
}
