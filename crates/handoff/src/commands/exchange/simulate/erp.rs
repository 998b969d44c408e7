//! An ERP with a database that commits at once: it takes messages, decides about each, and answers.

use std::sync::Arc;
use std::time::Duration;

use handoff_sdk::exchange::{Answered, AsErp, Begun, NewReply, Started, Stored, Verdict, Wish};
use handoff_sdk::{Client, Error, Time};
use serde_json::json;
use tokio::time::sleep;

use super::ledger::Done;
use super::{Phase, Shared};
use crate::clock;

/// How many devices are named in one request. What others sent is not touched.
const PRODUCERS: usize = 500;

/// How long it waits when there is nothing to do.
const IDLE: Duration = Duration::from_millis(50);

/// How long it waits before it repeats what failed.
const RETRY: Duration = Duration::from_millis(250);

/// One message of so many meets a deadlock, and one of so many cannot be processed.
const DEADLOCK_IN: u64 = 50;
const INCORRECT_IN: u64 = 100;

/// Runs until everything is over. The process under way is finished.
pub(super) async fn run(
    shared: Arc<Shared>,
    client: Client,
    database: String,
    devices: Vec<String>,
) {
    let room = client.exchange();
    let erp = room.as_erp(database.as_str());
    let mut request: u64 = 0;
    loop {
        let mut idle = true;
        for some in devices.chunks(PRODUCERS) {
            if *shared.phase.borrow() == Phase::Over {
                return;
            }
            request += 1;
            let wish = Wish::new().request_key(format!("{}-{request}", shared.run));
            let wish = some.iter().fold(wish, Wish::producer);
            match again(&shared, || erp.begin(&wish)).await {
                Some(Begun::Started(process)) => {
                    idle = false;
                    work(&shared, &erp, &process).await;
                }
                Some(Begun::Busy { retry_after }) => {
                    idle = false;
                    sleep(retry_after.clamp(IDLE, Duration::from_secs(1))).await;
                }
                Some(_) => {}
                None => return,
            }
        }
        if idle {
            sleep(IDLE).await;
        }
    }
}

/// One process from its messages to its end.
async fn work(shared: &Shared, erp: &AsErp<'_>, process: &Started) {
    let mut done = Done::default();
    let mut verdicts = Vec::new();
    let mut replies = Vec::new();
    let now = Time::from(clock::wall());
    for message in &process.messages {
        shared.ledger().served(&message.id);
        match fate(message) {
            Fate::Processed => {
                verdicts.push(Verdict::processed(&message.id));
                let id = shared.ledger().reply_id();
                let payload = json!({ "processed": message.id });
                let reply = NewReply::new(&id, &message.from, now.clone(), payload);
                replies.push(reply.kind("simulated").reply_to(&message.id));
                done.processed.push(message.id.clone());
                done.replies.push(id);
            }
            Fate::Deadlock => {
                let verdict = Verdict::deadlock(&message.id).code(-913);
                verdicts.push(verdict.error("deadlock: update conflicts with concurrent update"));
                done.deadlocks += 1;
            }
            Fate::Incorrect => {
                let words = "simulated: there is no such customer";
                verdicts.push(Verdict::incorrect(&message.id, words).code(-530));
                done.incorrect.push(message.id.clone());
            }
        }
    }
    let id = &process.process_id;
    let prepared = again(shared, || erp.prepare(id, &verdicts, &replies)).await;
    match prepared {
        Some(Answered::Ok { .. }) => {
            // Here a database commits. From now on it is done, whatever becomes of the report.
            shared.ledger().committed(&done);
            again(shared, || erp.commit(id)).await;
        }
        // Cancelled, or nobody knows: it is rolled back. The server hears of it, now or later.
        _ => drop(erp.rollback(id, "simulated: it was not prepared").await),
    }
}

/// Asks until it is answered. None if it cannot be: it was refused, or everything is over.
async fn again<T, F>(shared: &Shared, mut ask: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut last = false;
    loop {
        match ask().await {
            Ok(answer) => return Some(answer),
            Err(error) if error.is_temporary() && !last => {
                shared.trouble(&error);
                shared.ledger().retried();
                // Once more after the end: what was lost on the way may be there by then.
                last = *shared.phase.borrow() == Phase::Over;
                sleep(RETRY).await;
            }
            Err(error) => {
                shared.trouble(&error);
                return None;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Processed,
    Deadlock,
    Incorrect,
}

/// Decided by the id and the attempt, so that a deadlock passes and a run can be understood.
fn fate(message: &Stored) -> Fate {
    let attempt = message.attempt.unwrap_or(1);
    let drawn = message.id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let drawn = drawn >> 32;
    if drawn % INCORRECT_IN == 0 {
        Fate::Incorrect
    } else if attempt <= 1 && drawn % DEADLOCK_IN == 1 {
        Fate::Deadlock
    } else {
        Fate::Processed
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, fate};
    use serde_json::json;

    fn of(id: &str, attempt: u64) -> Fate {
        let message = json!({"id": id, "from": "sim-0", "to": "books", "appSystem": "sales",
            "createdAt": "2027-01-15T08:00:00Z", "payload": null, "attempt": attempt});
        fate(&serde_json::from_value(message).unwrap())
    }

    #[test]
    fn most_are_processed_and_a_deadlock_passes() {
        let ids: Vec<String> = (0..10_000).map(|n| format!("abcdef12-{}-{n}", n % 20)).collect();
        let count = |attempt, wanted| ids.iter().filter(|id| of(id, attempt) == wanted).count();
        let (deadlocks, incorrect) = (count(1, Fate::Deadlock), count(1, Fate::Incorrect));
        assert!((100..400).contains(&deadlocks), "{deadlocks}");
        assert!((50..200).contains(&incorrect), "{incorrect}");
        assert_eq!((count(2, Fate::Deadlock), count(2, Fate::Incorrect)), (0, incorrect));
    }
}
