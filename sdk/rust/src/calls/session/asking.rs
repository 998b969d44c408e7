//! The caller's side: a call is said until it is registered, and known until its end is here.

use std::time::Duration;

use handoff_calls::wire::{Ended, Named, Request, Up};
use handoff_calls::{CallId, ChannelName, IdempotencyKey, TraceParent};
use tokio::time::Instant;

use super::agenda::{Matter, Step};
use super::{Body, Deed, Session, millis, text};
use crate::connect::later;

/// When the time of a call is over, the server has so long to say so before it is asked again.
const LAST_WORD: Duration = Duration::from_secs(1);

/// And so long after that, before nobody waits any more.
const GRACE: Duration = Duration::from_secs(2);

/// An acknowledgement that is not confirmed is said so often, and then it is the server's affair:
/// it forgets an outcome by itself.
const ACKS_SAID_MAX: u32 = 100;

/// The same for a cancellation: then nobody knows how the call ends.
const CANCELS_SAID_MAX: u32 = 10;

/// Outcomes that are acknowledged at once; of more than these the server hears when it tells them
/// again.
const ACKS_MAX: usize = 65_536;

/// A call that is registered is asked for again so many times less often than one that is not.
const REGISTERED_REPEATS: u32 = 6;

/// What the server calls an error that is its own: nothing was registered.
const REFUSED: &str = "Refused";

/// A call, as its caller wants it.
#[derive(Debug)]
pub(in crate::calls) struct NewCall {
    pub(in crate::calls) id: CallId,
    pub(in crate::calls) channel: ChannelName,
    pub(in crate::calls) params: Body,
    pub(in crate::calls) key: Option<IdempotencyKey>,
    pub(in crate::calls) timeout: Option<Duration>,
    pub(in crate::calls) queue_timeout: Option<Duration>,
    pub(in crate::calls) only_with_consumer: bool,
    pub(in crate::calls) trace: Option<TraceParent>,
}

/// How a call ended for its caller.
#[derive(Debug)]
pub(in crate::calls) enum Finish {
    /// As the server says.
    Ended(Box<Ended<Body>>),
    /// It was cancelled before anybody heard of it.
    Cancelled,
    /// Its time was over and the server said nothing, or could not be reached.
    Unanswered {
        /// It may have been heard of.
        sent: bool,
    },
    /// It is larger than the server takes; nothing was sent.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// What the server takes.
        max: u64,
    },
}

/// A call that is not over for its caller.
#[derive(Debug)]
pub(super) struct Asked {
    call: NewCall,
    /// When its time is over.
    deadline: Option<Instant>,
    /// It was put on a connection.
    sent: bool,
    registered: bool,
    cancelled: bool,
    /// How often the server was told that.
    cancels: u32,
    /// Its time is over, and the server was asked once more.
    last_word: bool,
}

impl Asked {
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// How often it is asked for while the server says nothing of it. Once it is registered there is
    /// only its end to come, and that may take long.
    pub(super) fn patience(&self, repeat: Duration) -> Duration {
        if self.registered { repeat.saturating_mul(REGISTERED_REPEATS) } else { repeat }
    }

    /// What is said about it over a new connection.
    pub(super) fn step(&self, id: CallId) -> Step {
        if self.cancelled { Step::Cancel(id) } else { Step::Request(id) }
    }
}

impl Session {
    /// Somebody calls.
    pub(in crate::calls) fn call(&mut self, call: NewCall, now: Instant) {
        let id = call.id;
        let deadline = call.timeout.map(|timeout| later(now, timeout));
        if let Some(deadline) = deadline {
            self.agenda.set(Matter::Over(id), deadline + LAST_WORD);
        }
        let asked = Asked {
            call,
            deadline,
            sent: false,
            registered: false,
            cancelled: false,
            cancels: 0,
            last_word: false,
        };
        self.asked.insert(id, asked);
        self.say(Step::Request(id));
    }

    /// Somebody wants a call no more.
    pub(in crate::calls) fn cancel(&mut self, id: CallId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if !asked.sent {
            self.finish(id, Finish::Cancelled);
            return;
        }
        asked.cancelled = true;
        self.agenda.clear(Matter::Say(Step::Request(id)));
        self.say(Step::Cancel(id));
    }

    /// Whether the server may have heard of a call that is not over.
    pub(in crate::calls) fn was_sent(&self, id: CallId) -> bool {
        self.asked.get(&id).is_some_and(|asked| asked.sent)
    }

    /// A request, and when the next is due.
    pub(super) fn request(
        &mut self,
        id: CallId,
        now: Instant,
    ) -> Option<(Vec<u8>, Option<Duration>)> {
        let asked = self.asked.get_mut(&id).filter(|asked| !asked.cancelled)?;
        let bytes = asked.call.params.get().len() as u64;
        if let Some(max) = self.body_bytes_max.filter(|max| bytes > *max) {
            self.finish(id, Finish::TooLarge { bytes, max });
            return None;
        }
        asked.sent = true;
        let call = &asked.call;
        // What is left of it: a call that arrives late must not last longer for that.
        let left = asked.deadline.map(|deadline| deadline.saturating_duration_since(now));
        let frame = Up::Request(Request {
            id,
            channel: call.channel.clone(),
            params: Some(call.params.get().as_bytes()),
            key: call.key.clone(),
            timeout_ms: left.map(millis),
            queue_timeout_ms: call.queue_timeout.map(millis),
            only_with_consumer: call.only_with_consumer,
            traceparent: call.trace.clone(),
        });
        Some((text(&frame), Some(asked.patience(self.pace.repeat))))
    }

    pub(super) fn cancelling(&mut self, id: CallId) -> Option<Vec<u8>> {
        let asked = self.asked.get_mut(&id)?;
        asked.cancels += 1;
        if asked.cancels > CANCELS_SAID_MAX {
            self.finish(id, Finish::Unanswered { sent: true });
            return None;
        }
        Some(text(&Up::Cancel(Named { id })))
    }

    pub(super) fn acknowledge(&mut self, id: CallId) -> Option<Vec<u8>> {
        let said = self.acks.get_mut(&id)?;
        if *said == ACKS_SAID_MAX {
            self.acks.remove(&id);
            return None;
        }
        *said += 1;
        Some(text(&Up::ResponseAck(Named { id })))
    }

    pub(super) fn hear_registered(&mut self, id: CallId, now: Instant) {
        self.hear_life(now);
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if !std::mem::replace(&mut asked.registered, true) {
            self.deeds.push_back(Deed::Registered(id));
        }
        // The word of its end may be lost all the same.
        let again = later(now, asked.patience(self.pace.repeat));
        if !asked.cancelled {
            self.agenda.set(Matter::Say(Step::Request(id)), again);
        }
    }

    /// A call is over. Whoever it was for has it now; that is said also of one that nobody here
    /// waits for, or the server would keep it for nothing. Of a refusal it keeps nothing.
    pub(super) fn hear_ended(&mut self, ended: Ended<Body>) {
        let id = ended.id;
        let refused = ended.error.as_ref().is_some_and(|error| &*error.name == REFUSED);
        match self.asked.get(&id) {
            // It never came to the server: nobody will run it.
            Some(asked) if refused && asked.cancelled => self.finish(id, Finish::Cancelled),
            Some(_) => self.finish(id, Finish::Ended(Box::new(ended))),
            None => {}
        }
        if refused {
            self.acks.remove(&id);
            self.agenda.clear(Matter::Say(Step::ResponseAck(id)));
        } else if self.acks.len() < ACKS_MAX || self.acks.contains_key(&id) {
            self.acks.insert(id, 0);
            self.say(Step::ResponseAck(id));
        }
    }

    pub(super) fn time_is_over(&mut self, id: CallId, now: Instant) {
        let live = self.link.is_live();
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if std::mem::replace(&mut asked.last_word, true) {
            let sent = asked.sent;
            self.finish(id, Finish::Unanswered { sent });
            return;
        }
        // Asked for again, the server says what it knows: perhaps its word was lost.
        if live && asked.sent {
            let step = asked.step(id);
            self.say(step);
        }
        self.agenda.set(Matter::Over(id), now + GRACE);
    }

    fn finish(&mut self, id: CallId, finish: Finish) {
        self.asked.remove(&id);
        self.agenda.clear(Matter::Over(id));
        self.agenda.clear(Matter::Say(Step::Request(id)));
        self.agenda.clear(Matter::Say(Step::Cancel(id)));
        self.deeds.push_back(Deed::Finish(id, finish));
    }
}
