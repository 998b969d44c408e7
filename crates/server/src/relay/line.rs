//! A connection that carries messages.

use std::fmt;
use std::io;
use std::time::Duration;

use handoff_relay::Malformed;
use handoff_relay::session::{Frames, Message, encode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// What is read at once.
const READ_BYTES: usize = 32 << 10;

/// How long an agent may take nothing of what it is told.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How long somebody who is sent away may take to listen.
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// One side of a connection.
pub(super) struct Line {
    stream: Box<dyn Duplex>,
    frames: Frames,
    buffer: Box<[u8]>,
    out: Vec<u8>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            frames: Frames::default(),
            buffer: vec![0; READ_BYTES].into(),
            out: Vec::new(),
        }
    }

    /// Allows larger messages, once the agent is known.
    pub(super) const fn allow(&mut self, body_bytes_max: usize) {
        self.frames.allow(body_bytes_max);
    }

    /// The next message, if it has arrived.
    pub(super) fn message(&mut self) -> Result<Option<Message>, Malformed> {
        self.frames.next_message()
    }

    /// How large the message is that has begun to arrive.
    pub(super) fn begun(&self) -> Option<usize> {
        self.frames.begun()
    }

    /// Reads what arrives next; how much that was, nothing at the end.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        let room = self.frames.room().min(self.buffer.len()).max(1);
        let window = self.buffer.get_mut(..room).unwrap_or_default();
        let read = self.stream.read(window).await?;
        self.frames.push(window.get(..read).unwrap_or_default());
        Ok(read)
    }

    /// The first message, and nothing more than a first message may be.
    pub(super) async fn first(&mut self) -> io::Result<Message> {
        loop {
            let broken = |malformed: Malformed| io::Error::other(malformed);
            if let Some(message) = self.message().map_err(broken)? {
                return Ok(message);
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Says something. An agent that does not listen is an error.
    pub(super) async fn say(&mut self, message: &Message) -> io::Result<()> {
        self.out.clear();
        encode(message, &mut self.out);
        let said = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await
        };
        timeout(STALL_MAX, said).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Says why the connection ends, and listens until that has been understood.
    pub(super) async fn farewell(mut self, message: &Message) {
        let parting = async {
            self.say(message).await?;
            self.stream.shutdown().await?;
            while self.stream.read(&mut self.buffer).await? > 0 {}
            io::Result::Ok(())
        };
        // Whoever does not listen need not know.
        drop(timeout(FAREWELL, parting).await);
    }
}
