//! The receiver of one block and what it needs to decode.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use handoff_relay::codec::{Decoded, Decoder, Workbench};
use handoff_relay::remote_write::{pack, write_v1, write_v2};
use handoff_relay::session::Message;
use handoff_relay::{Malformed, Received, Receiver, SegmentKey};
use tokio::sync::Semaphore;

/// What the sinks want of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forms {
    /// `io.prometheus.write.v2.Request`, as it is.
    pub(super) v2: bool,
    /// `prometheus.WriteRequest`, packed.
    pub(super) v1: bool,
}

/// A segment in the forms that were asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) v2: Bytes,
    pub(super) v1: Bytes,
    pub(super) samples: u64,
    /// The latest time of a sample, in milliseconds.
    pub(super) newest: Option<i64>,
}

impl Made {
    pub(super) fn bytes(&self) -> usize {
        self.v1.len() + self.v2.len()
    }

    fn of(decoded: &Decoded, decoder: &Decoder, forms: Forms) -> Result<Self, Malformed> {
        let (mut v2, mut v1) = (Vec::new(), Vec::new());
        if forms.v2 {
            write_v2(decoded, decoder, &mut v2)?;
        }
        if forms.v1 {
            let mut body = Vec::new();
            write_v1(decoded, decoder, &mut body);
            v1 = pack(&body)?;
        }
        let samples = decoded.samples();
        Ok(Self {
            v2: v2.into(),
            v1: v1.into(),
            samples: samples.len() as u64,
            newest: samples.iter().map(|sample| sample.time).max(),
        })
    }
}

/// What a message led to.
#[derive(Debug)]
pub(super) enum Taken {
    /// Samples, in the forms that were asked for.
    Made(SegmentKey, Made),
    /// Samples that have no such form.
    Unfit(SegmentKey, Malformed),
    /// Anything else.
    Other(Received),
}

/// Gives the receiver a message.
pub(super) fn take(
    receiver: &mut Receiver,
    message: &Message,
    forms: Forms,
    bench: &mut Bench,
) -> Taken {
    let Bench { workbench, decoded } = bench;
    match receiver.received(message, workbench, decoded) {
        Received::Samples(key) => match receiver.decoder(key.shard) {
            Some(decoder) => match Made::of(decoded, decoder, forms) {
                Ok(made) => Taken::Made(key, made),
                Err(unfit) => Taken::Unfit(key, unfit),
            },
            // It has just decoded it.
            None => Taken::Other(Received::Broken("a decoder is missing")),
        },
        other => Taken::Other(other),
    }
}

/// Space to decode in.
#[derive(Debug)]
pub(super) struct Bench {
    workbench: Workbench,
    decoded: Decoded,
}

/// Benches for as many as decode at once.
#[derive(Debug)]
pub(super) struct Pool {
    /// How many more may decode.
    pub(super) seats: Arc<Semaphore>,
    free: Arc<Mutex<Vec<Bench>>>,
}

impl Pool {
    pub(super) fn new() -> Self {
        let seats = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { seats: Arc::new(Semaphore::new(seats)), free: Arc::default() }
    }

    /// A way to the benches, for another thread.
    pub(super) fn benches(&self) -> Benches {
        Benches(Arc::clone(&self.free))
    }
}

/// Benches that are not in use.
#[derive(Clone, Debug)]
pub(super) struct Benches(Arc<Mutex<Vec<Bench>>>);

impl Benches {
    /// Does something with a bench.
    ///
    /// # Errors
    /// There is no memory for one.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Bench) -> T) -> std::io::Result<T> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bench = match found {
            Some(bench) => bench,
            None => Bench { workbench: Workbench::new()?, decoded: Decoded::default() },
        };
        let done = work(&mut bench);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bench);
        Ok(done)
    }
}
