//! Events, page by page.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::{Client, Error, Target};

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ListQuery {
    types: Vec<String>,
    after: Option<u32>,
    limit: Option<u32>,
}

impl ListQuery {
    /// All events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only events of this type, or of another that was named.
    pub fn of_type(mut self, name: impl Into<String>) -> Self {
        self.types.push(name.into());
        self
    }

    /// Only events with larger ids: the next page.
    pub fn after(mut self, id: u32) -> Self {
        self.after = Some(id);
        self
    }

    /// At most this many a page. The server has a limit of its own.
    pub fn limit(mut self, events: u32) -> Self {
        self.limit = Some(events);
        self
    }

    pub(crate) fn target(&self) -> Target {
        Target::new("/v1/events")
            .queries("type", &self.types)
            .queries("after", self.after)
            .queries("limit", self.limit)
    }
}

/// One page of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Page {
    /// In ascending order of their ids.
    pub events: Vec<Event>,
    /// What [`ListQuery::after`] takes for the next page; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// All events, one after the other. A page is asked for when it is needed.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), handoff_sdk::Error> {
/// let mut all = client.events().list_all(handoff_sdk::events::ListQuery::new());
/// while let Some(event) = all.next().await {
///     println!("{}", event?.description);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pages {
    client: Client,
    query: ListQuery,
    events: std::vec::IntoIter<Event>,
    over: bool,
}

impl Pages {
    pub(crate) fn new(client: Client, query: ListQuery) -> Self {
        Self { client, query, events: Vec::new().into_iter(), over: false }
    }

    /// The next event. None when there are no more. Events that come or go meanwhile are there or
    /// not; no event is given twice, and none that stays is left out.
    ///
    /// # Errors
    /// [`Error`]; the same page is asked for again if one goes on.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            let page = match self.client.events().list(&self.query).await {
                Ok(page) => page,
                Err(error) => return Some(Err(error)),
            };
            match page.next {
                // A server that does not move on must not be asked for ever.
                Some(next) if self.query.after.is_some_and(|after| next <= after) => {
                    self.over = true;
                    let why = format!("page {next} is followed by itself");
                    return Some(Err(self.client.inner.protocol(why)));
                }
                Some(next) => self.query.after = Some(next),
                None => self.over = true,
            }
            self.events = page.events.into_iter();
        }
    }
}
