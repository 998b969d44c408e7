//! JSON in and out.
//!
//! A body is read up to `server.body_bytes_max`, whether its length was announced or not. Fields
//! that nobody knows are refused with the name that was probably meant; what cannot be read is
//! refused with its line and column and what was expected.

use std::pin::pin;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use handoff_types::Code;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::error::Category;
use tokio::time::timeout_at;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::front::{Deadline, Door};
use super::nearest::nearest;
use super::problem::Problem;

/// The media type of JSON.
pub(super) const JSON: &str = "application/json";

/// The version of every body: 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct V1;

impl Serialize for V1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(1)
    }
}

impl<'de> Deserialize<'de> for V1 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(D::Error::invalid_value(Unexpected::Unsigned(other), &"version 1")),
        }
    }
}

impl PartialSchema for V1 {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .description(Some("The version of this format. Others are refused."))
            .enum_values(Some([1]))
            .into()
    }
}

impl ToSchema for V1 {
    fn name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }
}

/// A body that was read.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Door> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Problem> {
        check_media_type(request.headers())?;
        let body = read(request, door.app.limits().body_bytes_max).await?;
        decode(&body).map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match encode(&self.0) {
            Ok(body) => written(body, JSON),
            Err(problem) => problem.into_response(),
        }
    }
}

/// Writes an answer as JSON.
pub(super) fn encode<T: Serialize>(body: &T) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(body).map_err(|why| {
        tracing::error!(error = &why as &dyn std::error::Error, "an answer has no JSON");
        Problem::panicked()
    })
}

/// An answer that is written already.
pub(super) fn written(body: Vec<u8>, media_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    let kind = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A thing was made, and this is where it is.
#[derive(Debug)]
pub(super) struct Created<T> {
    pub(super) location: String,
    pub(super) body: T,
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let location = HeaderValue::try_from(self.location);
        let mut response = (StatusCode::CREATED, Json(self.body)).into_response();
        if let Ok(location) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

pub(super) fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = given.and_then(|value| value.split(';').next()).map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let detail = match given {
        Some(given) => format!("the body is `{given}`; it is read as application/json"),
        None => "the request does not say what its body is: Content-Type is missing".to_owned(),
    };
    Err(Problem::new(Code::WrongMediaType, detail))
}

/// Reads the body of a request up to a size, in time.
pub(super) async fn read(request: Request, max: usize) -> Result<Bytes, Problem> {
    let deadline = request.extensions().get::<Deadline>().copied();
    let (parts, body) = request.into_parts();
    let body = read_body(&parts.headers, body, max);
    match deadline {
        Some(Deadline(at)) => timeout_at(at, body).await.unwrap_or_else(|_| Err(body_too_slow())),
        None => body.await,
    }
}

/// A body that took too long.
pub(super) fn body_too_slow() -> Problem {
    let detail = "the body did not come within server.request_secs_max";
    Problem::new(Code::RequestTooSlow, detail)
}

/// A body that has more bytes than it may.
pub(super) fn too_large(max: usize) -> Problem {
    Problem::new(Code::RequestTooLarge, format!("a body has at most {max} bytes"))
}

/// Reads a body up to a size.
pub(super) async fn read_body<B: hyper::body::Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    max: usize,
) -> Result<Bytes, Problem>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Whoever says beforehand that it is too much need not send it.
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > u64::try_from(max).unwrap_or(u64::MAX)) {
        return Err(too_large(max));
    }
    match whole(Limited::new(body, max)).await {
        Ok(read) => Ok(read),
        Err(error) if is_too_large(&*error) => Err(too_large(max)),
        Err(error) => {
            let detail = format!("the body ended before it was complete: {error}");
            Err(Problem::new(Code::RequestMalformed, detail))
        }
    }
}

/// A body of fewer bytes is copied: it is a piece of what its connection reads into, and whoever
/// keeps the one keeps the other, so that the connection has to make a new one for every request.
const COPIED_BYTES: usize = 4 << 10;

/// All of a body. A large one that comes in one piece is not copied.
async fn whole<B: hyper::body::Body<Data = Bytes>>(body: B) -> Result<Bytes, B::Error> {
    let mut body = pin!(body);
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = data;
            if body.is_end_stream() {
                let is_small = first.len() < COPIED_BYTES;
                return Ok(if is_small { Bytes::copy_from_slice(&first) } else { first });
            }
            continue;
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
        let mut all = BytesMut::with_capacity(first.len() + data.len() + announced);
        all.extend_from_slice(&first);
        all.extend_from_slice(&data);
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                all.extend_from_slice(&data);
            }
        }
        return Ok(all.freeze());
    }
    Ok(first)
}

fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_too_large)
}

/// Reads JSON.
pub(super) fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // Otherwise an array of the right values would pass for an object.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::new(Code::RequestInvalid, "the body is an array; it is an object"));
    }
    let why = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Problem::new(Code::RequestMalformed, "the body is empty; it is a JSON object"));
    }
    Err(match why.classify() {
        Category::Data => match other_version(body) {
            Some(detail) => Problem::new(Code::RequestInvalid, detail),
            None => Problem::new(Code::RequestInvalid, with_suggestion(why.to_string())),
        },
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(Code::RequestMalformed, format!("the body is no JSON: {why}"))
        }
    })
}

/// A body of another version has other fields: its version is what is wrong with it.
fn other_version(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Probe {
        version: serde_json::Value,
    }
    let Probe { version } = serde_json::from_slice(body).ok()?;
    (version != 1).then(|| format!("version {version} is not known here; write \"version\":1"))
}

pub(super) fn with_suggestion(words: String) -> String {
    let Some(rest) = words.strip_prefix("unknown field `") else { return words };
    let mut quoted = rest.split('`').step_by(2);
    let Some(unknown) = quoted.next() else { return words };
    match nearest(unknown, quoted) {
        Some(meant) => format!("{words}; did you mean `{meant}`?"),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::{V1, decode};
    use handoff_types::Code;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Body {
        #[allow(dead_code, reason = "only that it is there")]
        version: V1,
        period_secs: Option<f64>,
    }

    fn refused(body: &str) -> (Code, String) {
        let problem = decode::<Body>(body.as_bytes()).unwrap_err();
        (problem.code, problem.detail)
    }

    #[test]
    fn a_sound_body_is_read() {
        let body: Body = decode(br#"{"version":1,"periodSecs":2}"#).unwrap();
        assert_eq!(body.period_secs, Some(2.0));
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (body, words) in [
            ("", "the body is empty"),
            (" \n", "the body is empty"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{\"version\":1,\n}", "trailing comma at line 2 column 1"),
            ("{\"version\":1} x", "trailing characters at line 1 column 15"),
            ("\u{feff}{}", "expected value at line 1 column 1"),
        ] {
            let (code, detail) = refused(body);
            assert_eq!(code, Code::RequestMalformed, "{body}: {detail}");
            assert!(detail.contains(words), "{body}: {detail}");
        }
        let problem = decode::<Body>(b"{\"version\":\xff}").unwrap_err();
        assert_eq!(problem.code, Code::RequestMalformed);
    }

    #[test]
    fn what_has_another_shape_is_refused_with_what_was_expected() {
        for (body, words) in [
            ("[]", "the body is an array"),
            ("[1,2.0]", "the body is an array"),
            ("7", "invalid type: integer `7`, expected struct"),
            ("{}", "missing field `version`"),
            (r#"{"version":1,"periodSec":2}"#, "did you mean `periodSecs`?"),
            (r#"{"version":1,"colour":2}"#, "unknown field `colour`, expected"),
            (
                r#"{"version":1,"periodSecs":"2"}"#,
                "invalid type: string \"2\", expected f64 at line 1 column 29",
            ),
            (r#"{"version":1,"version":1}"#, "duplicate field `version`"),
            (r#"{"version":2,"interval":2}"#, "version 2 is not known here"),
            (r#"{"version":"1"}"#, "version \"1\" is not known here"),
        ] {
            let (code, detail) = refused(body);
            assert_eq!(code, Code::RequestInvalid, "{body}: {detail}");
            assert!(detail.contains(words), "{body}: {detail}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_as_a_body_is_read_or_refused(
            body in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                r#"\{("(version|periodSecs|x`y)":(1|2|-1|null|"é`"|\[\]|\{\}),?){0,4}\}?"#
                    .prop_map(String::into_bytes),
            ],
        ) {
            drop(decode::<Body>(&body));
        }
    }
}
