//! Checkpoints, one after the other, as a neighbour of small records.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use handoff_log::checkpoint::{Chunk, Mark, Writer};
use handoff_log::disk::Disk;
use handoff_types::{Limits, Now, Room};

use super::subject::DIRECTORY;

/// Writes checkpoints of a room's state of some size until it is told to stop.
pub(super) fn write_checkpoints(
    disk: &Arc<dyn Disk>,
    bytes: u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let state = Bytes::from(vec![0x5a; Limits::default().checkpoint_chunk_bytes]);
    let chunks = bytes / state.len() as u64;
    while !stop.load(Ordering::Relaxed) {
        let mut writer =
            Writer::begin(Arc::clone(disk), Room::Streams, DIRECTORY).map_err(io::Error::other)?;
        for number in 0..chunks {
            let chunk = Chunk {
                from: if number == 0 { Bytes::new() } else { key(number) },
                to: (number + 1 < chunks).then(|| key(number + 1)),
                mark: Mark::default(),
                state: state.clone(),
            };
            writer.chunk(&chunk).map_err(io::Error::other)?;
        }
        writer.finish(Now::default()).map_err(io::Error::other)?;
    }
    Ok(())
}

fn key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}
