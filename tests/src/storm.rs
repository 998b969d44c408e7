//! Calls on Redis that go on while something breaks, and what must be true of them afterwards.
//!
//! [`rage`] draws one thing after the other that breaks; the suite has a slice of each.

mod link;

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::{ChannelName, Outcome};
use handoff_sim::dice::Dice;
use handoff_store_redis::{Client, Job, Options, Request, Service};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use self::link::Link;
use crate::redis::{Said, Server, Setup};

/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(50);

/// How many call at once.
const CALLERS: usize = 8;

/// Things that break before everything is looked at.
const FAULTS: usize = 5;

/// A runtime for clients.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// A channel of this name.
///
/// # Panics
/// When that is no name.
#[must_use]
pub fn channel(text: &str) -> ChannelName {
    text.parse().expect("a channel")
}

/// Waits for something that must come.
///
/// # Panics
/// When it does not.
pub async fn must<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(came) => came,
        Err(_) => panic!("{what} does not come"),
    }
}

/// The params of every call that a handler began, in order.
pub type Begun = Arc<Mutex<Vec<String>>>;

fn lock(begun: &Begun) -> MutexGuard<'_, Vec<String>> {
    begun.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Echoes what comes, and notes that it came.
#[must_use]
pub fn echo(name: &str, concurrency: u32, begun: &Begun) -> Service {
    let begun = Arc::clone(begun);
    Service::new(channel(name), concurrency, move |job: Job| {
        lock(&begun).push(String::from_utf8_lossy(&job.params).into_owned());
        async move { Ok(job.params) }
    })
}

/// A client that serves this.
///
/// # Panics
/// When it cannot connect.
pub async fn client(address: &str, services: Vec<Service>) -> Client {
    let connected = Client::connect(address, Options::default(), services).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

/// Calls, and takes nothing but an answer.
///
/// # Panics
/// When another end comes, or none.
pub async fn answer(client: &Client, name: &str, params: &str) -> String {
    let request = Request::new(channel(name), Bytes::from(params.to_owned()));
    let answer = must("an answer", client.call(request)).await;
    match answer.map(|answer| answer.outcome) {
        Ok(Outcome::Answer(body)) => String::from_utf8_lossy(&body).into_owned(),
        other => panic!("no answer to {params}: {other:?}"),
    }
}

/// Calls without a break until what is done meanwhile is over, and until each call that was begun is
/// answered. Every answer is the one to its own call.
///
/// # Panics
/// When one is not, or does not come.
pub async fn through<T>(caller: &Client, what: impl Future<Output = T>) -> (T, u64) {
    let (go_on, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (caller, go_on, asked) = (caller.clone(), Arc::clone(&go_on), Arc::clone(&asked));
        callers.spawn(async move {
            while go_on.load(Ordering::SeqCst) {
                let n = asked.fetch_add(1, Ordering::SeqCst).to_string();
                assert_eq!(answer(&caller, "work", &n).await, n, "an answer to another call");
            }
        });
    }
    let came = what.await;
    go_on.store(false, Ordering::SeqCst);
    while let Some(one) = must("every answer", callers.join_next()).await {
        one.expect("every answer is right");
    }
    (came, asked.load(Ordering::SeqCst))
}

/// Every call was begun, and none twice.
///
/// # Panics
/// When that is not so.
pub fn each_ran_once(begun: &Begun, asked: u64) {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for params in lock(begun).iter() {
        *times.entry(params.clone()).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "these ran more than once: {twice:?}");
    assert_eq!(times.len() as u64, asked, "some never ran");
}

/// Each of so many clients has three connections and one subscription to its pings, no more.
///
/// # Panics
/// When there are others for long.
pub async fn no_connection_is_left_over(server: &Server, clients: usize) {
    let counted = async {
        loop {
            let list = server.ask(&["CLIENT", "LIST"]);
            let lines = list.text().lines().filter(|line| line.contains("name=handoff-")).count();
            if lines == clients * 3 {
                return;
            }
            assert!(lines <= clients * 6, "connections pile up: {}", list.text());
            tokio::task::yield_now().await;
        }
    };
    must("three connections for each client", counted).await;
}

/// Nothing is open, and whatever is kept of calls will lapse.
///
/// # Panics
/// When that is not so.
pub fn no_key_is_left_over(server: &Server) {
    assert_eq!(server.ask(&["ZCARD", "origami:x:due"]), Said::Number(0), "calls are still open");
    for list in ["pending", "request_ack", "executing", "response_ack"] {
        let list = format!("origami:requests:{list}_pool:list");
        assert_eq!(server.ask(&["LLEN", &list]), Said::Number(0), "{list}");
    }
    let mut wire = server.connect();
    for key in wire.ask(&["KEYS", "origami:requests:list:*"]).texts() {
        let Said::Number(lapses) = wire.ask(&["PTTL", key]) else { panic!("no time") };
        assert!(lapses > 0, "{key} is kept for ever");
    }
}

/// Closes the connections that play this role.
pub fn close_connections(server: &Server, role: &str) {
    let all = server.ask(&["CLIENT", "LIST"]);
    let name = format!("name=handoff-{role}");
    for line in all.text().lines().filter(|line| line.contains(&name)) {
        let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next());
        drop(server.ask(&["CLIENT", "KILL", "ID", id.unwrap_or_default()]));
    }
}

/// Both end, and leave nothing open.
///
/// # Panics
/// When something is.
pub async fn stopped(server: &Server, caller: Client, consumer: Client) {
    assert!(caller.stop(Duration::from_secs(20)).await, "the caller has something left");
    assert!(consumer.stop(Duration::from_secs(20)).await, "the consumer has something left");
    no_key_is_left_over(server);
}

/// A fault lasts as long as the test says; nothing is expected to have happened by its end.
pub async fn lasts(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}

/// What broke, and what went through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Calls that were answered, each once.
    pub answered: u64,
    /// Links that swallowed everything for a while.
    pub holes: u64,
    /// Servers frozen.
    pub freezes: u64,
    /// Servers killed.
    pub kills: u64,
    /// Scripts forgotten.
    pub flushes: u64,
    /// Times that all connections of a role were closed.
    pub closed: u64,
}

impl AddAssign for Weather {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.holes += other.holes;
        self.freezes += other.freezes;
        self.kills += other.kills;
        self.flushes += other.flushes;
        self.closed += other.closed;
    }
}

/// One server whose writes are on disk, a caller and a consumer with a link of their own each, and one
/// thing after the other that breaks. Every call is answered and runs once.
///
/// # Panics
/// When that is not so.
#[must_use]
pub fn rage(seed: u64) -> Weather {
    let mut dice = Dice::new(seed);
    let mut server = Server::with(Setup { append_only: true, ..Setup::default() });
    runtime().block_on(async {
        let links = [Link::to(server.socket()).await, Link::to(server.socket()).await];
        let begun = Begun::default();
        let consumer = client(&links[0].address, vec![echo("work", 16, &begun)]).await;
        let caller = client(&links[1].address, Vec::new()).await;
        let mut weather = Weather::default();
        for _ in 0..FAULTS {
            lock(&begun).clear();
            let breaks = one_thing(&mut dice, &mut server, &links, &mut weather);
            let ((), asked) = through(&caller, breaks).await;
            each_ran_once(&begun, asked);
            weather.answered += asked;
            no_connection_is_left_over(&server, 2).await;
        }
        stopped(&server, caller, consumer).await;
        weather
    })
}

async fn one_thing(dice: &mut Dice, server: &mut Server, links: &[Link; 2], weather: &mut Weather) {
    let moment = Duration::from_millis(dice.below(500));
    lasts(moment).await;
    match dice.below(6) {
        0 | 1 => {
            weather.holes += 1;
            let long = Duration::from_millis(500 + dice.below(20_000));
            let [one, other] = links;
            if dice.one_in(2) { one } else { other }.is_a_hole_for(long).await;
        }
        2 => {
            weather.freezes += 1;
            server.freeze();
            lasts(Duration::from_millis(500 + dice.below(14_000))).await;
            server.thaw();
        }
        3 => {
            weather.kills += 1;
            server.kill();
            lasts(Duration::from_millis(dice.below(2_000))).await;
            server.go_on();
        }
        4 => {
            weather.flushes += 1;
            drop(server.ask(&["SCRIPT", "FLUSH"]));
        }
        _ => {
            weather.closed += 1;
            let roles = ["ping", "listener", "publisher"];
            close_connections(server, dice.pick(&roles).copied().unwrap_or("ping"));
        }
    }
    lasts(moment).await;
}
