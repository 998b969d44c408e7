//! A conversation of plain requests to store messages, for which hyper need not be asked.
//!
//! # Constraints
//! * Only what is plain is answered here: a whole request to store messages in what one read gives,
//!   with a length and nothing about the connection. Whatever is not goes to hyper, unread bytes and
//!   all, and stays there: this knows no other rule of HTTP.
//! * What is answered, counted and logged is what the router would have: the pieces are the same.
//! * A connection that waits for its next request has no buffer, only its last head: who stores many
//!   messages of one length says the same again, and it is not read again.
//!
//! ```text
//!  read ─▶ plain? ──yes──▶ store ─▶ write ─▶ read …
//!             └───no───▶ hyper, from this byte on
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use httparse::Status;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::alarm::{Alarm, Late};
use super::connection::{Activity, UnderWay};
use super::correlation::{REQUEST_ID, TRACERESPONSE};
use super::direct::{Errand, Written};
use super::front::{Door, Passage, caught};
use super::json::too_large;
use super::problem::Problem;

/// What one read takes, and so the most a request may weigh here.
const READ_BYTES: usize = 64 << 10;

/// Lines of a head; whoever says more is not plain.
const LINES_MAX: usize = 32;

/// Bytes of a head, which its connection keeps; whoever says more is not plain.
const HEAD_BYTES_MAX: usize = 2 << 10;

thread_local! {
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
    /// The header `date` of a second.
    static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// How a conversation ended.
#[derive(Debug)]
pub(super) enum Left {
    /// The other side is gone, or was told that we are.
    Closed,
    /// These bytes are for hyper.
    Other(Bytes),
}

/// What stands before a body.
#[derive(Debug)]
struct Head {
    text: Box<[u8]>,
    errand: Errand,
    headers: HeaderMap,
    body_bytes: usize,
}

/// A request that is all here, but for its head, which is the connection's last one.
#[derive(Debug)]
struct Plain {
    body: Bytes,
    /// Bytes behind it.
    rest: Bytes,
}

/// What was read.
enum Heard {
    Plain(Plain),
    Other(Bytes),
}

/// Answers plain requests until something else comes.
///
/// # Cancel safety
/// Dropped, what was asked may be done all the same; bytes that were read are lost.
pub(super) async fn converse<I>(io: &mut I, door: &Door, activity: &Arc<Activity>) -> Left
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let (mut out, mut last) = (Vec::new(), None);
    loop {
        let Plain { body, rest } = match hear(io, &mut last).await {
            Ok(Heard::Plain(plain)) => plain,
            Ok(Heard::Other(bytes)) => return Left::Other(bytes),
            Err(_) => return Left::Closed,
        };
        // Whatever is plain has a head.
        let Some(head) = &last else { return Left::Closed };
        let under_way = UnderWay::begin(activity);
        answer(door, activity, head, body, &mut out).await;
        let said = say(io, &out).await;
        drop(under_way);
        if said.is_err() || activity.is_leaving() {
            return Left::Closed;
        }
        if !rest.is_empty() {
            return Left::Other(rest);
        }
        out.clear();
    }
}

async fn say<I: AsyncWrite + Unpin>(io: &mut I, words: &[u8]) -> io::Result<()> {
    io.write_all(words).await?;
    io.flush().await
}

/// Waits for bytes and reads them.
async fn hear<I: AsyncRead + Unpin>(io: &mut I, last: &mut Option<Head>) -> io::Result<Heard> {
    poll_fn(|context| {
        READ.with_borrow_mut(|bytes| {
            let mut buffer = ReadBuf::new(bytes);
            match Pin::new(&mut *io).poll_read(context, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {
                    let heard = buffer.filled();
                    let other = || Heard::Other(Bytes::copy_from_slice(heard));
                    Poll::Ready(Ok(plain(heard, last).map_or_else(other, Heard::Plain)))
                }
            }
        })
    })
    .await
}

/// The request at the front, if it is plain and whole. Its head is the last one then.
fn plain(bytes: &[u8], last: &mut Option<Head>) -> Option<Plain> {
    let known = last.as_ref().filter(|last| bytes.starts_with(&last.text));
    let head = match known {
        Some(head) => head,
        None => last.insert(head(bytes)?),
    };
    let (body, rest) = bytes.get(head.text.len()..)?.split_at_checked(head.body_bytes)?;
    Some(Plain { body: Bytes::copy_from_slice(body), rest: Bytes::copy_from_slice(rest) })
}

/// The head at the front, if it is plain and whole.
fn head(bytes: &[u8]) -> Option<Head> {
    let mut lines = [httparse::EMPTY_HEADER; LINES_MAX];
    let mut request = httparse::Request::new(&mut lines);
    let Ok(Status::Complete(head_bytes)) = request.parse(bytes) else { return None };
    let posts = request.method == Some("POST") && request.version == Some(1);
    if !posts || head_bytes > HEAD_BYTES_MAX {
        return None;
    }
    let errand = Errand::of_path(request.path?)?;
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    let mut length = None;
    for line in &*request.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        match name {
            header::CONTENT_LENGTH if length.is_none() => length = Some(decimal(line.value)?),
            header::CONNECTION if line.value.eq_ignore_ascii_case(b"keep-alive") => {}
            header::CONTENT_LENGTH
            | header::CONNECTION
            | header::TRANSFER_ENCODING
            | header::CONTENT_ENCODING
            | header::TE
            | header::TRAILER
            | header::EXPECT
            | header::UPGRADE => return None,
            _ => {
                headers.append(name, HeaderValue::from_bytes(line.value).ok()?);
            }
        }
    }
    Some(Head { text: bytes.get(..head_bytes)?.into(), errand, headers, body_bytes: length? })
}

/// A length as everybody writes it.
fn decimal(text: &[u8]) -> Option<usize> {
    let sound = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    sound.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// Answers a request.
async fn answer(
    door: &Door,
    activity: &Activity,
    Head { errand, headers, .. }: &Head,
    body: Bytes,
    out: &mut Vec<u8>,
) {
    let passage = Passage::begin(door, &Method::POST, || errand.path(), headers);
    let mut alarm = activity.alarms.set(passage.deadline().0);
    let stored = caught(stored(door, &mut alarm, (errand, headers), body)).await;
    let counted = door.errands.of(errand);
    let route = &*counted.route;
    let closes = activity.is_leaving();
    let (status, took) = match stored {
        Some(Ok(Ok(written))) => {
            let status = written.status.as_u16();
            let took = passage.over(route, status, None);
            first_line(out, written.status);
            line(out, &header::CONTENT_TYPE, written.media_type.as_bytes());
            line(out, &REQUEST_ID, passage.id().as_bytes());
            if let Some(trace) = passage.traceresponse(door) {
                line(out, &TRACERESPONSE, trace.as_bytes());
            }
            end_head(out, written.bytes.len(), closes);
            out.extend_from_slice(&written.bytes);
            (status, took)
        }
        Some(Ok(Err(problem))) => {
            refuse(door, (&passage, route), Some(Ok(problem)), closes, out).await
        }
        Some(Err(Late)) => refuse(door, (&passage, route), Some(Err(Late)), closes, out).await,
        None => refuse(door, (&passage, route), None, closes, out).await,
    };
    door.app.metrics.http().answered_one(counted, status, took);
}

async fn stored(
    door: &Door,
    alarm: &mut Alarm<'_>,
    (errand, headers): (&Errand, &HeaderMap),
    body: Bytes,
) -> Result<Result<Written, Problem>, Late> {
    let admitted = match errand.admit(door, headers) {
        Ok(admitted) => admitted,
        Err(problem) => return Ok(Err(problem)),
    };
    if body.len() > admitted.bytes_max() {
        return Ok(Err(too_large(admitted.bytes_max())));
    }
    alarm.before(admitted.store(body)).await
}

/// Writes an answer that is none of what was hoped for.
async fn refuse(
    door: &Door,
    (passage, route): (&Passage, &str),
    outcome: Option<Result<Problem, Late>>,
    closes: bool,
    out: &mut Vec<u8>,
) -> (u16, Duration) {
    let outcome = outcome.map(|outcome| outcome.map(|problem| problem.into_response()));
    let (response, took) = passage.end(door, route, outcome);
    let status = response.status().as_u16();
    write_response(response, closes, out).await;
    (status, took)
}

async fn write_response(response: Response, closes: bool, out: &mut Vec<u8>) {
    let (parts, body) = response.into_parts();
    // What problems are made of is all there.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    first_line(out, parts.status);
    for (name, value) in &parts.headers {
        line(out, name, value.as_bytes());
    }
    end_head(out, body.len(), closes);
    out.extend_from_slice(&body);
}

fn first_line(out: &mut Vec<u8>, status: StatusCode) {
    let (code, reason) = (status.as_str(), status.canonical_reason().unwrap_or(""));
    for piece in ["HTTP/1.1 ", code, " ", reason, "\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn line(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn end_head(out: &mut Vec<u8>, body_bytes: usize, closes: bool) {
    if closes {
        line(out, &header::CONNECTION, b"close");
    }
    // A vector takes whatever is written to it.
    drop(write!(out, "content-length: {body_bytes}\r\n"));
    let now = wall();
    DATE.with_borrow_mut(|(second, date)| {
        let current = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if *second != current || date.is_empty() {
            (*second, *date) = (current, httpdate::fmt_http_date(now));
        }
        line(out, &header::DATE, date.as_bytes());
    });
    out.extend_from_slice(b"\r\n");
}

#[expect(clippy::disallowed_methods, reason = "an answer says when it was given, as hyper's do")]
fn wall() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::{Errand, decimal, plain};

    const HEAD: &str = "POST /v1/streams/topics/orders/messages HTTP/1.1\r\nhost: localhost\r\n";

    fn request(lines: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        format!("{HEAD}{lines}content-length: {length}\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn a_plain_request_is_read_and_what_is_behind_it_is_kept() {
        let mut bytes = request("accept: */*\r\nconnection: Keep-Alive\r\n", "{}");
        bytes.extend_from_slice(b"GET /");
        let mut last = None;
        let read = plain(&bytes, &mut last).unwrap();
        assert_eq!((&read.body[..], &read.rest[..]), (&b"{}"[..], &b"GET /"[..]));
        let head = last.unwrap();
        assert_eq!(head.errand, Errand::Produce("orders".parse().unwrap()));
        assert_eq!(head.headers.len(), 2, "its length and its connection are nobody's concern");
    }

    #[test]
    fn a_head_that_was_said_before_is_known_and_any_other_is_read() {
        let mut last = None;
        let mut said = |lines: &str, body: &str| {
            let read = plain(&request(lines, body), &mut last).unwrap();
            assert_eq!(&read.body[..], body.as_bytes());
            let head = last.as_ref().unwrap();
            (head.text.as_ptr(), head.headers.get("x-request-id").cloned())
        };
        let (first, _) = said("x-request-id: 1\r\n", "{}");
        assert_eq!(said("x-request-id: 1\r\n", "[]").0, first, "it was not read again");
        assert_eq!(said("x-request-id: 2\r\n", "[]").1.unwrap(), "2");
        assert_eq!(said("", "[]").1, None);
        assert_eq!(said("", "[1]").1, None, "another length is another head");
        let cut = request("", "[1]");
        assert!(plain(&cut[..cut.len() - 1], &mut last).is_none());
        assert!(plain(&request("connection: close\r\n", "[1]"), &mut last).is_none());
    }

    #[test]
    fn whatever_is_not_plain_is_left_to_hyper() {
        let sound = request("", "{}");
        let plain = |bytes: &[u8]| plain(bytes, &mut None);
        assert!(plain(&sound).is_some());
        for cut in 0..sound.len() {
            assert!(plain(&sound[..cut]).is_none(), "cut after {cut}");
        }
        for line in [
            "transfer-encoding: chunked\r\n",
            "expect: 100-continue\r\n",
            "connection: close\r\n",
            "connection: upgrade\r\nupgrade: h2c\r\n",
            "content-encoding: gzip\r\n",
            "content-length: 2\r\n",
            "broken line\r\n",
            &"x-more: 1\r\n".repeat(40),
            &format!("x-more: {}\r\n", "1".repeat(2_000)),
        ] {
            assert!(plain(&request(line, "{}")).is_none(), "{line}");
        }
        for (from, to) in [
            ("POST", "PUT"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("messages HTTP", "messages?x=1 HTTP"),
            ("/messages", "/elsewhere"),
            ("content-length: 2", "content-length: +2"),
            ("content-length: 2", "content-length: 2, 2"),
            ("content-length: 2", "content-type: x"),
            ("content-length: 2", "content-length: 99999999999999999999"),
        ] {
            let text = String::from_utf8(sound.clone()).unwrap().replace(from, to);
            assert!(plain(text.as_bytes()).is_none(), "{text}");
        }
        assert!(plain(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").is_none());
    }

    #[test]
    fn only_digits_are_a_length() {
        assert_eq!(decimal(b"0042"), Some(42));
        for text in [&b""[..], b" 1", b"1 ", b"-1", b"0x1", b"1234567890"] {
            assert_eq!(decimal(text), None);
        }
    }
}
