//! Appending, sealing and cutting, by the one who has the lane's [`Turn`].
//!
//! A change that takes something away is published before it reaches the disk, so that readers
//! know it was meant; one that adds is published after. If the disk fails in between, the lane is
//! forgotten and learned again from its files.

use super::format::{FRAMES_AT, Head, SegmentName, file_header};
use super::index::Index;
use super::lane::{Segment, Size, Tail, Turn, index_path, lane_dir, segment_path};
use super::open_files::{Instance, OpenSegment};
use super::walk::{Step, Walk};
use super::warm::is_worth_a_call;
use super::{Appended, Frame, ReadError, Resumed, Segments, WriteError, lock};
use crate::disk::{File, Open, write_all_at};
use std::io;
use std::sync::Arc;

/// How much is written in one call at most, unless one frame is larger.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// The end of the segment that is written to.
#[derive(Clone, Copy, Debug)]
struct Edge {
    name: SegmentName,
    instance: Instance,
    position: u64,
    ragged: bool,
}

impl Turn<'_> {
    pub(super) fn append(&self, frames: &[Frame]) -> Result<Appended, WriteError> {
        let heads = self.join(frames)?;
        let already = frames.len() - heads.len();
        let mut rest = frames.get(already..).unwrap_or_default().iter().zip(&heads).peekable();
        while let Some((_, first)) = rest.peek() {
            let edge = self.edge_for(first.stored_bytes())?;
            let mut bytes = Vec::new();
            let mut run = Vec::new();
            while let Some((frame, head)) = rest.next_if(|(_, head)| {
                run.is_empty() || self.joins_run(edge.position, bytes.len(), head.stored_bytes())
            }) {
                let position = edge.position + bytes.len() as u64;
                head.write(edge.name, position, &frame.body, &mut bytes);
                run.push((position, *head));
            }
            self.write(edge, &bytes)?;
            self.publish(&run)?;
        }
        Ok(Appended { written: heads.len(), already })
    }

    pub(super) fn truncate(&self, offset: u64) -> Result<(), WriteError> {
        match self.cut(offset) {
            Err(error @ (WriteError::Disk { .. } | WriteError::Read(_))) => {
                self.forget();
                Err(error)
            }
            done => done,
        }
    }

    pub(super) fn resume(&self, offset: u64) -> Result<Resumed, WriteError> {
        let (end, empty) = self.with(|state| (state.end, state.segments.is_empty()))?;
        // What stands after an end that comes too early is what damage left; it is not touched.
        if end >= offset {
            self.truncate(offset)?;
        }
        let end = self.with(|state| state.end)?;
        if end >= offset {
            return Ok(Resumed { end, lost: None });
        }
        self.seal()?;
        self.with(|state| state.end = offset)?;
        Ok(Resumed { end: offset, lost: (!empty).then_some(end..offset) })
    }

    /// The heads of those frames the lane does not have yet, which join its end.
    fn join(&self, frames: &[Frame]) -> Result<Vec<Head>, WriteError> {
        let lane = self.lane();
        let end = self.with(|state| state.end)?;
        let mut next = end;
        let mut heads = Vec::new();
        for frame in frames {
            let Some(head) = Head::of(frame) else {
                let (base, count, bytes) = (frame.base, frame.count, frame.body.len());
                return Err(WriteError::Unstorable { lane, base, count, bytes });
            };
            if heads.is_empty() && head.end() <= end {
                continue;
            }
            if head.base != next {
                return Err(WriteError::Gap { lane, end: next, base: head.base });
            }
            next = head.end();
            heads.push(head);
        }
        Ok(heads)
    }

    fn joins_run(&self, position: u64, run_bytes: usize, more: u64) -> bool {
        let run_bytes = run_bytes as u64 + more;
        run_bytes <= WRITE_BYTES_MAX as u64
            && position + run_bytes <= self.segments.options.segment_bytes
    }

    /// Where a frame of this size is written. Begins a new segment if the last one is full.
    fn edge_for(&self, bytes: u64) -> Result<Edge, WriteError> {
        let fits = |edge: &Edge| {
            edge.position == FRAMES_AT
                || edge.position + bytes <= self.segments.options.segment_bytes
        };
        if let Some(edge) = self.edge()?.filter(fits) {
            return Ok(edge);
        }
        self.mend()?;
        self.seal()?;
        self.begin()
    }

    fn edge(&self) -> Result<Option<Edge>, ReadError> {
        self.with(|state| {
            let (last, tail) = state.segments.last().zip(state.tail.as_ref())?;
            Some(Edge {
                name: self.name(last.base),
                instance: last.instance,
                position: tail.index.bytes(),
                ragged: tail.ragged,
            })
        })
    }

    /// Begins a segment where the lane ends.
    fn begin(&self) -> Result<Edge, WriteError> {
        let base = self.with(|state| state.end)?;
        let (name, instance) = (self.name(base), self.segments.new_instance());
        self.segments.files.lease(instance, || self.segments.create(name))?;
        let index = Index::new(base, self.segments.options.index_bytes);
        self.with(|state| {
            state.segments.push(Segment { base, instance, size: None });
            state.tail = Some(Tail { index, ragged: false });
        })?;
        Ok(Edge { name, instance, position: FRAMES_AT, ragged: false })
    }

    /// Closes the segment that is written to, if there is one: its index is stored, and it never
    /// changes again.
    fn seal(&self) -> Result<(), WriteError> {
        let Some(edge) = self.edge()? else { return Ok(()) };
        let index = self.with(|state| {
            state.tail.as_ref().map(|tail| (tail.index.encode(edge.name), size(&tail.index)))
        })?;
        let Some((index, size)) = index else { return Ok(()) };
        let instance = self.segments.new_instance();
        self.segments
            .files
            .with_place(instance, || self.segments.store_index(edge.name, &index))
            .map_err(WriteError::disk(index_path(edge.name)))?;
        self.with(|state| {
            state.tail = None;
            if let Some(last) = state.segments.last_mut() {
                (last.instance, last.size) = (instance, Some(size));
            }
        })?;
        self.segments.files.forget(edge.instance);
        Ok(())
    }

    /// Writes at the edge, after making sure that nothing else stands there. A handle that
    /// failed is not used again.
    fn write(&self, edge: Edge, bytes: &[u8]) -> Result<(), WriteError> {
        let segments = self.segments;
        let open = segments.files.lease(edge.instance, || segments.open_live(edge.name))?;
        let mended = if edge.ragged { cut_ragged(&*open.file, edge) } else { Ok(()) };
        let written = mended.and_then(|()| write_all_at(&*open.file, bytes, edge.position));
        if written.is_ok() {
            let range = edge.position..edge.position + bytes.len() as u64;
            if is_worth_a_call(&range) {
                open.file.write_back(range.clone());
            }
            lock(&segments.warm).wrote(edge.name, range);
        }
        drop(open);
        if written.is_err() {
            segments.files.forget(edge.instance);
        }
        self.with(|state| {
            if let Some(tail) = state.tail.as_mut() {
                tail.ragged = written.is_err();
            }
        })?;
        written.map_err(WriteError::disk(segment_path(edge.name)))
    }

    fn publish(&self, run: &[(u64, Head)]) -> Result<(), ReadError> {
        self.with(|state| {
            let Some(tail) = state.tail.as_mut() else { return };
            for (position, head) in run {
                tail.index.note(*position, *head);
                state.end = head.end();
            }
        })
    }

    fn cut(&self, offset: u64) -> Result<(), WriteError> {
        if offset < self.with(|state| state.end)? {
            self.drop_from(offset)?;
        }
        self.mend()
    }

    /// Cuts what stands after the last whole frame.
    fn mend(&self) -> Result<(), WriteError> {
        match self.edge()? {
            Some(edge) if edge.ragged => self.write(edge, &[]),
            _ => Ok(()),
        }
    }

    /// Takes away every frame from an offset on: the end of the segment that holds it, and the
    /// segments after that.
    fn drop_from(&self, offset: u64) -> Result<(), WriteError> {
        let (keep, kept, known) = self.with(|state| {
            let keep = state.segments.partition_point(|segment| segment.base < offset);
            let kept = keep.checked_sub(1).and_then(|at| state.segments.get(at)).copied();
            let is_last = keep == state.segments.len();
            let known = state.tail.as_ref().filter(|_| is_last).map(|tail| tail.index.clone());
            (keep, kept, known)
        })?;
        let instance = self.segments.new_instance();
        let found = match kept {
            Some(kept) => Some(self.index_below(offset, kept.base, instance, known)?),
            None => None,
        };
        let doomed = self.with(|state| {
            let doomed = state.segments.split_off(keep);
            state.generation = self.segments.new_instance();
            state.end = found.as_ref().map_or(offset, |(_, end)| *end);
            state.tail = found.map(|(index, _)| Tail { index, ragged: true });
            if let Some(last) = state.segments.last_mut() {
                (last.instance, last.size) = (instance, None);
            }
            doomed
        })?;
        if let Some(kept) = kept {
            self.segments.files.forget(kept.instance);
            self.remove_file(&index_path(self.name(kept.base)))?;
        }
        for segment in doomed.iter().rev() {
            self.unlink(segment)?;
        }
        Ok(())
    }

    /// Indexes the frames of a segment below an offset, and says where they end.
    fn index_below(
        &self,
        offset: u64,
        base: u64,
        instance: Instance,
        known: Option<Index>,
    ) -> Result<(Index, u64), WriteError> {
        let name = self.name(base);
        let failed = |source| ReadError::Disk { path: segment_path(name), source };
        let open = self.segments.files.lease(instance, || self.segments.open_live(name))?;
        let limit = match &known {
            Some(index) => index.bytes(),
            None => open.file.len().map_err(failed)?,
        };
        let mut index =
            known.unwrap_or_else(|| Index::new(base, self.segments.options.index_bytes));
        let from = index.rewind(offset);
        let mut end = from.offset;
        let mut walk = Walk::new(&*open.file, name, from, limit);
        loop {
            match walk.step().map_err(failed)? {
                Step::Frame { position, head } if head.end() <= offset => {
                    index.note(position, head);
                    end = head.end();
                }
                Step::Frame { head, .. } if head.base < offset => {
                    return Err(WriteError::InsideFrame {
                        lane: self.lane(),
                        offset,
                        base: head.base,
                    });
                }
                Step::Hole { .. } => {}
                Step::Frame { .. } | Step::Done { .. } => return Ok((index, end)),
            }
        }
    }

    /// Removes a segment's files, the index first: a segment without its index is still a
    /// segment.
    pub(super) fn unlink(&self, segment: &Segment) -> Result<(), WriteError> {
        let name = self.name(segment.base);
        self.segments.files.forget(segment.instance);
        self.remove_file(&index_path(name))?;
        self.remove_file(&segment_path(name))
    }

    pub(super) fn remove_file(&self, path: &str) -> Result<(), WriteError> {
        match self.segments.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(WriteError::disk(path.to_owned())),
        }
    }
}

impl Segments {
    /// Makes a segment file, or makes one anew that never got a frame.
    fn create(&self, name: SegmentName) -> Result<OpenSegment, WriteError> {
        let dir = lane_dir(name.lane);
        self.disk.create_dir(&dir).map_err(WriteError::disk(dir))?;
        let path = segment_path(name);
        let file = self.create_or_empty(&path).map_err(WriteError::disk(path.clone()))?;
        write_all_at(&*file, &file_header(name), 0).map_err(WriteError::disk(path))?;
        Ok(OpenSegment { file, index: None })
    }

    fn store_index(&self, name: SegmentName, index: &[u8]) -> io::Result<()> {
        write_all_at(&*self.create_or_empty(&index_path(name))?, index, 0)
    }

    fn create_or_empty(&self, path: &str) -> io::Result<Arc<dyn File>> {
        match self.disk.open(path, Open::Create) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.disk.open(path, Open::Write)?;
                file.set_len(0)?;
                Ok(file)
            }
            created => created,
        }
    }
}

fn size(index: &Index) -> Size {
    Size { bytes: index.bytes(), max_timestamp: index.max_timestamp() }
}

/// Cuts what stands after the last whole frame and writes the file header again.
fn cut_ragged(file: &dyn File, edge: Edge) -> io::Result<()> {
    file.set_len(edge.position)?;
    write_all_at(file, &file_header(edge.name), 0)
}
