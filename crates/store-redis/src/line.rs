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

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::resp::{Value, encode};
use crate::socket::Socket;
use crate::trouble::Trouble;
use crate::wire::Wire;

/// How many orders wait for the socket.
const ORDERS_MAX: usize = 1024;

/// A command and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) bytes: Vec<u8>,
    pub(crate) answer: oneshot::Sender<Value>,
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
        let task = tokio::spawn(drive(Wire::new(socket), taken));
        Self::with(address, orders, Some(task))
    }

    /// One that somebody else drives, and the orders that are theirs to take.
    pub(crate) fn driven_elsewhere(address: Address) -> (Self, mpsc::Receiver<Order>) {
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        (Self::with(address, orders, None), taken)
    }

    fn with(address: Address, orders: mpsc::Sender<Order>, task: Option<JoinHandle<()>>) -> Self {
        let shared = Shared { address, task: Mutex::new(task) };
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
async fn drive(mut wire: Wire<oneshot::Sender<Value>>, mut orders: mpsc::Receiver<Order>) {
    loop {
        // An order is taken or not, and an answer is given or not: either may be dropped while it waits. What
        // is ordered at once is written at once.
        tokio::select! {
            biased;
            order = orders.recv(), if wire.has_room() => match order {
                Some(Order { bytes, answer }) => wire.say_bytes(&bytes, answer),
                None => return,
            },
            answer = wire.next() => match answer {
                // Whoever asked may not wait any more.
                Some((waits, value)) => drop(waits.send(value)),
                None => return,
            },
        }
    }
}
