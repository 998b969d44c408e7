//! A server that is killed in the middle of commits, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff_streams::Broker;
use handoff_tests::postgres::Server;
use handoff_types::Outcome;
use tokio::sync::{mpsc, watch};

use crate::{all, create, open, place, produce, runtime, send};

const PARTITIONS: u32 = 2;

const KILLS: u32 = 6;

const TASKS: u64 = 6;

/// What became of a message, as far as its producer knows.
enum Sent {
    Acknowledged((u32, u64), String),
    Unknown(String),
    Refused(String),
}

/// What producers were told.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeMap<(u32, u64), String>,
    unknown: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Ledger {
    /// Notes what became of a message; says whether it was acknowledged.
    fn note(&mut self, sent: Sent) -> bool {
        match sent {
            Sent::Acknowledged(place, text) => {
                assert_eq!(self.acknowledged.insert(place, text), None, "an offset twice");
                return true;
            }
            Sent::Unknown(text) => self.unknown.insert(text),
            Sent::Refused(text) => self.refused.insert(text),
        };
        false
    }
}

/// The ledger is here, what it judges is another process.
#[test]
fn what_was_acknowledged_survives_a_killed_server_and_what_is_unknown_is_there_once_or_not_at_all()
{
    let mut server = Server::start();
    let address = server.database();
    let runtime = runtime();
    let store = runtime.block_on(open(&address));
    let broker = Arc::new(Broker::<_>::new(store.clone()));
    runtime.block_on(broker.execute(&create(PARTITIONS), crate::chance(0))).unwrap();
    // How often the server was started; none: enough.
    let (life, lives) = watch::channel(Some(1_u32));
    let (tell, mut told) = mpsc::channel(64);
    for task in 0..TASKS {
        let (broker, tell) = (Arc::clone(&broker), tell.clone());
        let mut lives = lives.clone();
        runtime.spawn(async move {
            for n in 0.. {
                let Some(life) = *lives.borrow_and_update() else { return };
                let text = format!("{task}/{n}");
                let command = produce(&format!("k{}", n % 7), &text, None);
                let sent = match send(&broker, &command, task << 32 | n).await {
                    Ok(sent) => Sent::Acknowledged(place(&sent), text),
                    Err(failed) if failed.outcome == Outcome::NotApplied => Sent::Refused(text),
                    Err(_) => Sent::Unknown(text),
                };
                let down = !matches!(sent, Sent::Acknowledged(..));
                tell.send(sent).await.unwrap();
                // Whoever met the end of a server waits for the next.
                if down && lives.wait_for(|next| *next != Some(life)).await.is_err() {
                    return;
                }
            }
        });
    }
    drop((tell, lives));
    let mut ledger = Ledger::default();
    for number in 1..=KILLS {
        let mut left = 20 + 13 * number;
        let (mut killed, mut down) = (false, 0);
        // Until all of them have met its end.
        while down < TASKS {
            match ledger.note(told.blocking_recv().unwrap()) {
                true => left = left.saturating_sub(1),
                false => down += 1,
            }
            if left == 0 && !killed {
                server.kill();
                killed = true;
            }
        }
        assert!(killed, "they failed before the server was killed");
        server.go_on();
        life.send(Some(number + 1).filter(|_| number < KILLS)).unwrap();
    }
    while let Some(sent) = told.blocking_recv() {
        ledger.note(sent);
    }
    let Ledger { acknowledged, unknown, refused } = ledger;
    let found = runtime.block_on(async { all(&open(&address).await, PARTITIONS).await });
    for (place, text) in &acknowledged {
        assert_eq!(found.get(place), Some(text), "acknowledged, and not there");
    }
    let mut seen = BTreeSet::new();
    for (place, text) in &found {
        assert!(seen.insert(text), "{text} is there twice");
        let known = acknowledged.get(place) == Some(text) || unknown.contains(text);
        assert!(known, "{text} at {place:?} was refused or never sent: {}", refused.contains(text));
    }
    assert!(!unknown.is_empty(), "no server was killed in the middle of a commit");
}
