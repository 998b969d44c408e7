//! What is kept.

use handoff_log::journal::Tail;
use handoff_server::runtime::{Found, Foundation};
use handoff_sevent::{Answer, Request};

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
