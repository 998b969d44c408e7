//! Reading bodies, on threads that may wait for a disk.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use handoff_store_embedded::folders::{Bodies, BodyError, Filed};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::rooms::RoomError;

/// The way to bodies, until the room ends: whoever keeps it longer would keep the journal open.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    bodies: Arc<Mutex<Option<Bodies>>>,
    turns: Arc<Semaphore>,
    turns_max: u32,
}

/// What became of one body.
#[derive(Debug)]
pub(crate) enum Read {
    /// It is whole.
    Body(Bytes),
    /// It is damaged or gone, and in which words.
    Lost(String),
}

impl Reading {
    pub(super) fn new(bodies: Bodies, reads_max: usize) -> Self {
        let turns_max = u32::try_from(reads_max).unwrap_or(u32::MAX).max(1);
        let turns = Arc::new(Semaphore::new(reads_max.max(1)));
        Self { bodies: Arc::new(Mutex::new(Some(bodies))), turns, turns_max }
    }

    /// Reads bodies from the first on until they come to so many bytes; at least one.
    ///
    /// # Errors
    /// [`RoomError::Unreadable`]: the disk did not answer; [`RoomError::Closed`].
    ///
    /// # Cancel safety
    /// Changes nothing; what is being read is read to its end.
    pub(crate) async fn read(
        &self,
        files: Vec<Filed>,
        bytes_max: usize,
    ) -> Result<Vec<Read>, RoomError> {
        let closed = || RoomError::Closed("the server is stopping".to_owned());
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| closed())?;
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let bodies = bodies.ok_or_else(closed)?;
        let reading = spawn_blocking(move || {
            let read = read_some(&bodies, &files, bytes_max);
            drop((bodies, turn));
            read
        });
        let panicked = |_| RoomError::Unreadable("the read ended by a mistake of ours".to_owned());
        reading.await.map_err(panicked)?.map_err(|error| RoomError::Unreadable(error.to_string()))
    }

    /// Lets nobody begin any more and waits for whoever has.
    pub(super) async fn close(&self) {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.turns.acquire_many(self.turns_max).await);
        self.turns.close();
    }
}

fn read_some(bodies: &Bodies, files: &[Filed], bytes_max: usize) -> Result<Vec<Read>, BodyError> {
    let mut read = Vec::with_capacity(files.len());
    let mut bytes = 0;
    for filed in files {
        if bytes >= bytes_max {
            break;
        }
        match bodies.read(filed) {
            Ok(body) => {
                bytes += body.len();
                read.push(Read::Body(body));
            }
            Err(error) if error.is_lost() => read.push(Read::Lost(error.to_string())),
            // What was read so far is given; whoever asks for the rest learns why not.
            Err(_) if !read.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
