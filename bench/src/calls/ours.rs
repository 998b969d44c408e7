//! Calls by the SDK: one caller, one worker, in this process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_probe::{Load, now};
use handoff_sdk::Client;
use handoff_sdk::calls::{Caller, CallerOptions, Channel, Job, Redis, Serving, WorkerOptions};
use serde_json::value::{RawValue, to_raw_value};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Figures, PAYLOAD_BYTES};

/// What calls go through, and the channel.
#[derive(Debug)]
pub(super) enum Way {
    Server(Client, &'static str),
    Redis(Redis, &'static str),
}

/// A caller and a worker that echoes.
pub(super) struct Ours {
    caller: Caller,
    _worker: Serving,
    channel: &'static str,
    params: Arc<RawValue>,
}

impl Ours {
    pub(super) fn start(runtime: &Runtime, way: &Way, many: usize) -> io::Result<Self> {
        let payload = "x".repeat(PAYLOAD_BYTES.saturating_sub(2));
        let params: Arc<RawValue> = Arc::from(to_raw_value(&payload).map_err(io::Error::other)?);
        let (client, redis);
        let (worker, channel) = match way {
            Way::Server(server, channel) => {
                client = server.clone();
                (client.calls().worker(WorkerOptions::new()), *channel)
            }
            Way::Redis(through, channel) => {
                redis = through.clone();
                (redis.worker(WorkerOptions::new()), *channel)
            }
        };
        let concurrency = u32::try_from(many).unwrap_or(u32::MAX);
        let serves = Channel::new(channel).concurrency(concurrency);
        let worker =
            worker.serve(serves, |params: Box<RawValue>, _: Job| async move { Ok(params) });
        runtime.block_on(async {
            let worker = worker.start().await.map_err(io::Error::other)?;
            let options = CallerOptions::new().calls_max(100_000);
            let caller = match way {
                Way::Server(client, _) => client.calls().caller(options).await,
                Way::Redis(redis, _) => redis.caller(options).await,
            };
            let caller = caller.map_err(io::Error::other)?;
            Ok(Self { caller, _worker: worker, channel, params })
        })
    }

    /// Calls with so many under way until time is over.
    pub(super) fn measure(
        &self,
        runtime: &Runtime,
        many: usize,
        time: Duration,
    ) -> io::Result<Figures> {
        let begun = now();
        let mut callers = JoinSet::new();
        for _ in 0..many {
            let (caller, channel, params) =
                (self.caller.clone(), self.channel, Arc::clone(&self.params));
            let calls = async move {
                let mut latencies = Vec::new();
                while begun.elapsed() < time {
                    let asked = now();
                    let answer = caller.call::<_, Box<RawValue>>(channel, &*params).await;
                    let answer = answer.map_err(io::Error::other)?;
                    if answer.get() != params.get() {
                        return Err(io::Error::other("an answer to something else"));
                    }
                    latencies.push(asked.elapsed());
                }
                Ok::<_, io::Error>(latencies)
            };
            callers.spawn_on(calls, runtime.handle());
        }
        let mut latencies = Vec::new();
        runtime.block_on(async {
            while let Some(one) = callers.join_next().await {
                latencies.extend(one.map_err(io::Error::other)??);
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(Figures::of(&Load::of(latencies, begun.elapsed())))
    }

    /// Makes calls that nobody serves, and waits until they are registered.
    pub(super) fn park(&self, runtime: &Runtime, many: usize) -> io::Result<()> {
        runtime.block_on(async {
            for n in 0..many {
                // A channel in so many: parked calls need not lie in one queue.
                let channel = format!("void.{}", n % 10);
                let calling = self.caller.call::<_, Box<RawValue>>(&channel, &*self.params);
                let mut pending = calling.start().await.map_err(io::Error::other)?;
                if !pending.registered().await {
                    pending.await.map_err(io::Error::other)?;
                }
            }
            Ok(())
        })
    }
}
