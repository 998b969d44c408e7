//! Proof that the oracle can fail: rooms and stores that break one promise each, and the oracle,
//! not only the invariants, must notice.
//!
//! An oracle that lets everything pass also lets 200 seeds pass.

mod twisted;

use bytes::Bytes;
use handoff_sim::brokers::{Brokers, Rules};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, drive};
use handoff_sim::history::{History, Keep};
use handoff_sim::oracle::Violation;
use handoff_sim::room::{Action, Change, Command, Counter, Name, Refusal, Reply, State};
use handoff_sim::store::{Commit, ConflictingStore, Load, Lock, Party, Port, Version, Write};
use handoff_types::{Entropy, Machine, Now, Outcome, Position, Span, Steady};
use twisted::{Decided, Meddle, Room, Store, Twist};

const SEEDS: std::ops::Range<u64> = 0..40;

/// What the first broken promise of each seed was.
fn faults<M: Rules, S: Port<M>>(store: impl Fn(ConflictingStore<M>) -> S) -> Vec<Fault> {
    SEEDS
        .filter_map(|seed| {
            let mut dice = Dice::new(seed);
            let store = store(ConflictingStore::new(dice.fork()));
            let mut world = Brokers::<M, S>::new(store, dice);
            let history = History::new(Keep::Last);
            drive("twisted", &mut world, seed, 600, history).err().map(|failure| failure.fault)
        })
        .collect()
}

fn faults_of_room<T: Twist>() -> Vec<Fault> {
    faults::<Room<T>, _>(|store| store)
}

fn faults_of_store<T: Meddle>() -> Vec<Fault> {
    faults::<Counter, _>(Store::<T>::new)
}

#[track_caller]
fn objects(faults: &[Fault], expected: impl Fn(&Violation) -> bool) {
    let seen = |fault: &Fault| matches!(fault, Fault::Oracle(violation) if expected(violation));
    assert!(faults.iter().any(seen), "the oracle did not notice: {faults:#?}");
}

fn impossible(violation: &Violation) -> bool {
    matches!(violation, Violation::Impossible { .. })
}

/// A commit that takes a broker's word for whatever it only looked at.
fn unchecked_without_changes<T>(
    store: &mut Store<T>,
    party: Party,
    writes: &[Write<Counter>],
    bodies: &[(Name, Bytes)],
) -> Commit<Name> {
    if writes.iter().all(|write| write.changes.is_empty()) {
        return Commit::Committed(Position(0));
    }
    store.inner.commit(party, writes, bodies)
}

#[test]
fn the_room_as_it_is_passes() {
    struct Straight;
    impl Twist for Straight {}
    impl Meddle for Straight {}
    assert_eq!(faults_of_room::<Straight>(), []);
    assert_eq!(faults_of_store::<Straight>(), []);
}

#[test]
fn an_acknowledged_add_that_is_lost() {
    struct LosesAdds;
    impl Twist for LosesAdds {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            if entropy.word(9).is_multiple_of(10) {
                decided.changes.retain(|change| !matches!(change, Change::Added { .. }));
            }
            decided
        }
    }
    objects(&faults_of_room::<LosesAdds>(), impossible);
}

#[test]
fn an_add_that_is_doubled() {
    struct DoublesAdds;
    impl Twist for DoublesAdds {
        fn evolve(state: &mut State, change: &Change) {
            Counter::evolve(state, change);
            if let Change::Added { key, by, ticket } = *change
                && ticket.is_multiple_of(10)
            {
                Counter::evolve(state, &Change::MovedIn { key, by });
            }
        }
    }
    objects(&faults_of_room::<DoublesAdds>(), impossible);
}

#[test]
fn a_repetition_that_is_done_again() {
    struct ForgetsTickets;
    impl Twist for ForgetsTickets {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let decided = Counter::decide(state, command, now, entropy);
            match (&decided.reply, command) {
                (Reply::Repeated { .. }, Command::Add { key, by, .. }) => {
                    let renamed = Command::Add { key: *key, by: *by, ticket: entropy.word(9) };
                    Counter::decide(state, &renamed, now, entropy)
                }
                _ => decided,
            }
        }
    }
    objects(&faults_of_room::<ForgetsTickets>(), impossible);
}

#[test]
fn a_refusal_that_shows_what_is_not_there() {
    struct InventsValues;
    impl Twist for InventsValues {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            if let Reply::Refused(Refusal::OverLimit { value, .. }) = &mut decided.reply {
                *value += 1;
            }
            decided
        }
    }
    objects(&faults_of_room::<InventsValues>(), impossible);
}

#[test]
fn a_refusal_for_no_reason() {
    struct Lazy;
    impl Twist for Lazy {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            if matches!(command, Command::Release { .. }) {
                decided.reply = Reply::Refused(Refusal::NotHeld);
                decided.changes.clear();
            }
            decided
        }
    }
    objects(&faults_of_room::<Lazy>(), impossible);
}

#[test]
fn a_hold_given_to_two() {
    struct GivesTwice;
    impl Twist for GivesTwice {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut free = state.clone();
            if let Command::Hold { key, .. } = command {
                let mut tally = free.tally(*key).clone();
                tally.hold = None;
                free.set(*key, tally);
            }
            Counter::decide(&free, command, now, entropy)
        }
    }
    objects(&faults_of_room::<GivesTwice>(), impossible);
}

#[test]
fn a_hold_that_hinders_nobody() {
    struct Ignores;
    impl Twist for Ignores {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let now = match command {
                Command::Add { .. } => Now { steady: now.steady + Span::from_secs(86_400), ..now },
                _ => now,
            };
            Counter::decide(state, command, now, entropy)
        }
    }
    objects(&faults_of_room::<Ignores>(), impossible);
}

#[test]
fn one_hold_id_for_all() {
    struct NoEntropy;
    impl Twist for NoEntropy {
        fn decide(state: &State, command: &Command, now: Now, _: Entropy) -> Decided {
            Counter::decide(state, command, now, Entropy(7))
        }
    }
    objects(&faults_of_room::<NoEntropy>(), |violation| {
        matches!(violation, Violation::HoldGivenTwice { .. })
    });
}

#[test]
fn a_hold_that_runs_on_the_operators_clock() {
    struct OnWall;
    impl Twist for OnWall {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let steady = Steady(now.wall.0.unsigned_abs());
            Counter::decide(state, command, Now { steady, ..now }, entropy)
        }
    }
    objects(&faults_of_room::<OnWall>(), impossible);
}

#[test]
fn a_tick_that_comes_too_early_or_does_nothing() {
    struct Early;
    impl Twist for Early {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let now = match command {
                Command::Tick => Now { steady: now.steady + Span::from_secs(1), ..now },
                _ => now,
            };
            Counter::decide(state, command, now, entropy)
        }
    }
    struct Idle;
    impl Twist for Idle {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let state = if *command == Command::Tick { &State::default() } else { state };
            Counter::decide(state, command, now, entropy)
        }
    }
    objects(&faults_of_room::<Early>(), impossible);
    objects(&faults_of_room::<Idle>(), impossible);
}

#[test]
fn an_action_that_is_left_out() {
    struct Mute;
    impl Twist for Mute {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            decided.actions.retain(|action| !matches!(action, Action::Announce { .. }));
            decided
        }
    }
    objects(&faults_of_room::<Mute>(), |violation| matches!(violation, Violation::Actions { .. }));
}

#[test]
fn a_note_whose_number_leaves_a_gap() {
    struct Gaps;
    impl Twist for Gaps {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            if let Reply::Noted { offset } = &mut decided.reply {
                *offset += entropy.word(9) % 2;
            }
            decided
        }
    }
    objects(&faults_of_room::<Gaps>(), impossible);
}

#[test]
fn half_a_move_is_an_invariant_broken_at_once() {
    struct Half;
    impl Twist for Half {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Counter::decide(state, command, now, entropy);
            decided
                .changes
                .retain(|change| !matches!(change, Change::MovedIn { by, .. } if *by != 0));
            decided
        }
    }
    let faults = faults_of_room::<Half>();
    let sum = |fault: &Fault| matches!(fault, Fault::Invariant(what) if what.contains("sum"));
    assert!(faults.iter().any(sum), "{faults:#?}");
}

#[test]
fn a_change_that_cannot_be_replayed_is_an_invariant_broken_at_once() {
    use std::cell::Cell;
    thread_local!(static CALLS: Cell<i64> = const { Cell::new(0) });
    struct Moody;
    impl Twist for Moody {
        fn evolve(state: &mut State, change: &Change) {
            Counter::evolve(state, change);
            let by = CALLS.replace(CALLS.get() + 1) % 2;
            Counter::evolve(state, &Change::MovedIn { key: change.key(), by });
        }
    }
    let faults = faults_of_room::<Moody>();
    let folded = |fault: &Fault| matches!(fault, Fault::Invariant(what) if what.contains("facts"));
    assert!(faults.iter().any(folded), "{faults:#?}");
}

#[test]
fn a_commit_that_is_acknowledged_and_lost() {
    struct LosesCommits;
    impl Meddle for LosesCommits {
        fn commit(
            store: &mut Store<Self>,
            party: Party,
            writes: &[Write<Counter>],
            bodies: &[(Name, Bytes)],
        ) -> Commit<Name> {
            if store.now_and_then() {
                return Commit::Committed(Position(0));
            }
            store.inner.commit(party, writes, bodies)
        }
    }
    objects(&faults_of_store::<LosesCommits>(), impossible);
}

#[test]
fn a_commit_that_is_denied_and_done() {
    struct Denies;
    impl Meddle for Denies {
        fn commit(
            store: &mut Store<Self>,
            party: Party,
            writes: &[Write<Counter>],
            bodies: &[(Name, Bytes)],
        ) -> Commit<Name> {
            let answer = store.inner.commit(party, writes, bodies);
            match answer {
                Commit::Committed(_) if store.now_and_then() => Commit::Failed(Outcome::NotApplied),
                _ => answer,
            }
        }
    }
    objects(&faults_of_store::<Denies>(), impossible);
}

#[test]
fn an_answer_from_a_stale_cache() {
    struct NeverChecks;
    impl Meddle for NeverChecks {
        fn commit(
            store: &mut Store<Self>,
            party: Party,
            writes: &[Write<Counter>],
            bodies: &[(Name, Bytes)],
        ) -> Commit<Name> {
            unchecked_without_changes(store, party, writes, bodies)
        }
    }
    objects(&faults_of_store::<NeverChecks>(), impossible);
}

#[test]
fn a_commit_over_what_another_broker_wrote() {
    struct LastWins;
    impl Meddle for LastWins {
        fn commit(
            store: &mut Store<Self>,
            party: Party,
            writes: &[Write<Counter>],
            bodies: &[(Name, Bytes)],
        ) -> Commit<Name> {
            let forced: Vec<Write<Counter>> = writes
                .iter()
                .map(|write| Write {
                    key: write.key,
                    expected: store.inner.version(write.key),
                    changes: write.changes.clone(),
                })
                .collect();
            store.inner.commit(party, &forced, bodies)
        }
    }
    objects(&faults_of_store::<LastWins>(), impossible);
}

/// The store shows a broker what another transaction wrote and then took back. A refusal decided
/// on that is an answer about state that was never durable.
#[test]
fn a_refusal_that_rests_on_what_was_never_durable() {
    struct DirtyReads;
    impl Meddle for DirtyReads {
        fn load(store: &mut Store<Self>, party: Party, keys: &[Name], lock: Lock) -> Load<Counter> {
            let mut answer = store.inner.load(party, keys, lock);
            if let Load::Loaded { state, versions } = &mut answer
                && store.now_and_then()
            {
                for (key, version) in versions {
                    let taken_back = Change::Added { key: *key, by: 999_999, ticket: u64::MAX };
                    Counter::evolve(state, &taken_back);
                    *version += 1;
                }
            }
            answer
        }

        fn commit(
            store: &mut Store<Self>,
            party: Party,
            writes: &[Write<Counter>],
            bodies: &[(Name, Bytes)],
        ) -> Commit<Name> {
            unchecked_without_changes(store, party, writes, bodies)
        }
    }
    let refused = |violation: &Violation| matches!(violation, Violation::Impossible { answer, .. } if answer.contains("refused"));
    objects(&faults_of_store::<DirtyReads>(), refused);
}

#[test]
fn a_body_that_reads_as_another() {
    struct Swaps;
    impl Meddle for Swaps {
        fn read(store: &mut Store<Self>, key: Name, offset: u64, max_bytes: usize) -> Vec<Bytes> {
            let mut bodies = store.inner.read(key, offset, max_bytes);
            bodies.reverse();
            bodies
        }
    }
    struct Hides;
    impl Meddle for Hides {
        fn read(_: &mut Store<Self>, _: Name, _: u64, _: usize) -> Vec<Bytes> {
            Vec::new()
        }
    }
    let body = |violation: &Violation| matches!(violation, Violation::Body { .. });
    objects(&faults_of_store::<Swaps>(), body);
    objects(&faults_of_store::<Hides>(), body);
}

#[test]
fn old_aggregates_under_new_versions_are_an_invariant_broken_at_once() {
    struct OldState;
    impl Meddle for OldState {
        fn load(store: &mut Store<Self>, party: Party, keys: &[Name], lock: Lock) -> Load<Counter> {
            let answer = store.inner.load(party, keys, lock);
            match answer {
                Load::Loaded { state, versions } => {
                    let before = std::mem::replace(&mut store.before, state.clone());
                    let stale = store.now_and_then();
                    Load::Loaded { state: if stale { before } else { state }, versions }
                }
                other => other,
            }
        }
    }
    let faults = faults_of_store::<OldState>();
    let cache = |fault: &Fault| matches!(fault, Fault::Invariant(what) if what.contains("cache"));
    assert!(faults.iter().any(cache), "{faults:#?}");
}

#[test]
fn a_conflict_under_a_lock_is_an_invariant_broken_at_once() {
    struct Unlocks;
    impl Meddle for Unlocks {
        fn load(store: &mut Store<Self>, party: Party, keys: &[Name], _: Lock) -> Load<Counter> {
            store.inner.load(party, keys, Lock::None)
        }
    }
    let faults = faults_of_store::<Unlocks>();
    let lock = |fault: &Fault| matches!(fault, Fault::Invariant(what) if what.contains("locked"));
    assert!(faults.iter().any(lock), "{faults:#?}");
}

#[test]
fn a_watch_that_never_wakes_delays_and_breaks_nothing() {
    struct NeverWakes;
    impl Meddle for NeverWakes {
        fn watch(_: &mut Store<Self>, _: &[(Name, Version)]) -> Vec<Name> {
            Vec::new()
        }
    }
    assert_eq!(faults_of_store::<NeverWakes>(), []);
}
