//! Agents that come back together: real ones, before the real server, which was gone for a while. What is
//! measured is what the server took a second, and how late what is new was.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::Value;

use super::agent::{Agent, Den, post};
use super::ledger::wait;
use super::reception::{Reception, samples_of};
use super::samples::{Taken, body_v1};
use crate::clock;
use crate::http::Http;
use crate::served::{PATIENCE, Served};

/// Samples that an agent is sent at once, and how often.
const SAMPLES: i64 = 50;
const EVERY: Duration = Duration::from_millis(500);

/// The seconds over which rates are taken. An agent sends a segment every two seconds, so what comes in a
/// few goes up and down with their phases, outage or not.
const WINDOWS: [usize; 2] = [10, 3];

/// What was seen of a herd.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Samples a second before the outage, in the ten seconds and in the three that had most.
    pub steady: [f64; 2],
    /// The same after it.
    pub peak: [f64; 2],
    /// How late what is new was after it, at most, once its agent was back.
    pub lag: Duration,
    /// How long it took until no agent had a file left.
    pub drained: Duration,
    /// Samples that were acknowledged, each of which is in the topic once.
    pub samples: u64,
}

/// So many agents, and an outage of so long.
///
/// # Errors
/// When something does not start, or a sample is missing or there twice.
pub fn herd(place: &Path, count: usize, outage: Duration) -> io::Result<Figures> {
    let centre = place.join("centre");
    std::fs::create_dir_all(&centre)?;
    // Much less than what is new, or that would be the pace.
    let reception = Reception::new(&centre)?.set("HANDOFF_RELAY__BACKLOG_BYTES_PER_SEC", "8KiB");
    let mut server = reception.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (mut dens, mut agents, mut senders) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let edge = place.join(format!("edge-{number}"));
        std::fs::create_dir_all(&edge)?;
        let den = Den::new(&edge, &[("centre", reception.relay)])?;
        let name = format!("agent.name=edge-{number}");
        // As agents are, but for the listener: nobody hurries.
        let usual = [
            "agent.promise=memory",
            "relay.window_secs=10s",
            "relay.retry_first_ms=1s",
            "relay.retry_ms_max=30s",
            "relay.linger_ms=2s",
            "relay.segment_samples=40000",
        ];
        let sets = usual.into_iter().chain([name.as_str()]).flat_map(|set| ["--set", set]);
        let agent = den.agent(&sets.collect::<Vec<_>>())?;
        let (http, stop, sum) = (agent.http, Arc::clone(&stop), Arc::clone(&acknowledged));
        senders.push(thread::spawn(move || send(http, number, &stop, &sum)));
        dens.push(den);
        agents.push(agent);
    }
    let mut figures = Figures::default();
    let watched = watch(&server, Duration::from_secs(30), |_| false)?;
    // Not the first seconds, when agents come one after the other.
    let steady = watched.rates.len().saturating_sub(20);
    figures.steady = WINDOWS.map(|seconds| most(&watched.rates, steady, seconds));
    drop(server);
    wait(outage);
    server = reception.start()?;
    let begun = clock();
    let is_over = |dens: &[Den]| dens.iter().all(|den| den.files().is_ok_and(|all| all.is_empty()));
    let limit = outage * 4 + Duration::from_secs(60);
    let watched = watch(&server, limit, |_| is_over(&dens))?;
    figures.drained = begun.elapsed();
    figures.peak = WINDOWS.map(|seconds| most(&watched.rates, 0, seconds));
    figures.lag = Duration::from_millis(watched.lag_millis);
    stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().map_err(|_| io::Error::other("a sender is gone"))?;
    }
    agents.into_iter().try_for_each(Agent::stop)?;
    figures.samples = acknowledged.load(Ordering::Relaxed);
    let found = samples_of(server.http)?;
    if let Some((sample, times)) = found.iter().find(|(_, times)| **times > 1) {
        return Err(io::Error::other(format!("{sample:?} is there {times} times")));
    }
    // What waited in memory when its agent was told to stop is in a file now.
    let left: usize = dens.iter().map(|den| den.files().map_or(0, |files| files.len())).sum();
    if left == 0 && (found.len() as u64) < figures.samples {
        let words = format!("{} of {} samples are there", found.len(), figures.samples);
        return Err(io::Error::other(words));
    }
    server.stop()?;
    Ok(figures)
}

/// Sends until told to stop.
fn send(http: std::net::SocketAddr, agent: usize, stop: &AtomicBool, sum: &AtomicU64) {
    let Ok(mut connection) = Http::connect(http, PATIENCE) else { return };
    let (mut next, mut number) = (clock(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let time = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis());
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        let samples: Vec<Taken> = (0..SAMPLES)
            .map(|series| {
                number += 1;
                (format!("series_{series}_of_agent_{agent}"), time, number)
            })
            .collect();
        match post(&mut connection, &body_v1(&samples)) {
            Ok(answer) if answer.status == 204 => {
                sum.fetch_add(samples.len() as u64, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => return,
        }
        next += EVERY;
        wait(next.saturating_duration_since(clock()));
    }
}

struct Watched {
    /// Samples a second, second by second.
    rates: Vec<f64>,
    lag_millis: u64,
}

/// Looks at a server every second, for so long or until it is over.
fn watch(
    server: &Served,
    time: Duration,
    is_over: impl Fn(&Served) -> bool,
) -> io::Result<Watched> {
    let mut http = Http::connect(server.http, PATIENCE)?;
    let mut watched = Watched { rates: Vec::new(), lag_millis: 0 };
    let end = clock() + time;
    let mut before: (Instant, f64) = (clock(), 0.0);
    while clock() < end {
        wait(Duration::from_secs(1));
        let text = http.ask("GET", "/metrics", None)?;
        let text = String::from_utf8_lossy(&text.body).into_owned();
        let line = "handoff_relay_stored_samples_total";
        let stored = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        let now = (clock(), stored.unwrap_or(0.0));
        watched.rates.push((now.1 - before.1) / (now.0 - before.0).as_secs_f64());
        before = now;
        let agents = http.ask("GET", "/v1/relay/agents?limit=1000", None)?.json()?;
        let all = agents.get("agents").and_then(Value::as_array).cloned().unwrap_or_default();
        let connected = all.iter().filter(|one| one.get("connected") == Some(&true.into()));
        let lags = connected.filter_map(|one| one.get("lagMs")?.as_u64());
        watched.lag_millis = watched.lag_millis.max(lags.max().unwrap_or(0));
        if is_over(server) {
            break;
        }
    }
    Ok(watched)
}

/// The most of so many seconds in a row, from one on.
fn most(rates: &[f64], from: usize, seconds: usize) -> f64 {
    let rates = rates.get(from..).unwrap_or_default();
    let means = rates.windows(seconds.max(1)).map(|some| some.iter().sum::<f64>());
    let seconds = u32::try_from(seconds.max(1)).map_or(1.0, f64::from);
    means.fold(0.0, f64::max) / seconds
}
