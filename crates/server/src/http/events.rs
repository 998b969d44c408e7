//! `/v1/events`

pub(super) mod dead;
mod wire;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use handoff_events::{Id, Selection};
use handoff_house::ActKind;
use handoff_streams::TopicName;
use handoff_types::{Code, Room, Sight};

#[cfg(test)]
pub(super) use self::wire::Published;
pub(super) use self::wire::{
    Deleted, Event, EventStats, NewEvent, Notified, OneEvent, Page, Registered, StreamClosed,
    StreamEnd,
};

use super::access::Events;
use super::json::{Created, Json, V1};
use super::problem::Problem;
use super::query::{Parameters, Query};

/// Events of a page unless the client says otherwise.
const PAGE: usize = 100;

/// Events of the largest page.
const PAGE_MAX: usize = 1_000;

/// What the events of a page may weigh: a page of long descriptions has fewer of them.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Events that are asked of the room at once.
const PIECE: usize = 100;

/// Registers an event. It is on disk when this answers.
#[utoipa::path(
    post, path = "/v1/events", operation_id = "createEvent", tag = "events",
    request_body = NewEvent,
    responses((
        status = 201, description = "It is registered, and on disk.", body = Registered,
        headers(("location" = String, description = "Where it is.")),
    ))
)]
pub(super) async fn create_event(
    events: Events,
    query: Query,
    Json(event): Json<NewEvent>,
) -> Result<Created<Registered>, Problem> {
    query.known(&[])?;
    let (registration, topic) = event.into_registration()?;
    if let Some(topic) = topic {
        check_topic(&events, &topic)?;
    }
    let registered = events.room.register(registration, events.sight.clone()).await;
    let registered = registered.map_err(|error| events.refuse(error))?;
    let location = format!("/v1/events/{}", registered.id);
    Ok(Created { location, body: registered.into() })
}

/// Events, page by page, in ascending order of their ids.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "listEvents", tag = "events",
    params(
        ("type" = Option<Vec<String>>, Query, description = "Only events that have one of these types."),
        ("after" = Option<u32>, Query, description = "Only events with larger ids: `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "Events of a page: 1 to 1000, 100 if absent. Long ones make it shorter."),
    ),
    responses((status = 200, description = "A page.", body = Page))
)]
pub(super) async fn list_events(events: Events, query: Query) -> Result<Json<Page>, Problem> {
    let asked = query.known(&["type", "after", "limit"])?;
    let types = asked.all("type");
    let types = (!types.is_empty()).then_some(types);
    let after = asked.one::<u32>("after", ID)?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let mut page = Page { version: V1, events: Vec::new(), next: None };
    let mut weight = 0;
    let mut from = match after {
        Some(after) => after.checked_add(1).and_then(Id::new),
        None => Some(Id::default()),
    };
    while let Some(first) = from.take() {
        let wanted = (limit - page.events.len()).min(PIECE);
        // One more than wanted, to know whether there is more.
        let read = events.room.page(types.clone(), events.sight.clone(), first, wanted + 1).await;
        let read = read.map_err(|error| events.refuse(error))?;
        let more = read.len() > wanted;
        for event in read.into_iter().take(wanted).map(Event::from) {
            weight += event.weight();
            page.events.push(event);
        }
        let last = page.events.last().map(|event| event.id);
        if !more {
            break;
        }
        if page.events.len() >= limit || weight >= PAGE_BYTES_MAX {
            page.next = last;
            break;
        }
        from = last.and_then(|last| Id::new(last.checked_add(1)?));
    }
    Ok(Json(page))
}

/// Deletes the selected events, by type or by id. Without a selection it is refused.
#[utoipa::path(
    delete, path = "/v1/events", operation_id = "deleteEvents", tag = "events",
    params(
        ("type" = Option<Vec<String>>, Query, description = "Events that have one of these types."),
        ("id" = Option<Vec<u32>>, Query, description = "These events. Unknown ids are nothing."),
    ),
    responses((status = 200, description = "Those that were there, and are gone.", body = Deleted))
)]
pub(super) async fn delete_events(events: Events, query: Query) -> Result<Json<Deleted>, Problem> {
    let selection = selection(&query.known(&["type", "id"])?)?;
    if selection.ids.is_empty() && selection.types.is_empty() {
        let detail = "which? give `type` or `id`, as often as needed";
        return Err(Problem::new(Code::RequestMalformed, detail));
    }
    let words = format!("by {}", words(&selection));
    let deleted = events.room.delete(selection, events.sight.clone()).await;
    // Many are deleted piece by piece, so some may be gone.
    let deleted = deleted.map_err(|error| events.refuse(error).unsure_if_fault())?;
    note_deletion(&events, (deleted.len(), "event"), &words).await;
    Ok(Json(Deleted { version: V1, deleted: deleted.into_iter().map(Id::number).collect() }))
}

/// One event.
#[utoipa::path(
    get, path = "/v1/events/{id}", operation_id = "showEvent", tag = "events",
    params(("id" = u32, Path, description = "Its id.")),
    responses((status = 200, description = "The event.", body = OneEvent))
)]
pub(super) async fn show_event(
    events: Events,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<OneEvent>, Problem> {
    query.known(&[])?;
    let view = events.room.view(event_id(id)?, events.sight.clone()).await;
    let view = view.map_err(|error| events.refuse(error))?;
    Ok(Json(OneEvent { version: V1, event: view.into() }))
}

/// Deletes one event.
#[utoipa::path(
    delete, path = "/v1/events/{id}", operation_id = "deleteEvent", tag = "events",
    params(("id" = u32, Path, description = "Its id.")),
    responses((status = 200, description = "It is gone.", body = Deleted))
)]
pub(super) async fn delete_event(
    events: Events,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<Deleted>, Problem> {
    query.known(&[])?;
    let id = event_id(id)?;
    let wire = i32::try_from(id.number()).unwrap_or(i32::MAX);
    let selection = Selection { ids: vec![wire], types: Vec::new() };
    let deleted = events.room.delete(selection, events.sight.clone()).await;
    let deleted = deleted.map_err(|error| events.refuse(error))?;
    if deleted.is_empty() {
        return Err(Problem::new(Code::EventNotFound, format!("there is no event {id}")));
    }
    note_deletion(&events, (deleted.len(), "event"), &format!("with the id {id}")).await;
    Ok(Json(Deleted { version: V1, deleted: vec![id.number()] }))
}

/// How the room is doing. Needs a token that sees the whole room.
#[utoipa::path(
    get, path = "/v1/events/stats", operation_id = "eventStats", tag = "events",
    responses((status = 200, description = "Figures.", body = EventStats))
)]
pub(super) async fn event_stats(events: Events, query: Query) -> Result<Json<EventStats>, Problem> {
    query.known(&[])?;
    if events.sight != Sight::All {
        let detail = "these are figures of all events; the token sees some of them";
        return Err(Problem::new(Code::OutOfScope, detail));
    }
    let stats = events.room.stats().await.map_err(|error| events.refuse(error))?;
    Ok(Json(stats.into()))
}

/// Whoever lets an event write to a topic must be allowed to, and the topic be there. What becomes
/// of it later shows among the dead letters.
fn check_topic(events: &Events, topic: &TopicName) -> Result<(), Problem> {
    let sight = events.caller.sight(Room::Streams);
    if !sight.is_some_and(|sight| sight.sees(topic.as_str())) {
        let detail = format!("the token sees no topic `{topic}` to publish to");
        return Err(Problem::new(Code::OutOfScope, detail));
    }
    let app = &events.door.app;
    let streams = app.rooms().and_then(|rooms| rooms.streams.as_ref());
    let streams = streams.ok_or_else(|| Problem::closed(app, Room::Streams))?;
    let found = streams.visible(topic).map(drop);
    found.map_err(|error| Problem::of(app, Room::Streams, error))
}

const ID: &str = "the id of an event: a number from 0 to 2147483647";

fn event_id(id: Result<Path<String>, PathRejection>) -> Result<Id, Problem> {
    let malformed = |detail: String| Problem::new(Code::RequestMalformed, detail);
    let Path(text) = id.map_err(|rejection| malformed(rejection.body_text()))?;
    let id = text.parse().ok().and_then(Id::new);
    id.ok_or_else(|| malformed(format!("`{text}` is not {ID}")))
}

/// Events by `type` and `id`.
pub(super) fn selection(asked: &Parameters) -> Result<Selection, Problem> {
    Ok(Selection { ids: asked.read_all("id", ID)?, types: asked.all("type") })
}

/// A selection in words, at a length that an audit can keep.
fn words(selection: &Selection) -> String {
    let mut words = format!("{} ids", selection.ids.len());
    for name in selection.types.iter().take(8) {
        words.push_str(", type ");
        words.push_str(name.get(..name.floor_char_boundary(64)).unwrap_or_default());
    }
    if selection.types.len() > 8 {
        words.push_str(", …");
    }
    words
}

/// Whoever may do everything and deletes has done something to remember. The deletion stands even
/// if the note does not.
async fn note_deletion(events: &Events, (count, noun): (usize, &str), words: &str) {
    if count == 0 || !events.caller.is_admin() {
        return;
    }
    let Some(house) = events.door.app.rooms().and_then(|rooms| rooms.house.as_ref()) else {
        return;
    };
    let plural = if count == 1 { "" } else { "s" };
    let target = format!("{count} {noun}{plural} {words}");
    if let Err(error) = house.note(ActKind::Deleted, &target, events.caller.name()).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "an act could not be noted");
    }
}

#[cfg(test)]
mod tests {
    use super::words;
    use handoff_events::Selection;

    #[test]
    fn a_selection_of_any_size_has_short_words() {
        let types = (0..1_000).map(|n| format!("{n}{}", "é".repeat(1_000))).collect();
        let words = words(&Selection { ids: vec![1, 2], types });
        assert!(words.starts_with("2 ids, type 0é"), "{words}");
        assert!(words.len() < 1_000 && words.ends_with('…'), "{words}");
    }
}
