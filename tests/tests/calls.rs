//! Calls and the real binary: every call is answered, whatever happens to workers, server and the
//! way between.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handoff_sdk::calls::{
    CallError, Caller, CallerOptions, Channel, ChannelSettings, HandlerError, Job, Serving,
    WorkerOptions,
};
use handoff_sdk::{Backoff, Client, Options};
use handoff_tests::place::Place;
use handoff_tests::prey::Lair;
use handoff_tests::served::{self, PATIENCE, Served};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::timeout;

/// Waits for what must come.
async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should have come by now")
}

fn patient() -> Backoff {
    Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(200) }
}

/// A server that is killed and comes back where it was.
struct Phoenix {
    lair: Lair,
    served: Option<Served>,
    address: SocketAddr,
    _place: Place,
}

impl Phoenix {
    fn new() -> Self {
        let place = Place::temporary().unwrap();
        // Free now; whoever takes it meanwhile makes the start fail with words.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let lair = Lair::new(served::program(), place.path())
            .verb("serve")
            .with("--json")
            .with(&format!("--listen={address}"))
            .with("--events-listen=127.0.0.1:0")
            .with("--relay-listen=127.0.0.1:0");
        let served = Some(Served::start(&lair).unwrap());
        Self { lair, served, address, _place: place }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn client(&self) -> Client {
        Client::new(Options::new(self.url())).unwrap()
    }

    /// `kill -9`, and a new life.
    fn die_and_rise(&mut self) {
        let mut served = self.served.take().unwrap();
        served.prey.kill().unwrap();
        drop(served);
        self.served = Some(Served::start(&self.lair).unwrap());
    }
}

async fn caller(client: &Client) -> Caller {
    let options = CallerOptions::new().backoff(patient()).timeout(Some(PATIENCE));
    within(client.calls().caller(options)).await.unwrap()
}

/// A worker in this process, which doubles numbers once the gate is open and counts what it began.
async fn doubling(client: &Client, gate: watch::Receiver<bool>, begun: &Arc<AtomicU64>) -> Serving {
    let begun = Arc::clone(begun);
    let worker = client.calls().worker(WorkerOptions::new().backoff(patient()));
    let channel = Channel::new("double").concurrency(16);
    let worker = worker.serve(channel, move |n: u64, _: Job| {
        begun.fetch_add(1, Ordering::Relaxed);
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await?;
            n.checked_mul(2).ok_or_else(|| HandlerError::new("TooLarge", "no such number"))
        }
    });
    within(worker.start()).await.unwrap()
}

/// `handoff worker` as a process. Dropped, it is killed.
struct Worker {
    child: Child,
    talk: BufReader<std::process::ChildStderr>,
}

impl Worker {
    fn start(url: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(served::program());
        command.args(["--url", url, "worker"]).args(arguments);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let talk = BufReader::new(child.stderr.take().unwrap());
        let mut worker = Self { child, talk };
        assert!(worker.hears().starts_with("serving "));
        worker
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.talk.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command that takes a call, says so, and never answers. It ends when its worker does: then its
/// stdin is closed.
const TAKES_AND_HANGS: &str = "read -r x; echo begun >&2; cat";

async fn lose_a_worker(on_lost: &str) -> (Phoenix, Result<u64, CallError>) {
    let phoenix = Phoenix::new();
    let client = phoenix.client();
    let settings = ChannelSettings {
        on_lost: Some(on_lost.to_owned()),
        lease_ms: Some(500),
        ..ChannelSettings::default()
    };
    within(client.calls().describe("bill", &settings)).await.unwrap();
    let caller = caller(&client).await;
    let url = phoenix.url();
    let mut victim =
        tokio::task::block_in_place(|| Worker::start(&url, &["bill", "--lines", TAKES_AND_HANGS]));
    let calling = tokio::spawn(caller.call::<_, u64>("bill", &7).into_future());
    tokio::task::block_in_place(|| {
        assert_eq!(victim.hears().trim(), "begun");
        victim.child.kill().unwrap();
    });
    // Whoever comes next says which attempt it was.
    let _next = tokio::task::block_in_place(|| {
        Worker::start(&url, &["bill", "--exec", "echo \"$HANDOFF_ATTEMPT\""])
    });
    let answer = within(calling).await.unwrap();
    within(caller.close()).await;
    (phoenix, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_worker_is_killed_is_run_by_another() {
    let (_phoenix, answer) = lose_a_worker("redeliver").await;
    assert_eq!(answer.unwrap(), 2, "the second attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_worker_is_killed_fails_where_nobody_may_run_it_again() {
    let (phoenix, answer) = lose_a_worker("fail").await;
    assert!(matches!(answer, Err(CallError::ExecutorLost)), "{answer:?}");
    let dead = within(phoenix.client().calls().dead("bill", None, None)).await.unwrap();
    assert_eq!(dead.total, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_server_lose_no_call_and_no_answer() {
    const CALLS: u64 = 60;
    let mut phoenix = Phoenix::new();
    let client = phoenix.client();
    let (open, gate) = watch::channel(false);
    let begun = Arc::<AtomicU64>::default();
    let worker = doubling(&client, gate, &begun).await;
    let caller = caller(&client).await;
    let mut calls = Vec::new();
    for n in 0..CALLS {
        let mut pending = within(caller.call::<_, u64>("double", &n).start()).await.unwrap();
        if n == CALLS / 2 {
            assert!(within(pending.registered()).await);
            // Some run, some wait, some are on their way.
            tokio::task::block_in_place(|| phoenix.die_and_rise());
        }
        calls.push(pending);
    }
    open.send_replace(true);
    tokio::task::block_in_place(|| phoenix.die_and_rise());
    for (n, call) in (0..CALLS).zip(calls) {
        assert_eq!(within(call).await.unwrap(), n * 2, "call {n}");
    }
    let begun = begun.load(Ordering::Relaxed);
    assert_eq!(begun, CALLS, "the worker lived: nothing was run twice");
    assert_eq!(within(worker.drain(PATIENCE)).await, 0);
    within(caller.close()).await;
}

/// A proxy that can stop forwarding without closing anything.
struct Proxy {
    address: SocketAddr,
    /// How many outages there were. Whatever was connected before one is never forwarded again.
    outages: watch::Sender<(u64, bool)>,
}

impl Proxy {
    async fn before(server: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (outages, watched) = watch::channel((0, false));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut watched = watched.clone();
                tokio::spawn(async move {
                    // Accepted, and nothing more, for as long as it lasts.
                    if watched.wait_for(|(_, dark)| !*dark).await.is_err() {
                        return;
                    }
                    let far = tokio::net::TcpStream::connect(server).await.unwrap();
                    let (near_in, near_out) = near.into_split();
                    let (far_in, far_out) = far.into_split();
                    tokio::join!(
                        forward(near_in, far_out, watched.clone()),
                        forward(far_in, near_out, watched),
                    );
                });
            }
        });
        Self { address, outages }
    }

    fn go_dark(&self) {
        self.outages.send_modify(|(many, dark)| (*many, *dark) = (*many + 1, true));
    }

    fn come_back(&self) {
        self.outages.send_modify(|(_, dark)| *dark = false);
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut watched: watch::Receiver<(u64, bool)>,
) {
    let born = watched.borrow().0;
    let mut buffer = vec![0; 16 << 10];
    loop {
        // Both may be dropped: what was not read is still there.
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = async { drop(watched.wait_for(|(many, _)| *many > born).await) } => {
                std::future::pending().await
            }
        };
        match read {
            Ok(1..) if watched.borrow().0 > born => std::future::pending().await,
            Ok(many @ 1..) => {
                if to.write_all(&buffer[..many]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_that_swallows_everything_for_a_while_loses_no_call_and_no_answer() {
    const OUTAGE: Duration = Duration::from_secs(3);
    const CALLS: u64 = 40;
    let phoenix = Phoenix::new();
    let proxy = Proxy::before(phoenix.address).await;
    let client = Client::new(Options::new(format!("http://{}", proxy.address))).unwrap();
    let (open, gate) = watch::channel(false);
    let begun = Arc::<AtomicU64>::default();
    let worker = doubling(&client, gate, &begun).await;
    let caller = caller(&client).await;
    let mut calls = Vec::new();
    for n in 0..CALLS / 2 {
        calls.push(within(caller.call::<_, u64>("double", &n).start()).await.unwrap());
    }
    assert!(within(calls.last_mut().unwrap().registered()).await);
    proxy.go_dark();
    // Answers and calls that nobody hears of.
    open.send_replace(true);
    for n in CALLS / 2..CALLS {
        calls.push(within(caller.call::<_, u64>("double", &n).start()).await.unwrap());
    }
    assert!(timeout(OUTAGE, std::future::pending::<()>()).await.is_err());
    proxy.come_back();
    for (n, call) in (0..CALLS).zip(calls) {
        assert_eq!(within(call).await.unwrap(), n * 2, "call {n}");
    }
    assert_eq!(begun.load(Ordering::Relaxed), CALLS, "the worker lived: nothing was run twice");
    assert_eq!(within(worker.drain(PATIENCE)).await, 0);
    within(caller.close()).await;
}
