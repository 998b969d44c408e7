//! What a message consists of, for one encoder of all of them.

use bytes::{BufMut, BytesMut};

use super::options::{END, EVENT_ID, EVENT_IDS, EVENT_TYPES, TOKEN};
use super::{ErrorCode, Event, MessageCode};
use crate::primitive::{
    len_len, put_double, put_len, put_time, put_var_string, put_varint, var_string_len, varint_len,
};

/// A message about to be written. Lists that are None are not written at all.
#[derive(Clone, Copy)]
pub(super) struct Outline<'a> {
    pub(super) code: MessageCode,
    pub(super) id: Option<i32>,
    pub(super) ids: Option<&'a [i32]>,
    pub(super) types: Option<&'a [String]>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) body: Body<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    Empty,
    Error { last_id: u8, code: ErrorCode, message: &'a str },
    Event(&'a Event),
    Time(i64),
    EventAt(&'a Event, i64),
}

/// How many octets the parts of a message take.
pub(super) struct Lengths {
    /// Of the EventIDs option, its id and size aside.
    ids: usize,
    /// Of the EventTypes option, likewise.
    types: usize,
    /// Of the message without its size.
    content: usize,
    /// Of the message.
    pub(super) whole: usize,
}

impl<'a> Outline<'a> {
    pub(super) const fn new(code: MessageCode) -> Self {
        Self { code, id: None, ids: None, types: None, token: None, body: Body::Empty }
    }

    /// Adds up how long its parts are. Looks at every item of its lists.
    pub(super) fn measure(&self) -> Lengths {
        let option = |len: usize| 1 + len_len(len) + len;
        let ids = self.ids.map_or(0, ids_len);
        let types = self.types.map_or(0, types_len);
        let content = 1
            + self.id.map_or(0, |id| option(varint_len(id)))
            + self.ids.map_or(0, |_| option(ids))
            + self.types.map_or(0, |_| option(types))
            + self.token.map_or(0, |token| option(token.len()))
            + 1
            + self.body.len();
        Lengths { ids, types, content, whole: len_len(content) + content }
    }

    /// The whole message in one piece.
    pub(super) fn put(&self, out: &mut BytesMut) {
        let lengths = self.measure();
        out.reserve(lengths.whole);
        let before = out.len();
        self.put_head(&lengths, out);
        for id in self.ids.unwrap_or_default() {
            put_varint(*id, out);
        }
        self.put_middle(&lengths, out);
        for name in self.types.unwrap_or_default() {
            put_var_string(name, out);
        }
        self.put_tail(out);
        debug_assert_eq!(out.len() - before, lengths.whole, "a message is as long as it says");
    }

    /// Everything before the first of `ids`.
    pub(super) fn put_head(&self, lengths: &Lengths, out: &mut BytesMut) {
        put_len(lengths.content, out);
        out.put_u8(self.code.octet());
        if let Some(id) = self.id {
            out.put_u8(EVENT_ID);
            put_len(varint_len(id), out);
            put_varint(id, out);
        }
        if let Some(ids) = self.ids {
            out.put_u8(EVENT_IDS);
            put_len(lengths.ids, out);
            put_len(ids.len(), out);
        }
    }

    /// Everything between the last of `ids` and the first of `types`.
    pub(super) fn put_middle(&self, lengths: &Lengths, out: &mut BytesMut) {
        if let Some(types) = self.types {
            out.put_u8(EVENT_TYPES);
            put_len(lengths.types, out);
            put_len(types.len(), out);
        }
    }

    /// Everything after the last of `types`.
    pub(super) fn put_tail(&self, out: &mut BytesMut) {
        if let Some(token) = self.token {
            out.put_u8(TOKEN);
            put_len(token.len(), out);
            out.put_slice(token);
        }
        out.put_u8(END);
        self.body.put(out);
    }
}

impl Body<'_> {
    fn len(&self) -> usize {
        let event = |event: &Event| {
            var_string_len(&event.description) + size_of::<f64>() + varint_len(event.repeat)
        };
        match self {
            Self::Empty => 0,
            Self::Error { message, .. } => 2 + message.len(),
            Self::Event(it) => event(it),
            Self::Time(_) => size_of::<i64>(),
            Self::EventAt(it, _) => event(it) + size_of::<i64>(),
        }
    }

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Error { last_id, code, message } => {
                out.put_u8(*last_id);
                out.put_u8(code.octet());
                out.put_slice(message.as_bytes());
            }
            Self::Event(event) => put_event(event, out),
            Self::Time(time) => put_time(*time, out),
            Self::EventAt(event, time) => {
                put_event(event, out);
                put_time(*time, out);
            }
        }
    }
}

fn put_event(event: &Event, out: &mut BytesMut) {
    put_var_string(&event.description, out);
    put_double(event.period, out);
    put_varint(event.repeat, out);
}

fn ids_len(ids: &[i32]) -> usize {
    len_len(ids.len()) + ids.iter().map(|id| varint_len(*id)).sum::<usize>()
}

fn types_len(types: &[String]) -> usize {
    len_len(types.len()) + types.iter().map(|name| var_string_len(name)).sum::<usize>()
}
