//! A connection that is cut at the commit: before it arrives, or before its answer does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use handoff_streams::port::{Hold, Store, Version};
use handoff_streams::{Broker, Key, ProducerId, Status};
use handoff_tests::postgres::{PASSWORD, Server};
use handoff_types::Outcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{all, create, open, produce, runtime, send};

/// A whole message of the wire: a simple query.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// What PostgreSQL answers to it.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Lets everything through but the next commit, or its answer.
async fn carry(client: TcpStream, server: SocketAddr, cut: Arc<AtomicU8>) {
    let server = TcpStream::connect(server).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // What is sent here is small: a commit and its answer come in one piece.
    let there = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from_client.read(&mut bytes).await.unwrap_or(0);
            let cutting = cut.load(Ordering::SeqCst) == CUT_BEFORE;
            let at = find(&bytes[..count], COMMIT).filter(|_| cutting);
            let sent = to_server.write_all(&bytes[..at.unwrap_or(count)]).await;
            if count == 0 || at.is_some() || sent.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from_server.read(&mut bytes).await.unwrap_or(0);
            let cutting = cut.load(Ordering::SeqCst) == CUT_AFTER;
            let at = find(&bytes[..count], COMMITTED).filter(|_| cutting);
            let sent = to_client.write_all(&bytes[..at.unwrap_or(count)]).await;
            if count == 0 || at.is_some() || sent.is_err() {
                return;
            }
        }
    };
    // Whichever ends takes the other along.
    tokio::select! {
        () = there => {}
        () = back => {}
    }
    cut.store(PASS, Ordering::SeqCst);
}

#[test]
fn a_connection_cut_during_the_commit_leaves_it_unknown_and_a_retry_stores_it_once() {
    let server = Server::start();
    let address = server.database();
    let database = address.rsplit('/').next().unwrap().to_owned();
    runtime().block_on(async {
        let cut = Arc::new(AtomicU8::new(PASS));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = SocketAddr::from(([127, 0, 0, 1], server.port()));
        tokio::spawn({
            let cut = Arc::clone(&cut);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(carry(client, target, Arc::clone(&cut)));
                }
            }
        });
        let through = format!("postgres://handoff:{PASSWORD}@127.0.0.1:{port}/{database}");
        let (direct, store) = (open(&address).await, open(&through).await);
        let broker = Broker::<_>::new(store.clone());
        broker.execute(&create(1), crate::chance(0)).await.unwrap();
        let me = ProducerId(7);
        send(&broker, &produce("k", "first", Some((me, 1))), 1).await.unwrap();
        let key = [Key::Partition(crate::partition(0))];
        let cases = [(CUT_BEFORE, Status::Stored, 0), (CUT_AFTER, Status::Duplicate, 1)];
        for (n, (how, again, grown)) in (2..).zip(cases) {
            let before = direct.load(&key, Hold::Free).await.unwrap().0[0].version;
            cut.store(how, Ordering::SeqCst);
            let command = produce("k", &format!("text {n}"), Some((me, n)));
            let failed = send(&broker, &command, n).await.unwrap_err();
            assert_eq!(failed.outcome, Outcome::Unknown, "{failed}");
            assert!(failed.why.contains("nobody knows"), "{failed}");
            assert!(!failed.why.contains(PASSWORD), "{failed}");
            let after = direct.load(&key, Hold::Free).await.unwrap().0[0].version;
            assert_eq!(after, Version(before.0 + grown));
            let sent = send(&broker, &command, n).await.unwrap();
            assert_eq!(sent.status, again);
        }
        let texts: Vec<String> = all(&direct, 1).await.into_values().collect();
        assert_eq!(texts, ["first", "text 2", "text 3"]);
    });
}
