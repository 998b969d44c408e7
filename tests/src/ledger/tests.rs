//! A ledger that lets everything pass would prove nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_sim::room::{Command, Name};

use super::{Bodies, Found, Ledger};
use crate::wire::{Ask, Looks};

fn key() -> Name {
    Name::numbered(0)
}

fn add(by: i64, ticket: u64) -> Ask {
    Ask::Do(Command::Add { key: key(), by, ticket })
}

fn note(body: &'static [u8]) -> Ask {
    Ask::Do(Command::Note { key: key(), body: Bytes::from_static(body) })
}

fn seen(value: i64, accepted: u64, tickets: &[(u64, i64)]) -> Found {
    let looks = Looks { value, accepted, tickets: tickets.to_vec(), ..Looks::default() };
    BTreeMap::from([(key(), looks)])
}

fn with_notes(notes: &[&'static [u8]]) -> (Found, Bodies) {
    let last = notes.last().map(|body| crc32c::crc32c(body));
    let looks = Looks { notes: notes.len() as u64, last, ..Looks::default() };
    let bodies = (0..).zip(notes).map(|(n, body)| ((key(), n), Some(Bytes::from_static(body))));
    (BTreeMap::from([(key(), looks)]), bodies.collect())
}

/// One add acknowledged, a second one unknown.
fn in_doubt() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.ask(add(5, 1));
    ledger.ask(add(7, 2));
    ledger.hear("1 value 5").unwrap();
    ledger.gone(true);
    ledger
}

#[test]
fn an_answer_other_than_the_rules_foretell_is_found() {
    for line in ["1 value 6", "1 repeated 5", "1 over k00 0 1000000", "2 value 5", "1 noted 0"] {
        let mut ledger = Ledger::default();
        ledger.ask(add(5, 1));
        assert!(ledger.hear(line).is_err(), "{line}");
    }
}

#[test]
fn an_unknown_command_may_be_there_once_or_not_at_all() {
    let again = in_doubt().settle(&seen(5, 1, &[(1, 5)]), &BTreeMap::new()).unwrap();
    assert_eq!(again, [Command::Add { key: key(), by: 7, ticket: 2 }]);
    in_doubt().settle(&seen(12, 2, &[(1, 5), (2, 12)]), &BTreeMap::new()).unwrap();
}

#[test]
fn an_unknown_command_that_is_there_twice_is_found() {
    let twice = seen(19, 3, &[(1, 5), (2, 12), (2, 19)]);
    assert!(in_doubt().settle(&twice, &BTreeMap::new()).is_err());
    let unseen_ticket = seen(12, 2, &[(1, 5)]);
    assert!(in_doubt().settle(&unseen_ticket, &BTreeMap::new()).is_err());
}

#[test]
fn an_acknowledged_command_that_is_missing_is_found() {
    assert!(in_doubt().settle(&seen(0, 0, &[]), &BTreeMap::new()).is_err());
    assert!(in_doubt().settle(&seen(7, 1, &[(2, 7)]), &BTreeMap::new()).is_err());
}

#[test]
fn a_command_that_was_turned_away_changes_nothing() {
    let mut ledger = Ledger::default();
    ledger.ask(add(5, 1));
    ledger.hear("1 no log.journal_full no space").unwrap();
    ledger.gone(false);
    ledger.clone().settle(&seen(0, 0, &[]), &BTreeMap::new()).unwrap();
    assert!(ledger.settle(&seen(5, 1, &[(1, 5)]), &BTreeMap::new()).is_err());
}

#[test]
fn what_survives_of_the_unknown_is_the_first_of_it_when_nothing_was_refused() {
    let mut ledger = Ledger::default();
    ledger.ask(add(5, 1));
    ledger.ask(add(7, 2));
    let mut refusing = ledger.clone();
    ledger.gone(true);
    refusing.gone(false);
    let second_only = seen(7, 1, &[(2, 7)]);
    assert!(ledger.settle(&second_only, &BTreeMap::new()).is_err());
    refusing.settle(&second_only, &BTreeMap::new()).unwrap();
}

#[test]
fn unknown_notes_are_there_in_order_or_not_at_all() {
    let mut ledger = Ledger::default();
    ledger.ask(note(b"a"));
    ledger.ask(note(b"b"));
    ledger.gone(false);
    let cases: [&[&'static [u8]]; 4] = [&[], &[b"a"], &[b"b"], &[b"a", b"b"]];
    for notes in cases {
        let (found, bodies) = with_notes(notes);
        ledger.clone().settle(&found, &bodies).unwrap();
    }
    let cases: [&[&'static [u8]]; 4] = [&[b"b", b"a"], &[b"a", b"a"], &[b"c"], &[b"a", b"b", b"b"]];
    for notes in cases {
        let (found, bodies) = with_notes(notes);
        assert!(ledger.clone().settle(&found, &bodies).is_err(), "{notes:?}");
    }
}

#[test]
fn a_note_that_reads_otherwise_than_it_was_written_is_found() {
    let mut ledger = Ledger::default();
    ledger.ask(note(b"abc"));
    ledger.hear("1 noted 0").unwrap();
    for line in ["2 body 616264", "2 body 6162", "2 nobody"] {
        let mut ledger = ledger.clone();
        ledger.ask(Ask::Body(key(), 0));
        assert!(ledger.hear(line).is_err(), "{line}");
    }
    ledger.ask(Ask::Body(key(), 0));
    ledger.hear("2 body 616263").unwrap();
}
