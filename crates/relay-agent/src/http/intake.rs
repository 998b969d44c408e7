//! Remote write: a body in, and an answer when what was promised is true.
//!
//! ```text
//!  who is it? ─▶ which protocol? ─▶ room for the body ─▶ body ─▶ room for what it unpacks to
//!                                                                 └▶ batch ─▶ core ─▶ answer
//! ```
//!
//! | status | when |
//! |---|---|
//! | 204 | the promise is kept |
//! | 400 | not the message it says it is; or some series could not be taken, and the others were |
//! | 401 | no token, or another one |
//! | 413, 415 | too large, or of a kind that is not known |
//! | 429 or 503 | no room: nothing was taken (`agent.when_full`) |
//! | 503 | the promise was not kept in time; or the agent is opening or stopping |

use std::sync::Arc;

use bytes::Bytes;
use handoff_relay::remote_write::{
    Protocol, ReadError, Written, negotiate, read, unpack, unpacked_len,
};
use handoff_relay::{Batch, Outcome, SendError};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::answer::Refusal;
use super::{Door, UNIT};
use crate::core::{Ask, Event};
use crate::metrics::{Answered, Phase};

/// A batch takes about as much as the message it was made of.
const BATCH_WEIGHT: usize = 2;

pub(super) async fn write(door: &Door, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = match take(door, request).await {
        Ok((protocol, written)) => taken(protocol, &written),
        Err(refusal) => refusal.answer(),
    };
    let status = answer.status().as_u16();
    door.metrics.counted.requests.get_or_create(&Answered { status }).inc();
    answer
}

/// The answer to what was taken, as far as it could be.
fn taken(protocol: Protocol, written: &Written) -> Response<Full<Bytes>> {
    let mut answer = match written.first_refusal {
        None => {
            let mut answer = Response::new(Full::default());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            answer
        }
        Some(words) => {
            let refused = written.refused;
            let words = format!("{refused} series were not taken; the first one {words}");
            Refusal::Malformed(words).answer()
        }
    };
    // A sender of 1.0 takes these headers for a receiver of 2.0.
    if protocol == Protocol::V2 {
        for (name, count) in written.headers() {
            if let Ok(name) = header::HeaderName::from_bytes(name.as_bytes()) {
                answer.headers_mut().insert(name, HeaderValue::from(count));
            }
        }
    }
    answer
}

async fn take(door: &Door, request: Request<Incoming>) -> Result<(Protocol, Written), Refusal> {
    match door.metrics.phase() {
        Phase::Ready => {}
        Phase::Opening => return Err(Refusal::Opening),
        Phase::Stopping => return Err(Refusal::Stopping),
    }
    allowed(door, request.headers())?;
    let said = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let protocol = negotiate(said(header::CONTENT_TYPE), said(header::CONTENT_ENCODING))
        .map_err(|unsupported| Refusal::Unsupported(unsupported.to_string()))?;
    let intake = &door.intake;
    let time = intake.request_time_max;
    let (body, room) =
        timeout(time, receive(door, request)).await.map_err(|_| Refusal::TooSlow)??;

    let malformed = |words: String| Refusal::Malformed(words);
    let len = unpacked_len(&body).map_err(|error| malformed(format!("the body {error}")))?;
    let max = intake.body.body_bytes_max;
    if len > max {
        return Err(too_large(len as u64, max));
    }
    let unpacked = admit(&door.unpacked, len.saturating_mul(BATCH_WEIGHT), intake.bytes_max).await;
    let mut message = Vec::new();
    unpack(&body, max, &mut message).map_err(|error| malformed(format!("the body {error}")))?;
    drop((body, room));
    let mut batch = Box::new(Batch::new(intake.batch));
    let written =
        read(protocol, &message, &intake.body, &mut batch).map_err(|error| match error {
            ReadError::TooLarge => Refusal::TooLarge(error.to_string()),
            ReadError::Malformed(_) => malformed(error.to_string()),
        })?;
    drop(message);
    send(door, batch, unpacked).await?;
    let counted = &door.metrics.counted;
    counted.samples.inc_by(written.samples);
    counted.histograms.inc_by(written.histograms);
    counted.exemplars.inc_by(written.exemplars);
    counted.series_refused.inc_by(written.refused);
    Ok((protocol, written))
}

fn allowed(door: &Door, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(expected) = &door.token else { return Ok(()) };
    let Some(said) = headers.get(header::AUTHORIZATION) else { return Err(Refusal::NoToken) };
    let said = said.as_bytes().strip_prefix(b"Bearer ").unwrap_or_default();
    // Every byte is looked at: how long it takes says nothing of where they differ.
    let differ =
        said.iter().zip(expected.as_bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    if differ == 0 && said.len() == expected.len() { Ok(()) } else { Err(Refusal::WrongToken) }
}

/// Reads the body, once there is room for it.
async fn receive(
    door: &Door,
    request: Request<Incoming>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    let max = door.intake.body.body_bytes_max;
    let body = request.into_body();
    let said = body.size_hint().exact();
    if let Some(said) = said.filter(|said| *said > max as u64) {
        return Err(too_large(said, max));
    }
    let wanted = said.and_then(|said| usize::try_from(said).ok()).unwrap_or(max);
    let room = admit(&door.bodies, wanted, door.intake.bytes_max).await;
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok((body.to_bytes(), room)),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(max as u64 + 1, max)),
        Err(error) => Err(Refusal::Malformed(format!("the body did not come: {error}"))),
    }
}

/// Waits for room. One that is larger than all of it waits for all of it.
async fn admit(
    room: &Arc<Semaphore>,
    bytes: usize,
    bytes_max: usize,
) -> Option<OwnedSemaphorePermit> {
    let units = bytes.min(bytes_max).div_ceil(UNIT).min(bytes_max / UNIT);
    // It is never closed.
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    Arc::clone(room).acquire_many_owned(units).await.ok()
}

/// Hands a batch to the core and waits for what becomes of it.
async fn send(
    door: &Door,
    batch: Box<Batch>,
    room: Option<OwnedSemaphorePermit>,
) -> Result<(), Refusal> {
    if batch.is_empty() {
        return Ok(());
    }
    let (answer, answered) = oneshot::channel();
    let asked = door.events.send(Event::Send(Ask { batch, answer, room })).await;
    if asked.is_err() {
        return Err(Refusal::Stopping);
    }
    match answered.await {
        Ok(Ok(Outcome::Kept)) => Ok(()),
        Ok(Ok(Outcome::Late)) => Err(Refusal::Late),
        Ok(Ok(Outcome::Spooled)) => Err(Refusal::Spooled),
        Ok(Err(SendError::TooLarge)) => Err(Refusal::TooLarge(SendError::TooLarge.to_string())),
        Ok(Err(SendError::Full | SendError::BlockFull)) => Err(match door.metrics.phase() {
            Phase::Stopping => Refusal::Stopping,
            _ => Refusal::Full(door.intake.when_full),
        }),
        Err(_) => Err(Refusal::Stopping),
    }
}

fn too_large(bytes: u64, max: usize) -> Refusal {
    Refusal::TooLarge(format!("a body has at most {max} bytes unpacked, and this one {bytes}"))
}
