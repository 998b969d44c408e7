//! Rules 2.1 to 2.2.4: when a block goes on after a restart.

use handoff_log::disk::Memory;
use handoff_relay::refill::{Frame, NotContinuable, Refill, Rejected, Spool};
use handoff_relay::{AckStatus, Name, Shards};

use crate::world::{key, names, open, refill, segment, shards, snapshot, spool};

fn reopened(spool: &Spool, name: &str) -> Refill {
    open(spool, name).0.unwrap()
}

/// A file whose agent stopped in order.
fn stopped(spool: &Spool) -> Refill {
    let mut refill = refill(spool);
    refill.append(&[segment(0, 0), segment(0, 1)]).unwrap();
    refill.append(&[snapshot(0, 2), snapshot(1, 0), Frame::Rejects(vec![])]).unwrap();
    refill
}

#[test]
fn without_a_file_the_status_is_that_of_the_configured_destinations() {
    let refill = refill(&spool(Memory::new()));
    assert_eq!(refill.ledger().acks(), &AckStatus::new(names(), shards()));
}

#[test]
fn a_file_whose_agent_stopped_in_order_is_continued() {
    let spool = spool(Memory::new());
    let name = stopped(&spool).name().to_owned();
    let refill = reopened(&spool, &name);
    assert_eq!(refill.continuable(&names(), shards()), Ok(()));
    let mut turned = names();
    turned.reverse();
    assert_eq!(refill.continuable(&turned, shards()), Ok(()), "their order means nothing");
}

#[test]
fn a_continued_file_is_not_continued_again_unless_its_agent_stopped_in_order_again() {
    let spool = spool(Memory::new());
    let name = stopped(&spool).name().to_owned();
    let mut refill = reopened(&spool, &name);
    let numbers = vec![u32::MAX; 4];
    refill.append(&[Frame::Statuses(numbers)]).unwrap();
    let refill = reopened(&spool, &name);
    assert_eq!(refill.continuable(&names(), shards()), Err(NotContinuable::NotStopped));
}

#[test]
fn other_destinations_are_not_continued_and_the_status_stays_that_of_the_file() {
    let spool = spool(Memory::new());
    let name = stopped(&spool).name().to_owned();
    let refill = reopened(&spool, &name);
    let c = Name::try_from("c").unwrap();
    for other in [vec![names()[0].clone()], [names(), vec![c]].concat()] {
        let why = refill.continuable(&other, shards());
        assert_eq!(why, Err(NotContinuable::Destinations), "{other:?}");
    }
    assert_eq!(refill.ledger().acks().names(), names());
}

#[test]
fn another_number_of_shards_is_not_continued() {
    let spool = spool(Memory::new());
    let name = stopped(&spool).name().to_owned();
    let why = reopened(&spool, &name).continuable(&names(), Shards::ONE);
    assert_eq!(why, Err(NotContinuable::Shards));
}

#[test]
fn a_shard_that_is_not_there_from_its_last_segment_on_is_not_continued() {
    let spool = spool(Memory::new());
    let mut first = refill(&spool);
    first.append(&[segment(0, 0), snapshot(0, 1), Frame::Rejects(vec![])]).unwrap();
    let why = reopened(&spool, first.name()).continuable(&names(), shards());
    assert_eq!(why, Err(NotContinuable::Shard(1)));
}

#[test]
fn a_shard_of_which_more_was_confirmed_than_written_is_not_continued() {
    let spool = spool(Memory::new());
    let mut first = stopped(&spool);
    let mut acks = AckStatus::new(names(), shards());
    acks.ack(key(0, 2), 0);
    first.write_ack_status(&acks).unwrap();
    first.append(&[Frame::Rejects(vec![])]).unwrap();
    let why = reopened(&spool, first.name()).continuable(&names(), shards());
    assert_eq!(why, Err(NotContinuable::Shard(0)));
}

#[test]
fn a_file_with_rejects_is_sealed_and_sent() {
    let spool = spool(Memory::new());
    let mut first = stopped(&spool);
    let rejected = Rejected { destination: 1, key: key(0, 1) };
    first.append(&[Frame::Rejects(vec![rejected]), Frame::Rejects(vec![])]).unwrap();
    let why = reopened(&spool, first.name()).continuable(&names(), shards());
    assert_eq!(why, Err(NotContinuable::Rejects));
}

#[test]
fn a_damaged_file_is_not_continued() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let name = stopped(&spool).name().to_owned();
    let path = spool.path(&name);
    let mut bytes = disk.contents(&path).unwrap();
    // In the middle of the first segment: the head, the title and the names take 8 + 32 + 43.
    bytes[8 + 32 + 43 + 30] ^= 1;
    disk.overwrite(&path, bytes).unwrap();
    let why = reopened(&spool, &name).continuable(&names(), shards());
    assert_eq!(why, Err(NotContinuable::Damaged));
}
