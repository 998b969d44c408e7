//! Clients come, stay and go.

use super::draft::Draft;
use crate::client::Standing;
use crate::{Change, Client, ClientId, Happened, Notice, Refusal, Reply, Serves, Stage};

impl Draft<'_> {
    /// A client is here. What it was told of and has not answered it is told of once more, because
    /// nobody knows whether it heard.
    pub(super) fn init(
        &mut self,
        id: ClientId,
        name: &str,
        serves: &[Serves],
        eager: bool,
    ) -> Result<Reply, Refusal> {
        if name.len() > Client::NAME_BYTES_MAX {
            return Err(Refusal::Invalid("the name of a client has at most 128 bytes"));
        }
        if serves.len() > Client::SERVES_MAX {
            return Err(Refusal::Invalid("a client serves at most 256 channels"));
        }
        let in_bounds = |one: &Serves| (1..=Client::CONCURRENCY_MAX).contains(&one.concurrency);
        if !serves.iter().all(in_bounds) {
            return Err(Refusal::Invalid("a client takes 1 to 10000 calls of a channel at once"));
        }
        let many = self.state.client_count();
        if self.state.client(id).is_none() && many >= self.rules.clients_max {
            return Err(Refusal::Full { what: "clients", many, limit: "calls.clients_max" });
        }
        let new = serves.iter().filter(|one| self.state.lane(&one.channel).is_none()).count();
        self.has_room_for_channels(new as u64)?;
        let mut serves = serves.to_vec();
        serves.sort_by(|a, b| a.channel.cmp(&b.channel));
        if serves.windows(2).any(|pair| matches!(pair, [a, b] if a.channel == b.channel)) {
            return Err(Refusal::Invalid("a channel is named twice"));
        }
        let until = self.now.steady + self.rules.client_timeout;
        let client = {
            let (name, standing) = (name.into(), Standing::Here);
            Client { id, name, serves, until, standing, eager }
        };
        self.tell(Notice::Pong { to: id });
        for call in self.state.held_by(id) {
            match call.stage {
                // It serves the channel no more.
                Stage::Offered { .. } if client.concurrency(&call.channel) == 0 => {
                    self.give_back(call, Happened::HandedBack);
                }
                Stage::Offered { .. } => {
                    self.tell_of(call, id, (call.fence, call.attempt.saturating_add(1)));
                }
                // It may never have heard of it, and begins it now with a whole lease.
                _ if self.begins_at_once(&client, &call.channel) => {
                    let until = self.now.steady + self.settings(&call.channel).lease;
                    self.change(Change::Extended { call: call.id, until });
                    self.tell_held_of(call, id, (call.fence, call.attempt));
                }
                _ => self.tell_of(call, id, (call.fence, call.attempt)),
            }
        }
        self.change(Change::Client(Box::new(client)));
        Ok(Reply::Done)
    }

    pub(super) fn has_room_for_channels(&self, new: u64) -> Result<(), Refusal> {
        let many = self.state.channel_count();
        if new > 0 && many + new > self.rules.channels_max {
            return Err(Refusal::Full { what: "channels", many, limit: "calls.channels_max" });
        }
        Ok(())
    }

    pub(super) fn ping(&mut self, id: ClientId) -> Result<Reply, Refusal> {
        self.client(id)?;
        self.hear(id);
        self.tell(Notice::Pong { to: id });
        Ok(Reply::Done)
    }

    /// A client wants no more calls. What it has not accepted goes to others at once; what it runs
    /// it keeps.
    pub(super) fn stop(&mut self, id: ClientId) -> Result<Reply, Refusal> {
        let client = self.client(id)?;
        self.leave(client, Standing::Stopping);
        self.tell(Notice::Stopped { to: id });
        Ok(Reply::Done)
    }

    /// The connection of a client is gone. Perhaps it comes back, so what it runs it keeps for as
    /// long as its lease lasts.
    pub(super) fn away(&mut self, id: ClientId) -> Reply {
        if let Some(client) = self.state.client(id)
            && client.standing != Standing::Away
        {
            self.leave(client, Standing::Away);
        }
        Reply::Done
    }

    fn leave(&mut self, client: &Client, standing: Standing) {
        self.hand_back_all(client.id);
        let until = self.now.steady + self.rules.client_timeout;
        let client = Client { until, standing, ..client.clone() };
        self.change(Change::Client(Box::new(client)));
    }

    /// What a client has not accepted goes to others.
    pub(super) fn hand_back_all(&mut self, id: ClientId) {
        let offered = |stage: &Stage| matches!(stage, Stage::Offered { .. });
        for call in self.state.held_by(id).filter(|call| offered(&call.stage)) {
            self.give_back(call, Happened::HandedBack);
        }
    }

    /// After a restart. That a call was accepted need not have been written, so whoever was offered
    /// one is taken to run it, and has a whole lease to come back. Fences go on behind those that may have
    /// been given, which is to be on disk before any is given again.
    pub(super) fn opened(&mut self) -> Reply {
        self.change(self.state.fences.begin());
        for call in self.state.all_held() {
            let until = self.now.steady + self.settings(&call.channel).lease;
            if let Stage::Offered { .. } = call.stage {
                let attempt = call.attempt.saturating_add(1);
                let at = self.now.wall;
                self.change(Change::Accepted { call: call.id, attempt, until, at });
            } else {
                self.change(Change::Extended { call: call.id, until });
            }
        }
        Reply::More(false)
    }
}
