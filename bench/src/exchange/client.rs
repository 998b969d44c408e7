//! As much HTTP as an ERP and an administrator need: one connection, one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use handoff_probe::now;
use serde_json::Value;

/// Whoever is told to come again does so after this, and gives up after that.
const COMES_AGAIN: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(300);

/// A connection that is kept.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), body: Vec::new() })
    }

    /// Asks, and gives the bytes of the answer. What is not a success is an error with its words.
    pub(super) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<&[u8]> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let status = self.say(request.as_bytes())?;
        if !status.starts_with("HTTP/1.1 20") {
            let words = String::from_utf8_lossy(&self.body);
            return Err(io::Error::other(format!("{method} {path}: {status}: {words}")));
        }
        Ok(&self.body)
    }

    /// Sends a request that is ready until it is taken, as a device does: whoever is told to come
    /// again comes again. How often it was told so.
    pub(super) fn insist(&mut self, request: &[u8]) -> io::Result<u64> {
        let begun = now();
        let mut again = 0;
        loop {
            let status = self.say(request)?;
            let later = ["HTTP/1.1 429", "HTTP/1.1 503"].iter().any(|no| status.starts_with(no));
            if status.starts_with("HTTP/1.1 20") {
                return Ok(again);
            }
            if !later || begun.elapsed() > PATIENCE {
                let words = String::from_utf8_lossy(&self.body);
                return Err(io::Error::other(format!("{status}: {words}")));
            }
            again += 1;
            thread::park_timeout(COMES_AGAIN);
        }
    }

    /// Sends a request and reads the answer's body. Its first line.
    fn say(&mut self, request: &[u8]) -> io::Result<String> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.trim_end().to_owned();
        let (mut length, mut chunked) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        self.body.clear();
        match chunked {
            true => self.read_chunks()?,
            false => self.read_more(length)?,
        }
        Ok(status)
    }

    /// The same, read as JSON.
    pub(super) fn ask_json(&mut self, method: &str, path: &str, body: &str) -> io::Result<Value> {
        Ok(serde_json::from_slice(self.ask(method, path, body)?)?)
    }

    fn read_chunks(&mut self) -> io::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
            self.read_more(length)?;
            line.clear();
            self.stream.read_line(&mut line)?;
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn read_more(&mut self, length: usize) -> io::Result<()> {
        let before = self.body.len();
        self.body.resize(before + length, 0);
        self.stream.read_exact(self.body.get_mut(before..).unwrap_or_default())
    }
}

/// A field of an answer as text.
pub(super) fn text(answer: &Value, field: &str) -> io::Result<String> {
    let found = answer.get(field).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| io::Error::other(format!("the answer has no {field}: {answer}")))
}
