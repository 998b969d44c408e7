//! How one is let in, and where an address leads: TLS, users, databases, and a server that is replaced.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use handoff_sdk::Error;
use handoff_sdk::calls::{Caller, CallerOptions, Job, Redis, Serving, Trouble, WorkerOptions};
use handoff_tests::redis::{Said, Server, Setup};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{must, runtime};
use handoff_tests::storm::lasts;

/// A worker that echoes, and a caller.
async fn pair(redis: &Redis) -> (Serving, Caller) {
    let worker =
        redis.worker(WorkerOptions::new()).serve("work", |n: u64, _: Job| async move { Ok(n) });
    let worker = must("a worker", worker.start()).await.unwrap();
    (worker, must("a caller", redis.caller(CallerOptions::new())).await.unwrap())
}

async fn answers(caller: &Caller) {
    let answer: u64 = must("an answer", async { caller.call("work", &7).await }).await.unwrap();
    assert_eq!(answer, 7);
}

async fn refused(redis: &Redis) -> Trouble {
    match must("a refusal", redis.caller(CallerOptions::new())).await {
        Err(Error::Redis(trouble)) => *trouble,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_go_through_tls_and_only_to_whom_is_believed() {
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let tls = Some((cert.pem(), signing_key.serialize_pem()));
    let server = Server::with(Setup { tls, ..Setup::default() });
    runtime().block_on(async {
        let address = server.address();
        assert!(address.starts_with("rediss://"));
        let believed = Redis::new(&address).unwrap().ca_pem(cert.pem());
        let (worker, caller) = pair(&believed).await;
        answers(&caller).await;
        assert_eq!(must("the end", worker.drain(Duration::from_secs(20))).await, 0);

        let not_believed = Redis::new(&address).unwrap();
        let trouble = refused(&not_believed).await;
        assert!(
            matches!(&trouble, Trouble::Unreachable { why, .. } if why.contains("certificate")),
            "{trouble}"
        );
        let plain = Redis::new(address.replace("rediss", "redis")).unwrap();
        assert!(matches!(refused(&plain).await, Trouble::Unreachable { .. }));
        let none = Redis::new(&address).unwrap().ca_pem("no certificate");
        assert!(matches!(none.caller(CallerOptions::new()).await, Err(Error::Invalid(_))));
    });
}

#[test]
fn a_user_a_password_and_a_database_are_used_and_what_a_user_may_not_is_said() {
    let words = "--user default off --user me on >s%40cret ~origami:* &origami.* +@all -@dangerous +info \
                 --user guest on >guest ~none:* &origami.* +@all";
    let more = words.replace("%40", "@").split_whitespace().map(str::to_owned).collect();
    let server = Server::with(Setup { more, ..Setup::default() });
    runtime().block_on(async {
        let port = server.socket().port();
        let there = |login: &str| Redis::new(format!("redis://{login}127.0.0.1:{port}/3")).unwrap();
        let (_worker, caller) = pair(&there("me:s%40cret@")).await;
        answers(&caller).await;
        let mut wire = server.connect();
        assert_eq!(wire.ask(&["AUTH", "me", "s@cret"]).text(), "OK");
        assert_eq!(wire.ask(&["EXISTS", "origami:x:channels"]), Said::Number(0));
        assert_eq!(wire.ask(&["SELECT", "3"]).text(), "OK");
        assert_eq!(wire.ask(&["EXISTS", "origami:x:channels"]), Said::Number(1));

        for login in ["", "me:wrong@", ":s%40cret@"] {
            let trouble = refused(&there(login)).await;
            assert!(matches!(trouble, Trouble::NotLetIn { .. }), "{login}: {trouble}");
            assert!(!trouble.to_string().contains("cret"), "{trouble}");
        }
        let trouble = refused(&there("guest:guest@")).await;
        assert!(trouble.to_string().contains("origami:*"), "{trouble}");
        assert!(matches!(trouble, Trouble::NotAllowed { .. }), "{trouble}");
    });
}

/// An address that leads to one server, and then to another. Connections that are there stay.
struct Signpost {
    address: String,
    to: watch::Sender<SocketAddr>,
}

impl Signpost {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        let (to, leads) = watch::channel(server);
        tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let to = *leads.borrow();
                tokio::spawn(async move {
                    if let Ok(mut there) = TcpStream::connect(to).await {
                        // Whichever side closes takes the other along.
                        drop(tokio::io::copy_bidirectional(&mut here, &mut there).await);
                    }
                });
            }
        });
        Self { address, to }
    }
}

fn replicates(server: &Server, of: Option<&Server>) {
    let port = of.map_or("ONE".to_owned(), |of| of.socket().port().to_string());
    let host = if of.is_some() { "127.0.0.1" } else { "NO" };
    assert_eq!(server.ask(&["REPLICAOF", host, &port]).text(), "OK");
}

#[test]
fn a_server_that_is_replaced_by_its_replica_stops_calls_only_until_then() {
    let (old, new) = (Server::start(), Server::start());
    runtime().block_on(async {
        replicates(&new, Some(&old));
        let synced = async {
            while !new.ask(&["INFO", "replication"]).text().contains("master_link_status:up") {
                lasts(Duration::from_millis(20)).await;
            }
        };
        must("the replica", synced).await;
        let signpost = Signpost::to(old.socket()).await;
        let redis = Redis::new(&signpost.address).unwrap();
        let (worker, caller) = pair(&redis).await;
        answers(&caller).await;

        let (go_on, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            let (caller, go_on, asked) = (caller.clone(), Arc::clone(&go_on), Arc::clone(&asked));
            callers.spawn(async move {
                while go_on.load(Ordering::SeqCst) {
                    let n = asked.fetch_add(1, Ordering::SeqCst);
                    let answer: u64 = caller.call("work", &n).await.unwrap();
                    assert_eq!(answer, n, "an answer to another call");
                }
            });
        }
        // Nobody takes writes: whoever comes now is told so, whoever is here waits.
        replicates(&old, Some(&new));
        assert!(matches!(refused(&redis).await, Trouble::ReadOnly { .. }));
        lasts(Duration::from_millis(300)).await;
        replicates(&new, None);
        signpost.to.send_replace(new.socket());
        answers(&caller).await;
        go_on.store(false, Ordering::SeqCst);
        while let Some(one) = must("every answer", callers.join_next()).await {
            one.unwrap();
        }
        assert!(asked.load(Ordering::SeqCst) >= 4);
        assert_eq!(must("the end", worker.drain(Duration::from_secs(20))).await, 0);
        let open = new.ask(&["ZCARD", "origami:x:due"]);
        assert_eq!(open, Said::Number(0), "what is settled is due no more");
    });
}
