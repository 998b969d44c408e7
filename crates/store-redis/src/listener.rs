//! The connection that only listens.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::address::Address;
use crate::resp::{Value, encode};
use crate::socket::Socket;
use crate::trouble::Trouble;

/// A message and the channel it came on.
pub(crate) type Message = (String, Bytes);

/// A subscription that is known to be there. Nothing is read before somebody listens; Redis lets go of a
/// listener that reads nothing for long.
pub(crate) struct Listener {
    socket: Socket,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl Listener {
    /// Subscribes, to channels or to patterns of them, and waits until all of it is confirmed.
    pub(crate) async fn open(
        address: &Address,
        mut socket: Socket,
        verb: &str,
        channels: &[String],
        patience: Duration,
    ) -> Result<Self, Trouble> {
        let subscribe = async {
            let mut bytes = Vec::new();
            let words: Vec<&[u8]> = std::iter::once(verb)
                .chain(channels.iter().map(|c| &**c))
                .map(str::as_bytes)
                .collect();
            encode(words.into_iter(), &mut bytes);
            socket.stream.write_all(&bytes).await?;
            socket.stream.flush().await?;
            let mut refused = None;
            for _ in channels {
                if let Value::Error(error) = socket.value().await? {
                    refused = Some(error);
                    break;
                }
            }
            Ok::<_, std::io::Error>(refused)
        };
        match timeout(patience, subscribe).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(error))) => return Err(Trouble::refused(address, &error)),
            Ok(Err(error)) => return Err(Trouble::broken(address, error)),
            Err(_) => return Err(Trouble::unreachable(address, "it does not subscribe in time")),
        }
        Ok(Self { socket })
    }

    /// The next message; none when the connection is gone.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = message(&self.socket.value().await.ok()?) {
                return Some(message);
            }
        }
    }

    /// The next message that was read already.
    pub(crate) fn next_now(&mut self) -> Option<Message> {
        while let Ok(Some(value)) = self.socket.value_now() {
            if let Some(message) = message(&value) {
                return Some(message);
            }
        }
        None
    }
}

/// `message channel text`, or `pmessage pattern channel text`; anything else is no message.
fn message(value: &Value) -> Option<Message> {
    let (channel, text) = match value.array() {
        [kind, channel, text] if kind.text() == Some("message") => (channel, text),
        [kind, _, channel, text] if kind.text() == Some("pmessage") => (channel, text),
        _ => return None,
    };
    Some((channel.text()?.to_owned(), text.bytes()?.clone()))
}
