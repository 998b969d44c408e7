//! One connection: HTTP/1.1 or HTTP/2, and how long its client may be silent.
//!
//! hyper's own timer for the head of a request also runs while a kept-alive connection is idle, so
//! that ten seconds for a head would be ten seconds of keep-alive; and nothing bounds the time
//! before the protocol is known, nor HTTP/2 at all. So silence is watched here:
//!
//! ```text
//!  accept ──── head ────▶ request ── … ──▶ answered ──── idle ────▶ first byte ── head ──▶ request
//!         header_secs_max                           keep_alive                header_secs_max
//! ```
//!
//! The bytes of an HTTP/2 connection are more than heads (pings and their answers, windows), so once
//! it is known to be one it is idle between requests whatever comes, and is told so before it is
//! closed (GOAWAY).
//!
//! Whoever takes nothing of an answer for `stall_max` is dropped, a stream that never ends included.
//! An HTTP/2 client that reads but opens no window for one stream keeps that stream until its
//! connection ends: the others on it must not suffer.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, Version, header};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::alarm::Alarms;
use super::correlation::{REQUEST_ID, RequestId};
use super::direct::Errand;
use super::express::Left;
use super::front::Door;
use super::seldom::Seldom;
use super::{Limits, direct, express};

/// How long a connection that was idle for too long may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// The head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What an HTTP/2 connection begins with, as far as no HTTP/1 request does.
const PREFACE: &[u8] = b"PRI * HTTP/2";

/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;

/// How often an HTTP/2 peer is asked whether it is still there, and how long it may take to say.
const PING: Duration = Duration::from_secs(20);

/// Where a connection comes from; none if the system does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer(pub(super) Option<IpAddr>);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was closed, by whichever side.
    Closed,
    /// Its client was silent for too long.
    Silent,
}

/// Serves a connection to its end. Told to stop, it finishes what is under way.
pub(super) async fn run<I>(
    io: I,
    router: Router,
    door: Door,
    (peer, limits): (Peer, Limits),
    stop: &CancellationToken,
) -> End
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::new());
    let mut io =
        Watched { io, heard: Bytes::new(), has_read: false, activity: Arc::clone(&activity) };
    let mut check = activity.at(0) + limits.look_every();
    match plainly(&mut io, &door, &activity, (limits, &mut check), stop).await {
        Ok(bytes) => io.heard = bytes,
        Err(end) => return end,
    }
    let service = Requests { router, door, peer, activity: Arc::clone(&activity) };
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let mut stopping = false;
    let mut leaving = false;
    loop {
        let aside = pin!(aside(stop, stopping, check));
        let aside = tokio::select! {
            biased;
            // A client that breaks off is nobody's fault here.
            _ = connection.as_mut() => return if leaving { End::Silent } else { End::Closed },
            aside = Seldom::new(aside) => aside,
        };
        match aside {
            Aside::Stop => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            Aside::Check => match activity.silence.verdict(activity.now(), limits) {
                Verdict::Wait(until) => check = activity.at(until),
                Verdict::Idle if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                    check = Instant::now() + FAREWELL;
                }
                Verdict::Idle | Verdict::Stalled => return End::Silent,
            },
        }
    }
}

/// Serves a connection as long as it asks for nothing but messages to be stored. Gives the bytes that
/// are for hyper, or how it ended.
async fn plainly<I>(
    io: &mut Watched<I>,
    door: &Door,
    activity: &Arc<Activity>,
    (limits, check): (Limits, &mut Instant),
    stop: &CancellationToken,
) -> Result<Bytes, End>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let mut conversation = pin!(express::converse(io, door, activity));
    loop {
        let aside = pin!(aside(stop, activity.is_leaving(), *check));
        let aside = tokio::select! {
            biased;
            left = conversation.as_mut() => return match left {
                Left::Closed => Err(End::Closed),
                Left::Other(bytes) => Ok(bytes),
            },
            aside = Seldom::new(aside) => aside,
        };
        match aside {
            // What is under way is answered, with the word that it was the last.
            Aside::Stop if activity.silence.is_under_way() => activity.leave(),
            Aside::Stop => return Err(End::Closed),
            Aside::Check => match activity.silence.verdict(activity.now(), limits) {
                Verdict::Wait(until) => *check = activity.at(until),
                Verdict::Idle | Verdict::Stalled => return Err(End::Silent),
            },
        }
    }
}

/// Waits for what interrupts a connection. It says nothing while requests come and go.
async fn aside(stop: &CancellationToken, stopping: bool, check: Instant) -> Aside {
    tokio::select! {
        biased;
        () = stop.cancelled(), if !stopping => Aside::Stop,
        () = sleep_until(check) => Aside::Check,
    }
}

/// What interrupts a connection.
enum Aside {
    /// It is to stop.
    Stop,
    /// Its silence is to be looked at.
    Check,
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEAD_BYTES_MAX).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    builder
}

/// What a connection is doing, by its own clock.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    silence: Silence,
    pub(super) alarms: Alarms,
    /// The answer that is under way is the last.
    leaving: AtomicBool,
}

impl Activity {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            silence: Silence::new(),
            alarms: Alarms::default(),
            leaving: AtomicBool::new(false),
        }
    }

    fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the answer that is under way is the last.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        micros(self.begun.elapsed())
    }

    fn at(&self, micros: u64) -> Instant {
        self.begun + Duration::from_micros(micros)
    }
}

/// Since when a connection has been silent, in microseconds since it began.
#[derive(Debug)]
struct Silence {
    under_way: AtomicU32,
    /// Since when the head of a request is being read; [`NEVER`] if none is.
    head: AtomicU64,
    /// Since when no request is under way.
    quiet: AtomicU64,
    /// Since when the socket takes nothing of what is to be written, and of what was written to a
    /// layer above it; [`NEVER`] if it does.
    unwritten: AtomicU64,
    unflushed: AtomicU64,
    /// Whether it is known to be HTTP/2.
    is_h2: AtomicBool,
}

const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Look again then.
    Wait(u64),
    /// Nothing was asked for too long.
    Idle,
    /// The head of a request takes too long, or an answer is not taken.
    Stalled,
}

impl Silence {
    /// A connection begins as if the first byte of a head had come: whoever connects, asks.
    fn new() -> Self {
        Self {
            under_way: AtomicU32::new(0),
            head: AtomicU64::new(0),
            quiet: AtomicU64::new(0),
            unwritten: AtomicU64::new(NEVER),
            unflushed: AtomicU64::new(NEVER),
            is_h2: AtomicBool::new(false),
        }
    }

    fn is_h2(&self) -> bool {
        self.is_h2.load(Ordering::Relaxed)
    }

    fn recognise_h2(&self) {
        self.is_h2.store(true, Ordering::Relaxed);
    }

    /// Whether bytes that come now are the first of a head.
    fn is_broken_by_bytes(&self) -> bool {
        !self.is_h2() && !self.is_under_way() && self.head.load(Ordering::Relaxed) == NEVER
    }

    fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    fn head_began(&self, now: u64) {
        self.head.store(now, Ordering::Relaxed);
    }

    fn request_began(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.head.store(NEVER, Ordering::Relaxed);
    }

    fn request_ended(&self, now: u64) {
        self.quiet.store(now, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    fn verdict(&self, now: u64, limits: Limits) -> Verdict {
        let (head_time, keep_alive) = (micros(limits.header_time_max), micros(limits.keep_alive));
        // A head, an idle time or a stall may begin as soon as this has looked away.
        let soon = now.saturating_add(micros(limits.look_every()).max(1));
        let untaken = [&self.unwritten, &self.unflushed].map(|since| since.load(Ordering::Relaxed));
        let untaken = untaken.into_iter().min().unwrap_or(NEVER);
        if now.saturating_sub(untaken) >= micros(limits.stall_max) {
            return Verdict::Stalled;
        }
        if self.is_under_way() {
            return Verdict::Wait(soon);
        }
        let head = self.head.load(Ordering::Relaxed);
        let (since, patience, over) = if head == NEVER {
            (self.quiet.load(Ordering::Relaxed), keep_alive, Verdict::Idle)
        } else {
            (head, head_time, if self.is_h2() { Verdict::Idle } else { Verdict::Stalled })
        };
        let until = since.saturating_add(patience);
        if now < until { Verdict::Wait(until.min(soon)) } else { over }
    }
}

/// Notes whether something is held up: since when, or not any more.
fn hold_up<T>(since: &AtomicU64, polled: &Poll<io::Result<T>>, now: impl FnOnce() -> u64) {
    let is_held = since.load(Ordering::Relaxed) != NEVER;
    match polled {
        Poll::Pending if !is_held => since.store(now(), Ordering::Relaxed),
        Poll::Ready(_) if is_held => since.store(NEVER, Ordering::Relaxed),
        _ => {}
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(NEVER)
}

/// A request that is not answered yet, to the last byte of its answer's body.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

impl UnderWay {
    pub(super) fn begin(activity: &Arc<Activity>) -> Self {
        activity.silence.request_began();
        Self(Arc::clone(activity))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.silence.request_ended(self.0.now());
    }
}

/// A stream that notes when bytes come, and when none can go.
struct Watched<I> {
    io: I,
    /// Bytes that were read before and are to be read again.
    heard: Bytes,
    has_read: bool,
    activity: Arc<Activity>,
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.heard.is_empty() {
            let many = self.heard.len().min(buffer.remaining());
            buffer.put_slice(&self.heard.split_to(many));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if !self.has_read && buffer.filled().len() > before {
            self.has_read = true;
            if buffer.filled().get(before..).is_some_and(|read| read.starts_with(PREFACE)) {
                self.activity.silence.recognise_h2();
            }
        }
        if buffer.filled().len() > before && self.activity.silence.is_broken_by_bytes() {
            self.activity.silence.head_began(self.activity.now());
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        hold_up(&self.activity.silence.unwritten, &polled, || self.activity.now());
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(context);
        hold_up(&self.activity.silence.unflushed, &polled, || self.activity.now());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, buffers);
        hold_up(&self.activity.silence.unwritten, &polled, || self.activity.now());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// The requests of one connection.
#[derive(Clone)]
struct Requests {
    router: Router,
    door: Door,
    peer: Peer,
    activity: Arc<Activity>,
}

/// An answer that is there, or one that is being worked on.
enum Answer {
    Given(Option<Response<Answering>>),
    Worked(Pin<Box<dyn Future<Output = Result<Response<Answering>, Infallible>> + Send>>),
}

impl Future for Answer {
    type Output = Result<Response<Answering>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Given(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            Self::Worked(work) => work.as_mut().poll(context),
        }
    }
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Answering>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if request.version() == Version::HTTP_2 {
            self.activity.silence.recognise_h2();
        }
        let under_way = UnderWay::begin(&self.activity);
        if request.uri().path() == "/healthz" && request.method() == Method::GET {
            let response = self.healthz(&request).map(|body| Answering { body, under_way });
            return Answer::Given(Some(response));
        }
        if let Some(errand) = Errand::of(request.method(), request.uri()) {
            let door = self.door.clone();
            return Answer::Worked(Box::pin(async move {
                let alarms = &under_way.0.alarms;
                let stored = direct::run(&door, alarms, &errand, request).await;
                Ok(stored.map(|body| Answering { body, under_way }))
            }));
        }
        request.extensions_mut().insert(self.peer);
        let answer = self.router.clone().call(request);
        Answer::Worked(Box::pin(async move {
            let response = answer.await.unwrap_or_else(|never| match never {});
            Ok(response.map(|body| Answering { body, under_way }))
        }))
    }
}

impl Requests {
    /// The cheapest answer there is: what every other is measured against.
    fn healthz(&self, request: &Request<Incoming>) -> Response<Body> {
        let id = RequestId::of(request.headers(), &self.door.app.ids);
        let mut response = Response::new(Body::from("ok\n"));
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
        response.headers_mut().insert(REQUEST_ID, id.header());
        self.door.healthz.inc();
        response
    }
}

/// A body; the request is under way until it has ended.
struct Answering {
    body: Body,
    #[expect(dead_code, reason = "dropped with the body")]
    under_way: UnderWay,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::{Silence, Verdict, hold_up};
    use crate::http::Limits;
    use crate::settings::Server;
    use std::io;
    use std::task::Poll;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000;

    fn verdict(silence: &Silence, now: u64) -> Verdict {
        let limits = Limits {
            header_time_max: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            stall_max: Duration::from_secs(30),
            ..Limits::from(&Server::default())
        };
        silence.verdict(now, limits)
    }

    fn idle_since(now: u64) -> Silence {
        let silence = Silence::new();
        silence.request_began();
        silence.request_ended(now);
        silence
    }

    #[test]
    fn a_connection_that_asks_nothing_is_stalled() {
        let silence = Silence::new();
        assert!(!silence.is_broken_by_bytes(), "its time runs already");
        assert_eq!(verdict(&silence, 10 * SECOND - 1), Verdict::Wait(10 * SECOND));
        assert_eq!(verdict(&silence, 10 * SECOND), Verdict::Stalled);
    }

    #[test]
    fn a_request_may_take_as_long_as_it_likes() {
        let silence = Silence::new();
        silence.request_began();
        assert!(!silence.is_broken_by_bytes(), "bytes are its body");
        assert_eq!(verdict(&silence, 1_000 * SECOND), Verdict::Wait(1_010 * SECOND));
        silence.request_ended(1_001 * SECOND);
        assert!(matches!(verdict(&silence, 1_010 * SECOND), Verdict::Wait(_)));
    }

    #[test]
    fn a_head_has_its_own_time_however_long_the_silence_before() {
        let silence = idle_since(0);
        assert_eq!(verdict(&silence, 74 * SECOND), Verdict::Wait(75 * SECOND));
        assert!(silence.is_broken_by_bytes());
        silence.head_began(74 * SECOND);
        assert!(!silence.is_broken_by_bytes(), "a byte a second buys no time");
        assert_eq!(verdict(&silence, 80 * SECOND), Verdict::Wait(84 * SECOND));
        assert_eq!(verdict(&silence, 84 * SECOND), Verdict::Stalled);
    }

    #[test]
    fn an_idle_connection_is_looked_at_often_enough_to_see_a_head_stall() {
        let silence = idle_since(0);
        let Verdict::Wait(next) = verdict(&silence, 5 * SECOND) else { panic!("it waits") };
        assert!(next <= 15 * SECOND);
    }

    #[test]
    fn an_idle_connection_is_closed_in_the_end() {
        assert_eq!(verdict(&idle_since(3 * SECOND), 78 * SECOND), Verdict::Idle);
    }

    #[test]
    fn an_answer_that_is_not_taken_ends_the_connection_though_it_is_under_way() {
        let silence = Silence::new();
        silence.request_began();
        let held = |polled: Poll<io::Result<usize>>, at| {
            hold_up(&silence.unwritten, &polled, || at);
        };
        held(Poll::Pending, 100 * SECOND);
        held(Poll::Pending, 110 * SECOND);
        assert!(matches!(verdict(&silence, 129 * SECOND), Verdict::Wait(_)));
        assert_eq!(verdict(&silence, 130 * SECOND), Verdict::Stalled);
        held(Poll::Ready(Ok(1)), 130 * SECOND);
        assert!(matches!(verdict(&silence, 500 * SECOND), Verdict::Wait(_)));
        hold_up(&silence.unflushed, &Poll::<io::Result<()>>::Pending, || 500 * SECOND);
        assert_eq!(verdict(&silence, 530 * SECOND), Verdict::Stalled);
    }

    #[test]
    fn bytes_of_http2_begin_no_head_and_who_asks_nothing_is_idle() {
        let silence = Silence::new();
        silence.recognise_h2();
        assert_eq!(verdict(&silence, 10 * SECOND), Verdict::Idle, "it gets a GOAWAY");
        silence.request_began();
        silence.request_ended(0);
        assert!(!silence.is_broken_by_bytes(), "a ping is no request");
        assert_eq!(verdict(&silence, 74 * SECOND), Verdict::Wait(75 * SECOND));
        assert_eq!(verdict(&silence, 75 * SECOND), Verdict::Idle);
    }

    #[test]
    fn one_of_two_requests_that_ends_leaves_the_other_under_way() {
        let silence = Silence::new();
        silence.request_began();
        silence.request_began();
        silence.request_ended(0);
        assert!(matches!(verdict(&silence, 500 * SECOND), Verdict::Wait(_)));
    }
}
