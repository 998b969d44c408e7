//! Nothing moved is lost or doubled, whatever a crash leaves of what was not synced.

use crate::moving::Journal;
use crate::support::{SMALL, frame_of, pieces, sound};
use handoff_log::disk::{Coverage, Crash, Disk, When};
use handoff_log::segments::{Frame, Lane, Mark, Move, Mover, Segments};
use handoff_types::entropy::mix;
use std::sync::Arc;

const LANES: u64 = 3;

/// What a room knows: its moves in order, and from where on its lanes are to be kept.
struct Room {
    journal: Journal,
    moves: Vec<Move>,
    lanes: Vec<Vec<Frame>>,
    mark: Mark,
    starts: Vec<u64>,
}

impl Room {
    /// Moves to lanes drawn by chance, with bodies of up to three sectors.
    fn new(seed: u64, number: u64) -> Self {
        let journal = Journal::default();
        let mut lanes = vec![Vec::<Frame>::new(); 3];
        let mut moves = Vec::new();
        for n in 0..number {
            let chance = mix(seed ^ mix(n));
            let lane = chance % LANES;
            let frames = &mut lanes[usize::try_from(lane).unwrap()];
            let base = frames.last().map_or(0, Frame::end);
            let count = u32::try_from(1 + (chance >> 8) % 3).unwrap();
            let body = usize::try_from((chance >> 16) % 1500).unwrap();
            let frame = frame_of(Lane(lane), base, count, body);
            moves.push(journal.put((10 + n * 10, 0), Lane(lane), &frame));
            frames.push(frame);
        }
        Self { journal, moves, lanes, mark: Mark::default(), starts: vec![0; 3] }
    }

    /// Hands over what is not durable yet, with a sync now and then, and trims on the way. Ends
    /// early when the disk halts.
    fn live(&mut self, disk: &Crash, seed: u64) -> Option<()> {
        let segments = Arc::new(Segments::open(Arc::new(disk.clone()), SMALL).ok()?);
        let mut mover = Mover::new(Arc::clone(&segments), self.journal.clone());
        for lane in 0..LANES {
            segments.trim(Lane(lane), self.starts[usize::try_from(lane).unwrap()]).ok()?;
        }
        let through = self.mark.through;
        let rest: Vec<_> =
            self.moves.iter().filter(|next| Some(next.body.0) > through).copied().collect();
        for (n, batch) in (0u64..).zip(rest.chunks(5)) {
            mover.copy(batch).ok()?;
            match mix(seed ^ mix(n)) % 4 {
                0 => {
                    self.mark = mover.sync().ok()?;
                    self.journal.recycle(self.mark);
                }
                1 => {
                    let lane = mix(n) % LANES;
                    let start = &mut self.starts[usize::try_from(lane).unwrap()];
                    let end = segments.end(Lane(lane)).ok()?;
                    *start = (*start).max(end.saturating_sub(20));
                    segments.trim(Lane(lane), *start).ok()?;
                }
                _ => {}
            }
        }
        self.mark = mover.sync().ok()?;
        self.journal.recycle(self.mark);
        Some(())
    }

    /// After a life that was not interrupted: every lane holds what was moved to it.
    fn check(&self, disk: &Crash, context: &str) {
        let segments = Segments::open(Arc::new(disk.clone()), SMALL).unwrap();
        for (lane, frames) in (0..).map(Lane).zip(&self.lanes) {
            let start = self.starts[usize::try_from(lane.0).unwrap()];
            let kept: Vec<_> = frames.iter().filter(|f| f.end() > start).cloned().collect();
            assert!(segments.start(lane).unwrap() <= start, "{context}");
            assert_eq!(pieces(&segments, lane, start, 2000), sound(&kept), "{context}, {lane}");
        }
    }
}

#[test]
fn a_life_without_a_crash_moves_everything() {
    for seed in 0..20 {
        let disk = Crash::new();
        let mut room = Room::new(seed, 150);
        room.live(&disk, seed).unwrap();
        room.check(&disk, &format!("seed {seed}"));
        assert!(room.starts.iter().any(|start| *start > 0), "seed {seed} trims");
    }
}

#[test]
fn a_crash_at_any_sync_loses_and_doubles_nothing() {
    let mut coverage = Coverage::default();
    for seed in 0..4 {
        let disk = Crash::new();
        Room::new(seed, 100).live(&disk, seed).unwrap();
        for sync in 1..=disk.syncs() {
            for when in [When::Before, When::After] {
                for fate in 0..6 {
                    let context = format!("seed {seed}, {when:?} sync {sync}, fate {fate}");
                    let mut room = Room::new(seed, 100);
                    let disk = Crash::new();
                    disk.halt_at_sync(sync, when);
                    assert!(room.live(&disk, seed).is_none(), "{context}");
                    let (disk, report) = match fate {
                        0 => disk.crash_keeping_nothing(),
                        1 => disk.crash_keeping_everything(),
                        fate => disk.crash(mix(seed ^ (sync << 8) ^ (fate << 32))),
                    };
                    coverage += report;
                    room.live(&disk, !seed).expect(&context);
                    room.check(&disk, &context);
                }
            }
        }
    }
    let missing: Vec<_> =
        coverage.missing().into_iter().filter(|case| !case.starts_with("renames")).collect();
    assert!(missing.is_empty(), "the crashes never did {missing:?}");
}

#[test]
fn crash_after_crash_loses_and_doubles_nothing() {
    for seed in 0..150 {
        let mut room = Room::new(seed, 120);
        let mut disk = Crash::new();
        let mut lives = Vec::new();
        for life in 0..4 {
            let chance = mix(seed ^ (life << 40));
            disk.halt_at_sync(
                1 + chance % 5,
                if chance & 64 == 0 { When::Before } else { When::After },
            );
            if room.live(&disk, chance).is_some() {
                break;
            }
            disk = disk.crash(mix(chance)).0;
            lives.push(chance);
        }
        disk.halt_at_sync(0, When::Before);
        room.live(&disk, seed).unwrap();
        room.check(&disk, &format!("seed {seed}, lives {lives:?}"));
    }
}

/// A mark that was told but not remembered: moves are made again that are durable already.
#[test]
fn moves_made_again_from_an_older_mark_change_nothing() {
    for seed in 0..50 {
        let mut room = Room::new(seed, 100);
        let disk = Crash::new();
        let kept = Journal::clone(&room.journal);
        let segments = Arc::new(Segments::open(Arc::new(disk.clone()), SMALL).unwrap());
        let mut mover = Mover::new(segments, kept);
        let told = usize::try_from(mix(seed) % 100).unwrap();
        mover.copy(&room.moves[..told]).unwrap();
        mover.sync().unwrap();
        let (disk, _) = disk.crash(seed);
        let older = usize::try_from(mix(!seed) % 100).unwrap().min(told);
        room.mark.through = older.checked_sub(1).map(|at| room.moves[at].body.0);
        room.live(&disk, seed).unwrap();
        room.check(&disk, &format!("seed {seed}, told {told}, remembered {older}"));
    }
}

/// Whatever stands in the files of the tail, `resume` cuts it.
#[test]
fn a_tail_in_any_state_is_cut() {
    let lane = Lane(0);
    let frames: Vec<_> = (0..30).map(|base| frame_of(lane, base, 1, 120)).collect();
    let sound_disk = handoff_log::disk::Memory::new();
    let segments = crate::support::open(&sound_disk);
    segments.append(lane, &frames).unwrap();
    let path_of = |base| crate::support::segment_path(lane, base);
    let states: [fn(&mut Vec<u8>); 6] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(7),
        |bytes| bytes.fill(0),
        |bytes| bytes.fill(0x5a),
        |bytes| bytes.iter_mut().step_by(512).for_each(|byte| *byte ^= 1),
        |bytes| bytes.extend(vec![0; 3000]),
    ];
    for cut in 0..30u64 {
        for (n, state) in states.iter().enumerate() {
            let disk = sound_disk.fork();
            for base in (cut..30).filter(|base| disk.contents(&path_of(*base)).is_some()) {
                let mut bytes = disk.contents(&path_of(base)).unwrap();
                state(&mut bytes);
                disk.overwrite(&path_of(base), bytes).unwrap();
            }
            disk.overwrite(&path_of(77), vec![1, 2, 3]).unwrap();
            let segments = crate::support::open(&disk);
            assert_eq!(segments.resume(lane, cut).unwrap().lost, None, "{cut}, state {n}");
            let at = usize::try_from(cut).unwrap();
            segments.append(lane, &frames[at..]).unwrap();
            let all = pieces(&crate::support::open(&disk), lane, 0, 900);
            assert_eq!(all, sound(&frames), "cut at {cut}, state {n}");
            assert!(disk.list("segments/0000000000000000").unwrap().len() < 20);
        }
    }
}
