//! What is known of a lane: which segments it has, where it ends, where its tail is written.

use super::format::{FILE_HEADER_BYTES, Opening, SegmentName, read_file_header};
use super::index::{Entry, INDEX_BYTES_MAX, Index};
use super::open_files::{Instance, Lease, OpenSegment};
use super::walk::index_whole;
use super::{Lane, ReadError, Segments, lock};
use crate::disk::{File, Open, read_full_at};
use handoff_types::Wall;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// The directory of all lanes.
pub(super) const ROOT: &str = "segments";

/// A lane's place in memory. What is in it is loaded when first needed.
#[derive(Debug)]
pub(super) struct LaneCell {
    lane: Lane,
    /// Held by whoever changes the lane, also while it waits for the disk. A reader takes it only
    /// if the lane must be loaded.
    writer: Mutex<()>,
    /// Held for a few lines, never while waiting for the disk.
    state: Mutex<Option<State>>,
}

/// A lane as its files are.
#[derive(Debug)]
pub(super) struct State {
    /// Oldest first. Each holds the offsets up to the base of the next, the last up to `end`.
    pub(super) segments: Vec<Segment>,
    pub(super) end: u64,
    /// How the last segment is written on; nothing if the next frame begins a new one.
    pub(super) tail: Option<Tail>,
    /// Changes whenever something that readers may be looking at is taken away.
    pub(super) generation: Instance,
    /// How many syncs had begun when a segment was last unlinked.
    pub(super) unlinked: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) base: u64,
    pub(super) instance: Instance,
    /// Known of a sealed segment once someone asked.
    pub(super) size: Option<Size>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) max_timestamp: Wall,
}

#[derive(Debug)]
pub(super) struct Tail {
    /// Of all that is published; its end is where the next frame is written.
    pub(super) index: Index,
    /// The file may hold something after the last frame, or a torn header.
    pub(super) ragged: bool,
}

/// What a look-up is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek {
    Offset(u64),
    Time(Wall),
}

/// Where an offset is.
#[derive(Debug)]
pub(super) enum Located {
    Trimmed { start: u64 },
    End { end: u64 },
    In(View),
}

/// A segment as it was published at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) name: SegmentName,
    instance: Instance,
    /// The first offset after the segment.
    pub(super) to: u64,
    pub(super) size: Option<Size>,
    /// Where to begin and where to stop, of a segment that is written to.
    live: Option<(Entry, u64)>,
    pub(super) generation: Instance,
}

/// The right to change a lane.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) segments: &'a Segments,
    cell: &'a LaneCell,
    _alone: MutexGuard<'a, ()>,
}

impl LaneCell {
    pub(super) fn new(lane: Lane) -> Self {
        Self { lane, writer: Mutex::default(), state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Option<State>> {
        lock(&self.state)
    }
}

impl State {
    pub(super) fn empty(segments: &Segments) -> Self {
        Self {
            segments: Vec::new(),
            end: 0,
            tail: None,
            generation: segments.new_instance(),
            // What an earlier process unlinked may not be durable either.
            unlinked: segments.syncs_begun.load(Ordering::Acquire),
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.segments.first().map_or(self.end, |first| first.base)
    }

    /// The segment that holds an offset.
    pub(super) fn locate(&self, lane: Lane, offset: u64, seek: Seek) -> Located {
        if offset < self.start() {
            return Located::Trimmed { start: self.start() };
        }
        let after = self.segments.partition_point(|segment| segment.base <= offset);
        let found = after.checked_sub(1).and_then(|at| self.segments.get(at));
        let Some(segment) = found.filter(|_| offset < self.end) else {
            return Located::End { end: self.end };
        };
        let next = self.segments.get(after);
        let tail = self.tail.as_ref().filter(|_| next.is_none());
        Located::In(View {
            name: SegmentName { lane, base: segment.base },
            instance: segment.instance,
            to: next.map_or(self.end, |next| next.base),
            size: segment.size,
            live: tail.map(|tail| (seek.begin(&tail.index), tail.index.bytes())),
            generation: self.generation,
        })
    }
}

impl Seek {
    fn begin(self, index: &Index) -> Entry {
        match self {
            Self::Offset(offset) => index.before_offset(offset),
            Self::Time(time) => index.before_time(time),
        }
    }
}

impl View {
    /// The segment's file, opened if need be.
    pub(super) fn open<'a>(&self, segments: &'a Segments) -> Result<Lease<'a>, ReadError> {
        segments.files.lease(self.instance, || match self.live {
            Some(_) => segments.open_live(self.name),
            None => segments.open_sealed(self.name),
        })
    }

    /// What the segment takes, as far as it was published.
    pub(super) fn size_of(&self, open: &OpenSegment) -> Size {
        let max_timestamp = open.index.as_ref().map_or(Wall(i64::MAX), Index::max_timestamp);
        Size { bytes: self.bounds(open, Seek::Offset(self.name.base)).1, max_timestamp }
    }

    /// Where in the file to begin looking, and where to stop.
    pub(super) fn bounds(&self, open: &OpenSegment, seek: Seek) -> (Entry, u64) {
        let sealed = || open.index.as_ref().map(|index| (seek.begin(index), index.bytes()));
        let empty = || (Index::new(self.name.base, 1).before_offset(0), 0);
        self.live.or_else(sealed).unwrap_or_else(empty)
    }
}

impl<'a> Turn<'a> {
    /// Waits until nobody else changes the lane.
    pub(super) fn take(segments: &'a Segments, cell: &'a LaneCell) -> Self {
        Self { segments, cell, _alone: lock(&cell.writer) }
    }

    pub(super) fn lane(&self) -> Lane {
        self.cell.lane
    }

    pub(super) fn name(&self, base: u64) -> SegmentName {
        SegmentName { lane: self.cell.lane, base }
    }

    /// Looks at the lane or changes what readers see of it, for a few lines.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> Result<R, ReadError> {
        if let Some(state) = self.cell.state().as_mut() {
            return Ok(act(state));
        }
        let loaded = self.load()?;
        Ok(act(self.cell.state().insert(loaded)))
    }

    /// Forgets what is known of the lane, because the disk may hold something else.
    pub(super) fn forget(&self) {
        *self.cell.state() = None;
    }

    /// Learns the lane from its files. Opens the last one only.
    fn load(&self) -> Result<State, ReadError> {
        let mut state = State { segments: self.list()?, ..State::empty(self.segments) };
        if let Some(last) = state.segments.last() {
            let name = self.name(last.base);
            let open =
                self.segments.files.lease(last.instance, || self.segments.open_live(name))?;
            let stride = self.segments.options.index_bytes;
            let found = index_whole(&*open.file, name, stride)
                .map_err(ReadError::disk(segment_path(name)))?;
            let ragged = found.file_bytes != found.index.bytes()
                || read_opening(&open, name)? != Opening::Ours;
            state.end = found.next;
            state.tail = Some(Tail { index: found.index, ragged });
        }
        Ok(state)
    }

    fn list(&self) -> Result<Vec<Segment>, ReadError> {
        let names = self.segments.list(&lane_dir(self.cell.lane))?;
        let bases = names.iter().filter_map(|name| base_of(name));
        let new = |base| Segment { base, instance: self.segments.new_instance(), size: None };
        let mut segments: Vec<_> = bases.map(new).collect();
        segments.sort_unstable_by_key(|segment| segment.base);
        Ok(segments)
    }
}

impl Segments {
    /// The lanes that hold something.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn lanes(&self) -> Result<Vec<Lane>, ReadError> {
        let mut lanes = Vec::new();
        for lane in self.list(ROOT)?.iter().filter_map(|name| lane_of(name)) {
            if self.list(&lane_dir(lane))?.iter().any(|name| base_of(name).is_some()) {
                lanes.push(lane);
            }
        }
        Ok(lanes)
    }

    /// Opens a segment that is written to.
    pub(super) fn open_live(&self, name: SegmentName) -> Result<OpenSegment, ReadError> {
        let open = OpenSegment { file: self.open_file(name, Open::Write)?, index: None };
        read_opening(&open, name)?;
        Ok(open)
    }

    /// Opens a sealed segment with its index, which is made again if it cannot be trusted.
    fn open_sealed(&self, name: SegmentName) -> Result<OpenSegment, ReadError> {
        let stored = self.read_index(name);
        let mut open = OpenSegment { file: self.open_file(name, Open::Read)?, index: stored };
        read_opening(&open, name)?;
        if open.index.is_none() {
            let found = index_whole(&*open.file, name, self.options.index_bytes)
                .map_err(ReadError::disk(segment_path(name)))?;
            open.index = Some(found.index);
        }
        Ok(open)
    }

    fn open_file(&self, name: SegmentName, how: Open) -> Result<Arc<dyn File>, ReadError> {
        let path = segment_path(name);
        self.disk.open(&path, how).map_err(ReadError::disk(path))
    }

    /// The stored index, unless there is anything wrong with it.
    fn read_index(&self, name: SegmentName) -> Option<Index> {
        let file = self.disk.open(&index_path(name), Open::Read).ok()?;
        let len = usize::try_from(file.len().ok()?).ok().filter(|len| *len <= INDEX_BYTES_MAX)?;
        let mut bytes = vec![0; len];
        let filled = read_full_at(&*file, &mut bytes, 0).ok()?;
        Index::decode(name, bytes.get(..filled)?)
    }

    /// The names in a directory; none if it is not there.
    pub(super) fn list(&self, dir: &str) -> Result<Vec<String>, ReadError> {
        match self.disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(ReadError::disk(dir.to_owned())(error)),
            Ok(names) => Ok(names),
        }
    }
}

/// Judges the file header. A damaged one costs nothing: the frames speak for themselves.
fn read_opening(open: &OpenSegment, name: SegmentName) -> Result<Opening, ReadError> {
    let mut header = [0; FILE_HEADER_BYTES];
    read_full_at(&*open.file, &mut header, 0).map_err(ReadError::disk(segment_path(name)))?;
    match read_file_header(name, &header) {
        Opening::Newer(version) => Err(ReadError::Newer { path: segment_path(name), version }),
        opening => Ok(opening),
    }
}

pub(super) fn lane_dir(lane: Lane) -> String {
    format!("{ROOT}/{:016x}", lane.0)
}

pub(super) fn segment_path(name: SegmentName) -> String {
    format!("{}/{:020}.segment", lane_dir(name.lane), name.base)
}

pub(super) fn index_path(name: SegmentName) -> String {
    format!("{}/{:020}.index", lane_dir(name.lane), name.base)
}

fn lane_of(dir: &str) -> Option<Lane> {
    let lane = (dir.len() == 16).then(|| u64::from_str_radix(dir, 16).ok()).flatten()?;
    Some(Lane(lane))
}

fn base_of(file: &str) -> Option<u64> {
    file.strip_suffix(".segment").filter(|digits| digits.len() == 20)?.parse().ok()
}
