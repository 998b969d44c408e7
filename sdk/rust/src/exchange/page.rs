//! Lists, page by page.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::client::Client;
use crate::{Error, Target};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// In the order of the list.
    #[serde(
        alias = "companies",
        alias = "subsystems",
        alias = "databases",
        alias = "devices",
        alias = "routes",
        alias = "messages",
        alias = "processes",
        alias = "entries"
    )]
    pub items: Vec<T>,
    /// What to give for the next page; none: this is the last.
    #[serde(default, deserialize_with = "text")]
    pub next: Option<String>,
}

impl<T: DeserializeOwned> Page<T> {
    /// Asks for a page: what comes after (or below) a place, and at most so many.
    pub(super) async fn ask(
        client: &Client,
        target: Target,
        name: &str,
        place: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Self, Error> {
        let target = target.queries(name, place).queries("limit", limit);
        let page: Self = client.get_json(target.as_str()).await?;
        // Whoever asks for page after page must not do it for ever.
        if page.next.is_some() && page.next.as_deref() == place {
            return Err(client.inner.protocol("its list does not go on".to_owned()));
        }
        Ok(page)
    }
}

/// One thing, under the name of its kind.
#[derive(Deserialize)]
pub(super) struct One<T> {
    #[serde(
        alias = "company",
        alias = "subsystem",
        alias = "database",
        alias = "device",
        alias = "route",
        alias = "message",
        alias = "process"
    )]
    pub(super) item: T,
}

/// A place in a list: a name, or a number.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Place {
        Name(String),
        Number(u64),
    }
    let place = Option::<Place>::deserialize(deserializer)?;
    Ok(place.map(|place| match place {
        Place::Name(name) => name,
        Place::Number(number) => number.to_string(),
    }))
}
