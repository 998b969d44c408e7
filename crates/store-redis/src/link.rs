//! The three connections of a client, opened and closed together.
//!
//! ```text
//!  ping       init, ping                      what proves the way there
//!  listener   subscriptions, nothing else     what proves the way back
//!  publisher  everything else
//! ```

use std::io;
use std::time::Duration;

use handoff_calls::{ChannelName, ClientId};
use tokio::time::timeout;

use crate::address::Address;
use crate::ears;
use crate::line::Line;
use crate::listener::Listener;
use crate::options::Options;
use crate::publisher::Publisher;
use crate::resp::Value;
use crate::room::Room;
use crate::socket::Socket;
use crate::trouble::Trouble;

/// Three connections that are open.
pub(crate) struct Link {
    pub(crate) ping: Line,
    pub(crate) listener: Listener,
    pub(crate) publisher: Publisher,
}

impl Link {
    /// Opens them. The subscription is there before anything is sent.
    pub(crate) async fn open(
        room: &Room,
        options: &Options,
        me: ClientId,
        serves: impl Iterator<Item = ChannelName>,
    ) -> Result<Self, Trouble> {
        let (address, patience) = (&room.address, options.connect_timeout);
        let open = |role: &'static str| {
            let name = format!("handoff-{role}");
            async move { Socket::open(address, options.tls.as_ref(), &name, patience).await }
        };
        let channels = ears::channels(me, serves);
        let socket = open("listener").await?;
        let listener = Listener::open(address, socket, "SUBSCRIBE", &channels, patience).await?;
        let ping = Line::new(address.clone(), open("ping").await?);
        let mut socket = open("publisher").await?;
        refuse_cluster(address, &mut socket, patience).await?;
        let publisher = Publisher::new(address.clone(), socket, room, me);
        Ok(Self { ping, listener, publisher })
    }

    /// Closes them. Once this is ready the sockets are closed and whoever waited knows.
    pub(crate) async fn close(self) {
        let Self { ping, listener, publisher } = self;
        drop((listener, publisher));
        ping.close().await;
    }
}

/// Calls are for a single node: keys of one call lie on several slots.
///
/// # Errors
/// [`Trouble::Cluster`], or that nothing came back.
pub(crate) async fn refuse_cluster(
    address: &Address,
    socket: &mut Socket,
    patience: Duration,
) -> Result<(), Trouble> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let asked = timeout(patience, socket.ask(&["INFO", "cluster"])).await.map_err(late);
    let value = asked.flatten().map_err(|error| Trouble::unreachable(address, error))?;
    match value {
        Value::Bulk(_) if value.text().is_some_and(|text| text.contains("cluster_enabled:1")) => {
            Err(Trouble::Cluster { place: address.to_string() })
        }
        // A user who may not ask finds out by the first script.
        _ => Ok(()),
    }
}
