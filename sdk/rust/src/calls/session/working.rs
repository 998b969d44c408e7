//! The consumer's side: an offer is accepted, begun once that is confirmed, kept by heartbeats, and
//! its result said until it is stored.

use std::time::Duration;

use handoff_calls::wire::{CallError, Empty, Fenced, Held, Offer, Response, Serves, Taken, Up};
use handoff_calls::{CallId, ChannelName};
use tokio::time::Instant;

use super::agenda::{Matter, Step};
use super::{Body, Deed, Session, text};
use crate::connect::later;

/// Heartbeats in the time that a lease lasts.
const BEATS: u32 = 3;

/// No lease is confirmed more often than this.
const BEAT_MIN: Duration = Duration::from_millis(20);

/// Somebody else's call.
#[derive(Debug)]
pub(super) struct Job {
    channel: ChannelName,
    lease: Duration,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is offered, and accepted if the server confirms it.
    Accepting(Box<Offer<Body>>),
    /// The handler runs.
    Running,
    /// The handler is done.
    Done(Box<Response<Body>>),
}

impl Job {
    /// What is said about it over a new connection.
    pub(super) fn step(&self, (id, fence): (CallId, u64)) -> Step {
        match self.stage {
            Stage::Accepting(_) => Step::RequestAck(id, fence),
            Stage::Running => Step::Heartbeat(id, fence),
            Stage::Done(_) => Step::Response(id, fence),
        }
    }

    fn beat(&self) -> Duration {
        (self.lease / BEATS).max(BEAT_MIN)
    }
}

/// Whether it wants no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    /// It does not, and the server has not confirmed that it heard.
    Asked,
    /// It is told of no more.
    Done,
}

impl Session {
    /// No more calls. What is offered and not begun goes to others; what runs is finished.
    pub(in crate::calls) fn stop(&mut self) {
        if self.stop != Stop::No || self.me.serves.is_empty() {
            return;
        }
        self.stop = Stop::Asked;
        let begun = |job: &Job| !matches!(job.stage, Stage::Accepting(_));
        let given: Vec<_> =
            self.jobs.iter().filter(|(_, job)| !begun(job)).map(|(key, _)| *key).collect();
        for (id, fence) in given {
            self.forget(id, fence);
        }
        self.say(Step::Stop);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// A handler is done. Nothing is said if the call is another's by now.
    pub(in crate::calls) fn respond(&mut self, response: Response<Body>) {
        let (id, fence) = (response.id, response.fence);
        let Some(job) = self.jobs.get_mut(&(id, fence)) else { return };
        job.stage = Stage::Done(Box::new(response));
        self.agenda.clear(Matter::Say(Step::Heartbeat(id, fence)));
        self.say(Step::Response(id, fence));
    }

    pub(super) fn hear_offer(&mut self, offer: Offer<Body>, now: Instant) {
        let (id, fence) = (offer.id, offer.fence);
        if let Some(known) = self.jobs.get(&(id, fence)) {
            let step = known.step((id, fence));
            self.say(step);
            return;
        }
        let Some(Serves { concurrency, .. }) =
            self.me.serves.iter().find(|one| one.channel == offer.channel)
        else {
            return;
        };
        // Handlers that were told to end may take a while; twice as many as were asked for is
        // enough all the same. The server offers the call to another.
        let most = usize::try_from(*concurrency).unwrap_or(usize::MAX).saturating_mul(2);
        let of_channel = |job: &&Job| job.channel == offer.channel;
        let full = self.jobs.len() >= most && self.jobs.values().filter(of_channel).count() >= most;
        let (channel, lease) = (offer.channel.clone(), Duration::from_millis(offer.lease_ms));
        if offer.held {
            let stage = if full { Stage::Done(Box::new(busy(id, fence))) } else { Stage::Running };
            let job = Job { channel, lease, stage };
            let beat = job.beat();
            self.jobs.insert((id, fence), job);
            if full {
                self.say(Step::Response(id, fence));
                return;
            }
            self.agenda.set(Matter::Say(Step::Heartbeat(id, fence)), later(now, beat));
            self.deeds.push_back(Deed::Begin(Box::new(offer)));
            return;
        }
        if self.is_stopping() || full {
            return;
        }
        let stage = Stage::Accepting(Box::new(offer));
        self.jobs.insert((id, fence), Job { channel, lease, stage });
        self.say(Step::RequestAck(id, fence));
    }

    pub(super) fn hear_held(&mut self, Held { id, fence, held }: Held, now: Instant) {
        self.hear_life(now);
        let Some(job) = self.jobs.get_mut(&(id, fence)) else { return };
        let beat = job.beat();
        match (&job.stage, held) {
            // Whether it still counts is said of the result itself.
            (Stage::Done(_), _) => {}
            (Stage::Accepting(_), false) => self.forget(id, fence),
            (Stage::Running, false) => {
                self.forget(id, fence);
                self.deeds.push_back(Deed::Abort(id, fence));
            }
            (_, true) => {
                let before = std::mem::replace(&mut job.stage, Stage::Running);
                if let Stage::Accepting(offer) = before {
                    self.agenda.clear(Matter::Say(Step::RequestAck(id, fence)));
                    self.deeds.push_back(Deed::Begin(offer));
                }
                self.agenda.set(Matter::Say(Step::Heartbeat(id, fence)), later(now, beat));
            }
        }
    }

    pub(super) fn hear_taken(&mut self, Taken { id, fence, taken }: Taken, now: Instant) {
        self.hear_life(now);
        if let Some(Job { stage: Stage::Done(_), .. }) = self.jobs.get(&(id, fence)) {
            self.forget(id, fence);
            self.deeds.push_back(Deed::Taken { taken });
        }
    }

    pub(super) fn hear_cancelled(&mut self, id: CallId, fence: u64) {
        match self.jobs.get(&(id, fence)).map(|job| &job.stage) {
            Some(Stage::Accepting(_)) => self.forget(id, fence),
            Some(Stage::Running) => {
                self.forget(id, fence);
                self.deeds.push_back(Deed::Abort(id, fence));
            }
            // The result is on its way, and its answer says that it came too late.
            Some(Stage::Done(_)) | None => {}
        }
    }

    pub(super) fn hear_stopped(&mut self) {
        if self.stop == Stop::Asked {
            self.stop = Stop::Done;
            self.agenda.clear(Matter::Say(Step::Stop));
        }
    }

    pub(super) fn accept(&self, id: CallId, fence: u64) -> Option<Vec<u8>> {
        let job = self.jobs.get(&(id, fence))?;
        let frame = Up::RequestAck(Fenced { id, fence });
        matches!(job.stage, Stage::Accepting(_)).then(|| text(&frame))
    }

    /// A heartbeat, and when the next is due, whether this one is answered or not.
    pub(super) fn heartbeat(&self, id: CallId, fence: u64) -> Option<(Vec<u8>, Option<Duration>)> {
        let job = self.jobs.get(&(id, fence))?;
        let frame = Up::Heartbeat(Fenced { id, fence });
        matches!(job.stage, Stage::Running).then(|| (text(&frame), Some(job.beat())))
    }

    pub(super) fn response(&mut self, id: CallId, fence: u64) -> Option<Vec<u8>> {
        let job = self.jobs.get_mut(&(id, fence))?;
        let Stage::Done(response) = &mut job.stage else { return None };
        let bytes = response.answer.as_ref().map_or(0, |answer| answer.get().len() as u64);
        if let Some(max) = self.body_bytes_max.filter(|max| bytes > *max) {
            response.answer = None;
            response.error = Some(too_large(bytes, max));
            response.terminal = true;
        }
        Some(text(&Up::Response(Response {
            id,
            fence,
            answer: response.answer.as_ref().map(|answer| answer.get().as_bytes()),
            error: response.error.clone(),
            terminal: response.terminal,
            retry_after_ms: response.retry_after_ms,
        })))
    }

    pub(super) fn stopping(&self) -> Option<Vec<u8>> {
        (self.stop == Stop::Asked).then(|| text(&Up::Stop(Empty {})))
    }

    fn forget(&mut self, id: CallId, fence: u64) {
        self.jobs.remove(&(id, fence));
        for step in
            [Step::RequestAck(id, fence), Step::Heartbeat(id, fence), Step::Response(id, fence)]
        {
            self.agenda.clear(Matter::Say(step));
        }
    }
}

/// What becomes of a call that is this consumer's and that it has no room for: it is tried again.
fn busy(id: CallId, fence: u64) -> Response<Body> {
    let error = CallError {
        name: "Busy".into(),
        message: "handlers that were told to end have not".into(),
        code: "worker_busy".into(),
    };
    let (answer, terminal, retry_after_ms) = (None, false, None);
    Response { id, fence, answer, error: Some(error), terminal, retry_after_ms }
}

fn too_large(bytes: u64, max: u64) -> CallError {
    CallError {
        name: "AnswerTooLarge".into(),
        message: format!("the answer has {bytes} bytes, the server takes {max}").into(),
        code: "answer_too_large".into(),
    }
}
