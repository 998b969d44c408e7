//! Occurrences as they happen.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::sse::{Message, Parser, TooLong};
use super::{Repeat, Selection};
use crate::client::Inner;
use crate::connect::later;
use crate::transport::Connection;
use crate::{Client, Error, Target, Time};

/// What to be told of: events by id and by type, or everything one may see.
pub type Filter = Selection;

/// The longest notification that is taken.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What a stream that seems silent is given before it counts as broken.
const GRACE: Duration = Duration::from_secs(2);

/// No server is tried more often than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// A server that asks for a longer wait is tried all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

const STREAM: &str = "text/event-stream";

/// How a watch behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct WatchOptions {
    reconnect: Option<Backoff>,
    silence_max: Duration,
}

impl WatchOptions {
    /// Ends when the connection breaks, or when nothing was heard for 60 s: the server says
    /// something every few seconds even if nothing occurs.
    pub fn new() -> Self {
        Self { reconnect: None, silence_max: Duration::from_secs(60) }
    }

    /// Connects again when the connection breaks, for ever.
    pub fn reconnect(mut self, backoff: Backoff) -> Self {
        self.reconnect = Some(backoff);
        self
    }

    /// How long nothing may be heard before the connection counts as broken.
    pub fn silence_max(mut self, time: Duration) -> Self {
        self.silence_max = time;
        self
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How long to wait before connecting again: doubled each time up to the longest, and each time
/// some of it by chance, so that many clients do not come back at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(15) }
    }
}

impl Backoff {
    /// The wait after some failures in a row: between half of the full wait and all of it. What
    /// the server asks for is a floor, within reason.
    fn wait(self, failures: u32, asked: Option<Duration>) -> Duration {
        let first = self.first.max(SHORTEST_WAIT);
        let doubled = first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        let half = doubled.min(self.longest).max(SHORTEST_WAIT) / 2;
        let chance = half.mul_f64(fraction());
        (half + chance).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// A number in 0..1, from the keys that the standard library draws for every map.
fn fraction() -> f64 {
    let drawn = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(drawn >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// What a watch tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// An event has occurred.
    Occurred(Occurrence),
    /// The connection broke; it is being made again.
    Interrupted {
        /// Why.
        cause: Error,
    },
    /// The filter is in force again. What occurred since [`Notice::Interrupted`] was not told and
    /// will not be; [`super::Event::occurrences`] tells how many there were.
    Reconnected {
        /// How many connections were tried, this one included.
        attempts: u32,
    },
}

/// An event has occurred. It is told as it was before this occurrence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Occurrence {
    /// The event's id.
    pub id: u32,
    /// Its types.
    #[serde(default)]
    pub types: Vec<String>,
    /// For people.
    pub description: String,
    /// Seconds between two occurrences.
    pub period_secs: f64,
    /// What was left, this occurrence included.
    pub repeat: Repeat,
    /// The registration, or the occurrence before this one as it was scheduled.
    pub updated_at: Time,
    /// When this one was due.
    pub due_at: Time,
    /// Which occurrence of the event this is, from 1.
    pub occurrence: u64,
    /// Whether it is told after the server was down when it was due.
    #[serde(default)]
    pub late: bool,
}

/// A stream of occurrences. Dropped, it ends.
pub struct Watch {
    inner: Arc<Inner>,
    path: Arc<str>,
    options: WatchOptions,
    state: State,
    /// Connections that failed since one stood for a while.
    failures: u32,
    /// Connections tried since the last one broke.
    attempts: u32,
}

enum State {
    Open(Box<Open>),
    Waiting { until: Instant },
    Opening(Pin<Box<dyn Future<Output = Result<Box<Open>, Error>> + Send>>),
    Over,
}

/// A stream that has begun.
struct Open {
    body: Incoming,
    /// Given up together with the body.
    _connection: Connection,
    parser: Parser,
    messages: VecDeque<Message>,
    since: Instant,
    silence_max: Duration,
    /// When it will have been silent for too long.
    silent_at: Instant,
    /// The time for silence was over once, and what may have come meanwhile is waited for.
    doubt: bool,
}

impl Watch {
    pub(crate) async fn open(
        client: &Client,
        filter: &Filter,
        options: WatchOptions,
    ) -> Result<Self, Error> {
        let inner = Arc::clone(&client.inner);
        let path: Arc<str> = filter.ask(Target::new("/v1/events/stream")).as_str().into();
        let begun = begin(Arc::clone(&inner), Arc::clone(&path), options.silence_max);
        let state = State::Open(begun.await?);
        Ok(Self { inner, path, options, state, failures: 0, attempts: 0 })
    }

    /// What happens next. None once the watch is over, which an error has told before.
    ///
    /// Whoever does not take what is told is cut off by the server when its queue is full.
    ///
    /// # Errors
    /// [`Error`]; then the watch is over. If it connects again by itself, only for what time does
    /// not heal: a token that was revoked, an event in the filter that is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped; the next call goes on where this one was.
    pub async fn next(&mut self) -> Option<Result<Notice, Error>> {
        loop {
            match &mut self.state {
                State::Over => return None,
                State::Open(open) => match self.inner.next(open).await {
                    Ok(Some(occurrence)) => return Some(Ok(Notice::Occurred(occurrence))),
                    Ok(None) => {}
                    Err(error) => return Some(self.broken(error)),
                },
                State::Waiting { until } => {
                    sleep_until(*until).await;
                    let (inner, path) = (Arc::clone(&self.inner), Arc::clone(&self.path));
                    let opening = begin(inner, path, self.options.silence_max);
                    self.attempts += 1;
                    self.state = State::Opening(Box::pin(opening));
                }
                State::Opening(opening) => match opening.await {
                    Ok(open) => {
                        self.state = State::Open(open);
                        let attempts = std::mem::take(&mut self.attempts);
                        return Some(Ok(Notice::Reconnected { attempts }));
                    }
                    Err(error) => {
                        if let Some(error) = self.wait_after(error) {
                            return Some(Err(error));
                        }
                    }
                },
            }
        }
    }

    /// What to tell when an open stream broke.
    fn broken(&mut self, error: Error) -> Result<Notice, Error> {
        let (retry, stood) = match &self.state {
            State::Open(open) => (open.parser.retry_ms, open.since.elapsed()),
            _ => (None, Duration::ZERO),
        };
        let Some(backoff) = self.options.reconnect.filter(|_| error.is_temporary()) else {
            self.state = State::Over;
            return Err(error);
        };
        if stood >= backoff.longest {
            self.failures = 0;
        }
        self.wait(backoff, retry.map(Duration::from_millis));
        Ok(Notice::Interrupted { cause: error })
    }

    /// Waits before the next try, or gives the error back and is over.
    fn wait_after(&mut self, error: Error) -> Option<Error> {
        let Some(backoff) = self.options.reconnect.filter(|_| error.is_temporary()) else {
            self.state = State::Over;
            return Some(error);
        };
        self.wait(backoff, error.problem().and_then(|problem| problem.retry_after));
        None
    }

    fn wait(&mut self, backoff: Backoff, asked: Option<Duration>) {
        let wait = backoff.wait(self.failures, asked);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting { until: later(Instant::now(), wait) };
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Open(_) => "open",
            State::Waiting { .. } => "waiting",
            State::Opening(_) => "opening",
            State::Over => "over",
        };
        f.debug_struct("Watch").field("path", &self.path).field("state", &state).finish()
    }
}

/// Asks for the stream and waits until the server says that the filter is in force.
async fn begin(
    inner: Arc<Inner>,
    path: Arc<str>,
    silence_max: Duration,
) -> Result<Box<Open>, Error> {
    let outgoing = inner.outgoing(Method::GET, &path, STREAM, None)?;
    let begun = Box::pin(async {
        let (response, connection) = inner.transport.send(&outgoing).await?;
        if !response.status().is_success() {
            let answer = inner.read(response, connection).await?;
            return Err(inner.problem(&answer));
        }
        if !is_stream(response.headers().get(header::CONTENT_TYPE)) {
            return Err(inner.protocol(format!("{path} is not a {STREAM}")));
        }
        let now = Instant::now();
        let mut open = Box::new(Open {
            body: response.into_body(),
            _connection: connection,
            parser: Parser::new(MESSAGE_BYTES_MAX),
            messages: VecDeque::new(),
            since: now,
            silence_max,
            silent_at: later(now, silence_max),
            doubt: false,
        });
        while open.messages.is_empty() {
            inner.hear(&mut open).await?;
        }
        Ok(open)
    });
    inner.in_time(&outgoing, begun).await
}

impl Inner {
    /// The next occurrence; none when something else was heard.
    async fn next(&self, open: &mut Open) -> Result<Option<Occurrence>, Error> {
        let Some(message) = open.messages.pop_front() else {
            return self.listen(open).await.map(|()| None);
        };
        match message.event.as_slice() {
            b"notify" => serde_json::from_slice(&message.data)
                .map(Some)
                .map_err(|error| self.protocol(format!("a notification cannot be read ({error})"))),
            b"closed" => Err(self.cut(&farewell(&message.data))),
            // `ready`, and what newer servers may have to say.
            _ => Ok(None),
        }
    }

    /// Reads what comes next, unless nothing comes for too long. Whoever did not listen for an hour,
    /// or did not run, must not take that for silence: once the time is over, what lies in the
    /// socket gets the time to be read.
    async fn listen(&self, open: &mut Open) -> Result<(), Error> {
        loop {
            if let Ok(heard) = timeout_at(open.silent_at, self.hear(open)).await {
                return heard;
            }
            if std::mem::replace(&mut open.doubt, true) {
                let seconds = open.silence_max.as_secs_f64();
                return Err(self.cut(&format!("silent for {seconds} s")));
            }
            open.silent_at = later(Instant::now(), GRACE);
        }
    }

    /// Reads what comes next. Cancel safe: a frame of the body is there or not.
    async fn hear(&self, open: &mut Open) -> Result<(), Error> {
        let frame = match open.body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(self.transport.lost(error)),
            None => return Err(self.cut("the server ended the stream")),
        };
        open.silent_at = later(Instant::now(), open.silence_max);
        open.doubt = false;
        let Ok(data) = frame.into_data() else { return Ok(()) };
        open.parser.push(&data, &mut open.messages).map_err(|TooLong| {
            self.protocol(format!("a notification is longer than {MESSAGE_BYTES_MAX} octets"))
        })
    }

    fn cut(&self, why: &str) -> Error {
        let cause = io::Error::new(io::ErrorKind::UnexpectedEof, why);
        Error::Lost { url: self.transport.base.url.clone(), cause: cause.into() }
    }
}

/// Why a server ends a stream.
fn farewell(data: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Closed {
        reason: String,
    }
    let reason = serde_json::from_slice::<Closed>(data).map(|closed| closed.reason);
    match reason.as_deref() {
        Ok("stopping") => "the server is stopping".to_owned(),
        Ok("slow") => "notifications were not read fast enough; some are lost".to_owned(),
        Ok(other) => format!("the server ended the stream ({other})"),
        Err(_) => "the server ended the stream".to_owned(),
    }
}

fn is_stream(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case(STREAM)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, Watch};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_grow_up_to_the_longest_and_differ_by_chance() {
        let backoff = Backoff { first: 100 * MS, longest: 1000 * MS };
        for (failures, full) in [(0, 100), (1, 200), (3, 800), (4, 1000), (31, 1000), (99, 1000)] {
            let waits: Vec<_> = (0..100).map(|_| backoff.wait(failures, None)).collect();
            assert!(waits.iter().all(|wait| *wait >= full / 2 * MS && *wait <= full * MS));
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        }
    }

    #[test]
    fn no_wait_is_nothing_and_none_is_for_ever() {
        let hurry = Backoff { first: Duration::ZERO, longest: Duration::ZERO };
        assert!(hurry.wait(0, None) > Duration::ZERO);
        let patient = Backoff { first: Duration::MAX, longest: Duration::MAX };
        assert!(patient.wait(u32::MAX, None) > 1000 * MS);
    }

    #[test]
    fn what_the_server_asks_for_is_the_least_within_reason() {
        let backoff = Backoff { first: 100 * MS, longest: 1000 * MS };
        assert_eq!(backoff.wait(0, Some(5000 * MS)), 5000 * MS);
        assert!(backoff.wait(4, Some(MS)) >= 500 * MS);
        assert_eq!(backoff.wait(0, Some(Duration::MAX)), Duration::from_secs(3600));
    }

    #[test]
    fn a_watch_can_be_taken_in_a_task_of_its_own() {
        fn sendable<T: Send>(_: &T) {}
        let _ = |mut watch: Watch| sendable(&watch.next());
        let _ = |watch: Watch| sendable(&watch);
    }
}
