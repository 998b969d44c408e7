//! Listeners: bound before any work begins, so that a port that is taken costs nothing.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use super::Listeners;
use crate::runtime::StartError;
use crate::settings::Settings;
use crate::tls::Certificates;

/// Connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 1024;

/// What the server listens on.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) http: TcpListener,
    pub(super) events: Option<TcpListener>,
    pub(super) relay: Option<TcpListener>,
    pub(super) bound: Listeners,
}

/// Checks what can be checked without touching anything, and reads the certificate if one is asked
/// for.
pub(super) fn check(settings: &Settings) -> Result<Option<Certificates>, StartError> {
    for (key, address) in addresses(settings) {
        if !address.ip().to_canonical().is_loopback() && !settings.auth.enabled {
            return Err(StartError::Exposed { key, address });
        }
    }
    if settings.events.enabled && settings.events.tls && settings.server.tls.is_none() {
        return Err(StartError::NoCertificate { key: "events.tls" });
    }
    if settings.relay.enabled && settings.relay.tls && settings.server.tls.is_none() {
        return Err(StartError::NoCertificate { key: "relay.tls" });
    }
    Ok(settings.server.tls.as_ref().map(Certificates::load).transpose()?)
}

fn addresses(settings: &Settings) -> Vec<(&'static str, SocketAddr)> {
    let mut addresses = vec![("server.listen", settings.server.listen)];
    if settings.events.enabled {
        addresses.push(("events.listen", settings.events.listen));
    }
    if settings.relay.enabled {
        addresses.push(("relay.listen", settings.relay.listen));
    }
    addresses
}

impl Sockets {
    pub(super) fn bind(settings: &Settings) -> Result<Self, StartError> {
        let (http, http_at) = bind("server.listen", "--listen", settings.server.listen)?;
        let events = match settings.events.enabled {
            true => Some(bind("events.listen", "--events-listen", settings.events.listen)?),
            false => None,
        };
        let (events, events_at) = events.unzip();
        let relay = match settings.relay.enabled {
            true => Some(bind("relay.listen", "--relay-listen", settings.relay.listen)?),
            false => None,
        };
        let (relay, relay_at) = relay.unzip();
        let bound = Listeners {
            http: http_at,
            http_tls: settings.server.tls.is_some(),
            events: events_at,
            events_tls: settings.events.tls,
            relay: relay_at,
            relay_tls: settings.relay.tls,
        };
        Ok(Self { http, events, relay, bound })
    }
}

fn bind(
    key: &'static str,
    flag: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let listen = || -> io::Result<(TcpListener, SocketAddr)> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        // Whoever is accepted inherits it: a peer that is gone without a word is noticed some day.
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|fault| StartError::listen(key, flag, address, fault))
}
