//! The machine and the room in Redis, asked the same: after every step both have answered the same, told
//! everybody the same, and know the same of every call.
//!
//! What is not compared: in which order one client was told what one step led to, which no client may
//! rely on; and the fences themselves, which follow the order of all offers of the room. That the first, second
//! and third offer of a call are told of in the same words is compared.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Calls that were ever asked for, and the fences of each as far as anybody saw them.
    calls: Mutex<BTreeMap<CallId, Offers>>,
    /// When time began for the machine.
    start: Steady,
}

/// The fences of a call, in the machine and in Redis.
#[derive(Debug, Default)]
struct Offers {
    machine: BTreeSet<u64>,
    redis: BTreeSet<u64>,
}

impl Offers {
    /// Which offer it was; the fence itself if nobody ever saw it.
    fn rank(seen: &BTreeSet<u64>, fence: u64) -> u64 {
        seen.iter().position(|one| *one == fence).map_or(fence, |at| at as u64 + 1)
    }

    /// What Redis calls an offer of the machine.
    fn on_redis(&self, fence: u64) -> u64 {
        let at = self.machine.iter().position(|one| *one == fence);
        at.and_then(|at| self.redis.iter().nth(at)).copied().unwrap_or(fence)
    }
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
    fn calls(&self) -> MutexGuard<'_, BTreeMap<CallId, Offers>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both know the same of every call.
    async fn compare(&self, after: &str) -> Result<(), Failed> {
        let calls: Vec<CallId> = self.calls().keys().copied().collect();
        for call in calls {
            let (mut machine, mut redis) =
                (self.machine.look(call).await?, self.redis.look(call).await?);
            let mut offers = self.calls();
            let offers = offers.entry(call).or_default();
            for (look, seen) in
                [(&mut machine, &mut offers.machine), (&mut redis, &mut offers.redis)]
            {
                if let Some(look) = look.as_mut().filter(|look| look.fence > 0) {
                    seen.insert(look.fence);
                    look.fence = Offers::rank(seen, look.fence);
                }
            }
            assert_eq!(machine, redis, "{call} after {after}: the machine, and Redis");
        }
        Ok(())
    }

    /// What was told as it is compared: times from the beginning on, fences by which offer they are, in no
    /// order.
    fn told(
        &self,
        mut notices: Vec<Notice>,
        start: Steady,
        seen: impl Fn(&mut Offers) -> &mut BTreeSet<u64>,
    ) -> Vec<String> {
        let mut calls = self.calls();
        for notice in &notices {
            if let Notice::Offer(offer) = notice {
                seen(calls.entry(offer.call).or_default()).insert(offer.fence);
            }
        }
        for notice in &mut notices {
            let (call, fence) = match notice {
                Notice::Offer(offer) => {
                    offer.deadline = Steady(offer.deadline.since(start).0);
                    (offer.call, &mut offer.fence)
                }
                Notice::Held { call, fence, .. }
                | Notice::Taken { call, fence, .. }
                | Notice::Cancelled { call, fence, .. } => (*call, fence),
                _ => continue,
            };
            *fence = Offers::rank(seen(calls.entry(call).or_default()), *fence);
        }
        let mut told: Vec<String> =
            notices.into_iter().map(|notice| format!("{notice:?}")).collect();
        told.sort();
        told
    }

    /// What is asked, in the words of Redis.
    fn on_redis(&self, mut ask: Ask) -> Ask {
        if let Ask::Accept { call, fence, .. }
        | Ask::Heartbeat { call, fence, .. }
        | Ask::Respond { call, fence, .. } = &mut ask
            && let Some(offers) = self.calls().get(call)
        {
            *fence = offers.on_redis(*fence);
        }
        ask
    }
}

impl Transport for Twin {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        if let Ask::Request(new) = &ask {
            self.calls().entry(new.id).or_default();
        }
        let (machine, redis) = (
            self.machine.ask(ask.clone()).await?,
            self.redis.ask(self.on_redis(ask.clone())).await?,
        );
        assert_eq!(machine, redis, "the answers to {ask:?}: the machine's, and Redis'");
        self.compare(&format!("{ask:?}")).await?;
        Ok(machine)
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        let (machine, redis) = (self.machine.heard(client).await?, self.redis.heard(client).await?);
        let told = self.told(machine.clone(), self.start, |offers| &mut offers.machine);
        let redis = self.told(redis, START, |offers| &mut offers.redis);
        assert_eq!(told, redis, "{client} heard: of the machine, and of Redis");
        Ok(machine)
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        self.machine.look(call).await
    }
}

impl Bench for Twin {
    fn knows_eager(&self) -> bool {
        false
    }

    async fn pass(&self, time: Span) {
        self.machine.pass(time).await;
        self.redis.pass(time).await;
        let after = format!("{} ms", time.0 / 1_000);
        self.compare(&after).await.expect("the server works");
    }
}
