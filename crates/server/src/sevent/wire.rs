//! A connection, in the clear or inside TLS.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Where octets are read to, before it is known whose they are: a session that says nothing
    /// has no buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connection.
#[derive(Debug)]
pub(super) enum Wire {
    /// In the clear.
    Plain(TcpStream),
    /// Inside TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Reads what has arrived and gives it to `take`. How much that was; nothing at the end.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let read = match self {
                Self::Plain(stream) => Pin::new(stream).poll_read(context, &mut buffer),
                Self::Tls(stream) => Pin::new(stream).poll_read(context, &mut buffer),
            };
            read.map_ok(|()| {
                take(buffer.filled());
                buffer.filled().len()
            })
        })
    }

    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match (self, slices) {
            // One notification is what is written most, and the kernel takes it with less ado.
            (Self::Plain(stream), [only]) => Pin::new(stream).poll_write(context, only),
            (Self::Plain(stream), _) => Pin::new(stream).poll_write_vectored(context, slices),
            (Self::Tls(stream), _) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    pub(super) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
