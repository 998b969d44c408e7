//! The exchange with a twist.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_exchange::{Action, Change, Command, Exchange, Reply, State};
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady};

pub(crate) type Decided = Decision<Reply, Change, Action>;

/// What a room does otherwise than the exchange.
pub(crate) trait Twist: fmt::Debug + Sized + 'static {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        Exchange::decide(state, command, now, entropy)
    }

    fn encode(change: &Change, out: &mut Vec<u8>) {
        Exchange::encode_change(change, out);
    }

    fn body(change: &Change) -> Option<Bytes> {
        Exchange::body(change)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        Exchange::snapshot(state, from, bytes_max)
    }
}

/// The exchange with a twist.
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
        Exchange::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        Exchange::next_deadline(state, now)
    }
}

impl<T: Twist> Persist for Twisted<T> {
    const ROOM: Room = Exchange::ROOM;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Exchange::decode_change(bytes)
    }

    fn key(change: &Change) -> Bytes {
        Exchange::key(change)
    }

    fn frame(change: &Change) -> Option<Frame> {
        Exchange::frame(change)
    }

    fn body(change: &Change) -> Option<Bytes> {
        T::body(change)
    }

    fn has_lane(state: &State, lane: Lane) -> bool {
        Exchange::has_lane(state, lane)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        T::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        Exchange::restore(state, snapshot)
    }
}
