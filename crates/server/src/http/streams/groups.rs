//! `/v1/streams/groups`
//!
//! A group's name and the names of topics are both looked at: whoever sees the one and not the other
//! is refused what concerns the other.

mod commit;
mod dead;
mod incoming;
mod members;
mod outgoing;
mod place;
mod poll;
mod seek;
mod wire;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use handoff_house::ActKind;
use handoff_streams::TopicName;
use handoff_streams::groups::{BadGroupName, BadMemberId, GroupName, MemberId};
use handoff_types::{Code, Sight};

pub(in crate::http) use self::commit::{__path_commit, commit};
pub(in crate::http) use self::dead::{
    __path_list_letters, __path_replay_letters, list_letters, replay_letters,
};
pub(in crate::http) use self::members::{
    __path_heartbeat, __path_join_group, __path_leave_group, heartbeat, join_group, leave_group,
};
pub(in crate::http) use self::poll::{__path_poll, poll};
pub(in crate::http) use self::seek::{
    __path_message_status, __path_seek_group, message_status, seek_group,
};
use self::wire::{GroupBody, GroupChange, GroupPage, NewGroup, OneGroup};
use super::format::{Answer, Format, Given};
use super::{in_sight, path_text};
use crate::http::access::Streams;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::{Page, Query, next_of};

/// What examples of the document are decoded by.
#[cfg(test)]
pub(in crate::http) mod examples {
    pub(in crate::http) use super::commit::{CommitBody, CommittedBody};
    pub(in crate::http) use super::dead::{LetterPageBody, ReplayBody, ReplayedBody};
    pub(in crate::http) use super::members::{BeatBody, HeartbeatBody, JoinBody, JoinedBody};
    pub(in crate::http) use super::poll::{PollBody, PolledBody};
    pub(in crate::http) use super::seek::{SeekBody, SoughtBody, StatusBody};
    pub(in crate::http) use super::wire::{GroupBody, GroupChange, NewGroup};
}

impl Streams {
    /// The group of a path, if its name may be used.
    fn group(&self, path: Result<Path<String>, PathRejection>) -> Result<GroupName, Problem> {
        self.group_name(&path_text(path)?)
    }

    /// The group and the member of a path.
    fn member(
        &self,
        path: Result<Path<(String, String)>, PathRejection>,
    ) -> Result<(GroupName, MemberId), Problem> {
        let malformed = |bad: PathRejection| Problem::new(Code::RequestMalformed, bad.body_text());
        let Path((group, member)) = path.map_err(malformed)?;
        let group = self.group_name(&group)?;
        let bad = |why: BadMemberId| Problem::new(Code::RequestMalformed, why.to_string());
        Ok((group, member.parse().map_err(bad)?))
    }

    /// A name, if it may be used.
    fn group_name(&self, text: &str) -> Result<GroupName, Problem> {
        let bad = |why: BadGroupName| Problem::new(Code::StreamsInvalid, why.to_string());
        let name: GroupName = text.parse().map_err(bad)?;
        if self.sight.sees(name.as_str()) {
            return Ok(name);
        }
        let detail = format!("the token does not see groups of the name `{name}`");
        Err(Problem::new(Code::OutOfScope, detail))
    }

    /// Names of topics, if they may be used.
    fn topic_names(&self, texts: &[String]) -> Result<Vec<TopicName>, Problem> {
        texts.iter().map(|text| self.name(text)).collect()
    }

    /// A group that is there, and none of whose topics is out of sight.
    async fn whole_group(
        &self,
        name: GroupName,
    ) -> Result<handoff_streams::groups::Group, Problem> {
        let found = self.room.group(name.clone()).await.map_err(|error| self.refuse(error))?;
        let none = handoff_streams::groups::GroupRefusal::NoGroup(name);
        let group =
            found.ok_or_else(|| self.refuse(handoff_streams::Refusal::from(none).into()))?;
        group.settings.topics.iter().try_for_each(|topic| in_sight(&self.sight, topic))?;
        Ok(group)
    }
}

/// Makes a group. It is on disk when this answers.
#[utoipa::path(
    post, path = "/v1/streams/groups", operation_id = "createGroup", tag = "groups",
    request_body = NewGroup,
    responses((
        status = 201, description = "It is made, and on disk.", body = OneGroup,
        headers(("location" = String, description = "Where it is.")),
    ))
)]
pub(in crate::http) async fn create_group(
    streams: Streams,
    format: Format,
    query: Query,
    Given(group): Given<NewGroup>,
) -> Result<Answer<OneGroup>, Problem> {
    query.known(&[])?;
    let name = streams.group_name(&group.name)?;
    let (settings, from) = group.into_settings(&streams, &name)?;
    let made = streams.room.create_group(name, settings, from).await;
    let group = made.map_err(|error| streams.refuse(error))?;
    streams.note(ActKind::Altered, &format!("group {} was made", group.name)).await;
    let location = Some(format!("/v1/streams/groups/{}", group.name));
    let body = OneGroup { version: V1, group: GroupBody::of(group, &streams.sight) };
    Ok(Answer { format, status: StatusCode::CREATED, location, body })
}

/// Groups in sight, by name.
#[utoipa::path(
    get, path = "/v1/streams/groups", operation_id = "listGroups", tag = "groups",
    params(
        ("after" = Option<String>, Query, description = "Groups behind this name: the `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of groups.", body = GroupPage))
)]
pub(in crate::http) async fn list_groups(
    streams: Streams,
    format: Format,
    query: Query,
) -> Result<Answer<GroupPage>, Problem> {
    let Page { after, limit } = query.page::<GroupName>("the name of a group")?;
    let found = streams.room.groups(streams.sight.clone(), after, limit).await;
    let (groups, more) = found.map_err(|error| streams.refuse(error))?;
    let next = next_of(&groups, more, |last| last.group.name.to_string());
    let groups = groups.into_iter().map(|one| GroupBody::listed(one, &streams.sight)).collect();
    Ok(Answer::ok(format, GroupPage { version: V1, groups, next }))
}

/// A group: its settings, its members, where it is in each partition, and what it waits for.
#[utoipa::path(
    get, path = "/v1/streams/groups/{group}", operation_id = "showGroup", tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The group.", body = OneGroup))
)]
pub(in crate::http) async fn show_group(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<OneGroup>, Problem> {
    query.known(&[])?;
    let name = streams.group(group)?;
    let shown = streams.room.show_group(name, streams.sight.clone()).await;
    let view = shown.map_err(|error| streams.refuse(error))?;
    let names = |partition| streams.room.topic_of_partition(partition);
    let group = GroupBody::of_view(view, &streams.sight, names);
    Ok(Answer::ok(format, OneGroup { version: V1, group }))
}

/// Changes a group's settings. What is absent stays.
#[utoipa::path(
    patch, path = "/v1/streams/groups/{group}", operation_id = "alterGroup", tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    request_body = GroupChange,
    responses((status = 200, description = "The group as it is now.", body = OneGroup))
)]
pub(in crate::http) async fn alter_group(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
    Given(change): Given<GroupChange>,
) -> Result<Answer<OneGroup>, Problem> {
    query.known(&[])?;
    let name = streams.group(group)?;
    let alteration = change.into_alteration(&streams)?;
    let altered = streams.room.alter_group(name, alteration).await;
    let group = altered.map_err(|error| streams.refuse(error))?;
    streams.note(ActKind::Altered, &format!("settings of group {}", group.name)).await;
    Ok(Answer::ok(format, OneGroup { version: V1, group: GroupBody::of(group, &streams.sight) }))
}

/// Deletes a group and all it knows of messages. Its dead letters stay.
#[utoipa::path(
    delete, path = "/v1/streams/groups/{group}", operation_id = "deleteGroup", tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The group as it was.", body = OneGroup))
)]
pub(in crate::http) async fn delete_group(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<OneGroup>, Problem> {
    query.known(&[])?;
    let name = streams.group(group)?;
    let group = streams.room.delete_group(name).await.map_err(|error| streams.refuse(error))?;
    streams.note(ActKind::Deleted, &format!("group {}", group.name)).await;
    Ok(Answer::ok(format, OneGroup { version: V1, group: GroupBody::of(group, &streams.sight) }))
}

/// What may be said of topics out of sight: nothing.
fn visible_topics(topics: &[TopicName], sight: &Sight) -> Vec<String> {
    let seen = topics.iter().filter(|topic| sight.sees(topic.as_str()));
    seen.map(ToString::to_string).collect()
}
