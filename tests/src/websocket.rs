//! A WebSocket client that knows only RFC 6455 and octets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long is waited for a byte before somebody else has a turn.
const TURN: Duration = Duration::from_millis(1);

/// The largest frame that is read.
const FRAME_BYTES_MAX: usize = 4 << 20;

/// A connection.
#[derive(Debug)]
pub struct WebSocket {
    stream: TcpStream,
    /// What came and was not taken.
    read: Vec<u8>,
}

impl WebSocket {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// Whatever the operating system answers, or the server says instead of 101.
    pub fn connect(address: SocketAddr, path: &str, patience: Duration) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_read_timeout(Some(patience))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: handoff.calls.v1\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut socket = Self { stream, read: Vec::new() };
        let end = loop {
            let found = socket.read.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = found {
                break end + 4;
            }
            socket.fill()?;
        };
        let head: Vec<u8> = socket.read.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let accepted = head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        if !head.starts_with("HTTP/1.1 101") || !accepted {
            return Err(io::Error::other(format!("no WebSocket: {head}")));
        }
        socket.stream.set_read_timeout(Some(TURN))?;
        Ok(socket)
    }

    /// Says a frame.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn say(&mut self, frame: &Value) -> io::Result<()> {
        let text = frame.to_string();
        let mut bytes = vec![0x81];
        // A client masks what it says; by zeros it stays what it is.
        match (u8::try_from(text.len()), u16::try_from(text.len())) {
            (Ok(length), _) if length < 126 => bytes.push(0x80 | length),
            (_, Ok(length)) => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(text.as_bytes());
        self.stream.write_all(&bytes)
    }

    /// The next frame, if one is there.
    ///
    /// # Errors
    /// When the connection is gone, or says what is no frame.
    pub fn hear(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some((opcode, payload)) = self.take()? {
                match opcode {
                    1 => return Ok(Some(serde_json::from_slice(&payload)?)),
                    8 => return Err(closed(&payload)),
                    _ => continue,
                }
            }
            match self.fill() {
                Ok(()) => {}
                Err(error) if is_nothing(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let (Some(first), Some(second)) = (self.read.first(), self.read.get(1)) else {
            return Ok(None);
        };
        let (opcode, short) = (first & 0x0f, second & 0x7f);
        if first & 0x80 == 0 || second & 0x80 != 0 {
            return Err(io::Error::other("a frame in pieces, or masked by a server"));
        }
        let digits = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(digits) = self.read.get(2..2 + digits) else { return Ok(None) };
        let begin = 2 + digits.len();
        let length = match digits {
            [] => usize::from(short),
            digits => digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)),
        };
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        let Some(payload) = self.read.get(begin..begin + length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.read.drain(..begin + length);
        Ok(Some((opcode, payload)))
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            many => {
                self.read.extend_from_slice(buffer.get(..many).unwrap_or_default());
                Ok(())
            }
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn closed(payload: &[u8]) -> io::Error {
    let words = payload.get(2..).map(String::from_utf8_lossy).unwrap_or_default();
    io::Error::new(io::ErrorKind::ConnectionAborted, format!("the server closed: {words}"))
}
