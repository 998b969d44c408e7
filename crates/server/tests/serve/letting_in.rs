//! Who is let in.

use std::path::Path;

use handoff_server::settings::Settings;
use handoff_sevent::{Answer, ErrorCode, Request};

use crate::client::{Client, every, octets};
use crate::world::{Served, settings};

const TOKEN: &str = "a-token-that-somebody-wrote-into-a-file-0123456789";

fn locked(directory: &Path) -> Settings {
    let file = directory.join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let mut settings = settings(&directory.join("data"));
    settings.auth.enabled = true;
    settings.auth.bootstrap_token_file = Some(file);
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_with_the_first_message_opens_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(locked(directory.path())).await;
    let mut client = Client::connect(&server).await;
    // Pipelined, and the token only once.
    let mut both = octets(&every(3600.0, "a"), Some(TOKEN));
    both.extend_from_slice(&octets(&Request::ListEvents { types: None }, None));
    client.send_octets(&both).await;
    assert!(matches!(client.answer().await, Answer::EventRegistration { id: 0, .. }));
    assert_eq!(client.answer().await, Answer::ListedEvents { ids: vec![0] });
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_the_session_is_told_so_and_closed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(locked(directory.path())).await;
    for token in [None, Some("somebody else's")] {
        let mut client = Client::connect(&server).await;
        let mut several = octets(&every(3600.0, "a"), token);
        several.extend_from_slice(&octets(&every(3600.0, "a"), Some(TOKEN)));
        client.send_octets(&several).await;
        let Some(Answer::Error { last_id, code, message }) = client.next().await else { panic!() };
        assert_eq!((last_id, code), (2, ErrorCode::InvalidProperty));
        assert!(message.contains("option 100"), "{message}");
        assert_eq!(client.next().await, None);
    }
    let mut client = Client::connect(&server).await;
    client.send_with(Request::ListEvents { types: None }, Some(TOKEN)).await;
    assert_eq!(client.answer().await, Answer::ListedEvents { ids: vec![] });
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_who_says_nothing_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = locked(directory.path());
    settings.server.header_time_max = std::time::Duration::from_millis(50);
    let server = Served::start(settings).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.next().await, None);
    server.stop().await.unwrap();
}
