//! Streams on a real PostgreSQL server: what every store promises, what goes wrong with a server or a
//! connection, and brokers that share a database.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod brokers;
mod cut;
mod growing;
mod killed;
mod opening;
mod port;
mod waking;

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_store_postgres::{Options, Postgres};
use handoff_streams::conformance::wide;
use handoff_streams::port::{Batches, Failed, Store};
use handoff_streams::{
    Broker, Command, Compression, Durability, Message, PartitionId, Place, Produce, Produced,
    ProducerId, Reply, TopicId, TopicName, TopicSettings, TopicSpec, batch,
};
use handoff_types::Entropy;
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(address: &str) -> Postgres {
    Postgres::open(address, Options::default()).await.unwrap_or_else(|error| panic!("{error}"))
}

fn name(text: &str) -> TopicName {
    text.parse().unwrap()
}

fn settings() -> TopicSettings {
    TopicSettings {
        retention: None,
        retention_bytes: None,
        durability: Durability::Fsync,
        compression: Compression::None,
    }
}

/// The topic `orders`, the first of its database.
fn create(partitions: u32) -> Command {
    let topic = TopicSpec { name: name("orders"), partitions, settings: settings() };
    Command::CreateTopic { topic, bounds: wide() }
}

/// A message with a key, so that its partition follows from it.
fn produce(key: &str, text: &str, producer: Option<(ProducerId, u64)>) -> Command {
    let message = Message {
        key: Some(Bytes::from(key.to_owned())),
        payload: text.to_owned().into(),
        ..Message::default()
    };
    let produce = Produce { topic: name("orders"), producer, messages: vec![message] };
    Command::Produce { produce, bounds: wide() }
}

fn chance(number: u64) -> Entropy {
    Entropy(u128::from(number) << 64 | 0x5eed)
}

async fn send(
    broker: &Broker<Postgres>,
    command: &Command,
    number: u64,
) -> Result<Produced, Failed> {
    match broker.execute(command, chance(number)).await?.0 {
        Reply::Produced { results, .. } => Ok(results[0]),
        other => panic!("{other:?}"),
    }
}

fn place(produced: &Produced) -> (u32, u64) {
    match produced.place {
        Some(Place::At(partition, offset)) => (partition.number, offset),
        other => panic!("no place: {other:?}"),
    }
}

fn partition(number: u32) -> PartitionId {
    PartitionId { topic: TopicId(1), number }
}

/// Everything in `orders`, by partition and offset, which must be dense.
async fn all(store: &Postgres, partitions: u32) -> BTreeMap<(u32, u64), String> {
    let mut found = BTreeMap::new();
    for number in 0..partitions {
        let mut offset = 0;
        loop {
            match store.read(partition(number), offset, 1 << 16).await.unwrap() {
                Batches::Some(batches) => {
                    for batch in &batches {
                        for record in batch::records(batch, 1 << 20).unwrap() {
                            assert_eq!(record.offset, offset, "offsets are dense");
                            let text = record.payload.unwrap_or_default();
                            let text = String::from_utf8(text.to_vec()).unwrap();
                            found.insert((number, offset), text);
                            offset += 1;
                        }
                    }
                }
                Batches::End { end } => {
                    assert_eq!(end, offset, "it ends where it says");
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    found
}
