//! A conversation word by word, to compare what is answered past hyper with what hyper answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

/// A line that makes a request one for hyper, and changes nothing else.
pub const FOR_HYPER: &str = "te: trailers\r\n";

pub struct Talk {
    pub stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub struct Heard {
    pub first: String,
    pub lines: BTreeMap<String, String>,
    pub body: Value,
}

impl Talk {
    pub async fn begin(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    pub async fn say(&mut self, words: &str) {
        self.stream.write_all(words.as_bytes()).await.unwrap();
    }

    /// The next answer; none if the connection is closed instead.
    pub async fn hear(&mut self) -> Option<Heard> {
        loop {
            if let Some((heard, bytes)) = answer(&self.read) {
                self.read.drain(..bytes);
                return Some(heard);
            }
            let reading = self.stream.read_buf(&mut self.read);
            if timeout(PATIENCE, reading).await.expect("it answers").unwrap() == 0 {
                assert!(self.read.is_empty(), "half an answer");
                return None;
            }
        }
    }
}

fn answer(read: &[u8]) -> Option<(Heard, usize)> {
    let head_bytes = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..head_bytes - 4]).unwrap();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap().to_owned();
    let lines: BTreeMap<String, String> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let end = head_bytes + lines["content-length"].parse::<usize>().unwrap();
    let body = serde_json::from_slice(read.get(head_bytes..end)?).unwrap();
    Some((Heard { first, lines, body }, end))
}

/// What differs from one request to the next whoever answers it.
pub fn without_names(mut heard: Heard) -> Heard {
    assert!(heard.lines.remove("x-request-id").is_some(), "{heard:?}");
    assert_eq!(heard.lines.remove("date").map(|date| date.len()), Some(29), "{heard:?}");
    if let Some(trace) = heard.lines.get_mut("traceresponse") {
        trace.replace_range(36..52, "................");
    }
    heard.lines.remove("content-length");
    if let Some(body) = heard.body.as_object_mut() {
        body.remove("requestId");
        body.remove("results");
    }
    heard
}

/// What a request is answered past hyper, and what hyper answers another in the same words.
pub async fn both(address: SocketAddr, plain: &str, other: &str) -> (Heard, Heard) {
    let mut heard = Vec::new();
    for words in [plain, other] {
        let mut talk = Talk::begin(address).await;
        talk.say(words).await;
        heard.push(without_names(talk.hear().await.unwrap()));
    }
    let other = heard.pop().unwrap();
    (heard.pop().unwrap(), other)
}
