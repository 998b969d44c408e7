//! `/v1/events/dead-letters`

use handoff_events::{LetterView, Letters};
use handoff_streams::ProducerId;
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PAGE, PAGE_MAX, note_deletion};
use crate::http::access::Events;
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query};
use crate::http::stamp::stamp;

/// An occurrence that its topic refused, or that could not wait any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "number": 0,
    "event": 7,
    "description": "nightly backup",
    "types": ["backup"],
    "topic": "reminders",
    "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab",
    "sequence": 3,
    "occurrence": 3,
    "at": "2027-01-01T00:00:00Z",
    "late": false,
    "why": "there is no topic `reminders`; make it with `handoff topic create reminders`",
    "since": "2027-01-01T00:00:00Z",
    "retrying": false,
}))]
pub(in crate::http) struct DeadLetter {
    /// They count from 0, and no number is used again.
    number: u64,
    /// The id of the event, which may be gone.
    event: u32,
    /// For people.
    description: String,
    /// Names, ascending.
    types: Vec<String>,
    /// Where it should go.
    topic: String,
    /// The key of its message; absent: the event's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// What the topic knows the event by,
    producer: String,
    /// and this occurrence.
    sequence: u64,
    /// Its number; the first is 1, missed ones count.
    occurrence: u64,
    /// When it was due.
    at: String,
    /// Told late, by the catch-up policy.
    late: bool,
    /// Why it is here.
    why: String,
    /// Since when.
    since: String,
    /// It was handed over again, and the topic has not answered yet.
    retrying: bool,
}

impl From<LetterView> for DeadLetter {
    fn from(view: LetterView) -> Self {
        let LetterView { number, letter, source } = view;
        Self {
            number,
            event: letter.event.number(),
            description: source.description.to_string(),
            types: source.types.iter().map(ToString::to_string).collect(),
            topic: source.topic.to_string(),
            key: source.key.as_deref().map(str::to_owned),
            producer: ProducerId(source.producer).to_string(),
            sequence: letter.handed.sequence,
            occurrence: letter.handed.number,
            at: stamp(letter.handed.due),
            late: letter.handed.late,
            why: letter.why.into(),
            since: stamp(letter.since),
            retrying: letter.retrying,
        }
    }
}

/// A page of dead letters, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct DeadLetterPage {
    version: V1,
    dead_letters: Vec<DeadLetter>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// What was done to dead letters: their numbers, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "numbers": [0, 7]}))]
pub(in crate::http) struct DeadLetterNumbers {
    version: V1,
    numbers: Vec<u64>,
}

/// What a page of letters may weigh.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Letters that are asked of the room at once.
const PIECE: usize = 100;

/// Occurrences that did not come to their topics, page by page, the oldest first.
#[utoipa::path(
    get, path = "/v1/events/dead-letters", operation_id = "listDeadLetters", tag = "events",
    params(
        ("after" = Option<u64>, Query, description = "Only larger numbers: `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "Letters of a page: 1 to 1000, 100 if absent. Long ones make it shorter."),
    ),
    responses((status = 200, description = "A page.", body = DeadLetterPage))
)]
pub(in crate::http) async fn list_dead_letters(
    events: Events,
    query: Query,
) -> Result<Json<DeadLetterPage>, Problem> {
    let asked = query.known(&["after", "limit"])?;
    let after = asked.one::<u64>("after", NUMBER)?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let mut page = DeadLetterPage { version: V1, dead_letters: Vec::new(), next: None };
    let mut weight = 0;
    let mut from = match after {
        Some(after) => after.checked_add(1),
        None => Some(0),
    };
    while let Some(first) = from.take() {
        let wanted = (limit - page.dead_letters.len()).min(PIECE);
        // One more than wanted, to know whether there is more.
        let read = events.room.dead_letters(events.sight.clone(), first, wanted + 1).await;
        let read = read.map_err(|error| events.refuse(error))?;
        let more = read.len() > wanted;
        for letter in read.into_iter().take(wanted).map(DeadLetter::from) {
            weight += 256 + letter.description.len() + letter.why.len();
            page.dead_letters.push(letter);
        }
        let last = page.dead_letters.last().map(|letter| letter.number);
        if more && (page.dead_letters.len() >= limit || weight >= PAGE_BYTES_MAX) {
            page.next = last;
        } else if more {
            from = last.and_then(|last| last.checked_add(1));
        }
    }
    Ok(Json(page))
}

/// Hands dead letters over to their topics again, under the sequence they had: what the topic has
/// after all it does not store twice. Those that are not retried already are answered.
#[utoipa::path(
    post, path = "/v1/events/dead-letters/retry", operation_id = "retryDeadLetters", tag = "events",
    params(
        ("number" = Option<Vec<u64>>, Query, description = "These. Unknown numbers are nothing."),
        ("all" = Option<bool>, Query, description = "All of them."),
    ),
    responses((status = 200, description = "Those that are on their way now.", body = DeadLetterNumbers))
)]
pub(in crate::http) async fn retry_dead_letters(
    events: Events,
    query: Query,
) -> Result<Json<DeadLetterNumbers>, Problem> {
    let letters = which(&query.known(&["number", "all"])?)?;
    let numbers = events.room.retry_letters(letters, events.sight.clone()).await;
    let numbers = numbers.map_err(|error| events.refuse(error).unsure_if_fault())?;
    Ok(Json(DeadLetterNumbers { version: V1, numbers }))
}

/// Deletes dead letters. Their occurrences come to no topic any more.
#[utoipa::path(
    delete, path = "/v1/events/dead-letters", operation_id = "deleteDeadLetters", tag = "events",
    params(
        ("number" = Option<Vec<u64>>, Query, description = "These. Unknown numbers are nothing."),
        ("all" = Option<bool>, Query, description = "All of them."),
    ),
    responses((status = 200, description = "Those that were there, and are gone.", body = DeadLetterNumbers))
)]
pub(in crate::http) async fn delete_dead_letters(
    events: Events,
    query: Query,
) -> Result<Json<DeadLetterNumbers>, Problem> {
    let letters = which(&query.known(&["number", "all"])?)?;
    let words = match &letters {
        Letters::From(_) => "all of them".to_owned(),
        Letters::These(numbers) => format!("of {} numbers", numbers.len()),
    };
    let numbers = events.room.delete_letters(letters, events.sight.clone()).await;
    let numbers = numbers.map_err(|error| events.refuse(error).unsure_if_fault())?;
    note_deletion(&events, (numbers.len(), "dead letter"), &words).await;
    Ok(Json(DeadLetterNumbers { version: V1, numbers }))
}

const NUMBER: &str = "the number of a dead letter";

fn which(asked: &Parameters) -> Result<Letters, Problem> {
    let numbers = asked.read_all::<u64>("number", NUMBER)?;
    match (asked.one::<bool>("all", "true or false")?.unwrap_or(false), numbers.is_empty()) {
        (true, true) => Ok(Letters::From(0)),
        (false, false) => Ok(Letters::These(numbers)),
        (true, false) => Err(malformed("give `number` or `all=true`, not both")),
        (false, true) => Err(malformed("which? give `number`, as often as needed, or `all=true`")),
    }
}

fn malformed(detail: &str) -> Problem {
    Problem::new(Code::RequestMalformed, detail)
}
