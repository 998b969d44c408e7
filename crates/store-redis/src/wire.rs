//! A connection that asks and is answered, in order, for whoever polls it: nothing of it runs by itself.
//!
//! ```text
//!  say ──▶ out ──▶ socket        what was said and not answered waits in order, with whatever its owner
//!  next ◀── its answer ◀── socket   needs to know by then
//! ```
//!
//! Much is said before anything is written: bytes leave when the owner waits for the next answer.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::resp::{Value, encode};
use crate::socket::Socket;

/// How many questions may be under way without an answer.
const UNDER_WAY_MAX: usize = 4096;

/// How much is said before it is written.
const WRITE_BYTES: usize = 256 << 10;

/// A connection, and who waits for the answers that are to come.
pub(crate) struct Wire<W> {
    socket: Socket,
    out: Vec<u8>,
    /// How much of that is written.
    written: usize,
    flushed: bool,
    waiting: VecDeque<W>,
}

impl<W> Wire<W> {
    pub(crate) const fn new(socket: Socket) -> Self {
        Self { socket, out: Vec::new(), written: 0, flushed: true, waiting: VecDeque::new() }
    }

    /// Says a command, and who its answer is for.
    pub(crate) fn say<'a>(&mut self, parts: impl ExactSizeIterator<Item = &'a [u8]>, who: W) {
        encode(parts, &mut self.out);
        self.waiting.push_back(who);
    }

    /// The same with a command that is in bytes already.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8], who: W) {
        self.out.extend_from_slice(bytes);
        self.waiting.push_back(who);
    }

    /// Whether more may be said before something is written and answered.
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() < WRITE_BYTES && self.waiting.len() < UNDER_WAY_MAX
    }

    /// Everything that was said is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what was said, and gives the next answer and who it is for; none when the connection is
    /// of no use any more.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<(W, Value)> {
        poll_fn(|cx| self.poll_next(cx)).await.ok()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(W, Value)>> {
        // What cannot be written yet does not keep answers from being read.
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error));
        }
        let value = ready!(pin!(self.socket.value()).poll(cx))?;
        let unasked = || io::Error::other("an answer that nobody asked for");
        Poll::Ready(self.waiting.pop_front().map(|who| (who, value)).ok_or_else(unasked))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            self.flushed = false;
            match ready!(Pin::new(&mut self.socket.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                many => self.written = self.written.saturating_add(many),
            }
        }
        if !self.flushed {
            ready!(Pin::new(&mut self.socket.stream).poll_flush(cx))?;
            self.flushed = true;
            self.written = 0;
            self.out.clear();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::Wire;
    use crate::resp::Value;
    use crate::socket::Socket;

    fn wire() -> (Wire<u8>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 10);
        (Wire::new(Socket::of(Box::new(ours))), theirs)
    }

    #[tokio::test]
    async fn what_is_said_goes_out_when_its_answer_is_waited_for_and_answers_come_in_order() {
        let (mut wire, mut server) = wire();
        for (word, who) in [(&b"ONE"[..], 1), (b"TWO", 2)] {
            wire.say([word].into_iter(), who);
        }
        server.write_all(b"+a\r\n:7\r\n").await.unwrap();
        let first = wire.next().await;
        assert_eq!(first, Some((1, Value::Simple("a".into()))));
        let mut heard = [0; 26];
        server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"*1\r\n$3\r\nONE\r\n*1\r\n$3\r\nTWO\r\n");
        assert!(!wire.is_idle());
        assert_eq!(wire.next().await, Some((2, Value::Integer(7))));
        assert!(wire.is_idle());
    }

    #[tokio::test]
    async fn more_than_the_other_side_takes_at_once_arrives_whole() {
        let (mut wire, mut server) = wire();
        let large = vec![b'x'; 100_000];
        wire.say([&*large].into_iter(), 1);
        let theirs = async {
            let mut heard = vec![0; 100_000 + b"*1\r\n$100000\r\n\r\n".len()];
            server.read_exact(&mut heard).await.unwrap();
            server.write_all(b"+OK\r\n").await.unwrap();
            heard.iter().filter(|byte| **byte == b'x').count()
        };
        let (answer, many) = tokio::join!(wire.next(), theirs);
        assert_eq!((answer, many), (Some((1, Value::Simple("OK".into()))), 100_000));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_asked_for_ends_it() {
        let (mut wire, mut server) = wire();
        server.write_all(b"+OK\r\n").await.unwrap();
        assert_eq!(wire.next().await, None);
    }
}
