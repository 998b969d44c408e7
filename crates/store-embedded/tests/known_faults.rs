//! Faults that were found by reading, each with the test that would have found it.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod tallies;

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Call, Calls, Disk, Faulty, Memory};
use handoff_log::journal::{Inline, Journal, Options, Purpose, Report, Start, repair};
use handoff_log::segments::Segments;
use handoff_store_embedded::{
    Checkpointing, Host, Loading, Persist, Progress, StepError, open_journal,
};
use handoff_types::{Entropy, Limits, Now};
use tallies::{A, B};

fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 512 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 128 << 10,
        change_bytes_max: 96 << 10,
        ..Limits::default()
    }
}

fn options(d: &Directory, e: u128) -> Options {
    Options { limits: limits(), directory: d.id, entropy: Entropy(e) }
}

fn when() -> (Now, Entropy) {
    (Now::default(), Entropy(0))
}

struct World {
    dir: Directory,
    j: Arc<Inline>,
    a: Host<A>,
    b: Host<B>,
    report: Report,
}

fn open(disk: &Arc<dyn Disk>, e: u128) -> World {
    let dir = Directory::open(Arc::clone(disk), Entropy(1)).unwrap();
    let mut a = Loading::<A>::begin(&dir).unwrap();
    let mut b = Loading::<B>::begin(&dir).unwrap();
    let (opened, report, failed) =
        open_journal(&dir, options(&dir, e), &mut [&mut a, &mut b]).unwrap();
    assert!(failed.is_empty());
    let j = Arc::new(Inline::start(opened));
    let s = Arc::new(Segments::open(Arc::clone(disk), Default::default()).unwrap());
    let dj: Arc<dyn Journal> = j.clone();
    World { a: a.into_host(dj.clone(), s.clone()), b: b.into_host(dj, s), j, dir, report }
}

fn checkpoint<M: Persist>(w: &Directory, h: &mut Host<M>) -> Result<(), StepError> {
    let mut c = Checkpointing::begin::<M>(w, 1)?;
    for _ in 0..10_000 {
        if c.step(h, Now::default())? == Progress::Done {
            return Ok(());
        }
    }
    panic!("no end")
}

#[test]
fn a_body_that_could_not_be_read_once_is_moved_by_the_next_attempt() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut w = open(&disk, 1);
    for _ in 0..2 {
        let bodies = vec![Bytes::from(vec![1; 100]), Bytes::from(vec![2; 100])];
        drop(w.a.apply(&(1, 2), bodies, Purpose::Accept, when()).unwrap());
    }
    w.j.commit().unwrap();
    faults.fail_all(Calls::Only(Call::Read));
    assert!(w.a.bulk().copy(10).is_err());
    faults.clear();
    w.a.bulk().copy(10).unwrap();
    checkpoint(&w.dir, &mut w.a).unwrap();
}

#[test]
fn a_damaged_body_costs_that_body_and_not_the_checkpoints_of_its_room() {
    let mem = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let mut w = open(&disk, 1);
    drop(w.a.apply(&(1, 1), vec![Bytes::from(vec![1; 100])], Purpose::Accept, when()).unwrap());
    w.j.commit().unwrap();
    drop(w.a.apply(&(1, 1), vec![Bytes::from(vec![2; 100])], Purpose::Accept, when()).unwrap());
    w.j.commit().unwrap();
    let f = "journal/0000.journal";
    let mut b = mem.contents(f).unwrap();
    b[4096 + 192 + 24 + 60] ^= 1;
    mem.overwrite(f, b).unwrap();
    checkpoint(&w.dir, &mut w.a).expect("damage costs what it hits");
}

#[test]
fn after_a_repair_the_room_opens() {
    let mem = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let mut w = open(&disk, 1);
    for _ in 0..3 {
        drop(w.a.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
        w.j.commit().unwrap();
    }
    let dir = Directory { disk: Arc::clone(&disk), id: w.dir.id };
    drop(w);
    let f = "journal/0000.journal";
    let mut b = mem.contents(f).unwrap();
    b[4096 * 2 + 192 + 24 + 10] ^= 1;
    mem.overwrite(f, b).unwrap();
    assert_eq!(open(&disk, 2).report.closed.len(), 1);
    repair(&disk, options(&dir, 3), Start::default()).unwrap();
    assert_eq!(open(&disk, 4).report.closed, []);
}

#[test]
fn a_checkpoint_whose_step_failed_never_counts() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut w = open(&disk, 1);
    for key in 1..=3 {
        drop(w.a.apply(&(key, 0), vec![], Purpose::Accept, when()).unwrap());
        w.j.commit().unwrap();
    }
    let mut c = Checkpointing::begin::<A>(&w.dir, 1).unwrap();
    c.step(&mut w.a, Now::default()).unwrap();
    faults.fail_nth(Calls::Only(Call::Write), 1);
    assert!(c.step(&mut w.a, Now::default()).is_err());
    // A caller that tries again, as with every other transient error of the disk.
    for _ in 0..10 {
        let p = c.step(&mut w.a, Now::default());
        if matches!(p, Ok(Progress::Done)) {
            break;
        }
    }
    let dir = Directory { disk: Arc::clone(&disk), id: w.dir.id };
    let again = Loading::<A>::begin(&dir).map(|l| l.state().clone());
    assert!(again.is_ok(), "{:?}", again.map_err(|e| e.to_string()));
}

#[test]
fn a_room_that_could_not_be_loaded_once_keeps_its_part_of_the_journal() {
    let mem = Memory::new();
    let (fd, faults) = Faulty::new(Arc::new(mem.clone()));
    let disk: Arc<dyn Disk> = Arc::new(fd);
    let mut w = open(&disk, 1);
    drop(w.a.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
    w.j.commit().unwrap();
    checkpoint(&w.dir, &mut w.a).unwrap();
    for _ in 0..20 {
        drop(w.a.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
        w.j.commit().unwrap();
    }
    for _ in 0..30 {
        drop(w.b.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
        w.j.commit().unwrap();
    }
    checkpoint(&w.dir, &mut w.b).unwrap();
    drop(w);
    // The next start cannot read A's checkpoint; B is served alone, as LoadError says.
    let dir = Directory::open(Arc::clone(&disk), Entropy(1)).unwrap();
    faults.fail_nth(Calls::Only(Call::Read), 1);
    assert!(Loading::<A>::begin(&dir).is_err());
    let mut b = Loading::<B>::begin(&dir).unwrap();
    let (opened, report, _) = open_journal(&dir, options(&dir, 2), &mut [&mut b]).unwrap();
    assert_eq!(report.closed, []);
    drop(Inline::start(opened));
    // The start after that can.
    let w = open(&disk, 3);
    assert_eq!(w.report.lost, []);
    assert_eq!(w.a.state()[&1], 21);
}

#[test]
fn trimmed_files_are_not_reported_as_damage() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    // B never writes anything.
    for life in 0..12 {
        let mut w = open(&disk, 1 + life);
        assert_eq!(w.report.damage, [], "life {life}");
        for n in 0..(17 + 13 * life as usize % 40) {
            drop(w.a.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
            w.j.commit().unwrap();
            if n % 9 == 0 {
                checkpoint(&w.dir, &mut w.a).unwrap();
            }
        }
    }
}

/// A room that was switched off was asked nothing, and the journal began again below what its
/// checkpoint knows. When the room came back, the others had lost records, it seemed.
#[test]
fn a_room_that_is_not_loaded_still_says_how_far_the_journal_went() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let mut w = open(&disk, 1);
    for _ in 0..10 {
        drop(w.a.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
        w.j.commit().unwrap();
    }
    checkpoint(&w.dir, &mut w.a).unwrap();
    drop(w);
    // Every file has been recycled.
    for name in disk.list("journal").unwrap() {
        disk.remove(&format!("journal/{name}")).unwrap();
    }
    let dir = Directory::open(Arc::clone(&disk), Entropy(1)).unwrap();
    let mut b = Loading::<B>::begin(&dir).unwrap();
    let (opened, ..) = open_journal(&dir, options(&dir, 2), &mut [&mut b]).unwrap();
    let j = Arc::new(Inline::start(opened));
    let s = Arc::new(Segments::open(Arc::clone(&disk), Default::default()).unwrap());
    let mut b = b.into_host(j.clone(), s);
    drop(b.apply(&(1, 0), vec![], Purpose::Accept, when()).unwrap());
    j.commit().unwrap();
    drop((b, j));
    let w = open(&disk, 3);
    assert!(w.report.closed.is_empty() && w.report.damage.is_empty(), "{:?}", w.report);
    assert_eq!((w.a.state()[&1], w.b.state()[&1]), (10, 1));
}
