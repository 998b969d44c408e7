//! Calls as Redis keeps them.

use std::time::{Duration, UNIX_EPOCH};

use handoff_calls::{Ask, Call, CallId, ChannelName, Durability, OnLost, Outcome, Refusal, Reply};
use handoff_calls::{ChannelSettings as Settings, WithoutConsumer};
use handoff_store_redis::{Inspector, Query};
use handoff_types::{Code, Span, Wall};
use serde_json::Value;

use crate::calls::look::{
    CallPage, CallQuery, CallView, ChannelSettings, ChannelView, DeadCalls, FailedView, Happened,
};
use crate::error::Problem;
use crate::{Error, Time};

/// Calls that a page has unless said otherwise, and at most.
const PAGE: (u32, u32) = (100, 1000);

/// Calls of a Redis, as an administrator sees and steers them.
///
/// Redis keeps a call for as long as anybody needs it, dead letters longer; of the steps that went well
/// it remembers the last of each kind.
#[derive(Debug)]
pub struct Books {
    inspector: Inspector,
}

impl Books {
    pub(super) fn new(inspector: Inspector) -> Self {
        Self { inspector }
    }

    /// Calls that Redis has, the latest first, page by page.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self, query: &CallQuery) -> Result<CallPage, Error> {
        let CallQuery { channel, open, before, limit } = query;
        let channel = channel.as_deref().map(name).transpose()?;
        let limit = page(*limit);
        let query = Query { channel, open: *open, before: *before, limit };
        let found = self.inspector.calls(&query).await?;
        let calls = found.calls.iter().map(brief).collect();
        Ok(CallPage { calls, next: found.next })
    }

    /// One call, with what is known to have happened to it.
    ///
    /// # Errors
    /// [`Error`], with `calls.not_found` if it is not known, or not any more.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn show(&self, id: CallId) -> Result<CallView, Error> {
        match self.inspector.call(id).await? {
            Some(call) => Ok(whole(&call)),
            None => Err(refused(&Refusal::NoCall(id))),
        }
    }

    /// Cancels a call, whoever made it. One that runs is over too, and whoever runs it is told. Gives
    /// the call: one that was over before is as it was.
    ///
    /// # Errors
    /// [`Error`], with `calls.not_found` if it is not known, or not any more.
    ///
    /// # Cancel safety
    /// Dropped, it may be cancelled.
    pub async fn cancel(&self, id: CallId) -> Result<CallView, Error> {
        self.ask(Ask::Cancel { call: id, by: None }).await?;
        self.show(id).await
    }

    /// Dead letters of a channel, the oldest first, and how many there are.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn dead(
        &self,
        channel: &str,
        from: Option<u64>,
        limit: Option<u32>,
    ) -> Result<DeadCalls, Error> {
        let channel = name(channel)?;
        let from = from.unwrap_or(0);
        let (ids, total) = self.inspector.dead(&channel, from, page(limit)).await?;
        let next = from.saturating_add(ids.len() as u64);
        let next = (next < total && !ids.is_empty()).then_some(next);
        let mut calls = Vec::new();
        for id in ids {
            calls.extend(self.inspector.call(id).await?.as_ref().map(brief));
        }
        Ok(DeadCalls { calls, total, next })
    }

    /// Calls a dead letter again, under an id of its own. Gives that.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Dropped, it may be called again.
    pub async fn requeue(&self, id: CallId) -> Result<CallId, Error> {
        match self.ask(Ask::Requeue { call: id }).await? {
            Reply::Requeued(call) => Ok(call),
            _ => Err(refused(&Refusal::NotDead(id))),
        }
    }

    /// Drops dead letters of a channel, all of them or one. Gives how many are gone.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Dropped, any of them may be gone.
    pub async fn purge(&self, channel: &str, only: Option<CallId>) -> Result<u64, Error> {
        let channel = name(channel)?;
        let mut purged = 0;
        loop {
            let purge = Ask::Purge { channel: channel.clone(), only };
            let Reply::Purged { many, more } = self.ask(purge).await? else { return Ok(purged) };
            purged += many;
            if !more || many == 0 {
                return Ok(purged);
            }
        }
    }

    /// Channels, by their names: those that somebody serves or served, and those where calls wait.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn channels(&self) -> Result<Vec<ChannelView>, Error> {
        let usual = *self.inspector.usual();
        let view = |channel: handoff_store_redis::Channel| ChannelView {
            channel: channel.name.to_string(),
            described: channel.settings.is_some(),
            settings: settings(&channel.settings.unwrap_or(usual)),
            waiting: channel.waiting,
            in_flight: channel.in_flight,
            dead: channel.dead,
            consumers: channel.consumers,
        };
        Ok(self.inspector.channels().await?.into_iter().map(view).collect())
    }

    async fn ask(&self, ask: Ask) -> Result<Reply, Error> {
        match self.inspector.step(&ask).await? {
            Reply::Refused(refusal) => Err(refused(&refusal)),
            reply => Ok(reply),
        }
    }
}

fn name(channel: &str) -> Result<ChannelName, Error> {
    channel.parse().map_err(|error| Error::Invalid(format!("{error}")))
}

fn page(limit: Option<u32>) -> usize {
    usize::try_from(limit.unwrap_or(PAGE.0).clamp(1, PAGE.1)).unwrap_or(usize::MAX)
}

/// As a server would say it.
fn refused(refusal: &Refusal) -> Error {
    let code = refusal.code();
    let status = if code == Code::CallNotFound { 404 } else { 409 };
    let title = refusal.to_string();
    let code = Some(code.text().to_owned());
    Error::Problem(Box::new(Problem { status, code, title, ..Problem::default() }))
}

fn time(at: Wall) -> Time {
    let micros = u64::try_from(at.0).unwrap_or(0);
    Time::from(UNIX_EPOCH + Duration::from_micros(micros))
}

/// JSON as it was sent; what is none is shown as text.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// Without its params and its history.
fn brief(call: &Call) -> CallView {
    let ended = call.ended();
    let outcome = ended.map(|ended| &ended.outcome);
    let error = outcome.and_then(Outcome::error).map(|error| FailedView {
        name: error.name.into(),
        message: error.message.into(),
        code: error.code.into(),
    });
    let answer = match outcome {
        Some(Outcome::Answer(body)) => Some(json(body)),
        _ => None,
    };
    let executor = call.executor().or(call.taken.map(|(executor, _)| executor));
    // Both clocks of a call are Redis' own.
    let deadline = Wall(i64::try_from(call.deadline.0).unwrap_or(i64::MAX));
    CallView {
        id: call.id.to_string(),
        channel: call.channel.to_string(),
        stage: call.whereabouts().text().to_owned(),
        outcome: outcome.map(|outcome| outcome.name().to_owned()),
        answer,
        error,
        caller: call.caller.map(|caller| caller.to_string()),
        executor: executor.map(|executor| executor.to_string()),
        attempt: u32::from(call.attempt),
        fence: call.fence,
        created: time(call.created),
        deadline: time(deadline),
        ended: ended.map(|ended| time(ended.at)),
        key: call.key.as_ref().map(ToString::to_string),
        traceparent: call.trace.as_ref().map(ToString::to_string),
        requeued_from: call.again_for.map(|from| from.to_string()),
        durable: call.durable,
        dead: call.is_dead(),
        params: None,
        history: Vec::new(),
    }
}

fn whole(call: &Call) -> CallView {
    let params = Some(&call.params).filter(|params| !params.is_empty());
    let history = call.history.iter().map(|event| Happened {
        at: time(event.at),
        what: event.what.text().to_owned(),
        client: event.who.map(|client| client.to_string()),
    });
    CallView {
        params: params.map(|params| json(params)),
        history: history.collect(),
        ..brief(call)
    }
}

fn settings(settings: &Settings) -> ChannelSettings {
    let millis = |span: Span| Some(span.0 / 1000);
    let on_lost = match settings.on_lost {
        OnLost::Redeliver => "redeliver",
        OnLost::Fail => "fail",
    };
    let durability = match settings.durability {
        Durability::Disk => "disk",
        Durability::Memory => "memory",
    };
    let without_consumer = match settings.without_consumer {
        WithoutConsumer::Park => "park",
        WithoutConsumer::Fail => "fail",
    };
    ChannelSettings {
        on_lost: Some(on_lost.to_owned()),
        attempts_max: Some(settings.attempts_max),
        backoff_ms: millis(settings.backoff_min),
        backoff_max_ms: millis(settings.backoff_max),
        lease_ms: millis(settings.lease),
        queue_timeout_ms: Some(settings.queue_timeout.map_or(0, |span| span.0 / 1000)),
        durability: Some(durability.to_owned()),
        without_consumer: Some(without_consumer.to_owned()),
    }
}
