//! Answers, refusals among them.

use bytes::Bytes;
use handoff_types::Code;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use crate::settings::WhenFull;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoSuchPath,
    WrongMethod,
    NoToken,
    WrongToken,
    Unsupported(String),
    Malformed(String),
    TooLarge(String),
    TooSlow,
    Opening,
    Stopping,
    Full(WhenFull),
    Late,
    Spooled,
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::Unsupported(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Full(WhenFull::TooManyRequests) => StatusCode::TOO_MANY_REQUESTS,
            Self::Full(WhenFull::Unavailable)
            | Self::Opening
            | Self::Stopping
            | Self::Late
            | Self::Spooled => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn code(&self) -> Code {
        match self {
            Self::NoSuchPath => Code::NoSuchPath,
            Self::WrongMethod => Code::WrongMethod,
            Self::NoToken => Code::TokenMissing,
            Self::WrongToken => Code::TokenUnknown,
            Self::Unsupported(_) => Code::WrongMediaType,
            Self::Malformed(_) => Code::RequestMalformed,
            Self::TooLarge(_) => Code::RequestTooLarge,
            Self::TooSlow | Self::Late | Self::Spooled => Code::RequestTooSlow,
            Self::Opening => Code::RoomOff,
            Self::Stopping => Code::ServerStopping,
            Self::Full(_) => Code::RoomBusy,
        }
    }

    /// What happened, in words.
    fn words(&self) -> &str {
        match self {
            Self::NoSuchPath => "there is nothing here; samples go to POST /api/v1/write",
            Self::WrongMethod => "this path does not take this method",
            Self::NoToken => "send `Authorization: Bearer TOKEN`: this agent asks for a token",
            Self::WrongToken => "the token is not the one of agent.token_file",
            Self::Unsupported(words) | Self::Malformed(words) | Self::TooLarge(words) => words,
            Self::TooSlow => "the body took longer to come than agent.request_secs_max",
            Self::Opening => "the agent is reading its refill files",
            Self::Stopping => "the agent is stopping",
            Self::Full(_) => "neither memory nor the spool has room; nothing was taken",
            Self::Late => {
                "what agent.promise promises did not come true in time; the samples are on their way"
            }
            Self::Spooled => {
                "not every destination has the samples; they are on disk and on their way"
            }
        }
    }

    /// Seconds until it is worth trying again.
    const fn retry_after(&self) -> Option<&'static str> {
        match self {
            Self::Opening | Self::Stopping | Self::Full(_) => Some("1"),
            Self::Late | Self::Spooled => Some("5"),
            _ => None,
        }
    }

    /// The refusal as an answer: `application/problem+json` with a stable code.
    pub(super) fn answer(&self) -> Response<Full<Bytes>> {
        let status = self.status();
        let body = serde_json::json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("refused"),
            "status": status.as_u16(),
            "detail": self.words(),
            "code": self.code().text(),
        });
        let mut answer = typed("application/problem+json", format!("{body}\n"));
        *answer.status_mut() = status;
        if let Some(seconds) = self.retry_after() {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        answer
    }
}

/// An answer in words.
pub(super) fn text(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut answer = typed("text/plain; charset=utf-8", words.to_owned());
    *answer.status_mut() = status;
    answer
}

/// An answer of a media type.
pub(super) fn typed(media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}
