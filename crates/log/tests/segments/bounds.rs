//! Open files are bounded, idle lanes cost nothing, and readers see whole frames or none.

use crate::support::{LANE, SMALL, everything, frame_of, open, sound};
use handoff_log::disk::{Counting, Disk, File, Memory, Open, Walk};
use handoff_log::segments::{Frame, Lane, Options, Read, Segments};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A disk that knows how many of its files are open, and how many ever were at once.
#[derive(Clone, Debug)]
struct Handles {
    inner: Memory,
    open: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
    let_go: Arc<Mutex<Vec<Range<u64>>>>,
}

#[derive(Debug)]
struct Handle {
    inner: Arc<dyn File>,
    open: Arc<AtomicUsize>,
    let_go: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Handles {
    fn new() -> Self {
        Self {
            inner: Memory::new(),
            open: Arc::default(),
            peak: Arc::default(),
            let_go: Arc::default(),
        }
    }

    fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

impl Disk for Handles {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(open, Ordering::SeqCst);
        let (open, let_go) = (Arc::clone(&self.open), Arc::clone(&self.let_go));
        Ok(Arc::new(Handle { inner, open, let_go }))
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.inner.walk(dir)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.inner.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn let_go(&self, range: Range<u64>) {
        self.let_go.lock().unwrap().push(range);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

const LANES: u64 = 10_000;

#[test]
fn ten_thousand_lanes_never_have_more_files_open_than_allowed() {
    let disk = Handles::new();
    let options = Options { files_open_max: 512, ..SMALL };
    let segments = Segments::open(Arc::new(disk.clone()), options).unwrap();
    let frames_of = |lane| [frame_of(Lane(lane), 0, 1, 600), frame_of(Lane(lane), 1, 1, 600)];
    for round in 0..2 {
        for lane in 0..LANES {
            segments.append(Lane(lane), &frames_of(lane)[round..=round]).unwrap();
        }
    }
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let segments = &segments;
            scope.spawn(move || {
                for lane in (0..LANES).map(|n| (n * 7 + reader * 2500) % LANES) {
                    let read = segments.read(Lane(lane), 0, 4000).unwrap();
                    assert_eq!(read, Read::Frames(frames_of(lane).to_vec()));
                }
            });
        }
    });
    assert_eq!(disk.peak(), 512);
}

#[test]
fn the_bound_holds_with_more_threads_than_files() {
    let disk = Handles::new();
    let options = Options { files_open_max: 2, ..SMALL };
    let segments = Segments::open(Arc::new(disk.clone()), options).unwrap();
    std::thread::scope(|scope| {
        for lane in (0..8).map(Lane) {
            let segments = &segments;
            scope.spawn(move || {
                let frames: Vec<_> = (0..100).map(|base| frame_of(lane, base, 1, 200)).collect();
                for few in frames.chunks(3) {
                    segments.append(lane, few).unwrap();
                    segments.read(lane, few[0].base / 2, 300).unwrap();
                }
                segments.trim(lane, 30).unwrap();
                segments.truncate(lane, 80).unwrap();
                let start = usize::try_from(segments.start(lane).unwrap()).unwrap();
                assert_eq!(everything(segments, lane), sound(&frames[start..80]));
            });
        }
    });
    assert!(disk.peak() <= 2, "{} files were open", disk.peak());
}

#[test]
fn opening_ten_thousand_lanes_opens_no_file_and_touching_one_opens_one() {
    let memory = Memory::new();
    let segments = open(&memory);
    for lane in 0..LANES {
        segments.append(Lane(lane), &[frame_of(Lane(lane), 0, 1, 10)]).unwrap();
    }
    let disk = Counting::new(Arc::new(memory));
    let segments = open(&disk);
    assert_eq!(segments.lanes().unwrap().len(), usize::try_from(LANES).unwrap());
    assert_eq!(disk.counts().opens, 0);
    assert_eq!(segments.end(Lane(77)).unwrap(), 1);
    assert_eq!(disk.counts().opens, 1);
}

/// Reads a lane again and again while `writer` runs, and checks whatever comes.
fn while_two_read(segments: &Segments, frames: &[Frame], writer: impl FnOnce() + Send) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut at = 0;
                loop {
                    let last_round = done.load(Ordering::SeqCst);
                    match segments.read(LANE, at, 700).unwrap() {
                        Read::Frames(found) => {
                            let first = usize::try_from(at).unwrap();
                            assert_eq!(found, frames[first..first + found.len()]);
                            at += found.len() as u64;
                        }
                        Read::End { .. } if last_round => return,
                        Read::End { end } => at = if at > end { end } else { at },
                        Read::Trimmed { start } => at = start,
                        Read::Corrupt { from, to } => panic!("{from}..{to} is not damaged"),
                    }
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            writer();
            done.store(true, Ordering::SeqCst);
        });
    });
}

fn ones(number: u64) -> Vec<Frame> {
    (0..number).map(|base| frame_of(LANE, base, 1, 100)).collect()
}

#[test]
fn two_readers_beside_one_writer_see_every_frame_whole_and_in_order() {
    let segments = open(&Memory::new());
    let frames = ones(5000);
    while_two_read(&segments, &frames, || {
        for few in frames.chunks(3) {
            segments.append(LANE, few).unwrap();
        }
    });
    assert_eq!(everything(&segments, LANE), sound(&frames));
}

#[test]
fn readers_beside_trimming_are_told_of_it_and_never_of_damage() {
    let segments = open(&Memory::new());
    let frames = ones(5000);
    while_two_read(&segments, &frames, || {
        for few in frames.chunks(3) {
            segments.append(LANE, few).unwrap();
            segments.trim(LANE, few[0].base.saturating_sub(8)).unwrap();
        }
    });
}

#[test]
fn readers_beside_cutting_never_see_damage() {
    let segments = open(&Memory::new());
    let frames = ones(60);
    while_two_read(&segments, &frames, || {
        for round in 0..400 {
            segments.append(LANE, &frames).unwrap();
            segments.truncate(LANE, round * 7 % 60).unwrap();
        }
        segments.append(LANE, &frames).unwrap();
    });
    assert_eq!(everything(&segments, LANE), sound(&frames));
}

#[test]
fn what_was_written_before_the_newest_is_let_go_once_it_is_synced() {
    let disk = Handles::new();
    let options = Options { segment_bytes: 64 << 20, warm_bytes: 1 << 20, ..SMALL };
    let segments = Segments::open(Arc::new(disk.clone()), options).unwrap();
    let let_go = || std::mem::take(&mut *disk.let_go.lock().unwrap());
    let mib = |base| [frame_of(LANE, base, 1, 1 << 20)];
    let stored = (1 << 20) + 40;
    for base in 0..2 {
        segments.append(LANE, &mib(base)).unwrap();
        assert_eq!(let_go(), [], "not before it is synced");
    }
    segments.sync().unwrap();
    let both = disk.let_go.lock().unwrap().pop();
    assert_eq!(both, Some(32..32 + 2 * stored), "both went to the disk at once");
    assert_eq!(let_go(), []);
    segments.append(LANE, &mib(2)).unwrap();
    segments.sync().unwrap();
    segments.append(LANE, &mib(3)).unwrap();
    segments.sync().unwrap();
    let end = |frames: u64| 32 + frames * stored;
    assert_eq!(let_go(), [end(2)..end(3), end(3)..end(4)], "a frame is a little over the bound");
    assert_eq!(everything(&segments, LANE).len(), 4);
}

#[test]
fn crumbs_are_let_go_when_they_are_a_piece() {
    let disk = Handles::new();
    let options = Options { segment_bytes: 64 << 20, warm_bytes: 0, ..SMALL };
    let segments = Segments::open(Arc::new(disk.clone()), options).unwrap();
    for base in 0..252 {
        segments.append(LANE, &[frame_of(LANE, base, 1, 1000)]).unwrap();
        segments.sync().unwrap();
    }
    assert_eq!(*disk.let_go.lock().unwrap(), []);
    for base in 252..260 {
        segments.append(LANE, &[frame_of(LANE, base, 1, 1000)]).unwrap();
        segments.sync().unwrap();
    }
    let piece = 253 * 1040;
    let let_go = disk.let_go.lock().unwrap().pop();
    assert_eq!(let_go, Some(32..32 + piece));
    assert_eq!(*disk.let_go.lock().unwrap(), [], "once");
}
