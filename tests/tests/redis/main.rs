//! Calls on a real Redis server: what every transport promises, peers in the layouts of others, the
//! guardian, and what goes wrong with a server, a connection or a peer.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod calling;
mod command;
mod cut;
mod doors;
mod foreign;
mod guarding;
mod killed;
mod measured;
mod port;
mod sdk;
mod storm;

use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::{ChannelName, Outcome};
use handoff_store_redis::{Client, Job, Options, Request, Service};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(50);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn channel(text: &str) -> ChannelName {
    text.parse().unwrap()
}

/// Waits for something that must come.
async fn must<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(came) => came,
        Err(_) => panic!("{what} does not come"),
    }
}

/// The params of every call that a handler began, in order.
type Begun = Arc<Mutex<Vec<String>>>;

/// Echoes what comes, and notes that it came.
fn echo(name: &str, concurrency: u32, begun: &Begun) -> Service {
    let begun = Arc::clone(begun);
    Service::new(channel(name), concurrency, move |job: Job| {
        begun.lock().unwrap().push(String::from_utf8_lossy(&job.params).into_owned());
        async move { Ok(job.params) }
    })
}

async fn client(address: &str, services: Vec<Service>) -> Client {
    let connected = Client::connect(address, Options::default(), services).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

/// Calls, and takes nothing but an answer.
async fn answer(client: &Client, name: &str, params: &str) -> String {
    let request = Request::new(channel(name), Bytes::from(params.to_owned()));
    let answer = must("an answer", client.call(request)).await.unwrap();
    match answer.outcome {
        Outcome::Answer(body) => String::from_utf8(body.to_vec()).unwrap(),
        other => panic!("no answer to {params}: {other:?}"),
    }
}
