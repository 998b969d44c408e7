//! Polls and commits in MessagePack.

use bytes::Bytes;
use rmp::encode;

use super::commit::{Commit, Committed, Finished, Outcome};
use super::delivered::{Batch, Grant, Lease, Verdict};
use crate::Error;
use crate::client::VERSION;
use crate::streams::msgpack::{Decoder, Malformed};
use crate::streams::topic::millis;
use crate::streams::wire::{Written, length, moment, produced_of, received, small, write_messages};

/// The answer to a poll.
pub(super) fn polled(body: &Bytes) -> Result<Vec<Batch>, Malformed> {
    let mut batches = None;
    let mut decoder = Decoder::new(body);
    decoder.map(|decoder, name| {
        match name {
            "batches" => batches = Some(decoder.array(batch)?),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    decoder.end()?;
    batches.ok_or(Malformed("it has no batches"))
}

fn batch(decoder: &mut Decoder<'_>) -> Result<Batch, Malformed> {
    let (mut topic, mut partition, mut base) = (None, None, None);
    let (mut attempt, mut lease, mut deadline) = (1, None, None);
    let (mut count, mut messages) = (None, Vec::new());
    decoder.map(|decoder, name| {
        match name {
            "topic" => topic = Some(decoder.text()?.to_owned()),
            "partition" => partition = Some(small(decoder)?),
            "baseOffset" => base = Some(decoder.uint()?),
            "count" => count = Some(decoder.uint()?),
            "attempt" => attempt = u32::try_from(decoder.uint()?).unwrap_or(u32::MAX),
            "lease" => lease = decoder.optional(read_lease)?,
            "leaseDeadline" => deadline = decoder.optional(moment)?,
            "messages" => messages = decoder.array(received)?,
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let topic = topic.ok_or(Malformed("a batch has no topic"))?;
    let partition = partition.ok_or(Malformed("a batch has no partition"))?;
    let base = base.ok_or(Malformed("a batch has no baseOffset"))?;
    if count.is_some_and(|count| usize::try_from(count) != Ok(messages.len())) {
        return Err(Malformed("a batch has more or fewer messages than it says"));
    }
    let place = |(at, (offset, mut message)): (u64, (Option<u64>, _))| {
        let expected = base.checked_add(at).ok_or(Malformed("an offset is too large"))?;
        if offset.is_some_and(|offset| offset != expected) {
            return Err(Malformed("the offsets of a batch are not consecutive"));
        }
        let received: &mut crate::streams::message::Received = &mut message;
        (received.partition, received.offset) = (partition, expected);
        Ok(message)
    };
    let messages = (0..).zip(messages).map(place).collect::<Result<_, _>>()?;
    Ok(Batch::new(Grant { topic, partition, attempt, lease, deadline }, messages))
}

fn read_lease(decoder: &mut Decoder<'_>) -> Result<Lease, Malformed> {
    if decoder.is_uint() {
        return decoder.uint().map(Lease::Number);
    }
    decoder.text().map(|text| Lease::Text(text.to_owned()))
}

/// A commit. With a producer, the first sequence for each topic is given.
pub(super) fn commit(commit: &Commit, producer: Option<(&str, &[u64])>) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    match write_commit(&mut out, commit, producer) {
        Ok(()) => Ok(out.into()),
        Err(error) => Err(Error::Invalid(format!("the commit cannot be written: {error}"))),
    }
}

fn write_commit(out: &mut Vec<u8>, commit: &Commit, producer: Option<(&str, &[u64])>) -> Written {
    let Commit { results, produce } = commit;
    encode::write_map_len(out, if produce.is_empty() { 2 } else { 3 })?;
    encode::write_str(out, "version")?;
    encode::write_uint(out, u64::from(VERSION))?;
    encode::write_str(out, "results")?;
    encode::write_array_len(out, length(results.len())?)?;
    for verdict in results {
        write_verdict(out, verdict)?;
    }
    if produce.is_empty() {
        return Ok(());
    }
    encode::write_str(out, "produce")?;
    encode::write_array_len(out, length(produce.len())?)?;
    for (at, (topic, messages)) in produce.iter().enumerate() {
        let sender = producer.and_then(|(guid, firsts)| Some((guid, *firsts.get(at)?)));
        encode::write_map_len(out, if sender.is_some() { 4 } else { 2 })?;
        encode::write_str(out, "topic")?;
        encode::write_str(out, topic)?;
        write_messages(out, sender, messages.iter())?;
    }
    Ok(())
}

fn write_verdict(out: &mut Vec<u8>, verdict: &Verdict) -> Written {
    let Verdict { grant, from, to, status, error, delay } = verdict;
    let more = [error.is_some(), grant.lease.is_some(), delay.is_some()];
    encode::write_map_len(out, 5 + more.into_iter().map(u32::from).sum::<u32>())?;
    encode::write_str(out, "topic")?;
    encode::write_str(out, &grant.topic)?;
    for (name, number) in [("partition", u64::from(grant.partition)), ("from", *from), ("to", *to)]
    {
        encode::write_str(out, name)?;
        encode::write_uint(out, number)?;
    }
    encode::write_str(out, "status")?;
    encode::write_str(out, status.text())?;
    if let Some(error) = error {
        encode::write_str(out, "error")?;
        encode::write_str(out, error)?;
    }
    if let Some(lease) = &grant.lease {
        encode::write_str(out, "lease")?;
        match lease {
            Lease::Text(text) => encode::write_str(out, text)?,
            Lease::Number(number) => drop(encode::write_uint(out, *number)?),
        }
    }
    if let Some(delay) = delay {
        encode::write_str(out, "delayMs")?;
        encode::write_uint(out, millis(*delay))?;
    }
    Ok(())
}

/// The answer to a commit.
pub(super) fn committed(body: &Bytes) -> Result<Committed, Malformed> {
    let (mut results, mut produced) = (None, Vec::new());
    let mut decoder = Decoder::new(body);
    decoder.map(|decoder, name| {
        match name {
            "results" => results = Some(decoder.array(finished)?),
            "produced" => {
                produced = decoder.optional(|d| d.array(produced_of))?.unwrap_or_default();
            }
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    decoder.end()?;
    Ok(Committed { results: results.ok_or(Malformed("it has no results"))?, produced })
}

fn finished(decoder: &mut Decoder<'_>) -> Result<Finished, Malformed> {
    let (mut topic, mut partition, mut from, mut to) = (None, None, None, None);
    let mut outcome = None;
    decoder.map(|decoder, name| {
        match name {
            "topic" => topic = Some(decoder.text()?.to_owned()),
            "partition" => partition = Some(small(decoder)?),
            "from" => from = Some(decoder.uint()?),
            "to" => to = Some(decoder.uint()?),
            "outcome" => outcome = Some(Outcome::parse(decoder.text()?)),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let missing = Malformed("a result does not say what it is about");
    Ok(Finished {
        topic: topic.ok_or(missing)?,
        partition: partition.ok_or(missing)?,
        from: from.ok_or(missing)?,
        to: to.ok_or(missing)?,
        outcome: outcome.ok_or(Malformed("a result has no outcome"))?,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::{committed, polled};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_answer_is_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(octets);
            drop(polled(&bytes));
            drop(committed(&bytes));
        }
    }
}
