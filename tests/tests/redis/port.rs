//! What every transport promises, on a clock that the suite moves.

use handoff_calls::conformance::{self, Bench, Fresh};
use handoff_calls::transport::{Failed, Look, Transport};
use handoff_calls::{Ask, CallId, ClientId, Notice, Reply, Rules};
use handoff_store_redis::{Clock, Direct, Options};
use handoff_tests::redis::Server;
use handoff_types::{Span, Steady};

use crate::runtime;

/// When time begins.
const START: Steady = Steady(1_700_000_000_000_000);

/// The room in Redis, with what is due done when it is due.
struct OnRedis(Direct);

impl OnRedis {
    /// Does what is due now, and offers what can be offered.
    async fn settle(&self) {
        while self.0.step(&Ask::Tick).await.unwrap() == Reply::More(true) {}
    }
}

impl Transport for OnRedis {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        let reply = self.0.ask(ask).await?;
        self.settle().await;
        Ok(reply)
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        self.0.heard(client).await
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        self.0.look(call).await
    }
}

impl Bench for OnRedis {
    async fn pass(&self, time: Span) {
        let end = self.0.time().await.unwrap() + time;
        loop {
            let now = self.0.time().await.unwrap();
            let next = self.0.next_due(end.since(now)).await.unwrap();
            self.0.tell_time(next).await.unwrap();
            self.settle().await;
            if next >= end {
                return;
            }
        }
    }
}

/// Empties the server and begins anew.
struct OnServer<'a>(&'a Server);

impl Fresh for OnServer<'_> {
    type Bench = OnRedis;

    async fn fresh(&self, rules: Rules) -> OnRedis {
        drop(self.0.ask(&["FLUSHALL"]));
        let options = Options { rules, clock: Clock::Told, ..Options::default() };
        let direct = Direct::open(&self.0.address(), options).await.unwrap();
        direct.tell_time(START).await.unwrap();
        OnRedis(direct)
    }
}

#[test]
fn redis_keeps_every_promise_of_a_transport() {
    let server = Server::start();
    runtime().block_on(conformance::of_calls(&OnServer(&server)));
}
