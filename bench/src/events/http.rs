//! As much HTTP as the measurements need: one connection, one request at a time.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use handoff_probe::{Load, now};
use serde_json::Value;

use super::listeners::Due;

struct Connection {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), body: Vec::new() })
    }

    fn get(&mut self, path: &str) -> io::Result<&[u8]> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(format!("{path} is answered {}", line.trim_end())));
        }
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(&self.body)
    }
}

/// The floor: the cheapest answer the server gives, one after the other.
pub(super) fn healthz(address: SocketAddr, time: Duration) -> io::Result<Load> {
    let mut connection = Connection::open(address)?;
    let mut latencies = Vec::new();
    let begun = now();
    while begun.elapsed() < time {
        let asked = now();
        connection.get("/healthz")?;
        latencies.push(asked.elapsed());
    }
    Ok(Load::of(latencies, begun.elapsed()))
}

/// How many events there are.
pub(super) fn events(address: SocketAddr) -> io::Result<u64> {
    let mut connection = Connection::open(address)?;
    let stats: Value = serde_json::from_slice(connection.get("/v1/events/stats")?)?;
    stats
        .get("events")
        .and_then(Value::as_u64)
        .ok_or_else(|| io::Error::other("no count of events"))
}

/// When these events are due next. Their ids follow one another.
pub(super) fn dues(address: SocketAddr, ids: &[i32]) -> io::Result<Vec<Due>> {
    let Some((&first, &last)) = ids.first().zip(ids.last()) else { return Ok(Vec::new()) };
    let mut connection = Connection::open(address)?;
    let mut found = HashMap::new();
    let mut after = i64::from(first) - 1;
    while after < i64::from(last) {
        let from = if after < 0 { String::new() } else { format!("&after={after}") };
        let path = format!("/v1/events?limit=1000{from}");
        let page: Value = serde_json::from_slice(connection.get(&path)?)?;
        let events = page.get("events").and_then(Value::as_array);
        let Some(events) = events.filter(|events| !events.is_empty()) else { break };
        for event in events {
            let id = event.get("id").and_then(Value::as_i64).unwrap_or(-1);
            let next = event.get("nextAt").and_then(Value::as_str).and_then(micros);
            if let Some((id, next)) = i32::try_from(id).ok().zip(next) {
                found.insert(id, next);
            }
            after = after.max(id);
        }
    }
    ids.iter()
        .map(|id| {
            let next = found.get(id).ok_or_else(|| io::Error::other(format!("no event {id}")))?;
            Ok(Due { id: *id, next: *next })
        })
        .collect()
}

/// Microseconds since the Unix epoch of an RFC 3339 time in UTC.
fn micros(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_microsecond())
}
