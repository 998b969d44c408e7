//! JSON or MessagePack, as the client likes.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use handoff_types::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::convert::Infallible;

use super::msgpack;
use crate::http::front::Door;
pub(super) use crate::http::json::{JSON, written};
use crate::http::json::{Json, decode, read, with_suggestion};
use crate::http::problem::Problem;

/// The media type of MessagePack.
pub(super) const MSGPACK: &str = "application/msgpack";

/// The media type of batches as they are stored.
pub(super) const BATCH: &str = "application/vnd.handoff.batch";

/// What a body that says what is to be done may weigh; messages are read elsewhere.
const CONTROL_BYTES_MAX: usize = 64 << 10;

/// How a body is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::http) enum Format {
    #[default]
    Json,
    MessagePack,
}

impl Format {
    /// What a request's body is.
    ///
    /// # Errors
    /// [`Code::WrongMediaType`]
    pub(super) fn of_body(headers: &HeaderMap) -> Result<Self, Problem> {
        let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
        let Some(given) = given else {
            let detail = "the request does not say what its body is: Content-Type is missing";
            return Err(Problem::new(Code::WrongMediaType, detail));
        };
        match essence(given) {
            kind if kind.eq_ignore_ascii_case("application/json") => Ok(Self::Json),
            kind if is_msgpack(kind) => Ok(Self::MessagePack),
            _ => {
                let detail =
                    format!("the body is `{given}`; it is read as application/json or {MSGPACK}");
                Err(Problem::new(Code::WrongMediaType, detail))
            }
        }
    }

    /// What the client wants to read: what it accepts, or else what it writes.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        for kind in accepted(headers) {
            if is_msgpack(kind) {
                return Self::MessagePack;
            }
            if kind.eq_ignore_ascii_case("application/json") {
                return Self::Json;
            }
        }
        Self::of_body(headers).unwrap_or_default()
    }
}

/// Whether the client wants batches as they are stored.
pub(super) fn wants_batches(headers: &HeaderMap) -> bool {
    accepted(headers).any(|kind| kind.eq_ignore_ascii_case(BATCH))
}

fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::ACCEPT).into_iter();
    lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(essence)
}

fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

fn is_msgpack(kind: &str) -> bool {
    kind.eq_ignore_ascii_case(MSGPACK) || kind.eq_ignore_ascii_case("application/x-msgpack")
}

impl<S: Sync> FromRequestParts<S> for Format {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::wanted(&parts.headers))
    }
}

/// A small body that was read, in either format.
#[derive(Debug)]
pub(in crate::http) struct Given<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Door> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Problem> {
        let format = Format::of_body(request.headers())?;
        let max = CONTROL_BYTES_MAX.min(door.app.limits().body_bytes_max);
        let body = read(request, max).await?;
        match format {
            Format::Json => decode(&body).map(Self),
            Format::MessagePack => from_msgpack(body).map(Self),
        }
    }
}

fn from_msgpack<T: DeserializeOwned>(body: Bytes) -> Result<T, Problem> {
    let value = msgpack::to_json(body)?;
    let invalid = |words: String| Problem::new(Code::RequestInvalid, words);
    if !value.is_object() {
        return Err(invalid("the body is no map; it is a map".to_owned()));
    }
    if let Some(version) = value.get("version").filter(|version| **version != 1) {
        return Err(invalid(format!("version {version} is not known here; write version 1")));
    }
    serde_json::from_value(value).map_err(|why| invalid(with_suggestion(why.to_string())))
}

/// An answer in either format.
#[derive(Debug)]
pub(in crate::http) struct Answer<T> {
    pub(super) format: Format,
    pub(super) status: StatusCode,
    pub(super) location: Option<String>,
    pub(super) body: T,
}

impl<T> Answer<T> {
    pub(super) fn ok(format: Format, body: T) -> Self {
        Self { format, status: StatusCode::OK, location: None, body }
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let Self { format, status, location, body } = self;
        let mut response = match format {
            Format::Json => Json(body).into_response(),
            Format::MessagePack => {
                let value = serde_json::to_value(&body).unwrap_or(Value::Null);
                let mut out = Vec::new();
                msgpack::from_json(&value, &mut out);
                packed(out)
            }
        };
        *response.status_mut() = match response.status() {
            StatusCode::OK => status,
            fault => fault,
        };
        if let Some(location) = location.and_then(|place| HeaderValue::try_from(place).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// An answer that is MessagePack already.
pub(super) fn packed(body: Vec<u8>) -> Response {
    written(body, MSGPACK)
}

/// An answer that is written already, and something that is kept until it is sent.
pub(super) fn kept<K: Send + 'static>(body: Vec<u8>, format: Format, keep: K) -> Response {
    struct Kept<K>(Vec<u8>, K);
    impl<K> AsRef<[u8]> for Kept<K> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let media_type = match format {
        Format::Json => "application/json",
        Format::MessagePack => MSGPACK,
    };
    let mut response = Response::new(Body::from(Bytes::from_owner(Kept(body, keep))));
    let kind = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::{Format, wants_batches};
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn an_answer_is_in_the_format_that_is_accepted_or_else_in_that_of_the_question() {
        for (lines, wanted) in [
            (&[][..], Format::Json),
            (&[("accept", "*/*")], Format::Json),
            (&[("accept", "application/msgpack")], Format::MessagePack),
            (&[("accept", "text/html, Application/X-MsgPack;q=0.5")], Format::MessagePack),
            (&[("content-type", "application/msgpack")], Format::MessagePack),
            (
                &[("content-type", "application/msgpack"), ("accept", "application/json")],
                Format::Json,
            ),
        ] {
            assert_eq!(Format::wanted(&headers(lines)), wanted, "{lines:?}");
        }
        assert!(wants_batches(&headers(&[("accept", "application/vnd.handoff.batch")])));
        assert!(!wants_batches(&headers(&[("accept", "*/*")])));
        assert!(Format::of_body(&headers(&[("content-type", "text/plain")])).is_err());
        assert!(Format::of_body(&headers(&[])).is_err());
    }
}
