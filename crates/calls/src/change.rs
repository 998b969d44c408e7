//! What becomes true. Every change touches one aggregate.

use handoff_types::{Steady, Wall};

use crate::{
    Call, CallId, ChannelName, ChannelSettings, Client, ClientId, Happened, Key, Outcome, State,
};

/// What becomes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A call came.
    Registered(Box<Call>),
    /// A consumer is told of a call.
    Offered {
        /// Which.
        call: CallId,
        /// Who.
        executor: ClientId,
        /// The fencing token.
        fence: u64,
        /// If it is not accepted until then, it is handed back.
        until: Steady,
        /// When.
        at: Wall,
    },
    /// A consumer begins a call.
    Accepted {
        /// Which.
        call: CallId,
        /// How often it was begun, this time included.
        attempt: u16,
        /// How long it may be silent.
        until: Steady,
        /// When.
        at: Wall,
    },
    /// A consumer is at work on a call.
    Extended {
        /// Which.
        call: CallId,
        /// How long it may be silent.
        until: Steady,
    },
    /// A call waits again.
    Returned {
        /// Which.
        call: CallId,
        /// When it may be offered; none for at once.
        after: Option<Steady>,
        /// How often it was begun.
        attempt: u16,
        /// Why.
        why: Happened,
        /// When.
        at: Wall,
    },
    /// A call is over.
    Ended {
        /// Which.
        call: CallId,
        /// How.
        outcome: Outcome,
        /// Whose result it is, if somebody ran it.
        by: Option<ClientId>,
        /// How often it was begun.
        attempt: u16,
        /// It is kept as a dead letter.
        dead: bool,
        /// Until when it is known.
        forget: Steady,
        /// When.
        at: Wall,
    },
    /// Its caller has the outcome.
    Acknowledged {
        /// Of which.
        call: CallId,
        /// When.
        at: Wall,
    },
    /// A dead letter is none any more.
    Buried {
        /// Which.
        call: CallId,
        /// Until when it is known.
        forget: Steady,
    },
    /// A call is forgotten.
    Forgotten(CallId),
    /// A client is so.
    Client(Box<Client>),
    /// A client is heard of.
    Heard {
        /// Who.
        client: ClientId,
        /// If nothing is heard of it until then, it is forgotten.
        until: Steady,
    },
    /// A client is forgotten.
    ClientGone(ClientId),
    /// A channel is described.
    Channel(ChannelName, ChannelSettings),
    /// A channel is as nobody described it.
    ChannelGone(ChannelName),
    /// Fencing tokens may be given.
    Fences {
        /// Larger ones than this.
        above: u64,
        /// No larger ones than this.
        until: u64,
    },
}

/// What of a change outlives the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Nothing, whatever is written with it.
    Never,
    /// It may be lost; it is written if something else of calls or channels is.
    RideAlong,
    /// It must be durable before anybody hears of it.
    Always,
}

/// One aggregate, for stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// A channel's settings.
    Channel(ChannelName, ChannelSettings),
    /// A call.
    Call(Box<Call>),
    /// Up to where fencing tokens may have been given.
    Fences(u64),
}

impl Change {
    /// The aggregate it touches.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Registered(call) => Key::Call(call.id),
            Self::Offered { call, .. }
            | Self::Accepted { call, .. }
            | Self::Extended { call, .. }
            | Self::Returned { call, .. }
            | Self::Ended { call, .. }
            | Self::Acknowledged { call, .. }
            | Self::Buried { call, .. }
            | Self::Forgotten(call) => Key::Call(*call),
            Self::Client(client) => Key::Client(client.id),
            Self::Heard { client, .. } | Self::ClientGone(client) => Key::Client(*client),
            Self::Channel(name, _) | Self::ChannelGone(name) => Key::Channel(name.clone()),
            Self::Fences { .. } => Key::Fences,
        }
    }

    /// The call it is about.
    fn call(&self) -> Option<CallId> {
        match self.key() {
            Key::Call(call) => Some(call),
            Key::Channel(_) | Key::Client(_) | Key::Fences => None,
        }
    }

    /// What of it outlives the server. `state` is the one before it, or after.
    ///
    /// A call is written twice: when it comes, with the offer that it leads to, and when it ends,
    /// with the offer that follows. That a consumer accepted need not be written: after a restart
    /// whoever was offered a call is taken to run it ([`crate::Ask::Opened`]).
    #[must_use]
    pub fn keep(&self, state: &State) -> Keep {
        let of_call = |call: &CallId, keep: Keep| match state.call(*call) {
            Some(call) if !call.durable => Keep::Never,
            _ => keep,
        };
        match self {
            Self::Registered(call) if call.durable => Keep::Always,
            Self::Registered(_) | Self::Client(_) | Self::Heard { .. } | Self::ClientGone(_) => {
                Keep::Never
            }
            Self::Offered { call, .. }
            | Self::Returned { call, .. }
            | Self::Ended { call, .. }
            | Self::Buried { call, .. }
            | Self::Forgotten(call) => of_call(call, Keep::Always),
            Self::Accepted { call, .. }
            | Self::Extended { call, .. }
            | Self::Acknowledged { call, .. } => of_call(call, Keep::RideAlong),
            Self::Channel(..) | Self::ChannelGone(_) | Self::Fences { .. } => Keep::Always,
        }
    }
}

/// What of a decision is written: nothing if it need not be, else all that may be. `state` is the one
/// before it.
#[must_use]
pub fn written<'a>(state: &State, changes: &'a [Change]) -> Vec<&'a Change> {
    // Those that came with this very decision the state does not know.
    let is_light = |id: CallId| {
        let came = |change: &Change| matches!(change, Change::Registered(call) if call.id == id && !call.durable);
        changes.iter().any(came)
    };
    let keep = |change: &Change| match change.call() {
        Some(id) if is_light(id) => Keep::Never,
        _ => change.keep(state),
    };
    let kept: Vec<(&Change, Keep)> = changes.iter().map(|one| (one, keep(one))).collect();
    // Tokens are written ahead for everybody: that is no reason to write more of what these calls are at.
    let carries = |(change, keep): &(&Change, Keep)| {
        *keep == Keep::Always && !matches!(change, Change::Fences { .. })
    };
    let rides_along = kept.iter().any(carries);
    let is_written = |keep: Keep| match keep {
        Keep::Never => false,
        Keep::RideAlong => rides_along,
        Keep::Always => true,
    };
    kept.into_iter().filter(|(_, keep)| is_written(*keep)).map(|(change, _)| change).collect()
}
