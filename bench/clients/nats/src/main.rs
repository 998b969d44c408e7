//! Calls through NATS: a caller and a worker that echoes, each with a connection of its own. Says what
//! came of it as one line of JSON.
//!
//! ```text
//!  handoff-bench-nats HOST:PORT core|jetstream CALLS_UNDER_WAY SECONDS BYTES
//! ```
//!
//! `core` is request and reply. `jetstream` keeps both: the request goes to a stream and its reply to
//! another, each confirmed by the server; the caller waits for both its confirmation and the reply.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, AckKind};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::oneshot;

type Failed = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, how, many, seconds, bytes] = &arguments[..] else {
        return Err("HOST:PORT core|jetstream CALLS_UNDER_WAY SECONDS BYTES".into());
    };
    let (many, bytes): (usize, usize) = (many.parse()?, bytes.parse()?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    let url = format!("nats://{address}");
    let (caller, worker) = (async_nats::connect(&url).await?, async_nats::connect(&url).await?);
    let payload = Bytes::from(vec![b'x'; bytes]);
    let calls = match how.as_str() {
        "core" => Calls::Core(caller),
        "jetstream" => Calls::JetStream(Kept::open(caller).await?),
        other => return Err(format!("{other} is neither core nor jetstream").into()),
    };
    let working = match how.as_str() {
        "core" => tokio::spawn(serve_core(worker)),
        _ => tokio::spawn(serve_jetstream(worker)),
    };
    // The worker is there once it answers.
    while calls.call(&payload).await.is_err() {
        if working.is_finished() {
            working.await??;
            return Err("the worker ended".into());
        }
        tokio::task::yield_now().await;
    }

    let begun = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..many {
        let (calls, payload) = (calls.clone(), payload.clone());
        callers.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while begun.elapsed() < time {
                let asked = Instant::now();
                calls.call(&payload).await?;
                latencies.push(asked.elapsed());
            }
            Ok::<_, Failed>(latencies)
        }));
    }
    let mut latencies = Vec::new();
    for one in callers {
        latencies.extend(one.await??);
    }
    let elapsed = begun.elapsed();
    latencies.sort_unstable();
    let p50 = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    let rate = latencies.len() as f64 / elapsed.as_secs_f64();
    println!("{{\"p50_micros\":{},\"rate\":{rate}}}", p50.as_secs_f64() * 1e6);
    Ok(())
}

#[derive(Clone)]
enum Calls {
    Core(Client),
    JetStream(Kept),
}

impl Calls {
    async fn call(&self, payload: &Bytes) -> Result<(), Failed> {
        let answer = match self {
            Self::Core(client) => client.request("work", payload.clone()).await?.payload,
            Self::JetStream(kept) => kept.call(payload).await?,
        };
        if answer == payload { Ok(()) } else { Err("an answer to something else".into()) }
    }
}

async fn serve_core(client: Client) -> Result<(), Failed> {
    let mut requests = client.subscribe("work").await?;
    while let Some(request) = requests.next().await {
        if let Some(reply) = request.reply {
            client.publish(reply, request.payload).await?;
        }
    }
    Ok(())
}

/// A caller whose requests are kept.
#[derive(Clone)]
struct Kept {
    context: jetstream::Context,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    calls: HashMap<String, oneshot::Sender<Bytes>>,
}

impl Kept {
    async fn open(client: Client) -> Result<Self, Failed> {
        let context = jetstream::new(client.clone());
        for (name, retention) in
            [("requests", RetentionPolicy::WorkQueue), ("replies", RetentionPolicy::Limits)]
        {
            let config = Config {
                name: name.to_owned(),
                subjects: vec![format!("{name}.>")],
                storage: StorageType::File,
                retention,
                max_messages: 1_000_000,
                ..Config::default()
            };
            context.get_or_create_stream(config).await?;
        }
        let waiting = Arc::<Mutex<Waiting>>::default();
        let mut replies = client.subscribe("replies.>").await?;
        client.flush().await?;
        let told = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(reply) = replies.next().await {
                let id = reply.subject.as_str().rsplit('.').next().unwrap_or_default().to_owned();
                let waiter = told.lock().unwrap_or_else(PoisonError::into_inner).calls.remove(&id);
                drop(waiter.map(|waiter| waiter.send(reply.payload)));
            }
        });
        Ok(Self { context, waiting })
    }

    async fn call(&self, payload: &Bytes) -> Result<Bytes, Failed> {
        let (tell, told) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.next += 1;
            let id = waiting.next.to_string();
            waiting.calls.insert(id.clone(), tell);
            id
        };
        let kept = self.context.publish(format!("requests.{id}"), payload.clone()).await?;
        let (kept, reply) = tokio::join!(kept.into_future(), told);
        kept?;
        Ok(reply?)
    }
}

async fn serve_jetstream(client: Client) -> Result<(), Failed> {
    let context = jetstream::new(client);
    let stream = context.get_stream("requests").await?;
    let config = pull::Config { durable_name: Some("worker".to_owned()), ..pull::Config::default() };
    let consumer = stream.get_or_create_consumer("worker", config).await?;
    let mut requests = consumer.messages().await?;
    while let Some(request) = requests.next().await {
        let (request, context) = (request?, context.clone());
        tokio::spawn(async move {
            let id = request.subject.as_str().rsplit('.').next().unwrap_or_default().to_owned();
            let kept = context.publish(format!("replies.{id}"), request.payload.clone()).await?;
            kept.await?;
            request.ack_with(AckKind::Ack).await
        });
    }
    Ok(())
}
