//! Sockets: names to addresses, TCP, TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A moment that is some time after another, or as late as makes no difference.
pub(crate) fn later(moment: Instant, time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    moment + time.min(CENTURY)
}

/// Connects within a time, with TLS if there is a configuration for it. An error of kind
/// `TimedOut` also stands for that time being over.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    within: Duration,
) -> io::Result<Box<dyn Stream>> {
    let deadline = later(Instant::now(), within);
    let tcp = connect_tcp(host, port, deadline).await?;
    tcp.set_nodelay(true)?;
    let Some(config) = tls else { return Ok(Box::new(tcp)) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let connector = TlsConnector::from(Arc::clone(config));
    let stream = timeout_at(deadline, connector.connect(name, tcp)).await??;
    Ok(Box::new(stream))
}

/// Tries the addresses of a host in turn. Each but the last gets a share of what time is left, so
/// that one address that swallows packets does not take it from the others.
async fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<_> = timeout_at(deadline, lookup_host((host, port))).await??.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
        left = left.saturating_sub(1);
        match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(elapsed) => last = elapsed.into(),
        }
    }
    Err(last)
}
