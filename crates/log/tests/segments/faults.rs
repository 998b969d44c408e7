//! A disk that fails: nothing is guessed, and work goes on when the disk is well.

use crate::moving::Journal;
use crate::support::{LANE, SMALL, everything, frames, sound};
use handoff_log::disk::{Call, Calls, Crash, Disk, Faults, Faulty, Memory, Short};
use handoff_log::segments::{Frame, Mover, Segments, SyncError, WriteError};
use handoff_types::{Code, Wall};
use std::sync::Arc;

fn faulty(inner: impl Disk + 'static) -> (Segments, Faults) {
    let (disk, faults) = Faulty::new(Arc::new(inner));
    (Segments::open(Arc::new(disk), SMALL).unwrap(), faults)
}

#[test]
fn a_failed_sync_refuses_every_change_until_opened_again() {
    let memory = Memory::new();
    let (segments, faults) = faulty(memory.clone());
    let all = frames(0, 20);
    segments.append(LANE, &all[..10]).unwrap();
    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
    let error = segments.sync().unwrap_err();
    assert!(matches!(error, SyncError::Disk { .. }));
    assert_eq!(error.code(), Code::DiskFault);
    assert!(matches!(segments.sync(), Err(SyncError::Poisoned)), "no sync is repeated");
    let refusals = [
        segments.append(LANE, &all[10..]).unwrap_err(),
        segments.truncate(LANE, 0).unwrap_err(),
        segments.resume(LANE, 0).unwrap_err(),
        segments.trim(LANE, 5).unwrap_err(),
        segments.retain(LANE, Some(0), Some(Wall(0))).unwrap_err(),
        segments.remove_lane(LANE).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, WriteError::Poisoned), "{refusal}");
        assert_eq!(refusal.code(), Code::JournalPoisoned);
    }
    assert_eq!(everything(&segments, LANE), sound(&all[..10]), "reading goes on");
    let segments = crate::support::open(&memory);
    segments.append(LANE, &all[10..]).unwrap();
    segments.sync().unwrap();
    assert_eq!(everything(&segments, LANE), sound(&all));
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_written_anew() {
    let journal = Journal::default();
    let all = frames(0, 40);
    let moves: Vec<_> =
        (1..).zip(&all).map(|(n, frame)| journal.put((n, 0), LANE, frame)).collect();
    for seed in 0..100 {
        let crash = Crash::new();
        let (segments, faults) = faulty(crash.clone());
        let mut mover = Mover::new(Arc::new(segments), journal.clone());
        mover.copy(&moves[..15]).unwrap();
        mover.sync().unwrap();
        mover.copy(&moves[15..30]).unwrap();
        faults.fail_nth(Calls::Only(Call::SyncAll), 1);
        mover.sync().unwrap_err();
        let segments = Arc::new(crate::support::open(&crash));
        let mut mover = Mover::new(segments, journal.clone());
        mover.copy(&moves[15..]).unwrap();
        mover.sync().unwrap();
        let (disk, _) = crash.crash(seed);
        assert_eq!(everything(&crate::support::open(&disk), LANE), sound(&all), "seed {seed}");
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let all = frames(0, 60);
    for room in (0..4000).step_by(37) {
        let memory = Memory::new();
        let (segments, faults) = faulty(memory.clone());
        segments.append(LANE, &all[..5]).unwrap();
        faults.fill(room);
        let error = all[5..].chunks(4).find_map(|few| segments.append(LANE, few).err()).unwrap();
        assert_eq!(error.code(), Code::DiskFull, "room {room}: {error}");
        let stored = segments.end(LANE).unwrap();
        let kept: Vec<Frame> = all.iter().filter(|f| f.base < stored).cloned().collect();
        assert_eq!(everything(&segments, LANE), sound(&kept), "room {room}");
        faults.clear();
        segments.append(LANE, &all).unwrap();
        assert_eq!(everything(&segments, LANE), sound(&all), "room {room}");
        assert_eq!(everything(&crate::support::open(&memory), LANE), sound(&all), "room {room}");
    }
}

#[test]
fn short_writes_are_finished() {
    for short in [Short::Half, Short::OneByte] {
        let (segments, faults) = faulty(Memory::new());
        faults.shorten_every(2, short);
        let all = frames(0, 60);
        segments.append(LANE, &all).unwrap();
        assert!(faults.struck() > 0);
        assert_eq!(everything(&segments, LANE), sound(&all));
    }
}

/// Does each step again until it succeeds, opening the segments anew if they are poisoned.
fn persist(
    segments: &mut Segments,
    reopen: impl Fn() -> Segments,
    step: impl Fn(&Segments) -> Result<(), WriteError>,
) {
    for _ in 0..3 {
        match step(segments) {
            Ok(()) => return,
            Err(WriteError::Poisoned) => *segments = reopen(),
            Err(_) => {}
        }
    }
    panic!("one fault spoils one attempt, and poison one more");
}

/// Every single call to the disk fails once, in every step of a lane's life.
#[test]
fn any_one_failed_call_costs_one_attempt_and_nothing_else() {
    let all = frames(0, 60);
    for nth in 1.. {
        let memory = Memory::new();
        let (disk, faults) = Faulty::new(Arc::new(memory.clone()));
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let reopen = || Segments::open(Arc::clone(&disk), SMALL).unwrap();
        let mut segments = reopen();
        faults.fail_nth(Calls::Any, nth);
        persist(&mut segments, reopen, |s| s.append(LANE, &all[..25]).map(drop));
        persist(&mut segments, reopen, |s| s.append(LANE, &all[..50]).map(drop));
        persist(&mut segments, reopen, |s| s.truncate(LANE, all[40].base));
        persist(&mut segments, reopen, |s| s.resume(LANE, all[20].base).map(drop));
        persist(&mut segments, reopen, |s| s.append(LANE, &all).map(drop));
        persist(&mut segments, reopen, |s| s.trim(LANE, all[30].base).map(drop));
        persist(&mut segments, reopen, |s| s.retain(LANE, Some(2000), None).map(drop));
        let untouched = faults.struck() == 0;
        faults.clear();
        let start = segments.start(LANE).unwrap();
        assert!(start >= all[10].base, "call {nth}");
        let kept: Vec<Frame> = all.iter().filter(|f| f.base >= start).cloned().collect();
        assert_eq!(everything(&segments, LANE), sound(&kept), "call {nth}");
        assert_eq!(everything(&crate::support::open(&memory), LANE), sound(&kept), "call {nth}");
        if untouched {
            assert!(nth > 50, "the life of a lane has more calls than {nth}");
            return;
        }
    }
}
