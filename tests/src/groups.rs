//! The hunt on groups: what [`crate::letters`] does to servers and topics, with consumers beside that
//! are processes of their own and are killed and frozen too.
//!
//! ```text
//!  letters ──▶ two groups ──▶ consumers: ok, failed, retry, forgotten, copied in the same step
//!                                │ words
//!                                ▼
//!                             the ledger: who was handed what under which lease, what counts,
//!                             what was refused, and what nobody knows
//! ```
//!
//! Words of different processes come in any order. Leases do not: a later one of a partition has a
//! larger number, so the ledger judges by them.

mod herd;
mod ledger;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handoff_sim::dice::Dice;
use serde_json::{Value, json};

use self::herd::Herd;
pub use self::ledger::Outcomes;
use self::ledger::{Final, Ledger};
use crate::clock;
use crate::consumer::COPIES;
use crate::http::Http;
use crate::ledger::Trouble;
use crate::letters::{self, Beside, Topic, expect};
use crate::member::place;
use crate::served::Served;
use crate::stalk::{Bag, End, Found, Hunts};

/// How long the last consumers have for what is left.
const DRAIN_MAX: Duration = Duration::from_secs(90);

/// How long those who write wait for those who read.
const READING_TIME: Duration = Duration::from_millis(15);

/// How often a message is handed out before it is a dead letter.
const ATTEMPTS_MAX: u32 = 8;

/// How many messages of each partition are asked for their status at the end.
const STATUSES: u64 = 25;

/// The groups there are: name, ordering, consumers.
const GROUPS: [(&str, &str, usize); 2] = [("readers", "key", 3), ("files", "partition", 2)];

/// A hunt on one data directory.
#[derive(Debug)]
pub struct Hunt(letters::Hunt<Reading>);

/// Those who read.
#[derive(Debug)]
struct Reading {
    herd: Herd,
    ledger: Ledger,
}

impl Hunt {
    /// A hunt on a directory of its own, with this program for consumers.
    #[must_use]
    pub fn new(seed: u64, consumer: PathBuf, place: &Path) -> Self {
        let herd = Herd::new(seed, consumer, place.join("consumers.stderr"));
        let reading = Reading { herd, ledger: Ledger::new(ATTEMPTS_MAX) };
        Self(letters::Hunt::beside(seed, place, reading))
    }

    /// What became of what was written.
    #[must_use]
    pub fn written(&self) -> letters::Outcomes {
        self.0.outcomes()
    }

    /// What became of it for those who read.
    #[must_use]
    pub fn read(&self) -> Outcomes {
        self.0.other().ledger.outcomes()
    }
}

impl Hunts for Hunt {
    fn bag(&self) -> Bag {
        self.0.bag()
    }

    fn life(&mut self) -> Result<(), Box<Found>> {
        self.0.life()
    }

    fn finish(&mut self) -> Result<(), Box<Found>> {
        self.0.finish()
    }
}

impl Beside for Reading {
    fn begin(
        &mut self,
        letters: &letters::Ledger,
        _: &mut Dice,
        served: &Served,
        looker: &mut Http,
    ) -> Result<(), End> {
        let copies = json!({ "version": 1, "name": COPIES, "partitions": 2 });
        made(looker, "/v1/streams/topics", &copies)?;
        for (name, ordering, _) in GROUPS {
            let group = json!({
                "version": 1, "name": name, "ordering": ordering, "topics": Topic::ALL.map(Topic::name),
                "maxAttempts": ATTEMPTS_MAX, "leaseMs": 600, "backoffMs": 10, "backoffMaxMs": 100,
                "inFlightMax": 400,
            });
            made(looker, "/v1/streams/groups", &group)?;
        }
        self.herd.listen(&mut self.ledger)?;
        // Everything in the topics was read just now.
        self.ledger.compare(letters)?;
        self.look(looker)?;
        Ok(self.herd.follow(served.http, &mut self.ledger)?)
    }

    fn round(&mut self, dice: &mut Dice, looker: &mut Http) -> Result<(), End> {
        // Not much more is written than is read, or most of it would be read in the end, in peace.
        self.herd.listen_for(READING_TIME, &mut self.ledger)?;
        self.herd.strike(dice, &mut self.ledger)?;
        if dice.one_in(4) {
            self.look(looker)?;
        }
        Ok(())
    }

    fn finish(&mut self, letters: &letters::Ledger, looker: &mut Http) -> Result<(), End> {
        self.herd.calm()?;
        let begun = clock();
        while self.look(looker)? > 0 {
            if begun.elapsed() > DRAIN_MAX {
                let shown = GROUPS.map(|(name, ..)| show(looker, name));
                return Err(Trouble(format!("never processed: {shown:?}")).into());
            }
            self.herd.listen_for(Duration::from_millis(20), &mut self.ledger)?;
        }
        self.herd.dismiss(&mut self.ledger)?;
        self.look(looker)?;
        self.ledger.compare(letters)?;
        let copies = read_all(looker, COPIES, 2)?;
        self.ledger.copied(copies)?;
        let mut dice = Dice::new(letters.end_of(Topic::Letters, 0));
        for (name, ordering, _) in GROUPS {
            self.ledger.in_order(name, ordering)?;
            self.ledger.buried(name, &dead(looker, name)?)?;
            for topic in Topic::ALL {
                for partition in 0..topic.partitions() {
                    let end = letters.end_of(topic, partition);
                    self.ledger.ended(name, topic.name(), partition, end)?;
                    for _ in 0..STATUSES.min(end) {
                        let offset = dice.below(end);
                        let status = status(looker, name, topic, partition, offset)?;
                        self.ledger.shown(name, topic.name(), partition, offset, &status)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Reading {
    /// Looks at the groups; gives how many messages are left to read.
    fn look(&mut self, looker: &mut Http) -> Result<u64, End> {
        let mut left = 0;
        for (name, ..) in GROUPS {
            let group = show(looker, name)?;
            let wrong = || Trouble(format!("group {name}: {group}"));
            let members = group.get("members").and_then(Value::as_array).ok_or_else(wrong)?;
            let assigned = members.iter().filter_map(|one| one.get("assignment")?.as_array());
            let mut owned = BTreeSet::new();
            for partition in assigned.flatten() {
                if !owned.insert(place(partition).ok_or_else(wrong)?) {
                    return Err(Trouble(format!("two owners: {partition} of {group}")).into());
                }
            }
            let generation = group.get("generation").and_then(Value::as_u64).ok_or_else(wrong)?;
            self.ledger.generation(name, generation)?;
            let partitions = group.get("partitions").and_then(Value::as_array);
            for partition in partitions.ok_or_else(wrong)? {
                let committed = partition.get("committed").and_then(Value::as_u64);
                let ((topic, number), committed) =
                    place(partition).zip(committed).ok_or_else(wrong)?;
                self.ledger.frontier(name, &topic, number, committed)?;
            }
            left += group.get("lag").and_then(Value::as_u64).ok_or_else(wrong)?;
        }
        Ok(left)
    }
}

/// Makes something that may be there already.
fn made(looker: &mut Http, path: &str, body: &Value) -> Result<(), End> {
    let answer = looker.ask("POST", path, Some(body))?;
    match answer.status {
        201 | 409 => Ok(()),
        _ => Err(Trouble(format!("{path}: {answer:?}")).into()),
    }
}

fn show(looker: &mut Http, group: &str) -> Result<Value, End> {
    let shown = expect(&looker.ask("GET", &format!("/v1/streams/groups/{group}"), None)?, 200)?;
    Ok(shown.get("group").cloned().unwrap_or_default())
}

fn status(
    looker: &mut Http,
    group: &str,
    topic: Topic,
    partition: u32,
    offset: u64,
) -> Result<Final, End> {
    let path = format!(
        "/v1/streams/groups/{group}/status?topic={}&partition={partition}&offset={offset}",
        topic.name()
    );
    let shown = expect(&looker.ask("GET", &path, None)?, 200)?;
    match shown.get("status").and_then(Value::as_str) {
        Some("processed") => Ok(Final::Processed),
        Some("dead") => Ok(Final::Dead),
        _ => Err(Trouble(format!("{path}: {shown}")).into()),
    }
}

/// Every dead letter of a group.
fn dead(looker: &mut Http, group: &str) -> Result<Vec<Value>, End> {
    let (mut letters, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/streams/groups/{group}/dead?limit=500{after}");
        let page = expect(&looker.ask("GET", &path, None)?, 200)?;
        letters.extend(page.get("letters").and_then(Value::as_array).cloned().unwrap_or_default());
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(letters),
        }
    }
}

/// The payloads of a topic.
fn read_all(looker: &mut Http, topic: &str, partitions: u32) -> Result<Vec<String>, End> {
    let mut all = Vec::new();
    for partition in 0..partitions {
        let path = format!("/v1/streams/topics/{topic}/partitions/{partition}/messages");
        let mut offset = 0;
        loop {
            let page = format!("{path}?offset={offset}&limit=1000");
            let page = expect(&looker.ask("GET", &page, None)?, 200)?;
            let messages = page.get("messages").and_then(Value::as_array);
            let payload = |one: &Value| one.get("payload")?.as_str().map(str::to_owned);
            let texts: Option<Vec<String>> =
                messages.and_then(|all| all.iter().map(payload).collect());
            let texts = texts.ok_or_else(|| Trouble(format!("{path}: {page}")))?;
            if texts.is_empty() {
                break;
            }
            offset += texts.len();
            all.extend(texts);
        }
    }
    Ok(all)
}
