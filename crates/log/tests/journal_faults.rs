//! A disk that is full, writes short, or fails a sync: refused with words, nothing acknowledged
//! that is not durable, and on it goes by itself when the cause ends.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking and reports what it covered"
)]

mod journal_model;

use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Crash, Disk, Faults, Faulty, Memory, Short};
use handoff_log::journal::{
    Entry, Inline, Journal, Lost, Purpose, Recovery, Refused, Stalled, Start, Threaded, Ticket,
};
use handoff_types::{Code, Now, Outcome, Room, Steady};
use journal_model::{Model, Run, entry, options};

fn faulty(disk: impl Disk + 'static) -> (Arc<dyn Disk>, Faults) {
    let (disk, faults) = Faulty::new(Arc::new(disk));
    (Arc::new(disk), faults)
}

fn inline(disk: &Arc<dyn Disk>) -> Inline {
    let recovery = Recovery::begin(Arc::clone(disk), options(3), Start::default()).unwrap();
    Inline::start(recovery.finish().unwrap().0)
}

fn threaded(disk: &Arc<dyn Disk>) -> Threaded {
    let recovery = Recovery::begin(Arc::clone(disk), options(3), Start::default()).unwrap();
    Threaded::start(recovery.finish().unwrap().0).unwrap()
}

fn append(journal: &dyn Journal, change: &[u8]) -> Result<Ticket, Refused> {
    let entry = entry(Room::Events, change);
    let permit = journal.admit(Room::Events, entry.bytes(), Purpose::Accept)?;
    Ok(journal.append(permit, entry).1)
}

fn changes(disk: &Arc<dyn Disk>) -> Vec<Vec<u8>> {
    let mut recovery = Recovery::begin(Arc::clone(disk), options(4), Start::default()).unwrap();
    let mut changes = Vec::new();
    while let Some(replayed) = recovery.next_entry().unwrap() {
        changes.push(replayed.change.to_vec());
    }
    let (_, report) = recovery.finish().unwrap();
    assert_eq!(report.damage, []);
    changes
}

#[test]
fn after_a_failed_sync_the_round_is_durable_on_a_fresh_file_before_it_is_acknowledged() {
    for calls in [Calls::Only(Call::Sync), Calls::Only(Call::Write)] {
        let crash = Crash::new();
        let (disk, faults) = faulty(crash.clone());
        let journal = inline(&disk);
        let first = append(&journal, b"first").unwrap();
        journal.commit().unwrap();
        assert!(first.outcome().unwrap().is_ok());

        let second = append(&journal, b"second").unwrap();
        faults.fail_nth(calls, 1);
        assert!(matches!(journal.commit(), Err(Stalled::Poisoned { .. })));
        assert!(second.outcome().is_none());
        let refused = append(&journal, b"third").unwrap_err();
        assert_eq!(refused.code(), Code::JournalPoisoned, "{refused}");

        journal.commit().unwrap();
        assert!(second.outcome().unwrap().is_ok());
        let third = append(&journal, b"third").unwrap();
        journal.commit().unwrap();
        assert!(third.outcome().unwrap().is_ok());

        // Only what was synced survives, and it is all there.
        let (after, _) = crash.crash_keeping_nothing();
        let after: Arc<dyn Disk> = Arc::new(after);
        assert_eq!(changes(&after), [&b"first"[..], b"second", b"third"]);
    }
}

#[test]
fn every_single_failing_call_is_survived() {
    // How many calls the workload makes, so that each of them can be the one that fails.
    let (disk, _) = faulty(Memory::new());
    let counting = handoff_log::disk::Counting::new(disk);
    let plain: Arc<dyn Disk> = Arc::new(counting.clone());
    let (mut run, _) = Run::open(plain, &Model::default(), 5).unwrap();
    for _ in 0..60 {
        run.step();
    }
    let counts = counting.counts();
    let calls = counts.opens + counts.writes + counts.syncs + counts.dir_syncs + counts.renames;
    assert!(calls > 100, "{calls}");
    for n in 1..=calls {
        let crash = Crash::new();
        let (disk, faults) = faulty(crash.clone());
        faults.fail_nth(Calls::Any, n);
        let model = match Run::open(Arc::clone(&disk), &Model::default(), 5) {
            Ok((mut run, _)) => {
                for _ in 0..60 {
                    run.step();
                }
                faults.clear();
                run.commit();
                run.commit();
                assert!(run.model.acknowledged() > 0, "call {n}: nothing goes on");
                run.model
            }
            Err(_) => Model::default(),
        };
        for seed in 0..2 {
            let (after, _) = crash.crash(n * 2 + seed);
            if let Err(error) = Run::open(Arc::new(after), &model, n) {
                panic!("call {n}, crash seed {}: {error}", n * 2 + seed);
            }
        }
    }
}

#[test]
fn short_writes_are_completed() {
    for short in [Short::Half, Short::OneByte] {
        let crash = Crash::new();
        let (disk, faults) = faulty(crash.clone());
        let (mut run, _) = Run::open(disk, &Model::default(), 9).unwrap();
        for n in 0..40 {
            faults.shorten_nth(1 + n % 3, short);
            run.step();
        }
        run.commit();
        assert!(faults.struck() > 10);
        let model = run.model.clone();
        let (after, _) = crash.crash_keeping_nothing();
        Run::open(Arc::new(after), &model, 1).map(drop).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_new_entries_with_words_and_goes_on_when_there_is_space() {
    let (disk, faults) = faulty(Memory::new());
    let journal = inline(&disk);
    faults.fill(0);
    let mut acknowledged = Vec::new();
    let refused = loop {
        let change = vec![u8::try_from(acknowledged.len() % 251).unwrap(); 3000];
        match append(&journal, &change) {
            Ok(ticket) => {
                // What was admitted is written: the files that exist have space for it.
                journal.commit().unwrap();
                assert!(ticket.outcome().unwrap().is_ok());
                acknowledged.push(change);
            }
            Err(refused) => break refused,
        }
        assert!(acknowledged.len() < 1000);
    };
    assert_eq!(refused.code(), Code::DiskFull, "{refused}");
    // What finishes promised work still goes through.
    let finish = entry(Room::Events, b"done");
    let permit = journal.admit(Room::Events, finish.bytes(), Purpose::Finish).unwrap();
    let (_, ticket) = journal.append(permit, finish);
    journal.commit().unwrap();
    assert!(ticket.outcome().unwrap().is_ok());
    acknowledged.push(b"done".to_vec());

    faults.clear();
    // The refused attempt makes the journal ask the disk again; nobody has to restart it.
    drop(append(&journal, b"asks"));
    let ticket = append(&journal, b"goes on").unwrap();
    journal.commit().unwrap();
    assert!(ticket.outcome().unwrap().is_ok());
    acknowledged.push(b"goes on".to_vec());
    let found = changes(&disk);
    assert_eq!(found.iter().filter(|change| *change != b"asks").count(), acknowledged.len());
}

#[test]
fn a_ring_that_nobody_trims_refuses_by_name_and_goes_on_after_a_trim() {
    let (disk, _) = faulty(Memory::new());
    let journal = inline(&disk);
    let refused = loop {
        match append(&journal, &[1; 3000]) {
            Ok(_) => journal.commit().unwrap(),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code(), Code::JournalFull, "{refused}");
    journal.trim(Room::Events, journal.durable());
    drop(append(&journal, &[1; 3000]).unwrap());
    journal.commit().unwrap();
}

#[test]
fn a_running_journal_goes_on_by_itself_after_a_failed_sync() {
    let (disk, faults) = faulty(Memory::new());
    let journal = threaded(&disk);
    // The failing sync may be one of the supplier's, which is survived as well; go on until it
    // was one of the committer's.
    let mut appended = 0u8;
    while journal.stats().continuations == 0 {
        faults.fail_nth(Calls::Only(Call::Sync), 1);
        append_when_open(&journal, &[appended]).wait().unwrap();
        appended += 1;
    }
    faults.clear();
    append_when_open(&journal, &[appended]).wait().unwrap();
    drop(journal);
    assert_eq!(changes(&disk), (0..=appended).map(|n| vec![n]).collect::<Vec<_>>());
}

/// Appends as a client does that tries again while the journal moves to a fresh file.
fn append_when_open(journal: &Threaded, change: &[u8]) -> Ticket {
    loop {
        match append(journal, change) {
            Ok(ticket) => return ticket,
            Err(Refused::Poisoned { .. } | Refused::NoFile { .. }) => std::thread::yield_now(),
            Err(refused) => panic!("{refused}"),
        }
    }
}

#[test]
fn a_running_journal_stops_for_good_when_the_disk_keeps_failing_and_says_unknown() {
    let (disk, faults) = faulty(Memory::new());
    let journal = threaded(&disk);
    append(&journal, b"first").unwrap().wait().unwrap();
    faults.fail_all(Calls::Only(Call::Sync));
    let lost = append(&journal, b"second").unwrap().wait().unwrap_err();
    assert_eq!(lost, Lost { outcome: Outcome::Unknown });
    assert!(journal.stopped().is_some());
    assert_eq!(append(&journal, b"third").unwrap_err().code(), Code::JournalClosed);
}

#[test]
fn a_running_journal_says_since_when_the_oldest_entry_waits_for_a_failing_disk() {
    let (disk, faults) = faulty(Memory::new());
    let mut patient = options(3);
    patient.limits.poison_secs_max = 600;
    let recovery = Recovery::begin(Arc::clone(&disk), patient, Start::default()).unwrap();
    let journal = Threaded::start(recovery.finish().unwrap().0).unwrap();
    let now = Now { steady: Steady(5), ..Now::default() };
    let entry = Entry { now, ..entry(Room::Events, b"waits") };
    let permit = journal.admit(Room::Events, entry.bytes(), Purpose::Accept).unwrap();
    faults.fail_all(Calls::Only(Call::Sync));
    let ticket = journal.append(permit, entry).1;
    assert_eq!(journal.oldest_waiting(), Some(Steady(5)));
    faults.clear();
    ticket.wait().unwrap();
    assert_eq!(journal.oldest_waiting(), None);
}

#[test]
fn many_threads_share_syncs_and_each_hears_of_its_own_entry() {
    let (disk, _) = faulty(Memory::new());
    // Nobody trims here, and in the worst case every entry has a round to itself.
    let mut roomy = options(3);
    roomy.limits.journal_bytes_max = 16 << 20;
    let recovery = Recovery::begin(Arc::clone(&disk), roomy, Start::default()).unwrap();
    let journal = Arc::new(Threaded::start(recovery.finish().unwrap().0).unwrap());
    let threads: Vec<_> = (0..16u8)
        .map(|thread| {
            let journal = Arc::clone(&journal);
            std::thread::spawn(move || {
                for n in 0..20u8 {
                    append(&*journal, &[thread, n]).unwrap().wait().unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let stats = journal.stats();
    assert_eq!(stats.records, 320);
    assert!(stats.rounds <= stats.records);
    assert_eq!(stats.sync_times.iter().sum::<u64>(), stats.rounds);
    assert_eq!(journal.oldest_waiting(), None);
    drop(journal);
    let found = changes(&disk);
    for thread in 0..16u8 {
        let own: Vec<u8> = found.iter().filter(|c| c[0] == thread).map(|c| c[1]).collect();
        assert_eq!(own, (0..20).collect::<Vec<u8>>());
    }
}

/// Each of these waits for ever if what is held is not written.
#[test]
fn what_a_room_holds_is_written_when_it_lets_go_and_nobody_else_waits_for_it() {
    let (disk, _) = faulty(Memory::new());
    let mut roomy = options(3);
    roomy.limits.journal_bytes_max = 16 << 20;
    let recovery = Recovery::begin(Arc::clone(&disk), roomy, Start::default()).unwrap();
    let journal = Threaded::start(recovery.finish().unwrap().0).unwrap();
    let append_to = |room, change: &[u8]| {
        let entry = entry(room, change);
        let permit = journal.admit(room, entry.bytes(), Purpose::Accept).unwrap();
        journal.append(permit, entry).1
    };

    journal.hold(Room::Events);
    let held = [append_to(Room::Events, b"one"), append_to(Room::Events, b"two")];
    append_to(Room::Streams, b"of another room").wait().unwrap();
    journal.let_go(Room::Events);
    for ticket in held {
        ticket.wait().unwrap();
    }
    append_to(Room::Events, b"not held").wait().unwrap();

    journal.hold(Room::Events);
    let much: Vec<Ticket> = (0..80).map(|_| append_to(Room::Events, &[7; 1024])).collect();
    let first = much.into_iter().next().unwrap();
    first.wait().unwrap();
    let last = append_to(Room::Events, b"held at the end");
    drop(journal);
    last.wait().unwrap();
}
