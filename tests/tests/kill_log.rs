//! Real processes on a real disk: killed at any moment, two at a time, on directories they must
//! not touch, and without space. The long form is `scripts/torture log`.

use handoff_sim::dice::Dice;
use handoff_sim::room::{Command, Name};
use handoff_tests::fixture::{DATA, copy};
use handoff_tests::hunt::{Chase, Depth, Hunt, Plan, Work};
use handoff_tests::ledger::{Heard, Ledger, Trouble};
use handoff_tests::place::Place;
use handoff_tests::prey::{Lair, Prey, Said};
use handoff_tests::small_disk::SmallDisk;
use handoff_tests::wire::Ask;
use handoff_tests::workspace;
use std::path::Path;
use std::time::Duration;

const VICTIM: &str = env!("CARGO_BIN_EXE_victim");

/// Nothing waits longer; a test that has to has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const ROOM_FOR_FILES: &str = "the temporary directory takes files";

const STARTS: &str = "a process can be started and waited for";

/// How many commands are sent until the log must have refused one, or taken one again.
const COMMANDS_MAX: u64 = 20_000;

fn forty_kills(seed: u64) {
    let place = Place::temporary().expect(ROOM_FOR_FILES);
    let mut hunt = Hunt::new(seed, Path::new(VICTIM), place.path());
    while hunt.bag().kills < 40 {
        hunt.life().unwrap_or_else(|found| panic!("{found}"));
    }
    hunt.finish().unwrap_or_else(|found| panic!("{found}"));
    let (bag, outcomes) = (hunt.bag(), hunt.outcomes());
    eprintln!("seed {seed}: {bag:?}, {outcomes:?}");
    assert!(bag.checkpoints > 0, "{bag:?}");
    assert!(outcomes.acknowledged > 0 && outcomes.refused > 0, "{outcomes:?}");
    assert!(outcomes.unknown_there + outcomes.unknown_missing > 0, "{outcomes:?}");
}

#[test]
fn forty_kills_lose_nothing_acknowledged_and_double_nothing_unknown() {
    forty_kills(1);
}

#[test]
fn another_forty_kills_lose_nothing_acknowledged_and_double_nothing_unknown() {
    forty_kills(2);
}

#[test]
fn a_second_process_is_refused_and_told_the_first_ones_id() {
    let place = Place::temporary().unwrap();
    let lair = Lair::new(VICTIM, place.path());
    let mut ledger = Ledger::default();
    let mut first = start(&lair);
    let words = refused(&lair);
    assert!(words.contains("data.in_use"), "{words}");
    assert!(words.contains(&format!("process {}", first.prey().id())), "{words}");
    first.ask(&mut ledger, add(1));
    assert!(matches!(first.hear(&mut ledger), Ok(Some(Heard::Reply(_)))));
    first.end(&mut ledger).unwrap();
    start(&lair).end(&mut ledger).unwrap();
}

#[test]
fn a_directory_of_a_newer_format_is_refused_by_name() {
    let words = refused_fixture("2-from-the-future");
    assert!(words.contains("data.newer") && words.contains("format 2"), "{words}");
}

#[test]
fn a_room_that_lost_records_is_named_and_stays_closed() {
    let words = refused_fixture("1/flipped-record");
    assert!(words.contains("log.room_damaged") && words.contains("counter"), "{words}");
}

#[test]
fn a_journal_file_without_its_header_is_named() {
    let words = refused_fixture("1/lost-header");
    assert!(words.contains("data.unreadable") && words.contains(".journal"), "{words}");
}

#[test]
fn files_that_may_not_grow_are_refused_with_words_and_it_goes_on_when_they_may() {
    let place = Place::temporary().unwrap();
    let lair = Lair::new(VICTIM, place.path());
    let mut ledger = Ledger::default();
    let mut work = Work::new(Dice::new(1));
    let mut victim = start(&lair);
    some_work(&mut victim, &mut ledger, &mut work).unwrap();
    victim.prey().limit_files(Some(5000)).unwrap();
    let words = until_turned_away(&mut victim, &mut ledger, &mut work).unwrap();
    assert!(words.contains("File too large"), "{words}");
    victim.prey().limit_files(None).unwrap();
    until_taken(&mut victim, &mut ledger, &mut work).unwrap();
    ends_and_lost_nothing(victim, &lair, &mut ledger);
}

#[test]
fn a_journal_that_cannot_go_on_ends_its_process_and_the_next_one_has_everything() {
    let place = Place::temporary().unwrap();
    let lair = Lair::new(VICTIM, place.path());
    let mut ledger = Ledger::default();
    let mut work = Work::new(Dice::new(2));
    let mut victim = start(&lair.clone().with("--poison-secs=1"));
    some_work(&mut victim, &mut ledger, &mut work).unwrap();
    victim.prey().limit_files(Some(5000)).unwrap();
    for _ in 0..8 {
        victim.ask(&mut ledger, Ask::Do(work.take()));
    }
    let (code, words) = victim.ends_by_itself(&mut ledger).unwrap();
    assert_eq!(code, Some(5), "{words}");
    assert!(words.contains("log.closed"), "{words}");
    ledger.gone(false);
    let again = start(&lair);
    ends_and_lost_nothing(again, &lair, &mut ledger);
}

#[test]
fn a_full_disk_is_refused_with_words_and_it_goes_on_when_there_is_space() {
    let place = Place::temporary().unwrap();
    let disk = match SmallDisk::new(place.path(), 48) {
        Ok(disk) => disk,
        Err(against) => {
            eprintln!("no small filesystem can be had here: {against}");
            eprintln!("files that may not grow stand in for it, in the test beside this one");
            return;
        }
    };
    eprintln!("the small filesystem is {}", disk.kind);
    let mut lair = Lair::new(VICTIM, place.path());
    lair.data_dir = disk.path().join(DATA);
    let mut ledger = Ledger::default();
    let mut work = Work::new(Dice::new(3));
    let mut victim = start(&lair);
    some_work(&mut victim, &mut ledger, &mut work).unwrap();
    disk.fill().unwrap();
    let words = until_turned_away(&mut victim, &mut ledger, &mut work).unwrap();
    assert!(!words.is_empty());
    let troubles = victim.troubles().join("\n");
    assert!(troubles.contains("No space left"), "refused: {words}; troubles: {troubles}");
    victim.end(&mut ledger).unwrap();
    ledger.gone(false);
    let mut victim = start(&lair);
    disk.relieve().unwrap();
    let again = victim.inquire(&mut ledger, &mut Dice::new(0), Depth::Sample).unwrap();
    assert!(again.is_some());
    until_taken(&mut victim, &mut ledger, &mut work).unwrap();
    ends_and_lost_nothing(victim, &lair, &mut ledger);
}

fn start(lair: &Lair) -> Chase {
    let mut chase = Chase::start(lair, Plan::none()).expect(STARTS);
    let ready = chase.ready();
    assert!(matches!(ready, Ok(true)), "{ready:?}: {}", chase.last_words());
    chase
}

/// The words of a victim that must not start.
fn refused(lair: &Lair) -> String {
    let mut prey: Prey = lair.start().expect(STARTS);
    loop {
        match prey.listen(PATIENCE) {
            Said::Line(line) => assert!(!line.starts_with("ready "), "{line}"),
            Said::Silent => panic!("it neither starts nor ends: {}", prey.last_words()),
            Said::Gone => break,
        }
    }
    let status = prey.ended().expect(STARTS);
    assert_eq!(status.code(), Some(4), "{}", prey.last_words());
    prey.last_words()
}

fn refused_fixture(name: &str) -> String {
    let place = Place::temporary().expect(ROOM_FOR_FILES);
    let lair = Lair::new(VICTIM, place.path());
    let data = workspace::root().join("fixtures").join(name).join(DATA);
    copy(&data, &lair.data_dir).expect(ROOM_FOR_FILES);
    refused(&lair)
}

fn add(ticket: u64) -> Ask {
    Ask::Do(Command::Add { key: Name::numbered(0), by: 1, ticket })
}

fn some_work(victim: &mut Chase, ledger: &mut Ledger, work: &mut Work) -> Result<(), Trouble> {
    for _ in 0..300 {
        step(victim, ledger, work)?;
    }
    Ok(())
}

/// How long the log may say nothing before it is asked again.
const SILENCE: Duration = Duration::from_millis(100);

/// Sends until the log turns something away; its words.
fn until_turned_away(
    victim: &mut Chase,
    ledger: &mut Ledger,
    work: &mut Work,
) -> Result<String, Trouble> {
    // What was admitted before the log met the fault waits with it and is not answered: as long as
    // it is silent, one more is sent.
    for _ in 0..COMMANDS_MAX {
        while !ledger.can_ask(work.next()) {
            drop(work.take());
        }
        victim.ask(ledger, Ask::Do(work.take()));
        if let Some(Heard::TurnedAway { code, words }) = victim.hear_within(ledger, SILENCE)? {
            return Ok(format!("{code} {words}"));
        }
    }
    Err(Trouble("nothing was refused".to_owned()))
}

/// Waits for everything that is underway, then sends until the log takes something again.
fn until_taken(victim: &mut Chase, ledger: &mut Ledger, work: &mut Work) -> Result<(), Trouble> {
    for _ in 0..COMMANDS_MAX {
        while ledger.underway() > 0 {
            victim.hear(ledger)?;
        }
        victim.ask(ledger, Ask::Do(work.take()));
        if let Some(Heard::Reply(_)) = victim.hear(ledger)? {
            return Ok(());
        }
    }
    Err(Trouble("nothing was taken any more".to_owned()))
}

/// Keeps a few commands underway and hears one answer.
fn step(victim: &mut Chase, ledger: &mut Ledger, work: &mut Work) -> Result<Heard, Trouble> {
    while ledger.underway() < 8 && ledger.can_ask(work.next()) {
        victim.ask(ledger, Ask::Do(work.take()));
    }
    victim.hear(ledger)?.ok_or_else(|| Trouble("it is gone".to_owned()))
}

/// Kills it, starts another, and asks that one for everything.
fn ends_and_lost_nothing(mut victim: Chase, lair: &Lair, ledger: &mut Ledger) {
    victim.end(ledger).unwrap_or_else(|trouble| panic!("{trouble}"));
    ledger.gone(false);
    let mut next = start(lair);
    let found = next.inquire(ledger, &mut Dice::new(0), Depth::All);
    assert!(matches!(found, Ok(Some(_))), "{found:?}");
    next.close();
    next.end(ledger).unwrap_or_else(|trouble| panic!("{trouble}"));
}
