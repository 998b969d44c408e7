//! How a server starts, and why not.

use std::net::TcpListener;

use handoff_server::runtime::StartError;
use handoff_server::serve::ServeError;

use crate::world::{Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_named_before_anything_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data_dir = directory.path().join("data");
    for key in ["server.listen", "events.listen"] {
        let mut settings = settings(&data_dir);
        match key {
            "server.listen" => settings.server.listen = address,
            _ => settings.events.listen = address,
        }
        let error = Served::try_start(settings).await.unwrap_err();
        assert!(matches!(error, ServeError::Start(StartError::Taken { .. })), "{error:?}");
        let words = error.to_string();
        for part in [key, &address.to_string(), "ss -ltnp"] {
            assert!(words.contains(part), "{part} is not in: {words}");
        }
        assert!(!data_dir.exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_use_is_named_with_its_holder() {
    let directory = tempfile::tempdir().unwrap();
    let server = Served::start(settings(directory.path())).await;
    let words = Served::try_start(settings(directory.path())).await.unwrap_err().to_string();
    assert!(words.contains("is in use by process") && words.contains("--data-dir"), "{words}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_others_reach_needs_tokens() {
    let directory = tempfile::tempdir().unwrap();
    for key in ["server.listen", "events.listen"] {
        let mut settings = settings(directory.path());
        let address = "0.0.0.0:0".parse().unwrap();
        match key {
            "server.listen" => settings.server.listen = address,
            _ => settings.events.listen = address,
        }
        let words = Served::try_start(settings.clone()).await.unwrap_err().to_string();
        assert!(words.contains(key) && words.contains("auth.enabled = true"), "{words}");
        settings.auth.enabled = true;
        Served::start(settings).await.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let words = Served::try_start(settings(&file)).await.unwrap_err().to_string();
    assert!(words.contains("file"), "{words}");
    std::fs::write(directory.path().join("VERSION"), "something else").unwrap();
    let words = Served::try_start(settings(directory.path())).await.unwrap_err().to_string();
    assert!(words.contains("--data-dir"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_without_a_certificate_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.events.tls = true;
    let words = Served::try_start(settings).await.unwrap_err().to_string();
    assert!(words.contains("events.tls") && words.contains("server.tls_cert_file"), "{words}");
}
