//! The machine and the room in Redis, asked the same: after every step both have answered the same, told
//! everybody the same, and know the same of every call.
//!
//! What is not compared: in which order one client was told what one step led to, which no client may
//! rely on.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_calls::conformance::{Bench, Fresh, Memory};
use handoff_calls::transport::{Failed, Look, Transport};
use handoff_calls::{Ask, CallId, ClientId, Notice, Reply, Rules};
use handoff_types::{Span, Steady};

use super::{OnRedis, START};
use crate::redis::Server;

/// Both.
#[derive(Debug)]
pub struct Twin {
    machine: Memory,
    redis: OnRedis,
    /// Calls that were ever asked for.
    calls: Mutex<BTreeSet<CallId>>,
    /// When time began for the machine.
    start: Steady,
}

/// A pair of twins for every schedule, on one server.
#[derive(Debug)]
pub struct Twins<'a>(pub &'a Server);

impl Fresh for Twins<'_> {
    type Bench = Twin;

    async fn fresh(&self, rules: Rules) -> Twin {
        let redis = OnRedis::new(self.0, rules).await.expect("the server works");
        let machine = Memory::new(rules, 7);
        let start = machine.now().steady;
        Twin { machine, redis, calls: Mutex::default(), start }
    }
}

impl Twin {
    fn calls(&self) -> MutexGuard<'_, BTreeSet<CallId>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both know the same of every call.
    async fn compare(&self, after: &str) -> Result<(), Failed> {
        let calls: Vec<CallId> = self.calls().iter().copied().collect();
        for call in calls {
            let (machine, redis) = (self.machine.look(call).await?, self.redis.look(call).await?);
            assert_eq!(machine, redis, "{call} after {after}: the machine, and Redis");
        }
        Ok(())
    }

    /// What was told as it is compared: times from the beginning on, in no order.
    fn told(notices: Vec<Notice>, start: Steady) -> Vec<String> {
        let since_start = |notice| match notice {
            Notice::Offer(mut offer) => {
                offer.deadline = Steady(offer.deadline.since(start).0);
                Notice::Offer(offer)
            }
            notice => notice,
        };
        let mut told: Vec<String> =
            notices.into_iter().map(|notice| format!("{:?}", since_start(notice))).collect();
        told.sort();
        told
    }
}

impl Transport for Twin {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        if let Ask::Request(new) = &ask {
            self.calls().insert(new.id);
        }
        let (machine, redis) =
            (self.machine.ask(ask.clone()).await?, self.redis.ask(ask.clone()).await?);
        assert_eq!(machine, redis, "the answers to {ask:?}: the machine's, and Redis'");
        self.compare(&format!("{ask:?}")).await?;
        Ok(machine)
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        let (machine, redis) = (self.machine.heard(client).await?, self.redis.heard(client).await?);
        let told = Self::told(machine.clone(), self.start);
        assert_eq!(told, Self::told(redis, START), "{client} heard: of the machine, and of Redis");
        Ok(machine)
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        self.machine.look(call).await
    }
}

impl Bench for Twin {
    async fn pass(&self, time: Span) {
        self.machine.pass(time).await;
        self.redis.pass(time).await;
        let after = format!("{} ms", time.0 / 1_000);
        self.compare(&after).await.expect("the server works");
    }
}
