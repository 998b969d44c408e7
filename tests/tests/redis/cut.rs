//! Connections that go silent, are closed, or lead to a server that is frozen or was restarted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_store_redis::Client;
use handoff_tests::redis::{Said, Server, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::storm::{
    each_ran_once, lasts, no_connection_is_left_over, no_key_is_left_over, through,
};
use crate::{Begun, answer, client, echo, must, runtime};

/// A link that can be made a hole: bytes go in, nothing comes out, and no socket is closed. A
/// connection that has lost a byte stays silent for ever.
struct Link {
    address: String,
    hole: Arc<watch::Sender<bool>>,
}

impl Link {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        let hole = Arc::new(watch::Sender::new(false));
        let of_connections = Arc::clone(&hole);
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                let there = TcpStream::connect(server).await;
                let hole = of_connections.subscribe();
                if let Ok(there) = there {
                    tokio::spawn(carry(here, there, hole));
                }
            }
        });
        Self { address, hole }
    }

    /// Is a hole for so long.
    async fn is_a_hole_for(&self, time: Duration) {
        self.hole.send_replace(true);
        lasts(time).await;
        self.hole.send_replace(false);
    }
}

async fn carry(here: TcpStream, there: TcpStream, hole: watch::Receiver<bool>) {
    let ((mut from_here, mut to_here), (mut from_there, mut to_there)) =
        (here.into_split(), there.into_split());
    let lost = Arc::new(watch::Sender::new(false));
    let one_way = async |from: &mut tokio::net::tcp::OwnedReadHalf,
                         to: &mut tokio::net::tcp::OwnedWriteHalf| {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from.read(&mut bytes).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            if *hole.borrow() {
                lost.send_replace(true);
            }
            if !*lost.borrow() && to.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    // Whichever side closes takes the other along.
    tokio::select! {
        () = one_way(&mut from_here, &mut to_there) => {}
        () = one_way(&mut from_there, &mut to_here) => {}
    }
}

/// A caller and a consumer, one of them through a link that becomes a hole.
fn survives_a_hole(of_consumer: bool, time: Duration) {
    let server = Server::start();
    runtime().block_on(async {
        let link = Link::to(server.socket()).await;
        let direct = server.address();
        let (to_caller, to_consumer) =
            if of_consumer { (&direct, &link.address) } else { (&link.address, &direct) };
        let begun = Begun::default();
        let consumer = client(to_consumer, vec![echo("work", 16, &begun)]).await;
        let caller = client(to_caller, Vec::new()).await;
        let ((), asked) = through(&caller, link.is_a_hole_for(time)).await;
        each_ran_once(&begun, asked);
        let cut = if of_consumer { &consumer } else { &caller };
        assert!(cut.connections() > 1, "nobody noticed");
        no_connection_is_left_over(&server, 2).await;
        stopped(&server, caller, consumer).await;
    });
}

async fn stopped(server: &Server, caller: Client, consumer: Client) {
    assert!(caller.stop(Duration::from_secs(20)).await, "the caller has something left");
    assert!(consumer.stop(Duration::from_secs(20)).await, "the consumer has something left");
    no_key_is_left_over(server);
}

#[test]
fn a_silent_link_of_the_caller_loses_nothing_in_3_seconds() {
    survives_a_hole(false, Duration::from_secs(3));
}

#[test]
fn a_silent_link_of_the_consumer_loses_nothing_in_3_seconds() {
    survives_a_hole(true, Duration::from_secs(3));
}

#[test]
fn a_silent_link_of_the_caller_loses_nothing_in_12_seconds() {
    survives_a_hole(false, Duration::from_secs(12));
}

#[test]
fn a_silent_link_of_the_consumer_loses_nothing_in_12_seconds() {
    survives_a_hole(true, Duration::from_secs(12));
}

/// A caller and a consumer while something happens to the server.
fn survives(setup: Setup, what: impl AsyncFn(&mut Server)) -> (Begun, u64) {
    let mut server = Server::with(setup);
    let address = server.address();
    runtime().block_on(async {
        let begun = Begun::default();
        let consumer = client(&address, vec![echo("work", 16, &begun)]).await;
        let caller = client(&address, Vec::new()).await;
        assert_eq!(answer(&caller, "work", "\"before\"").await, "\"before\"");
        begun.lock().unwrap().clear();
        let ((), asked) = through(&caller, what(&mut server)).await;
        no_connection_is_left_over(&server, 2).await;
        stopped(&server, caller, consumer).await;
        (begun, asked)
    })
}

#[test]
fn a_server_that_freezes_for_3_seconds_loses_nothing() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        server.freeze();
        lasts(Duration::from_secs(3)).await;
        server.thaw();
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_freezes_for_12_seconds_loses_nothing() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        server.freeze();
        lasts(Duration::from_secs(12)).await;
        server.thaw();
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_is_killed_with_its_writes_on_disk_loses_nothing() {
    let setup = Setup { append_only: true, ..Setup::default() };
    let (begun, asked) = survives(setup, async |server| {
        lasts(Duration::from_millis(300)).await;
        server.kill();
        server.go_on();
        lasts(Duration::from_millis(300)).await;
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_forgot_everything_is_told_again_by_whoever_still_waits() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        lasts(Duration::from_millis(300)).await;
        server.kill();
        server.go_on();
        lasts(Duration::from_millis(300)).await;
    });
    // What it forgot may have run already; what matters is that everybody was answered.
    assert!(begun.lock().unwrap().len() as u64 >= asked);
}

#[test]
fn a_server_that_forgot_its_scripts_is_given_them_again() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        for _ in 0..5 {
            assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).text(), "OK");
            lasts(Duration::from_millis(50)).await;
        }
    });
    each_ran_once(&begun, asked);
}

#[test]
fn each_connection_may_be_closed_in_turn() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        for role in ["ping", "listener", "publisher"].into_iter().cycle().take(6) {
            let all = server.ask(&["CLIENT", "LIST"]);
            let name = format!("name=handoff-{role}");
            let of_role = all.text().lines().filter(|line| line.contains(&name));
            for line in of_role.collect::<Vec<_>>() {
                let id = line.strip_prefix("id=").unwrap().split(' ').next().unwrap();
                drop(server.ask(&["CLIENT", "KILL", "ID", id]));
            }
            must("three connections each", no_connection_is_left_over(server, 2)).await;
        }
    });
    each_ran_once(&begun, asked);
}

#[test]
fn a_server_that_is_emptied_under_way_is_filled_again() {
    let (begun, asked) = survives(Setup::default(), async |server| {
        lasts(Duration::from_millis(200)).await;
        assert_eq!(server.ask(&["FLUSHALL"]), Said::Text("OK".to_owned()));
        lasts(Duration::from_millis(200)).await;
    });
    assert!(begun.lock().unwrap().len() as u64 >= asked);
}
