//! The connection: made, greeted, proved alive, given up, made again.

use std::time::Duration;

use handoff_calls::wire::{Init, Ping, Pong, Up};
use tokio::time::Instant;

use super::agenda::{Matter, Step};
use super::{Deed, Session, Standing, text};
use crate::connect::later;

/// How long the server has to answer a greeting.
const GREETING: Duration = Duration::from_secs(5);

/// The shortest time that a server can ask for: a typing error there must not become a flood.
const SHORTEST: Duration = Duration::from_millis(20);

/// How often, and for how long.
#[derive(Clone, Copy, Debug)]
pub(in crate::calls) struct Pace {
    /// Between two pings. The server's word counts, once it was heard.
    pub(in crate::calls) ping_interval: Duration,
    /// Without an answer for so long a connection is suspect, for twice as long it is dead. The
    /// server's word counts, once it was heard.
    pub(in crate::calls) ping_timeout: Duration,
    /// After this long what is not confirmed is said again over the same connection.
    pub(in crate::calls) repeat: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none.
    Down,
    /// It is being made.
    Connecting,
    /// It is there, and the server has not answered yet.
    Greeting,
    /// It is good.
    Live {
        /// The last ping that was due.
        pinged: u64,
        /// The last that was answered.
        answered: u64,
        suspect: bool,
    },
}

impl Link {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Greeting | Self::Live { .. })
    }

    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Live { .. })
    }
}

impl Session {
    /// A connection is wanted.
    pub(in crate::calls) fn open(&mut self) {
        if self.link == Link::Down {
            self.connect();
        }
    }

    pub(super) fn connect(&mut self) {
        self.agenda.clear(Matter::Connect);
        self.link = Link::Connecting;
        self.deeds.push_back(Deed::Connect);
    }

    /// Whether the server has greeted, over the connection there is.
    pub(in crate::calls) fn is_live(&self) -> bool {
        self.link.is_live()
    }

    /// There is a connection.
    pub(in crate::calls) fn connected(&mut self, now: Instant) {
        self.link = Link::Greeting;
        self.say_nothing();
        self.many = false;
        self.errands.push(Step::Init);
        self.agenda.set(Matter::Silence, now + GREETING);
    }

    /// The connection is gone, or came to nothing. `chance` is a number from 0 to 1.
    pub(in crate::calls) fn lost(&mut self, now: Instant, chance: f64) {
        self.link = Link::Down;
        self.say_nothing();
        self.agenda.clear_connection();
        let wait = self.backoff.wait_by(self.failures, None, chance);
        self.agenda.set(Matter::Connect, later(now, wait));
        self.failures = self.failures.saturating_add(1);
    }

    /// What was to be said over a connection that is gone is said over another, if it counts by then.
    fn say_nothing(&mut self) {
        self.errands.clear();
        self.unsent = None;
    }

    pub(super) fn init(&self) -> Vec<u8> {
        // Whoever wants no more calls serves nothing any more.
        let serves = if self.is_stopping() { Vec::new() } else { self.me.serves.clone() };
        let (client, name) = (self.me.client, self.me.name.clone());
        text(&Up::Init(Init { client, name, serves, many: true, eager: true }))
    }

    pub(super) fn ping(&self) -> Vec<u8> {
        let n = match self.link {
            Link::Live { pinged, .. } => pinged,
            _ => 0,
        };
        text(&Up::Ping(Ping { n }))
    }

    /// Counted from when it is due, not from when the socket takes it: a socket that takes nothing
    /// is as silent as one that gives nothing.
    pub(super) fn ping_is_due(&mut self, now: Instant) {
        let Link::Live { pinged, answered, .. } = &mut self.link else { return };
        if pinged == answered {
            self.agenda.set(Matter::Silence, later(now, self.pace.ping_timeout));
        }
        *pinged += 1;
        self.errands.push_first(Step::Ping);
        self.agenda.set(Matter::Say(Step::Ping), later(now, self.pace.ping_interval));
    }

    pub(super) fn hear_pong(&mut self, pong: Pong, now: Instant) {
        match &mut self.link {
            Link::Greeting => self.greeted(pong, now),
            Link::Live { pinged, answered, .. } => {
                *answered = pong.n.clamp(*answered, *pinged);
                self.hear_life(now);
            }
            Link::Down | Link::Connecting => {}
        }
    }

    fn greeted(&mut self, pong: Pong, now: Instant) {
        let told = |millis: Option<u64>| millis.map(|ms| Duration::from_millis(ms).max(SHORTEST));
        self.pace.ping_interval = told(pong.ping_interval_ms).unwrap_or(self.pace.ping_interval);
        self.pace.ping_timeout = told(pong.ping_timeout_ms).unwrap_or(self.pace.ping_timeout);
        self.body_bytes_max = pong.body_bytes_max.or(self.body_bytes_max);
        self.many = pong.many;
        self.link = Link::Live { pinged: 0, answered: 0, suspect: false };
        self.failures = 0;
        self.agenda.clear(Matter::Silence);
        self.agenda.set(Matter::Say(Step::Ping), later(now, self.pace.ping_interval));
        self.deeds.push_back(Deed::Standing(Standing::Good));
        self.say_all_again();
    }

    /// Something was answered: the way there and back is alive.
    pub(super) fn hear_life(&mut self, now: Instant) {
        let Link::Live { pinged, answered, suspect } = &mut self.link else { return };
        if *pinged == *answered {
            self.agenda.clear(Matter::Silence);
        } else {
            self.agenda.set(Matter::Silence, later(now, self.pace.ping_timeout));
        }
        if std::mem::take(suspect) {
            self.deeds.push_back(Deed::Standing(Standing::Good));
        }
    }

    pub(super) fn silence(&mut self, since: Instant, now: Instant) {
        let slept = now.duration_since(since) > self.pace.ping_timeout;
        match &mut self.link {
            // Nobody listened: what came meanwhile is still to be read.
            Link::Greeting | Link::Live { .. } if slept => {
                self.agenda.set(Matter::Silence, later(now, self.pace.ping_timeout));
            }
            Link::Live { suspect, .. } if !*suspect => {
                *suspect = true;
                self.deeds.push_back(Deed::Standing(Standing::Suspect));
                self.agenda.set(Matter::Silence, later(now, self.pace.ping_timeout));
            }
            Link::Greeting | Link::Live { .. } => {
                self.link = Link::Down;
                self.say_nothing();
                self.agenda.clear_connection();
                self.deeds.push_back(Deed::Disconnect);
            }
            Link::Down | Link::Connecting => {}
        }
    }
}
