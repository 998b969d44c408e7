//! The other side: a listener, and connections that are read and written by hand.

use std::time::Duration;

use handoff_sdk::{Client, Options};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything here takes on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should have come by now")
}

pub(crate) struct Listener(TcpListener);

/// One connection of a client.
pub(crate) struct Peer {
    stream: TcpStream,
    read: Vec<u8>,
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Such as `GET /v1/server`.
    pub(crate) line: String,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) async fn listener() -> Listener {
    Listener(TcpListener::bind("127.0.0.1:0").await.unwrap())
}

impl Listener {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.url())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = within(self.0.accept()).await.unwrap();
        Peer { stream, read: Vec::new() }
    }

    /// Answers one request on a connection of its own, and gives the request.
    pub(crate) async fn serve(&self, answer: &str) -> Asked {
        let mut peer = self.accept().await;
        let asked = peer.asked().await;
        peer.write(answer.as_bytes()).await;
        asked
    }
}

impl Peer {
    /// The next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        within(self.try_asked()).await.expect("a request, not the end")
    }

    /// The next request, or none if the client closed the connection instead.
    pub(crate) async fn try_asked(&mut self) -> Option<Asked> {
        let head_end = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.read[..head_end].to_vec()).unwrap();
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let mut asked = Asked { line, head, body: Vec::new() };
        let length: usize = asked.header("content-length").map_or(0, |text| text.parse().unwrap());
        while self.read.len() < head_end + length {
            self.read_more().await?;
        }
        asked.body = self.read[head_end..head_end + length].to_vec();
        self.read.drain(..head_end + length);
        Some(asked)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn json(&mut self, body: &str) {
        self.write(ok(body).as_bytes()).await;
    }

    /// Reads so many octets and cuts the connection.
    #[allow(dead_code, reason = "not every suite cuts requests")]
    pub(crate) async fn reads(mut self, octets: usize) {
        within(self.stream.read_exact(&mut vec![0; octets])).await.unwrap();
    }

    /// Waits until the client closes the connection, or cuts it.
    pub(crate) async fn closed(mut self) {
        while within(self.read_more()).await.is_some() {}
    }

    async fn read_more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}

/// A success with JSON.
pub(crate) fn ok(body: &str) -> String {
    answer("200 OK", "application/json", body)
}

/// An answer.
pub(crate) fn answer(status: &str, media_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
