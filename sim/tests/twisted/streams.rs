//! The streams room with a twist, for topics and for groups.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_streams::{Action, Change, Command, Reply, State, Streams};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady};

pub(crate) type Decided = Decision<Reply, Change, Action>;

/// What a room does otherwise than the streams room.
pub(crate) trait Twist: fmt::Debug + Sized + 'static {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        Streams::decide(state, command, now, entropy)
    }

    fn encode(change: &Change, out: &mut Vec<u8>) {
        Streams::encode_change(change, out);
    }

    fn body(change: &Change) -> Option<Bytes> {
        Streams::body(change)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        Streams::snapshot(state, from, bytes_max)
    }
}

/// The streams room with a twist.
#[derive(Debug)]
pub(crate) struct Twisted<T>(PhantomData<T>);

impl<T: Twist> Machine for Twisted<T> {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        T::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        Streams::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        Streams::next_deadline(state, now)
    }
}

impl<T: Twist> Persist for Twisted<T> {
    const ROOM: Room = Streams::ROOM;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Streams::decode_change(bytes)
    }

    fn key(change: &Change) -> Bytes {
        Streams::key(change)
    }

    fn frame(change: &Change) -> Option<Frame> {
        Streams::frame(change)
    }

    fn body(change: &Change) -> Option<Bytes> {
        T::body(change)
    }

    fn has_lane(state: &State, lane: Lane) -> bool {
        Streams::has_lane(state, lane)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        T::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        Streams::restore(state, snapshot)
    }
}
