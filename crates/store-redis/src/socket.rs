//! A connection as far as being let in: TCP, TLS, user and password, database.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::resp::{Bounds, Decoder, Value, encode};
use crate::trouble::Trouble;

/// How much is read at once, and how little room is too little for it.
const READ_BYTES: (usize, usize) = (32 << 10, 4 << 10);

/// Whom a `rediss://` address believes: the public authorities, and those given here besides.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// The public authorities, and the certificates of this PEM text.
    ///
    /// # Errors
    /// Words, when the text has no sound certificate in it.
    pub fn believing(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("this is not PEM: {error}"))?;
            roots.add(certificate).map_err(|error| format!("a certificate that {error}"))?;
        }
        // Named, because a process may link several providers and rustls then refuses to choose.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Whom this configuration believes.
    #[must_use]
    pub fn of(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

/// Bytes there and back.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection that is let in and owes nothing.
pub(crate) struct Socket {
    pub(crate) stream: Box<dyn Stream>,
    decoder: Decoder,
    buffer: BytesMut,
}

impl Socket {
    /// Connects and is let in within `patience`.
    pub(crate) async fn open(
        address: &Address,
        tls: Option<&Tls>,
        name: &str,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        match timeout(patience, Self::let_in(address, tls, name)).await {
            Ok(opened) => opened,
            Err(_) => Err(Trouble::unreachable(address, "it does not answer in time")),
        }
    }

    /// One that nothing was said on yet.
    pub(crate) fn of(stream: Box<dyn Stream>) -> Self {
        Self { stream, decoder: Decoder::new(Bounds::default()), buffer: BytesMut::new() }
    }

    async fn let_in(address: &Address, tls: Option<&Tls>, name: &str) -> Result<Self, Trouble> {
        let lost = |error: io::Error| Trouble::unreachable(address, error);
        let tcp = TcpStream::connect((&*address.host, address.port)).await.map_err(lost)?;
        tcp.set_nodelay(true).map_err(lost)?;
        let stream: Box<dyn Stream> = match address.tls {
            false => Box::new(tcp),
            true => {
                let Some(Tls(config)) = tls else { return Err(Trouble::no_tls(address)) };
                let host = ServerName::try_from(address.host.clone())
                    .map_err(|_| Trouble::unreachable(address, "its name fits no certificate"))?;
                let connector = TlsConnector::from(Arc::clone(config));
                Box::new(connector.connect(host, tcp).await.map_err(lost)?)
            }
        };
        let mut socket = Self::of(stream);
        if let Some(password) = &address.password {
            let auth = match &address.user {
                Some(user) => vec!["AUTH", user, password],
                None => vec!["AUTH", password],
            };
            socket.must(address, &auth).await?;
        }
        if address.database != 0 {
            socket.must(address, &["SELECT", &address.database.to_string()]).await?;
        }
        // Only for people who look at CLIENT LIST; a user who may not is let in all the same.
        socket.ask(&["CLIENT", "SETNAME", name]).await.map_err(lost)?;
        // A server that is loading or wants a password lets everybody in and says so now.
        socket.must(address, &["PING"]).await?;
        Ok(socket)
    }

    async fn must(&mut self, address: &Address, parts: &[&str]) -> Result<(), Trouble> {
        match self.ask(parts).await {
            Ok(Value::Error(words)) => Err(Trouble::refused(address, &words)),
            Ok(_) => Ok(()),
            Err(error) => Err(Trouble::unreachable(address, error)),
        }
    }

    /// Sends one command and waits for its answer.
    pub(crate) async fn ask(&mut self, parts: &[&str]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        encode(parts.iter().map(|part| part.as_bytes()), &mut bytes);
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await?;
        self.value().await
    }

    /// The next value that is there already.
    pub(crate) fn value_now(&mut self) -> io::Result<Option<Value>> {
        self.decoder.next(&mut self.buffer).map_err(io::Error::other)
    }

    /// The next value.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub(crate) async fn value(&mut self) -> io::Result<Value> {
        loop {
            if let Some(value) = self.value_now()? {
                return Ok(value);
            }
            let (much, little) = READ_BYTES;
            if self.buffer.capacity().saturating_sub(self.buffer.len()) < little {
                self.buffer.reserve(much);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
            }
        }
    }
}
