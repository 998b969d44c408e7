//! How files are written: in which order, with how many syncs, and what of it is held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handoff_exchange::{Action, Ask, Seq, Status, Step};
use handoff_log::disk::{Counting, Disk, Memory};
use handoff_store_embedded::Called;
use handoff_store_embedded::folders::{
    Answer, BodyError, Known, More, Question, Report, processes_json,
};

use crate::locked::Locked;
use crate::world::{Direct, World, body, message};

#[test]
fn a_file_costs_one_open_and_one_write_and_a_batch_one_sync() {
    let counting = Counting::new(Arc::new(Memory::new()));
    let mut world = World::new(&(Arc::new(counting.clone()) as Arc<dyn Disk>));
    let device = world.no("a");
    for round in 0..10 {
        let messages = (0..5).map(|at| message(&format!("m{round}-{at}"))).collect();
        world.ask(Ask::Post { device, messages }).unwrap();
    }
    let before = counting.counts();
    world.work().unwrap();
    let after = counting.counts();
    assert_eq!((after.opens - before.opens, after.writes - before.writes), (50, 50));
    assert_eq!((after.renames, after.removes), (before.renames, before.removes));
    assert_eq!(after.sync_alls - before.sync_alls, 1);
    assert_eq!((after.syncs, after.dir_syncs), (before.syncs, before.dir_syncs));
    // Nothing to do costs nothing.
    world.work().unwrap();
    assert_eq!(counting.counts().sync_alls, after.sync_alls);
    world.check_folders("filed");
}

/// The room was asked where files belong for every handful that came while the last were written.
#[test]
fn what_comes_while_a_batch_is_written_waits_for_others() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    for number in 0..300 {
        world.post("a", &format!("m{number}")).unwrap();
    }
    let work = |world: &mut World| {
        let mut known = Direct(world.host.state());
        let more = world.folders.work(&mut known, world.now.steady);
        (more, world.files().len())
    };
    assert_eq!(work(&mut world), (More::Now, 256), "more than a batch is gone on with at once");
    assert_eq!(
        work(&mut world),
        (More::No, 300),
        "less than one is not, and is written all the same"
    );
}

/// Devices were kept waiting for syncs: a body in a file that was not synced counted as one that still
/// had to be written.
#[test]
fn a_file_that_waits_for_its_sync_is_written_and_the_journal_keeps_its_body() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    for id in ["m1", "m2", "m3"] {
        world.post("a", id).unwrap();
    }
    let counts = |world: &World| {
        let behind = world.orders.behind();
        (behind.bodies, behind.unwritten, behind.written)
    };
    assert_eq!(counts(&world), (3, 3, 0));
    let mut known = Direct(world.host.state());
    world.folders.work(&mut known, world.now.steady);
    assert_eq!(counts(&world), (3, 0, 3), "written, and only the journal has them for sure");
    assert_eq!(world.files().len(), 3);
    world.folders.sync(world.now.steady);
    assert_eq!(counts(&world), (0, 0, 3));
}

#[test]
fn bodies_are_read_from_the_journal_and_then_from_files() {
    let memory = Memory::new();
    let mut world = World::new(&(Arc::new(memory.clone()) as Arc<dyn Disk>));
    let seq = world.post("a", "m1").unwrap();
    assert!(world.files().is_empty());
    world.check_bodies("from the journal");
    world.checkpoint().unwrap();
    assert_eq!(world.orders.behind().bodies, 0);
    world.check_bodies("from the file");
    let again = World::open(&(Arc::new(memory) as Arc<dyn Disk>)).unwrap();
    assert_eq!(again.host.state(), world.host.state());
    assert_eq!(again.orders.behind().bodies, 0, "the journal has forgotten it");
    assert_eq!(again.bodies.read(&again.filed(seq)).unwrap(), body("m1", "a", "db"));
}

#[test]
fn a_body_that_is_not_durable_is_not_given() {
    use handoff_exchange::{Command, Rules};
    use handoff_log::journal::Purpose;
    use handoff_types::Entropy;
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    let (device, messages) = (world.no("a"), vec![message("m1")]);
    let command = Command { ask: Ask::Post { device, messages }, rules: Rules::default() };
    let chance = (world.now, Entropy(1));
    let applied = world.host.apply_made(&command, 1 << 10, Purpose::Accept, chance).unwrap();
    let read = world.bodies.read(&world.filed(Seq(1)));
    assert!(matches!(read, Err(BodyError::NotDurable(Seq(1)))), "{read:?}");
    world.journal.commit().unwrap();
    assert!(applied.ticket.outcome().is_some());
    world.check_bodies("durable");
}

/// The file goes where the message is by the time it is written.
#[test]
fn a_message_that_was_processed_before_it_was_filed_is_filed_once() {
    let memory = Memory::new();
    let counting = Counting::new(Arc::new(memory.clone()));
    let mut world = World::new(&(Arc::new(counting.clone()) as Arc<dyn Disk>));
    world.post("a", "m1").unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Processed)], &[("r1", "a")]).unwrap();
    world.step(process, Step::Commit).unwrap();
    let before = counting.counts();
    world.work().unwrap();
    let after = counting.counts();
    // The journal writes too, but it opens nothing.
    assert_eq!(after.opens - before.opens, 2);
    assert_eq!((after.renames, after.removes), (before.renames, before.removes));
    world.check_folders("filed late");
    assert!(world.state().process_by_number(process.number).unwrap().settled);
    assert_eq!(memory.list("exchange/db").unwrap(), ["Log", "Messages"]);
}

#[test]
fn what_was_rolled_back_before_it_was_filed_is_not_filed_at_all() {
    let memory = Memory::new();
    let counting = Counting::new(Arc::new(memory.clone()));
    let mut world = World::new(&(Arc::new(counting.clone()) as Arc<dyn Disk>));
    world.post("a", "m1").unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Processed)], &[("r1", "a"), ("r2", "b")]).unwrap();
    world.step(process, Step::Rollback("no".into())).unwrap();
    let before = counting.counts();
    world.work().unwrap();
    let after = counting.counts();
    assert_eq!((after.opens - before.opens, after.removes), (1, before.removes));
    assert_eq!(memory.list("exchange/db").unwrap(), ["Messages"]);
    world.check_folders("rolled back");
    assert_eq!(world.orders.behind().bodies, 0);
}

/// A folder of a million files is walked, not listed.
#[test]
fn a_crowded_folder_is_looked_at_piece_by_piece() {
    struct Nobody;
    impl Known for Nobody {
        fn ask(&mut self, question: &Question) -> Option<Answer> {
            Some(match question {
                Question::Messages(seqs) => {
                    assert!(seqs.len() <= 512, "{} at once", seqs.len());
                    Answer::Messages(vec![None; seqs.len()])
                }
                Question::From(..) => Answer::From(Vec::new()),
                Question::Databases => {
                    Answer::Databases { ids: vec![crate::world::id("db")], next: Seq(1 << 40) }
                }
            })
        }
    }
    const FILES: usize = 100_000;
    let disk = Locked::new(Arc::new(Memory::new())).crowded("exchange/db/Prepared", FILES);
    disk.create_dir("exchange/db/Prepared").unwrap();
    let mut world = World::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
    let given = || disk.given.load(Ordering::Relaxed);
    let held = |world: &World| format!("{:?}", world.folders).len();
    let before = held(&world);
    world.orders.compare();
    let mut pieces = 0;
    while world.folders.take_reports().is_empty() {
        let were = given();
        world.folders.work(&mut Nobody, world.now.steady);
        assert!(given() - were <= 512 && held(&world) < before + 1024);
        pieces += 1;
    }
    assert_eq!(given(), FILES);
    assert!(pieces >= FILES / 512, "{pieces}");
}

/// What is ordered, what is compared and what is filed is held for as long as it is worked on, and in
/// pieces.
#[test]
fn nothing_is_held_for_every_message() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    let device = world.no("a");
    for round in 0..80 {
        let messages = (0..25).map(|at| message(&format!("m{round}-{at}"))).collect();
        world.ask(Ask::Post { device, messages }).unwrap();
        if round % 8 == 7 {
            world.checkpoint().unwrap();
        }
    }
    world.work().unwrap();
    let held = |world: &World| format!("{:?}", world.folders).len();
    let before = held(&world);
    world.orders.compare();
    let mut most = 0;
    for _ in 0..50 {
        let mut known = Direct(world.host.state());
        world.folders.work(&mut known, world.now.steady);
        most = most.max(held(&world));
    }
    assert!(most < before + 4096, "{most} against {before}");
    world.work().unwrap();
    let compared = format!("{:?}", world.reports.last());
    assert!(compared.contains("messages: 2000, files: 2000, mended: 0"), "{compared}");
}

#[test]
fn the_folders_are_called_when_there_is_something_for_them() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    world.work().unwrap();
    world.post("a", "m1").unwrap();
    assert_eq!(world.folders.wait(Duration::ZERO), Called::Tick, "a body waits for more");
    world.work().unwrap();
    world.orders.compare();
    assert_eq!(world.folders.wait(Duration::from_secs(3600)), Called::Enough);
    world.work().unwrap();
    let seq = world.seq("m1");
    world.ask(Ask::Damaged { seq, words: "for a test".into() }).unwrap();
    assert_eq!(world.folders.wait(Duration::from_secs(3600)), Called::Enough);
    world.post("a", "m2").unwrap();
    assert!(!world.host.bulk().want(handoff_types::Sequence(u64::MAX)).unwrap());
    assert_eq!(world.folders.wait(Duration::from_secs(3600)), Called::Asked);
    world.orders.close();
    assert_eq!(world.folders.wait(Duration::from_secs(3600)), Called::Closing);
    assert!(!world.folders.rest(Duration::from_secs(3600)));
}

#[test]
fn the_list_of_processes_shows_those_that_are_not_over() {
    let memory = Memory::new();
    let mut world = World::new(&(Arc::new(memory.clone()) as Arc<dyn Disk>));
    assert_eq!(processes_json(world.state()), "{\"version\":1,\"processes\":[\n]}\n");
    world.post("a", "m1").unwrap();
    let process = world.begin().unwrap();
    world.prepare(process, &[("m1", Status::Processed)], &[("r1", "a")]).unwrap();
    let text = processes_json(world.state());
    assert_eq!(
        text,
        format!(
            "{{\"version\":1,\"processes\":[\n{{\"processId\":\"{process}\",\"dbId\":\"db\",\
             \"state\":\"READY_TO_COMMIT\",\"startedAt\":\"2026-11-16T15:00:00Z\",\
             \"readyAt\":\"2026-11-16T15:00:00Z\",\"filesToErp\":[{{\"seq\":1,\"messageId\":\"m1\",\
             \"folder\":\"Messages\",\"verdict\":\"PROCESSED\"}}],\"filesFromErp\":[{{\"seq\":2,\
             \"messageId\":\"r1\",\"folder\":\"Prepared\"}}],\"settled\":true}}\n]}}\n"
        )
        .replace("\"settled\":true", &text[text.find("\"settled\"").unwrap()..][..14]),
    );
    world.folders.write_processes(&text).unwrap();
    world.folders.write_processes(&text).unwrap();
    assert_eq!(memory.contents("exchange/processes.json").unwrap(), text.as_bytes());
    world.step(process, Step::Commit).unwrap();
    assert!(processes_json(world.state()).contains("CLEANUP"));
    world.work().unwrap();
    assert_eq!(processes_json(world.state()), "{\"version\":1,\"processes\":[\n]}\n");
}

/// The reader knows where the file belongs, or belonged a moment ago; it is moved back and forth
/// meanwhile.
#[test]
fn a_file_is_found_while_it_is_moved() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let (bodies, filed) = (world.bodies.clone(), world.filed(seq));
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let reader = std::thread::spawn(move || {
        let mut reads = 0;
        while !ended.load(Ordering::Acquire) || reads == 0 {
            match bodies.read(&filed) {
                Ok(read) => assert_eq!(read, body("m1", "a", "db")),
                Err(error) => assert!(!error.is_lost(), "{error}"),
            }
            reads += 1;
        }
        reads
    });
    for _ in 0..200 {
        world.ask(Ask::Damaged { seq, words: "for a test".into() }).unwrap();
        world.work().unwrap();
        world.ask(Ask::Requeue { database: world.db(), messages: vec![seq] }).unwrap();
        world.work().unwrap();
    }
    over.store(true, Ordering::Release);
    assert!(reader.join().unwrap() > 0);
    world.check_folders("moved back and forth");
}

/// The reader has looked where the file goes, and looks where it was when it is gone from there.
#[test]
fn whoever_misses_a_file_that_is_being_moved_looks_again_and_lists_no_folder() {
    let disk = Locked::new(Arc::new(Memory::new()));
    let mut world = World::new(&(Arc::new(disk.clone()) as Arc<dyn Disk>));
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    world.ask(Ask::Damaged { seq, words: "for a test".into() }).unwrap();
    world.work().unwrap();
    let from = world.path(seq);
    world.ask(Ask::Requeue { database: world.db(), messages: vec![seq] }).unwrap();
    assert!(from.starts_with("exchange/db/Error/") && world.files().contains_key(&from));
    let (bodies, filed) = (world.bodies.clone(), world.filed(seq));
    let (walks, held) = (disk.walks.load(Ordering::Relaxed), disk.hold("exchange/db/Error"));
    let reader = std::thread::spawn(move || bodies.read(&filed));
    held.wait();
    world.work().unwrap();
    assert!(!world.files().contains_key(&from));
    held.wait();
    assert_eq!(reader.join().unwrap().unwrap(), body("m1", "a", "db"));
    assert_eq!(disk.walks.load(Ordering::Relaxed), walks);
}

/// More orders than are kept: the rest is found by comparing, and nothing is settled before that.
#[test]
fn orders_beyond_what_is_kept_are_made_good_by_a_comparison() {
    let mut world = World::new(&(Arc::new(Memory::new()) as Arc<dyn Disk>));
    let seq = world.post("a", "m1").unwrap();
    world.work().unwrap();
    let spot = world.filed(seq).spot;
    let (database, process) = (world.db(), Some(77));
    let order = Action::Move { database, seq, from: spot, to: Some(spot), gone: None, process };
    let mut actions = vec![order; 70_000];
    actions.push(Action::Settle { number: 77, round: 1 });
    world.orders.take(world.host.state(), &actions);
    assert_eq!(world.orders.behind().orders, 65_536);
    world.work().unwrap();
    assert_eq!(world.orders.behind().orders, 0);
    let at = |is: fn(&Report) -> bool| world.reports.iter().position(is);
    let compared = at(|report| matches!(report, Report::Compared(compared) if compared.whole));
    let settled = at(|report| *report == Report::Settled { process: 77, round: 1 });
    assert!(compared.is_some() && compared < settled, "{:?}", world.reports);
    let settled = world.reports.iter().filter(|one| matches!(one, Report::Settled { .. }));
    let many = settled.count();
    assert_eq!(many, 1);
}
