//! A topic: one message a segment, each once.
//!
//! The producer of a shard of a block is a UUID made of these names and the topic's, and a segment's sequence is
//! its number plus one. So what a topic knows of its producer is the mark, durable in the same entry as
//! the message.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use bytes::Bytes;
use handoff_log::journal::Refused;
use handoff_relay::session::Reason;
use handoff_relay::{Origin, SegmentKey, ShardId, Shards};
use handoff_streams::{
    Compression, Durability, Header, Message, Produce, ProducerId, Refusal, TopicName, TopicSpec,
};

use super::{Failure, Reached};
use crate::relay::delivery::Parcel;
use crate::rooms::RoomError;
use crate::rooms::streams::{Handing, StreamsRoom};
use crate::settings::{self, DeclaredTopic};

/// What one request to the topic has at most, give or take a message.
const REQUEST_BYTES: usize = 4 << 20;

/// The content type of a message.
const CONTENT_TYPE: &[u8] = b"application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// What a message has besides its payload, at most: key, headers.
const AROUND_BYTES: usize = 1 << 10;

/// The topic.
#[derive(Debug)]
pub(super) struct TopicSink {
    room: StreamsRoom,
    name: TopicName,
    partitions: u32,
    handing: Handing,
}

impl TopicSink {
    pub(super) fn new(room: StreamsRoom, name: TopicName, settings: &settings::Relay) -> Self {
        Self { room, name, partitions: settings.topic_partitions, handing: settings.handing() }
    }

    /// A topic that only says which segments were taken elsewhere.
    pub(super) fn ledger(room: StreamsRoom, name: TopicName, settings: &settings::Relay) -> Self {
        Self { partitions: 1, ..Self::new(room, name, settings) }
    }

    /// Stores that a segment was taken elsewhere.
    pub(super) async fn note(&self, origin: &Origin, parcel: &Parcel) -> Result<(), Failure> {
        let message = message(origin, parcel, Bytes::new());
        self.store(origin, parcel.key, vec![message]).await
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The largest segment, as a message.
    pub(super) const fn bytes_max(&self) -> usize {
        self.handing.message_bytes_max.saturating_sub(AROUND_BYTES)
    }

    /// What it has of each shard.
    pub(super) async fn marks(
        &self,
        origin: &Origin,
        shards: Shards,
    ) -> Result<Vec<Option<u32>>, Failure> {
        let mut marks = Vec::with_capacity(usize::from(shards.count()));
        for shard in shards.ids() {
            let name = format!("{} {}/{shard}", self.name, origin.agent);
            let asked = self.room.last_of(self.producer(origin, shard), name, self.handing).await;
            let last = asked.map_err(|error| failure(&error))?;
            marks.push(last.and_then(|last| u32::try_from(last.checked_sub(1)?).ok()));
        }
        Ok(marks)
    }

    /// Stores what is above the mark.
    pub(super) async fn deliver(
        &self,
        origin: &Origin,
        parcels: &[Parcel],
        mut mark: Option<u32>,
    ) -> Reached {
        let mut rest = parcels;
        while let Some((first, behind)) = rest.split_first() {
            let segment = first.key.segment;
            if first.made().is_none() || mark >= Some(segment) {
                // It never comes, and nothing has to be known of it: what follows it leaves a gap.
                mark = mark.max(Some(segment));
                rest = behind;
                continue;
            }
            let (now, behind) = rest.split_at(together(rest));
            let payload = |parcel: &Parcel| parcel.made().map(|made| made.v2.clone());
            let messages = now
                .iter()
                .map(|parcel| message(origin, parcel, payload(parcel).unwrap_or_default()))
                .collect();
            match self.store(origin, first.key, messages).await {
                Ok(()) => mark = now.last().map(|parcel| parcel.key.segment),
                Err(failed) => return Reached { mark, failed: Some(failed) },
            }
            rest = behind;
        }
        Reached { mark, failed: None }
    }

    /// Stores messages whose first is that of this segment.
    async fn store(
        &self,
        origin: &Origin,
        first: SegmentKey,
        messages: Vec<Message>,
    ) -> Result<(), Failure> {
        let producer = self.producer(origin, first.shard);
        let produce = Produce {
            topic: self.name.clone(),
            producer: Some((producer, u64::from(first.segment) + 1)),
            messages,
        };
        let stored = match self.room.take_over(produce.clone(), self.handing).await {
            Err(RoomError::Stream(Refusal::NoTopic(_))) => {
                self.make().await.map_err(|error| failure(&error))?;
                self.room.take_over(produce, self.handing).await
            }
            answered => answered,
        };
        stored.map(drop).map_err(|error| failure(&error))
    }

    /// Who stores the segments of a shard here.
    fn producer(&self, origin: &Origin, shard: ShardId) -> ProducerId {
        producer(origin, shard, self.name.as_str())
    }

    /// Makes the topic, as one that is declared would be. Somebody may have been faster.
    async fn make(&self) -> Result<(), RoomError> {
        let declared = DeclaredTopic {
            name: self.name.clone(),
            partitions: self.partitions,
            retention: None,
            retention_bytes: None,
            durability: Durability::Fsync,
            compression: Compression::Zstd,
        };
        let settings = declared.settings(&self.room.settings());
        let spec = TopicSpec { name: declared.name, partitions: declared.partitions, settings };
        match self.room.create(spec).await {
            Ok(topic) => {
                tracing::info!(topic = %topic.name, "made the topic that samples go to");
                Ok(())
            }
            Err(RoomError::Stream(Refusal::TopicExists(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// How many from the front go together: one after the other, and not too much.
fn together(parcels: &[Parcel]) -> usize {
    let (mut count, mut bytes) = (0, 0);
    let mut next = parcels.first().map_or(0, |parcel| parcel.key.segment);
    for parcel in parcels {
        let Some(made) = parcel.made().filter(|_| parcel.key.segment == next) else { break };
        bytes += made.v2.len();
        if count > 0 && bytes > REQUEST_BYTES {
            break;
        }
        count += 1;
        next = next.saturating_add(1);
    }
    count.max(1)
}

/// The same bytes every time, or a repetition would be another message.
fn message(origin: &Origin, parcel: &Parcel, payload: Bytes) -> Message {
    let header = |name: &'static [u8], value: String| Header {
        name: Bytes::from_static(name),
        value: value.into(),
    };
    Message {
        key: Some(format!("{}/{}", origin.agent, parcel.key.shard).into()),
        payload,
        headers: vec![
            Header {
                name: Bytes::from_static(b"content-type"),
                value: Bytes::from_static(CONTENT_TYPE),
            },
            header(b"block", origin.block.to_string()),
            header(b"segment", parcel.key.segment.to_string()),
        ],
        ..Message::default()
    }
}

/// UUID version 5 in the name space of the block: a producer counts for one topic.
fn producer(origin: &Origin, shard: ShardId, topic: &str) -> ProducerId {
    let mut name = origin.block.0.to_vec();
    name.extend_from_slice(format!("{}/{shard}/{topic}", origin.agent).as_bytes());
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &name);
    let bytes = hash.as_ref().first_chunk::<16>().copied().unwrap_or_default();
    let number = u128::from_be_bytes(bytes);
    ProducerId(number & !(0xf << 76) & !(0x3 << 62) | 0x5 << 76 | 0x2 << 62)
}

/// What a refusal means to an agent. Only what will be the same for ever is for good.
fn failure(error: &RoomError) -> Failure {
    let words = error.to_string();
    match error {
        RoomError::Stream(Refusal::Message { .. })
        | RoomError::Journal(Refused::TooLarge { .. }) => {
            Failure { reason: Reason::TooLarge, words }
        }
        // Another message has this place: two agents have one name, or one was copied.
        RoomError::Stream(Refusal::SequenceReused { .. }) => Failure::never(words),
        _ => Failure::later(words),
    }
}

#[cfg(test)]
mod tests {
    use super::{failure, producer};
    use crate::rooms::RoomError;
    use handoff_relay::session::Reason;
    use handoff_relay::{BlockId, Name, Origin};
    use handoff_streams::{PartitionId, Place, Refusal, TopicId};

    fn origin(agent: &str, block: u8) -> Origin {
        Origin { agent: Name::try_from(agent).unwrap(), block: BlockId([block; 16]) }
    }

    #[test]
    fn a_producer_is_a_uuid_of_version_5_as_others_make_it() {
        // python3: uuid.uuid5(uuid.UUID(bytes=bytes([7] * 16)), "edge/3/metrics")
        let made = producer(&origin("edge", 7), 3, "metrics").to_string();
        assert_eq!(made, "fb46916e-f24e-56d1-8c24-1f747c0fb535");
        let others =
            [("edge", 7, 2, "metrics"), ("edge", 8, 3, "metrics"), ("edge", 7, 3, "relay.written")];
        for (agent, block, shard, topic) in others {
            assert_ne!(producer(&origin(agent, block), shard, topic).to_string(), made);
        }
    }

    #[test]
    fn only_what_stays_so_is_refused_for_good() {
        let place = Place::At(PartitionId { topic: TopicId(1), number: 0 }, 5);
        for (error, reason) in [
            (RoomError::DiskLow { free: 1, min: 2 }, Reason::RetryAfter),
            (RoomError::Closed("stopping".to_owned()), Reason::RetryAfter),
            (Refusal::Limit("streams.producers_max".to_owned()).into(), Reason::RetryAfter),
            (Refusal::SequenceReused { sequence: 2, place }.into(), Reason::Permanent),
            (Refusal::Message { number: 0, why: "large".to_owned() }.into(), Reason::TooLarge),
        ] {
            assert_eq!(failure(&error).reason, reason, "{error}");
        }
    }
}
