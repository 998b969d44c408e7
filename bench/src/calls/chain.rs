//! The floor of calls through Redis, by plain code: a call is three scripts and two messages.
//!
//! ```text
//!  caller                            Redis                             worker
//!    EVALSHA request ──▶ hash, PUBLISH ── message ──▶ EVALSHA accept ──▶ hash
//!    message ◀── PUBLISH, hash ◀──────────────────── EVALSHA answer
//! ```

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use handoff_probe::{Load, now};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{Figures, PAYLOAD_BYTES};

const REQUEST: &str = "redis.call('HSET', 'bench:call', 'state', 'PENDING', 'params', ARGV[1]) \
    redis.call('PUBLISH', 'bench.work', ARGV[1])";
const ACCEPT: &str = "redis.call('HSET', 'bench:call', 'state', 'EXECUTING')";
const ANSWER: &str = "redis.call('HSET', 'bench:call', 'state', 'DONE', 'response', ARGV[1]) \
    redis.call('PUBLISH', 'bench.answer', ARGV[1])";

/// A connection.
struct Wire(BufReader<TcpStream>);

impl Wire {
    async fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    async fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(text.as_bytes()).await
    }

    /// The next value: its text, or the last of several.
    async fn hear(&mut self) -> io::Result<String> {
        let mut values = 1_usize;
        let mut last = String::new();
        while values > 0 {
            values -= 1;
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            let (kind, rest) = line.trim_end().split_at_checked(1).unwrap_or_default();
            match kind {
                "*" => values += rest.parse::<usize>().map_err(io::Error::other)?,
                "$" if rest != "-1" => {
                    let length = rest.parse::<usize>().map_err(io::Error::other)?;
                    let mut bytes = vec![0; length + 2];
                    self.0.read_exact(&mut bytes).await?;
                    bytes.truncate(length);
                    last = String::from_utf8(bytes).map_err(io::Error::other)?;
                }
                "+" | ":" | "$" => rest.clone_into(&mut last),
                _ => return Err(io::Error::other(format!("Redis says {line:?}"))),
            }
        }
        Ok(last)
    }

    async fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        self.send(words).await?;
        self.hear().await
    }
}

/// A call after the other until time is over.
pub(super) async fn measure(address: SocketAddr, time: Duration) -> io::Result<Figures> {
    let mut caller = Wire::connect(address).await?;
    let request = caller.ask(&["SCRIPT", "LOAD", REQUEST]).await?;
    let mut hears = Wire::connect(address).await?;
    hears.ask(&["SUBSCRIBE", "bench.answer"]).await?;
    let mut worker = Wire::connect(address).await?;
    let accept = worker.ask(&["SCRIPT", "LOAD", ACCEPT]).await?;
    let answer = worker.ask(&["SCRIPT", "LOAD", ANSWER]).await?;
    let mut offers = Wire::connect(address).await?;
    offers.ask(&["SUBSCRIBE", "bench.work"]).await?;
    let working = tokio::spawn(work(offers, worker, accept, answer));
    let params = "x".repeat(PAYLOAD_BYTES);
    let calling = tokio::spawn(async move {
        let mut latencies = Vec::new();
        let begun = now();
        while begun.elapsed() < time {
            let asked = now();
            caller.send(&["EVALSHA", &request, "0", &params]).await?;
            let answer = hears.hear().await?;
            latencies.push(asked.elapsed());
            if answer != params {
                return Err(io::Error::other("an answer to something else"));
            }
            caller.hear().await?;
        }
        Ok(Load::of(latencies, begun.elapsed()))
    });
    let load = calling.await.map_err(io::Error::other)?;
    working.abort();
    Ok(Figures::of(&load?))
}

/// Answers whatever is offered with itself.
async fn work(
    mut offers: Wire,
    mut worker: Wire,
    accept: String,
    answer: String,
) -> io::Result<Infallible> {
    loop {
        let params = offers.hear().await?;
        worker.ask(&["EVALSHA", &accept, "0"]).await?;
        worker.ask(&["EVALSHA", &answer, "0", &params]).await?;
    }
}

/// The middle of how long a `PING` takes, in microseconds.
pub(super) fn ping(address: SocketAddr, time: Duration) -> io::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut wire = Wire::connect(address).await?;
        let mut latencies = Vec::new();
        let begun = now();
        while begun.elapsed() < time {
            let asked = now();
            wire.ask(&["PING"]).await?;
            latencies.push(asked.elapsed());
        }
        Ok(Load::of(latencies, begun.elapsed()).micros_at(0.5))
    })
}
