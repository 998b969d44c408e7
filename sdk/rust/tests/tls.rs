//! TLS on both doors: believed, not believed, not spoken.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use handoff_sdk::sevent::Session;
use handoff_sdk::{Client, Error, Options, Outcome, Tls, sevent};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A server with a certificate of its own for `localhost`.
struct Listener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pem: String,
}

impl Listener {
    async fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)), pem: cert.pem() }
    }

    fn address(&self, host: &str) -> String {
        format!("{host}:{}", self.listener.local_addr().unwrap().port())
    }

    fn options(&self, host: &str) -> Options {
        Options::new(format!("https://{}", self.address(host)))
    }

    fn tls(&self) -> Tls {
        Tls::new().ca_pem(self.pem.as_bytes())
    }

    async fn accept(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await.unwrap();
        self.acceptor.accept(stream).await
    }

    /// Answers one request.
    async fn serve(&self) {
        let mut stream = self.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n42").await.unwrap();
        stream.flush().await.unwrap();
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("it should have come by now")
}

#[tokio::test]
async fn a_server_is_believed_by_a_ca_in_a_file_or_in_memory() {
    let listener = Listener::new().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(listener.pem.as_bytes()).unwrap();
    let options = [
        listener.options("localhost").ca_file(file.path()),
        listener.options("localhost").tls(listener.tls()),
    ];
    for options in options {
        let client = Client::new(options).unwrap();
        let ask = client.get_json::<u32>("/");
        let (answer, ()) = within(async { tokio::join!(ask, listener.serve()) }).await;
        assert_eq!(answer.unwrap(), 42);
    }
}

#[tokio::test]
async fn a_server_that_is_not_believed_is_not_told_anything() {
    let listener = Listener::new().await;
    // Unknown to the public authorities; known, but by another name.
    let options =
        [listener.options("localhost"), listener.options("127.0.0.1").tls(listener.tls())];
    for options in options {
        let client = Client::new(options.token("secret")).unwrap();
        let ask = client.get_json::<u32>("/");
        let (answer, accepted) = within(async { tokio::join!(ask, listener.accept()) }).await;
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(error.remedy().unwrap().contains("CA"), "{:?}", error.remedy());
        assert!(accepted.is_err());
    }
}

#[tokio::test]
async fn a_ca_file_that_cannot_be_used_is_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate here").unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (path, words) in
        [(missing, "cannot be read"), (empty, "no certificate"), (broken, "has a certificate that")]
    {
        let error = Client::new(Options::new("https://localhost").ca_file(&path)).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_unreachable_and_a_silent_one_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = Options::new(format!("https://{}", listener.local_addr().unwrap()))
        .connect_timeout(Duration::from_millis(100));
    let client = Client::new(options).unwrap();
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let (answer, _stream) = within(async { tokio::join!(client.metrics(), plain) }).await;
    let error = answer.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    let (answer, _stream) =
        within(async { tokio::join!(client.metrics(), listener.accept()) }).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Timeout { sent: false, .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn a_sevent_session_speaks_tls() {
    let listener = Listener::new().await;
    let options = sevent::Options::new().tls(listener.tls()).token("secret");
    let address = listener.address("localhost");
    let connect = Session::connect(&address, options);
    let (session, stream) = within(async { tokio::join!(connect, listener.accept()) }).await;
    let (session, mut notifications) = session.unwrap();
    let mut stream = stream.unwrap();
    let server = async {
        let expected = b"\x0a\x04\x64\x06secret\x00";
        let mut read = vec![0; expected.len()];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(read, expected);
        stream.write_all(b"\x06\x05\x03\x02\x01\x07\x00").await.unwrap();
        stream.flush().await.unwrap();
    };
    let (ids, ()) = within(async { tokio::join!(session.list(None), server) }).await;
    assert_eq!(ids.unwrap(), [7]);
    // Without a farewell it might be an attacker who ended it.
    drop(stream);
    assert!(within(notifications.next()).await.is_none());
    assert!(matches!(notifications.ended(), Some(sevent::Ended::Cut)));
}

#[tokio::test]
async fn a_request_larger_than_the_socket_arrives_whole_over_tls() {
    let listener = Listener::new().await;
    let address = listener.address("localhost");
    for length in [1 << 20, 20_000_000, 20_012_345] {
        let options = sevent::Options::new().tls(listener.tls()).request_bytes_max(u32::MAX);
        let connect = Session::connect(&address, options);
        let (session, stream) = within(async { tokio::join!(connect, listener.accept()) }).await;
        let (session, _notifications) = session.unwrap();
        let mut stream = stream.unwrap();
        let event = sevent::Event { description: "x".repeat(length), period: 1.0, repeat: 1 };
        let server = async {
            let mut frames = handoff_sevent::Frames::new(u32::MAX);
            while frames.next().unwrap().is_none() {
                assert!(stream.read_buf(frames.buffer_mut()).await.unwrap() > 0);
            }
            stream.write_all(b"\x0d\x03\x01\x01\x07\x00\0\0\0\0\0\0\0\x01").await.unwrap();
            stream.flush().await.unwrap();
        };
        let (registered, ()) =
            within(async { tokio::join!(session.register(event, &[]), server) }).await;
        assert_eq!(registered.unwrap().id, 7);
    }
}

#[tokio::test]
async fn a_sevent_server_that_is_not_believed_gets_no_session() {
    let listener = Listener::new().await;
    let address = listener.address("localhost");
    let connect = Session::connect(&address, sevent::Options::new().tls(Tls::new()));
    let (session, _) = within(async { tokio::join!(connect, listener.accept()) }).await;
    let error = session.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(error.remedy().unwrap().contains("CA"));
}
