//! Calls as whoever keeps them tells of them.

use handoff_sdk::Error;
use handoff_sdk::calls::{self, CallId, CallPage, CallQuery, CallView, ChannelView, DeadCalls};

use super::super::through::Place;
use crate::exit::Failure;

/// The same for dead letters and channels, which have larger pages.
pub(super) const LARGE_PAGE: u32 = 1000;

/// Who keeps calls.
pub(super) enum Books<'a> {
    Server(calls::Calls<'a>),
    Redis(Box<calls::Books>),
}

impl<'a> Books<'a> {
    pub(super) async fn of(place: &'a Place) -> Result<Self, Failure> {
        Ok(match place {
            Place::Server(client) => Self::Server(client.calls()),
            Place::Redis(redis) => Self::Redis(Box::new(redis.books().await?)),
        })
    }

    pub(super) async fn list(&self, query: &CallQuery) -> Result<CallPage, Error> {
        match self {
            Self::Server(calls) => calls.list(query).await,
            Self::Redis(books) => books.list(query).await,
        }
    }

    pub(super) async fn show(&self, id: CallId) -> Result<CallView, Error> {
        match self {
            Self::Server(calls) => calls.show(id).await,
            Self::Redis(books) => books.show(id).await,
        }
    }

    pub(super) async fn cancel(&self, id: CallId) -> Result<CallView, Error> {
        match self {
            Self::Server(calls) => calls.cancel(id).await,
            Self::Redis(books) => books.cancel(id).await,
        }
    }

    pub(super) async fn dead(
        &self,
        channel: &str,
        from: Option<u64>,
        limit: u32,
    ) -> Result<DeadCalls, Error> {
        match self {
            Self::Server(calls) => calls.dead(channel, from, Some(limit)).await,
            Self::Redis(books) => books.dead(channel, from, Some(limit)).await,
        }
    }

    pub(super) async fn requeue(&self, id: CallId) -> Result<CallId, Error> {
        match self {
            Self::Server(calls) => calls.requeue(id).await,
            Self::Redis(books) => books.requeue(id).await,
        }
    }

    pub(super) async fn purge(&self, channel: &str, only: Option<CallId>) -> Result<u64, Error> {
        match self {
            Self::Server(calls) => calls.purge(channel, only).await,
            Self::Redis(books) => books.purge(channel, only).await,
        }
    }

    /// Every channel, by its name.
    pub(super) async fn channels(&self) -> Result<Vec<ChannelView>, Error> {
        let calls = match self {
            Self::Server(calls) => calls,
            Self::Redis(books) => return books.channels().await,
        };
        let mut all: Vec<ChannelView> = Vec::new();
        loop {
            let after = all.last().map(|channel| channel.channel.clone());
            let page = calls.channels(after.as_deref(), Some(LARGE_PAGE)).await?;
            let last = page.len() < LARGE_PAGE as usize;
            all.extend(page);
            if last {
                return Ok(all);
            }
        }
    }
}
