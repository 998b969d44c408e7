//! Who asks.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use handoff_exchange::{Company, Database, Device, DeviceNo, Digest, EntityId};
use handoff_house::ActKind;
use handoff_types::{Code, Room, Sight};

use super::not_found;
use crate::auth::Caller;
use crate::auth::text::digest;
use crate::http::access::{admit, bearer, expect_at_home};
use crate::http::front::Door;
use crate::http::problem::Problem;
use crate::rooms::RoomError;
use crate::rooms::exchange::{Directory, ExchangeRoom};

/// What the tokens of devices and of databases begin with.
pub(super) const DEVICE_PREFIX: &str = "hxd_";
pub(super) const DATABASE_PREFIX: &str = "hxb_";

/// A device, for as long as one request.
#[derive(Debug)]
pub(super) struct DeviceCaller<'a> {
    pub(super) room: &'a ExchangeRoom,
    pub(super) device: DeviceNo,
    door: &'a Door,
    /// Of the token it showed.
    token: Digest,
}

/// An ERP, or somebody who may speak for it.
#[derive(Debug)]
pub(super) struct ErpCaller {
    pub(super) room: ExchangeRoom,
    pub(super) database: Database,
    pub(super) door: Door,
    /// None if the database's own token was shown.
    caller: Option<Caller>,
}

/// An administrator of some companies, or of all.
#[derive(Debug)]
pub(in crate::http) struct Manager {
    pub(super) room: ExchangeRoom,
    pub(super) sight: Sight,
    pub(super) door: Door,
    caller: Caller,
}

/// The room, if it is open.
pub(super) fn room(door: &Door) -> Result<&ExchangeRoom, Problem> {
    let rooms = door.app.rooms().ok_or_else(|| Problem::closed(&door.app, Room::House))?;
    rooms.exchange.as_ref().ok_or_else(|| Problem::closed(&door.app, Room::Exchange))
}

/// Whether there is a server behind the door yet, and it was meant.
fn at_the_door(door: &Door, headers: &HeaderMap) -> Result<(), Problem> {
    door.app.rooms().ok_or_else(|| Problem::closed(&door.app, Room::House))?;
    if door.app.auth { Ok(()) } else { expect_at_home(headers) }
}

/// What the room answered.
fn refuse(door: &Door, error: RoomError) -> Problem {
    Problem::of(&door.app, Room::Exchange, error)
}

impl<'a> DeviceCaller<'a> {
    /// Lets a device in. Its token is its identity, so it is asked for also while auth is off.
    pub(super) fn admit(door: &'a Door, headers: &HeaderMap) -> Result<Self, Problem> {
        at_the_door(door, headers)?;
        let missing = || Problem::new(Code::TokenMissing, "a device shows its own token");
        let text = bearer(headers).ok_or_else(missing)?;
        if !text.starts_with(DEVICE_PREFIX.as_bytes()) {
            return Err(no_device());
        }
        let (room, token) = (room(door)?, digest(text));
        let device = room.directory(|known| {
            let device = known.device_by_token(&token).ok_or_else(no_device)?;
            if device.blocked { Err(blocked()) } else { Ok(device.no) }
        })?;
        Ok(Self { room, device, door, token })
    }

    /// What is known of the device at this moment. Refuses one that is locked out, also if it was not
    /// when it came.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&Directory, &Device) -> Option<T>,
    ) -> Result<T, Problem> {
        self.room.directory(|known| match known.device(self.device) {
            Some(device) if device.blocked => Err(blocked()),
            Some(device) if device.token == Some(self.token) => {
                look(known, device).ok_or_else(no_device)
            }
            _ => Err(no_device()),
        })
    }

    /// Refuses a device that is locked out, also if it was not when it came.
    pub(super) fn expect_free(&self) -> Result<(), Problem> {
        self.look(|_, _| Some(()))
    }

    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        refuse(self.door, error)
    }
}

fn no_device() -> Problem {
    Problem::new(Code::TokenUnknown, "this is the token of no device")
}

fn blocked() -> Problem {
    Problem::new(Code::DeviceBlocked, handoff_exchange::Refusal::Blocked.to_string())
}

impl ErpCaller {
    /// Lets somebody in who may speak for a database.
    pub(super) fn admit(door: &Door, headers: &HeaderMap, id: &str) -> Result<Self, Problem> {
        at_the_door(door, headers)?;
        if let Some(text) = bearer(headers).filter(|text| is_ours(text)) {
            let room = room(door)?;
            let own = room.directory(|known| known.database_by_token(&digest(text)).cloned());
            if let Some(database) = own {
                if database.id.as_str() != id {
                    return Err(not_found("database", id));
                }
                let (room, door) = (room.clone(), door.clone());
                return Ok(Self { room, database, door, caller: None });
            }
            let words = "this is the token of no database, or not any more";
            return Err(Problem::new(Code::TokenUnknown, words));
        }
        let manager = Manager::admit(door, headers)?;
        let database = manager.database(id)?;
        let Manager { room, door, caller, .. } = manager;
        Ok(Self { room, database, door, caller: Some(caller) })
    }

    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        refuse(&self.door, error)
    }

    /// Notes what an administrator did in an ERP's place.
    pub(super) async fn note(&self, target: &str) {
        if let Some(caller) = &self.caller {
            note(&self.door, ActKind::Altered, target, caller).await;
        }
    }
}

/// Before the body is read: whoever is not let in is not listened to.
impl FromRequestParts<Door> for Manager {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        Self::admit(door, &parts.headers)
    }
}

/// The room, for those who have no token yet.
#[derive(Debug)]
pub(in crate::http) struct Entrance(pub(super) ExchangeRoom);

impl FromRequestParts<Door> for Entrance {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, door: &Door) -> Result<Self, Problem> {
        room(door).cloned().map(Self)
    }
}

impl Manager {
    /// Lets an administrator in.
    pub(super) fn admit(door: &Door, headers: &HeaderMap) -> Result<Self, Problem> {
        // Tokens of devices and databases open other doors, also while this one stands open.
        if bearer(headers).is_some_and(is_ours) {
            let words = "this is no token of an administrator";
            return Err(Problem::new(Code::TokenUnknown, words));
        }
        let (_, caller) = admit(door, headers)?;
        let sight = caller.sight(Room::Exchange).ok_or_else(|| {
            Problem::new(Code::OutOfScope, "the token sees nothing of the exchange")
        })?;
        let room = room(door)?.clone();
        Ok(Self { room, sight, door: door.clone(), caller })
    }

    /// Refuses whoever does not see all companies.
    pub(super) fn expect_all(&self) -> Result<(), Problem> {
        match self.sight {
            Sight::All => Ok(()),
            Sight::Names(_) => {
                let words = "this is about all companies; the token sees some of them";
                Err(Problem::new(Code::OutOfScope, words))
            }
        }
    }

    /// A company that is there and in sight.
    pub(super) fn company(&self, id: &str) -> Result<Company, Problem> {
        let found = self
            .in_sight(id)
            .and_then(|id| self.room.directory(|known| known.company_by_id(&id).cloned()));
        found.ok_or_else(|| not_found("company", id))
    }

    /// A database that is there and in sight.
    pub(super) fn database(&self, id: &str) -> Result<Database, Problem> {
        let found = id.parse::<EntityId>().ok().and_then(|id| {
            self.room.directory(|known| {
                let database = known.database_by_id(&id)?;
                self.sees(known, database.company).then(|| database.clone())
            })
        });
        found.ok_or_else(|| not_found("database", id))
    }

    /// A device that is there and in sight, and its company.
    pub(super) fn device(&self, company: &str, id: &str) -> Result<(Company, Device), Problem> {
        let company = self.company(company)?;
        let found = id.parse::<EntityId>().ok().and_then(|id| {
            self.room.directory(|known| known.device_by_id(company.no, &id).cloned())
        });
        let device = found.ok_or_else(|| not_found("device", id))?;
        Ok((company, device))
    }

    /// The id of a company, if it is one and in sight.
    pub(super) fn in_sight(&self, id: &str) -> Option<EntityId> {
        id.parse::<EntityId>().ok().filter(|id| self.sight.sees(id.as_str()))
    }

    /// Whether a company is in sight.
    pub(super) fn sees(&self, known: &Directory, company: handoff_exchange::CompanyNo) -> bool {
        known.company(company).is_some_and(|company| self.sight.sees(company.id.as_str()))
    }

    pub(super) fn refuse(&self, error: RoomError) -> Problem {
        refuse(&self.door, error)
    }

    /// An act to remember. What was done stands even if the note does not.
    pub(super) async fn note(&self, kind: ActKind, target: &str) {
        note(&self.door, kind, target, &self.caller).await;
    }
}

/// Whether a text is written as tokens of devices and databases are.
fn is_ours(text: &[u8]) -> bool {
    text.starts_with(DEVICE_PREFIX.as_bytes()) || text.starts_with(DATABASE_PREFIX.as_bytes())
}

async fn note(door: &Door, kind: ActKind, target: &str, caller: &Caller) {
    let Some(house) = door.app.rooms().and_then(|rooms| rooms.house.as_ref()) else { return };
    if let Err(error) = house.note(kind, target, caller.name()).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "an act could not be noted");
    }
}
