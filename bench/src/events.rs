//! `bench events`: the events room of a real server process, through its sockets.
//!
//! ```text
//!  floors      GET /healthz, one at a time │ raw sync of the same disk
//!  register    one at a time │ many sessions, pipelined, up to a million events: rate, memory
//!  lateness    1,000 sessions with ten events each, each event once a second
//!  fan-out     100 events, each once a second, to all 1,000 sessions
//!  recovery    kill -9, start again, until it says that it is ready
//! ```
//!
//! Lateness is what the client sees: from the instant an occurrence was due, as the API tells it,
//! to the instant its bytes were read. Client and server share one machine and its clock; the
//! million idle events are there all the while. On a machine that lends its processors out, plain
//! synced writes come tens of milliseconds late now and then; the goal is for the median
//! of stretches of a quarter second, the whole stands beside it.

mod http;
mod listeners;
mod plain;
mod register;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use handoff_probe::{now, overwrite, zero_filled};

use self::listeners::{Due, Lateness, Listeners};
use self::plain::Plain;
use self::register::Batch;
use crate::bystanders::Ticks;
use crate::report::{Goal, Report, Settings};
use crate::samples::Samples;
use crate::server::{Server, settled};
use crate::site::Site;
use crate::{Failed, Row};

const DESCRIPTION_BYTES: usize = 32;
const IDLE_TYPE: &str = "idle";
const DAY_SECS: f64 = 86_400.0;
/// Of the file that the floors overwrite.
const RAW_BYTES: u64 = 16 << 20;
/// Of the events that are listened to.
const PERIOD_SECS: f64 = 1.0;
/// So much behind one thread that syncs and writes to as many sockets, and no more.
const LATENESS_MILLIS_MAX: f64 = 5.0;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    parent: PathBuf,
    time: Duration,
    events: u32,
    sessions: u32,
    /// Occurrences a second that match one session each.
    single_rate: u32,
    /// Occurrences a second that match all of them.
    fanned_rate: u32,
    needed_bytes: u64,
}

impl Plan {
    /// Measurements of this length below a directory.
    #[must_use]
    pub fn of(parent: &Path, time: Duration, events: u32) -> Self {
        Self {
            parent: parent.to_owned(),
            time,
            events,
            sessions: 1_000,
            single_rate: 10_000,
            fanned_rate: 100,
            needed_bytes: 4 << 30,
        }
    }

    /// Short and small, to see that it works.
    #[must_use]
    pub fn quick(parent: &Path) -> Self {
        Self {
            sessions: 50,
            single_rate: 200,
            fanned_rate: 10,
            needed_bytes: 2 << 30,
            ..Self::of(parent, Duration::from_secs(2), 5_000)
        }
    }
}

/// To how many sessions an occurrence goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fan {
    One,
    All,
}

impl Fan {
    fn key(self) -> &'static str {
        match self {
            Self::One => "single",
            Self::All => "fanned",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::One => "each to one session",
            Self::All => "each to all sessions",
        }
    }

    /// The type that a session listens to, and that the `n`-th event has.
    fn type_of(self, n: u32, sessions: u32) -> String {
        match self {
            Self::One => format!("to-{}", n % sessions),
            Self::All => "to-all".to_owned(),
        }
    }
}

/// Measures, and tells on the way what it is doing.
///
/// # Errors
/// See [`Failed`].
pub fn run(plan: &Plan, program: &Path, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    let site = Site::make(&plan.parent, plan.needed_bytes)?;
    let begun = Ticks::now();
    let corner = site.corner("events")?;
    let data = corner.file("data");
    let mut run = Run { plan, site: &site, talk, rows: Vec::new(), raw: 0.0, healthz: 0.0 };
    run.raw_sync(&corner.file("raw"))?;
    let mut server = Server::start(program, &data)?;
    run.healthz(&server)?;
    run.register(&server)?;
    run.settle(&data);
    run.idle(&server);
    let raw = corner.file("raw");
    run.listen(&server, &raw, Fan::One, plan.single_rate)?;
    run.listen(&server, &raw, Fan::All, plan.fanned_rate)?;
    talk("recovery: kill -9, start again");
    let mut recoveries = Samples::default();
    for _ in 0..3 {
        server.kill()?;
        let begun = now();
        server = Server::start(program, &data)?;
        recoveries.push(begun.elapsed().as_secs_f64());
    }
    run.recovered(&server, &recoveries)?;
    server.stop()?;
    let others = Ticks::now().zip(begun).map(|(now, begun)| now.others_since(begun));
    // The server is another process and counts as somebody else.
    run.row("bystanders", "processors busy outside this client", "%", others);
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: 1,
        payload_bytes: DESCRIPTION_BYTES,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "events", settings, rows: run.rows })
}

struct Run<'a> {
    plan: &'a Plan,
    site: &'a Site,
    talk: &'a dyn Fn(&str),
    rows: Vec<Row>,
    /// The floors, p50 in microseconds.
    raw: f64,
    healthz: f64,
}

impl Run<'_> {
    fn row(&mut self, key: &str, name: &str, unit: &'static str, value: impl Into<Option<f64>>) {
        self.rows.push(row(key, name, unit, value));
    }

    /// No longer than this, where a short time tells as much.
    fn at_most(&self, secs: u64) -> Duration {
        self.plan.time.min(Duration::from_secs(secs))
    }

    fn raw_sync(&mut self, path: &Path) -> Result<(), Failed> {
        (self.talk)("floor: raw sync");
        let file = zero_filled(path, RAW_BYTES)?;
        let raw = overwrite(&file, RAW_BYTES, 4096, self.at_most(2))?;
        self.raw = raw.micros_at(0.5);
        self.row("raw_sync_p50", "raw sync, p50", "µs", self.raw);
        Ok(())
    }

    fn healthz(&mut self, server: &Server) -> Result<(), Failed> {
        (self.talk)("floor: GET /healthz");
        let load = http::healthz(server.http(), self.at_most(3))?;
        self.healthz = load.micros_at(0.5);
        self.row("healthz_p50", "GET /healthz, p50", "µs", self.healthz);
        self.row("healthz_p99", "GET /healthz, p99", "µs", load.micros_at(0.99));
        self.row("healthz_rate", "GET /healthz, one connection", "/s", load.rate());
        Ok(())
    }

    fn register(&mut self, server: &Server) -> Result<(), Failed> {
        (self.talk)("register: one at a time");
        let single = register::one_at_a_time(server.events(), self.at_most(3))?;
        let floor = once(self.raw + self.healthz);
        let p50 =
            row("register_1_p50", "register, one in flight, p50", "µs", single.micros_at(0.5));
        self.rows.push(p50.floor("sync + healthz", &floor));
        self.row("register_1_p99", "register, one in flight, p99", "µs", single.micros_at(0.99));

        let events = self.plan.events;
        (self.talk)(&format!("register: {events} events, pipelined"));
        let flushes = || self.site.flushes.and_then(|flushes| flushes.count());
        let (memory, flushed) = (server.resident_bytes(), flushes());
        let took = register::pipelined(server.events(), events)?;
        let per_event = |after: Option<u64>, before: Option<u64>| {
            let (after, before) = after.zip(before)?;
            Some(after.saturating_sub(before) as f64 / f64::from(events))
        };
        let flushed = per_event(flushes(), flushed);
        let each = per_event(server.resident_bytes(), memory);
        let rate = f64::from(events) / took.as_secs_f64();
        self.row("register_rate", "register, pipelined", "/s", rate);
        self.row("register_flushes", "device flushes per acknowledgement", "", flushed);
        let bytes = row("event_bytes", "memory of an event", "B", each);
        self.rows.push(bytes.goal(Goal::AtMost(300.0)));
        Ok(())
    }

    /// Waits until the checkpoint of what was just registered is written, if there is one, and the
    /// disk has it: otherwise its hundreds of megabytes are what is measured next.
    fn settle(&self, data: &Path) {
        (self.talk)("settling: until no checkpoint is under way");
        settled(data, "events");
    }

    fn idle(&mut self, server: &Server) {
        (self.talk)("idle");
        let share = server.processor_share(self.at_most(5));
        self.row("idle_processor", "processor of the idle server", "%", share);
    }

    fn listen(&mut self, server: &Server, raw: &Path, fan: Fan, rate: u32) -> Result<(), Failed> {
        let sessions = self.plan.sessions;
        let name = fan.name();
        (self.talk)(&format!("lateness: {rate} occurrences/s, {name} of {sessions}"));
        let disk = File::options().write(true).open(raw)?;
        let plain = Plain::start(disk, sessions, rate, fan)?;
        let mut listeners = Listeners::connect(plain.address(), sessions)?;
        listeners.subscribe(|n| fan.type_of(n, sessions))?;
        let floor = listeners.listen(&plain.begin(), self.plan.time)?;
        drop(plain);

        let mut listeners = Listeners::connect(server.events(), sessions)?;
        listeners.subscribe(|n| fan.type_of(n, sessions))?;
        let batch = Batch::paced(rate, move |n| fan.type_of(n, sessions));
        let ids = register::paced(server.events(), &batch)?;
        let dues: Vec<Due> = http::dues(server.http(), &ids)?;
        let lateness = listeners.listen(&dues, self.plan.time)?;
        if fan == Fan::One {
            let loaded = http::healthz(server.http(), Duration::from_secs(1))?;
            let p99 = loaded.micros_at(0.99);
            self.row("healthz_loaded_p99", "GET /healthz meanwhile, p99", "µs", p99);
        }
        let types: BTreeSet<String> = (0..rate).map(|n| fan.type_of(n, sessions)).collect();
        register::delete_types(server.events(), types.into_iter().collect())?;
        self.lateness(fan, rate, &lateness, &floor);
        Ok(())
    }

    fn lateness(&mut self, fan: Fan, rate: u32, lateness: &Lateness, floor: &Lateness) {
        let (key, name) = (fan.key(), fan.name());
        let scheduled = rate * if fan == Fan::All { self.plan.sessions } else { 1 };
        let told = row(
            &format!("{key}_rate"),
            &format!("notifications, {name}"),
            "/s",
            lateness.load.rate(),
        );
        self.rows.push(told.floor("scheduled", &once(f64::from(scheduled))));
        let floor_p99 = floor.stretches.median().unwrap_or_default();
        let stretch = Row::new(
            format!("{key}_stretch_p99"),
            format!("lateness, {name}, p99 of the median stretch"),
            "ms",
            &lateness.stretches,
        );
        let goal = LATENESS_MILLIS_MAX + floor_p99;
        let stretch = stretch.floor("sync + writes", &floor.stretches);
        self.rows.push(stretch.goal(Goal::AtMost(goal)));
        for (what, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let millis = |of: &Lateness| of.load.micros_at(share) / 1_000.0;
            let name = format!("lateness, {name}, {what}");
            let row = row(&format!("{key}_{what}"), &name, "ms", millis(lateness));
            self.rows.push(row.floor("sync + writes", &once(millis(floor))));
        }
        let disorder = lateness.disorder as f64;
        let name = format!("out of order or twice, {name}");
        let row = row(&format!("{key}_out_of_order"), &name, "", disorder);
        self.rows.push(row.goal(Goal::AtMost(0.0)));
    }

    fn recovered(&mut self, server: &Server, recoveries: &Samples) -> Result<(), Failed> {
        let there = http::events(server.http())?;
        if there < u64::from(self.plan.events) {
            return Err(Failed::Broke(std::io::Error::other(format!(
                "{there} events after the restart, {} were acknowledged",
                self.plan.events
            ))));
        }
        let row = Row::new("recovery_seconds", "kill -9 to ready", "s", recoveries);
        self.rows.push(row.goal(Goal::AtMost(3.0)));
        let memory = server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        self.row("recovered_memory", "memory of the server then", "MB", memory);
        Ok(())
    }
}

fn row(key: &str, name: &str, unit: &'static str, value: impl Into<Option<f64>>) -> Row {
    Row::new(key, name, unit, &value.into().into_iter().collect())
}

fn once(value: f64) -> Samples {
    Samples::from_iter([value])
}
