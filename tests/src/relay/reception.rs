//! The real server as the receiver of agents, and what its topic has.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::Value;

use super::samples::{Taken, read_v2};
use crate::http::Http;
use crate::prey::Lair;
use crate::served::{PATIENCE, Served, program};

/// A receiver that comes back to the same address, whatever is done to it.
#[derive(Clone, Debug)]
pub struct Reception {
    lair: Lair,
    /// Where agents come to.
    pub relay: SocketAddr,
}

impl Reception {
    /// A receiver in a directory of its own, on an address that is free now. Whoever is sent away
    /// comes again soon.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new(place: &Path) -> io::Result<Self> {
        Self::at(place, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The same with its HTTP at this address.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn at(place: &Path, http: SocketAddr) -> io::Result<Self> {
        let relay = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let lair = Lair::new(program(), place)
            .verb("serve")
            .with("--json")
            .with(&format!("--listen={http}"))
            .with("--events-listen=127.0.0.1:0")
            .with(&format!("--relay-listen={relay}"))
            .set("HANDOFF_SERVER__DISK_FREE_MIN", "0")
            .set("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB")
            .set("HANDOFF_LOG__JOURNAL_BYTES_MAX", "64MiB")
            .set("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "8MiB")
            .set("HANDOFF_LOG__CHANGE_BYTES_MAX", "16MiB")
            .set("HANDOFF_RELAY__RETRY_SECS", "50ms");
        Ok(Self { lair, relay })
    }

    /// The same with another setting.
    #[must_use]
    pub fn set(mut self, variable: &str, value: &str) -> Self {
        self.lair = self.lair.set(variable, value);
        self
    }

    /// The same without a variable in its environment.
    #[must_use]
    pub fn unset(mut self, variable: &str) -> Self {
        self.lair = self.lair.unset(variable);
        self
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with(mut self, argument: &str) -> Self {
        self.lair = self.lair.with(argument);
        self
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.lair.data_dir
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// With its last words when it ends before that.
    pub fn start(&self) -> io::Result<Served> {
        Served::start(&self.lair)
    }
}

/// Every sample of the topic `metrics`, and how often it is there.
///
/// # Errors
/// When the server does not answer as it should, or segments of a shard are not in their order.
pub fn samples_of(http: SocketAddr) -> io::Result<BTreeMap<Taken, u64>> {
    let mut found = BTreeMap::new();
    let mut last: BTreeMap<(String, String), u64> = BTreeMap::new();
    for message in messages_of(http, "metrics")? {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let header = |name: &str| text(message.get("headers").and_then(|all| all.get(name)));
        let wrong = |what: &str| io::Error::other(format!("{what}: {message}"));
        let key = text(message.get("key")).ok_or_else(|| wrong("no key"))?;
        let block = header("block").ok_or_else(|| wrong("no block"))?;
        let segment = header("segment").and_then(|number| number.parse().ok());
        let segment: u64 = segment.ok_or_else(|| wrong("no segment"))?;
        if last.insert((key, block), segment).is_some_and(|before| before >= segment) {
            return Err(wrong("a segment stands behind a later one"));
        }
        let payload = message.get("payload").and_then(octets).ok_or_else(|| wrong("no payload"))?;
        for sample in read_v2(&payload).ok_or_else(|| wrong("no request"))? {
            *found.entry(sample).or_default() += 1;
        }
    }
    Ok(found)
}

/// Every message of a topic, partition by partition; none if there is no such topic.
fn messages_of(http: SocketAddr, topic: &str) -> io::Result<Vec<Value>> {
    let mut http = Http::connect(http, PATIENCE)?;
    let path = format!("/v1/streams/topics/{topic}");
    let answer = http.ask("GET", &path, None)?;
    if answer.status == 404 {
        return Ok(Vec::new());
    }
    let topic = answer.json()?;
    let partitions = topic.pointer("/topic/partitions").and_then(Value::as_u64);
    let partitions = partitions.ok_or_else(|| io::Error::other(topic.to_string()))?;
    let mut messages = Vec::new();
    for partition in 0..partitions {
        let mut next = 0;
        loop {
            let page = format!(
                "{path}/partitions/{partition}/messages?offset={next}&limit=10000&maxBytes=16777216"
            );
            let answer = http.ask("GET", &page, None)?;
            let page = answer.json()?;
            let found = page.get("messages").and_then(Value::as_array);
            let found = found.ok_or_else(|| io::Error::other(page.to_string()))?;
            let Some(last) = found.last() else { break };
            next = last.get("offset").and_then(Value::as_u64).map_or(next, |last| last + 1);
            messages.extend(found.iter().cloned());
        }
    }
    Ok(messages)
}

/// What a payload is: text, or octets in base64.
fn octets(payload: &Value) -> Option<Vec<u8>> {
    if let Some(text) = payload.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let text = payload.get("base64")?.as_str()?;
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(out)
}
