//! The exchange against a server that says exactly what a test tells it to say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod devices;
mod erps;
mod looking;
#[path = "../http/peer.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod peer;

use handoff_sdk::exchange::Exchange;
use handoff_sdk::{Error, Time};
use serde_json::Value;

use crate::peer::{Asked, listener, ok, within};

/// Calls, answers, and gives both what was understood and what was asked.
async fn try_call<T>(
    reply: &str,
    ask: impl AsyncFnOnce(Exchange<'_>) -> Result<T, Error>,
) -> (Result<T, Error>, Asked) {
    let listener = listener().await;
    let client = listener.client();
    within(async { tokio::join!(ask(client.exchange()), listener.serve(reply)) }).await
}

async fn call<T>(
    reply: &Value,
    ask: impl AsyncFnOnce(Exchange<'_>) -> Result<T, Error>,
) -> (T, Asked) {
    let (result, asked) = try_call(&ok(&reply.to_string()), ask).await;
    (result.unwrap(), asked)
}

fn time() -> Time {
    Time::new("2027-01-15T08:00:00Z")
}
