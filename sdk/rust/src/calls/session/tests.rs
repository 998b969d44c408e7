//! The session without a socket: what is said, when, and what for.

mod promises;
mod world;

use std::time::Duration;

use handoff_calls::wire::{Down, Ended, Held, Named, Offer, Pong, Serves, Up};
use handoff_calls::{CallId, ChannelName, ClientId};
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::{Body, Deed, Me, NewCall, Pace, Session};
use crate::Backoff;

const MS: Duration = Duration::from_millis(1);

const PACE: Pace = Pace {
    ping_interval: MS.saturating_mul(1000),
    ping_timeout: MS.saturating_mul(1000),
    repeat: MS.saturating_mul(5000),
};

fn id(number: u128) -> CallId {
    CallId::from_number(number)
}

fn channel() -> ChannelName {
    "double".parse().unwrap()
}

fn json(number: u64) -> Body {
    to_raw_value(&number).unwrap()
}

fn new_session(client: u128, serves: u32) -> Session {
    let serves = (serves > 0).then(|| Serves { channel: channel(), concurrency: serves });
    let client = ClientId::from_number(client);
    let me = Me { client, name: "test".into(), serves: serves.into_iter().collect() };
    let backoff = Backoff { first: 100 * MS, longest: 1000 * MS };
    Session::new(me, PACE, backoff)
}

fn new_call(number: u128, timeout: Option<Duration>) -> NewCall {
    NewCall {
        id: id(number),
        channel: channel(),
        params: json(u64::try_from(number).unwrap()),
        key: None,
        timeout,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    }
}

fn greeting() -> Down<Body> {
    let (ping_interval_ms, ping_timeout_ms) = (None, None);
    Down::A(Pong { n: 0, ping_interval_ms, ping_timeout_ms, body_bytes_max: Some(100), many: true })
}

fn pong(n: u64) -> Down<Body> {
    Down::A(Pong { n, ..Pong::default() })
}

fn registered(number: u128) -> Down<Body> {
    Down::C(Named { id: id(number) })
}

fn ended(number: u128, answer: u64) -> Down<Body> {
    let answer = Some(json(answer));
    Down::E(Ended { id: id(number), status: 0, answer, error: None, executor: None })
}

fn offer(number: u128, fence: u64) -> Down<Body> {
    Down::B(Offer {
        id: id(number),
        channel: channel(),
        caller: None,
        params: json(u64::try_from(number).unwrap()),
        fence,
        attempt: 1,
        deadline_ms: 60_000,
        lease_ms: 30_000,
        held: false,
        traceparent: None,
    })
}

fn held(number: u128, fence: u64, held: bool) -> Down<Body> {
    Down::D(Held { id: id(number), fence, held })
}

/// Everything it says now.
fn said(session: &mut Session, now: Instant) -> Vec<Up<serde_json::Value>> {
    let frames = std::iter::from_fn(|| session.next_frame(now));
    frames.map(|text| serde_json::from_slice(&text).unwrap()).collect()
}

/// Everything it wants done now.
fn deeds(session: &mut Session) -> Vec<Deed> {
    std::iter::from_fn(|| session.next_deed()).collect()
}

/// A session that the server has greeted.
fn greeted(mut session: Session, now: Instant) -> Session {
    session.open();
    connect(&mut session, now);
    session
}

/// A new connection, and the server's greeting.
fn connect(session: &mut Session, now: Instant) {
    assert!(matches!(deeds(session).last(), Some(Deed::Connect)));
    session.connected(now);
    assert!(matches!(&said(session, now)[..], [Up::Init(_)]));
    session.hear(greeting(), now);
    assert!(matches!(deeds(session).last(), Some(Deed::Standing(_))));
}

/// Cuts the connection, and makes another one when it is time for it. Gives when that was.
fn reconnect(session: &mut Session, now: Instant) -> Instant {
    session.lost(now, 1.0);
    assert!(said(session, now).is_empty(), "there is no connection");
    let now = now + 1000 * MS;
    session.tick(now);
    connect(session, now);
    now
}
