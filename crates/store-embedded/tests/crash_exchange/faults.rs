//! A disk that fails while the server runs: D of the fault analysis. (A full disk is the server's to
//! refuse before it asks the room.)

use handoff_exchange::{Ask, Begun, Happened, Phase, Place, Reply, Step, Wish};
use handoff_log::disk::{Call, Calls};
use handoff_types::Span;

use crate::clients::{Client, message, mid};
use crate::day::{Day, Keep, Moment, Plan, Way};

#[test]
fn d4_a_failed_sync_is_never_answered_ok_and_what_is_sent_again_is_stored_once() {
    for calls in [Call::Sync, Call::Write] {
        let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
        let device = day.device("acme");
        day.faults.fail_all(Calls::Only(calls));
        let ask = Ask::Post { device, messages: vec![message("good")] };
        let now = day.now;
        assert_eq!(day.office().ask(ask, now), None, "an answer without a disk");
        day.crash(Keep::Nothing);
        let gone = day.office().state().sent_by_device(device, &mid("good")).is_none();
        assert!(gone, "what was never durable is there");
        day.post();
        day.rest();
    }
}

#[test]
fn d4_a_sync_that_fails_once_delays_the_answer_and_loses_nothing() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    let device = day.device("acme");
    day.faults.fail_nth(Calls::Only(Call::Sync), 1);
    let ask = Ask::Post { device, messages: vec![message("good")] };
    let now = day.now;
    assert_eq!(day.office().ask(ask, now), None, "an answer before it was durable");
    assert!(day.faults.struck() > 0);
    assert!((0..10).any(|_| day.office().barrier()), "the journal goes on elsewhere");
    day.crash(Keep::Nothing);
    let stored = day.office().state().sent_by_device(device, &mid("good")).is_some();
    assert!(stored, "what was admitted is written");
    day.post();
    day.rest();
    assert_eq!(day.ledger.effects(&mid("good")), 1);
}

#[test]
fn d6_a_damaged_file_costs_its_message_and_the_others_are_served() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let now = day.now;
    assert!(day.office().file(now));
    day.office().checkpoint(now).unwrap();
    let dir = "exchange/db/Messages";
    let disk = day.disk.seen();
    let names = handoff_log::disk::Disk::list(&disk, dir).unwrap();
    let name = names.iter().find(|name| name.contains("-good_")).unwrap();
    // After a restart: nothing of it is in the journal that this server reads.
    day.crash(Keep::Nothing);
    day.faults.flip(&format!("{dir}/{name}"), 333).unwrap();
    let database = day.database();
    let begun = day.must(Ask::Begin { database, wish: Wish::default() });
    let Reply::Begun(Begun::Started { id, messages, .. }) = begun else { panic!("{begun:?}") };
    let mut lost = Vec::new();
    for handed in &messages {
        let office = day.office();
        let found = office.state().message(handed.seq).unwrap().clone();
        if let Err(words) = office.body(handed.seq, &found) {
            lost.push((handed.seq, found.id, words));
        }
    }
    let [(seq, name, words)] = &lost[..] else { panic!("{lost:?}") };
    assert_eq!(*name, mid("good"));
    day.must(Ask::Damaged { seq: *seq, words: words.as_str().into() });
    let state = day.office().state();
    assert_eq!(state.message(*seq).unwrap().place, Place::Error);
    let process = state.process(database, id).unwrap();
    assert_eq!((process.phase, process.to_erp.len()), (Phase::Started, messages.len() - 1));
    assert!(day.was_told(Happened::Damaged));
}

#[test]
fn files_that_cannot_be_moved_stop_nobody_and_are_moved_when_they_can() {
    let mut day = Day::begin(Plan::new(Way::Commit, Client::Retries));
    day.post();
    let (id, served) = day.start(Moment::Begin).unwrap();
    let now = day.now;
    assert!(day.office().file(now));
    day.faults.fail_all(Calls::Only(Call::Rename));
    day.prepare(id, &served);
    let now = day.now;
    assert!(day.office().file(now));
    let database = day.database();
    let phase = |day: &mut Day| day.office().state().process(database, id).unwrap().phase;
    assert_eq!(phase(&mut day), Phase::Failed);
    assert!(day.was_told(Happened::Failed));
    // The database is not busy, and nothing that was processed is served again.
    let begun = day.must(Ask::Begin { database, wish: Wish::default() });
    let Reply::Begun(Begun::Started { id: next, messages, .. }) = begun else {
        panic!("{begun:?}")
    };
    assert_eq!(messages.len(), 1);
    day.must(Ask::Process { database, id: next, step: Step::Interrupt("".into()) });
    day.faults.clear();
    for _ in 0..2 {
        day.pass(Span::from_secs(300));
        let now = day.now;
        assert!(day.office().file(now));
    }
    assert_eq!(phase(&mut day), Phase::Done);
    assert!(day.was_told(Happened::Mended));
    day.rest();
}
