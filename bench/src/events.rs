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
//! million idle events are there all the while.

mod http;
mod listeners;
mod register;
mod server;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use handoff_probe::{now, overwrite, zero_filled};

use self::listeners::{Due, Lateness, Listeners};
use self::register::{Batch, Registered};
use self::server::Server;
use crate::bystanders::Ticks;
use crate::report::{Goal, Report, Settings};
use crate::samples::Samples;
use crate::site::Site;
use crate::{Failed, Row};

const DESCRIPTION_BYTES: usize = 32;
const IDLE_TYPE: &str = "idle";
const DAY_SECS: f64 = 86_400.0;

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

/// Measures, and tells on the way what it is doing.
///
/// # Errors
/// See [`Failed`].
pub fn run(plan: &Plan, program: &Path, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    let site = Site::make(&plan.parent, plan.needed_bytes)?;
    let begun = Ticks::now();
    let corner = site.corner("events")?;
    let mut rows = Vec::new();

    talk("floor: raw sync");
    let file_bytes = 16 << 20;
    let file = zero_filled(&corner.file("raw"), file_bytes)?;
    let raw = overwrite(&file, file_bytes, 4096, plan.time.min(Duration::from_secs(2)))?;
    let raw_p50 = once(raw.micros_at(0.5));
    rows.push(Row::new("raw_sync_p50", "raw sync, p50", "µs", &raw_p50));

    talk("server: starting");
    let data = corner.file("data");
    let mut server = Server::start(program, &data)?;
    let floor = http::healthz(server.http(), plan.time.min(Duration::from_secs(3)))?;
    let healthz_p50 = once(floor.micros_at(0.5));
    rows.push(Row::new("healthz_p50", "GET /healthz, p50", "µs", &healthz_p50));
    rows.push(Row::new("healthz_p99", "GET /healthz, p99", "µs", &once(floor.micros_at(0.99))));
    rows.push(Row::new("healthz_rate", "GET /healthz, one connection", "/s", &once(floor.rate())));

    talk("register: one at a time");
    let single = register::one_at_a_time(server.events(), plan.time.min(Duration::from_secs(3)))?;
    let sum = raw_p50.median().zip(healthz_p50.median()).map(|(raw, healthz)| raw + healthz);
    rows.push(
        Row::new(
            "register_1_p50",
            "register, one in flight, p50",
            "µs",
            &once(single.micros_at(0.5)),
        )
        .floor("sync + healthz", &sum.into_iter().collect()),
    );
    rows.push(Row::new(
        "register_1_p99",
        "register, one in flight, p99",
        "µs",
        &once(single.micros_at(0.99)),
    ));

    talk(&format!("register: {} events, pipelined", plan.events));
    let before = server.resident_bytes();
    let flushes = site.flushes.and_then(|flushes| flushes.count());
    let Registered { took, .. } = register::pipelined(server.events(), plan.events)?;
    let flushed = site.flushes.and_then(|flushes| flushes.count()).zip(flushes);
    let count = f64::from(plan.events);
    rows.push(
        Row::new("register_rate", "register, pipelined", "/s", &once(count / took.as_secs_f64()))
            .floor("healthz, one connection", &once(floor.rate())),
    );
    let per_ack = flushed.map(|(after, before)| after.saturating_sub(before) as f64 / count);
    rows.push(Row::new(
        "register_flushes",
        "device flushes per acknowledgement",
        "",
        &per_ack.into_iter().collect(),
    ));
    let memory = server.resident_bytes().zip(before);
    let each = memory.map(|(after, before)| after.saturating_sub(before) as f64 / count);
    rows.push(
        Row::new("event_bytes", "memory of an event", "B", &each.into_iter().collect())
            .goal(Goal::AtMost(300.0)),
    );

    let idle = server.processor_share(plan.time.min(Duration::from_secs(5)));
    rows.push(Row::new(
        "idle_processor",
        "processor of the idle server",
        "%",
        &idle.into_iter().collect(),
    ));

    talk(&format!(
        "lateness: {} sessions, {} occurrences/s, each to one",
        plan.sessions, plan.single_rate
    ));
    let mut listeners = Listeners::connect(server.events(), plan.sessions)?;
    listeners.subscribe(|session| format!("to-{session}"))?;
    let sessions = plan.sessions;
    let single = Batch::paced(plan.single_rate, move |n| format!("to-{}", n % sessions));
    let lateness = measure(&server, &mut listeners, &single, plan.single_rate, plan.time)?;
    rows.extend(lateness_rows("single", "each to one session", &lateness, Some(5.0)));
    let slow = http::healthz(server.http(), Duration::from_secs(1))?;
    rows.push(Row::new(
        "healthz_loaded_p99",
        "GET /healthz meanwhile, p99",
        "µs",
        &once(slow.micros_at(0.99)),
    ));
    register::delete_types(server.events(), (0..sessions).map(|n| format!("to-{n}")).collect())?;

    talk(&format!("fan-out: {} occurrences/s, each to all {}", plan.fanned_rate, plan.sessions));
    listeners.subscribe(|_| "to-all".to_owned())?;
    let fanned = Batch::paced(plan.fanned_rate, |_| "to-all".to_owned());
    let expected = plan.fanned_rate * plan.sessions;
    let lateness = measure(&server, &mut listeners, &fanned, expected, plan.time)?;
    rows.extend(lateness_rows("fanned", "each to all sessions", &lateness, Some(5.0)));
    register::delete_types(server.events(), vec!["to-all".to_owned()])?;
    drop(listeners);

    talk("recovery: kill -9, start again");
    let mut recoveries = Samples::default();
    for _ in 0..3 {
        server.kill()?;
        let begun = now();
        server = Server::start(program, &data)?;
        recoveries.push(begun.elapsed().as_secs_f64());
    }
    let there = http::events(server.http())?;
    if there < u64::from(plan.events) {
        return Err(Failed::Broke(std::io::Error::other(format!(
            "{there} events after the restart, {} were acknowledged",
            plan.events
        ))));
    }
    rows.push(
        Row::new("recovery_seconds", "kill -9 to ready", "s", &recoveries).goal(Goal::AtMost(3.0)),
    );
    let memory = server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
    rows.push(Row::new(
        "recovered_memory",
        "memory of the server then",
        "MB",
        &memory.into_iter().collect(),
    ));
    server.stop()?;

    let others = Ticks::now().zip(begun).map(|(now, begun)| now.others_since(begun));
    // The server is another process and counts as somebody else.
    rows.push(Row::new(
        "bystanders",
        "processors busy outside this client",
        "%",
        &others.into_iter().collect(),
    ));
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: 1,
        payload_bytes: DESCRIPTION_BYTES,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "events", settings, rows })
}

/// Registers events that occur once a second and listens to them.
fn measure(
    server: &Server,
    listeners: &mut Listeners,
    batch: &Batch,
    rate: u32,
    time: Duration,
) -> Result<Lateness, Failed> {
    let ids = register::paced(server.events(), batch)?;
    let dues: Vec<Due> = http::dues(server.http(), &ids)?;
    Ok(listeners.listen(&dues, rate, time)?)
}

fn lateness_rows(key: &str, name: &str, lateness: &Lateness, goal_ms: Option<f64>) -> Vec<Row> {
    let row = |what: &str, share: f64| {
        let millis = once(lateness.load.micros_at(share) / 1_000.0);
        Row::new(format!("{key}_{what}"), format!("lateness, {name}, {what}"), "ms", &millis)
    };
    let p99 = row("p99", 0.99);
    vec![
        Row::new(
            format!("{key}_rate"),
            format!("notifications, {name}"),
            "/s",
            &once(lateness.load.rate()),
        )
        .floor("scheduled", &once(lateness.scheduled)),
        row("p50", 0.5),
        goal_ms.map_or(p99.clone(), |goal| p99.goal(Goal::AtMost(goal))),
        row("p99.9", 0.999),
        Row::new(
            format!("{key}_out_of_order"),
            format!("out of order or twice, {name}"),
            "",
            &once(lateness.disorder as f64),
        )
        .goal(Goal::AtMost(0.0)),
    ]
}

fn once(value: f64) -> Samples {
    Samples::from_iter([value])
}
