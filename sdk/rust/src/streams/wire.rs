//! Requests and answers of the API in MessagePack.

use bytes::Bytes;
use rmp::encode::{self, ValueWriteError};

use super::message::{Message, Received, Sent, Status};
use super::msgpack::{Decoder, Malformed};
use super::reader::{Lost, Page};
use super::topic::millis;
use crate::client::VERSION;
use crate::{Error, Time};

/// The media type.
pub(super) const MSGPACK: &str = "application/msgpack";

pub(super) type Written = Result<(), ValueWriteError>;

/// A request with messages. With a producer the sequence of the first is given, and the others
/// follow one by one.
pub(super) fn produce<'a>(
    producer: Option<(&str, u64)>,
    messages: impl ExactSizeIterator<Item = &'a Message>,
) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    match write_produce(&mut out, producer, messages) {
        Ok(()) => Ok(out.into()),
        Err(error) => Err(Error::Invalid(format!("the messages cannot be written: {error}"))),
    }
}

fn write_produce<'a>(
    out: &mut Vec<u8>,
    producer: Option<(&str, u64)>,
    messages: impl ExactSizeIterator<Item = &'a Message>,
) -> Written {
    encode::write_map_len(out, if producer.is_some() { 4 } else { 2 })?;
    encode::write_str(out, "version")?;
    encode::write_uint(out, u64::from(VERSION))?;
    write_messages(out, producer, messages)
}

/// The fields of messages and of who sends them: one of them, or three with a producer.
pub(super) fn write_messages<'a>(
    out: &mut Vec<u8>,
    producer: Option<(&str, u64)>,
    messages: impl ExactSizeIterator<Item = &'a Message>,
) -> Written {
    if let Some((producer, sequence)) = producer {
        encode::write_str(out, "producer")?;
        encode::write_str(out, producer)?;
        encode::write_str(out, "sequence")?;
        encode::write_uint(out, sequence)?;
    }
    encode::write_str(out, "messages")?;
    encode::write_array_len(out, length(messages.len())?)?;
    for message in messages {
        write_message(out, message)?;
    }
    Ok(())
}

fn write_message(out: &mut Vec<u8>, message: &Message) -> Written {
    let Message { payload, key, headers, partition, deliver_at, ttl, sequence: _ } = message;
    let fields = 1
        + u32::from(key.is_some())
        + u32::from(!headers.is_empty())
        + u32::from(partition.is_some())
        + u32::from(deliver_at.is_some())
        + u32::from(ttl.is_some());
    encode::write_map_len(out, fields)?;
    if let Some(key) = key {
        encode::write_str(out, "key")?;
        encode::write_bin(out, key)?;
    }
    encode::write_str(out, "payload")?;
    encode::write_bin(out, payload)?;
    if !headers.is_empty() {
        encode::write_str(out, "headers")?;
        encode::write_map_len(out, length(headers.len())?)?;
        for (name, value) in headers {
            encode::write_str(out, name)?;
            encode::write_bin(out, value)?;
        }
    }
    if let Some(partition) = partition {
        encode::write_str(out, "partition")?;
        encode::write_uint(out, u64::from(*partition))?;
    }
    if let Some(time) = deliver_at {
        encode::write_str(out, "deliverAt")?;
        encode::write_str(out, time.as_str())?;
    }
    if let Some(ttl) = ttl {
        encode::write_str(out, "ttlMs")?;
        encode::write_uint(out, millis(*ttl))?;
    }
    Ok(())
}

pub(super) fn length(count: usize) -> Result<u32, ValueWriteError> {
    u32::try_from(count).map_err(|_| {
        ValueWriteError::InvalidDataWrite(std::io::Error::other("more than 2^32 of them"))
    })
}

/// What became of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Produced {
    /// One for each, in order.
    pub results: Vec<Sent>,
    /// Sequences that never came, from and to inclusive.
    pub missing: Vec<(u64, u64)>,
}

/// The answer to a request with messages.
pub(super) fn produced(body: &Bytes) -> Result<Produced, Malformed> {
    let mut decoder = Decoder::new(body);
    let produced = produced_of(&mut decoder)?;
    decoder.end()?;
    Ok(produced)
}

/// The same inside of another answer.
pub(super) fn produced_of(decoder: &mut Decoder<'_>) -> Result<Produced, Malformed> {
    let mut produced = None;
    let mut missing = Vec::new();
    decoder.map(|decoder, name| {
        match name {
            "results" => produced = Some(decoder.array(sent)?),
            "missing" => missing = decoder.optional(|d| d.array(range))?.unwrap_or_default(),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let results = produced.ok_or(Malformed("it has no results"))?;
    Ok(Produced { results, missing })
}

fn sent(decoder: &mut Decoder<'_>) -> Result<Sent, Malformed> {
    let mut status = None;
    let mut sent =
        Sent { status: Status::Other, partition: None, offset: None, id: None, sequence: None };
    decoder.map(|decoder, name| {
        match name {
            "status" => status = Some(Status::parse(decoder.text()?)),
            "partition" => sent.partition = decoder.optional(small)?,
            "offset" => sent.offset = decoder.optional(Decoder::uint)?,
            "id" => sent.id = decoder.optional(|d| d.text().map(str::to_owned))?,
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    sent.status = status.ok_or(Malformed("a result has no status"))?;
    Ok(sent)
}

/// A page of messages.
pub(super) fn page(body: &Bytes) -> Result<Page, Malformed> {
    let mut page = Page::default();
    let mut next = None;
    let mut decoder = Decoder::new(body);
    decoder.map(|decoder, name| {
        match name {
            "partition" => page.partition = small(decoder)?,
            "start" => page.start = decoder.uint()?,
            "end" => page.end = decoder.uint()?,
            "nextOffset" => next = Some(decoder.uint()?),
            "messages" => page.messages = decoder.array(placed)?,
            "corrupt" => {
                let ranges = decoder.optional(|d| d.array(range))?.unwrap_or_default();
                page.corrupt = ranges.into_iter().map(|(from, to)| Lost { from, to }).collect();
            }
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    decoder.end()?;
    page.next_offset = next.ok_or(Malformed("it has no nextOffset"))?;
    for message in &mut page.messages {
        message.partition = page.partition;
    }
    Ok(page)
}

fn placed(decoder: &mut Decoder<'_>) -> Result<Received, Malformed> {
    let (offset, message) = received(decoder)?;
    let offset = offset.ok_or(Malformed("a message has no offset"))?;
    Ok(Received { offset, ..message })
}

/// A message, and its offset if it says so itself.
pub(super) fn received(decoder: &mut Decoder<'_>) -> Result<(Option<u64>, Received), Malformed> {
    let (mut offset, mut timestamp, mut payload) = (None, None, None);
    let (mut key, mut headers, mut expired) = (None, Vec::new(), false);
    decoder.map(|decoder, name| {
        match name {
            "offset" => offset = Some(decoder.uint()?),
            "timestamp" => timestamp = Some(moment(decoder)?),
            "key" => key = decoder.optional(Decoder::data)?,
            "payload" => payload = Some(decoder.data()?),
            "headers" => {
                decoder.optional(|decoder| {
                    decoder.map(|decoder, name| {
                        headers.push((name.to_owned(), decoder.data()?));
                        Ok(())
                    })
                })?;
            }
            "expired" => expired = decoder.boolean()?,
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let message = Received {
        partition: 0,
        offset: 0,
        timestamp: timestamp.ok_or(Malformed("a message has no timestamp"))?,
        key,
        payload: payload.ok_or(Malformed("a message has no payload"))?,
        headers,
        expired,
    };
    Ok((offset, message))
}

pub(super) fn moment(decoder: &mut Decoder<'_>) -> Result<Time, Malformed> {
    if decoder.is_uint() {
        return decoder.uint().map(Time::from_millis);
    }
    decoder.text().map(Time::new)
}

fn range(decoder: &mut Decoder<'_>) -> Result<(u64, u64), Malformed> {
    let (mut from, mut to) = (None, None);
    decoder.map(|decoder, name| {
        match name {
            "from" => from = Some(decoder.uint()?),
            "to" => to = Some(decoder.uint()?),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    from.zip(to).ok_or(Malformed("a range has no ends"))
}

pub(super) fn small(decoder: &mut Decoder<'_>) -> Result<u32, Malformed> {
    u32::try_from(decoder.uint()?).map_err(|_| Malformed("a partition is too large"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::{page, produced};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_answer_is_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(octets);
            drop(page(&bytes));
            drop(produced(&bytes));
        }
    }
}
