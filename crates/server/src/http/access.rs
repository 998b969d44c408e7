//! Who asks, and whether what they ask of is there.
//!
//! A handler says by its first argument what it needs; without it the handler is not reached.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use handoff_house::Digest;
use handoff_types::{Code, Room, Sight};

use super::Rooms;
use super::front::Door;
use super::problem::Problem;
use crate::auth::Caller;
use crate::auth::text::digest;
use crate::rooms::RoomError;
use crate::rooms::events::EventsRoom;
use crate::rooms::house::HouseRoom;
use crate::rooms::streams::StreamsRoom;

/// Whoever has a valid token, or anybody while auth is off.
#[derive(Debug)]
pub(super) struct Visitor;

/// Somebody who may do everything, and the house.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) house: HouseRoom,
    pub(super) caller: Caller,
    door: Door,
}

/// Somebody who sees something of the events room, and the room.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) room: EventsRoom,
    pub(super) sight: Sight,
    pub(super) caller: Caller,
    pub(super) door: Door,
}

/// Somebody who sees something of the streams room, and the room.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) room: StreamsRoom,
    pub(super) sight: Sight,
    pub(super) caller: Caller,
    pub(super) door: Door,
}

/// The same, for as long as one request.
#[derive(Debug)]
pub(super) struct StreamsAsker<'a> {
    pub(super) room: &'a StreamsRoom,
    pub(super) sight: Sight,
    pub(super) caller: Caller,
}

impl Visitor {
    /// Lets somebody in.
    pub(super) fn admit(door: &Door, headers: &HeaderMap) -> Result<Self, Problem> {
        admit(door, headers).map(|_| Self)
    }

    /// Lets somebody see figures of all there is. Without locks there is nothing to wait for: the
    /// figures of a start are worth seeing.
    pub(super) fn admit_to_figures(door: &Door, headers: &HeaderMap) -> Result<Self, Problem> {
        if !door.app.auth {
            return expect_at_home(headers).map(|()| Self);
        }
        let (_, caller) = admit(door, headers)?;
        let sees_a_room = |room| caller.sight(room) == Some(Sight::All);
        if Room::ALL.into_iter().any(sees_a_room) {
            return Ok(Self);
        }
        let detail = "the figures are of everything; the token sees some names only";
        Err(Problem::new(Code::OutOfScope, detail))
    }
}

impl Admin {
    /// What the house answered.
    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        Problem::of(&self.door.app, Room::House, error)
    }
}

impl Events {
    /// What the room answered.
    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        Problem::of(&self.door.app, Room::Events, error)
    }
}

impl Streams {
    /// What the room answered.
    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        Problem::of(&self.door.app, Room::Streams, error)
    }
}

impl FromRequestParts<Door> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        Self::admit(door, &parts.headers)
    }
}

impl FromRequestParts<Door> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let (rooms, caller) = admit(door, &parts.headers)?;
        if !caller.is_admin() {
            let detail = "this needs a token with the scope admin";
            return Err(Problem::new(Code::OutOfScope, detail));
        }
        let house = rooms.house.clone();
        let house = house.ok_or_else(|| Problem::closed(&door.app, Room::House))?;
        Ok(Self { house, caller, door: door.clone() })
    }
}

impl FromRequestParts<Door> for Events {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let (room, sight, caller) =
            admit_to(door, &parts.headers, Room::Events, |rooms| rooms.events.as_ref())?;
        Ok(Self { room: room.clone(), sight, caller, door: door.clone() })
    }
}

impl FromRequestParts<Door> for Streams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let StreamsAsker { room, sight, caller } = StreamsAsker::admit(door, &parts.headers)?;
        Ok(Self { room: room.clone(), sight, caller, door: door.clone() })
    }
}

impl<'a> StreamsAsker<'a> {
    /// Lets somebody in who sees something of the room.
    pub(super) fn admit(door: &'a Door, headers: &HeaderMap) -> Result<Self, Problem> {
        let (room, sight, caller) =
            admit_to(door, headers, Room::Streams, |rooms| rooms.streams.as_ref())?;
        Ok(Self { room, sight, caller })
    }
}

/// Lets somebody in who sees something of a room, if it is open.
pub(super) fn admit_to<'a, R>(
    door: &'a Door,
    headers: &HeaderMap,
    room: Room,
    open: impl FnOnce(&'a Rooms) -> Option<&'a R>,
) -> Result<(&'a R, Sight, Caller), Problem> {
    let (rooms, caller) = admit(door, headers)?;
    let sight = caller.sight(room).ok_or_else(|| {
        Problem::new(Code::OutOfScope, format!("the token sees nothing of the {room} room"))
    })?;
    let room = open(rooms).ok_or_else(|| Problem::closed(&door.app, room))?;
    Ok((room, sight, caller))
}

/// Lets somebody in by a token of the house, or anybody while auth is off.
pub(super) fn admit<'a>(
    door: &'a Door,
    headers: &HeaderMap,
) -> Result<(&'a Rooms, Caller), Problem> {
    let rooms = door.app.rooms().ok_or_else(|| Problem::closed(&door.app, Room::House))?;
    // A house that cannot be asked has not unlocked its doors.
    if door.app.auth && rooms.house.is_none() {
        return Err(Problem::closed(&door.app, Room::House));
    }
    if !door.app.auth {
        expect_at_home(headers)?;
    }
    let admitted = rooms.gate.admit(bearer(headers));
    let caller = admitted.map_err(|denied| Problem::new(denied.code(), denied.to_string()))?;
    Ok((rooms, caller))
}

/// Refuses what was sent to somebody else. Only tokens can tell a friend by any other name.
pub(super) fn expect_at_home(headers: &HeaderMap) -> Result<(), Problem> {
    if is_at_home(headers) {
        return Ok(());
    }
    let detail = "without tokens this server answers only by its address or as localhost";
    Err(Problem::new(Code::ForeignHost, detail))
}

/// Whether a request was sent to an address, or to this machine by its own name. A page of another
/// site can make its own name mean 127.0.0.1, and a browser then lets it ask whatever it likes.
fn is_at_home(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// What the token of a request is known by, for whoever stays longer than a request.
#[derive(Clone, Copy)]
pub(super) struct Key(Option<Digest>);

impl Key {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self(bearer(headers).map(digest))
    }

    /// Whether it would still be let in.
    pub(super) fn fits(&self, door: &Door) -> bool {
        if !door.app.auth {
            return true;
        }
        let house = door.app.rooms().and_then(|rooms| rooms.house.as_ref());
        let (Some(house), Some(digest)) = (house, &self.0) else { return false };
        house.find(digest).is_some()
    }
}

/// The token of `Authorization: Bearer TOKEN`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::bearer;
    use axum::http::{HeaderMap, HeaderValue, header};

    #[test]
    fn only_addresses_and_localhost_are_at_home() {
        let at_home = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            super::is_at_home(&headers)
        };
        for host in ["127.0.0.1:7070", "127.0.0.1", "localhost:7070", "LocalHost", "[::1]:7070"] {
            assert!(at_home(host), "{host}");
        }
        for host in ["evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            assert!(!at_home(host), "{host}");
        }
    }

    #[test]
    fn a_token_is_read_from_its_header() {
        for (value, token) in [
            ("Bearer hf_abc", Some("hf_abc")),
            ("bearer  hf_abc ", Some("hf_abc")),
            ("Bearer ", None),
            ("Basic aGk6aG8=", None),
            ("hf_abc", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(bearer(&headers), token.map(str::as_bytes), "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
