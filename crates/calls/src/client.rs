//! Whoever is connected.

use handoff_types::Steady;

use crate::{ChannelName, ClientId};

/// A client: it calls, or serves channels, or both. Nothing of it outlives the server; it introduces
/// itself again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// What it calls itself.
    pub id: ClientId,
    /// For people.
    pub name: Box<str>,
    /// The channels it serves, ascending, and how many calls of each at once.
    pub serves: Vec<Serves>,
    /// If nothing is heard of it until then, it is forgotten.
    pub until: Steady,
    /// Whether it is told of calls.
    pub standing: Standing,
    /// It begins whatever it is told of at once: an offer to it is its to run.
    pub eager: bool,
}

/// A channel that a client serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serves {
    /// Which.
    pub channel: ChannelName,
    /// How many of its calls at once.
    pub concurrency: u32,
}

/// Whether a client is told of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Here,
    /// It did not accept a call in time. It is again when something is heard of it.
    Silent,
    /// Its connection is gone. It is again when it introduces itself.
    Away,
    /// It asked to be told of none.
    Stopping,
}

impl Client {
    /// Bytes of a name at most.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Channels it serves at most.
    pub const SERVES_MAX: usize = 256;
    /// Calls of one channel at once, at most.
    pub const CONCURRENCY_MAX: u32 = 10_000;

    /// How many calls of a channel it takes at once; none while it is told of none.
    #[must_use]
    pub fn takes(&self, channel: &ChannelName) -> u32 {
        if self.standing == Standing::Here { self.concurrency(channel) } else { 0 }
    }

    /// How many calls of a channel it takes at once when it is told of calls.
    #[must_use]
    pub fn concurrency(&self, channel: &ChannelName) -> u32 {
        let found = self.serves.binary_search_by(|serves| serves.channel.cmp(channel));
        found.ok().and_then(|at| self.serves.get(at)).map_or(0, |serves| serves.concurrency)
    }
}
