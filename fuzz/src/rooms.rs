//! Changes and chunks of the rooms on embedded storage.

use std::fmt::Debug;

use bytes::Bytes;
use handoff_calls::Calls;
use handoff_events::Events;
use handoff_exchange::Exchange;
use handoff_house::House;
use handoff_store_embedded::Persist;
use handoff_store_embedded::folders::FileName;
use handoff_streams::Streams;

/// Changes of the calls room, one behind the other.
pub fn calls_change(data: &[u8]) {
    changes::<Calls>(data);
}

/// An octet of how large chunks are, then a chunk of the calls room.
pub fn calls_chunk(data: &[u8]) {
    chunk::<Calls>(data);
}

/// Changes of the events room, one behind the other.
pub fn events_change(data: &[u8]) {
    changes::<Events>(data);
}

/// An octet of how large chunks are, then a chunk of the events room.
pub fn events_chunk(data: &[u8]) {
    chunk::<Events>(data);
}

/// Changes of the exchange, one behind the other.
pub fn exchange_change(data: &[u8]) {
    changes::<Exchange>(data);
}

/// An octet of how large chunks are, then a chunk of the exchange.
pub fn exchange_chunk(data: &[u8]) {
    chunk::<Exchange>(data);
}

/// A text that is the name of a message's file is written the same.
pub fn exchange_name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = text.parse::<FileName>() {
        assert_eq!(name.to_string(), text);
        assert!(text.len() <= FileName::LENGTH_MAX && !text.contains('/'));
    }
}

/// Changes of the house, one behind the other.
pub fn house_change(data: &[u8]) {
    changes::<House>(data);
}

/// An octet of how large chunks are, then a chunk of the house.
pub fn house_chunk(data: &[u8]) {
    chunk::<House>(data);
}

/// Changes of the streams room, one behind the other.
pub fn streams_change(data: &[u8]) {
    changes::<Streams>(data);
}

/// An octet of how large chunks are, then a chunk of the streams room.
pub fn streams_chunk(data: &[u8]) {
    chunk::<Streams>(data);
}

/// Bytes that are read as a change are those the change is written with, to the last bit.
fn changes<P: Persist>(data: &[u8]) {
    let mut rest = data;
    while let Ok((change, behind)) = P::decode_change(rest) {
        let (taken, left) = rest.split_at(rest.len() - behind.len());
        assert_eq!(left, behind, "what stands behind a change is left alone");
        let mut written = Vec::new();
        P::encode_change(&change, &mut written);
        assert_eq!(written, taken);
        P::key(&change);
        rest = behind;
    }
}

/// A chunk that can be restored is a state that can be written and restored again.
fn chunk<P: Persist>(data: &[u8])
where
    P::State: Default + Debug + PartialEq,
{
    let Some((&size, chunk)) = data.split_first() else { return };
    let mut state = P::State::default();
    if P::restore(&mut state, chunk).is_err() {
        return;
    }
    let whole = snapshots::<P>(&state, usize::MAX);
    let parts = snapshots::<P>(&state, usize::from(size));
    assert_eq!(whole.concat(), parts.concat(), "where it is cut changes nothing");
    let mut again = P::State::default();
    for part in parts {
        P::restore(&mut again, &part).expect("what is written is restored");
    }
    assert_eq!(again, state);
}

/// All chunks of a state.
fn snapshots<P: Persist>(state: &P::State, bytes_max: usize) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    let mut from = Bytes::new();
    loop {
        let (chunk, next) = P::snapshot(state, &from, bytes_max);
        chunks.push(chunk);
        let Some(next) = next else { return chunks };
        assert!(next > from, "keys ascend");
        from = next;
    }
}
