//! HTTP as it is measured: requests that are ready to be sent, answers that are only counted.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;

use crate::load::{Offer, Wire, drive};

/// The same request over and over, or several in turn.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Vec<Vec<u8>>,
    next: usize,
    /// The body of the last answer, for whoever looks at one.
    pub(crate) body: Vec<u8>,
    /// Bytes of all bodies.
    pub(crate) bytes: u64,
}

impl Requests {
    pub(crate) fn of(all: Vec<Vec<u8>>) -> Self {
        Self { all, next: 0, body: Vec::new(), bytes: 0 }
    }
}

impl Wire for Requests {
    fn request(&mut self, out: &mut Vec<u8>) {
        if let Some(request) = self.all.get(self.next) {
            out.extend_from_slice(request);
        }
        self.next = (self.next + 1) % self.all.len().max(1);
    }

    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>> {
        let Some((head_bytes, length)) = measure(heard) else { return Ok(None) };
        let whole = head_bytes + length;
        let Some(body) = heard.get(head_bytes..whole) else { return Ok(None) };
        if !heard.starts_with(b"HTTP/1.1 20") {
            let head = String::from_utf8_lossy(heard.get(..head_bytes).unwrap_or_default());
            let status = head.lines().next().unwrap_or_default();
            let words = String::from_utf8_lossy(body);
            return Err(io::Error::other(format!("{status}: {words}")));
        }
        self.bytes += length as u64;
        self.body.clear();
        self.body.extend_from_slice(body);
        Ok(Some(whole))
    }
}

/// The bytes of the head at the front, and of the body behind it; none if the head is not whole. What a client
/// does beside its sockets is kept small: it shares the processors with whoever it measures.
fn measure(heard: &[u8]) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"content-length:";
    let (mut at, mut length) = (0, 0);
    loop {
        let rest = heard.get(at..)?;
        let line = rest.get(..rest.iter().position(|byte| *byte == b'\n')?)?;
        at += line.len() + 1;
        if matches!(line, [] | [b'\r']) {
            return Some((at, length));
        }
        if let Some((name, value)) = line.split_at_checked(LENGTH.len())
            && name.eq_ignore_ascii_case(LENGTH)
        {
            length = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
        }
    }
}

pub(crate) fn get(path: &str, accept: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n").into_bytes()
}

pub(crate) fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Asks once and gives what was answered.
pub(crate) fn ask(address: SocketAddr, request: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut requests = Requests::of(vec![request]);
    let offer = Offer { requests_max: 1, ..Offer::of(1, 1, std::time::Duration::MAX) };
    drive(address, offer, &mut requests)?;
    Ok(requests.body)
}

/// Asks once and reads the answer.
pub(crate) fn ask_json(address: SocketAddr, request: Vec<u8>) -> io::Result<Value> {
    Ok(serde_json::from_slice(&ask(address, request)?)?)
}
