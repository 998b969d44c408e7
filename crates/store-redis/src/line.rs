//! One connection that asks and is answered, in order.
//!
//! ```text
//!  ask ──▶ orders (bounded) ──▶ ┌──────┐ ──▶ socket      what was taken and not answered waits in
//!  ask ◀── its answer ◀──────── │ task │ ◀── socket      order; however the task ends, all of it is
//!                               └──────┘                 told that the connection broke
//! ```
//!
//! The task alone owns the socket. [`Line::close`] comes back only when the task is gone, and with it
//! the socket and everybody who waited: a new connection is never opened beside an old one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::resp::{Value, encode};
use crate::socket::Socket;
use crate::trouble::Trouble;

/// How many orders wait for the socket.
const ORDERS_MAX: usize = 1024;

/// How many orders may be under way without an answer.
const UNDER_WAY_MAX: usize = 4096;

/// How much is written at once before answers are read again.
const WRITE_BYTES: usize = 256 << 10;

/// A command and who waits for its answer.
struct Order {
    bytes: Vec<u8>,
    answer: oneshot::Sender<Value>,
}

/// A connection that asks and is answered. Clones use the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    orders: mpsc::Sender<Order>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

impl Line {
    /// Drives a connection.
    pub(crate) fn new(address: Address, socket: Socket) -> Self {
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        let task = tokio::spawn(drive(socket, taken));
        let shared = Shared { address, task: Mutex::new(Some(task)) };
        Self { orders, shared: Arc::new(shared) }
    }

    /// Sends a command and waits for the answer. An error of the server is an answer.
    ///
    /// # Errors
    /// [`Trouble::Broken`]: it may have been done all the same.
    ///
    /// # Cancel safety
    /// Dropped, the command may still be sent; its answer is thrown away.
    pub(crate) async fn ask<'a>(
        &self,
        parts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Value, Trouble> {
        let mut bytes = Vec::new();
        encode(parts, &mut bytes);
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order { bytes, answer }).await.map_err(|_| self.broken())?;
        answered.await.map_err(|_| self.broken())
    }

    /// Sends commands one behind the other and waits for all answers.
    ///
    /// # Errors
    /// [`Trouble::Broken`]: any of them may have been done.
    pub(crate) async fn ask_all(&self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, Trouble> {
        let mut values = Vec::with_capacity(commands.len());
        for some in commands.chunks(ORDERS_MAX) {
            let mut coming = Vec::with_capacity(some.len());
            for command in some {
                let mut bytes = Vec::new();
                encode(command.iter().map(|part| &**part), &mut bytes);
                let (answer, answered) = oneshot::channel();
                let sent = self.orders.send(Order { bytes, answer }).await;
                sent.map_err(|_| self.broken())?;
                coming.push(answered);
            }
            for answered in coming {
                values.push(answered.await.map_err(|_| self.broken())?);
            }
        }
        Ok(values)
    }

    fn broken(&self) -> Trouble {
        Trouble::broken(&self.shared.address, "nothing comes back any more")
    }

    /// Ready when the connection is gone.
    pub(crate) async fn broke(&self) {
        self.orders.closed().await;
    }

    /// Ends it. Once this is ready the socket is closed and everybody who waited knows.
    pub(crate) async fn close(&self) {
        let task = self.shared.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
            // It was cut off, which is what was asked for.
            drop(task.await);
        }
    }
}

/// Writes what is ordered and hands out what comes back, until the socket breaks or nobody is left
/// to order. Whoever waits then finds the other end gone.
async fn drive(socket: Socket, mut orders: mpsc::Receiver<Order>) {
    let Socket { stream, mut decoder, mut buffer } = socket;
    let (mut from, mut to) = tokio::io::split(stream);
    let mut waiting: VecDeque<oneshot::Sender<Value>> = VecDeque::new();
    let mut out: Vec<u8> = Vec::new();
    loop {
        loop {
            match (decoder.next(&mut buffer), waiting.is_empty()) {
                (Ok(None), _) => break,
                (Ok(Some(value)), false) => {
                    // Whoever asked may not wait any more.
                    drop(waiting.pop_front().map(|answer| answer.send(value)));
                }
                // An answer that nobody asked for, or bytes without meaning.
                (Ok(Some(_)), true) | (Err(_), _) => return,
            }
        }
        buffer.reserve(16 << 10);
        // Reading takes bytes into the buffer or none at all, and an order is taken or not: either
        // may be dropped while it waits.
        tokio::select! {
            read = from.read_buf(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            order = orders.recv(), if waiting.len() < UNDER_WAY_MAX => {
                let mut next = order;
                if next.is_none() {
                    return;
                }
                while let Some(Order { bytes, answer }) = next {
                    out.extend_from_slice(&bytes);
                    waiting.push_back(answer);
                    let full = out.len() >= WRITE_BYTES || waiting.len() >= UNDER_WAY_MAX;
                    next = if full { None } else { orders.try_recv().ok() };
                }
                if to.write_all(&out).await.is_err() || to.flush().await.is_err() {
                    return;
                }
                out.clear();
            }
        }
    }
}
