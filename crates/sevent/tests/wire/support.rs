//! Octets as people write them, and arbitrary messages.

use bytes::{Bytes, BytesMut};
use handoff_sevent::{Answer, ErrorCode, Event, Frames, Malformed, Received, Request, Selection};
use proptest::collection::vec;
use proptest::prelude::*;

/// Octets from hex. White space is free, and `"text"` stands for its octets.
pub fn hex(text: &str) -> Vec<u8> {
    text.split('"')
        .enumerate()
        .flat_map(|(index, part)| match index % 2 {
            0 => digits(part),
            _ => part.as_bytes().to_vec(),
        })
        .collect()
}

fn digits(text: &str) -> Vec<u8> {
    text.split_whitespace()
        .map(|octet| {
            assert_eq!(octet.len(), 2, "octets are two digits: {octet}");
            u8::from_str_radix(octet, 16).unwrap()
        })
        .collect()
}

/// The only message of a stream, from its id on.
pub fn frame(octets: &[u8]) -> Bytes {
    let mut frames = Frames::new(u32::MAX);
    frames.extend(octets);
    let frame = frames.next().unwrap().expect("the message is whole");
    assert_eq!(frames.pending(), 0, "nothing comes after the message");
    frame
}

/// A request without its size, decoded.
pub fn decode(text: &str) -> Result<Received, Malformed> {
    Request::decode(&hex(text))
}

pub fn encoded(request: &Request, token: Option<&[u8]>) -> Vec<u8> {
    let mut out = BytesMut::new();
    request.encode(token, &mut out);
    out.to_vec()
}

pub fn selection(ids: &[i32], types: &[&str]) -> Selection {
    Selection { ids: ids.to_vec(), types: names(types) }
}

pub fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub fn any_event() -> impl Strategy<Value = Event> {
    let period = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::MIN_POSITIVE),
        0.1..1e9,
        proptest::num::f64::NORMAL,
    ];
    (".{0,40}", period, any_id()).prop_map(|(description, period, repeat)| Event {
        description,
        period,
        repeat,
    })
}

/// Ids of every length on the wire.
pub fn any_id() -> impl Strategy<Value = i32> {
    (any::<i32>(), 0_u32..32).prop_map(|(id, shift)| id >> shift)
}

pub fn any_selection() -> impl Strategy<Value = Selection> {
    (vec(any_id(), 0..20), vec(".{0,20}", 0..8)).prop_map(|(ids, types)| Selection { ids, types })
}

pub fn any_request() -> impl Strategy<Value = Request> {
    let types = || vec(".{0,20}", 0..8);
    prop_oneof![
        (any_event(), types()).prop_map(|(event, types)| Request::RegisterEvent { event, types }),
        proptest::option::of(types()).prop_map(|types| Request::ListEvents { types }),
        any_selection().prop_map(Request::DeleteEvent),
        any_selection().prop_map(Request::Subscribe),
        any_selection().prop_map(Request::Unsubscribe),
        Just(Request::GetFilter),
        any_selection().prop_map(Request::Filter),
        any_id().prop_map(|id| Request::GetEvent { id }),
    ]
}

pub fn any_answer() -> impl Strategy<Value = Answer> {
    let ids = || vec(any_id(), 0..200);
    let about = || (any_id(), vec(".{0,20}", 0..8), any_event(), any::<i64>());
    prop_oneof![
        (any::<u8>(), proptest::sample::select(&ErrorCode::ALL[..]), ".{0,200}")
            .prop_map(|(last_id, code, message)| Answer::Error { last_id, code, message }),
        (any_id(), any::<i64>())
            .prop_map(|(id, timestamp)| Answer::EventRegistration { id, timestamp }),
        ids().prop_map(|ids| Answer::ListedEvents { ids }),
        ids().prop_map(|ids| Answer::DeletedEvents { ids }),
        Just(Answer::FilterUpdated),
        any_selection().prop_map(Answer::Filter),
        about().prop_map(|(id, types, event, timestamp)| Answer::EventInfo {
            id,
            types,
            event,
            timestamp
        }),
        about().prop_map(|(id, types, event, timestamp)| Answer::Notify {
            id,
            types,
            event,
            timestamp
        }),
    ]
}

/// Octets that are often nearly a message.
pub fn any_octets() -> impl Strategy<Value = Vec<u8>> {
    let near = prop_oneof![
        any_request().prop_map(|request| encoded(&request, None)),
        any_answer().prop_map(|answer| answer.to_bytes().to_vec()),
    ];
    let bent = (near, vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)).prop_map(
        |(mut octets, changes)| {
            for (index, octet) in changes {
                let index = index.index(octets.len());
                octets[index] = octet;
            }
            octets
        },
    );
    prop_oneof![vec(any::<u8>(), 0..200), bent]
}
