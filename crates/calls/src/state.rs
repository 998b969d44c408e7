//! What the room knows.
//!
//! Aggregates, and indices that are functions of them: a state put together from aggregates equals
//! the one that lived through the changes. No question costs more because many calls wait, are
//! parked or are over.

mod index;

use std::collections::{BTreeMap, HashMap};

use handoff_types::Steady;

pub(crate) use self::index::{Due, Lane};
use self::index::{Index, Place};
use crate::client::Standing;
use crate::fences::Fences;
use crate::{
    Aggregate, Call, CallId, ChannelName, ChannelSettings, Client, ClientId, IdempotencyKey, Key,
    Stage,
};

/// Everything the room knows.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Looked at several times in every step of a call, and in no order. Clients choose the ids, so they
    /// are hashed by a key that nobody knows.
    calls: HashMap<CallId, Box<Call>>,
    clients: BTreeMap<ClientId, Box<Client>>,
    settings: BTreeMap<ChannelName, ChannelSettings>,
    pub(crate) fences: Fences,
    /// The largest [`Call::seq`] there was.
    seq: u64,
    index: Index,
}

/// Two states are equal if their aggregates are: the rest follows.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.calls == other.calls
            && self.clients == other.clients
            && self.settings == other.settings
            && self.fences.until() == other.fences.until()
    }
}

impl Eq for State {}

/// How many calls of a channel are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting for a consumer, or for their time.
    pub waiting: u64,
    /// Offered or running.
    pub in_flight: u64,
    /// Dead letters.
    pub dead: u64,
    /// Consumers that are told of calls.
    pub consumers: u64,
}

impl State {
    /// A call.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id).map(|call| &**call)
    }

    /// How many calls are known, those that are over included.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.calls.len() as u64
    }

    /// How many calls are not over.
    #[must_use]
    pub fn open_count(&self) -> u64 {
        self.index.open
    }

    /// Bytes of all bodies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.index.bytes
    }

    /// Calls that came before a place in the order of all, the latest first.
    pub fn calls_below(&self, seq: u64) -> impl Iterator<Item = &Call> {
        let ids = self.index.by_seq.range(..(seq, CallId::MIN)).rev();
        ids.filter_map(|(_, id)| self.call(*id))
    }

    /// The call of a channel that has a key.
    #[must_use]
    pub fn by_key(&self, channel: &ChannelName, key: &IdempotencyKey) -> Option<&Call> {
        // The borrowed pair would be another type; keys are rare and their text is shared.
        self.call(*self.index.keys.get(&(channel.clone(), key.clone()))?)
    }

    /// A client.
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id).map(|client| &**client)
    }

    /// All clients.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values().map(|client| &**client)
    }

    /// How many clients there are.
    #[must_use]
    pub fn client_count(&self) -> u64 {
        self.clients.len() as u64
    }

    /// The settings of a channel, if somebody described it.
    #[must_use]
    pub fn settings(&self, channel: &ChannelName) -> Option<&ChannelSettings> {
        self.settings.get(channel)
    }

    /// The channels that have settings, calls that are not over, dead letters or consumers.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelName> {
        self.index.lanes.keys()
    }

    /// How many those are.
    #[must_use]
    pub fn channel_count(&self) -> u64 {
        self.index.lanes.len() as u64
    }

    /// How many calls of a channel are where.
    #[must_use]
    pub fn counts(&self, channel: &ChannelName) -> Counts {
        self.index.lanes.get(channel).map(Lane::counts).unwrap_or_default()
    }

    /// The dead letters of a channel, the oldest first.
    pub fn dead(&self, channel: &ChannelName) -> impl Iterator<Item = &Call> {
        self.dead_from(channel, 0)
    }

    /// The same from a place in the order of all calls on.
    pub fn dead_from(&self, channel: &ChannelName, seq: u64) -> impl Iterator<Item = &Call> {
        let lane = self.index.lanes.get(channel).into_iter();
        let dead = lane.flat_map(move |lane| lane.dead.range((seq, CallId::MIN)..));
        dead.filter_map(|(_, id)| self.call(*id))
    }

    /// What is offered to a client or run by it.
    pub fn held_by(&self, client: ClientId) -> impl Iterator<Item = &Call> {
        let all = (client, CallId::MIN)..=(client, CallId::from_number(u128::MAX));
        self.index.held.range(all).filter_map(|(_, id)| self.call(*id))
    }

    /// How many calls of a channel a client has.
    #[must_use]
    pub fn load(&self, client: ClientId, channel: &ChannelName) -> u32 {
        let lane = self.index.lanes.get(channel);
        lane.and_then(|lane| lane.loads.get(&client)).copied().unwrap_or(0)
    }

    /// How many calls end as this one does.
    #[must_use]
    pub fn follower_count(&self, call: CallId) -> usize {
        self.followers(call).count()
    }

    pub(crate) fn lane(&self, channel: &ChannelName) -> Option<&Lane> {
        self.index.lanes.get(channel)
    }

    pub(crate) fn followers(&self, leader: CallId) -> impl Iterator<Item = &Call> {
        let all = (leader, CallId::MIN)..=(leader, CallId::from_number(u128::MAX));
        self.index.followers.range(all).filter_map(|(_, id)| self.call(*id))
    }

    /// Everything that somebody has.
    pub(crate) fn all_held(&self) -> impl Iterator<Item = &Call> {
        self.index.held.iter().filter_map(|(_, id)| self.call(*id))
    }

    /// What is due, the earliest first.
    pub(crate) fn due(&self) -> impl Iterator<Item = (Steady, Due)> {
        self.index.due.iter().copied()
    }

    /// The channels in which calls wait and consumers have room for them.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &ChannelName> {
        self.index.ready.iter()
    }

    /// Calls that nobody needs any more, the first to be forgotten first.
    pub(crate) fn done_with(&self) -> impl Iterator<Item = CallId> {
        self.index.done_with.iter().map(|(_, id)| *id)
    }

    pub(crate) fn done_with_count(&self) -> u64 {
        self.index.done_with.len() as u64
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.seq.saturating_add(1)
    }

    /// The keys of what is stored, from one on.
    pub fn keys_from(&self, from: &[u8]) -> impl Iterator<Item = Key> {
        let key = Key::from_bytes(from);
        let stored = &self.index.stored;
        let (channels, calls) = match key {
            None => (self.settings.range::<ChannelName, _>(..), stored.range(..)),
            Some(Key::Channel(name)) => (self.settings.range(name..), stored.range(..)),
            Some(Key::Client(_)) => (Default::default(), stored.range(..)),
            Some(Key::Call(id)) => (Default::default(), stored.range(id..)),
            Some(Key::Fences) => (Default::default(), Default::default()),
        };
        let calls = calls.map(|id| Key::Call(*id));
        let channels = channels.map(|(name, _)| Key::Channel(name.clone()));
        channels.chain(calls).chain(self.fences.key())
    }

    /// An aggregate that is stored.
    #[must_use]
    pub fn aggregate(&self, key: &Key) -> Option<Aggregate> {
        match key {
            Key::Channel(name) => Some(Aggregate::Channel(name.clone(), *self.settings.get(name)?)),
            Key::Client(_) => None,
            Key::Call(id) => {
                self.calls.get(id).filter(|call| call.durable).cloned().map(Aggregate::Call)
            }
            Key::Fences => self.fences.key().map(|_| Aggregate::Fences(self.fences.until())),
        }
    }

    /// Puts an aggregate that was stored.
    pub fn put(&mut self, aggregate: Aggregate) {
        match aggregate {
            Aggregate::Channel(name, settings) => self.set_channel(&name, Some(settings)),
            Aggregate::Call(call) => self.put_call(call),
            Aggregate::Fences(until) => self.fences.allow(until, until),
        }
    }

    /// What a crash leaves of it: no clients, no calls that live in memory only, and nothing that
    /// is written only if something else is.
    #[must_use]
    pub fn stored(&self) -> Self {
        let fences = Fences::stored(self.fences.until());
        let mut stored = Self { fences, ..Self::default() };
        for (name, settings) in &self.settings {
            stored.set_channel(name, Some(*settings));
        }
        for call in self.calls.values().filter(|call| call.durable) {
            stored.put_call(Box::new(as_stored(call)));
        }
        stored
    }

    /// Whether a crash would leave the same of an aggregate as it would of the other state's.
    #[must_use]
    pub fn stores_as(&self, other: &Self, key: &Key) -> bool {
        let stored = |state: &Self| match state.aggregate(key) {
            Some(Aggregate::Call(call)) => Some(Aggregate::Call(Box::new(as_stored(&call)))),
            other => other,
        };
        stored(self) == stored(other)
    }

    pub(crate) fn put_call(&mut self, call: Box<Call>) {
        self.remove_call(call.id);
        self.seq = self.seq.max(call.seq);
        self.fences.give(call.fence);
        self.index.enlist(&call);
        self.settle(&call.channel);
        self.calls.insert(call.id, call);
    }

    pub(crate) fn remove_call(&mut self, id: CallId) {
        if let Some(call) = self.calls.remove(&id) {
            self.index.delist(&call);
            self.settle(&call.channel);
        }
    }

    pub(crate) fn change_call(&mut self, id: CallId, change: impl FnOnce(&mut Call)) {
        let Self { calls, settings, index, .. } = self;
        let Some(call) = calls.get_mut(&id) else { return };
        let before = Place::of(call);
        change(call);
        if index.relist(call, before) {
            index.settle(&call.channel, settings.contains_key(&call.channel));
        }
    }

    pub(crate) fn put_client(&mut self, client: Box<Client>) {
        self.remove_client(client.id);
        self.index.due.insert((client.until, Due::Client(client.id)));
        for serves in &client.serves {
            let lane = self.index.lanes.entry(serves.channel.clone()).or_default();
            lane.consumers.insert(client.id, client.takes(&serves.channel));
            lane.free_or_not(client.id);
            self.settle(&serves.channel);
        }
        self.clients.insert(client.id, client);
    }

    pub(crate) fn remove_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        self.index.due.remove(&(client.until, Due::Client(id)));
        for serves in &client.serves {
            if let Some(lane) = self.index.lanes.get_mut(&serves.channel) {
                lane.consumers.remove(&id);
                lane.free_or_not(id);
            }
            self.settle(&serves.channel);
        }
    }

    pub(crate) fn hear(&mut self, id: ClientId, until: Steady) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.index.due.remove(&(client.until, Due::Client(id)));
        client.until = until;
        self.index.due.insert((until, Due::Client(id)));
        if client.standing == Standing::Silent
            && let Some(mut client) = self.clients.get(&id).cloned()
        {
            client.standing = Standing::Here;
            self.put_client(client);
        }
    }

    pub(crate) fn set_channel(&mut self, name: &ChannelName, settings: Option<ChannelSettings>) {
        match settings {
            Some(settings) => {
                self.settings.insert(name.clone(), settings);
                self.index.lanes.entry(name.clone()).or_default();
            }
            None => drop(self.settings.remove(name)),
        }
        self.settle(name);
    }

    fn settle(&mut self, name: &ChannelName) {
        self.index.settle(name, self.settings.contains_key(name));
    }
}

/// What is sure to be written of a call.
fn as_stored(call: &Call) -> Call {
    let mut call = Call { history: Vec::new(), ..call.clone() };
    match &mut call.stage {
        Stage::Running { executor, .. } => {
            call.stage = Stage::Offered { executor: *executor, until: Steady(0) };
            call.attempt = call.attempt.saturating_sub(1);
        }
        Stage::Offered { until, .. } => *until = Steady(0),
        Stage::Ended(ended) => ended.acked = false,
        Stage::Waiting | Stage::Later(_) | Stage::Following(_) => {}
    }
    call
}
