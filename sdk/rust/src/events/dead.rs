//! Occurrences that did not come to their topics.

use serde::{Deserialize, Serialize};

use super::Events;
use crate::client::VERSION;
use crate::{Error, Target, Time};

/// An occurrence that its topic refused, or that could not wait any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetter {
    /// They count from 0, and no number is used again.
    pub number: u64,
    /// The id of the event, which may be gone.
    pub event: u32,
    /// For people.
    pub description: String,
    /// Names, ascending.
    #[serde(default)]
    pub types: Vec<String>,
    /// Where it should go.
    pub topic: String,
    /// The key of its message; none: the event's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the topic knows the event by,
    pub producer: String,
    /// and this occurrence.
    pub sequence: u64,
    /// The number of the occurrence.
    pub occurrence: u64,
    /// When it was due.
    pub at: Time,
    /// Told late, by the catch-up policy.
    #[serde(default)]
    pub late: bool,
    /// Why it is here.
    pub why: String,
    /// Since when.
    pub since: Time,
    /// It was handed over again, and the topic has not answered yet.
    #[serde(default)]
    pub retrying: bool,
}

/// A page of dead letters, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetterPage {
    /// In ascending order of their numbers.
    pub dead_letters: Vec<DeadLetter>,
    /// What the next page is asked for with; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which dead letters are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetters<'a> {
    /// All of them.
    All,
    /// Those with these numbers.
    Numbers(&'a [u64]),
}

impl DeadLetters<'_> {
    fn ask(self, target: Target) -> Target {
        match self {
            Self::All => target.queries("all", ["true"]),
            Self::Numbers(numbers) => target.queries("number", numbers),
        }
    }
}

#[derive(Deserialize)]
struct Numbers {
    numbers: Vec<u64>,
}

impl Events<'_> {
    /// One page of dead letters, those behind a number, the oldest first.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn dead_letters(
        &self,
        after: Option<u64>,
        limit: Option<u32>,
    ) -> Result<DeadLetterPage, Error> {
        let target = Target::new(PATH).queries("after", after).queries("limit", limit);
        self.client.get_json(target.as_str()).await
    }

    /// Hands dead letters over to their topics again, and gives the numbers of those that are on
    /// their way now. What a topic has after all it does not store twice.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn retry_dead_letters(&self, which: DeadLetters<'_>) -> Result<Vec<u64>, Error> {
        #[derive(Serialize)]
        struct Body {
            version: u32,
        }
        let target = which.ask(Target::new(PATH).segment("retry"));
        let done: Numbers =
            self.client.post_json(target.as_str(), &Body { version: VERSION }).await?;
        Ok(done.numbers)
    }

    /// Deletes dead letters, and gives the numbers of those that were there.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn delete_dead_letters(&self, which: DeadLetters<'_>) -> Result<Vec<u64>, Error> {
        let target = which.ask(Target::new(PATH));
        let done: Numbers = self.client.delete_json(target.as_str()).await?;
        Ok(done.numbers)
    }
}

const PATH: &str = "/v1/events/dead-letters";
