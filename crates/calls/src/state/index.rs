//! What is found without looking for it.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::Steady;

use super::Counts;
use crate::{Call, CallId, ChannelName, ClientId, IdempotencyKey, Stage};

/// What something has to be done about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Call(CallId),
    Client(ClientId),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) by_seq: BTreeSet<(u64, CallId)>,
    /// A state of parts of different ages may have two of one key for a while.
    pub(super) keys: BTreeMap<(ChannelName, IdempotencyKey), CallId>,
    /// Everything with a time, once.
    pub(super) due: BTreeSet<(Steady, Due)>,
    pub(super) lanes: BTreeMap<ChannelName, Lane>,
    /// Lanes in which calls wait and consumers have room.
    pub(super) ready: BTreeSet<ChannelName>,
    /// Calls offered or running.
    pub(super) held: BTreeSet<(ClientId, CallId)>,
    /// Calls that end as another one does.
    pub(super) followers: BTreeSet<(CallId, CallId)>,
    /// Calls that nobody needs any more, by when they are forgotten.
    pub(super) done_with: BTreeSet<(Steady, CallId)>,
    pub(super) open: u64,
    pub(super) bytes: u64,
}

/// What is in a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Calls that can be offered, in their order.
    pub(crate) waiting: BTreeSet<(u64, CallId)>,
    /// How many wait for their time, or follow another.
    pub(crate) later: u64,
    /// Dead letters, in their order.
    pub(crate) dead: BTreeSet<(u64, CallId)>,
    /// How many calls each consumer has.
    pub(crate) loads: BTreeMap<ClientId, u32>,
    /// How many calls each consumer takes at once.
    pub(crate) consumers: BTreeMap<ClientId, u32>,
    /// Consumers that can take one more, ascending.
    pub(crate) free: Vec<ClientId>,
}

impl Lane {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            waiting: self.waiting.len() as u64 + self.later,
            in_flight: self.loads.values().map(|load| u64::from(*load)).sum(),
            dead: self.dead.len() as u64,
            consumers: self.consumers.values().filter(|takes| **takes > 0).count() as u64,
        }
    }

    /// How many more calls a consumer takes.
    pub(crate) fn room(&self, client: ClientId) -> u32 {
        let takes = self.consumers.get(&client).copied().unwrap_or(0);
        takes.saturating_sub(self.loads.get(&client).copied().unwrap_or(0))
    }

    /// Whether somebody is told of calls, with room for more or not.
    pub(crate) fn is_served(&self) -> bool {
        !self.free.is_empty() || self.consumers.values().any(|takes| *takes > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
            && self.later == 0
            && self.dead.is_empty()
            && self.loads.is_empty()
            && self.consumers.is_empty()
    }

    pub(super) fn free_or_not(&mut self, client: ClientId) {
        let is_free = self.room(client) > 0;
        match (self.free.binary_search(&client), is_free) {
            (Ok(at), false) => drop(self.free.remove(at)),
            (Err(at), true) => self.free.insert(at, client),
            _ => {}
        }
    }

    fn take(&mut self, client: ClientId) {
        *self.loads.entry(client).or_default() += 1;
        self.free_or_not(client);
    }

    fn give_back(&mut self, client: ClientId) {
        if let Some(load) = self.loads.get_mut(&client) {
            *load -= 1;
            if *load == 0 {
                self.loads.remove(&client);
            }
        }
        self.free_or_not(client);
    }
}

impl Index {
    pub(super) fn enlist(&mut self, call: &Call) {
        self.by_seq.insert((call.seq, call.id));
        self.due.insert((call.due(), Due::Call(call.id)));
        self.bytes += call.bytes();
        if let Some(key) = &call.key {
            self.keys.insert((call.channel.clone(), key.clone()), call.id);
        }
        if call.is_done_with() {
            self.done_with.insert((call.due(), call.id));
        }
        if let Stage::Following(leader) = call.stage {
            self.followers.insert((leader, call.id));
        }
        let Some(lane) = self.lane_of(call) else { return };
        match &call.stage {
            Stage::Waiting => drop(lane.waiting.insert((call.seq, call.id))),
            Stage::Later(_) | Stage::Following(_) => lane.later += 1,
            Stage::Offered { executor, .. } | Stage::Running { executor, .. } => {
                lane.take(*executor);
                self.held.insert((*executor, call.id));
            }
            Stage::Ended(_) => drop(lane.dead.insert((call.seq, call.id))),
        }
        self.open += u64::from(call.ended().is_none());
    }

    pub(super) fn delist(&mut self, call: &Call) {
        self.by_seq.remove(&(call.seq, call.id));
        self.due.remove(&(call.due(), Due::Call(call.id)));
        self.bytes -= call.bytes();
        if let Some(key) = &call.key {
            let key = (call.channel.clone(), key.clone());
            if self.keys.get(&key) == Some(&call.id) {
                self.keys.remove(&key);
            }
        }
        self.done_with.remove(&(call.due(), call.id));
        if let Stage::Following(leader) = call.stage {
            self.followers.remove(&(leader, call.id));
        }
        let Some(lane) = self.lane_of(call) else { return };
        match &call.stage {
            Stage::Waiting => drop(lane.waiting.remove(&(call.seq, call.id))),
            Stage::Later(_) | Stage::Following(_) => lane.later -= 1,
            Stage::Offered { executor, .. } | Stage::Running { executor, .. } => {
                lane.give_back(*executor);
                self.held.remove(&(*executor, call.id));
            }
            Stage::Ended(_) => drop(lane.dead.remove(&(call.seq, call.id))),
        }
        self.open -= u64::from(call.ended().is_none());
    }

    /// The lane a call is in; none if it is over and no dead letter.
    fn lane_of(&mut self, call: &Call) -> Option<&mut Lane> {
        if call.ended().is_some() && !call.is_dead() {
            return None;
        }
        if !self.lanes.contains_key(&call.channel) {
            self.lanes.insert(call.channel.clone(), Lane::default());
        }
        self.lanes.get_mut(&call.channel)
    }
}
