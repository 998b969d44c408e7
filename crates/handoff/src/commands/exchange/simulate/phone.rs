//! A device that sends messages of its own, and reads what is for it.

use std::sync::Arc;
use std::time::Duration;

use handoff_sdk::Time;
use handoff_sdk::exchange::NewMessage;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::setup::Phone;
use super::{Phase, Shared};
use crate::clock;

/// How many messages a device reads at once.
const READ: u32 = 100;

/// A device that cannot be reached is tried again after this long.
const RETRY: Duration = Duration::from_millis(250);

/// How a device sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When it begins.
    pub(super) first: Instant,
    /// How long it waits after each; none: as soon as it was answered.
    pub(super) period: Option<Duration>,
    /// Bytes of the payload.
    pub(super) size: usize,
}

/// Sends until it is told to stop. Every message is sent until the server has said what became of
/// it, under the same id.
pub(super) async fn send(shared: Arc<Shared>, phone: Arc<Phone>, pace: Pace) {
    let mut phase = shared.phase.subscribe();
    let padding = "x".repeat(pace.size);
    let period = pace.period.unwrap_or(Duration::from_millis(1)).max(Duration::from_nanos(1));
    let mut ticks = interval_at(pace.first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        if pace.period.is_some() || number == 0 {
            // Both may be dropped: a tick that is not taken is of no use any more.
            tokio::select! {
                _ = ticks.tick() => {}
                _ = phase.wait_for(|phase| *phase != Phase::Sending) => return,
            }
        } else if *phase.borrow() != Phase::Sending {
            return;
        }
        let sent = (phone.number, number);
        let id = shared.ledger().send(sent);
        let payload = json!({ "number": number, "padding": padding });
        let message = NewMessage::new(id, Time::from(clock::wall()), payload).kind("simulated");
        if !deliver(&shared, &phone, sent, &message).await {
            return;
        }
    }
}

/// Whether to go on.
async fn deliver(shared: &Shared, phone: &Phone, sent: (u32, u64), message: &NewMessage) -> bool {
    loop {
        let answer = {
            let Ok(_permit) = shared.permits.acquire().await else { return false };
            phone.client.exchange().as_device().send(std::slice::from_ref(message)).await
        };
        match answer {
            Ok(receipts) => {
                if let Some(receipt) = receipts.first() {
                    shared.ledger().acknowledged(sent, receipt.seq);
                }
                return true;
            }
            Err(error) if error.is_temporary() => {
                shared.trouble(&error);
                if *shared.phase.borrow() == Phase::Over {
                    return false;
                }
                shared.ledger().retried();
                sleep(RETRY).await;
            }
            Err(error) => {
                shared.trouble(&error);
                shared.ledger().refused();
                sleep(RETRY).await;
                return true;
            }
        }
    }
}

/// Reads what is for the device and says that it has it, until everything is over.
pub(super) async fn read(shared: Arc<Shared>, phone: Arc<Phone>, first: Instant, every: Duration) {
    let mut phase = shared.phase.subscribe();
    let mut ticks = interval_at(first, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Both may be dropped: a tick that is not taken is of no use any more.
        let over = tokio::select! {
            _ = ticks.tick() => false,
            _ = phase.wait_for(|phase| *phase == Phase::Over) => true,
        };
        while take(&shared, &phone).await {}
        if over {
            return;
        }
    }
}

/// Takes what is there. Whether there is more.
async fn take(shared: &Shared, phone: &Phone) -> bool {
    let Ok(_permit) = shared.permits.acquire().await else { return false };
    let room = phone.client.exchange();
    let device = room.as_device();
    let inbox = match device.receive(Some(READ), 0).await {
        Ok(inbox) => inbox,
        Err(error) => {
            shared.trouble(&error);
            return false;
        }
    };
    if inbox.messages.is_empty() {
        return false;
    }
    let ids: Vec<&str> = inbox.messages.iter().map(|message| message.id.as_str()).collect();
    // Until it is answered: if only the answer was lost, they do not come again to be counted.
    while let Err(error) = device.ack(&ids).await {
        shared.trouble(&error);
        if !error.is_temporary() || *shared.phase.borrow() == Phase::Over {
            return false;
        }
        shared.ledger().retried();
        sleep(RETRY).await;
    }
    let mut ledger = shared.ledger();
    for message in &inbox.messages {
        ledger.received(&message.id, message.reply_to.as_deref());
    }
    inbox.more
}
