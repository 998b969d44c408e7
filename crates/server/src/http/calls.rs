//! `/v1/calls`
//!
//! A token sees channels by their names. What is in a channel that it does not see is answered as if it
//! were not there.

mod channels;
mod connect;
mod connection;
mod frames;
mod letters;
mod requests;
mod views;

pub(super) use self::channels::*;
pub(super) use self::connect::{__path_connect_calls, connect_calls};
pub(super) use self::letters::*;
pub(super) use self::requests::*;
pub(super) use self::views::{__path_call_stats, __path_list_calls, call_stats, list_calls};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use handoff_calls::{BadName, CallId, ChannelName};
use handoff_house::ActKind;
use handoff_types::{Code, Room, Sight};

use super::access::admit_to;
use super::front::Door;
use super::problem::Problem;
use crate::auth::Caller;
use crate::rooms::RoomError;
use crate::rooms::calls::CallsRoom;

/// Things of a page unless the client says otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

/// Somebody who sees something of the calls room, and the room.
#[derive(Debug)]
pub(super) struct CallsAsker {
    room: CallsRoom,
    sight: Sight,
    caller: Caller,
    door: Door,
}

impl FromRequestParts<Door> for CallsAsker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let (room, sight, caller) =
            admit_to(door, &parts.headers, Room::Calls, |rooms| rooms.calls.as_ref())?;
        Ok(Self { room: room.clone(), sight, caller, door: door.clone() })
    }
}

impl CallsAsker {
    /// What the room answered.
    fn refuse(&self, error: RoomError) -> Problem {
        Problem::of(&self.door.app, Room::Calls, error)
    }

    /// Writes an act of an administrator into the audit.
    async fn note(&self, kind: ActKind, target: &str) {
        let house = self.door.app.rooms().and_then(|rooms| rooms.house.as_ref());
        let Some(house) = house else { return };
        if let Err(error) = house.note(kind, target, self.caller.name()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the audit does not have it");
        }
    }

    /// A channel that a path names.
    fn channel(&self, text: &str) -> Result<ChannelName, Problem> {
        let name: ChannelName = text.parse().map_err(bad_name)?;
        match self.sight.sees(name.as_str()) {
            true => Ok(name),
            false => {
                let detail = format!("the token does not see channels of the name `{name}`");
                Err(Problem::new(Code::OutOfScope, detail))
            }
        }
    }
}

/// A call that a path names.
fn call_id(text: &str) -> Result<CallId, Problem> {
    text.parse().map_err(|_| no_call(text))
}

fn no_call(id: &str) -> Problem {
    let id = id.get(..id.floor_char_boundary(64)).unwrap_or_default();
    Problem::new(Code::CallNotFound, format!("there is no call {id}"))
}

/// A name that is none.
fn bad_name(bad: BadName) -> Problem {
    Problem::new(Code::CallsInvalid, bad.to_string())
}
