//! A room of the server with a twist.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use handoff_log::segments::Lane;
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Steady};

/// What a room of `M` decides.
pub(crate) type DecidedBy<M> =
    Decision<<M as Machine>::Reply, <M as Machine>::Change, <M as Machine>::Action>;

/// What a room does otherwise than the one of `M`.
pub(crate) trait Twist<M: Persist>: fmt::Debug + Sized + 'static {
    fn decide(state: &M::State, command: &M::Command, now: Now, entropy: Entropy) -> DecidedBy<M> {
        M::decide(state, command, now, entropy)
    }

    fn encode(change: &M::Change, out: &mut Vec<u8>) {
        M::encode_change(change, out);
    }

    fn written<'a>(state: &M::State, changes: &'a [M::Change]) -> Vec<&'a M::Change> {
        M::written(state, changes)
    }

    fn body(change: &M::Change) -> Option<Bytes> {
        M::body(change)
    }

    fn snapshot(state: &M::State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        M::snapshot(state, from, bytes_max)
    }
}

/// The room of `M` with a twist.
#[derive(Debug)]
pub(crate) struct Twisted<M, T>(PhantomData<(M, T)>);

impl<M: Persist, T: Twist<M>> Machine for Twisted<M, T> {
    type State = M::State;
    type Command = M::Command;
    type Change = M::Change;
    type Reply = M::Reply;
    type Action = M::Action;

    fn decide(state: &M::State, command: &M::Command, now: Now, entropy: Entropy) -> DecidedBy<M> {
        T::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut M::State, change: &M::Change) {
        M::evolve(state, change);
    }

    fn next_deadline(state: &M::State, now: Now) -> Option<Steady> {
        M::next_deadline(state, now)
    }
}

impl<M: Persist, T: Twist<M>> Persist for Twisted<M, T> {
    const ROOM: Room = M::ROOM;

    fn encode_change(change: &M::Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(M::Change, &[u8]), Undecodable> {
        M::decode_change(bytes)
    }

    fn written<'a>(state: &M::State, changes: &'a [M::Change]) -> Vec<&'a M::Change> {
        T::written(state, changes)
    }

    fn key(change: &M::Change) -> Bytes {
        M::key(change)
    }

    fn frame(change: &M::Change) -> Option<Frame> {
        M::frame(change)
    }

    fn body(change: &M::Change) -> Option<Bytes> {
        T::body(change)
    }

    fn has_lane(state: &M::State, lane: Lane) -> bool {
        M::has_lane(state, lane)
    }

    fn snapshot(state: &M::State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        T::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut M::State, snapshot: &[u8]) -> Result<(), Undecodable> {
        M::restore(state, snapshot)
    }
}
