//! Calls on a Redis server whose clock a test moves, for the suite that every transport passes and for
//! random schedules. [`twin`] drives the machine beside it and compares.

pub mod twin;

use handoff_calls::conformance::{Bench, Fresh};
use handoff_calls::transport::{Failed, Look, Transport};
use handoff_calls::{Ask, CallId, ClientId, Notice, Reply, Rules};
use handoff_store_redis::{Clock, Direct, Options, Trouble};
use handoff_types::{Span, Steady};

use crate::redis::Server;

/// When time begins.
pub const START: Steady = Steady(1_700_000_000_000_000);

/// The room in Redis, with what is due done when it is due.
#[derive(Debug)]
pub struct OnRedis(Direct);

impl OnRedis {
    /// An empty room: whatever the server held is gone.
    ///
    /// # Errors
    /// [`Trouble`], when the server cannot be used.
    pub async fn new(server: &Server, rules: Rules) -> Result<Self, Trouble> {
        drop(server.ask(&["FLUSHALL"]));
        let options = Options { rules, clock: Clock::Told, ..Options::default() };
        let direct = Direct::open(&server.address(), options).await?;
        direct.tell_time(START).await?;
        Ok(Self(direct))
    }

    /// Takes a step and nothing else.
    ///
    /// # Errors
    /// [`Trouble`]
    pub async fn step(&self, ask: &Ask) -> Result<Reply, Trouble> {
        self.0.step(ask).await
    }

    /// Does what is due now, and offers what can be offered.
    async fn settle(&self) -> Result<(), Trouble> {
        while self.0.step(&Ask::Tick).await? == Reply::More(true) {}
        Ok(())
    }

    async fn let_pass(&self, time: Span) -> Result<(), Trouble> {
        let end = self.0.time().await? + time;
        loop {
            let now = self.0.time().await?;
            let next = self.0.next_due(end.since(now)).await?;
            self.0.tell_time(next).await?;
            self.settle().await?;
            if next >= end {
                return Ok(());
            }
        }
    }
}

impl Transport for OnRedis {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        let reply = self.0.ask(ask).await?;
        self.settle().await.expect("the server works");
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
    fn knows_eager(&self) -> bool {
        false
    }

    async fn pass(&self, time: Span) {
        self.let_pass(time).await.expect("the server works");
    }
}

/// Empties the server and begins anew.
#[derive(Debug)]
pub struct OnServer<'a>(pub &'a Server);

impl Fresh for OnServer<'_> {
    type Bench = OnRedis;

    async fn fresh(&self, rules: Rules) -> OnRedis {
        OnRedis::new(self.0, rules).await.expect("the server works")
    }
}
