//! Members, and the partitions they have.

use handoff_streams::groups::{
    Assigned, GroupBounds, GroupChange, GroupCommand, GroupReply, Members, Position,
};
use handoff_streams::{Change, Command, Reply, State, Streams};
use handoff_types::{Entropy, Machine, Now};

use crate::{Decided, Twist, moves, objects};

#[test]
fn a_session_that_never_ends() {
    #[derive(Debug)]
    struct Immortal;
    impl Twist<Streams> for Immortal {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            if let Command::Group(GroupCommand::Sweep { due, .. }) = &mut command {
                due.members.clear();
            }
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Immortal>("Swept");
}

#[test]
fn what_a_member_held_that_left_stays_with_it() {
    #[derive(Debug)]
    struct Keeps;
    impl Twist<Streams> for Keeps {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if matches!(command, Command::Group(GroupCommand::Leave { .. })) {
                moves(&mut decided, Vec::clear);
            }
            decided
        }
    }
    objects::<Keeps>("should be Cell { is: Pending");
}

/// The members a decision leads to, changed, and what whoever joins is told of it.
fn regroups(decided: &mut Decided, state: &State, change: impl Fn(&mut Members)) {
    let mut group = None;
    for one in &mut decided.changes {
        if let Change::Group(GroupChange::Members(id, members)) = one {
            change(members);
            group = Some((*id, members.clone()));
        }
    }
    if let Some((id, members)) = group
        && let Reply::Group(GroupReply::Joined { member, assignment, .. }) = &mut decided.reply
    {
        let mut after = state.clone();
        decided.changes.iter().for_each(|change| Streams::evolve(&mut after, change));
        let assigned = members.members.get(member).map(|one| one.assigned.clone());
        let committed = |partition| Assigned {
            partition,
            committed: after.position(id, partition).map_or(0, Position::start),
        };
        *assignment = assigned.unwrap_or_default().into_iter().map(committed).collect();
    }
}

#[test]
fn one_partition_for_two() {
    #[derive(Debug)]
    struct Shares;
    impl Twist<Streams> for Shares {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            regroups(&mut decided, state, |members| {
                let all = members.members.values().flat_map(|one| one.assigned.clone());
                let mut all: Vec<_> = all.collect();
                all.sort();
                for member in members.members.values_mut() {
                    member.assigned.clone_from(&all);
                }
            });
            decided
        }
    }
    objects::<Shares>(" both have ");
}

#[test]
fn one_member_that_has_everything() {
    #[derive(Debug)]
    struct Hoards;
    impl Twist<Streams> for Hoards {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            regroups(&mut decided, state, |members| {
                let all = members.members.values_mut();
                let mut all: Vec<_> =
                    all.flat_map(|one| std::mem::take(&mut one.assigned)).collect();
                all.sort();
                if let Some(first) = members.members.values_mut().next() {
                    first.assigned = all;
                }
            });
            decided
        }
    }
    objects::<Hoards>(" partitions and ");
}

#[test]
fn partitions_that_change_hands_in_silence() {
    #[derive(Debug)]
    struct Silent;
    impl Twist<Streams> for Silent {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let known = |id| state.members(id).map_or(0, |members| members.generation);
            for change in &mut decided.changes {
                if let Change::Group(GroupChange::Members(id, members)) = change {
                    members.generation = known(*id);
                }
            }
            if let Reply::Group(
                GroupReply::Joined { generation, .. } | GroupReply::Polled { generation, .. },
            ) = &mut decided.reply
            {
                *generation = generation.saturating_sub(1);
            }
            decided
        }
    }
    objects::<Silent>("is followed by");
}

#[test]
fn a_name_that_two_members_have() {
    #[derive(Debug)]
    struct Doubles;
    impl Twist<Streams> for Doubles {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let Command::Group(GroupCommand::Join { join, .. }) = command else { return decided };
            let mut alone = join.clone();
            alone.instance = None;
            let limits = GroupBounds::default();
            let alone = Command::Group(GroupCommand::Join { join: alone, limits });
            if join.instance.is_some() {
                decided = Streams::decide(state, &alone, now, entropy);
            }
            let Reply::Group(GroupReply::Joined { member, .. }) = decided.reply else {
                return decided;
            };
            for change in &mut decided.changes {
                if let Change::Group(GroupChange::Members(_, members)) = change
                    && let Some(joined) = members.members.get_mut(&member)
                {
                    joined.instance.clone_from(&join.instance);
                }
            }
            decided
        }
    }
    objects::<Doubles>("who is in");
}

#[test]
fn a_member_that_is_heard_and_not_noted() {
    #[derive(Debug)]
    struct Deaf;
    impl Twist<Streams> for Deaf {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            decided
                .changes
                .retain(|change| !matches!(change, Change::Group(GroupChange::Seen(..))));
            decided
        }
    }
    objects::<Deaf>("the session of");
}

#[test]
fn a_partition_for_nobody() {
    #[derive(Debug)]
    struct Loses;
    impl Twist<Streams> for Loses {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            for change in &mut decided.changes {
                if let Change::Group(GroupChange::Members(_, members)) = change {
                    for member in members.members.values_mut() {
                        member.assigned.pop();
                    }
                }
            }
            if let Reply::Group(GroupReply::Joined { assignment, .. }) = &mut decided.reply {
                assignment.pop();
            }
            decided
        }
    }
    objects::<Loses>("nobody has");
}

#[test]
fn a_group_whose_traces_stay() {
    #[derive(Debug)]
    struct Traces;
    impl Twist<Streams> for Traces {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            decided
                .changes
                .retain(|change| !matches!(change, Change::Group(GroupChange::PositionGone(..))));
            decided
        }
    }
    objects::<Traces>("are left of groups");
}
