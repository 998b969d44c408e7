//! The mover: what it copies, what it owes, what its mark says.

use crate::support::{LANE, Piece, everything, frame_of, open, sound};
use bytes::Bytes;
use handoff_log::disk::{Counting, Memory};
use handoff_log::journal::Ahead;
use handoff_log::segments::{
    Bodies, BodyError, Frame, Lane, Mark, Move, MoveError, Mover, Segments,
};
use handoff_types::{Code, Position};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A journal that is a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    bodies: Arc<Mutex<BTreeMap<(Position, u32), Bytes>>>,
    /// How often a record was read.
    fetched: Arc<AtomicUsize>,
}

impl Journal {
    /// Takes a body in and says how it is to be moved.
    pub(crate) fn put(&self, at: (u64, u32), lane: Lane, frame: &Frame) -> Move {
        let body = (Position(at.0), at.1);
        self.bodies.lock().unwrap().insert(body, frame.body.clone());
        let Frame { base, count, max_timestamp, .. } = *frame;
        Move { lane, base, count, max_timestamp, body }
    }

    /// Drops every body at or below a mark, as a recycled file does.
    pub(crate) fn recycle(&self, mark: Mark) {
        let through = mark.through;
        self.bodies.lock().unwrap().retain(|(position, _), _| Some(*position) > through);
    }

    fn lose(&self, lost: &Move) {
        self.bodies.lock().unwrap().remove(&lost.body);
    }
}

impl Bodies for Journal {
    fn body(&self, position: Position, index: u32) -> Result<Bytes, BodyError> {
        self.bodies.lock().unwrap().get(&(position, index)).cloned().ok_or(BodyError::Corrupt)
    }

    fn bodies(&self, position: Position, _: &mut Ahead) -> Result<Vec<Bytes>, BodyError> {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let bodies = self.bodies.lock().unwrap();
        let of_record = bodies.range((position, 0)..=(position, u32::MAX));
        let found: Vec<_> = (0..).zip(of_record).collect();
        if found.is_empty() || found.iter().any(|(index, ((_, at), _))| index != at) {
            return Err(BodyError::Corrupt);
        }
        Ok(found.into_iter().map(|(_, (_, body))| body.clone()).collect())
    }
}

fn mover_on(disk: &Memory, journal: &Journal) -> (Arc<Segments>, Mover<Journal>) {
    let segments = Arc::new(open(disk));
    (Arc::clone(&segments), Mover::new(segments, journal.clone()))
}

/// Records of two bodies each, for two lanes.
fn records(journal: &Journal, number: u64) -> (Vec<Move>, [Vec<Frame>; 2]) {
    let mut lanes = [Vec::new(), Vec::new()];
    let mut moves = Vec::new();
    for n in 0..number {
        for (lane, frames) in (0..).zip(&mut lanes) {
            let frame = frame_of(Lane(lane), n, 1, 100);
            moves.push(journal.put((n * 100, u32::try_from(lane).unwrap()), Lane(lane), &frame));
            frames.push(frame);
        }
    }
    (moves, lanes)
}

#[test]
fn a_mark_covers_every_move_handed_over_before_it() {
    let journal = Journal::default();
    let (segments, mut mover) = mover_on(&Memory::new(), &journal);
    assert_eq!(mover.sync().unwrap(), Mark { through: None });
    let (moves, lanes) = records(&journal, 40);
    mover.copy(&moves[..20]).unwrap();
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(900)) });
    mover.copy(&moves[20..]).unwrap();
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(3900)) });
    mover.copy(&moves[70..]).unwrap();
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(3900)) });
    for (lane, frames) in (0..).map(Lane).zip(&lanes) {
        assert_eq!(everything(&segments, lane), sound(frames));
    }
}

#[test]
fn many_moves_take_one_write_per_lane_and_one_sync() {
    let journal = Journal::default();
    let counting = Counting::new(Arc::new(Memory::new()));
    let options = handoff_log::segments::Options::default();
    let segments = Arc::new(Segments::open(Arc::new(counting.clone()), options).unwrap());
    let mut mover = Mover::new(segments, journal.clone());
    let (moves, _) = records(&journal, 500);
    mover.copy(&moves).unwrap();
    mover.sync().unwrap();
    let counts = counting.counts();
    assert_eq!((counts.writes, counts.sync_alls, counts.syncs), (4, 1, 0), "2 headers, 2 runs");
}

#[test]
fn each_record_is_read_once_however_many_bodies_it_has() {
    let journal = Journal::default();
    let (_, mut mover) = mover_on(&Memory::new(), &journal);
    let (moves, _) = records(&journal, 50);
    mover.copy(&moves).unwrap();
    assert_eq!(journal.fetched.load(Ordering::Relaxed), 50, "for 100 bodies");
}

/// A record of the journal was lost and given up, so the offsets of a lane go on behind a gap. The
/// mover once refused to go on, and no checkpoint was ever taken again.
#[test]
fn offsets_that_will_never_come_are_told_as_damage_and_the_lane_goes_on() {
    let journal = Journal::default();
    let (segments, mut mover) = mover_on(&Memory::new(), &journal);
    let frames: Vec<_> = (0..40).map(|base| frame_of(LANE, base, 1, 100)).collect();
    let moves: Vec<_> =
        (1..).zip(&frames).map(|(n, frame)| journal.put((n, 0), LANE, frame)).collect();
    let some = [&moves[..10], &moves[13..20]].concat();
    mover.copy(&some).unwrap();
    mover.copy(&moves[25..]).unwrap();
    assert_eq!(mover.take_lost(), [(LANE, 10..13), (LANE, 20..25)]);
    let expected = [
        sound(&frames[..10]),
        vec![Piece::Corrupt(10, 13)],
        sound(&frames[13..20]),
        vec![Piece::Corrupt(20, 25)],
        sound(&frames[25..]),
    ];
    assert_eq!(everything(&segments, LANE), expected.concat());
}

#[test]
fn a_lane_that_is_forgotten_owes_nothing() {
    let journal = Journal::default();
    let (segments, mut mover) = mover_on(&Memory::new(), &journal);
    let (moves, lanes) = records(&journal, 5);
    journal.lose(&moves[1]);
    assert_eq!(mover.copy(&moves).unwrap_err().done, 1);
    mover.forget(Lane(1));
    let rest: Vec<_> = moves.iter().filter(|moved| moved.lane == Lane(0)).copied().collect();
    mover.copy(&rest[1..]).unwrap();
    assert_eq!(everything(&segments, Lane(0)), sound(&lanes[0]));
}

#[test]
fn a_body_the_journal_lost_stops_the_moves_and_holds_the_mark() {
    let journal = Journal::default();
    let (segments, mut mover) = mover_on(&Memory::new(), &journal);
    let (moves, lanes) = records(&journal, 20);
    // The second body of the record at 700.
    journal.lose(&moves[15]);
    let error = mover.copy(&moves).unwrap_err();
    assert_eq!(error.done, 15);
    let MoveError::Body { lane, offsets, .. } = &error.error else { panic!("{error}") };
    assert_eq!((*lane, offsets.clone()), (Lane(1), 7..8));
    assert_eq!(error.error.code(), Code::Corrupt);
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(600)) });

    let error = mover.copy(&moves[16..]).unwrap_err();
    assert!(matches!(error.error, MoveError::Owed { lane: Lane(1), .. }), "{error}");
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(600)) });

    let error = mover.copy(&moves[15..]).unwrap_err();
    assert_eq!(error.done, 0, "it is still lost");
    assert_eq!(segments.end(Lane(1)).unwrap(), 7);

    mover.leave_out(&moves[15]).unwrap();
    mover.copy(&moves[16..]).unwrap();
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(1900)) });
    assert_eq!(everything(&segments, Lane(0)), sound(&lanes[0]));
    let expected =
        [sound(&lanes[1][..7]), vec![Piece::Corrupt(7, 8)], sound(&lanes[1][8..])].concat();
    assert_eq!(everything(&segments, Lane(1)), expected);
}

#[test]
fn a_body_that_comes_back_is_moved_after_all() {
    let journal = Journal::default();
    let (segments, mut mover) = mover_on(&Memory::new(), &journal);
    let (moves, lanes) = records(&journal, 5);
    journal.lose(&moves[0]);
    assert_eq!(mover.copy(&moves).unwrap_err().done, 0);
    assert_eq!(mover.sync().unwrap(), Mark { through: None });
    journal.put((0, 0), Lane(0), &lanes[0][0]);
    mover.copy(&moves).unwrap();
    assert_eq!(everything(&segments, Lane(0)), sound(&lanes[0]));
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(400)) });
}

#[test]
fn after_a_restart_each_lane_is_cut_at_its_first_move_only() {
    let disk = Memory::new();
    let journal = Journal::default();
    let frames: Vec<_> = (0..40).map(|base| frame_of(LANE, base, 1, 100)).collect();
    let moves: Vec<_> =
        (1..).zip(&frames).map(|(n, frame)| journal.put((n, 0), LANE, frame)).collect();
    let (_, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves).unwrap();
    let (segments, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves[10..20]).unwrap();
    assert_eq!(everything(&segments, LANE), sound(&frames[..20]));
    mover.copy(&moves[15..30]).unwrap();
    assert_eq!(everything(&segments, LANE), sound(&frames[..30]));
}

/// Whether the first segments were trimmed or never reached the disk cannot be told after a crash,
/// so what is handed over again is stored again.
#[test]
fn moves_below_the_start_of_a_lane_are_made_again() {
    let disk = Memory::new();
    let journal = Journal::default();
    let frames: Vec<_> = (0..40).map(|base| frame_of(LANE, base, 1, 100)).collect();
    let moves: Vec<_> =
        (1..).zip(&frames).map(|(n, frame)| journal.put((n, 0), LANE, frame)).collect();
    let (segments, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves).unwrap();
    assert!(segments.trim(LANE, 30).unwrap() > 10);
    mover.copy(&moves[5..]).unwrap();
    assert!(segments.start(LANE).unwrap() > 10, "in the same life nothing comes back");
    let (segments, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves[10..]).unwrap();
    assert_eq!(everything(&segments, LANE), sound(&frames[10..]));
}

#[test]
fn what_a_lane_lost_before_its_first_move_is_told_once() {
    let disk = Memory::new();
    let journal = Journal::default();
    let frames: Vec<_> = (0..40).map(|base| frame_of(LANE, base, 1, 100)).collect();
    let moves: Vec<_> =
        (1..).zip(&frames).map(|(n, frame)| journal.put((n, 0), LANE, frame)).collect();
    let (segments, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves[..30]).unwrap();
    assert!(mover.take_lost().is_empty());
    segments.truncate(LANE, 21).unwrap();
    let (segments, mut mover) = mover_on(&disk, &journal);
    mover.copy(&moves[30..]).unwrap();
    assert_eq!(mover.take_lost(), [(LANE, 21..30)]);
    assert!(mover.take_lost().is_empty());
    let expected =
        [sound(&frames[..21]), vec![Piece::Corrupt(21, 30)], sound(&frames[30..])].concat();
    assert_eq!(everything(&segments, LANE), expected);
}

#[test]
fn a_mover_that_was_halted_goes_on_where_it_was() {
    let journal = Journal::default();
    let (segments, mover) = mover_on(&Memory::new(), &journal);
    let halt = Arc::new(AtomicBool::new(false));
    let mut mover = mover.halted_by(Arc::clone(&halt));
    let (moves, lanes) = records(&journal, 40);
    mover.copy(&moves[..20]).unwrap();
    halt.store(true, Ordering::Release);
    let error = mover.copy(&moves[20..]).unwrap_err();
    assert!(matches!(error.error, MoveError::Halted) && error.done == 0, "{error}");
    assert_eq!(error.error.code(), Code::ServerStopping);
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(900)) });
    halt.store(false, Ordering::Release);
    mover.copy(&moves[20..]).unwrap();
    assert_eq!(mover.sync().unwrap(), Mark { through: Some(Position(3900)) });
    for (lane, frames) in (0..).map(Lane).zip(&lanes) {
        assert_eq!(everything(&segments, lane), sound(frames));
    }
}
