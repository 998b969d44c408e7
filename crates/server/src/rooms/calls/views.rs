//! What is seen of the room.

use handoff_calls::{
    Call, CallId, ChannelName, ChannelSettings, ClientId, Counts, Event, Outcome, State,
};
use handoff_types::{Now, Wall};

/// What the room looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that are known.
    pub calls: u64,
    /// Calls that are not over.
    pub open: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// Clients there are.
    pub clients: u64,
    /// Channels there are.
    pub channels: u64,
    /// Calls of all channels that wait.
    pub waiting: u64,
    /// Calls of all channels that are offered or running.
    pub in_flight: u64,
    /// Dead letters of all channels.
    pub dead: u64,
    /// Results that came too late, since start.
    pub late: u64,
}

impl Stats {
    pub(super) fn of(state: &State, late: u64) -> Self {
        let all = state.channels().map(|channel| state.counts(channel));
        let Counts { waiting, in_flight, dead, .. } =
            all.fold(Counts::default(), |sum, one| Counts {
                waiting: sum.waiting + one.waiting,
                in_flight: sum.in_flight + one.in_flight,
                dead: sum.dead + one.dead,
                consumers: 0,
            });
        Self {
            calls: state.call_count(),
            open: state.open_count(),
            bytes: state.bytes(),
            clients: state.client_count(),
            channels: state.channel_count(),
            waiting,
            in_flight,
            dead,
            late,
        }
    }
}

/// What is seen of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallView {
    pub(crate) id: CallId,
    pub(crate) channel: ChannelName,
    pub(crate) caller: Option<ClientId>,
    pub(crate) stage: &'static str,
    pub(crate) executor: Option<ClientId>,
    pub(crate) attempt: u16,
    pub(crate) fence: u64,
    pub(crate) created: Wall,
    pub(crate) deadline: Wall,
    pub(crate) key: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) again_for: Option<CallId>,
    pub(crate) durable: bool,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) ended: Option<Wall>,
    pub(crate) dead: bool,
    pub(crate) params: bytes::Bytes,
    pub(crate) history: Vec<Event>,
}

impl CallView {
    pub(crate) fn of(call: &Call, now: Now) -> Self {
        let ended = call.ended();
        Self {
            id: call.id,
            channel: call.channel.clone(),
            caller: call.caller,
            stage: call.whereabouts().text(),
            executor: call.executor().or(call.taken.map(|(executor, _)| executor)),
            attempt: call.attempt,
            fence: call.fence,
            created: call.created,
            deadline: now.wall + call.deadline.since(now.steady),
            key: call.key.as_ref().map(ToString::to_string),
            trace: call.trace.as_ref().map(ToString::to_string),
            again_for: call.again_for,
            durable: call.durable,
            outcome: ended.map(|ended| ended.outcome.clone()),
            ended: ended.map(|ended| ended.at),
            dead: call.is_dead(),
            params: call.params.clone(),
            history: call.history.clone(),
        }
    }
}

/// What is seen of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelView {
    pub(crate) name: ChannelName,
    pub(crate) settings: ChannelSettings,
    pub(crate) described: bool,
    pub(crate) counts: Counts,
}

impl ChannelView {
    pub(crate) fn of(state: &State, name: &ChannelName, usual: &ChannelSettings) -> Self {
        let own = state.settings(name);
        Self {
            name: name.clone(),
            settings: *own.unwrap_or(usual),
            described: own.is_some(),
            counts: state.counts(name),
        }
    }
}
