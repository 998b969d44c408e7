//! Embedded storage keeps the promises of the streams port.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use handoff_log::directory::Directory;
use handoff_log::disk::Memory;
use handoff_log::journal::{Options, Threaded};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Loading, StreamsStore, open_journal};
use handoff_streams::{Streams, conformance};
use handoff_types::{Entropy, Limits};

fn fresh() -> StreamsStore {
    let entropy = Entropy(7);
    let limits = Limits {
        journal_file_bytes: 4 << 20,
        journal_bytes_max: 64 << 20,
        journal_reserve_bytes: 4 << 20,
        ..Limits::default()
    };
    let directory = Directory::open(Arc::new(Memory::default()), entropy).unwrap();
    let mut loading = Loading::<Streams>::begin(&directory).unwrap();
    let options = Options { limits: limits.clone(), directory: directory.id, entropy };
    let (opened, _, failed) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    let journal = Arc::new(Threaded::start(opened).unwrap());
    let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
    let host = loading.into_host(journal, Arc::new(segments));
    StreamsStore::new(host, Arc::new(conformance::noon))
}

#[test]
fn embedded_storage_keeps_every_promise_of_the_streams_port() {
    conformance::all(fresh);
}
