//! Who is let in.

use std::path::Path;
use std::sync::Arc;

use handoff_server::settings::{Settings, Tls};
use handoff_sevent::{Answer, ErrorCode, Request};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{Client, every, octets, of_type};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_inside_tls_is_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert_file, key_file) = (directory.path().join("cert"), directory.path().join("key"));
    std::fs::write(&cert_file, made.cert.pem()).unwrap();
    std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
    let mut settings = settings(&directory.path().join("data"));
    settings.server.tls = Some(Tls { cert_file, key_file });
    settings.events.tls = true;
    let server = Served::start(settings).await;
    assert!(server.at.events_tls && server.at.http_tls);

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.at.events.unwrap()).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut client = Client::over(stream);
    assert_eq!(client.register(every(0.1, "a")).await, 0);
    assert_eq!(client.ask(Request::Subscribe(of_type("a"))).await, Answer::FilterUpdated);
    assert!(matches!(client.told().await, Answer::Notify { id: 0, .. }));
    let deleted = client.ask(Request::DeleteEvent(of_type("a"))).await;
    assert_eq!(deleted, Answer::DeletedEvents { ids: vec![0] });
    server.stop().await.unwrap();
    while client.next().await.is_some() {}
}
