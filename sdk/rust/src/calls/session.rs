//! What a client of calls has said and not heard confirmed, and when it is said again. No socket,
//! no clock, no dice: whoever carries it says what happened and when, and does what it asks for.
//!
//! # Constraints
//! * Every step is said until it is confirmed: over one connection again after a while, over every
//!   new one at once, each time under the same id. The server counts it once.
//! * A connection is alive only as long as the server answers what was said over it. What the socket
//!   believes does not count, nor does what the server says by itself: the way there may be cut
//!   while the way back is not.
//! * Nothing but the greeting is said before the server has answered the greeting.
//! * Whoever slept knows nothing about the other side: silence counts only while it was listened.
//!
//! ```text
//!          open                connected              a
//!  (new) ───────▶ Connecting ───────────▶ Greeting ───────▶ Live ──┐ ping, every second
//!                     ▲  failed │             │ silence      │ ◀───┘
//!              Connect│         ▼             ▼              │ no answer: suspect
//!                     └────── Down ◀───────────────────────── │ none in the same time again,
//!                     half of a wait by chance               ▼ or cut: Down
//! ```

mod agenda;
mod asking;
mod link;
#[cfg(test)]
mod tests;
mod working;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use handoff_calls::wire::{self, Down, Frame, Many, Up};
use handoff_calls::{CallId, ClientId};
use serde_json::value::RawValue;
use tokio::time::Instant;

pub(super) use self::agenda::Mixing;
use self::agenda::{Agenda, Errands, Matter, Step};
use self::asking::Asked;
pub(super) use self::asking::{Finish, NewCall};
use self::link::Link;
pub(super) use self::link::Pace;
use self::working::{Job, Stop};
use crate::Backoff;
use crate::connect::later;

/// What most frames take.
const FRAME_BYTES: usize = 384;

/// JSON on its way.
pub(super) type Body = Box<RawValue>;

/// Who the client is.
#[derive(Clone, Debug)]
pub(super) struct Me {
    pub(super) client: ClientId,
    pub(super) name: Box<str>,
    pub(super) serves: Vec<wire::Serves>,
}

/// What is to be done by whoever carries the session, in order.
#[derive(Debug)]
pub(super) enum Deed {
    /// Make a connection, and say [`Session::connected`] or [`Session::lost`].
    Connect,
    /// Drop the connection, and say [`Session::lost`].
    Disconnect,
    /// The connection is good, doubtful, or good again.
    Standing(Standing),
    /// A call is registered.
    Registered(CallId),
    /// A call is over for its caller.
    Finish(CallId, Finish),
    /// A call is this consumer's: the handler may begin.
    Begin(Box<wire::Offer<Body>>),
    /// Whatever the handler of this offer does, it does for nobody.
    Abort(CallId, u64),
    /// A result was stored, or came too late.
    Taken {
        /// It counts.
        taken: bool,
    },
}

/// How good the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    Suspect,
}

/// The whole of it.
#[derive(Debug)]
pub(super) struct Session {
    me: Me,
    pace: Pace,
    backoff: Backoff,
    link: Link,
    /// Connections in a row that came to nothing.
    failures: u32,
    /// What a body takes at most, as the server said.
    body_bytes_max: Option<u64>,
    /// The server reads messages of several frames.
    many: bool,
    /// A frame that found no room in the last message.
    unsent: Option<Vec<u8>>,
    agenda: Agenda,
    errands: Errands,
    deeds: VecDeque<Deed>,
    /// Calls that are not over for their callers.
    asked: HashMap<CallId, Asked, Mixing>,
    /// Outcomes that are here, and how often the server was told so.
    acks: HashMap<CallId, u32, Mixing>,
    /// Calls of others, by id and fence.
    jobs: BTreeMap<(CallId, u64), Job>,
    stop: Stop,
}

impl Session {
    pub(super) fn new(me: Me, pace: Pace, backoff: Backoff) -> Self {
        Self {
            me,
            pace,
            backoff,
            link: Link::Down,
            failures: 0,
            body_bytes_max: None,
            many: false,
            unsent: None,
            agenda: Agenda::default(),
            errands: Errands::default(),
            deeds: VecDeque::new(),
            asked: HashMap::default(),
            acks: HashMap::default(),
            jobs: BTreeMap::new(),
            stop: Stop::No,
        }
    }

    /// What is to be done next.
    pub(super) fn next_deed(&mut self) -> Option<Deed> {
        self.deeds.pop_front()
    }

    /// When [`Session::tick`] is wanted.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        while let Some((since, matter)) = self.agenda.due(now) {
            match matter {
                Matter::Connect => self.connect(),
                Matter::Silence => self.silence(since, now),
                Matter::Say(Step::Ping) => self.ping_is_due(now),
                Matter::Say(step) => self.errands.push(step),
                Matter::Over(id) => self.time_is_over(id, now),
            }
        }
    }

    /// Whether there may be something to write.
    pub(super) fn has_frames(&self) -> bool {
        self.link.is_open() && (self.unsent.is_some() || !self.errands.is_empty())
    }

    /// The next message to write: a frame, or several if the server reads those.
    pub(super) fn next_message(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut message = Many::default();
        while let Some(frame) = self.unsent.take().or_else(|| self.next_frame(now)) {
            if !message.fits(frame.len()) {
                self.unsent = Some(frame);
                break;
            }
            message.push_text(&frame);
            if !self.many {
                break;
            }
        }
        message.take()
    }

    /// The next frame to write, as text.
    pub(super) fn next_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        while self.link.is_open() {
            let step = self.errands.pop()?;
            if let Some(frame) = self.frame(step, now) {
                return Some(frame);
            }
        }
        None
    }

    /// The server said something.
    pub(super) fn hear(&mut self, frame: Down<Body>, now: Instant) {
        match frame {
            Down::A(pong) => self.hear_pong(pong, now),
            Down::B(offer) => self.hear_offer(offer, now),
            Down::C(wire::Named { id }) => self.hear_registered(id, now),
            Down::D(held) => self.hear_held(held, now),
            Down::E(ended) => self.hear_ended(ended),
            Down::F(wire::Named { id }) => {
                self.hear_life(now);
                self.acks.remove(&id);
                self.agenda.clear(Matter::Say(Step::ResponseAck(id)));
            }
            Down::G(taken) => self.hear_taken(taken, now),
            Down::H(wire::Empty {}) => {
                self.hear_life(now);
                self.hear_stopped();
            }
            Down::Cancelled(wire::Fenced { id, fence }) => self.hear_cancelled(id, fence),
        }
    }

    /// What a step is in words; nothing if it has become void. What is to be confirmed is said
    /// again after a while.
    fn frame(&mut self, step: Step, now: Instant) -> Option<Vec<u8>> {
        let (text, again) = match step {
            Step::Init => (self.init(), None),
            Step::Ping => (self.ping(), None),
            Step::Request(id) => self.request(id, now)?,
            Step::Cancel(id) => (self.cancelling(id)?, Some(self.pace.repeat)),
            Step::ResponseAck(id) => (self.acknowledge(id)?, Some(self.pace.repeat)),
            Step::RequestAck(id, fence) => (self.accept(id, fence)?, Some(self.pace.repeat)),
            Step::Heartbeat(id, fence) => self.heartbeat(id, fence)?,
            Step::Response(id, fence) => (self.response(id, fence)?, Some(self.pace.repeat)),
            Step::Stop => (self.stopping()?, Some(self.pace.repeat)),
        };
        if let Some(after) = again {
            self.agenda.set(Matter::Say(step), later(now, after));
        }
        Some(text)
    }

    /// Says something if it can be said; otherwise it is said when there is a connection.
    fn say(&mut self, step: Step) {
        if self.link.is_live() {
            self.agenda.clear(Matter::Say(step));
            self.errands.push(step);
        }
    }

    /// Everything that is not confirmed is said over a new connection. Leases first: they run out.
    fn say_all_again(&mut self) {
        if self.stop == Stop::Asked {
            self.say(Step::Stop);
        }
        let jobs: Vec<Step> = self.jobs.iter().map(|(key, job)| job.step(*key)).collect();
        let acks: Vec<Step> = self.acks.keys().map(|id| Step::ResponseAck(*id)).collect();
        let asked: Vec<Step> = self.asked.iter().map(|(id, asked)| asked.step(*id)).collect();
        for step in jobs.into_iter().chain(acks).chain(asked) {
            self.say(step);
        }
    }

    /// How many calls of others are begun and not answered, as far as the server has confirmed.
    pub(super) fn unfinished(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing of it waits for the server: what was asked is registered, outcomes are
    /// acknowledged, results are stored.
    pub(super) fn is_settled(&self) -> bool {
        self.acks.is_empty()
            && self.jobs.is_empty()
            && self.stop != Stop::Asked
            && self.asked.values().all(Asked::is_registered)
    }
}

/// A frame as text.
fn text(frame: &Up<&[u8]>) -> Vec<u8> {
    let mut text = Vec::with_capacity(FRAME_BYTES);
    frame.write(&mut text);
    text
}

/// As milliseconds of the wire, at least one.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}
