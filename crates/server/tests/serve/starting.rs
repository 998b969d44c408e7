//! How a server starts, and why not.

use std::net::TcpListener;

use handoff_server::runtime::StartError;
use handoff_server::serve::ServeError;
use handoff_server::settings::Tls;
use handoff_types::Code;

use crate::world::{Served, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_named_before_anything_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data_dir = directory.path().join("data");
    for key in ["server.listen", "events.listen", "relay.listen"] {
        let mut settings = settings(&data_dir);
        match key {
            "server.listen" => settings.server.listen = address,
            "relay.listen" => settings.relay.listen = address,
            _ => settings.events.listen = address,
        }
        let error = Served::try_start(settings).await.unwrap_err();
        assert!(matches!(error, ServeError::Start(StartError::Taken { .. })), "{error:?}");
        assert_eq!(error.code(), Code::PortTaken);
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
    for key in ["server.listen", "events.listen", "relay.listen"] {
        let mut settings = settings(directory.path());
        let address = "0.0.0.0:0".parse().unwrap();
        match key {
            "server.listen" => settings.server.listen = address,
            "relay.listen" => settings.relay.listen = address,
            _ => settings.events.listen = address,
        }
        let error = Served::try_start(settings.clone()).await.unwrap_err();
        assert_eq!(error.code(), Code::AuthRequired);
        let words = error.to_string();
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
    let error = Served::try_start(settings.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::CertificateUnusable);
    let words = error.to_string();
    assert!(words.contains("events.tls") && words.contains("server.tls_cert_file"), "{words}");
    let missing = directory.path().join("missing.pem");
    settings.server.tls = Some(Tls { cert_file: missing.clone(), key_file: missing });
    let error = Served::try_start(settings).await.unwrap_err();
    assert_eq!(error.code(), Code::CertificateUnusable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_not_ours_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    // Kept for examples: no machine has it.
    settings.server.listen = "192.0.2.1:0".parse().unwrap();
    settings.auth.enabled = true;
    let error = Served::try_start(settings).await.unwrap_err();
    assert_eq!(error.code(), Code::AddressUnusable);
    assert!(error.to_string().contains("`ip addr`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bootstrap_file_that_is_not_there_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.auth.enabled = true;
    settings.auth.bootstrap_token_file = Some(directory.path().join("missing"));
    let error = Served::try_start(settings).await.unwrap_err();
    assert_eq!(error.code(), Code::BootstrapUnusable);
    assert!(error.to_string().contains("auth.bootstrap_token_file"), "{error}");
}
