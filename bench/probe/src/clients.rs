//! The client of every measurement: threads that call, wait for the answer and call again.

use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::now;

/// What callers saw.
#[derive(Debug)]
pub struct Load {
    /// How long each call took, shortest first.
    latencies: Vec<Duration>,
    elapsed: Duration,
}

impl Load {
    /// What somebody else's calls took, in any order.
    #[must_use]
    pub fn of(mut latencies: Vec<Duration>, elapsed: Duration) -> Self {
        latencies.sort_unstable();
        Self { latencies, elapsed }
    }

    /// How many calls were answered.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.latencies.len()
    }

    /// Calls answered per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.calls() as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// The time within which this share of the calls was answered, in microseconds.
    #[must_use]
    pub fn micros_at(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length is a place below it"
        )]
        let place = (last as f64 * share.clamp(0.0, 1.0)).round() as usize;
        self.latencies.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e6)
    }
}

/// Calls from a number of threads for a time, each with one call under way.
///
/// # Errors
/// The first error a call gave.
pub fn drive(
    callers: usize,
    time: Duration,
    call: impl Fn() -> io::Result<()> + Sync,
) -> io::Result<Load> {
    let start = Barrier::new(callers);
    let caller = || {
        start.wait();
        call_for(time, &call)
    };
    let seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a caller panicked")))
        };
        threads.into_iter().map(join).collect::<io::Result<Vec<_>>>()
    })?;
    let elapsed = seen.iter().map(|(_, elapsed)| *elapsed).max().unwrap_or_default();
    let mut latencies: Vec<_> = seen.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    Ok(Load { latencies, elapsed })
}

fn call_for(
    time: Duration,
    call: impl Fn() -> io::Result<()>,
) -> io::Result<(Vec<Duration>, Duration)> {
    let begun = now();
    let mut last = begun;
    let mut latencies = Vec::new();
    while last - begun < time {
        call()?;
        let answered = now();
        latencies.push(answered - last);
        last = answered;
    }
    Ok((latencies, last - begun))
}
