//! Handshakes in memory, with certificates made on the spot.

use std::fs;
use std::os::unix::fs::symlink;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use super::*;

struct Pair {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
}

fn pair() -> Pair {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Pair {
        cert: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
        der: made.cert.der().clone(),
    }
}

struct Files {
    dir: TempDir,
    tls: settings::Tls,
}

impl Files {
    fn of(pair: &Pair) -> Self {
        let dir = TempDir::new().unwrap();
        let tls = settings::Tls {
            cert_file: dir.path().join("chain.pem"),
            key_file: dir.path().join("key.pem"),
        };
        let files = Self { dir, tls };
        files.write(&pair.cert, &pair.key);
        files
    }

    fn write(&self, cert: &str, key: &str) {
        fs::write(&self.tls.cert_file, cert).unwrap();
        fs::write(&self.tls.key_file, key).unwrap();
    }
}

/// A client that trusts these and nobody else.
fn client(trusted: &[&Pair], protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for pair in trusted {
        roots.add(pair.der.clone()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

/// A connection over which a byte went each way; the client's side of it.
async fn connect(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
) -> io::Result<TlsStream<DuplexStream>> {
    let (near, far) = tokio::io::duplex(16 << 10);
    let acceptor = TlsAcceptor::from(Arc::clone(server));
    let serving = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await
    });
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::clone(client)).connect(name, near).await?;
    stream.write_u8(7).await?;
    assert_eq!(stream.read_u8().await?, 7);
    serving.await.unwrap()?;
    Ok(stream)
}

fn shown(stream: &TlsStream<DuplexStream>) -> &CertificateDer<'static> {
    &stream.get_ref().1.peer_certificates().unwrap()[0]
}

fn failure(files: &Files) -> TlsError {
    Certificates::load(&files.tls).unwrap_err()
}

#[tokio::test]
async fn a_listener_shows_its_certificate_and_speaks_what_the_caller_named() {
    let pair = pair();
    let certificates = Certificates::load(&Files::of(&pair).tls).unwrap();
    let http = certificates.server_config(HTTP);
    for (offered, chosen) in [(HTTP, &b"h2"[..]), (&[&b"http/1.1"[..]][..], b"http/1.1")] {
        let stream = connect(&http, &client(&[&pair], offered)).await.unwrap();
        assert_eq!(shown(&stream), &pair.der);
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
    let bare = certificates.server_config(&[]);
    let stream = connect(&bare, &client(&[&pair], &[])).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_certificate_goes_away() {
    let certificates = Certificates::load(&Files::of(&pair()).tls).unwrap();
    let outcome = connect(&certificates.server_config(HTTP), &client(&[&pair()], HTTP)).await;
    assert!(outcome.unwrap_err().to_string().contains("certificate"));
}

/// The same client comes back after the reload. It could resume its session, and would then be
/// shown the old certificate.
#[tokio::test]
async fn new_connections_use_the_new_certificate_and_old_ones_go_on() {
    let (old, new) = (pair(), pair());
    let files = Files::of(&old);
    let certificates = Certificates::load(&files.tls).unwrap();
    let config = certificates.server_config(HTTP);
    let client = client(&[&old, &new], HTTP);
    let before = connect(&config, &client).await.unwrap();
    let again = connect(&config, &client).await.unwrap();
    let resumed = again.get_ref().1.handshake_kind();
    assert_eq!(resumed, Some(rustls::HandshakeKind::Resumed), "or this test shows nothing");
    files.write(&new.cert, &new.key);
    certificates.reload(&files.tls).unwrap();
    let after = connect(&config, &client).await.unwrap();
    assert_eq!((shown(&before), shown(&after)), (&old.der, &new.der));
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_certificate_in_force() {
    let (old, new) = (pair(), pair());
    let files = Files::of(&old);
    let certificates = Certificates::load(&files.tls).unwrap();
    let config = certificates.server_config(HTTP);
    // Half a rotation: the certificate is new, the key is not.
    files.write(&new.cert, &old.key);
    let error = certificates.reload(&files.tls).unwrap_err();
    assert!(matches!(error, TlsError::Mismatch { .. }), "{error}");
    fs::remove_file(&files.tls.key_file).unwrap();
    certificates.reload(&files.tls).unwrap_err();
    let stream = connect(&config, &client(&[&old, &new], HTTP)).await.unwrap();
    assert_eq!(shown(&stream), &old.der);
    // And when they are whole again, they are taken.
    files.write(&new.cert, &new.key);
    certificates.reload(&files.tls).unwrap();
    let stream = connect(&config, &client(&[&old, &new], HTTP)).await.unwrap();
    assert_eq!(shown(&stream), &new.der);
}

#[tokio::test]
async fn a_chain_is_sent_whole_and_a_key_beside_the_chain_is_found() {
    let (own, other) = (pair(), pair());
    let files = Files::of(&own);
    // Some tools write everything into one file, with words between.
    let everything = format!("issued for localhost\n{}{}{}", own.cert, other.cert, own.key);
    files.write(&everything, &everything);
    let certificates = Certificates::load(&files.tls).unwrap();
    let config = certificates.server_config(&[]);
    let stream = connect(&config, &client(&[&own], &[])).await.unwrap();
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    assert_eq!(chain, [own.der, other.der]);
}

#[test]
fn a_key_of_another_certificate_is_refused_and_both_files_are_named() {
    let files = Files::of(&pair());
    fs::write(&files.tls.key_file, pair().key).unwrap();
    let words = failure(&files).to_string();
    assert!(words.contains("chain.pem") && words.contains("key.pem"), "{words}");
    assert!(words.contains("does not belong"), "{words}");
}

#[test]
fn a_chain_in_the_wrong_order_is_refused() {
    let (own, other) = (pair(), pair());
    let files = Files::of(&own);
    fs::write(&files.tls.cert_file, other.cert + &own.cert).unwrap();
    let words = failure(&files).to_string();
    assert!(words.contains("own certificate first"), "{words}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_setting() {
    let files = Files::of(&pair());
    fs::remove_file(&files.tls.cert_file).unwrap();
    let words = failure(&files).to_string();
    assert!(words.contains("chain.pem") && words.contains("server.tls_cert_file"), "{words}");
    let files = Files::of(&pair());
    fs::remove_file(&files.tls.key_file).unwrap();
    symlink(files.dir.path(), &files.tls.key_file).unwrap();
    let words = failure(&files).to_string();
    assert!(words.contains("key.pem") && words.contains("server.tls_key_file"), "{words}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_without_showing_it() {
    let good = pair();
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    let begin = "-----BEGIN PRIVATE KEY-----\n";
    let end = "\n-----END PRIVATE KEY-----\n";
    let locked = good.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let cases: [(&str, &str, &str); 10] = [
        ("", &good.key, "chain.pem holds no certificate"),
        (&good.key, &good.key, "chain.pem holds no certificate"),
        (&cut(&good.cert), &good.key, "chain.pem is no sound PEM file: its last section"),
        (&"x".repeat(2 << 20), &good.key, "it is above 1 MiB"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &good.key,
            "the certificate in",
        ),
        (&good.cert, "", "key.pem holds no private key"),
        (&good.cert, &good.cert, "key.pem holds no private key"),
        (&good.cert, &locked, "key.pem is encrypted"),
        (&good.cert, &format!("{begin}!!SECRET!!{end}"), "key.pem is no sound PEM file"),
        (&good.cert, &format!("{begin}AAAA{end}"), "the key in"),
    ];
    for (cert, key, expected) in cases {
        let files = Files::of(&good);
        files.write(cert, key);
        let words = failure(&files).to_string();
        assert!(words.contains(expected), "{expected}: {words}");
        assert!(!words.contains("SECRET"), "{words}");
    }
}

#[test]
fn what_is_logged_of_a_certificate_shows_no_key() {
    let certificates = Certificates::load(&Files::of(&pair()).tls).unwrap();
    let debug = format!("{:?}", certificates.current);
    assert_eq!(
        debug,
        "Current { held: RwLock { data: Held { generation: 0, .. }, poisoned: false, .. } }"
    );
}
