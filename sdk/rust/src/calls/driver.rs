//! The task that carries a session: it owns the connection, and does what the session asks for.
//!
//! It waits for whatever comes first: a connection that is being made, a frame, room for a frame, an
//! order, a handler's end, a call that was dropped, time. All of these are cancel safe: a connection
//! that is being made stays, frames and orders are in their queues or taken, ends stay in their set,
//! and what was dropped is in a list.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use handoff_calls::CallId;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::error::{CallError, known};
use super::session::{Body, Deed, NewCall, Session, Standing};
use super::socket::{Ended, Reader, Socket, Writer, opening};
use super::staff::Staff;
use crate::client::Inner;
use crate::connect::later;
use crate::{Error, backoff};

/// How long a session that nobody wants any more goes on to settle what is under way.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// What is heard or ordered before something is written, at most.
const HEARD_FIRST: u32 = 64;

/// How good the connection of a session is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Link {
    /// The server answers.
    Up,
    /// It has not answered for a while.
    Suspect,
    /// There is no connection, and another one is being made.
    Down {
        /// Why.
        why: String,
    },
    /// There will be none any more.
    Over {
        /// Why, if the server does not take this client.
        why: Option<String>,
    },
}

/// What the task is told to do.
pub(super) enum Order {
    Call {
        call: NewCall,
        waiter: Waiter,
    },
    Cancel(CallId),
    /// No more calls of others; told when what runs is finished, and its results stored.
    Drain {
        by: Instant,
        told: oneshot::Sender<usize>,
    },
    /// Settle what is under way, and end.
    Close(oneshot::Sender<()>),
}

/// Who waits for a call. Its room is given back when it is over.
pub(super) struct Waiter {
    pub(super) registered: Option<oneshot::Sender<()>>,
    pub(super) ended: oneshot::Sender<Result<Option<Body>, CallError>>,
    pub(super) room: [tokio::sync::OwnedSemaphorePermit; 2],
}

/// Calls whose handles were dropped and that are wanted no more. As many as there are handles.
#[derive(Debug, Default)]
pub(super) struct Unwanted {
    calls: Mutex<Vec<CallId>>,
    news: Notify,
}

impl Unwanted {
    pub(super) fn add(&self, id: CallId) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.news.notify_one();
    }

    fn take(&self) -> Vec<CallId> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Opening = Pin<Box<dyn Future<Output = Result<Socket, Error>> + Send>>;

pub(super) struct Driver {
    inner: Arc<Inner>,
    frame_bytes_max: usize,
    session: Session,
    staff: Staff,
    orders: mpsc::Receiver<Order>,
    unwanted: Arc<Unwanted>,
    link: watch::Sender<Link>,
    /// Told once, when the first greeting was answered, or why it was not.
    ready: Option<oneshot::Sender<Result<(), Error>>>,
    waiting: BTreeMap<CallId, Waiter>,
    opening: Option<Opening>,
    reader: Option<Reader>,
    writer: Option<Writer>,
    /// Turns since anything was written.
    unwritten: u32,
    draining: Option<(Instant, oneshot::Sender<usize>)>,
    /// When a session that nobody wants ends at the latest, and who is told.
    closing: Option<(Instant, Option<oneshot::Sender<()>>)>,
    over: Option<Arc<Error>>,
}

/// What came first.
enum Turn {
    Opened(Result<Socket, Error>),
    Heard(Result<handoff_calls::wire::Down<Body>, Ended>),
    Wrote(Result<(), Error>),
    Ordered(Option<Order>),
    Worked(Option<handoff_calls::wire::Response<Body>>),
    Unwanted,
    Time,
}

/// What a driver is made of.
pub(super) struct Parts {
    pub(super) inner: Arc<Inner>,
    pub(super) frame_bytes_max: usize,
    pub(super) session: Session,
    pub(super) staff: Staff,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) unwanted: Arc<Unwanted>,
    pub(super) link: watch::Sender<Link>,
    pub(super) ready: oneshot::Sender<Result<(), Error>>,
}

impl Driver {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { inner, frame_bytes_max, session, staff, orders, unwanted, link, ready } = parts;
        Self {
            inner,
            frame_bytes_max,
            session,
            staff,
            orders,
            unwanted,
            link,
            ready: Some(ready),
            waiting: BTreeMap::new(),
            opening: None,
            reader: None,
            writer: None,
            unwritten: 0,
            draining: None,
            closing: None,
            over: None,
        }
    }

    pub(super) async fn run(mut self) {
        self.session.open();
        self.perform();
        while !self.is_over() {
            let turn = self.turn().await;
            self.take(turn);
            self.perform();
        }
        let why = self.over.as_ref().map(ToString::to_string);
        self.link.send_replace(Link::Over { why });
        self.orders.close();
        if let Some(writer) = self.writer.take() {
            writer.close().await;
        }
        let outcome = |sent| known(sent);
        for (id, waiter) in std::mem::take(&mut self.waiting) {
            let (cause, outcome) = (self.over.clone(), outcome(self.session.was_sent(id)));
            drop(waiter.ended.send(Err(CallError::Closed { cause, outcome })));
        }
        while let Some(order) = self.orders.recv().await {
            if let Order::Call { waiter, .. } = order {
                let (cause, outcome) = (self.over.clone(), outcome(false));
                drop(waiter.ended.send(Err(CallError::Closed { cause, outcome })));
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        if let Some((by, _)) = &self.draining {
            let settled = self.session.is_settled();
            if settled || now >= *by {
                let left = self.session.unfinished();
                if let Some((_, told)) = self.draining.take() {
                    // Whoever gave up waiting does not want to know.
                    told.send(left).unwrap_or_default();
                }
                self.closing.get_or_insert((now, None));
            }
        }
        match &mut self.closing {
            _ if self.over.is_some() => true,
            Some((by, told)) if self.session.is_settled() || now >= *by => {
                if let Some(told) = told.take() {
                    told.send(()).unwrap_or_default();
                }
                true
            }
            _ => false,
        }
    }

    async fn turn(&mut self) -> Turn {
        let Self { inner, session, staff, orders, unwanted, opening, reader, writer, .. } = self;
        let ends = [
            session.next_deadline(),
            self.draining.as_ref().map(|(by, _)| *by),
            self.closing.as_ref().map(|(by, _)| *by),
        ];
        let deadline = ends.into_iter().flatten().min();
        let writing = session.has_frames() || writer.as_ref().is_some_and(Writer::is_unflushed);
        let ordering = self.closing.is_none();
        let inputs = pin!(async {
            tokio::select! {
            opened = or_never(opening.as_mut()) => Turn::Opened(opened),
            heard = async {
                match reader {
                    Some(reader) => reader.next(inner).await,
                    None => std::future::pending().await,
                }
            } => Turn::Heard(heard),
            order = orders.recv(), if ordering => Turn::Ordered(order),
            response = staff.next() => Turn::Worked(response),
            () = unwanted.news.notified() => Turn::Unwanted,
            () = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => Turn::Time,
            }
        });
        if !writing {
            return inputs.await;
        }
        let output = pin!(async {
            match writer {
                Some(writer) => writer.carry(|| session.next_frame(Instant::now())).await,
                None => std::future::pending().await,
            }
        });
        // What is there to be heard leads to more to say, and one write carries all of it. But whoever has
        // much to hear is not to be mute.
        let wrote = if self.unwritten < HEARD_FIRST {
            match select(inputs, output).await {
                Either::Left((turn, _)) => return turn,
                Either::Right((wrote, _)) => wrote,
            }
        } else {
            match select(output, inputs).await {
                Either::Left((wrote, _)) => wrote,
                Either::Right((turn, _)) => return turn,
            }
        };
        Turn::Wrote(wrote.map_err(|error| {
            let url = inner.transport.base.url.clone();
            Error::Lost { url, cause: error.into() }
        }))
    }

    fn take(&mut self, turn: Turn) {
        let now = Instant::now();
        self.unwritten = match turn {
            Turn::Wrote(_) => 0,
            _ => self.unwritten.saturating_add(1),
        };
        match turn {
            Turn::Opened(Ok(Socket { reader, writer })) => {
                self.opening = None;
                (self.reader, self.writer) = (Some(reader), Some(writer));
                self.session.connected(now);
            }
            Turn::Opened(Err(error)) => {
                self.opening = None;
                // A server that answers, and that will answer so again.
                if error.is_temporary() { self.lost(error, now) } else { self.dismissed(error) }
            }
            Turn::Heard(Ok(frame)) => self.session.hear(frame, now),
            Turn::Heard(Err(Ended::Lost(error))) | Turn::Wrote(Err(error)) => self.lost(error, now),
            // Whoever was greeted was taken; perhaps it was only silent for too long.
            Turn::Heard(Err(Ended::Dismissed(error))) if self.session.is_live() => {
                self.lost(error, now);
            }
            Turn::Heard(Err(Ended::Dismissed(error))) => self.dismissed(error),
            Turn::Wrote(Ok(())) => {}
            Turn::Ordered(order) => self.obey(order, now),
            Turn::Worked(Some(response)) => self.session.respond(response),
            Turn::Worked(None) => {}
            Turn::Unwanted => {
                for id in self.unwanted.take() {
                    self.session.cancel(id);
                }
            }
            Turn::Time => self.session.tick(now),
        }
    }

    fn obey(&mut self, order: Option<Order>, now: Instant) {
        match order {
            Some(Order::Call { call, waiter }) => {
                self.waiting.insert(call.id, waiter);
                self.session.call(call, now);
            }
            Some(Order::Cancel(id)) => self.session.cancel(id),
            Some(Order::Drain { by, told }) => {
                self.session.stop();
                self.draining = Some((by, told));
            }
            Some(Order::Close(told)) => self.close(now, Some(told)),
            // Nobody is left to order anything.
            None => self.close(now, None),
        }
    }

    fn close(&mut self, now: Instant, told: Option<oneshot::Sender<()>>) {
        self.session.stop();
        self.closing = Some((later(now, SETTLING), told));
    }

    fn lost(&mut self, error: Error, now: Instant) {
        (self.reader, self.writer) = (None, None);
        if let Some(ready) = self.ready.take() {
            // The first of all connections: whoever waits for it decides.
            drop(ready.send(Err(error)));
            self.closing = Some((now, None));
            return;
        }
        self.link.send_replace(Link::Down { why: error.to_string() });
        self.session.lost(now, backoff::fraction());
    }

    fn dismissed(&mut self, error: Error) {
        (self.reader, self.writer) = (None, None);
        match self.ready.take() {
            Some(ready) => {
                drop(ready.send(Err(error)));
                self.closing = Some((Instant::now(), None));
            }
            None => self.over = Some(Arc::new(error)),
        }
    }

    /// Does what the session asks for.
    fn perform(&mut self) {
        while let Some(deed) = self.session.next_deed() {
            match deed {
                Deed::Connect => {
                    self.opening = Some(opening(Arc::clone(&self.inner), self.frame_bytes_max));
                }
                Deed::Disconnect => {
                    let url = self.inner.transport.base.url.clone();
                    let cause = "the server does not answer any more".into();
                    self.lost(Error::Lost { url, cause }, Instant::now());
                }
                Deed::Standing(Standing::Suspect) => {
                    self.link.send_replace(Link::Suspect);
                }
                Deed::Standing(Standing::Good) => {
                    self.link.send_replace(Link::Up);
                    drop(self.ready.take().map(|ready| ready.send(Ok(()))));
                }
                Deed::Registered(id) => {
                    let waiter = self.waiting.get_mut(&id);
                    let registered = waiter.and_then(|waiter| waiter.registered.take());
                    if let Some(registered) = registered {
                        registered.send(()).unwrap_or_default();
                    }
                }
                Deed::Finish(id, finish) => {
                    if let Some(Waiter { ended, room, .. }) = self.waiting.remove(&id) {
                        drop(room);
                        // Whoever gave it up does not want its answer.
                        drop(ended.send(CallError::of(id, finish)));
                    }
                }
                Deed::Begin(offer) => self.staff.begin(*offer),
                Deed::Abort(id, fence) => self.staff.abort(id, fence),
                Deed::Taken { taken } => self.staff.taken(taken),
            }
        }
    }
}

/// What a future gives, if there is one; otherwise nothing ever.
async fn or_never<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
