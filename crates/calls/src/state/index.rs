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
    /// Calls that outlive the server.
    pub(super) stored: BTreeSet<CallId>,
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

/// Where a call stands in the indices, as far as that changes while it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    due: Steady,
    bytes: u64,
    done_with: bool,
    open: bool,
    leader: Option<CallId>,
    spot: Spot,
}

/// Where it stands in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Waiting,
    Later,
    Held(ClientId),
    Dead,
    /// It is over and no dead letter.
    Nowhere,
}

impl Place {
    pub(super) fn of(call: &Call) -> Self {
        let (leader, spot) = match &call.stage {
            Stage::Waiting => (None, Spot::Waiting),
            Stage::Later(_) => (None, Spot::Later),
            Stage::Following(leader) => (Some(*leader), Spot::Later),
            Stage::Offered { executor, .. } | Stage::Running { executor, .. } => {
                (None, Spot::Held(*executor))
            }
            Stage::Ended(ended) if ended.dead => (None, Spot::Dead),
            Stage::Ended(_) => (None, Spot::Nowhere),
        };
        Self {
            due: call.due(),
            bytes: call.bytes(),
            done_with: call.is_done_with(),
            open: call.ended().is_none(),
            leader,
            spot,
        }
    }
}

impl Index {
    pub(super) fn enlist(&mut self, call: &Call) {
        self.by_seq.insert((call.seq, call.id));
        if call.durable {
            self.stored.insert(call.id);
        }
        if let Some(key) = &call.key {
            self.keys.insert((call.channel.clone(), key.clone()), call.id);
        }
        self.put(call, Place::of(call), None);
    }

    pub(super) fn delist(&mut self, call: &Call) {
        self.by_seq.remove(&(call.seq, call.id));
        if call.durable {
            self.stored.remove(&call.id);
        }
        if let Some(key) = &call.key {
            let key = (call.channel.clone(), key.clone());
            if self.keys.get(&key) == Some(&call.id) {
                self.keys.remove(&key);
            }
        }
        self.take(call, Place::of(call), None);
    }

    /// A call that is listed has changed. What is the same for both is not touched: most steps of a call
    /// move it in one or two of the indices. Whether its lane has changed.
    pub(super) fn relist(&mut self, call: &Call, before: Place) -> bool {
        let after = Place::of(call);
        self.take(call, before, Some(after));
        self.put(call, after, Some(before));
        before.spot != after.spot
    }

    /// Keeps a channel's place true: forgotten if nothing is in it and nobody `described` it, ready or not.
    pub(super) fn settle(&mut self, name: &ChannelName, described: bool) {
        let Some(lane) = self.lanes.get(name) else { return };
        let is_ready = !lane.waiting.is_empty() && !lane.free.is_empty();
        if !described && lane.is_empty() {
            self.lanes.remove(name);
        }
        if !is_ready {
            self.ready.remove(name);
        } else if !self.ready.contains(name) {
            self.ready.insert(name.clone());
        }
    }

    fn put(&mut self, call: &Call, place: Place, before: Option<Place>) {
        let Place { due, bytes, done_with, open, leader, spot } = place;
        let same_due = before.is_some_and(|before| before.due == due);
        if !same_due {
            self.due.insert((due, Due::Call(call.id)));
        }
        if done_with && !(same_due && before.is_some_and(|before| before.done_with)) {
            self.done_with.insert((due, call.id));
        }
        self.bytes += bytes;
        self.open += u64::from(open);
        if before.is_some_and(|before| (before.leader, before.spot) == (leader, spot)) {
            return;
        }
        if let Some(leader) = leader {
            self.followers.insert((leader, call.id));
        }
        if spot == Spot::Nowhere {
            return;
        }
        if let Spot::Held(executor) = spot {
            self.held.insert((executor, call.id));
        }
        let lane = self.lane_of(call);
        match spot {
            Spot::Waiting => drop(lane.waiting.insert((call.seq, call.id))),
            Spot::Later => lane.later += 1,
            Spot::Held(executor) => lane.take(executor),
            Spot::Dead => drop(lane.dead.insert((call.seq, call.id))),
            Spot::Nowhere => {}
        }
    }

    fn take(&mut self, call: &Call, place: Place, after: Option<Place>) {
        let Place { due, bytes, done_with, open, leader, spot } = place;
        let same_due = after.is_some_and(|after| after.due == due);
        if !same_due {
            self.due.remove(&(due, Due::Call(call.id)));
        }
        if done_with && !(same_due && after.is_some_and(|after| after.done_with)) {
            self.done_with.remove(&(due, call.id));
        }
        self.bytes -= bytes;
        self.open -= u64::from(open);
        if after.is_some_and(|after| (after.leader, after.spot) == (leader, spot)) {
            return;
        }
        if let Some(leader) = leader {
            self.followers.remove(&(leader, call.id));
        }
        if spot == Spot::Nowhere {
            return;
        }
        if let Spot::Held(executor) = spot {
            self.held.remove(&(executor, call.id));
        }
        let lane = self.lane_of(call);
        match spot {
            Spot::Waiting => drop(lane.waiting.remove(&(call.seq, call.id))),
            Spot::Later => lane.later -= 1,
            Spot::Held(executor) => lane.give_back(executor),
            Spot::Dead => drop(lane.dead.remove(&(call.seq, call.id))),
            Spot::Nowhere => {}
        }
    }

    /// The lane of a call.
    fn lane_of(&mut self, call: &Call) -> &mut Lane {
        self.lanes.entry(call.channel.clone()).or_default()
    }
}
