//! Server-sent events: a stream that has begun, and what is heard on it.

mod parser;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use http::{HeaderValue, Method, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::Error;
use crate::client::Inner;
use crate::connect::later;
use crate::transport::{Connection, Outgoing};

pub(crate) use parser::Message;
use parser::{Parser, TooLong};

/// What a stream that seems silent is given before it counts as broken.
const GRACE: Duration = Duration::from_secs(2);

const STREAM: &str = "text/event-stream";

/// A stream to be asked for.
pub(crate) struct Opening<'a> {
    pub(crate) path: &'a str,
    /// How long nothing may be heard before it counts as broken.
    pub(crate) silence_max: Duration,
    /// The longest message that is taken.
    pub(crate) message_bytes_max: usize,
}

impl Opening<'_> {
    pub(crate) fn outgoing(&self, inner: &Inner) -> Result<Outgoing, Error> {
        inner.outgoing(Method::GET, self.path, STREAM, None)
    }

    /// Asks for the stream and waits for the head of the answer.
    pub(crate) async fn open(
        &self,
        inner: &Inner,
        outgoing: &Outgoing,
    ) -> Result<Box<Stream>, Error> {
        let (response, connection) = inner.transport.send(outgoing).await?;
        if !response.status().is_success() {
            let answer = inner.read(response, connection).await?;
            return Err(inner.problem(&answer));
        }
        if !is_stream(response.headers().get(header::CONTENT_TYPE)) {
            return Err(inner.protocol(format!("{} is not a {STREAM}", self.path)));
        }
        let now = Instant::now();
        Ok(Box::new(Stream {
            body: response.into_body(),
            _connection: connection,
            parser: Parser::new(self.message_bytes_max),
            messages: VecDeque::new(),
            since: now,
            silence_max: self.silence_max,
            silent_at: later(now, self.silence_max),
            doubt: false,
            message_bytes_max: self.message_bytes_max,
        }))
    }
}

/// A stream that has begun. Dropped, it ends.
pub(crate) struct Stream {
    body: Incoming,
    /// Given up together with the body.
    _connection: Connection,
    parser: Parser,
    messages: VecDeque<Message>,
    since: Instant,
    silence_max: Duration,
    message_bytes_max: usize,
    /// When it will have been silent for too long.
    silent_at: Instant,
    /// The time for silence was over once, and what may have come meanwhile is waited for.
    doubt: bool,
}

impl Stream {
    /// How long it has stood.
    pub(crate) fn stood(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long the server wants a client to wait before it connects again.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.parser.retry_ms.map(Duration::from_millis)
    }

    /// Waits until there is a first message, and leaves it.
    pub(crate) async fn first(&mut self, inner: &Inner) -> Result<(), Error> {
        while self.messages.is_empty() {
            self.hear(inner).await?;
        }
        Ok(())
    }

    /// The next message. Cancel safe.
    pub(crate) async fn next(&mut self, inner: &Inner) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(message);
            }
            self.listen(inner).await?;
        }
    }

    /// Reads what comes next, unless nothing comes for too long. Whoever did not listen for an hour,
    /// or did not run, must not take that for silence: once the time is over, what lies in the
    /// socket gets the time to be read.
    async fn listen(&mut self, inner: &Inner) -> Result<(), Error> {
        loop {
            if let Ok(heard) = timeout_at(self.silent_at, self.hear(inner)).await {
                return heard;
            }
            if std::mem::replace(&mut self.doubt, true) {
                let seconds = self.silence_max.as_secs_f64();
                return Err(inner.cut(&format!("silent for {seconds} s")));
            }
            self.silent_at = later(Instant::now(), GRACE);
        }
    }

    /// Reads what comes next. Cancel safe: a frame of the body is there or not.
    async fn hear(&mut self, inner: &Inner) -> Result<(), Error> {
        let frame = match self.body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(inner.transport.lost(error)),
            None => return Err(inner.cut("the server ended the stream")),
        };
        self.silent_at = later(Instant::now(), self.silence_max);
        self.doubt = false;
        let Ok(data) = frame.into_data() else { return Ok(()) };
        self.parser.push(&data, &mut self.messages).map_err(|TooLong| {
            let max = self.message_bytes_max;
            inner.protocol(format!("a notification is longer than {max} octets"))
        })
    }
}

impl Inner {
    /// A stream that ended.
    pub(crate) fn cut(&self, why: &str) -> Error {
        let cause = io::Error::new(io::ErrorKind::UnexpectedEof, why);
        Error::Lost { url: self.transport.base.url.clone(), cause: cause.into() }
    }
}

/// Why a server ends a stream.
pub(crate) fn farewell(data: &[u8]) -> String {
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
