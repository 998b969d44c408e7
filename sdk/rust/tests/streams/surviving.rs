//! A consumer that turns each order into one bill, against a server that loses requests, loses
//! answers, is busy, and takes it for dead at any moment: in the end there is one bill for each
//! order. The server is written from the promises of groups and knows nothing of the consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handoff_sdk::Backoff;
use handoff_sdk::streams::{Commit, Consumer, ConsumerOptions};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::consuming::{gone, joined, path, polled};
use crate::pack::{GUID, packed, refusal, unpack};
use crate::peer::{Asked, Listener, Peer, listener, ok, within};

const TOTAL: u64 = 25;

/// What happens to a poll or a commit.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Carried out, and the answer is lost.
    Lost,
    /// Not carried out, and the connection is cut.
    Cut,
    Busy,
    /// The member is taken for dead before.
    Dead,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        3 => Just(Fate::Answered),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Cut),
        1 => Just(Fate::Busy),
        1 => Just(Fate::Dead),
    ];
    vec(fate, 0..60)
}

/// What a group knows of one partition.
#[derive(Default)]
struct World {
    fates: Vec<Fate>,
    members: u64,
    /// The one that is alive.
    member: Option<String>,
    leases: u64,
    /// Under which lease each message is held.
    held: BTreeMap<u64, String>,
    attempts: BTreeMap<u64, u32>,
    done: BTreeSet<u64>,
    /// Bills by sequence.
    bills: BTreeMap<u64, String>,
}

enum Reply {
    Say(Vec<u8>),
    /// Carried out or not, nothing is said.
    Cut,
    /// Nothing is said for now.
    Hold,
}

impl World {
    fn say(&mut self, asked: &Asked, news: &Notify) -> Reply {
        if asked.line == "POST /v1/streams/producers" {
            let body = json!({"version": 1, "producer": GUID, "scope": "topic", "last": {}});
            return Reply::Say(ok(&body.to_string()).into());
        }
        let below = path(asked);
        if below == "/members" {
            self.members += 1;
            let name = format!("m{}", self.members);
            self.held.clear();
            self.member = Some(name.clone());
            return Reply::Say(joined(&name).into());
        }
        let (member, verb) = below.strip_prefix("/members/").unwrap().split_once('/').unwrap();
        let known = |world: &Self| world.member.as_deref() == Some(member);
        if verb == "heartbeat" {
            return if known(self) { Reply::Hold } else { Reply::Say(gone().into()) };
        }
        let fate = if self.fates.is_empty() { Fate::Answered } else { self.fates.remove(0) };
        match fate {
            Fate::Cut => return Reply::Cut,
            Fate::Busy => return Reply::Say(refusal("503 Busy", "server.busy").into()),
            Fate::Dead => {
                self.member = None;
                self.held.clear();
                news.notify_waiters();
            }
            Fate::Answered | Fate::Lost => {}
        }
        if !known(self) {
            return Reply::Say(gone().into());
        }
        let reply = match verb {
            "poll" => self.poll(),
            _ => self.commit(&unpack(&asked.body)),
        };
        match fate {
            Fate::Lost => Reply::Cut,
            _ => Reply::Say(reply),
        }
    }

    /// Whoever polls again has done what it wanted with what it had: those leases run out.
    fn poll(&mut self) -> Vec<u8> {
        self.leases += 1;
        self.held.clear();
        let lease = format!("l{}", self.leases);
        let open: Vec<u64> = (0..TOTAL).filter(|n| !self.done.contains(n)).take(3).collect();
        let mut batches = Vec::new();
        for offset in open {
            let attempt = self.attempts.entry(offset).or_default();
            *attempt += 1;
            self.held.insert(offset, lease.clone());
            batches.push(crate::consuming::batch(offset, 1, *attempt, &lease));
        }
        polled(&batches)
    }

    fn commit(&mut self, body: &Value) -> Vec<u8> {
        let mut results = Vec::new();
        let mut finished = Vec::new();
        for result in body["results"].as_array().unwrap() {
            let (offset, lease) = (result["from"].as_u64().unwrap(), &result["lease"]);
            let outcome = match self.held.get(&offset) {
                _ if self.done.contains(&offset) => "late",
                Some(held) if held == lease => "done",
                _ => return refusal("409 Conflict", "streams.fenced").into(),
            };
            finished.push(offset);
            results.push(json!({"topic": "orders", "partition": 0, "from": offset, "to": offset,
                "outcome": outcome}));
        }
        let entry = &body["produce"][0];
        assert_eq!((&entry["topic"], &entry["producer"]), (&json!("bills"), &json!(GUID)));
        let sequence = entry["sequence"].as_u64().unwrap();
        let bill = entry["messages"][0]["payload"].as_str().unwrap().to_owned();
        if let Some(known) = self.bills.get(&sequence) {
            assert_eq!(*known, bill, "one sequence for two messages");
        }
        self.bills.insert(sequence, bill);
        self.done.extend(&finished);
        finished.iter().for_each(|offset| drop(self.held.remove(offset)));
        let stored = json!({"results": [{"status": "stored", "partition": 0, "offset": 0}]});
        packed(&json!({"version": 1, "results": results, "produced": [stored]}))
    }
}

/// Says what the world says on one connection.
async fn attend(mut peer: Peer, world: Arc<Mutex<World>>, news: Arc<Notify>) {
    while let Some(asked) = peer.try_asked().await {
        loop {
            let mut heard = std::pin::pin!(news.notified());
            heard.as_mut().enable();
            let reply = world.lock().unwrap().say(&asked, &news);
            match reply {
                Reply::Say(octets) => {
                    if world.lock().unwrap().done.len() as u64 == TOTAL {
                        news.notify_waiters();
                    }
                    peer.write(&octets).await;
                    break;
                }
                Reply::Cut => return,
                Reply::Hold => tokio::select! {
                    () = heard => {}
                    // A client that goes away is not waited for.
                    _ = peer.try_asked() => return,
                },
            }
        }
    }
}

async fn serve(listener: &Listener, world: &Arc<Mutex<World>>, news: &Arc<Notify>) {
    loop {
        let peer = listener.accept().await;
        tokio::spawn(attend(peer, Arc::clone(world), Arc::clone(news)));
    }
}

/// Bills orders until there are none left.
async fn bill(consumer: &mut Consumer, world: &Mutex<World>) {
    while (world.lock().unwrap().done.len() as u64) < TOTAL {
        let order = consumer.next().await.unwrap().unwrap();
        let bill = format!("bill {}", order.message.offset);
        // Whatever becomes of it: if it does not count, the order comes again.
        drop(consumer.commit(Commit::of(order.ok()).produce("bills", bill)).await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_on_the_way_there_is_one_bill_for_each_order(fates in fates(), retries in 0..4_u32) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = listener().await;
            let client = listener.client();
            let world = Arc::new(Mutex::new(World { fates, ..World::default() }));
            let news = Arc::new(Notify::new());
            let backoff =
                Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
            let work = async {
                let options = ConsumerOptions::new("billing").topic("orders");
                let options = options.backoff(backoff).retries(retries);
                let mut consumer = client.streams().consumer(options).await.unwrap();
                bill(&mut consumer, &world).await;
            };
            within(async {
                tokio::select! {
                    () = work => {}
                    () = serve(&listener, &world, &news) => {}
                }
            })
            .await;
            let mut bills: Vec<String> = world.lock().unwrap().bills.values().cloned().collect();
            let mut expected: Vec<String> = (0..TOTAL).map(|n| format!("bill {n}")).collect();
            bills.sort();
            expected.sort();
            assert_eq!(bills, expected);
        });
    }
}
