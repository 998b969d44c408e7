//! Rules 2.1 to 2.2.3: what a start takes from a file, and what from its configuration. No file is
//! continued, so nothing else depends on what is in it; `crates/relay-agent/src/shelf/opening.rs` says why.

use handoff_log::disk::Memory;
use handoff_relay::refill::Frame;
use handoff_relay::{AckStatus, Name, RefillSender};

use crate::world::{key, names, open, refill, segment, shards, spool};

#[test]
fn without_a_file_the_status_is_that_of_the_configured_destinations() {
    let refill = refill(&spool(Memory::new()));
    assert_eq!(refill.ledger().acks(), &AckStatus::new(names(), shards()));
}

#[test]
fn the_status_of_a_file_is_that_of_the_destinations_it_names_as_they_were_written_last() {
    let spool = spool(Memory::new());
    let mut first = refill(&spool);
    first.append(&[segment(0, 0), segment(0, 1)]).unwrap();
    for last in [0, 1] {
        let mut acks = AckStatus::new(names(), shards());
        acks.ack(key(0, last), 1);
        first.write_ack_status(&acks).unwrap();
    }
    // An older one says nothing new.
    first.append(&[Frame::Statuses(vec![u32::MAX, u32::MAX, 0, u32::MAX])]).unwrap();
    let refill = open(&spool, first.name()).0.unwrap();
    let acks = refill.ledger().acks();
    assert_eq!(acks.names(), names());
    assert_eq!((acks.last(0, 0), acks.last(0, 1)), (None, Some(1)));
}

#[test]
fn whoever_a_file_does_not_name_gets_nothing_of_it_and_whoever_it_names_what_it_lacks() {
    let spool = spool(Memory::new());
    let mut first = refill(&spool);
    first.append(&[segment(0, 0), segment(0, 1)]).unwrap();
    let mut acks = AckStatus::new(names(), shards());
    acks.ack(key(0, 0), 1);
    first.write_ack_status(&acks).unwrap();
    let name = |text| Name::try_from(text).unwrap();
    let sender = |to| {
        let ledger = first.ledger();
        RefillSender::new(ledger, name("agent"), &name(to), String::new())
    };
    assert!(sender("c").is_none());
    let acked = |to| sender(to).and_then(|sender| sender.acked(0));
    assert_eq!((acked("a"), acked("b")), (None, Some(0)));
}
