//! Handlers behind Redis' client.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::Failing;
use handoff_store_redis as store;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::calls::Serves;
use crate::calls::error::HandlerError;
use crate::calls::job::Job;
use crate::calls::session::Body;
use crate::calls::staff::{Run, Watching};
use crate::connect::later;

/// How long a call has whose caller named no time: a foreign peer's.
const UNTOLD: Duration = Duration::from_secs(86_400);

/// What is served, as Redis' client takes it.
pub(super) fn services(serves: Serves) -> Vec<store::Service> {
    let Serves { channels, handlers, grace, .. } = serves;
    let service = |serves: handoff_calls::wire::Serves| {
        let run = Arc::clone(handlers.get(&serves.channel)?);
        let handler = move |job| run_one(Arc::clone(&run), job, grace);
        Some(store::Service::new(serves.channel, serves.concurrency, handler))
    };
    channels.into_iter().filter_map(service).collect()
}

/// Runs a handler, and ends it when its time is over or nobody wants its result any more.
async fn run_one(run: Run, mut job: store::Job, grace: Duration) -> Result<Bytes, Failing> {
    let params = body(&job.params).map_err(HandlerError::failing)?;
    let deadline = job.over_at.unwrap_or_else(|| later(Instant::now(), UNTOLD));
    let (tell, told) = watch::channel(false);
    let tell = Arc::new(tell);
    let running = run(params, Job::of_redis(&job, deadline, told.clone()));
    let watching = Watching { tell: Arc::clone(&tell), told, deadline, grace };
    let mut attending = pin!(watching.attend(running));
    // Both may be dropped: the handler goes on where it was, and what is unwanted stays so.
    let result = tokio::select! {
        result = &mut attending => result,
        () = job.unwanted() => {
            tell.send_replace(true);
            attending.await
        }
    };
    match result {
        Some(Ok(answer)) => {
            let text: Box<str> = answer.into();
            Ok(Bytes::from(text.into_boxed_bytes()))
        }
        Some(Err(error)) => Err(error.failing()),
        // Nobody hears it.
        None => Err(Failing::default()),
    }
}

/// Parameters as JSON, which a foreign peer's may not be.
fn body(params: &Bytes) -> Result<Body, HandlerError> {
    let text = if params.is_empty() { &b"null"[..] } else { params };
    serde_json::from_slice::<Box<RawValue>>(text).map_err(|error| {
        HandlerError::new("BadParams", error.to_string()).code("bad_params").terminal()
    })
}
