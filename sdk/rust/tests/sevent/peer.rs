//! The other side: connections that are read and written by hand.

use std::time::Duration;

use bytes::BytesMut;
use handoff_sdk::sevent::{Ended, Event, Notifications, Options, Session};
use handoff_sevent::{Answer, Frames, Received, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything here takes on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should have come by now")
}

/// The server's side of a session.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    frames: Frames,
}

/// A session and its two ends.
pub(crate) async fn session(options: Options) -> (Session, Notifications, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (client, accepted) =
        within(async { tokio::join!(Session::connect(&address, options), listener.accept()) })
            .await;
    let (session, notifications) = client.unwrap();
    let (stream, _) = accepted.unwrap();
    (session, notifications, Peer { stream, frames: Frames::new(1 << 20) })
}

impl Peer {
    /// The next request.
    pub(crate) async fn received(&mut self) -> Received {
        within(self.try_received()).await.expect("a request, not the end")
    }

    pub(crate) async fn asked(&mut self) -> Request {
        self.received().await.request
    }

    /// The next request, or none at the end.
    pub(crate) async fn try_received(&mut self) -> Option<Received> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                return Some(Request::decode(&frame).unwrap());
            }
            match self.stream.read_buf(self.frames.buffer_mut()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(crate) async fn write(&mut self, octets: &[u8]) {
        within(self.stream.write_all(octets)).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, answer: &Answer) {
        self.write(&octets(answer)).await;
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn closed(mut self) {
        while within(self.try_received()).await.is_some() {}
    }
}

pub(crate) fn octets(answer: &Answer) -> BytesMut {
    let mut out = BytesMut::new();
    answer.encode(&mut out);
    out
}

pub(crate) fn event(description: &str) -> Event {
    Event { description: description.to_owned(), period: 1.5, repeat: -1 }
}

pub(crate) fn listed(id: i32) -> Answer {
    Answer::ListedEvents { ids: vec![id] }
}

pub(crate) fn notify(id: i32) -> Answer {
    Answer::Notify { id, types: vec!["a".to_owned()], event: event("tea"), timestamp: 7 }
}

/// Why the session is over, once it is.
pub(crate) async fn ended(notifications: &mut Notifications) -> Ended {
    while within(notifications.next()).await.is_some() {}
    notifications.ended().unwrap()
}
