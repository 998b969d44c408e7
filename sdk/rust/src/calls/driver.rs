//! The task that carries a session: it owns the connection, and does what the session asks for.
//!
//! It waits for whatever comes: a connection that is being made, frames, room for frames, orders, handlers'
//! ends, calls that were dropped, time. In one turn it takes what there is of each, and only then writes: what
//! is heard leads to more to say, and one message carries all of it. Before it writes it lets others run once,
//! because whoever just got an answer often has the next call, and a handler that just began its result. Of
//! frames it takes a few at a time: if it heard all there is before it wrote, all calls under way would go
//! round as one convoy, and the server would wait while they are heard.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use handoff_calls::CallId;
use handoff_calls::wire::Down;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, Sleep, sleep_until};

use super::error::{CallError, known};
use super::session::{Body, Deed, Mixing, NewCall, Session, Standing};
use super::socket::{Ended, Reader, Socket, Writer, opening};
use super::staff::Staff;
use crate::client::Inner;
use crate::connect::later;
use crate::{Error, backoff};

/// How long a session that nobody wants any more goes on to settle what is under way.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// How often others run before something is written, at most: whoever has much to hear is not to be mute.
const LETS_RUN: u32 = 4;

/// Orders taken at once.
const ORDERS_AT_ONCE: usize = 256;

/// Handlers' ends taken at once.
const ENDS_AT_ONCE: usize = 256;

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
    news: AtomicWaker,
}

impl Unwanted {
    pub(super) fn add(&self, id: CallId) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.news.wake();
    }

    /// Those there are. Whoever asks is woken by more.
    fn take(&self, cx: &Context<'_>) -> Vec<CallId> {
        self.news.register(cx.waker());
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
    waiting: HashMap<CallId, Waiter, Mixing>,
    opening: Option<Opening>,
    reader: Option<Reader>,
    writer: Option<Writer>,
    /// How often others ran since there is something to write.
    let_run: u32,
    /// Somebody was woken who may have something to say.
    woke: bool,
    /// Orders that were taken.
    taken: Vec<Order>,
    /// Rings at what is due next, or before.
    alarm: Pin<Box<Sleep>>,
    draining: Option<(Instant, oneshot::Sender<usize>)>,
    /// When a session that nobody wants ends at the latest, and who is told.
    closing: Option<(Instant, Option<oneshot::Sender<()>>)>,
    over: Option<Arc<Error>>,
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
            waiting: HashMap::default(),
            opening: None,
            reader: None,
            writer: None,
            let_run: 0,
            woke: false,
            taken: Vec::new(),
            alarm: Box::pin(sleep_until(Instant::now())),
            draining: None,
            closing: None,
            over: None,
        }
    }

    pub(super) async fn run(mut self) {
        self.session.open();
        self.perform();
        while !self.is_over() {
            poll_fn(|cx| self.poll_turn(cx)).await;
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

    /// Takes what there is, does what that leads to, and writes. Ready when something happened.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let moved = self.take_all(now, cx);
        if moved {
            self.perform();
        }
        let writes = self.session.has_frames();
        if moved && (writes || self.woke) && self.let_run < LETS_RUN {
            self.woke = false;
            self.let_run += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rested = std::mem::take(&mut self.let_run) > 0;
        let Self { session, writer, .. } = self;
        let wrote = match writer {
            Some(writer) if writes || writer.is_unflushed() => {
                writer.poll_carry(|| session.next_message(now), cx)
            }
            _ => Poll::Pending,
        };
        // What was written may be over for its caller, or is to be said again some time.
        self.perform();
        match wrote {
            Poll::Ready(Err(error)) => {
                let url = self.inner.transport.base.url.clone();
                self.lost(Error::Lost { url, cause: error.into() }, now);
                self.perform();
                Poll::Ready(())
            }
            _ if moved || rested => Poll::Ready(()),
            _ => match self.poll_time(now, cx) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            },
        }
    }

    /// Takes all there is, a bounded part of it, and says whether there was something.
    fn take_all(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if let Some(opening) = &mut self.opening
            && let Poll::Ready(opened) = opening.as_mut().poll(cx)
        {
            self.opening = None;
            self.take_opened(opened, now);
            moved = true;
        }
        // Whoever was woken by what was heard has its turn first: what it says goes out before more is heard.
        if self.let_run == 0
            && let Some(reader) = &mut self.reader
            && let Poll::Ready(heard) = reader.poll_heard(&self.inner, cx)
        {
            self.take_heard(heard, now);
            moved = true;
        }
        if self.closing.is_none() {
            let mut taken = std::mem::take(&mut self.taken);
            if let Poll::Ready(many) = self.orders.poll_recv_many(cx, &mut taken, ORDERS_AT_ONCE) {
                for order in taken.drain(..) {
                    self.obey(order, now);
                }
                if many == 0 {
                    // Nobody is left to order anything.
                    self.close(now, None);
                }
                moved = true;
            }
            self.taken = taken;
        }
        for _ in 0..ENDS_AT_ONCE {
            let Poll::Ready(response) = self.staff.poll_next(cx) else { break };
            if let Some(response) = response {
                self.session.respond(response);
            }
            moved = true;
        }
        for id in self.unwanted.take(cx) {
            self.session.cancel(id);
            moved = true;
        }
        moved
    }

    fn take_opened(&mut self, opened: Result<Socket, Error>, now: Instant) {
        match opened {
            Ok(Socket { reader, writer }) => {
                (self.reader, self.writer) = (Some(reader), Some(writer));
                self.session.connected(now);
            }
            // A server that answers, and that will answer so again.
            Err(error) if error.is_temporary() => self.lost(error, now),
            Err(error) => self.dismissed(error),
        }
    }

    fn take_heard(&mut self, heard: Result<Vec<Down<Body>>, Ended>, now: Instant) {
        match heard {
            Ok(frames) => frames.into_iter().for_each(|frame| self.session.hear(frame, now)),
            Err(Ended::Lost(error)) => self.lost(error, now),
            // Whoever was greeted was taken; perhaps it was only silent for too long.
            Err(Ended::Dismissed(error)) if self.session.is_live() => self.lost(error, now),
            Err(Ended::Dismissed(error)) => self.dismissed(error),
        }
    }

    /// Whether something is due.
    fn poll_time(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let ends = [
            self.session.next_deadline(),
            self.draining.as_ref().map(|(by, _)| *by),
            self.closing.as_ref().map(|(by, _)| *by),
        ];
        let Some(deadline) = ends.into_iter().flatten().min() else { return false };
        loop {
            // One that rings too early costs a look; setting it anew for everything that is put off costs more.
            if self.alarm.is_elapsed() || self.alarm.deadline() > deadline {
                self.alarm.as_mut().reset(deadline);
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return false;
            }
            if deadline <= now.max(Instant::now()) {
                self.session.tick(Instant::now());
                self.perform();
                return true;
            }
        }
    }

    fn obey(&mut self, order: Order, now: Instant) {
        match order {
            Order::Call { call, waiter } => {
                self.waiting.insert(call.id, waiter);
                self.session.call(call, now);
            }
            Order::Cancel(id) => self.session.cancel(id),
            Order::Drain { by, told } => {
                self.session.stop();
                self.draining = Some((by, told));
            }
            Order::Close(told) => self.close(now, Some(told)),
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
                        self.woke = true;
                        drop(room);
                        // Whoever gave it up does not want its answer.
                        drop(ended.send(CallError::of(id, finish)));
                    }
                }
                Deed::Begin(offer) => {
                    self.woke = true;
                    self.staff.begin(*offer);
                }
                Deed::Abort(id, fence) => self.staff.abort(id, fence),
                Deed::Taken { taken } => self.staff.taken(taken),
            }
        }
    }
}
