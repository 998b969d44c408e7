//! Occurrences as they happen.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::{Repeat, Selection};
use crate::client::Inner;
use crate::connect::later;
use crate::sse::{Opening, Stream, farewell};
use crate::{Backoff, Client, Error, Target, Time};

/// What to be told of: events by id and by type, or everything one may see.
pub type Filter = Selection;

/// The longest notification that is taken.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

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
    Open(Box<Stream>),
    Waiting { until: Instant },
    Opening(Pin<Box<dyn Future<Output = Result<Box<Stream>, Error>> + Send>>),
    Over,
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
                State::Open(open) => match occurrence(&self.inner, open).await {
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
            State::Open(open) => (open.retry(), open.stood()),
            _ => (None, Duration::ZERO),
        };
        let Some(backoff) = self.options.reconnect.filter(|_| error.is_temporary()) else {
            self.state = State::Over;
            return Err(error);
        };
        if stood >= backoff.longest {
            self.failures = 0;
        }
        self.wait(backoff, retry);
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
) -> Result<Box<Stream>, Error> {
    let opening = Opening { path: &path, silence_max, message_bytes_max: MESSAGE_BYTES_MAX };
    let outgoing = opening.outgoing(&inner)?;
    let begun = Box::pin(async {
        let mut stream = opening.open(&inner, &outgoing).await?;
        stream.first(&inner).await?;
        Ok(stream)
    });
    inner.in_time(&outgoing, begun).await
}

/// The next occurrence; none when something else was told.
async fn occurrence(inner: &Inner, stream: &mut Stream) -> Result<Option<Occurrence>, Error> {
    let message = stream.next(inner).await?;
    match message.event.as_slice() {
        b"notify" => serde_json::from_slice(&message.data)
            .map(Some)
            .map_err(|error| inner.protocol(format!("a notification cannot be read ({error})"))),
        b"closed" => Err(inner.cut(&farewell(&message.data))),
        // `ready`, and what newer servers may have to say.
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::Watch;

    #[test]
    fn a_watch_can_be_taken_in_a_task_of_its_own() {
        fn sendable<T: Send>(_: &T) {}
        let _ = |mut watch: Watch| sendable(&watch.next());
        let _ = |watch: Watch| sendable(&watch);
    }
}
