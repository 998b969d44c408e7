//! How a server stops.

use handoff_sevent::{Answer, Request};

use crate::client::{Client, every, octets, of_type};
use crate::world::{Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_is_answered_and_what_was_answered_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut client = Client::connect(&server).await;
    client.send_octets(&octets(&every(3600.0, "a"), None).repeat(2000)).await;
    assert!(matches!(client.answer().await, Answer::EventRegistration { id: 0, .. }));
    server.tell_to_stop();
    let mut answered = 1;
    while let Some(answer) = client.next().await {
        assert!(matches!(answer, Answer::EventRegistration { id, .. } if id == answered));
        answered += 1;
    }
    server.stop().await.unwrap();
    let server = Served::start(settings(directory.path())).await;
    let kept = Client::connect(&server).await.list().await;
    // Every request that was taken was answered, so there is not one more.
    assert_eq!(kept, (0..answered).collect::<Vec<_>>());
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_say_nothing_do_not_keep_a_server_from_stopping() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let mut idle = Client::connect(&server).await;
    let mut told = Client::connect(&server).await;
    assert_eq!(told.ask(Request::Subscribe(of_type("a"))).await, Answer::FilterUpdated);
    told.register(every(0.1, "a")).await;
    told.told().await;
    server.stop().await.unwrap();
    assert_eq!(idle.next().await, None);
    while told.next().await.is_some() {}
}
