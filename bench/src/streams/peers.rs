//! NATS and Redis in their own words, by the same loop that speaks to us.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use crate::load::Wire;

/// JetStream: publish with a reply, an acknowledgement comes back.
#[derive(Debug)]
pub(super) struct Nats {
    request: Vec<u8>,
}

impl Nats {
    pub(super) fn new(bytes: usize) -> Self {
        let payload = "n".repeat(bytes);
        let request = format!("PUB bench.a inbox.a {bytes}\r\n{payload}\r\n").into_bytes();
        Self { request }
    }

    /// Makes the stream.
    pub(super) fn create(address: SocketAddr) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let config = r#"{"name":"bench","subjects":["bench.*"],"storage":"file","num_replicas":1,"retention":"limits"}"#;
        let create = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB inbox.b 1\r\nPUB $JS.API.STREAM.CREATE.bench inbox.b {}\r\n{config}\r\n",
            config.len()
        );
        stream.write_all(create.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::Error::other("NATS made no stream"));
            }
            if line.starts_with('{') {
                return match line.contains("\"error\"") {
                    true => Err(io::Error::other(line)),
                    false => Ok(()),
                };
            }
        }
    }
}

impl Wire for Nats {
    fn greet(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(b"CONNECT {\"verbose\":false}\r\nSUB inbox.a 1\r\nPING\r\n")?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        while !line.starts_with("PONG") {
            line.clear();
            reader.read_line(&mut line)?;
        }
        Ok(())
    }

    /// It asks whether we live; a run is shorter than its patience.
    fn aside(&self, heard: &[u8]) -> usize {
        if heard.starts_with(b"PING\r\n") { 6 } else { 0 }
    }

    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>> {
        let Some(end) = heard.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(heard.get(..end).unwrap_or_default());
        let Some(bytes) = line.strip_prefix("MSG").and_then(|rest| rest.trim().rsplit(' ').next())
        else {
            return Err(io::Error::other(format!("NATS says {line}")));
        };
        let bytes: usize = bytes.parse().map_err(io::Error::other)?;
        let whole = end + 1 + bytes + 2;
        let Some(body) = heard.get(end + 1..whole) else { return Ok(None) };
        if body.windows(7).any(|window| window == b"\"error\"") {
            return Err(io::Error::other(String::from_utf8_lossy(body).into_owned()));
        }
        Ok(Some(whole))
    }
}

/// `XADD`
#[derive(Debug)]
pub(super) struct Redis {
    request: Vec<u8>,
}

impl Redis {
    pub(super) fn new(bytes: usize) -> Self {
        let payload = "r".repeat(bytes);
        let request = format!(
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n${bytes}\r\n{payload}\r\n"
        );
        Self { request: request.into_bytes() }
    }
}

impl Wire for Redis {
    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>> {
        let Some(end) = heard.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(heard.get(..end).unwrap_or_default());
        let Some(bytes) = line.strip_prefix('$') else {
            return Err(io::Error::other(format!("Redis says {line}")));
        };
        let bytes: usize = bytes.trim().parse().map_err(io::Error::other)?;
        let whole = end + 1 + bytes + 2;
        Ok((heard.len() >= whole).then_some(whole))
    }
}
