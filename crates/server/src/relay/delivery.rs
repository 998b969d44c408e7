//! Segments of one shard on their way to every sink.

use std::sync::Arc;

use futures_util::future::join_all;
use handoff_relay::{Origin, SegmentKey, ShardId};
use tokio::sync::OwnedSemaphorePermit;

use super::agents::Stored;
use super::machine::Made;
use super::sinks::{Failure, Reached, Sinks};
use crate::rooms::streams::Handing;

/// What goes to the sinks at once, at most.
const PARCELS_MAX: usize = Handing::MESSAGES;

/// A segment.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) key: SegmentKey,
    pub(super) content: Content,
}

/// What is in a segment.
#[derive(Debug)]
pub(super) enum Content {
    /// Samples.
    Samples {
        made: Made,
        /// Bytes that they take, as long as they are there.
        _pending: Option<OwnedSemaphorePermit>,
    },
    /// It never comes.
    Skipped,
    /// It cannot be taken. Those before it are, first: an agent that skips it skips them too.
    Unfit(Failure),
}

impl Parcel {
    /// Its samples, if it has any.
    pub(super) fn made(&self) -> Option<&Made> {
        match &self.content {
            Content::Samples { made, .. } => Some(made),
            Content::Skipped | Content::Unfit(_) => None,
        }
    }

    fn is_unfit(&self) -> bool {
        matches!(self.content, Content::Unfit(_))
    }
}

/// Segments of a shard that wait for their turn, and what each sink has.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) waiting: std::collections::VecDeque<Parcel>,
    pub(super) marks: Vec<Option<u32>>,
    pub(super) is_busy: bool,
}

impl Lane {
    /// What goes next, if nothing is on its way.
    pub(super) fn next(&mut self) -> Option<Vec<Parcel>> {
        if self.is_busy || self.waiting.is_empty() {
            return None;
        }
        self.is_busy = true;
        // One that cannot be taken is alone.
        let fit = self.waiting.iter().take_while(|parcel| !parcel.is_unfit()).count();
        Some(self.waiting.drain(..fit.clamp(1, PARCELS_MAX)).collect())
    }
}

/// What became of a delivery.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) shard: ShardId,
    /// What each sink has now.
    pub(super) marks: Vec<Option<u32>>,
    /// The last that every sink has, if there is one that was not there before.
    pub(super) upto: Option<SegmentKey>,
    pub(super) stored: Stored,
    /// The first that is not everywhere, and why.
    pub(super) failed: Option<(SegmentKey, Failure)>,
}

/// Gives segments to every sink.
pub(super) async fn deliver(
    sinks: Arc<Sinks>,
    origin: Arc<Origin>,
    shard: ShardId,
    parcels: Vec<Parcel>,
    marks: Vec<Option<u32>>,
) -> Delivered {
    if let Some(Parcel { key, content: Content::Unfit(why) }) = parcels.first() {
        let (stored, failed) = (Stored::default(), Some((*key, why.clone())));
        return Delivered { shard, marks, upto: None, stored, failed };
    }
    let to = |(number, mark)| sinks.deliver(number, &origin, &parcels, mark);
    let reached = join_all(marks.into_iter().enumerate().map(to)).await;
    let mut least: Option<Reached> = None;
    for one in &reached {
        if least.as_ref().is_none_or(|least| one.mark < least.mark) {
            least = Some(one.clone());
        }
    }
    let least = least.unwrap_or(Reached { mark: None, failed: None });
    let is_stored = |parcel: &&Parcel| Some(parcel.key.segment) <= least.mark;
    let mut stored = Stored::default();
    for parcel in parcels.iter().filter(is_stored) {
        let Some(made) = parcel.made() else { continue };
        stored.segments += 1;
        stored.samples += made.samples;
        stored.bytes += made.bytes() as u64;
        stored.newest = stored.newest.max(made.newest);
    }
    let upto = parcels.iter().rfind(is_stored).map(|parcel| parcel.key);
    let rest = parcels.iter().find(|parcel| !is_stored(parcel));
    let failed = rest.map(|parcel| {
        let failed = least.failed.unwrap_or_else(|| Failure::later("a sink did not take it"));
        (parcel.key, failed)
    });
    let marks = reached.into_iter().map(|one| one.mark).collect();
    Delivered { shard, marks, upto, stored, failed }
}
