//! From the wire's words to the room's and back.

use bytes::Bytes;
use handoff_events::{EventView, Filter, Id, Notification, Refusal, Registration, Schedule};
use handoff_events::{FilterError, Selection as RoomSelection};
use handoff_sevent::{Answer, ErrorCode, Event, Selection};
use handoff_types::Wall;

use crate::rooms::RoomError;

/// A notification as it goes over the wire, size included.
#[must_use]
pub(crate) fn notify_frame(notification: &Notification) -> Bytes {
    let answer = Answer::Notify {
        id: wire_id(notification.id),
        types: notification.types.iter().map(|name| String::from(&**name)).collect(),
        event: Event {
            description: String::from(&*notification.description),
            period: notification.period_secs,
            repeat: notification.repeat.wire(),
        },
        timestamp: unix_secs(notification.updated),
    };
    answer.to_bytes()
}

pub(super) fn event_info(view: EventView) -> Answer {
    Answer::EventInfo {
        id: wire_id(view.id),
        types: view.types.iter().map(|name| String::from(&**name)).collect(),
        event: Event {
            description: view.description,
            period: view.period_secs,
            repeat: view.repeat.wire(),
        },
        timestamp: unix_secs(view.updated),
    }
}

pub(super) fn filter(filter: Filter) -> Answer {
    Answer::Filter(Selection {
        ids: filter.ids.into_iter().map(wire_id).collect(),
        types: filter.types.into_iter().collect(),
    })
}

pub(super) fn registration(event: Event, types: Vec<String>) -> Result<Registration, RoomError> {
    let schedule = Schedule::every_secs(event.period).map_err(Refusal::from)?;
    Ok(Registration {
        description: event.description,
        types,
        schedule,
        repeat: event.repeat,
        publish: None,
    })
}

pub(super) fn selection(Selection { ids, types }: Selection) -> RoomSelection {
    RoomSelection { ids, types }
}

/// A refusal as one of the five errors.
pub(super) fn error(last_id: u8, error: &RoomError) -> Answer {
    let code = match error {
        RoomError::NoEvent(_) | RoomError::Filter(FilterError::NoEvent(_)) => {
            ErrorCode::EventNotExists
        }
        RoomError::Event(Refusal::Exhausted | Refusal::Full(_)) => ErrorCode::InternalError,
        RoomError::Event(_) | RoomError::Filter(_) => ErrorCode::InvalidProperty,
        _ => ErrorCode::InternalError,
    };
    Answer::Error { last_id, code, message: error.to_string() }
}

pub(super) fn wire_id(id: Id) -> i32 {
    i32::try_from(id.number()).unwrap_or(i32::MAX)
}

pub(super) fn unix_secs(Wall(micros): Wall) -> i64 {
    micros.div_euclid(1_000_000)
}
