//! Taking away the oldest segments, and whole lanes.
//!
//! An unlink that is not synced may be undone by a crash, also of two unlinks only the first. A
//! lane of which the second segment is gone but the first is back would look damaged. So the
//! segments of a lane go one after the other, oldest first, each only when the one before is
//! gone for good: by the sync that came meanwhile, or else by a sync of the lane's directory.
//! Where retention keeps up, that is never needed.

use super::lane::{Located, Seek, Size, State, Turn, View, lane_dir};
use super::{Lane, ReadError, Segments, WriteError};
use handoff_types::Wall;
use std::sync::atomic::Ordering;

impl Segments {
    /// What the lane's frames take on disk.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn bytes(&self, lane: Lane) -> Result<u64, ReadError> {
        let sizes = Turn::take(self, &self.cell(lane)).sizes()?;
        Ok(sizes.iter().map(|size| size.bytes).sum())
    }

    /// What [`Self::retain`] would leave: the first offset that stays, and the bytes. Changes
    /// nothing, so that somebody can decide about it before [`Self::trim`] makes it so.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn retained(
        &self,
        lane: Lane,
        keep_bytes: Option<u64>,
        older_than: Option<Wall>,
    ) -> Result<(u64, u64), ReadError> {
        Turn::take(self, &self.cell(lane)).retained(keep_bytes, older_than)
    }
}

impl Turn<'_> {
    pub(super) fn trim(&self, below: u64) -> Result<u64, WriteError> {
        let count = self.with(|state| {
            state.segments.iter().skip(1).take_while(|next| next.base <= below).count()
        })?;
        self.unlink_oldest(count)
    }

    pub(super) fn retain(
        &self,
        keep_bytes: Option<u64>,
        older_than: Option<Wall>,
    ) -> Result<u64, WriteError> {
        let count = outlived(&self.sizes()?, keep_bytes, older_than);
        self.unlink_oldest(count)
    }

    fn retained(
        &self,
        keep_bytes: Option<u64>,
        older_than: Option<Wall>,
    ) -> Result<(u64, u64), ReadError> {
        let sizes = self.sizes()?;
        let count = outlived(&sizes, keep_bytes, older_than);
        let bytes = sizes.iter().skip(count).map(|size| size.bytes).sum();
        let start =
            |state: &mut State| state.segments.get(count).map_or(state.end, |first| first.base);
        Ok((self.with(start)?, bytes))
    }

    pub(super) fn remove(&self) -> Result<(), WriteError> {
        let emptied = State::empty(self.segments);
        let gone = self.with(|state| std::mem::replace(state, emptied))?;
        for segment in &gone.segments {
            self.segments.files.forget(segment.instance);
        }
        let dir = lane_dir(self.lane());
        let names = self.segments.list(&dir)?;
        let removed = names.iter().try_for_each(|name| self.remove_file(&format!("{dir}/{name}")));
        if removed.is_err() {
            self.forget();
        }
        removed
    }

    /// The size of each segment, oldest first.
    fn sizes(&self) -> Result<Vec<Size>, ReadError> {
        let lane = self.lane();
        let views = self.with(|state| {
            let mut views = Vec::with_capacity(state.segments.len());
            let mut at = state.start();
            while let Located::In(view) = state.locate(lane, at, Seek::Offset(at)) {
                at = view.to;
                views.push(view);
            }
            views
        })?;
        let sizes: Vec<Size> =
            views.iter().map(|view| self.measure(view)).collect::<Result<_, _>>()?;
        self.with(|state| {
            let sealed = state.segments.len() - usize::from(state.tail.is_some());
            for (segment, size) in state.segments.iter_mut().take(sealed).zip(&sizes) {
                segment.size = Some(*size);
            }
        })?;
        Ok(sizes)
    }

    fn measure(&self, view: &View) -> Result<Size, ReadError> {
        if let Some(size) = view.size {
            return Ok(size);
        }
        match view.open(self.segments) {
            Err(error) if error.is_missing() => {
                Ok(Size { bytes: 0, max_timestamp: Wall(i64::MIN) })
            }
            open => Ok(view.size_of(&*open?)),
        }
    }

    /// Removes the oldest segments and returns the lane's new start.
    fn unlink_oldest(&self, count: usize) -> Result<u64, WriteError> {
        let doomed: Vec<_> = self.with(|state| {
            if count > 0 {
                state.generation = self.segments.new_instance();
            }
            state.segments.drain(..count.min(state.segments.len())).collect()
        })?;
        for segment in &doomed {
            let gone = self.settle_unlinks().and_then(|()| self.unlink(segment));
            if let Err(error) = gone {
                self.forget();
                return Err(error);
            }
            let begun = self.segments.syncs_begun.load(Ordering::Acquire);
            self.with(|state| state.unlinked = begun)?;
        }
        Ok(self.with(|state| state.start())?)
    }

    /// Makes sure that no earlier unlink of this lane can be undone.
    fn settle_unlinks(&self) -> Result<(), WriteError> {
        let unlinked = self.with(|state| state.unlinked)?;
        if self.segments.synced.load(Ordering::Acquire) > unlinked {
            return Ok(());
        }
        let dir = lane_dir(self.lane());
        self.segments.disk.sync_dir(&dir).map_err(|source| {
            self.segments.poisoned.store(true, Ordering::Release);
            WriteError::Disk { path: dir, source }
        })
    }
}

/// How many of the oldest segments may go. The last stays: it is written to.
fn outlived(sizes: &[Size], keep_bytes: Option<u64>, older_than: Option<Wall>) -> usize {
    let mut rest: u64 = sizes.iter().map(|size| size.bytes).sum();
    let goes = |size: &&Size| {
        rest -= size.bytes;
        keep_bytes.is_some_and(|keep| rest >= keep)
            || older_than.is_some_and(|time| size.max_timestamp < time)
    };
    sizes.iter().take(sizes.len().saturating_sub(1)).take_while(goes).count()
}
