//! Who is handed which message, and what becomes of it.

use handoff_store_embedded::Persist;
use handoff_streams::groups::{
    CommitOutcome, Fact, GroupChange, GroupCommand, GroupReply, Mark, Order, Position, Step as Move,
};
use handoff_streams::{Change, Command, PartitionId, Reply, State, Streams};
use handoff_types::{Entropy, Machine, Now, Steady};

use crate::{Decided, Twist, altered, commits, found, moves, objects, sweeps};

#[test]
fn a_lease_that_is_not_written_down() {
    #[derive(Debug)]
    struct Fleeting;
    impl Twist<Streams> for Fleeting {
        fn encode(change: &Change, out: &mut Vec<u8>) {
            let mut change = change.clone();
            if let Change::Group(GroupChange::Moved(_, _, steps)) = &mut change {
                steps.retain(|step| !matches!(step, Move::Lease { .. }));
            }
            Streams::encode_change(&change, out);
        }
    }
    objects::<Fleeting>("the state read back");
}

#[test]
fn a_lease_that_is_over_and_still_counts() {
    #[derive(Debug)]
    struct Patient;
    impl Twist<Streams> for Patient {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if sweeps(command) {
                moves(&mut decided, |steps| {
                    steps.retain(|step| !matches!(step, Move::Wait { until, .. } if until.0 > 0));
                });
            }
            decided
        }
    }
    objects::<Patient>("should be Cell { is: Pending");
}

#[test]
fn what_was_committed_goes_back() {
    #[derive(Debug)]
    struct Forgets;
    impl Twist<Streams> for Forgets {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if commits(command) {
                moves(&mut decided, |steps| {
                    let done = |step: &Move| match step {
                        Move::Done((first, _)) => Some(*first),
                        _ => None,
                    };
                    if let Some(at) = steps.iter().find_map(done) {
                        steps.push(Move::Begin { at });
                    }
                });
            }
            decided
        }
    }
    objects::<Forgets>("for group");
}

#[test]
fn messages_of_a_key_out_of_order() {
    #[derive(Debug)]
    struct Overtakes;
    impl Twist<Streams> for Overtakes {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            match command {
                Command::Group(GroupCommand::Poll { .. }) => {
                    let free = altered(state, command, |settings| {
                        if settings.order == Order::Key {
                            settings.order = Order::Free;
                        }
                    });
                    Streams::decide(&free, command, now, entropy)
                }
                _ => Streams::decide(state, command, now, entropy),
            }
        }
    }
    objects::<Overtakes>("it comes before");
}

#[test]
fn messages_of_a_partition_out_of_order() {
    #[derive(Debug)]
    struct Overtakes;
    impl Twist<Streams> for Overtakes {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            match command {
                Command::Group(GroupCommand::Poll { .. }) => {
                    let free = altered(state, command, |settings| {
                        if settings.order == Order::Partition {
                            settings.order = Order::Key;
                        }
                    });
                    Streams::decide(&free, command, now, entropy)
                }
                _ => Streams::decide(state, command, now, entropy),
            }
        }
    }
    objects::<Overtakes>("it comes before");
}

#[test]
fn what_has_to_wait_for_a_retry_stays_out() {
    #[derive(Debug)]
    struct Leaves;
    impl Twist<Streams> for Leaves {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if commits(command) {
                moves(&mut decided, |steps| {
                    steps.retain(|step| !matches!(step, Move::Wait { until: Steady(0), .. }));
                });
            }
            decided
        }
    }
    objects::<Leaves>("should be Cell { is: Pending");
}

#[test]
fn a_lease_that_begins_anew_and_ends_as_before() {
    #[derive(Debug)]
    struct Strict;
    impl Twist<Streams> for Strict {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if commits(command) {
                moves(&mut decided, |steps| {
                    steps.retain(|step| !matches!(step, Move::Extend { .. }));
                });
            }
            decided
        }
    }
    objects::<Strict>("should be Cell { is: Out");
}

#[test]
fn a_message_that_nobody_wants_any_more() {
    #[derive(Debug)]
    struct Stale;
    impl Twist<Streams> for Stale {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = found(command, |fact| fact.expires = None);
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Stale>("nobody should get it");
}

#[test]
fn more_than_was_asked_for() {
    #[derive(Debug)]
    struct Generous;
    impl Twist<Streams> for Generous {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            if let Command::Group(GroupCommand::Poll { max_messages, max_bytes, .. }) = &mut command
            {
                (*max_messages, *max_bytes) = (usize::MAX, usize::MAX);
            }
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Generous>("these are");
}

#[test]
fn a_retry_without_a_pause() {
    #[derive(Debug)]
    struct Hurries;
    impl Twist<Streams> for Hurries {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            moves(&mut decided, |steps| {
                for step in steps {
                    if let Move::Wait { until, .. } = step {
                        *until = Steady(0);
                    }
                }
            });
            decided
        }
    }
    objects::<Hurries>("should be Cell { is: Pending");
}

#[test]
fn attempts_that_are_not_counted() {
    #[derive(Debug)]
    struct Endless;
    impl Twist<Streams> for Endless {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            moves(&mut decided, |steps| {
                for step in steps {
                    if let Move::Wait { attempt, .. } = step {
                        *attempt = 0;
                    }
                }
            });
            decided
        }
    }
    objects::<Endless>("should be Cell { is: Pending");
}

/// What is out in the partitions of a poll comes back, so that whoever polls may have it.
#[test]
fn a_message_that_another_holds_is_handed_out() {
    #[derive(Debug)]
    struct Robs;
    impl Twist<Streams> for Robs {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            let mut robbed = state.clone();
            let mut back: Vec<(PartitionId, Vec<Move>)> = Vec::new();
            if let Command::Group(GroupCommand::Poll { group, found, .. }) = &mut command
                && let Some(group) = state.group(group)
            {
                for one in found {
                    let ranges = state.position(group.id, one.partition).into_iter();
                    let mut facts = Vec::new();
                    let mut steps = Vec::new();
                    for (first, range) in ranges.flat_map(Position::ranges) {
                        let Mark::Leased { attempt, .. } = range.mark else { continue };
                        let (run, until, error) = ((first, range.last), Steady(0), None);
                        steps.push(Move::Wait { run, until, attempt, error });
                        facts.extend((first..=range.last).map(|offset| {
                            let key = range.keys.get(offset - first);
                            Fact { offset, key, bytes: 1, expires: None, only_for: None }
                        }));
                    }
                    facts.append(&mut one.facts);
                    facts.sort_by_key(|fact| fact.offset);
                    facts.dedup_by_key(|fact| fact.offset);
                    one.facts = facts;
                    let moved = GroupChange::Moved(group.id, one.partition, steps.clone());
                    Streams::evolve(&mut robbed, &Change::Group(moved));
                    back.push((one.partition, steps));
                }
            }
            let mut decided = Streams::decide(&robbed, &command, now, entropy);
            for change in &mut decided.changes {
                if let Change::Group(GroupChange::Moved(_, at, steps)) = change
                    && let Some((_, back)) = back.iter().find(|(of, _)| of == at)
                {
                    steps.splice(0..0, back.iter().cloned());
                }
            }
            decided
        }
    }
    objects::<Robs>("it is handed out and was Cell { is: Out");
}

#[test]
fn an_answer_for_what_another_holds() {
    #[derive(Debug)]
    struct Trusts;
    impl Twist<Streams> for Trusts {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            if let Command::Group(GroupCommand::Commit { group, member, results, .. }) =
                &mut command
                && let Some(known) = state.group(group)
            {
                for result in results {
                    result.lease = None;
                    let position = state.position(known.id, result.partition);
                    let mut leases = position.into_iter().flat_map(|one| one.leases());
                    if let Some((_, lease)) = leases.next() {
                        *member = lease.member;
                    }
                }
            }
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Trusts>("is one of");
}

#[test]
fn a_fenced_commit_that_says_it_is_done() {
    #[derive(Debug)]
    struct Pleases;
    impl Twist<Streams> for Pleases {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if let Reply::Group(GroupReply::Committed { results, .. }) = &mut decided.reply {
                results.iter_mut().for_each(|one| one.outcome = CommitOutcome::Done);
            }
            decided
        }
    }
    objects::<Pleases>("is one of [Fenced]");
}

#[test]
fn messages_of_a_commit_that_is_fenced() {
    #[derive(Debug)]
    struct Stores;
    impl Twist<Streams> for Stores {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let decided = Streams::decide(state, command, now, entropy);
            let refused = matches!(decided.reply, Reply::Refused(_));
            let mut command = command.clone();
            let Command::Group(GroupCommand::Commit { results, .. }) = &mut command else {
                return decided;
            };
            if !refused {
                return decided;
            }
            let asked = std::mem::take(results);
            let mut decided = Streams::decide(state, &command, now, entropy);
            if let Reply::Group(GroupReply::Committed { results, .. }) = &mut decided.reply {
                let fenced =
                    |one: &handoff_streams::groups::Verdict| handoff_streams::groups::Committed {
                        partition: one.partition,
                        from: one.from,
                        to: one.to,
                        outcome: CommitOutcome::Fenced,
                    };
                results.extend(asked.iter().map(fenced));
            }
            decided
        }
    }
    objects::<Stores>("what is wrong with it is {\"fenced\"}");
}

#[test]
fn a_seek_that_leaves_leases_as_they_are() {
    #[derive(Debug)]
    struct Holds;
    impl Twist<Streams> for Holds {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let voids = match &decided.reply {
                Reply::Group(GroupReply::Sought { partitions, .. }) => {
                    partitions.iter().any(|one| one.voided > 0)
                }
                _ => false,
            };
            if voids {
                decided.changes.clear();
            }
            decided
        }
    }
    objects::<Holds>("for group");
}

#[test]
fn a_window_without_an_end() {
    #[derive(Debug)]
    struct Greedy;
    impl Twist<Streams> for Greedy {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            match command {
                Command::Group(GroupCommand::Poll { .. }) => {
                    let wide = altered(state, command, |settings| settings.in_flight_max = 10_000);
                    Streams::decide(&wide, command, now, entropy)
                }
                _ => Streams::decide(state, command, now, entropy),
            }
        }
    }
    objects::<Greedy>("with room for");
}

#[test]
fn a_message_that_nobody_is_ever_handed() {
    #[derive(Debug)]
    struct Starves;
    impl Twist<Streams> for Starves {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            if let Command::Group(GroupCommand::Poll { found, .. }) = &mut command {
                for one in found {
                    one.facts.retain(|fact| fact.offset < 3);
                }
            }
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Starves>("is never finished");
}
