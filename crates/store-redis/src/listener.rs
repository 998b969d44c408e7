//! The connection that only listens.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::address::Address;
use crate::resp::{Value, encode};
use crate::socket::Socket;
use crate::trouble::Trouble;

/// How many messages wait to be heard. When there are more, nothing is read, and Redis lets go of a
/// listener that reads nothing.
const HEARD_MAX: usize = 4096;

/// A message and the channel it came on.
pub(crate) type Message = (String, Bytes);

/// A subscription that is known to be there.
#[derive(Debug)]
pub(crate) struct Listener {
    heard: mpsc::Receiver<Message>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
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
        let (hear, heard) = mpsc::channel(HEARD_MAX);
        let task = tokio::spawn(async move {
            while let Ok(value) = socket.value().await {
                if let Some(message) = message(&value)
                    && hear.send(message).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { heard, task })
    }

    /// The next message; none when the connection is gone.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        self.heard.recv().await
    }

    /// The next message that is there already.
    pub(crate) fn next_now(&mut self) -> Option<Message> {
        self.heard.try_recv().ok()
    }

    /// Ends it. Once this is ready the socket is closed.
    pub(crate) async fn close(mut self) {
        self.task.abort();
        // It was cut off, which is what was asked for.
        drop((&mut self.task).await);
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
