//! Frames and what the room says, one as the other.

use bytes::Bytes;
use handoff_calls::wire::{self, Down, Up};
use handoff_calls::{Ask, CallId, ClientId, Failing, NewCall, Notice, Outcome, Serves};
use handoff_types::{Span, Steady};
use serde_json::value::RawValue;

/// What `null` is, for whoever leaves a value out.
static NULL: Bytes = Bytes::from_static(b"null");

/// What a client asks by a frame, and the call that is told if it is refused.
pub(super) fn ask_of(
    frame: &Up<&RawValue>,
    text: &Bytes,
    client: ClientId,
) -> (Option<CallId>, Ask) {
    // A small body is copied: as a piece of its frame it would keep all of that.
    let body = |raw: Option<&RawValue>| match raw {
        None => NULL.clone(),
        Some(raw) => text.slice_ref(raw.get().as_bytes()),
    };
    match frame {
        Up::Init(init) => {
            let serves = init.serves.iter();
            let serves = serves
                .map(|one| Serves { channel: one.channel.clone(), concurrency: one.concurrency });
            let (name, serves) = (init.name.clone(), serves.collect());
            (None, Ask::Init { client: init.client, name, serves, eager: init.eager })
        }
        Up::Ping(_) => (None, Ask::Ping { client }),
        Up::Stop(_) => (None, Ask::Stop { client }),
        Up::Request(request) => {
            let new = NewCall {
                id: request.id,
                caller: Some(client),
                channel: request.channel.clone(),
                params: body(request.params),
                key: request.key.clone(),
                timeout: request.timeout_ms.map(Span::from_millis),
                queue_timeout: request.queue_timeout_ms.map(Span::from_millis),
                only_with_consumer: request.only_with_consumer,
                trace: request.traceparent.clone(),
            };
            (Some(request.id), Ask::Request(Box::new(new)))
        }
        Up::RequestAck(wire::Fenced { id, fence }) => {
            (Some(*id), Ask::Accept { client, call: *id, fence: *fence })
        }
        Up::Heartbeat(wire::Fenced { id, fence }) => {
            (Some(*id), Ask::Heartbeat { client, call: *id, fence: *fence })
        }
        Up::Response(response) => {
            let result = match &response.error {
                None => Ok(body(response.answer)),
                Some(error) => Err(Failing {
                    error: error.clone().into(),
                    terminal: response.terminal,
                    retry_after: response.retry_after_ms.map(Span::from_millis),
                }),
            };
            let (call, fence) = (response.id, response.fence);
            (Some(call), Ask::Respond { client, call, fence, result })
        }
        Up::ResponseAck(wire::Named { id }) => (Some(*id), Ask::Acknowledge { client, call: *id }),
        Up::Cancel(wire::Named { id }) => (Some(*id), Ask::Cancel { call: *id, by: Some(client) }),
    }
}

/// What the room says, as a frame. `pong` is the answer to a ping.
pub(super) fn frame_of(notice: &Notice, pong: wire::Pong, now: Steady) -> Down<&[u8]> {
    let millis = |until: Steady| until.since(now).0 / 1_000;
    let named = |id: CallId| wire::Named { id };
    match notice {
        Notice::Pong { .. } => Down::A(pong),
        Notice::Offer(offer) => Down::B(wire::Offer {
            id: offer.call,
            channel: offer.channel.clone(),
            caller: offer.caller,
            params: &offer.params,
            fence: offer.fence,
            attempt: offer.attempt,
            deadline_ms: millis(offer.deadline),
            lease_ms: offer.lease.0 / 1_000,
            held: offer.held,
            traceparent: offer.trace.clone(),
        }),
        Notice::Registered { call, .. } => Down::C(named(*call)),
        Notice::Held { call, fence, held, .. } => {
            Down::D(wire::Held { id: *call, fence: *fence, held: *held })
        }
        Notice::Ended { call, outcome, executor, .. } => Down::E(ended(*call, outcome, *executor)),
        Notice::Acknowledged { call, .. } => Down::F(named(*call)),
        Notice::Taken { call, fence, taken, .. } => {
            Down::G(wire::Taken { id: *call, fence: *fence, taken: *taken })
        }
        Notice::Stopped { .. } => Down::H(wire::Empty {}),
        Notice::Cancelled { call, fence, .. } => {
            Down::Cancelled(wire::Fenced { id: *call, fence: *fence })
        }
    }
}

fn ended(id: CallId, outcome: &Outcome, executor: Option<ClientId>) -> wire::Ended<&[u8]> {
    let answer = match outcome {
        Outcome::Answer(body) => Some(&body[..]),
        _ => None,
    };
    let error = outcome.error().map(wire::CallError::from);
    wire::Ended { id, status: outcome.digit(), answer, error, executor }
}

/// A call that was refused, as a frame.
pub(super) fn refused<'a>(id: CallId, code: &str, message: &str) -> Down<&'a [u8]> {
    let error =
        wire::CallError { name: "Refused".into(), message: message.into(), code: code.into() };
    let error = Some(error);
    Down::E(wire::Ended { id, status: 1, answer: None, error, executor: None })
}

/// A body that came in as JSON, so it goes out as JSON.
pub(super) fn raw(body: &Bytes) -> &RawValue {
    serde_json::from_slice(body).unwrap_or(RawValue::NULL)
}
