//! The way to a destination: names to addresses, TCP, TLS.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::Address;

/// How long a connection may take to come about, TLS included.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where a destination is and how one gets there.
pub(crate) struct Way {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Way").field(&self.address).finish()
    }
}

impl Way {
    /// The error is words.
    pub(crate) fn new(address: Address, ca_file: Option<&Path>) -> Result<Self, String> {
        let tls = if address.tls { Some(believed(ca_file)?) } else { None };
        Ok(Self { address, tls })
    }

    /// Connects.
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "nobody answers there");
        timeout(CONNECT_TIME_MAX, self.connect_at_leisure()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connect_at_leisure(&self) -> io::Result<Box<dyn Stream>> {
        let Address { host, port, .. } = &self.address;
        let tcp = TcpStream::connect((host.as_str(), *port)).await?;
        tcp.set_nodelay(true)?;
        let Some(config) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?))
    }
}

/// The public authorities, and those of a file besides.
fn believed(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        let shown = path.display();
        let mut found = false;
        let all = CertificateDer::pem_file_iter(path);
        for certificate in all.map_err(|error| format!("{shown} cannot be read: {error}"))? {
            let certificate = certificate.map_err(|error| format!("{shown} is no PEM: {error}"))?;
            let added = roots.add(certificate);
            added.map_err(|error| format!("{shown} has a certificate that {error}"))?;
            found = true;
        }
        if !found {
            return Err(format!("{shown} has no certificate in it"));
        }
    }
    // Named, because a process may link several providers and rustls then refuses to choose.
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
