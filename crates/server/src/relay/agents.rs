//! Who sends, for people. Nothing rests on it: it begins empty with every start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_relay::session::Status;
use handoff_relay::{Name, Origin, SegmentKey};
use handoff_types::Wall;

/// An agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentView {
    /// Its name.
    pub(crate) name: Name,
    /// When it was first heard of since the start, and last.
    pub(crate) first_heard: Wall,
    pub(crate) last_heard: Wall,
    /// Segments, samples and bytes that every sink has.
    pub(crate) segments: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    /// Segments that were not taken, for now or for good.
    pub(crate) rejected: u64,
    /// Segments that it had been confirmed and that are not here.
    pub(crate) missing: u64,
    /// Why something was not taken, last.
    pub(crate) trouble: Option<String>,
    /// The time of its newest sample, in milliseconds, of what is new.
    pub(crate) newest: Option<i64>,
    /// What it says of itself.
    pub(crate) told: Option<(Wall, Status)>,
    /// Its connections.
    pub(crate) sessions: BTreeMap<u64, SessionView>,
}

/// A connection of an agent.
#[derive(Clone, Debug)]
pub(crate) struct SessionView {
    /// Which block.
    pub(crate) origin: Origin,
    /// Whether it is from a file.
    pub(crate) backlog: bool,
    /// From where.
    pub(crate) peer: SocketAddr,
    /// Since when.
    pub(crate) since: Wall,
    /// The last segment of each shard that every sink has.
    pub(crate) marks: Vec<Option<u32>>,
}

/// What was stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    pub(super) segments: u64,
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) newest: Option<i64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Agents {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    agents: BTreeMap<Name, AgentView>,
    next: u64,
}

impl Agents {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection began. What it is known by.
    pub(super) fn came(&self, session: SessionView, missing: u64, max: usize) -> u64 {
        let mut known = self.known();
        let name = session.origin.agent.clone();
        if known.agents.len() >= max && !known.agents.contains_key(&name) {
            known.forget_one();
        }
        known.next += 1;
        let id = known.next;
        let now = session.since;
        let agent = known.agents.entry(name.clone()).or_insert_with(|| AgentView {
            name,
            first_heard: now,
            last_heard: now,
            segments: 0,
            samples: 0,
            bytes: 0,
            rejected: 0,
            missing: 0,
            trouble: None,
            newest: None,
            told: None,
            sessions: BTreeMap::new(),
        });
        agent.last_heard = now;
        agent.missing += missing;
        agent.sessions.insert(id, session);
        id
    }

    /// A connection ended.
    pub(super) fn left(&self, agent: &Name, id: u64, now: Wall) {
        if let Some(agent) = self.known().agents.get_mut(agent) {
            agent.last_heard = now;
            agent.sessions.remove(&id);
        }
    }

    /// Segments up to this one are with every sink.
    pub(super) fn stored(
        &self,
        agent: &Name,
        id: u64,
        upto: SegmentKey,
        stored: Stored,
        now: Wall,
    ) {
        let mut known = self.known();
        let Some(agent) = known.agents.get_mut(agent) else { return };
        agent.last_heard = now;
        agent.segments += stored.segments;
        agent.samples += stored.samples;
        agent.bytes += stored.bytes;
        if let Some(session) = agent.sessions.get_mut(&id) {
            if let Some(mark) = session.marks.get_mut(usize::from(upto.shard)) {
                *mark = (*mark).max(Some(upto.segment));
            }
            if !session.backlog {
                agent.newest = agent.newest.max(stored.newest);
            }
        }
    }

    /// Something was not taken.
    pub(super) fn rejected(&self, agent: &Name, words: &str) {
        if let Some(agent) = self.known().agents.get_mut(agent) {
            agent.rejected += 1;
            agent.trouble = Some(words.to_owned());
        }
    }

    /// An agent said how it is.
    pub(super) fn told(&self, agent: &Name, status: Status, now: Wall) {
        if let Some(agent) = self.known().agents.get_mut(agent) {
            agent.last_heard = now;
            agent.told = Some((now, status));
        }
    }

    pub(super) fn list(
        &self,
        sees: impl Fn(&str) -> bool,
        after: &str,
        limit: usize,
    ) -> (Vec<AgentView>, bool) {
        let known = self.known();
        let behind = match Name::try_from(after) {
            Ok(name) => (Bound::Excluded(name), Bound::Unbounded),
            Err(_) => (Bound::Unbounded, Bound::Unbounded),
        };
        let mut found = known.agents.range(behind).filter(|(name, _)| sees(name.as_str()));
        let listed = found.by_ref().take(limit).map(|(_, agent)| agent.clone()).collect();
        (listed, found.next().is_some())
    }

    pub(super) fn one(&self, name: &str) -> Option<AgentView> {
        self.known().agents.get(&Name::try_from(name).ok()?).cloned()
    }

    /// Agents, those of them that are connected, and connections.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let known = self.known();
        let sessions = |agent: &AgentView| agent.sessions.len();
        let connected = known.agents.values().filter(|agent| sessions(agent) > 0).count();
        (known.agents.len(), connected, known.agents.values().map(sessions).sum())
    }

    /// How late the newest sample is of the agent that is furthest behind, in milliseconds, of those
    /// that are connected.
    pub(super) fn lag_millis(&self, now: Wall) -> i64 {
        let known = self.known();
        let connected = known.agents.values().filter(|agent| !agent.sessions.is_empty());
        let lags = connected.filter_map(|agent| agent.lag_millis(now));
        lags.max().unwrap_or(0)
    }
}

impl AgentView {
    /// How late its newest sample is, in milliseconds.
    pub(crate) fn lag_millis(&self, now: Wall) -> Option<i64> {
        Some(now.0.div_euclid(1_000).saturating_sub(self.newest?).max(0))
    }
}

impl Known {
    /// Forgets the one that was silent for longest, of those that are not connected.
    fn forget_one(&mut self) {
        let gone = self.agents.values().filter(|agent| agent.sessions.is_empty());
        let oldest = gone.min_by_key(|agent| agent.last_heard).map(|agent| agent.name.clone());
        if let Some(oldest) = oldest {
            self.agents.remove(&oldest);
        }
    }
}
