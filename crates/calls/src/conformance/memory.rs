//! The machine as a transport in memory.
//!
//! After every step whatever it touched is, in a state rebuilt from what a journal would have kept, as it
//! is in the living one, as far as a crash leaves it. A restart compares all of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_types::{Decision, Entropy, Machine, Now, Span, Steady, Wall};

use super::Bench;
use crate::transport::{Failed, Look, Transport};
use crate::{
    Ask, CallId, Calls, Change, ClientId, Command, Notice, Reply, Rules, State, decode_change,
    encode_change, written,
};

/// The machine as a transport.
#[derive(Debug)]
pub struct Memory(Mutex<Room>);

#[derive(Debug)]
struct Room {
    state: State,
    /// What a journal leads to.
    kept: State,
    rules: Rules,
    now: Now,
    chance: u128,
    told: BTreeMap<ClientId, Vec<Notice>>,
}

impl Memory {
    /// One that knows nothing.
    #[must_use]
    pub fn new(rules: Rules, chance: u64) -> Self {
        let now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(1_000_000) };
        let chance = u128::from(chance) << 64;
        let (state, kept, told) = (State::default(), State::default(), BTreeMap::new());
        Self(Mutex::new(Room { state, kept, rules, now, chance, told }))
    }

    /// The server ends and begins anew, `down` later. What was told and not heard is lost.
    pub fn restart(&self, down: Span) {
        let room = &mut *self.room();
        room.check();
        room.told.clear();
        room.state = room.kept.clone();
        room.now.wall = room.now.wall + down;
        room.now.steady = room.now.steady + down;
        room.take(Ask::Opened);
        room.settle();
    }

    /// Looks at everything it knows.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.room().state)
    }

    /// What time it is in it.
    #[must_use]
    pub fn now(&self) -> Now {
        self.room().now
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn take(&mut self, ask: Ask) -> Reply {
        self.chance += 1;
        let command = Command { ask, rules: self.rules };
        let Decision { reply, changes, actions } =
            Calls::decide(&self.state, &command, self.now, Entropy(self.chance));
        if let Reply::Refused(_) = reply {
            assert!(changes.is_empty() && actions.is_empty(), "a refusal changes nothing");
        }
        // As a journal has it.
        for change in written(&self.state, &changes) {
            Calls::evolve(&mut self.kept, &read_back(change));
        }
        for change in &changes {
            Calls::evolve(&mut self.state, change);
        }
        for change in &changes {
            let key = change.key();
            assert!(
                self.kept.stores_as(&self.state, &key),
                "what is kept leads to what is: {key:?}"
            );
        }
        for notice in actions {
            if let Some(to) = notice.to() {
                self.told.entry(to).or_default().push(notice);
            }
        }
        reply
    }

    /// What is kept leads to what is, whether it is lived through or put together.
    fn check(&self) {
        assert_eq!(self.kept.stored(), self.state.stored(), "what is kept leads to what is");
        let mut put = State::default();
        let keys = self.state.keys_from(crate::Key::MIN_BYTES);
        keys.filter_map(|key| self.state.aggregate(&key)).for_each(|one| put.put(one));
        assert_eq!(put.stored(), self.state.stored(), "the aggregates are what is");
    }

    /// Does what is due, and offers what can be offered.
    fn settle(&mut self) {
        while Calls::next_deadline(&self.state, self.now).is_some_and(|due| due <= self.now.steady)
        {
            assert_eq!(self.take(Ask::Tick), Reply::More(true), "what is due is done");
        }
    }
}

fn read_back(change: &Change) -> Change {
    let mut bytes = Vec::new();
    encode_change(change, &mut bytes);
    let (read, rest) = decode_change(&bytes).expect("what is written is read");
    assert!(rest.is_empty() && read == *change, "it reads back as {read:?}");
    read
}

impl Transport for Memory {
    async fn ask(&self, ask: Ask) -> Result<Reply, Failed> {
        let room = &mut *self.room();
        let reply = room.take(ask);
        room.settle();
        Ok(reply)
    }

    async fn heard(&self, client: ClientId) -> Result<Vec<Notice>, Failed> {
        Ok(self.room().told.remove(&client).unwrap_or_default())
    }

    async fn look(&self, call: CallId) -> Result<Option<Look>, Failed> {
        Ok(self.room().state.call(call).map(Look::from))
    }
}

impl Bench for Memory {
    async fn pass(&self, time: Span) {
        let room = &mut *self.room();
        let end = room.now.steady + time;
        loop {
            let due = Calls::next_deadline(&room.state, room.now).filter(|due| *due <= end);
            let next = due.unwrap_or(end).max(room.now.steady);
            let step = next.since(room.now.steady);
            room.now = Now { wall: room.now.wall + step, steady: next };
            room.settle();
            if due.is_none() {
                return;
            }
        }
    }
}
