//! What a request is called: its id, and the trace it belongs to.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id, both ways.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The trace a request comes with (W3C Trace Context).
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The span that answered (W3C Trace Context Level 3, still a draft).
pub(super) const TRACERESPONSE: HeaderName = HeaderName::from_static("traceresponse");

/// The longest id that is taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Gives numbers that no two requests share, and that nobody mistakes for a count.
#[derive(Debug)]
pub(super) struct Ids {
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        // Unlike any other process: this must be unique, not secret.
        Self { seed: RandomState::new().hash_one(0_u8), next: AtomicU64::new(0) }
    }

    /// A number that was not given before.
    pub(super) fn draw(&self) -> u64 {
        mix(self.seed.wrapping_add(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Another number for each number (the finalizer of `splitmix64`, a bijection).
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A request's id: the client's if it is sane, else one that was drawn.
#[derive(Clone, Debug)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    pub(super) fn of(headers: &HeaderMap, ids: &Ids) -> Self {
        match headers.get(REQUEST_ID).filter(|value| is_sane(value.as_bytes())) {
            Some(value) => Self(value.clone()),
            None => Self::draw(ids),
        }
    }

    pub(super) fn draw(ids: &Ids) -> Self {
        let (drawn, mut text) = (ids.draw(), [0; 16]);
        for (nth, place) in text.iter_mut().enumerate() {
            let digit = u8::try_from(drawn >> (60 - 4 * nth) & 15).unwrap_or_default();
            *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        }
        Self(HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("-")))
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

fn is_sane(id: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(letter)
}

/// The trace a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    id: u128,
    sampled: bool,
}

impl Trace {
    /// The trace of a request. A header that cannot be read, or that came more than once, is as
    /// good as none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.to_str().ok()?.trim())
    }

    /// ```text
    ///  00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    ///  version   trace id, not 0            parent, not 0   flags    a later version may go on: -…
    /// ```
    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_at_checked(55)?;
        let mut parts = head.split('-');
        let version = hex(parts.next()?, 2)?;
        let id = hex(parts.next()?, 32)?;
        let parent = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        (ends && parts.next().is_none() && id != 0 && parent != 0)
            .then_some(Self { id, sampled: flags & 1 == 1 })
    }

    /// What the answer says: the same trace, and the span it was answered in.
    pub(super) fn response(self, span: u64) -> HeaderValue {
        // A span's id of zeros means that there is none.
        let text = format!("00-{self}-{:016x}-{:02x}", span.max(1), u8::from(self.sampled));
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.id)
    }
}

/// Lowercase digits only, as the W3C has it, and exactly so many.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let readable = text.len() == digits && text.bytes().all(digit);
    readable.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Ids, REQUEST_ID, RequestId, TRACEPARENT, Trace};
    use axum::http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;
    use std::collections::HashSet;

    const SOUND: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(name: axum::http::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_sound_trace_is_taken_over() {
        let later = SOUND.replacen("00", "cc", 1);
        for text in [SOUND, &later, &format!("{later}-what-the-future-will-be-like")] {
            let trace = Trace::of(&headers(TRACEPARENT, &[text])).unwrap();
            assert_eq!(trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
            let response = trace.response(7);
            assert_eq!(response, "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-01");
        }
    }

    #[test]
    fn a_malformed_trace_is_as_good_as_none() {
        let cases = [
            "",
            "00",
            &SOUND.to_uppercase(),
            &SOUND.replacen("00", "ff", 1),
            &format!("{SOUND}-more"),
            &format!("{SOUND}x"),
            &SOUND.replace('-', "_"),
            &SOUND.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &SOUND.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &SOUND.replace("-01", "-0g"),
            &SOUND.replace("-01", "-+1"),
            &SOUND.replacen("00-4bf9", "00-4b-9", 1),
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
        ];
        for text in cases {
            assert_eq!(Trace::of(&headers(TRACEPARENT, &[text])), None, "{text}");
        }
        assert_eq!(Trace::of(&headers(TRACEPARENT, &[SOUND, SOUND])), None, "twice");
        assert_eq!(Trace::of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_clients_id_is_taken_over_only_if_it_is_sane() {
        let ids = Ids::new();
        let sane = "A-1_2.3:4/5+6=7@8";
        assert_eq!(RequestId::of(&headers(REQUEST_ID, &[sane]), &ids).as_str(), sane);
        for odd in ["", "a b", "a\"b", "<x>", &"x".repeat(129)] {
            let id = RequestId::of(&headers(REQUEST_ID, &[odd]), &ids);
            assert_ne!(id.as_str(), odd);
            assert_eq!(id.as_str().len(), 16);
        }
    }

    #[test]
    fn no_two_requests_share_a_drawn_id() {
        let ids = Ids::new();
        let drawn: HashSet<_> = (0..10_000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 10_000);
    }

    proptest! {
        #[test]
        fn whatever_comes_as_a_trace_is_read_or_ignored(text in "[0-9a-f\\-é]{0,70}") {
            if let Some(trace) = Trace::parse(&text) {
                prop_assert!(text.contains(&trace.to_string()));
            }
        }

        #[test]
        fn a_trace_reads_back_from_its_answer(id in 1..=u128::MAX, span: u64, sampled: bool) {
            let trace = Trace { id, sampled };
            let response = trace.response(span);
            prop_assert_eq!(Trace::parse(response.to_str().unwrap()), Some(trace));
        }
    }
}
