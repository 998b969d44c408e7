//! Groups: made, looked at, changed, moved to other messages; and what they gave up.

mod dead;
mod group;
mod seek;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Body;
use crate::client::{Client, VERSION};
use crate::{Error, Target};

pub use dead::{Letter, LetterPage, Origin, Replay, Replayed};
pub use group::{Assigned, Group, GroupMember, GroupPage, GroupPartition, GroupSettings, Ordering};
pub use seek::{MessageStatus, Place, Seek, SeekStep, Sought, Standing};

/// Where a group is.
pub(super) fn target(group: &str) -> Target {
    Target::new("/v1/streams/groups").segment(group)
}

/// Makes, shows and changes groups. What consumes is a [`super::Consumer`].
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    client: &'a Client,
}

impl<'a> Groups<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Makes a group. On disk when it answers. A consumer that names topics makes its group by
    /// itself; this is for one that is not as the server makes them.
    ///
    /// # Errors
    /// [`Error`]; `streams.group_exists` if the name is taken.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn create(&self, name: &str, settings: &GroupSettings) -> Result<Group, Error> {
        #[derive(Serialize)]
        struct New<'a> {
            name: &'a str,
            #[serde(flatten)]
            settings: &'a GroupSettings,
        }
        let body = Body { version: VERSION, rest: New { name, settings } };
        let shown: Shown = self.client.post_json("/v1/streams/groups", &body).await?;
        Ok(shown.group)
    }

    /// One page of groups, in the order of their names: those after a name, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn list(&self, after: Option<&str>, limit: Option<u32>) -> Result<GroupPage, Error> {
        let target =
            Target::new("/v1/streams/groups").queries("after", after).queries("limit", limit);
        let page: GroupPage = self.client.get_json(target.as_str()).await?;
        // Whoever asks for page after page must not do it for ever.
        match (&page.next, after) {
            (Some(next), Some(after)) if next.as_str() <= after => {
                Err(self.client.inner.protocol("its list of groups does not go on".to_owned()))
            }
            _ => Ok(page),
        }
    }

    /// One group: its members, where it is in each partition, and what it waits for.
    ///
    /// # Errors
    /// [`Error`]; `streams.group_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn show(&self, name: &str) -> Result<Group, Error> {
        let shown: Shown = self.client.get_json(target(name).as_str()).await?;
        Ok(shown.group)
    }

    /// Changes the settings of a group; what is not said stays.
    ///
    /// # Errors
    /// [`Error`]; `streams.group_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn alter(&self, name: &str, settings: &GroupSettings) -> Result<Group, Error> {
        let body = Body { version: VERSION, rest: settings };
        let shown: Shown = self.client.patch_json(target(name).as_str(), &body).await?;
        Ok(shown.group)
    }

    /// Deletes a group and everything it knows of messages. Its dead-letter topic stays.
    ///
    /// # Errors
    /// [`Error`]; `streams.group_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.client.delete_path(target(name).as_str()).await
    }

    /// Takes a member out of a group, as if it had left: its messages are delivered again at once.
    /// If it still runs, it learns of it and joins again.
    ///
    /// # Errors
    /// [`Error`]; `streams.member_gone` if there is no such member.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn remove(&self, group: &str, member: &str) -> Result<(), Error> {
        let target = target(group).segment("members").segment(member);
        self.client.delete_path(target.as_str()).await
    }

    /// What [`Groups::seek`] would do. Nothing is changed.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn preview(&self, group: &str, seek: &Seek) -> Result<Sought, Error> {
        self.sought(group, seek, true).await
    }

    /// Lets a group go on elsewhere: earlier, so that messages are delivered again, or later, so
    /// that some never are. What its members hold of those partitions is void.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn seek(&self, group: &str, seek: &Seek) -> Result<Sought, Error> {
        self.sought(group, seek, false).await
    }

    async fn sought(&self, group: &str, seek: &Seek, preview: bool) -> Result<Sought, Error> {
        #[derive(Serialize)]
        struct Asked<'a> {
            #[serde(flatten)]
            seek: &'a Seek,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            preview: bool,
        }
        let body = Body { version: VERSION, rest: Asked { seek, preview } };
        self.client.post_json(target(group).segment("seek").as_str(), &body).await
    }

    /// What a message is to a group.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn status(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
        offset: u64,
    ) -> Result<MessageStatus, Error> {
        let target = target(group)
            .segment("status")
            .query("topic", topic)
            .query("partition", partition)
            .query("offset", offset);
        self.client.get_json(target.as_str()).await
    }

    /// One page of what a group gave up, the oldest first.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn dead(
        &self,
        group: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<LetterPage, Error> {
        let target = target(group).segment("dead").queries("after", after).queries("limit", limit);
        let page: LetterPage = self.client.get_json(target.as_str()).await?;
        if page.next.is_some() && page.next.as_deref() == after {
            let words = "its list of dead letters does not go on".to_owned();
            return Err(self.client.inner.protocol(words));
        }
        Ok(page)
    }

    /// Puts dead letters back where they came from, for this group alone. One that was put back
    /// before is counted and not put back again, so this may be repeated.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn replay(&self, group: &str, which: Replay) -> Result<Replayed, Error> {
        let body = Body { version: VERSION, rest: which };
        let target = target(group).segment("dead").segment("replay");
        self.client.post_json(target.as_str(), &body).await
    }
}

/// A group in an answer: under a name of its own, or beside the version; its settings likewise.
struct Shown {
    group: Group,
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Map::deserialize(deserializer)?;
        let group = Value::Object(group::unfolded(map));
        serde_json::from_value(group).map(|group| Self { group }).map_err(serde::de::Error::custom)
    }
}
