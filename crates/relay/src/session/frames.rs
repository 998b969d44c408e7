//! Messages as bytes on a connection.
//!
//! ```text
//! frame       │ 0xd7 │ type u8 │ shard u16 │ segment u32 │ size u32 │ crc u32 │ body
//!             crc: CRC-32C of the twelve bytes before it and of the body
//!
//!  1 hello     │ protocol u8 │ encoder u8 │ power of two of the shards u8 │ backlog u8
//!              │ block 16 bytes │ sized agent │ sized token │ first segment u32 × shards
//!  2 key frame │ its bytes, or none         3 segment  │ its bytes
//!  4 skip      5 end      6 ping      7 pong      8 status │ see `status`
//! 17 hello ack │ frame limit u32 │ credit u32 │ shards u16 │ (mark u32 │ stands u32) × shards
//! 18 ack       19 reject, 20 refuse │ reason u8 │ milliseconds u32 │ sized words
//! ```
//!
//! A mark or a place of 2³² − 1 is none.

use bytes::{Buf, Bytes, BytesMut};
use handoff_types::Span;

use super::message::{Hello, HelloAck, Message, Reason, ShardState};
use super::status::Status;
use super::{GREETING_BYTES_MAX, PROTOCOL_VERSION, TOKEN_BYTES_MAX, WORDS_BYTES_MAX};
use crate::key::{BlockId, NO_SEGMENT, Name, Origin, SHARD_POWER_MAX, SegmentKey, Shards};
use crate::wire::{self, Front, Malformed};

/// Bytes in front of a body.
pub const SESSION_HEAD_BYTES: usize = 16;

const MAGIC: u8 = 0xd7;
const HELLO: u8 = 1;
const KEY_FRAME: u8 = 2;
const SEGMENT: u8 = 3;
const SKIP: u8 = 4;
const END: u8 = 5;
const PING: u8 = 6;
const PONG: u8 = 7;
const STATUS: u8 = 8;
const HELLO_ACK: u8 = 17;
const ACK: u8 = 18;
const REJECT: u8 = 19;
const REFUSE: u8 = 20;

/// Appends a message's bytes.
pub fn encode(message: &Message, out: &mut Vec<u8>) {
    let none = SegmentKey { shard: 0, segment: 0 };
    let (kind, key) = match message {
        Message::Hello(_) => (HELLO, none),
        Message::KeyFrame { key, .. } => (KEY_FRAME, *key),
        Message::Segment { key, .. } => (SEGMENT, *key),
        Message::Skip(key) => (SKIP, *key),
        Message::End => (END, none),
        Message::Ping => (PING, none),
        Message::Pong => (PONG, none),
        Message::Status(_) => (STATUS, none),
        Message::HelloAck(_) => (HELLO_ACK, none),
        Message::Ack(key) => (ACK, *key),
        Message::Reject { key, .. } => (REJECT, *key),
        Message::Refuse { .. } => (REFUSE, none),
    };
    let from = out.len();
    out.extend_from_slice(&[MAGIC, kind]);
    out.extend_from_slice(&key.shard.to_le_bytes());
    out.extend_from_slice(&key.segment.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    let body = out.len();
    put_body(message, out);
    let size = u32::try_from(out.len() - body).unwrap_or(u32::MAX);
    put_at(out, from + 8, size);
    let head = crc32c::crc32c(out.get(from..from + 12).unwrap_or_default());
    let crc = crc32c::crc32c_append(head, out.get(body..).unwrap_or_default());
    put_at(out, from + 12, crc);
}

fn put_at(out: &mut [u8], at: usize, number: u32) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

fn put_body(message: &Message, out: &mut Vec<u8>) {
    match message {
        Message::Hello(hello) => {
            let backlog = u8::from(hello.backlog);
            out.extend_from_slice(&[
                PROTOCOL_VERSION,
                hello.encoder,
                hello.shards.power(),
                backlog,
            ]);
            out.extend_from_slice(&hello.origin.block.0);
            wire::put_bytes(out, hello.origin.agent.as_str().as_bytes());
            wire::put_bytes(out, hello.token.as_bytes());
            for shard in hello.shards.ids() {
                let first = hello.first.get(usize::from(shard)).copied().unwrap_or(0);
                out.extend_from_slice(&first.to_le_bytes());
            }
        }
        Message::KeyFrame { bytes, .. } | Message::Segment { bytes, .. } => {
            out.extend_from_slice(bytes);
        }
        Message::Skip(_) | Message::End | Message::Ping | Message::Pong | Message::Ack(_) => {}
        Message::Status(status) => status.put(out),
        Message::HelloAck(ack) => {
            out.extend_from_slice(&ack.frame_bytes_max.to_le_bytes());
            out.extend_from_slice(&ack.credit.to_le_bytes());
            let shards = u16::try_from(ack.shards.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&shards.to_le_bytes());
            for ShardState { mark, stands } in &ack.shards {
                out.extend_from_slice(&mark.unwrap_or(NO_SEGMENT).to_le_bytes());
                out.extend_from_slice(&stands.unwrap_or(NO_SEGMENT).to_le_bytes());
            }
        }
        Message::Reject { reason, retry_after, words, .. }
        | Message::Refuse { reason, retry_after, words } => {
            out.push(*reason as u8);
            let millis = u32::try_from(retry_after.0 / 1_000).unwrap_or(u32::MAX);
            out.extend_from_slice(&millis.to_le_bytes());
            let mut end = words.len().min(WORDS_BYTES_MAX);
            while !words.is_char_boundary(end) {
                end -= 1;
            }
            wire::put_bytes(out, words.get(..end).unwrap_or_default().as_bytes());
        }
    }
}

/// The incoming side of a connection: bytes go in as they arrive, messages come out.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    body_bytes_max: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), body_bytes_max: GREETING_BYTES_MAX }
    }
}

impl Frames {
    /// Allows larger messages, once the peer is known.
    pub const fn allow(&mut self, body_bytes_max: usize) {
        self.body_bytes_max = body_bytes_max;
    }

    /// How many bytes may be given at once so that nobody makes the buffer larger than one message.
    #[must_use]
    pub fn room(&self) -> usize {
        (SESSION_HEAD_BYTES + self.body_bytes_max).saturating_sub(self.buffer.len())
    }

    /// How many bytes the message that has begun will have, its head included; none before its head
    /// has arrived. Ask after [`Frames::next_message`] gave none: then it is within what is allowed.
    #[must_use]
    pub fn begun(&self) -> Option<usize> {
        let size = self.buffer.get(8..SESSION_HEAD_BYTES)?.first_chunk::<4>()?;
        Some(SESSION_HEAD_BYTES + usize::try_from(u32::from_le_bytes(*size)).ok()?)
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message. None until more bytes have arrived.
    ///
    /// # Errors
    /// The connection has nothing more to say that could be understood: close it.
    pub fn next_message(&mut self) -> Result<Option<Message>, Malformed> {
        let mut front = Front(&self.buffer);
        // A peer that speaks something else is told at its first byte.
        if front.0.first().is_some_and(|first| *first != MAGIC) {
            return Err(Malformed("is no frame of this protocol"));
        }
        let Ok(head) = front.array::<SESSION_HEAD_BYTES>() else { return Ok(None) };
        let mut head = Front(&head);
        let (_, kind) = (head.byte()?, head.byte()?);
        let key = SegmentKey { shard: head.u16()?, segment: head.u32()? };
        let size = usize::try_from(head.u32()?).unwrap_or(usize::MAX);
        let crc = head.u32()?;
        if size > self.body_bytes_max {
            return Err(Malformed("is larger than allowed"));
        }
        if front.left() < size {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(SESSION_HEAD_BYTES + size).freeze();
        let checked = crc32c::crc32c(frame.get(..12).unwrap_or_default());
        frame.advance(SESSION_HEAD_BYTES);
        if crc32c::crc32c_append(checked, &frame) != crc {
            return Err(Malformed("does not have its checksum"));
        }
        read(kind, key, frame).map(Some)
    }
}

fn read(kind: u8, key: SegmentKey, body: Bytes) -> Result<Message, Malformed> {
    let mut front = Front(&body);
    let message = match kind {
        KEY_FRAME => return Ok(Message::KeyFrame { key, bytes: body }),
        SEGMENT => return Ok(Message::Segment { key, bytes: body }),
        HELLO => Message::Hello(read_hello(&mut front)?),
        SKIP => Message::Skip(key),
        END => Message::End,
        PING => Message::Ping,
        PONG => Message::Pong,
        STATUS => Message::Status(Status::read(&mut front)?),
        HELLO_ACK => Message::HelloAck(read_hello_ack(&mut front)?),
        ACK => Message::Ack(key),
        REJECT => {
            let (reason, retry_after, words) = read_reason(&mut front)?;
            Message::Reject { key, reason, retry_after, words }
        }
        REFUSE => {
            let (reason, retry_after, words) = read_reason(&mut front)?;
            Message::Refuse { reason, retry_after, words }
        }
        _ => return Err(Malformed("is of a type that does not exist")),
    };
    front.end()?;
    Ok(message)
}

fn read_hello(front: &mut Front<'_>) -> Result<Hello, Malformed> {
    let [protocol, encoder, power, backlog] = front.array()?;
    if protocol != PROTOCOL_VERSION {
        return Err(Malformed("is of a protocol version that is not known"));
    }
    let shards = Shards::from_power(power).ok_or(Malformed("has too many shards"))?;
    let block = BlockId(front.array()?);
    let agent = text(front)?;
    let agent = Name::try_from(agent).map_err(|_| Malformed("has no proper agent name"))?;
    let token = text(front)?;
    if token.len() > TOKEN_BYTES_MAX || backlog > 1 {
        return Err(Malformed("is no proper greeting"));
    }
    let token = token.to_owned();
    let first = shards.ids().map(|_| front.u32()).collect::<Result<_, _>>()?;
    let origin = Origin { agent, block };
    Ok(Hello { origin, shards, encoder, backlog: backlog == 1, token, first })
}

fn read_hello_ack(front: &mut Front<'_>) -> Result<HelloAck, Malformed> {
    let (frame_bytes_max, credit) = (front.u32()?, front.u32()?);
    let count = front.u16()?;
    if count > 1 << SHARD_POWER_MAX {
        return Err(Malformed("has too many shards"));
    }
    let some = |number: u32| (number != NO_SEGMENT).then_some(number);
    let state = |front: &mut Front<'_>| {
        Ok(ShardState { mark: some(front.u32()?), stands: some(front.u32()?) })
    };
    let shards = (0..count).map(|_| state(front)).collect::<Result<_, _>>()?;
    Ok(HelloAck { frame_bytes_max, credit, shards })
}

fn read_reason(front: &mut Front<'_>) -> Result<(Reason, Span, String), Malformed> {
    let reason = Reason::from_number(front.byte()?);
    let reason = reason.ok_or(Malformed("has a reason that is not known"))?;
    let retry_after = Span::from_millis(front.u32()?.into());
    let words = text(front)?;
    if words.len() > WORDS_BYTES_MAX {
        return Err(Malformed("has too many words"));
    }
    Ok((reason, retry_after, words.to_owned()))
}

fn text<'a>(front: &mut Front<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(front.sized()?).map_err(|_| Malformed("has words that are no text"))
}
