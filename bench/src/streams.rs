//! `bench streams`: the streams room of a real server process, through its socket.
//!
//! ```text
//!  floors      raw sync │ GET /healthz, one and 256 connections │ recycled and moved by plain code
//!  single      one message a request: one in flight, 256 connections
//!  batches     a thousand messages a request, 1 KiB and 100 B, for seconds; single ones beside them;
//!              a burst inside the ring of the journal
//!  sustained   the same for a minute
//!  fetch       raw batches, MessagePack
//!  groups      how soon messages are handed over, and how many with leases and commits
//!  partitions  keyed batches over 1, 64, 1,000 and 10,000 partitions
//!  backlog     start with gigabytes behind it; oldest and newest read
//!  peers       NATS and Redis, by the same client
//! ```

mod batches;
mod groups;
mod packed;
mod peers;
mod produce;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use handoff_log::disk::Disk;
use handoff_probe::{Load, Moving, now, overwrite, recycle_and_move, zero_filled};

use self::peers::{Nats, Redis};
use self::produce::produce;
use crate::bystanders::Ticks;
use crate::http::{Requests, ask, ask_json, get, post};
use crate::load::{Offer, drive};
use crate::peers::{Peer, Running};
use crate::report::{Goal, Report, Settings};
use crate::samples::Samples;
use crate::server::Server;
use crate::site::{Corner, Site};
use crate::{Failed, Row};

const RAW_BYTES: u64 = 16 << 20;
const MESSAGE_BYTES: usize = 1024;
const BATCH: usize = 1_000;
/// What an answer has beside each payload, at most.
const RECORD_BYTES: usize = 80;
const MANY: usize = 256;
const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";
const RAW: &str = "application/vnd.handoff.batch";

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    parent: PathBuf,
    time: Duration,
    sustained: Duration,
    backlog_bytes: u64,
    partitions: Vec<u32>,
    needed_bytes: u64,
    /// One part only.
    pub only: Option<Part>,
    /// Where peers are, if not on the PATH.
    pub peers: Option<PathBuf>,
}

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One message a request.
    Single,
    /// A thousand.
    Batches,
    /// For a minute.
    Sustained,
    /// Reading.
    Fetch,
    /// Consuming.
    Groups,
    /// Many partitions.
    Partitions,
    /// Gigabytes.
    Backlog,
    /// NATS and Redis.
    Peers,
}

impl Plan {
    /// Measurements of this length below a directory.
    #[must_use]
    pub fn of(parent: &Path, time: Duration, sustained: Duration, backlog_bytes: u64) -> Self {
        Self {
            parent: parent.to_owned(),
            time,
            sustained,
            backlog_bytes,
            partitions: vec![1, 64, 1_000, 10_000],
            needed_bytes: backlog_bytes.max(16 << 30) + (8 << 30),
            only: None,
            peers: None,
        }
    }

    /// Short and small, to see that it works.
    #[must_use]
    pub fn quick(parent: &Path) -> Self {
        let second = Duration::from_millis(500);
        Self {
            partitions: vec![1, 64],
            needed_bytes: 6 << 30,
            ..Self::of(parent, second, second, 32 << 20)
        }
    }

    fn has(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Measures, and tells on the way what it is doing.
///
/// # Errors
/// See [`Failed`].
pub fn run(plan: &Plan, program: &Path, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    let site = Site::make(&plan.parent, plan.needed_bytes)?;
    let begun = Ticks::now();
    let mut run = Run { plan, site: &site, program, talk, rows: Vec::new() };
    let single = match plan.has(Part::Single) || plan.has(Part::Peers) {
        true => Some(run.single()?),
        false => None,
    };
    if plan.has(Part::Batches) {
        run.batches()?;
    }
    if plan.has(Part::Sustained) {
        run.sustained()?;
    }
    if plan.has(Part::Fetch) {
        run.fetch()?;
    }
    if plan.has(Part::Groups) {
        run.groups()?;
    }
    if plan.has(Part::Partitions) {
        for partitions in &plan.partitions {
            run.partitions(*partitions)?;
        }
    }
    if plan.has(Part::Backlog) {
        run.backlog()?;
    }
    if let Some(single) = single.filter(|_| plan.has(Part::Peers)) {
        run.peers(single)?;
    }
    let others = Ticks::now().zip(begun).map(|(now, begun)| now.others_since(begun));
    run.row("bystanders", "processors busy outside this client", "%", others);
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: 1,
        payload_bytes: MESSAGE_BYTES,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "streams", settings, rows: run.rows })
}

/// Messages a second that were stored one by one.
#[derive(Clone, Copy, Debug)]
struct Single {
    one_p50: f64,
    many_rate: f64,
}

struct Run<'a> {
    plan: &'a Plan,
    site: &'a Site,
    program: &'a Path,
    talk: &'a dyn Fn(&str),
    rows: Vec<Row>,
}

/// A server with a directory of its own.
struct Bench {
    server: Server,
    data: PathBuf,
    _corner: Corner,
}

impl Run<'_> {
    fn row(&mut self, key: &str, name: &str, unit: &'static str, value: impl Into<Option<f64>>) {
        self.rows.push(row(key, name, unit, value));
    }

    fn server(&self, name: &str) -> Result<Bench, Failed> {
        self.server_with(name, &[])
    }

    fn server_with(&self, name: &str, settings: &[(&str, &str)]) -> Result<Bench, Failed> {
        let corner = self.site.corner(name)?;
        let data = corner.file("data");
        let server = Server::start_with(self.program, &data, settings)?;
        Ok(Bench { server, data, _corner: corner })
    }

    fn flushes(&self) -> Option<u64> {
        self.site.flushes.and_then(|flushes| flushes.count())
    }

    /// A load, with the device's flushes for each request.
    fn flushed(&self, load: impl FnOnce() -> io::Result<Load>) -> io::Result<(Load, Option<f64>)> {
        let before = self.flushes();
        let load = load()?;
        let flushed = self.flushes().zip(before).map(|(after, before)| after - before);
        let each = flushed.map(|flushed| flushed as f64 / load.calls().max(1) as f64);
        Ok((load, each))
    }

    fn single(&mut self) -> Result<Single, Failed> {
        let time = self.plan.time;
        (self.talk)("single: floors");
        let corner = self.site.corner("raw")?;
        let raw = overwrite(&zero_filled(&corner.file("raw"), RAW_BYTES)?, RAW_BYTES, 4096, time)?;
        drop(corner);
        let bench = self.server("single")?;
        let http = bench.server.http();
        let idle = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        let memory = row("idle_memory", "memory of the idle server", "MB", idle);
        self.rows.push(memory.goal(Goal::AtMost(40.0)));
        create(http, "single", 1)?;
        let mut healthz = Requests::of(vec![get("/healthz", JSON)]);
        let floor_one = drive(http, Offer::of(1, 1, time), &mut healthz)?;
        let floor_many = drive(http, Offer::of(MANY, 1, time), &mut healthz)?;
        (self.talk)("single: one in flight");
        let mut one = Requests::of(vec![produce("single", 1, MESSAGE_BYTES, &[])]);
        let (load, flushes) = self.flushed(|| drive(http, Offer::of(1, 1, time), &mut one))?;
        let (sync, hop) = (raw.micros_at(0.5), floor_one.micros_at(0.5));
        self.row("raw_sync_p50", "raw sync, p50", "µs", sync);
        self.row("healthz_p50", "GET /healthz, p50", "µs", hop);
        let one_p50 = load.micros_at(0.5);
        let p50 = row("single_1_p50", "1 message, one in flight, p50", "µs", one_p50)
            .floor("sync + healthz", &once(sync + hop));
        self.rows.push(p50.goal(Goal::AtMost(sync + hop + 100.0)));
        self.row("single_1_p99", "1 message, one in flight, p99", "µs", load.micros_at(0.99));
        self.row("single_1_flushes", "device flushes per acknowledgement", "", flushes);
        (self.talk)("single: 256 connections");
        let (load, flushes) = self.flushed(|| drive(http, Offer::of(MANY, 1, time), &mut one))?;
        let many_rate = load.rate();
        let rate = row("single_256_rate", "1 message, 256 connections", "/s", many_rate)
            .floor("healthz, 256", &once(floor_many.rate()));
        self.rows.push(rate.goal(Goal::OfFloor(0.45)));
        self.row("single_256_p99", "1 message, 256 connections, p99", "µs", load.micros_at(0.99));
        self.row("single_256_flushes", "device flushes per acknowledgement", "", flushes);
        bench.server.stop()?;
        Ok(Single { one_p50, many_rate })
    }

    fn sustained(&mut self) -> Result<(), Failed> {
        let time = self.plan.sustained;
        (self.talk)("sustained: floor, recycled and moved by plain code");
        let corner = self.site.corner("moving")?;
        let ring_bytes = 1 << 30;
        let ring = zero_filled(&corner.file("ring"), ring_bytes)?;
        let moving = Moving {
            round_bytes: 1 << 20,
            ring_bytes,
            sync_bytes: 256 << 20,
            behind_bytes: 512 << 20,
            bytes_max: 12 << 30,
            time: time.min(Duration::from_secs(20)),
        };
        let rest = corner.file("rest");
        let moved = recycle_and_move(&moving, &ring, &rest, || corner.disk.sync_all())?;
        drop(corner);
        (self.talk)("sustained: batches");
        let bench = self.server("sustained")?;
        let http = bench.server.http();
        create(http, "sustained", 4)?;
        let mut requests = Requests::of(vec![produce("sustained", BATCH, MESSAGE_BYTES, &[])]);
        let load = drive(http, Offer::of(4, 2, time), &mut requests)?;
        let bytes = load.rate() * (BATCH * MESSAGE_BYTES) as f64;
        let rate =
            row("sustained_rate", "batches of 1 KiB messages, sustained", "MB/s", bytes / 1e6)
                .floor("recycled + moved", &once(moved.rate() / 1e6));
        self.rows.push(rate.goal(Goal::OfFloor(0.70)));
        self.row("sustained_p99", "a batch, sustained, p99", "ms", load.micros_at(0.99) / 1e3);
        let memory = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        self.row("sustained_memory", "memory of the server then", "MB", memory);
        bench.server.stop()?;
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), Failed> {
        (self.talk)("fetch: filling");
        let bench = self.server("fetch")?;
        let http = bench.server.http();
        create(http, "fetch", 1)?;
        let requests = 200;
        let mut fill = Requests::of(vec![produce("fetch", BATCH, MESSAGE_BYTES, &[])]);
        let offer = Offer { requests_max: requests, ..Offer::of(2, 2, Duration::MAX) };
        drive(http, offer, &mut fill)?;
        let messages = (requests * BATCH) as f64;
        for (accept, key, name, goal) in [
            (RAW, "fetch_raw", "raw batches of 1 KiB messages, hot", 600_000.0),
            (MSGPACK, "fetch_msgpack", "messages of 1 KiB as MessagePack, hot", 350_000.0),
        ] {
            (self.talk)(&format!("fetch: {accept}"));
            // About four batches an answer, from the beginning to the end and again.
            let from = (0..requests).step_by(4).map(|batch| batch * BATCH);
            let path = |offset: usize| {
                format!(
                    "/v1/streams/topics/fetch/partitions/0/messages?offset={offset}&limit={}&maxBytes={}",
                    4 * BATCH,
                    16 << 20
                )
            };
            let mut fetch = Requests::of(from.map(|offset| get(&path(offset), accept)).collect());
            let load = drive(http, Offer::of(2, 1, self.plan.time), &mut fetch)?;
            // Counted by bytes, a record's own twenty or so on top of its payload: an answer may
            // hold more than was asked for, or less.
            let messages = fetch.bytes as f64 / (MESSAGE_BYTES + RECORD_BYTES) as f64;
            let rate = load.rate() * messages / load.calls().max(1) as f64;
            self.rows.push(row(key, name, "/s", rate).goal(Goal::AtLeast(goal)));
        }
        self.row("fetch_filled", "messages there", "", messages);
        bench.server.stop()?;
        Ok(())
    }

    fn partitions(&mut self, partitions: u32) -> Result<(), Failed> {
        (self.talk)(&format!("partitions: {partitions}"));
        let bench = self.server("partitions")?;
        let http = bench.server.http();
        create(http, "spread", partitions)?;
        let keys: Vec<String> = (0..50_000).map(|n| format!("key-{n}")).collect();
        let chunks = keys.chunks(100);
        let requests = chunks.map(|keys| produce("spread", 100, 100, keys)).collect();
        let mut requests = Requests::of(requests);
        let load = drive(http, Offer::of(16, 1, self.plan.time), &mut requests)?;
        let name = format!("100 keyed messages of 100 B a request, {partitions} partitions");
        self.row(&format!("spread_{partitions}_rate"), &name, "/s", load.rate() * 100.0);
        let p99 = load.micros_at(0.99) / 1e3;
        self.row(&format!("spread_{partitions}_p99"), "such a request, p99", "ms", p99);
        let memory = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        self.row(&format!("spread_{partitions}_memory"), "memory of the server", "MB", memory);
        let files = bench.server.open_files().map(|files| files as f64);
        let files = row(&format!("spread_{partitions}_files"), "files it has open", "", files);
        self.rows.push(files.goal(Goal::AtMost(700.0)));
        bench.server.stop()?;
        Ok(())
    }

    fn backlog(&mut self) -> Result<(), Failed> {
        let gib = self.plan.backlog_bytes as f64 / f64::from(1 << 30);
        (self.talk)(&format!("backlog: {gib:.1} GiB"));
        let mut bench = self.server("backlog")?;
        create(bench.server.http(), "backlog", 4)?;
        let mut fill = Requests::of(vec![produce("backlog", BATCH, MESSAGE_BYTES, &[])]);
        let requests = self.plan.backlog_bytes / (BATCH * MESSAGE_BYTES) as u64;
        let requests_max = usize::try_from(requests).unwrap_or(usize::MAX).max(1);
        let offer = Offer { requests_max, ..Offer::of(4, 2, Duration::MAX) };
        drive(bench.server.http(), offer, &mut fill)?;
        let stored = directory_bytes(&bench.data);
        self.row("backlog_disk", "the data directory", "MB", stored as f64 / 1e6);
        bench.server.kill()?;
        let begun = now();
        bench.server = Server::start(self.program, &bench.data)?;
        let start = begun.elapsed().as_secs_f64();
        self.rows
            .push(row("backlog_start", "kill -9 to ready", "s", start).goal(Goal::AtMost(5.0)));
        let memory = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        self.row("backlog_memory", "memory of the server then", "MB", memory);
        let http = bench.server.http();
        let shown = ask_json(http, get("/v1/streams/topics/backlog", JSON))?;
        let messages = shown.pointer("/topic/messages").and_then(serde_json::Value::as_u64);
        let wanted = requests_max as u64 * BATCH as u64;
        if messages != Some(wanted) {
            let words =
                format!("{messages:?} messages after the restart, {wanted} were acknowledged");
            return Err(Failed::Broke(io::Error::other(words)));
        }
        let end = shown.pointer("/topic/partitionList/0/end").and_then(serde_json::Value::as_u64);
        for (key, name, offset) in [
            ("oldest", "oldest message read, p50", 0),
            ("newest", "newest message read, p50", end.unwrap_or(1).saturating_sub(1)),
        ] {
            let path = format!(
                "/v1/streams/topics/backlog/partitions/0/messages?offset={offset}&limit=1&maxBytes=1"
            );
            let mut read = Requests::of(vec![get(&path, RAW)]);
            let load = drive(
                http,
                Offer::of(1, 1, self.plan.time.min(Duration::from_secs(2))),
                &mut read,
            )?;
            self.row(&format!("backlog_{key}"), name, "µs", load.micros_at(0.5));
        }
        bench.server.stop()?;
        Ok(())
    }

    fn peers(&mut self, ours: Single) -> Result<(), Failed> {
        for peer in Peer::ALL {
            let Some(program) = peer.find(self.plan.peers.as_deref()) else {
                (self.talk)(&format!("peers: {} is not installed", peer.name()));
                continue;
            };
            (self.talk)(&format!("peers: {}", peer.name()));
            let corner = self.site.corner("peer")?;
            let running = Running::start(peer, &program, &corner.file("data"))?;
            let (key, name, time) = (peer.key(), peer.name(), self.plan.time);
            let measure = |connections, window| match peer {
                Peer::NatsAlways | Peer::NatsDefault => {
                    let mut wire = Nats::new(MESSAGE_BYTES);
                    // One subscription hears every acknowledgement, so there is one connection.
                    let offer = Offer::of(1, connections * window, time);
                    drive(running.address, offer, &mut wire)
                }
                Peer::RedisAlways | Peer::RedisEverysec | Peer::RedisMemory => {
                    let mut wire = Redis::new(MESSAGE_BYTES);
                    drive(running.address, Offer::of(connections, window, time), &mut wire)
                }
            };
            if matches!(peer, Peer::NatsAlways | Peer::NatsDefault) {
                Nats::create(running.address)?;
            }
            let one = measure(1, 1)?;
            let before = self.flushes();
            let many = measure(MANY, 1)?;
            let flushed = self.flushes().zip(before).map(|(after, before)| after - before);
            let each = flushed.map(|flushed| flushed as f64 / many.calls().max(1) as f64);
            let p50 = row(
                "single_1_p50_by",
                &format!("ours by {name}, one in flight, p50"),
                "µs",
                ours.one_p50,
            );
            self.rows.push(
                renamed(p50, &format!("{key}_1_p50")).floor("theirs", &once(one.micros_at(0.5))),
            );
            let rate = row(
                "single_256_rate_by",
                &format!("ours by {name}, 256 under way"),
                "/s",
                ours.many_rate,
            );
            let rate =
                renamed(rate, &format!("{key}_256_rate")).floor("theirs", &once(many.rate()));
            let rate = match peer {
                Peer::NatsAlways | Peer::RedisAlways => rate.goal(Goal::OfFloor(1.0)),
                Peer::NatsDefault | Peer::RedisEverysec | Peer::RedisMemory => rate,
            };
            self.rows.push(rate);
            self.row(
                &format!("{key}_flushes"),
                "their device flushes per acknowledgement",
                "",
                each,
            );
        }
        Ok(())
    }
}

fn renamed(mut row: Row, key: &str) -> Row {
    key.clone_into(&mut row.key);
    row
}

fn create(http: SocketAddr, name: &str, partitions: u32) -> io::Result<()> {
    let body = serde_json::json!({ "version": 1, "name": name, "partitions": partitions });
    ask(http, post("/v1/streams/topics", JSON, body.to_string().as_bytes())).map(drop)
}

fn directory_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => directory_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn row(key: &str, name: &str, unit: &'static str, value: impl Into<Option<f64>>) -> Row {
    Row::new(key, name, unit, &value.into().into_iter().collect())
}

fn once(value: f64) -> Samples {
    Samples::from_iter([value])
}
