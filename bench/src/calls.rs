//! `bench calls`: requests and answers from end to end, caller and worker in this process, servers beside.
//!
//! ```text
//!  memory   through a server that keeps calls in memory │ NATS request and reply
//!  disk     through a server that keeps them on disk    │ NATS JetStream, synced always and by default
//!  redis    through Redis                               │ three scripts and two messages by plain code; BullMQ
//!  parked   the same with ten thousand calls that nobody serves
//! ```
//!
//! Each is measured with one call under way and with sixty-four. Measurements take turns. Whoever calls and
//! whoever answers are two connections of one process, for us and for every peer.

mod chain;
mod ours;
mod peers;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use handoff_probe::Load;
use handoff_sdk::calls::{ChannelSettings, Redis};
use handoff_sdk::{Client, Options};
use tokio::runtime::Runtime;

use self::ours::{Ours, Way};
use self::peers::{Bull, Nats};
use crate::bystanders::Ticks;
use crate::peers::{Peer, Running, find};
use crate::report::{Goal, Report, Settings};
use crate::samples::Samples;
use crate::server::Server;
use crate::site::{Corner, Site};
use crate::{Failed, Row};

/// Calls under way where there are many.
const MANY: usize = 64;
/// Calls that nobody serves.
const PARKED: usize = 10_000;
/// Bytes that go there and come back.
const PAYLOAD_BYTES: usize = 100;
/// What a pair of stock peers comes to in a second, one call after the other.
const STOCK_RATE: f64 = 1.7;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    parent: PathBuf,
    time: Duration,
    repeats: u32,
    parked: usize,
    needed_bytes: u64,
    /// One part only.
    pub only: Option<Part>,
    /// Where peers are, if not on the PATH.
    pub peers: Option<PathBuf>,
}

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A server that keeps calls in memory.
    Memory,
    /// A server that keeps them on disk.
    Disk,
    /// Through Redis.
    Redis,
    /// Beside calls that nobody serves.
    Parked,
}

impl Plan {
    /// Measurements of this length below a directory.
    #[must_use]
    pub fn of(parent: &Path, time: Duration, repeats: u32) -> Self {
        let parent = parent.to_owned();
        let needed_bytes = 6 << 30;
        Self { parent, time, repeats, parked: PARKED, needed_bytes, only: None, peers: None }
    }

    /// Short and small, to see that it works.
    #[must_use]
    pub fn quick(parent: &Path) -> Self {
        Self {
            parked: 500,
            needed_bytes: 2 << 30,
            ..Self::of(parent, Duration::from_millis(300), 1)
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut run = Run { plan, site: &site, program, talk, runtime, rows: Vec::new() };
    let house = run.house()?;
    if plan.has(Part::Memory) {
        run.memory(&house)?;
    }
    if plan.has(Part::Disk) {
        run.disk(&house)?;
    }
    let redis = run.peer(Peer::RedisMemory, "redis")?;
    if plan.has(Part::Redis)
        && let Some(redis) = &redis
    {
        run.redis(redis)?;
    }
    if plan.has(Part::Parked) {
        run.parked("memory", &house.way("parked"))?;
        if let Some(redis) = &redis {
            run.parked("redis", &Way::Redis(through(&redis.running)?, "parked"))?;
        }
    }
    let others = Ticks::now().zip(begun).map(|(now, begun)| now.others_since(begun));
    let others = others.into_iter().collect();
    run.rows.push(Row::new("bystanders", "processors busy outside this client", "%", &others));
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: usize::try_from(plan.repeats).unwrap_or(usize::MAX),
        payload_bytes: PAYLOAD_BYTES,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "calls", settings, rows: run.rows })
}

/// A figure of one repetition.
#[derive(Clone, Copy, Debug)]
struct Figures {
    p50_micros: f64,
    rate: f64,
}

impl Figures {
    fn of(load: &Load) -> Self {
        Self { p50_micros: load.micros_at(0.5), rate: load.rate() }
    }
}

/// What was measured with so many under way, time after time.
type Measure<'a> = dyn FnMut(usize, Duration) -> io::Result<Figures> + 'a;

/// Somebody who is measured, and what came of it.
struct Turn<'a> {
    name: &'static str,
    measure: Box<Measure<'a>>,
    p50: Samples,
    alone: Samples,
    many: Samples,
}

impl<'a> Turn<'a> {
    fn new(
        name: &'static str,
        measure: impl FnMut(usize, Duration) -> io::Result<Figures> + 'a,
    ) -> Self {
        let (p50, alone, many) = Default::default();
        Self { name, measure: Box::new(measure), p50, alone, many }
    }

    fn take(&mut self, time: Duration) -> io::Result<()> {
        let one = (self.measure)(1, time)?;
        self.p50.push(one.p50_micros);
        self.alone.push(one.rate);
        self.many.push((self.measure)(MANY, time)?.rate);
        Ok(())
    }

    fn row_p50(&self, key: &str) -> Row {
        let name = format!("{}, one under way, p50", self.name);
        Row::new(format!("{key}_p50"), name, "µs", &self.p50)
    }

    fn row_many(&self, key: &str) -> Row {
        Row::new(
            format!("{key}_many"),
            format!("{}, {MANY} under way", self.name),
            "/s",
            &self.many,
        )
    }
}

/// A peer's server. Its directory goes with it.
struct Beside {
    running: Running,
    _corner: Corner,
}

/// A server of ours.
struct House {
    _server: Server,
    client: Client,
    _corner: Corner,
}

impl House {
    fn way(&self, channel: &'static str) -> Way {
        Way::Server(self.client.clone(), channel)
    }
}

struct Run<'a> {
    plan: &'a Plan,
    site: &'a Site,
    program: &'a Path,
    talk: &'a dyn Fn(&str),
    runtime: Runtime,
    rows: Vec<Row>,
}

impl Run<'_> {
    fn house(&self) -> Result<House, Failed> {
        let corner = self.site.corner("house")?;
        let server = Server::start(self.program, &corner.file("data"))?;
        let client = Client::new(Options::new(format!("http://{}", server.http())));
        let client = client.map_err(io::Error::other)?;
        for (channel, durability) in [("memory", "memory"), ("disk", "disk"), ("parked", "memory")]
        {
            let durability = Some(durability.to_owned());
            let settings = ChannelSettings { durability, ..ChannelSettings::default() };
            let described = self.runtime.block_on(client.calls().describe(channel, &settings));
            described.map_err(io::Error::other)?;
        }
        Ok(House { _server: server, client, _corner: corner })
    }

    /// A peer's server, if it is installed.
    fn peer(&self, peer: Peer, name: &str) -> Result<Option<Beside>, Failed> {
        let Some(program) = peer.find(self.plan.peers.as_deref()) else {
            (self.talk)(&format!("{} is not installed", peer.name()));
            return Ok(None);
        };
        let corner = self.site.corner(name)?;
        let running = Running::start(peer, &program, &corner.file("data"))?;
        Ok(Some(Beside { running, _corner: corner }))
    }

    /// The program that speaks to NATS, if it is installed.
    fn nats_client(&self) -> Option<PathBuf> {
        let found = find("handoff-bench-nats", self.plan.peers.as_deref());
        if found.is_none() {
            (self.talk)("handoff-bench-nats is not installed: ./bench/peers builds it");
        }
        found
    }

    /// All take turns, as often as is planned.
    fn turns(&self, turns: &mut [Turn<'_>]) -> io::Result<()> {
        for round in 1..=self.plan.repeats {
            for turn in &mut *turns {
                (self.talk)(&format!("{}: {round} of {}", turn.name, self.plan.repeats));
                turn.take(self.plan.time)?;
            }
        }
        Ok(())
    }

    fn memory(&mut self, house: &House) -> Result<(), Failed> {
        let ours = Ours::start(&self.runtime, &house.way("memory"), MANY)?;
        let mut turns = vec![Turn::new("server, in memory", |many, time| {
            ours.measure(&self.runtime, many, time)
        })];
        let client = self.nats_client();
        let nats = self.peer(Peer::NatsDefault, "nats")?;
        let nats = nats.as_ref().zip(client);
        if let Some((nats, client)) = &nats {
            let nats = Nats::new(client, nats.running.address, "core");
            turns.push(Turn::new("NATS", move |many, time| nats.measure(many, time)));
        }
        self.turns(&mut turns)?;
        let (ours_rows, peers) = rows(&turns, &["memory", "nats"]);
        let [p50, many] = ours_rows;
        let (p50, many) = match turns.get(1) {
            Some(nats) => (
                p50.floor("NATS", &nats.p50).goal(Goal::WithinFloor(1.5)),
                many.floor("NATS", &nats.many).goal(Goal::OfFloor(1.0)),
            ),
            None => (p50, many),
        };
        drop(turns);
        self.rows.extend([p50, many].into_iter().chain(peers));
        Ok(())
    }

    fn disk(&mut self, house: &House) -> Result<(), Failed> {
        let ours = Ours::start(&self.runtime, &house.way("disk"), MANY)?;
        let mut turns = vec![Turn::new("server, on disk", |many, time| {
            ours.measure(&self.runtime, many, time)
        })];
        let client = self.nats_client();
        let always = self.peer(Peer::NatsAlways, "nats-always")?;
        let usual = self.peer(Peer::NatsDefault, "nats-default")?;
        let names = ["JetStream, synced always", "JetStream, default (not durable)"];
        for (name, beside) in names.into_iter().zip([&always, &usual]) {
            if let Some((beside, client)) = beside.as_ref().zip(client.as_ref()) {
                let nats = Nats::new(client, beside.running.address, "jetstream");
                turns.push(Turn::new(name, move |many, time| nats.measure(many, time)));
            }
        }
        self.turns(&mut turns)?;
        let ([p50, many], peers) = rows(&turns, &["disk", "jetstream_always", "jetstream_default"]);
        let many = match turns.get(1) {
            Some(always) => many.floor("JetStream always", &always.many).goal(Goal::OfFloor(2.0)),
            None => many,
        };
        let beside = turns.first().zip(turns.get(2)).map(|(ours, usual)| {
            let row = ours.row_many("disk_beside_default");
            row.floor("JetStream default", &usual.many).goal(Goal::OfFloor(1.0))
        });
        drop(turns);
        self.rows.extend([p50, many].into_iter().chain(beside).chain(peers));
        Ok(())
    }

    fn redis(&mut self, redis: &Beside) -> Result<(), Failed> {
        let address = redis.running.address;
        let ours = Ours::start(&self.runtime, &Way::Redis(through(&redis.running)?, "work"), MANY)?;
        let ping = chain::ping(address, self.plan.time.min(Duration::from_secs(1)))?;
        let mut turns = vec![
            Turn::new("through Redis", |many, time| ours.measure(&self.runtime, many, time)),
            Turn::new("three scripts and two messages", |_, time| {
                self.runtime.block_on(chain::measure(address, time))
            }),
        ];
        match Bull::find(self.plan.peers.as_deref()) {
            Some(bull) => {
                turns.push(Turn::new("BullMQ", move |many, time| bull.measure(address, many, time)))
            }
            None => (self.talk)("BullMQ is not installed: ./bench/peers fetches it"),
        }
        self.turns(&mut turns)?;
        let ([p50, many], mut peers) = rows(&turns, &["redis", "chain", "bullmq"]);
        // A chain has one call under way and no more.
        peers.retain(|row| row.key != "chain_many");
        let p50 = match turns.get(1) {
            Some(chain) => p50.floor("scripts, messages", &chain.p50).goal(Goal::WithinFloor(2.0)),
            None => p50,
        };
        let many = match turns.get(2) {
            Some(bull) => many.floor("BullMQ", &bull.many).goal(Goal::OfFloor(2.0)),
            None => many,
        };
        let alone = turns.first().map(|ours| {
            let name = "through Redis, one after the other";
            let row = Row::new("redis_alone", name, "/s", &ours.alone);
            row.goal(Goal::AtLeast(1_000.0 * STOCK_RATE))
        });
        drop(turns);
        let ping =
            Row::new("redis_ping_p50", "Redis PING, p50", "µs", &[ping].into_iter().collect());
        self.rows.extend([p50, many].into_iter().chain(alone).chain([ping]).chain(peers));
        Ok(())
    }

    /// How much slower calls are beside many that nobody serves.
    fn parked(&mut self, key: &str, way: &Way) -> Result<(), Failed> {
        let ours = Ours::start(&self.runtime, way, MANY)?;
        let time = self.plan.time;
        let (mut before, mut beside) = (Samples::default(), Samples::default());
        (self.talk)(&format!("{key}: nothing parked"));
        for _ in 0..self.plan.repeats {
            before.push(ours.measure(&self.runtime, MANY, time)?.rate);
        }
        (self.talk)(&format!("{key}: {} calls that nobody serves", self.plan.parked));
        ours.park(&self.runtime, self.plan.parked)?;
        for _ in 0..self.plan.repeats {
            beside.push(ours.measure(&self.runtime, MANY, time)?.rate);
        }
        let name = format!("{key}, {MANY} under way beside {} parked", self.plan.parked);
        let row = Row::new(format!("{key}_parked"), name, "/s", &beside);
        self.rows.push(row.floor("nothing parked", &before).goal(Goal::OfFloor(0.8)));
        Ok(())
    }
}

/// The rows of the first, which is ours, and of all others.
fn rows(turns: &[Turn<'_>], keys: &[&str]) -> ([Row; 2], Vec<Row>) {
    let mut all = turns.iter().zip(keys).map(|(turn, key)| [turn.row_p50(key), turn.row_many(key)]);
    let none =
        || [Row::new("", "", "", &Samples::default()), Row::new("", "", "", &Samples::default())];
    let ours = all.next().unwrap_or_else(none);
    (ours, all.flatten().collect())
}

fn through(redis: &Running) -> io::Result<Redis> {
    Redis::new(format!("redis://{}", redis.address)).map_err(io::Error::other)
}
