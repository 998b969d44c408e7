//! Calls go to consumers.

use std::collections::BTreeMap;

use super::draft::Draft;
use crate::state::Lane;
use crate::{Call, Change, ChannelName, Client, ClientId, Happened, OnLost};

/// Offers made in one decision, at most.
const OFFERS_AT_ONCE: usize = 128;

/// Of two consumers drawn at random, the one that has fewer calls. `room` is how many more each takes.
pub(super) fn choose(lane: &Lane, room: impl Fn(ClientId) -> u32, chance: u64) -> Option<ClientId> {
    let free: &[ClientId] = &lane.free;
    let count = free.len() as u64;
    let draw = |chance: u64| {
        let at = usize::try_from(chance.checked_rem(count)?).ok()?;
        free.get(at).copied()
    };
    let (one, two) = (draw(chance & 0xffff_ffff)?, draw(chance >> 32)?);
    let load = |client: ClientId| {
        let takes = lane.consumers.get(&client).copied().unwrap_or(0);
        takes.saturating_sub(room(client))
    };
    let better = if load(two) < load(one) { two } else { one };
    if room(better) > 0 {
        return Some(better);
    }
    // Those drawn were given calls in this very decision.
    free.iter().copied().find(|client| room(*client) > 0)
}

impl Draft<'_> {
    /// Tells a consumer of a call, under a fence that no call ever had.
    pub(super) fn offer(&mut self, call: &Call, executor: ClientId) {
        let fence = self.fence();
        let until = self.now.steady + self.rules.offer_timeout;
        let (at, attempt) = (self.now.wall, call.attempt.saturating_add(1));
        self.change(Change::Offered { call: call.id, executor, fence, until, at });
        let client = self.state.client(executor);
        if client.is_some_and(|client| self.begins_at_once(client, &call.channel)) {
            let until = self.now.steady + self.settings(&call.channel).lease;
            self.change(Change::Accepted { call: call.id, attempt, until, at });
            self.tell_held_of(call, executor, (fence, attempt));
        } else {
            self.tell_of(call, executor, (fence, attempt));
        }
    }

    /// Whether a call is a consumer's as soon as it is offered. Where a call must not be begun twice it is
    /// not: an offer that was lost on its way would end it, and one that is not accepted goes to others.
    pub(super) fn begins_at_once(&self, client: &Client, channel: &ChannelName) -> bool {
        client.eager && self.settings(channel).on_lost == OnLost::Redeliver
    }

    /// A call waits again, at its old place, as if it had not been offered.
    pub(super) fn give_back(&mut self, call: &Call, why: Happened) {
        if !self.settle(call.id) {
            return;
        }
        let (attempt, at) = (call.attempt, self.now.wall);
        self.change(Change::Returned { call: call.id, after: None, attempt, why, at });
    }

    /// A consumer has room for one more call of a channel: the first that waits is its.
    pub(super) fn offer_next(&mut self, channel: &ChannelName, executor: ClientId) {
        let takes = self.state.client(executor).map_or(0, |client| client.takes(channel));
        // One of those it has is the one that it just answered.
        let room = takes >= self.state.load(executor, channel).max(1);
        let Some(lane) = self.state.lane(channel).filter(|_| room) else { return };
        let next = lane.waiting.first().and_then(|(_, id)| self.state.call(*id));
        // Whoever else is free is offered it by and by.
        if let Some(call) = next.filter(|_| lane.free.is_empty()) {
            self.offer(call, executor);
        }
    }

    /// Offers what can be offered, some of it.
    pub(super) fn dispatch(&mut self) {
        let mut offers = 0;
        for channel in self.state.ready() {
            let Some(lane) = self.state.lane(channel) else { continue };
            let mut given: BTreeMap<ClientId, u32> = BTreeMap::new();
            for (_, id) in &lane.waiting {
                if offers >= OFFERS_AT_ONCE {
                    return;
                }
                let Some(call) = self.state.call(*id) else { continue };
                let room = |client: ClientId| {
                    lane.room(client).saturating_sub(given.get(&client).copied().unwrap_or(0))
                };
                let Some(executor) = choose(lane, room, self.draw()) else { break };
                self.offer(call, executor);
                *given.entry(executor).or_default() += 1;
                offers += 1;
            }
        }
    }
}
