//! The client of the HTTP API.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Tls;
use crate::audit::{Acts, AuditQuery};
use crate::calls::Calls;
use crate::error::{Error, Problem};
use crate::events::Events;
use crate::exchange::Exchange;
use crate::relay::Relay;
use crate::server::{Readiness, Server};
use crate::streams::Streams;
use crate::target::Base;
use crate::tokens::Tokens;
use crate::transport::{Connection, Outgoing, Transport};

/// The version of the API that is spoken here; every body carries it.
pub(crate) const VERSION: u32 = 1;

/// How much of a body that is not ours is shown.
const EXCERPT_CHARS: usize = 200;

/// How a client behaves.
///
/// ```
/// use std::time::Duration;
/// use handoff_sdk::Options;
///
/// let options = Options::new("https://handoff.example.org")
///     .token("ho_…")
///     .ca_file("/etc/ssl/our-ca.pem")
///     .request_timeout(Duration::from_secs(5));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    url: String,
    token: Option<String>,
    tls: Tls,
    connect_timeout: Duration,
    request_timeout: Duration,
    user_agent: String,
    answer_bytes_max: usize,
    idle_connections_max: usize,
}

impl Options {
    /// A server by its URL, such as `http://127.0.0.1:7070`. A path is put before every path of
    /// the API, for servers behind a proxy.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            tls: Tls::new(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            user_agent: concat!("handoff-sdk/", env!("CARGO_PKG_VERSION")).to_owned(),
            answer_bytes_max: 64 << 20,
            idle_connections_max: 4,
        }
    }

    /// Shows this token with every request.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Believes the authorities in a PEM file besides the public ones.
    pub fn ca_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.tls = self.tls.ca_file(path);
        self
    }

    /// Whom to believe, in full.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// How long making a connection may take, TLS included. 5 s unless said otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a request may take from its begin to the end of its answer. 30 s unless said
    /// otherwise. For a watch it counts up to the begin of the stream.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// What to be called in the server's access log.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// The longest answer that is taken. 64 MiB unless said otherwise.
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// How many connections are kept while no request uses them. 4 unless said otherwise.
    pub fn idle_connections_max(mut self, connections: usize) -> Self {
        self.idle_connections_max = connections;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("user_agent", &self.user_agent)
            .field("answer_bytes_max", &self.answer_bytes_max)
            .field("idle_connections_max", &self.idle_connections_max)
            .finish()
    }
}

/// A client of the HTTP API. Cheap to clone; clones share connections.
///
/// Requests need a tokio runtime with IO and time. Any number of them may be under way at once,
/// each on a connection of its own; nothing limits them but the caller.
///
/// A request that changes something is sent once: see [`Error::outcome`] for what is known after
/// it failed. The only repetition is of a request of which not one octet had been written, or of a
/// `GET` on a kept connection that the server had closed before it answered. Redirects are not
/// followed and proxies of the environment are not used.
///
/// # Cancel safety
/// Every future of this client may be dropped: its connection is closed, other requests are not
/// touched. A request that changes something may then have been carried out or not.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) request_timeout: Duration,
    answer_bytes_max: usize,
}

impl Client {
    /// Makes a client. No connection is made yet.
    ///
    /// # Errors
    /// [`Error::BadUrl`]; [`Error::Invalid`] when the CA file cannot be used, or the token or the
    /// name cannot stand in a header.
    pub fn new(options: Options) -> Result<Self, Error> {
        let base = Base::parse(&options.url)?;
        let headers = headers(&options, &base)?;
        let tls =
            if base.https { Some(options.tls.config().map_err(Error::Invalid)?) } else { None };
        let transport = Transport::new(
            base,
            tls,
            headers,
            options.connect_timeout,
            options.idle_connections_max,
        );
        let Options { request_timeout, answer_bytes_max, .. } = options;
        Ok(Self { inner: Arc::new(Inner { transport, request_timeout, answer_bytes_max }) })
    }

    /// The same client with a connection of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { inner: Arc::new(self.inner.apart()) }
    }

    /// The same client for somebody else: it shows this token. Both share their connections.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the token cannot stand in a header.
    pub fn with_token(&self, token: &str) -> Result<Self, Error> {
        let Inner { transport, request_timeout, answer_bytes_max } = &*self.inner;
        let mut headers = transport.headers.clone();
        headers.insert(header::AUTHORIZATION, bearer(token)?);
        let transport = transport.showing(headers);
        let (request_timeout, answer_bytes_max) = (*request_timeout, *answer_bytes_max);
        Ok(Self { inner: Arc::new(Inner { transport, request_timeout, answer_bytes_max }) })
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.inner.transport.base.url
    }

    /// Timed events.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// Topics, and the messages in them.
    #[must_use]
    pub fn streams(&self) -> Streams<'_> {
        Streams::new(self)
    }

    /// Devices, the databases behind ERPs, and the messages between them.
    #[must_use]
    pub fn exchange(&self) -> Exchange<'_> {
        Exchange::new(self)
    }

    /// Requests and answers between services.
    #[must_use]
    pub fn calls(&self) -> Calls<'_> {
        Calls::new(self)
    }

    /// Samples that agents of the relay send.
    #[must_use]
    pub fn relay(&self) -> Relay<'_> {
        Relay::new(self)
    }

    /// Tokens that open this server.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens::new(self)
    }

    /// Administrative acts: who did what, the latest first.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Acts, Error> {
        self.get_json(query.target().as_str()).await
    }

    /// What the server is and how it is doing.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn server(&self) -> Result<Server, Error> {
        self.get_json("/v1/server").await
    }

    /// Whether the server takes work, and what is closed if not. Asks for no token.
    ///
    /// # Errors
    /// [`Error`]; a server that is not ready is no error.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn ready(&self) -> Result<Readiness, Error> {
        let answer = self.ask(Method::GET, "/readyz", JSON, None).await?;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            return self.json(&self.success(answer)?);
        }
        match serde_json::from_slice::<Readiness>(&answer.body) {
            Ok(readiness) if !readiness.ready => Ok(readiness),
            // Whatever stands before the server answers 503 too when it is down.
            _ => Err(self.problem(&answer)),
        }
    }

    /// The server's metrics in the text format of Prometheus.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn metrics(&self) -> Result<String, Error> {
        self.get_text("/metrics").await
    }

    /// What the server logged last, one line each.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn logs(&self) -> Result<String, Error> {
        self.get_text("/v1/server/logs").await
    }

    /// Asks for JSON. The path is escaped already: see [`crate::Target`].
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let answer = self.ask(Method::GET, path, JSON, None).await?;
        self.json(&self.success(answer)?)
    }

    /// Asks for text.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn get_text(&self, path: &str) -> Result<String, Error> {
        let answer = self.success(self.ask(Method::GET, path, "text/plain, */*", None).await?)?;
        String::from_utf8(answer.into())
            .map_err(|error| self.inner.protocol(format!("{path} is not UTF-8: {error}")))
    }

    /// Posts JSON as it is (with a `version`, the API asks for one) and gives the answer.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn post_json<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Error> {
        let answer = self.ask(Method::POST, path, JSON, Some(written(body)?)).await?;
        self.json(&self.success(answer)?)
    }

    /// The same within another time than a request usually has.
    pub(crate) async fn post_json_within<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        time: Duration,
    ) -> Result<T, Error> {
        let outgoing = self.inner.outgoing(Method::POST, path, JSON, Some(written(body)?))?;
        let answer = self.inner.ask_within(&outgoing, time).await?;
        self.json(&self.success(answer)?)
    }

    /// Changes something by JSON, as [`Client::post_json`] makes it, and gives the answer.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn patch_json<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Error> {
        let answer = self.ask(Method::PATCH, path, JSON, Some(written(body)?)).await?;
        self.json(&self.success(answer)?)
    }

    /// Makes or replaces something by JSON, as [`Client::post_json`] makes it, and gives the answer.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn put_json<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Error> {
        let answer = self.ask(Method::PUT, path, JSON, Some(written(body)?)).await?;
        self.json(&self.success(answer)?)
    }

    /// Deletes and gives the answer.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn delete_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let answer = self.ask(Method::DELETE, path, JSON, None).await?;
        self.json(&self.success(answer)?)
    }

    /// Deletes and does not look at the answer further.
    pub(crate) async fn delete_path(&self, path: &str) -> Result<(), Error> {
        let answer = self.ask(Method::DELETE, path, JSON, None).await?;
        self.success(answer).map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<Bytes>,
    ) -> Result<Answer, Error> {
        self.inner.ask(&self.inner.outgoing(method, path, accept, body)?).await
    }

    fn success(&self, answer: Answer) -> Result<Bytes, Error> {
        self.inner.success(answer)
    }

    fn problem(&self, answer: &Answer) -> Error {
        self.inner.problem(answer)
    }

    fn json<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            version: u32,
        }
        let body = if body.is_empty() { b"null" } else { body };
        serde_json::from_slice(body).map_err(|error| {
            let version = serde_json::from_slice::<Versioned>(body).map_or(VERSION, |v| v.version);
            let why = if version == VERSION {
                format!("its JSON is not what was expected ({error})")
            } else {
                format!("it speaks version {version} of the API, this client {VERSION}")
            };
            self.inner.protocol(why)
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url()).finish_non_exhaustive()
    }
}

const JSON: &str = "application/json";

fn written<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, Error> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| Error::Invalid(format!("the body cannot be written: {error}")))
}

/// An answer, whole.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Inner {
    pub(crate) fn outgoing(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<Bytes>,
    ) -> Result<Outgoing, Error> {
        let uri = self.transport.base.resolve(path)?;
        let sent = AtomicBool::new(false);
        Ok(Outgoing { method, uri, accept, body, content_type: JSON, sent })
    }

    /// The same with a connection of its own.
    pub(crate) fn apart(&self) -> Self {
        Self {
            transport: self.transport.apart(),
            request_timeout: self.request_timeout,
            answer_bytes_max: self.answer_bytes_max,
        }
    }

    /// One request and its whole answer, within the time for it.
    pub(crate) async fn ask(&self, outgoing: &Outgoing) -> Result<Answer, Error> {
        self.ask_within(outgoing, self.request_timeout).await
    }

    /// The same within another time.
    pub(crate) async fn ask_within(
        &self,
        outgoing: &Outgoing,
        time: Duration,
    ) -> Result<Answer, Error> {
        // In a box: it is large, and the futures of callers should not be.
        let answer = Box::pin(async {
            let (response, connection) = self.transport.send(outgoing).await?;
            self.read(response, connection).await
        });
        self.within(time, outgoing, answer).await
    }

    pub(crate) fn success(&self, answer: Answer) -> Result<Bytes, Error> {
        if answer.status.is_success() { Ok(answer.body) } else { Err(self.problem(&answer)) }
    }

    /// Waits for an answer as long as a request may take.
    pub(crate) async fn in_time<T>(
        &self,
        outgoing: &Outgoing,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.within(self.request_timeout, outgoing, answer).await
    }

    async fn within<T>(
        &self,
        time: Duration,
        outgoing: &Outgoing,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(time, answer).await.unwrap_or_else(|_| {
            Err(Error::Timeout {
                url: self.transport.base.url.clone(),
                waited: time,
                sent: outgoing.sent.load(Ordering::Relaxed),
            })
        })
    }

    /// Reads an answer to its end and keeps its connection.
    pub(crate) async fn read(
        &self,
        response: Response<Incoming>,
        connection: Connection,
    ) -> Result<Answer, Error> {
        let (head, mut body) = response.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.transport.lost(error))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.answer_bytes_max {
                let max = self.answer_bytes_max;
                return Err(self.protocol(format!("its answer is longer than {max} octets")));
            }
            bytes.extend_from_slice(&data);
        }
        self.transport.keep(connection);
        Ok(Answer { status: head.status, headers: head.headers, body: bytes.freeze() })
    }

    pub(crate) fn protocol(&self, why: String) -> Error {
        Error::Protocol { url: self.transport.base.url.clone(), why }
    }

    /// What a status says of which nothing more is known.
    pub(crate) fn refused(&self, status: StatusCode) -> Error {
        self.problem(&Answer { status, headers: HeaderMap::new(), body: Bytes::new() })
    }

    /// What an answer that is no success says.
    pub(crate) fn problem(&self, answer: &Answer) -> Error {
        let Answer { status, headers, body } = answer;
        if !status.is_client_error() && !status.is_server_error() {
            let place = match headers.get(header::LOCATION).map(HeaderValue::to_str) {
                Some(Ok(place)) => format!(" and points to {place}"),
                _ => String::new(),
            };
            return self.protocol(format!("it answers {status}{place}"));
        }
        let mut problem = match serde_json::from_slice::<Problem>(body) {
            Ok(problem) if problem.code.is_some() || !problem.title.is_empty() => problem,
            _ => Problem { detail: excerpt(body), ..Problem::default() },
        };
        problem.status = status.as_u16();
        if problem.title.is_empty() {
            problem.title = status.canonical_reason().unwrap_or("refused").to_owned();
        }
        problem.retry_after = headers
            .get(header::RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        Error::Problem(Box::new(problem))
    }
}

/// What a person needs of a body that is not ours.
fn excerpt(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if line.chars().nth(EXCERPT_CHARS).is_some() {
        short.push('…');
    }
    if short.is_empty() { None } else { Some(short) }
}

/// The headers of every request.
fn headers(options: &Options, base: &Base) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, value("host", &base.authority)?);
    headers.insert(header::USER_AGENT, value("user agent", &options.user_agent)?);
    if let Some(token) = &options.token {
        headers.insert(header::AUTHORIZATION, bearer(token)?);
    }
    Ok(headers)
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut bearer = value("token", &format!("Bearer {token}"))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

fn value(what: &str, text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::Invalid(format!("the {what} has characters that cannot stand in a header"))
    })
}
