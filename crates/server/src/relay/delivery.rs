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

    /// What was on its way has ended, and each sink has this. If one of it was not taken, those behind
    /// it are dropped: they come again, behind it.
    pub(super) fn settle(&mut self, marks: Vec<Option<u32>>, has_failed: bool) {
        self.is_busy = false;
        self.marks = marks;
        if has_failed {
            self.waiting.clear();
        }
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

#[cfg(test)]
mod tests {
    use super::{Content, Lane, Parcel};
    use handoff_relay::SegmentKey;

    fn lane(segments: std::ops::Range<u32>) -> Lane {
        let parcel =
            |segment| Parcel { key: SegmentKey { shard: 0, segment }, content: Content::Skipped };
        Lane { waiting: segments.map(parcel).collect(), ..Lane::default() }
    }

    #[test]
    fn what_waits_goes_when_what_was_on_its_way_has_ended() {
        let mut lane = lane(0..1);
        assert_eq!(lane.next().unwrap().len(), 1);
        lane.waiting.extend(self::lane(1..3).waiting);
        assert!(lane.next().is_none(), "one after the other");
        lane.settle(vec![Some(0)], false);
        assert_eq!((lane.next().unwrap().len(), lane.marks), (2, vec![Some(0)]));
    }

    #[test]
    fn what_waits_behind_a_segment_that_was_not_taken_never_goes_before_it() {
        let mut lane = lane(0..1);
        drop(lane.next());
        lane.waiting.extend(self::lane(1..3).waiting);
        lane.settle(vec![None], true);
        assert!(lane.next().is_none(), "a sink that took it would say that it has the one before");
        lane.waiting.extend(self::lane(0..3).waiting);
        let first = lane.next().unwrap().first().map(|parcel| parcel.key.segment);
        assert_eq!(first, Some(0));
    }
}
