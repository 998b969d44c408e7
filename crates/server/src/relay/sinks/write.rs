//! A remote-write URL: a time-series database that takes segments one by one, at least once.
//!
//! Its mark is a message of the topic `relay.written` for each segment, stored after the 2xx, whose
//! producer is that of the shard. After a crash between the two, or when no answer came, one segment is
//! sent again. A database that says of exactly that one that it has such samples already, or later ones,
//! has taken it; one that objects to something else has not.
//!
//! ```text
//!  segment ──POST──▶ 2xx ──▶ relay.written: segment + 1 ──▶ the mark moves
//!                 ├▶ 400 duplicate, out of order, and in doubt ──▶ as 2xx
//!                 ├▶ 400: never
//!                 └▶ 5xx, 429, nothing: again later
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handoff_relay::session::Reason;
use handoff_relay::{Origin, SegmentKey, ShardId, Shards};
use handoff_streams::TopicName;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::topic::TopicSink;
use super::{Failure, OneByOne};
use crate::relay::delivery::Parcel;
use crate::relay::machine::Made;
use crate::rooms::streams::StreamsRoom;
use crate::settings;

/// The topic of what was written.
const WRITTEN: &str = "relay.written";

/// Connections that are kept for the next request.
const IDLE_MAX: usize = 16;

/// What is read of a refusal.
const WORDS_BYTES_MAX: usize = 4 << 10;

/// The database.
#[derive(Debug)]
pub(super) struct WriteSink {
    uri: Uri,
    token: Option<String>,
    time_max: Duration,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    written: TopicSink,
    doubts: Mutex<Doubts>,
}

/// Blocks of which it is known which segments are in doubt. Of one that is forgotten the next of every
/// shard is.
const MET_MAX: usize = 50_000;

/// What is known of segments that may have been taken.
#[derive(Debug, Default)]
struct Doubts {
    /// Blocks that were met since the start: whatever was sent of them, the answer was heard, or it is
    /// in doubt below. Of others the answer may have been lost in a crash.
    met: BTreeSet<Origin>,
    /// Segments of which nobody knows whether they were taken.
    segments: BTreeMap<(Origin, ShardId), u32>,
}

impl Doubts {
    /// A block is spoken for, whose marks are these.
    fn meet(&mut self, origin: &Origin, marks: impl Iterator<Item = (ShardId, Option<u32>)>) {
        if self.met.contains(origin) {
            return;
        }
        if self.met.len() >= MET_MAX
            && let Some(forgotten) = self.met.pop_first()
        {
            self.segments.retain(|(whose, _), _| *whose != forgotten);
        }
        self.met.insert(origin.clone());
        for (shard, mark) in marks {
            let next = mark.map_or(0, |mark| mark.saturating_add(1));
            self.segments.insert((origin.clone(), shard), next);
        }
    }
}

/// What the database said.
enum Said {
    /// It has it.
    Taken,
    /// It will not, because of what is in it.
    Objects(String),
    /// It is too large.
    TooLarge(String),
    /// Not now.
    Later(String),
    /// Nobody knows.
    Nothing(String),
}

impl WriteSink {
    /// # Errors
    /// In words, when the URL is none or the token cannot be read.
    pub(super) fn new(
        url: &str,
        settings: &settings::Relay,
        topics: StreamsRoom,
    ) -> Result<Self, String> {
        let bad = |why: &str| format!("relay.write_url {why}; write http://HOST:PORT/PATH");
        let uri: Uri = url.parse().map_err(|error| bad(&format!("is no URL: {error}")))?;
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => Some(believed(settings.write_ca_file.as_deref())?),
            _ => return Err(bad("is neither http:// nor https://")),
        };
        if uri.host().is_none() {
            return Err(bad("names no host"));
        }
        let token = settings.write_token_file.as_deref().map(token_of).transpose()?;
        let topic: TopicName = WRITTEN.parse().map_err(|bad| format!("{WRITTEN}: {bad}"))?;
        Ok(Self {
            uri,
            token,
            time_max: settings.write_time_max,
            tls,
            idle: Mutex::default(),
            written: TopicSink::ledger(topics, topic, settings),
            doubts: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> String {
        format!("{}{}", self.uri.authority().map_or("", |at| at.as_str()), self.uri.path())
    }

    /// What it has of each shard. The one behind may have been taken, too.
    pub(super) async fn marks(
        &self,
        origin: &Origin,
        shards: Shards,
    ) -> Result<Vec<Option<u32>>, Failure> {
        let marks = self.written.marks(origin, shards).await?;
        self.doubts().meet(origin, shards.ids().zip(marks.iter().copied()));
        Ok(marks)
    }

    fn doubts(&self) -> MutexGuard<'_, Doubts> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubt(&self, origin: &Origin, shard: ShardId, segment: Option<u32>) {
        let place = (origin.clone(), shard);
        match segment {
            Some(segment) => self.doubts().segments.insert(place, segment),
            None => self.doubts().segments.remove(&place),
        };
    }

    fn is_doubted(&self, origin: &Origin, shard: ShardId, segment: u32) -> bool {
        self.doubts().segments.get(&(origin.clone(), shard)) == Some(&segment)
    }

    async fn write(&self, body: Bytes) -> Said {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let asked = timeout(self.time_max, self.ask(kept, body)).await;
        match asked {
            Ok(Ok((status, words))) => said(status, words),
            Ok(Err(Trouble::Connecting(error))) => {
                Said::Later(format!("{} cannot be reached: {error}", self.name()))
            }
            Ok(Err(Trouble::Asking(error))) => {
                Said::Nothing(format!("{} did not answer: {error}", self.name()))
            }
            Err(_) => Said::Nothing(format!(
                "{} did not answer within relay.write_secs_max, {:?}",
                self.name(),
                self.time_max
            )),
        }
    }

    async fn ask(
        &self,
        kept: Option<SendRequest<Full<Bytes>>>,
        body: Bytes,
    ) -> Result<(StatusCode, String), Trouble> {
        let mut sender = match kept.filter(SendRequest::is_ready) {
            Some(sender) => sender,
            None => self.connect().await.map_err(Trouble::Connecting)?,
        };
        let request =
            self.request(body).map_err(|error| Trouble::Asking(io::Error::other(error)))?;
        let asking = |error: hyper::Error| Trouble::Asking(io::Error::other(error));
        let answer = sender.send_request(request).await.map_err(asking)?;
        let status = answer.status();
        let collected = Limited::new(answer.into_body(), WORDS_BYTES_MAX).collect().await;
        let Ok(words) = collected else { return Ok((status, String::new())) };
        let words = String::from_utf8_lossy(&words.to_bytes()).trim().to_owned();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        Ok((status, words))
    }

    fn request(&self, body: Bytes) -> http::Result<Request<Full<Bytes>>> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::post(path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::CONTENT_ENCODING, "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .header(header::USER_AGENT, concat!("handoff/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(Full::new(body))
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.uri.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let Some(config) = &self.tls else { return shake(stream).await };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        shake(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?).await
    }
}

impl OneByOne for WriteSink {
    /// Writes a segment, and that it was written. What the database has then.
    async fn give(
        &self,
        origin: &Origin,
        parcel: &Parcel,
        made: &Made,
    ) -> Result<Option<u32>, Failure> {
        let SegmentKey { shard, segment } = parcel.key;
        match self.write(made.v1.clone()).await {
            Said::Taken => {}
            Said::Objects(words) if is_there(&words) && self.is_doubted(origin, shard, segment) => {
            }
            Said::Objects(words) => {
                // Whatever was in doubt is not there.
                self.doubt(origin, shard, None);
                return Err(Failure::never(words));
            }
            Said::TooLarge(words) => return Err(Failure { reason: Reason::TooLarge, words }),
            Said::Later(words) => return Err(Failure::later(words)),
            Said::Nothing(words) => {
                self.doubt(origin, shard, Some(segment));
                return Err(Failure::later(words));
            }
        }
        if let Err(failed) = self.written.note(origin, parcel).await {
            self.doubt(origin, shard, Some(segment));
            return Err(failed);
        }
        self.doubt(origin, shard, None);
        Ok(Some(segment))
    }
}

/// Why no answer came.
enum Trouble {
    /// Nothing was sent.
    Connecting(io::Error),
    /// Something was.
    Asking(io::Error),
}

async fn shake(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> io::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with the connection, whose errors whoever asks hears of.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Whether an objection is that such samples are there, or later ones of their series.
fn is_there(words: &str) -> bool {
    let words = words.to_ascii_lowercase().replace(['-', '_'], " ");
    words.contains("out of order") || words.contains("duplicate")
}

fn said(status: StatusCode, words: String) -> Said {
    let told = || format!("the database answered {status}: {words}");
    match status.as_u16() {
        200..=299 => Said::Taken,
        // What is in it is not wanted; nothing else would be said of it another time.
        400 | 422 => Said::Objects(told()),
        413 => Said::TooLarge(told()),
        // It, or somebody between, failed: some of it may be there.
        500.. => Said::Nothing(told()),
        // A wrong path or token is mended by somebody.
        _ => Said::Later(told()),
    }
}

fn token_of(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("relay.write_token_file {}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// The public authorities, and those of a file besides.
fn believed(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        let bad = |why: String| format!("relay.write_ca_file {}: {why}", path.display());
        let all = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
        let before = roots.len();
        for certificate in all {
            let certificate = certificate.map_err(|error| bad(format!("no PEM: {error}")))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(bad("it has no certificate in it".to_owned()));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::{Doubts, Said, is_there, said};
    use handoff_relay::{BlockId, Name, Origin};
    use http::StatusCode;

    /// After a start an answer may have been lost; later only one that was not heard is.
    #[test]
    fn a_segment_is_in_doubt_when_its_block_is_met_first_and_not_each_time_it_comes() {
        let mut doubts = Doubts::default();
        let origin = Origin { agent: Name::try_from("edge").unwrap(), block: BlockId([7; 16]) };
        doubts.meet(&origin, [(0, None), (1, Some(4))].into_iter());
        assert_eq!(doubts.segments.values().collect::<Vec<_>>(), [&0, &5]);
        doubts.segments.clear();
        doubts.meet(&origin, [(0, Some(7)), (1, Some(9))].into_iter());
        assert!(doubts.segments.is_empty());
    }

    #[test]
    fn only_samples_that_are_there_are_taken_for_written() {
        for words in [
            "the database answered 400 Bad Request: out of order sample",
            "duplicate sample for timestamp",
            "err-mimir-sample-out-of-order",
            "(err-mimir-sample-duplicate-timestamp)",
        ] {
            assert!(is_there(words), "{words}");
        }
        for words in ["label name \"1a\" is invalid", "out of bounds", "too old sample", ""] {
            assert!(!is_there(words), "{words}");
        }
    }

    #[test]
    fn only_what_is_wrong_with_the_samples_is_for_good() {
        for (status, kind) in [
            (200, "taken"),
            (204, "taken"),
            (400, "objects"),
            (413, "too large"),
            (401, "later"),
            (404, "later"),
            (429, "later"),
            (500, "nothing"),
            (503, "nothing"),
        ] {
            let found = match said(StatusCode::from_u16(status).unwrap(), String::new()) {
                Said::Taken => "taken",
                Said::Objects(_) => "objects",
                Said::TooLarge(_) => "too large",
                Said::Later(_) => "later",
                Said::Nothing(_) => "nothing",
            };
            assert_eq!(found, kind, "{status}");
        }
    }
}
