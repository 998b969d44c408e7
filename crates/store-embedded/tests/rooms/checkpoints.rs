//! What a checkpoint lets the journal forget must be in it, and it must stay.

use std::sync::Arc;

use handoff_log::disk::{Crash, Memory, When};
use handoff_store_embedded::{Checkpointing, Progress};
use handoff_types::Now;

use crate::server::Server;
use crate::tally::Tally;

/// A round takes whatever waits, also what was appended after a chunk was cut. The chunk once
/// counted as true at the end of that round, and replay passed over the second add.
#[test]
fn a_chunk_is_true_at_its_cut_and_not_at_the_round_that_made_it_durable() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    drop(server.add(1, 1));
    let mut checkpoint = Checkpointing::begin::<Tally>(&server.directory, 1).unwrap();
    let cut = checkpoint.step(&mut server.host, Now::default()).unwrap();
    assert_eq!(cut, Progress::More);
    drop(server.add(1, 2));
    server.journal.commit().unwrap();
    server.finish(&mut checkpoint).unwrap();
    let again = Server::open(Arc::new(disk));
    assert_eq!(again.host.state(), server.host.state());
    assert_eq!(again.host.state().get(&1), Some(&(3, 0)));
}

#[test]
fn a_chunk_waits_until_what_it_holds_is_durable() {
    let mut server = Server::open(Arc::new(Memory::new()));
    drop(server.add(1, 1));
    let mut checkpoint = Checkpointing::begin::<Tally>(&server.directory, 1).unwrap();
    let mut step = || checkpoint.step(&mut server.host, Now::default()).unwrap();
    assert_eq!(step(), Progress::More);
    assert_eq!(step(), Progress::Waiting);
    server.journal.commit().unwrap();
    assert_eq!(step(), Progress::More);
    assert_eq!(step(), Progress::Done);
}

#[test]
fn keys_changed_before_and_after_their_chunk_come_back_once() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    for key in 0..6 {
        drop(server.add(key, 1));
    }
    let mut checkpoint = Checkpointing::begin::<Tally>(&server.directory, 1).unwrap();
    for round in 0..200 {
        drop(server.add(round % 8, 10));
        if round % 3 == 0 {
            server.journal.commit().unwrap();
        }
        if checkpoint.step(&mut server.host, Now::default()).unwrap() == Progress::Done {
            checkpoint = Checkpointing::begin::<Tally>(&server.directory, 1).unwrap();
        }
        if round % 3 == 0 {
            let again = Server::open(Arc::new(disk.fork()));
            let rest: u64 = again.host.state().values().map(|tally| tally.0).sum();
            let live: u64 = server.host.state().values().map(|tally| tally.0).sum();
            assert_eq!(rest, live, "round {round}");
        }
    }
}

/// A process died between the rename that puts a checkpoint in force and the sync of its name.
/// The next one found it in the page cache and recycled what only the checkpoint before it
/// needed; then the power failed and took the name.
#[test]
fn a_checkpoint_that_only_the_page_cache_has_stays_before_the_journal_forgets_for_it() {
    let mut halts = 0;
    for n in 1.. {
        let disk = Crash::new();
        let mut server = Server::open(Arc::new(disk.clone()));
        drop(server.add(0, 1));
        server.journal.commit().unwrap();
        server.checkpoint().unwrap();
        for _ in 0..40 {
            drop(server.add(1, 1));
            server.journal.commit().unwrap();
        }
        disk.halt_at_sync(disk.syncs() + n, When::Before);
        let outcome = server.checkpoint();
        assert_eq!(outcome.is_err(), disk.is_halted());
        let state = server.host.state().clone();
        let killed = disk.kill();
        let next = Server::open(Arc::new(killed.clone()));
        assert_eq!(*next.host.state(), state, "killed at sync {n}");
        let (left, _) = killed.crash_keeping_nothing();
        let last = Server::try_open(Arc::new(left)).unwrap_or_else(|e| panic!("sync {n}: {e}"));
        assert_eq!(*last.host.state(), state, "killed at sync {n}, then cut off");
        if outcome.is_ok() {
            break;
        }
        halts += 1;
    }
    assert!(halts > 2, "a checkpoint has only {halts} syncs");
}
