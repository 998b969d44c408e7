//! What is kept.

use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::journal::{Entry, Inline, Journal, Options, Purpose, Recovery, Start, Tail};
use handoff_server::runtime::{Found, Foundation};
use handoff_sevent::{Answer, Request};

use handoff_types::{Entropy, Now, Room};

use crate::client::{Client, event, every};
use crate::world::{Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_registered_is_there_after_a_restart_and_no_id_comes_twice() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.register(event(3600.0, 7, "a", "first")).await, 0);
    // Uses an id and is not kept.
    assert_eq!(client.register(event(3600.0, 0, "a", "never")).await, 1);
    assert_eq!(client.register(every(3600.0, "b")).await, 2);
    server.stop().await.unwrap();
    assert_eq!(client.next().await, None, "the session has ended");

    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.list().await, [0, 2]);
    let Answer::EventInfo { types, event, .. } = client.ask(Request::GetEvent { id: 0 }).await
    else {
        panic!()
    };
    assert_eq!((&*types, &*event.description), (&["a".to_owned()][..], "first"));
    assert_eq!((event.period.to_bits(), event.repeat), (3600.0_f64.to_bits(), 7));
    assert_eq!(client.register(every(3600.0, "b")).await, 3);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_that_is_switched_off_keeps_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    Client::connect(&server).await.register(every(3600.0, "a")).await;
    server.stop().await.unwrap();
    for _ in 0..2 {
        let mut off = settings(directory.path());
        off.events.enabled = false;
        let server = Served::start(off).await;
        assert_eq!(server.at.events, None);
        server.stop().await.unwrap();
    }
    let server = Served::start(settings(directory.path())).await;
    assert_eq!(Client::connect(&server).await.list().await, [0]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_whose_checkpoint_is_damaged_stays_closed_and_the_house_opens() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    Client::connect(&server).await.register(every(3600.0, "a")).await;
    server.stop().await.unwrap();
    let path = directory.path().join("checkpoints/events-00000000000000000001.checkpoint");
    std::fs::write(path, [7; 4096]).unwrap();
    let foundation = Foundation::open(&settings(directory.path())).unwrap();
    let Found::Closed(why) = &foundation.events else { panic!("{:?}", foundation.events) };
    assert!(why.contains("checkpoint"), "{why}");
    assert!(matches!(foundation.house, Found::Open(_)));
    drop(foundation);
    let server = Served::start(settings(directory.path())).await;
    assert_eq!(server.at.events, None, "nobody is let into a closed room");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_stopped_leaves_the_mark_of_a_clean_end() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    Client::connect(&server).await.register(every(3600.0, "a")).await;
    server.stop().await.unwrap();
    let foundation = Foundation::open(&settings(directory.path())).unwrap();
    assert_eq!(foundation.report.tail, Tail::Marked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_that_does_not_understand_its_records_stays_closed_and_keeps_them() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    Client::connect(&server).await.register(every(3600.0, "a")).await;
    server.stop().await.unwrap();
    append_nonsense(directory.path());
    // Again and again: nothing of it is lost meanwhile, and the house works.
    for _ in 0..2 {
        let foundation = Foundation::open(&settings(directory.path())).unwrap();
        let Found::Closed(why) = &foundation.events else { panic!("{:?}", foundation.events) };
        assert!(why.contains("events does not understand"), "{why}");
        assert!(matches!(foundation.house, Found::Open(_)));
    }
}

/// A record of the events room that no version has written.
fn append_nonsense(path: &std::path::Path) {
    let (directory, _lock) = Directory::open_locked(path, Entropy(1)).unwrap();
    let limits = settings(path).log.limits;
    let options = Options { limits, directory: directory.id, entropy: Entropy(2) };
    let recovery = Recovery::begin(Arc::clone(&directory.disk), options, Start::default());
    let journal = Inline::start(recovery.unwrap().finish().unwrap().0);
    let change = bytes::Bytes::from_static(&[0xee; 9]);
    let entry = Entry { room: Room::Events, now: Now::default(), change, bodies: vec![] };
    let permit = journal.admit(Room::Events, entry.bytes(), Purpose::Accept).unwrap();
    drop(journal.append(permit, entry));
    journal.commit().unwrap();
    journal.close().unwrap();
}
