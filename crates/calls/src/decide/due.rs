//! What time brings.

use super::draft::Draft;
use super::ending::Ending;
use crate::client::Standing;
use crate::state::Due;
use crate::{Call, Change, Client, ClientId, Happened, Outcome, Reply, Stage, TimedOut};

/// What is taken care of in one decision, at most.
pub const DUE_AT_ONCE: usize = 256;

impl Draft<'_> {
    /// Takes care of what is due, some of it, or offers what can be offered.
    pub(super) fn tick(&mut self) -> Reply {
        let now = self.now.steady;
        let due: Vec<Due> = self
            .state
            .due()
            .take_while(|(at, _)| *at <= now)
            .take(DUE_AT_ONCE)
            .map(|(_, due)| due)
            .collect();
        // What is due may be the very calls that could be offered, so one after the other.
        if due.is_empty() {
            self.dispatch();
        }
        for one in &due {
            match one {
                Due::Call(id) => {
                    if let Some(call) = self.state.call(*id) {
                        self.call_is_due(call);
                    }
                }
                Due::Client(id) => self.client_is_gone(*id),
            }
        }
        Reply::More(self.weight() > 0)
    }

    fn call_is_due(&mut self, call: &Call) {
        let late = self.is_due(call.deadline);
        let never_begun = call.attempt == 0 && call.begin_by.is_some_and(|by| self.is_due(by));
        match &call.stage {
            Stage::Ended(_) => self.change(Change::Forgotten(call.id)),
            _ if late => {
                self.end(call, Outcome::TimedOut(TimedOut::Deadline), Ending::default());
            }
            Stage::Waiting | Stage::Offered { .. } if never_begun => {
                self.end(call, Outcome::TimedOut(TimedOut::InQueue), Ending::default());
            }
            Stage::Later(_) => {
                let (attempt, at) = (call.attempt, self.now.wall);
                let why = Happened::Due;
                self.change(Change::Returned { call: call.id, after: None, attempt, why, at });
            }
            Stage::Offered { executor, .. } => {
                self.give_back(call, Happened::NotAccepted);
                self.is_silent(*executor);
            }
            Stage::Running { executor, .. } => self.lose(call, *executor),
            Stage::Waiting | Stage::Following(_) => {}
        }
    }

    /// A consumer that does not accept is told of nothing until something is heard of it.
    pub(super) fn is_silent(&mut self, id: ClientId) {
        if let Some(client) = self.state.client(id)
            && client.standing == Standing::Here
        {
            let client = Client { standing: Standing::Silent, ..client.clone() };
            self.change(Change::Client(Box::new(client)));
        }
    }

    /// Nothing was heard of a client for too long. What it runs is lost when its lease is over.
    fn client_is_gone(&mut self, id: ClientId) {
        self.hand_back_all(id);
        self.change(Change::ClientGone(id));
    }
}
