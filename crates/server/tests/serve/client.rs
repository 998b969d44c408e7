//! A sevent client.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::BytesMut;
use handoff_sevent::{Answer, Event, Frames, Request, Selection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{PATIENCE, Served};

/// A connection, in the clear or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A session.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    frames: Frames,
    /// Notifications that came while an answer was waited for.
    told: VecDeque<Answer>,
}

impl Client {
    pub(crate) async fn connect(server: &Served) -> Self {
        Self::connect_to(server.at.events.unwrap()).await
    }

    pub(crate) async fn connect_to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        let stream = Box::new(stream);
        Self { stream, frames: Frames::new(u32::MAX), told: VecDeque::new() }
    }

    pub(crate) async fn send(&mut self, request: Request) {
        self.send_with(request, None).await;
    }

    pub(crate) async fn send_with(&mut self, request: Request, token: Option<&str>) {
        self.send_octets(&octets(&request, token)).await;
    }

    pub(crate) async fn send_octets(&mut self, octets: &[u8]) {
        timeout(PATIENCE, self.stream.write_all(octets)).await.unwrap().unwrap();
    }

    /// Says that nothing more will be asked.
    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// The next message, whatever it is; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                return Some(Answer::decode(&frame).unwrap());
            }
            let read = self.stream.read_buf(self.frames.buffer_mut());
            match timeout(PATIENCE, read).await.unwrap() {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next answer; notifications that come before it are kept.
    pub(crate) async fn answer(&mut self) -> Answer {
        loop {
            match self.next().await.unwrap() {
                told @ Answer::Notify { .. } => self.told.push_back(told),
                answer => return answer,
            }
        }
    }

    /// The next notification.
    pub(crate) async fn told(&mut self) -> Answer {
        if let Some(told) = self.told.pop_front() {
            return told;
        }
        match self.next().await.unwrap() {
            told @ Answer::Notify { .. } => told,
            answer => panic!("an answer nobody waits for: {answer:?}"),
        }
    }

    pub(crate) async fn ask(&mut self, request: Request) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// Registers an event and gives its id.
    pub(crate) async fn register(&mut self, request: Request) -> i32 {
        match self.ask(request).await {
            Answer::EventRegistration { id, .. } => id,
            other => panic!("not registered: {other:?}"),
        }
    }

    /// All ids.
    pub(crate) async fn list(&mut self) -> Vec<i32> {
        match self.ask(Request::ListEvents { types: None }).await {
            Answer::ListedEvents { ids } => ids,
            other => panic!("not listed: {other:?}"),
        }
    }
}

pub(crate) fn octets(request: &Request, token: Option<&str>) -> BytesMut {
    let mut octets = BytesMut::new();
    request.encode(token.map(str::as_bytes), &mut octets);
    octets
}

/// An event that occurs every `period` seconds for ever.
pub(crate) fn every(period: f64, name: &str) -> Request {
    event(period, -1, name, "words")
}

pub(crate) fn event(period: f64, repeat: i32, name: &str, description: &str) -> Request {
    let event = Event { description: description.to_owned(), period, repeat };
    Request::RegisterEvent { event, types: vec![name.to_owned()] }
}

/// A selection by type.
pub(crate) fn of_type(name: &str) -> Selection {
    Selection { ids: Vec::new(), types: vec![name.to_owned()] }
}
