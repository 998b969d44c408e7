//! `/v1/exchange`
//!
//! # Who asks
//! * A device shows its own token and is nobody else by anything it writes.
//! * An ERP shows its database's token, or a token of the house that sees the company.
//! * An administrator shows a token of the house that sees the company, or all of them.
//!
//! Whatever belongs to a company that the caller does not see is answered as if it were not there.

mod access;
mod device;
mod digest;
mod entities;
mod fetch;
pub(crate) mod incoming;
mod joined;
mod operate;
mod processes;
mod views;

pub(super) use self::device::{
    __path_ack_messages, __path_activate_device, __path_device_log, __path_post_messages,
    __path_show_self, Posting, ack_messages, activate_device, device_log, post_messages, show_self,
};
pub(super) use self::entities::*;
pub(super) use self::fetch::{__path_fetch_messages, fetch_messages};
pub(super) use self::operate::*;
pub(super) use self::processes::*;
pub(super) use self::views::*;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handoff_exchange::BadName;
use handoff_types::Code;
use serde::de::DeserializeOwned;

use super::front::Door;
use super::problem::Problem;
use super::query::Query;

/// Things of a page unless the client says otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

/// What a body that says what is to be done may weigh; messages are read elsewhere.
const CONTROL_BYTES_MAX: usize = 64 << 10;

/// What a path says.
fn path_text<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    let Path(text) = path.map_err(|bad| Problem::new(Code::RequestMalformed, bad.body_text()))?;
    Ok(text)
}

/// What a path names, in a request that asks nothing besides.
#[derive(Debug)]
pub(super) struct Named<T>(T);

impl<T: DeserializeOwned + Send> FromRequestParts<Door> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let Ok(query) = Query::from_request_parts(parts, door).await;
        query.known(&[])?;
        path_text(Path::from_request_parts(parts, door).await).map(Self)
    }
}

/// Something that is not there, or that the caller does not see: nobody learns which.
fn not_found(what: &str, id: &str) -> Problem {
    let id = id.get(..id.floor_char_boundary(64)).unwrap_or_default();
    Problem::new(Code::ExchangeNotFound, format!("there is no {what} {id}"))
}

/// A value that cannot be.
fn invalid(words: impl Into<String>) -> Problem {
    Problem::new(Code::ExchangeInvalid, words)
}

/// A name that is none.
fn bad_name(bad: BadName) -> Problem {
    invalid(bad.to_string())
}
