//! Messages that are handed out, and what became of them, as JSON and MessagePack say them.

use handoff_streams::batch::Record;
use handoff_streams::groups::CommitOutcome;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use crate::http::json::V1;
use crate::http::stamp::stamp_millis;
use crate::http::streams::msgpack;
use crate::http::streams::outgoing::{
    AsOctets, HeadersView, Times, json, pack_octets_of, stored_json, stored_msgpack, weight,
};
use crate::rooms::streams::{Batch, Committed, Polled};

fn bytes_of(polled: &Polled) -> usize {
    let records = polled.batches.iter().flat_map(|batch| &batch.records);
    let messages: usize = records.map(|record| 80 + weight(record)).sum();
    128 + polled.batches.len() * 256 + messages
}

/// What a member gets, in JSON.
pub(super) fn polled_json(polled: &Polled) -> Vec<u8> {
    struct Batches<'a>(&'a [Batch]);
    impl Serialize for Batches<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut list = serializer.serialize_seq(Some(self.0.len()))?;
            for batch in self.0 {
                let handed = &batch.handed;
                list.serialize_element(&One {
                    topic: batch.topic.as_str(),
                    partition: handed.partition.number,
                    base_offset: handed.base,
                    count: handed.count,
                    attempt: handed.attempt,
                    lease: handed.lease.0,
                    lease_deadline: stamp_millis(batch.deadline),
                    messages: Messages(&batch.records),
                })?;
            }
            list.end()
        }
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct One<'a> {
        topic: &'a str,
        partition: u32,
        base_offset: u64,
        count: u64,
        attempt: u32,
        lease: u64,
        lease_deadline: String,
        messages: Messages<'a>,
    }

    struct Messages<'a>(&'a [Record]);
    impl Serialize for Messages<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut list = serializer.serialize_seq(Some(self.0.len()))?;
            let mut times = Times::default();
            for record in self.0 {
                list.serialize_element(&Message(record, times.of(record.timestamp)))?;
            }
            list.end()
        }
    }

    struct Message<'a>(&'a Record, &'a str);
    impl Serialize for Message<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let Self(record, time) = self;
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("timestamp", time)?;
            if let Some(key) = &record.key {
                map.serialize_entry("key", &AsOctets(key))?;
            }
            map.serialize_entry("payload", &record.payload.as_deref().map(AsOctets))?;
            if !record.headers.is_empty() {
                map.serialize_entry("headers", &HeadersView(&record.headers))?;
            }
            map.end()
        }
    }

    #[derive(Serialize)]
    struct Body<'a> {
        version: V1,
        generation: u64,
        batches: Batches<'a>,
    }
    let (generation, batches) = (polled.generation, Batches(&polled.batches));
    json(&Body { version: V1, generation, batches }, bytes_of(polled))
}

/// The same in MessagePack.
pub(super) fn polled_msgpack(polled: &Polled) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes_of(polled));
    msgpack::map(3, &mut out);
    figure("version", 1, &mut out);
    figure("generation", polled.generation, &mut out);
    msgpack::text("batches", &mut out);
    msgpack::array(polled.batches.len(), &mut out);
    for batch in &polled.batches {
        let handed = &batch.handed;
        msgpack::map(8, &mut out);
        msgpack::text("topic", &mut out);
        msgpack::text(batch.topic.as_str(), &mut out);
        figure("partition", handed.partition.number.into(), &mut out);
        figure("baseOffset", handed.base, &mut out);
        figure("count", handed.count, &mut out);
        figure("attempt", handed.attempt.into(), &mut out);
        figure("lease", handed.lease.0, &mut out);
        msgpack::text("leaseDeadline", &mut out);
        msgpack::text(&stamp_millis(batch.deadline), &mut out);
        msgpack::text("messages", &mut out);
        msgpack::array(batch.records.len(), &mut out);
        let mut times = Times::default();
        for record in &batch.records {
            let fields = usize::from(record.key.is_some());
            msgpack::map(2 + fields + usize::from(!record.headers.is_empty()), &mut out);
            msgpack::text("timestamp", &mut out);
            msgpack::text(times.of(record.timestamp), &mut out);
            pack_octets_of(record, &mut out);
        }
    }
    out
}

fn figure(name: &str, value: u64, out: &mut Vec<u8>) {
    msgpack::text(name, out);
    msgpack::unsigned(value, out);
}

fn outcome(outcome: CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Done => "done",
        CommitOutcome::Late => "late",
        CommitOutcome::Fenced => "fenced",
    }
}

/// What became of a commit, in JSON.
pub(super) fn committed_json(committed: &Committed) -> Vec<u8> {
    #[derive(Serialize)]
    struct One<'a> {
        topic: &'a str,
        partition: u32,
        from: u64,
        to: u64,
        outcome: &'static str,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        version: V1,
        results: Vec<One<'a>>,
    }
    let results = committed.results.iter().map(|one| One {
        topic: one.topic.as_str(),
        partition: one.partition,
        from: one.from,
        to: one.to,
        outcome: outcome(one.outcome),
    });
    let results: Vec<One<'_>> = results.collect();
    let bytes = 48 + results.len() * 96;
    let mut out = json(&Body { version: V1, results }, bytes);
    if !committed.produced.is_empty() {
        // What became of messages is written as it always is, inside of this.
        out.pop();
        out.extend_from_slice(b",\"produced\":[");
        for (number, stored) in committed.produced.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&stored_json(stored));
        }
        out.extend_from_slice(b"]}");
    }
    out
}

/// The same in MessagePack.
pub(super) fn committed_msgpack(committed: &Committed) -> Vec<u8> {
    let produced = &committed.produced;
    let mut out = Vec::with_capacity(48 + committed.results.len() * 80);
    msgpack::map(2 + usize::from(!produced.is_empty()), &mut out);
    figure("version", 1, &mut out);
    msgpack::text("results", &mut out);
    msgpack::array(committed.results.len(), &mut out);
    for one in &committed.results {
        msgpack::map(5, &mut out);
        msgpack::text("topic", &mut out);
        msgpack::text(one.topic.as_str(), &mut out);
        figure("partition", one.partition.into(), &mut out);
        figure("from", one.from, &mut out);
        figure("to", one.to, &mut out);
        msgpack::text("outcome", &mut out);
        msgpack::text(outcome(one.outcome), &mut out);
    }
    if !produced.is_empty() {
        msgpack::text("produced", &mut out);
        msgpack::array(produced.len(), &mut out);
        produced.iter().for_each(|stored| out.extend_from_slice(&stored_msgpack(stored)));
    }
    out
}
