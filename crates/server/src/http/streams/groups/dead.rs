//! Dead letters of a group.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use handoff_house::ActKind;
use handoff_streams::groups::{ReplayOutcome, Replayed};
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::access::Streams;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::{PAGE, PAGE_MAX, Query};
use crate::http::stamp::stamp_millis;
use crate::http::streams::format::{Answer, Format, Given};
use crate::http::streams::in_sight;
use crate::http::streams::outgoing::Octets;
use crate::rooms::streams::{LetterAt, Which};

/// A page of dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupLetterPage, example = json!({
    "version": 1, "next": "0.8",
    "letters": [{
        "partition": 0, "offset": 7,
        "origin": {
            "topic": "orders", "partition": 3, "offset": 17, "timestamp": "2027-01-01T00:00:00.000Z",
        },
        "attempt": 5, "error": "the printer is out of paper", "key": "k", "payload": "{}",
        "headers": {"trace": "1"}, "diedAt": "2027-01-01T00:05:00.000Z", "replayed": false,
    }],
}))]
pub(in crate::http) struct LetterPageBody {
    version: V1,
    letters: Vec<LetterBody>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A message that died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupLetter)]
pub(in crate::http) struct LetterBody {
    /// The letter's partition in the dead-letter topic.
    partition: u32,
    /// Its offset there.
    offset: u64,
    origin: OriginBody,
    /// How often it was handed out.
    attempt: u32,
    /// What was said.
    error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Octets>,
    payload: Octets,
    /// The message's own.
    headers: BTreeMap<String, Octets>,
    died_at: String,
    /// Why there is no message in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    /// Whether it was sent back.
    replayed: bool,
}

/// Where a message came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = LetterOrigin)]
pub(in crate::http) struct OriginBody {
    topic: String,
    partition: u32,
    offset: u64,
    /// Absent if the message was gone when it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

impl From<LetterAt> for LetterBody {
    fn from(at: LetterAt) -> Self {
        let LetterAt { partition, offset, letter, timestamp, replayed } = at;
        let headers = letter.message.headers.into_iter().map(|header| {
            (String::from_utf8_lossy(&header.name).into_owned(), Octets(header.value))
        });
        Self {
            partition,
            offset,
            origin: OriginBody {
                topic: letter.topic.to_string(),
                partition: letter.partition,
                offset: letter.offset,
                timestamp: letter.timestamp.map(stamp_millis),
            },
            attempt: letter.attempt,
            error: letter.error,
            key: letter.message.key.map(Octets),
            payload: Octets(letter.message.payload),
            headers: headers.collect(),
            died_at: stamp_millis(timestamp),
            lost: letter.lost,
            replayed,
        }
    }
}

/// Which letters are to go back: all, or a range of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Replay, example = json!({"version": 1, "partition": 0, "from": 7, "to": 7}))]
pub(in crate::http) struct ReplayBody {
    version: V1,
    /// All of them.
    #[serde(default)]
    all: bool,
    /// The partition of the dead-letter topic; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The first offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    /// The last; `from` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
}

/// What became of letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ReplayedLetters, example = json!({
    "version": 1, "replayed": 1, "already": 0,
    "results": [{
        "partition": 0, "offset": 7, "outcome": "replayed",
        "at": {"topic": "orders", "partition": 3, "offset": 99},
    }],
}))]
pub(in crate::http) struct ReplayedBody {
    version: V1,
    /// How many went back.
    replayed: u64,
    /// How many had gone back before; they did not go again.
    already: u64,
    /// What became of each, of the first 10000.
    results: Vec<ReplayedLetter>,
}

/// What became of a letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct ReplayedLetter {
    /// Where the letter is.
    partition: u32,
    offset: u64,
    outcome: ReplayName,
    /// Where the message is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<OriginBody>,
    /// Why it did not go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayOutcome)]
pub(in crate::http) enum ReplayName {
    /// It went back.
    Replayed,
    /// It had gone back before.
    Already,
    /// It could not.
    Refused,
}

/// Dead letters of a group, the oldest of each partition first.
#[utoipa::path(
    get, path = "/v1/streams/groups/{group}/dead", operation_id = "listGroupLetters",
    tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of letters.", body = LetterPageBody))
)]
pub(in crate::http) async fn list_letters(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<LetterPageBody>, Problem> {
    let asked = query.known(&["after", "limit"])?;
    let name = streams.group(group)?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let from = match asked.one::<String>("after", "the `next` of a page")? {
        None => (0, 0),
        Some(text) => read_place(&text).ok_or_else(|| {
            let detail = format!("`after` is `{text}`; it is the `next` of a page");
            Problem::new(Code::RequestMalformed, detail)
        })?,
    };
    let group = of_letters(&streams, name).await?;
    let page = streams.room.letters(&group, &streams.sight, from, limit).await;
    let page = page.map_err(|error| streams.refuse(error))?;
    let next = page.next.map(|(partition, offset)| format!("{partition}.{offset}"));
    let letters = page.letters.into_iter().map(Into::into).collect();
    Ok(Answer::ok(format, LetterPageBody { version: V1, letters, next }))
}

fn read_place(text: &str) -> Option<(u32, u64)> {
    let (partition, offset) = text.split_once('.')?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}

/// A group whose letters may be seen.
async fn of_letters(
    streams: &Streams,
    name: handoff_streams::groups::GroupName,
) -> Result<handoff_streams::groups::Group, Problem> {
    let group = streams.whole_group(name).await?;
    // What is the group's own is seen by whoever sees the group.
    if group.settings.dead_letter != group.name.dead_letter() {
        in_sight(&streams.sight, &group.settings.dead_letter)?;
    }
    Ok(group)
}

/// Sends dead letters back to where they came from, for this group alone. One that went back before
/// does not go again, so this may be repeated.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/dead/replay", operation_id = "replayGroupLetters",
    tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    request_body = ReplayBody,
    responses((status = 200, description = "What became of them.", body = ReplayedBody))
)]
pub(in crate::http) async fn replay_letters(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
    Given(replay): Given<ReplayBody>,
) -> Result<Answer<ReplayedBody>, Problem> {
    query.known(&[])?;
    let name = streams.group(group)?;
    let which = replay.which()?;
    let group = of_letters(&streams, name).await?;
    let done = streams.room.replay(&group, &streams.sight, which).await;
    let done = done.map_err(|error| streams.refuse(error).unsure_if_fault())?;
    if done.replayed > 0 {
        let words = format!("{} dead letters of group {}", done.replayed, group.name);
        streams.note(ActKind::Altered, &words).await;
    }
    let named = |partition: handoff_streams::PartitionId| {
        streams.room.topic_of_partition(partition).map(|name| name.to_string())
    };
    let one = |Replayed { letter: (partition, offset), outcome }| {
        let (name, at, why) = match outcome {
            ReplayOutcome::Stored(at, offset) => {
                let topic = named(at).unwrap_or_default();
                let origin = OriginBody { topic, partition: at.number, offset, timestamp: None };
                (ReplayName::Replayed, Some(origin), None)
            }
            ReplayOutcome::Already => (ReplayName::Already, None, None),
            ReplayOutcome::Not(why) => (ReplayName::Refused, None, Some(why)),
        };
        ReplayedLetter { partition: partition.number, offset, outcome: name, at, why }
    };
    let results = done.results.into_iter().map(one).collect();
    let (replayed, already) = (done.replayed, done.already);
    Ok(Answer::ok(format, ReplayedBody { version: V1, replayed, already, results }))
}

impl ReplayBody {
    fn which(self) -> Result<Which, Problem> {
        let wrong = |words: &str| Err(Problem::new(Code::RequestInvalid, words));
        match (self.all, self.from) {
            (true, None) if self.to.is_none() && self.partition.is_none() => Ok(Which::All),
            (true, _) => wrong("`all` stands alone"),
            (false, None) => wrong("which letters? write `all`, or `partition`, `from` and `to`"),
            (false, Some(from)) => {
                let to = self.to.unwrap_or(from);
                if to < from {
                    return wrong("`to` is the last letter, so it is not below `from`");
                }
                Ok(Which::Range { partition: self.partition.unwrap_or(0), from, to })
            }
        }
    }
}
