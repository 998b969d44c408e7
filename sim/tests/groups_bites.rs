//! Proof that the worlds of groups can fail: rooms and stores that break one rule each, and the
//! oracle, or the world around it, must notice within some seeds.

mod twisted;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, World, drive};
use handoff_sim::groups::brokers::{Brokered, Honest, Meddle};
use handoff_sim::groups::{Grouped, Grouping, Parts, Sound, Violation};
use handoff_sim::history::{History, Keep};
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_streams::groups::{
    Assigned, CommitOutcome, Fact, GroupBounds, GroupChange, GroupCommand, GroupReply, Mark,
    Members, Order, Position, Step as Move,
};
use handoff_streams::memory::Memory;
use handoff_streams::port::Step;
use handoff_streams::{Action, Change, Command, PartitionId, Reply, State, Streams};
use handoff_types::{Decision, Entropy, Machine, Now, Room, Sequence, Steady};
use twisted::journal::{Hasty, fulfilled, hurried};

const SEEDS: std::ops::Range<u64> = 0..12;

const STEPS: u64 = 200;

/// A step of two brokers is smaller.
const STEPS_OF_BROKERS: u64 = 600;

type Decided = Decision<Reply, Change, Action>;

/// What a room does otherwise than the streams room.
trait Twist: fmt::Debug + Sized + 'static {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        Streams::decide(state, command, now, entropy)
    }

    fn encode(change: &Change, out: &mut Vec<u8>) {
        Streams::encode_change(change, out);
    }
}

/// The streams room with a twist.
#[derive(Debug)]
struct Twisted<T>(PhantomData<T>);

impl<T: Twist> Machine for Twisted<T> {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        T::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        Streams::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        Streams::next_deadline(state, now)
    }
}

impl<T: Twist> Persist for Twisted<T> {
    const ROOM: Room = Streams::ROOM;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        T::encode(change, out);
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        Streams::decode_change(bytes)
    }

    fn key(change: &Change) -> Bytes {
        Streams::key(change)
    }

    fn frame(change: &Change) -> Option<Frame> {
        Streams::frame(change)
    }

    fn body(change: &Change) -> Option<Bytes> {
        Streams::body(change)
    }

    fn has_lane(state: &State, lane: handoff_log::segments::Lane) -> bool {
        Streams::has_lane(state, lane)
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        Streams::snapshot(state, from, bytes_max)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        Streams::restore(state, snapshot)
    }
}

impl<T: Twist> Parts for Twisted<T> {
    type Rooms = Grouping<Self>;
}

fn fault(world: &mut dyn World, seed: u64, steps: u64) -> Option<Fault> {
    let history = History::new(Keep::Last);
    drive("twisted", world, seed, steps, history).err().map(|failure| failure.fault)
}

/// The first broken promise that is the one expected.
#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    let mut found = Vec::new();
    for seed in SEEDS {
        found.extend(fault(&mut Grouped::<P>::new(Dice::new(seed)), seed, STEPS));
        if found.last().is_some_and(&expected) {
            return;
        }
    }
    panic!("the world did not notice: {found:#?}");
}

/// The oracle objects with these words, or the world does.
#[track_caller]
fn objects<T: Twist>(words: &str) {
    notices::<Twisted<T>>(|fault| fault.to_string().contains(words));
}

/// What becomes of positions, changed.
fn moves(decided: &mut Decided, change: impl Fn(&mut Vec<Move>)) {
    for one in &mut decided.changes {
        if let Change::Group(GroupChange::Moved(_, _, steps)) = one {
            change(steps);
        }
    }
}

fn commits(command: &Command) -> bool {
    matches!(command, Command::Group(GroupCommand::Commit { .. }))
}

fn sweeps(command: &Command) -> bool {
    matches!(command, Command::Group(GroupCommand::Sweep { .. }))
}

/// The state with other settings of its groups.
fn altered(
    state: &State,
    command: &Command,
    alter: impl Fn(&mut handoff_streams::groups::GroupSettings),
) -> State {
    let mut state = state.clone();
    if let Command::Group(command) = command
        && let Some(group) = state.group(command.group()).cloned()
    {
        let mut settings = group.settings;
        alter(&mut settings);
        let change = GroupChange::Altered(group.name, Box::new(settings));
        Streams::evolve(&mut state, &Change::Group(change));
    }
    state
}

#[test]
fn the_room_as_it_is_breaks_nothing() {
    for seed in 0..3 {
        assert_eq!(fault(&mut Grouped::<Sound>::new(Dice::new(seed)), seed, STEPS), None);
    }
}

#[test]
fn a_lease_that_is_not_written_down() {
    #[derive(Debug)]
    struct Fleeting;
    impl Twist for Fleeting {
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
fn messages_handed_out_before_that_is_durable() {
    #[derive(Debug)]
    struct Early;
    impl Hasty for Early {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            (journal.append(permit, entry).0, fulfilled(journal))
        }
    }
    impl Parts for Early {
        type Rooms = Grouping<Streams>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Early>(|_| true);
}

#[test]
fn a_lease_that_is_over_and_still_counts() {
    #[derive(Debug)]
    struct Patient;
    impl Twist for Patient {
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
fn a_session_that_never_ends() {
    #[derive(Debug)]
    struct Immortal;
    impl Twist for Immortal {
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
    impl Twist for Keeps {
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

#[test]
fn what_was_committed_goes_back() {
    #[derive(Debug)]
    struct Forgets;
    impl Twist for Forgets {
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
fn a_letter_without_a_verdict() {
    #[derive(Debug)]
    struct Undead;
    impl Twist for Undead {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            moves(&mut decided, |steps| {
                steps.retain(|step| !matches!(step, Move::Dead { .. }));
            });
            decided
        }
    }
    objects::<Undead>("it died and is Some(");
}

#[test]
fn a_verdict_without_a_letter() {
    #[derive(Debug)]
    struct Unburied;
    impl Twist for Unburied {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let produces = matches!(
                command,
                Command::Group(GroupCommand::Commit { produce, .. }) if !produce.is_empty()
            );
            if (commits(command) && !produces) || sweeps(command) {
                decided.changes.retain(|change| !matches!(change, Change::Appended { .. }));
                decided.actions.retain(|action| !matches!(action, Action::Published { .. }));
            }
            decided
        }
    }
    objects::<Unburied>("leads to");
}

#[test]
fn a_letter_with_another_body() {
    #[derive(Debug)]
    struct Garbles;
    impl Twist for Garbles {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut command = command.clone();
            if let Command::Group(
                GroupCommand::Commit { bodies, .. } | GroupCommand::Sweep { bodies, .. },
            ) = &mut command
            {
                let records = bodies.iter_mut().filter_map(|body| body.record.as_mut());
                records.for_each(|record| record.payload = Some(Bytes::from_static(b"else")));
            }
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Garbles>("it has another payload");
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
    impl Twist for Shares {
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
    impl Twist for Hoards {
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
    impl Twist for Silent {
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
    impl Twist for Doubles {
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
    impl Twist for Deaf {
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
    impl Twist for Loses {
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
fn messages_of_a_key_out_of_order() {
    #[derive(Debug)]
    struct Overtakes;
    impl Twist for Overtakes {
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
    impl Twist for Overtakes {
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
    impl Twist for Leaves {
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
    impl Twist for Strict {
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

/// What a poll knows of messages, changed.
fn found(command: &Command, change: impl Fn(&mut Fact)) -> Command {
    let mut command = command.clone();
    if let Command::Group(GroupCommand::Poll { found, .. }) = &mut command {
        found.iter_mut().flat_map(|one| &mut one.facts).for_each(change);
    }
    command
}

#[test]
fn a_message_that_nobody_wants_any_more() {
    #[derive(Debug)]
    struct Stale;
    impl Twist for Stale {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = found(command, |fact| fact.expires = None);
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Stale>("nobody should get it");
}

#[test]
fn a_letter_that_comes_back_to_everybody() {
    #[derive(Debug)]
    struct Tells;
    impl Twist for Tells {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = found(command, |fact| fact.only_for = None);
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Tells>("nobody should get it");
}

#[test]
fn more_than_was_asked_for() {
    #[derive(Debug)]
    struct Generous;
    impl Twist for Generous {
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
    impl Twist for Hurries {
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
    impl Twist for Endless {
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

#[test]
fn one_attempt_too_many() {
    #[derive(Debug)]
    struct Lenient;
    impl Twist for Lenient {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            if commits(command) || sweeps(command) {
                let lenient = altered(state, command, |settings| settings.max_attempts += 1);
                return Streams::decide(&lenient, command, now, entropy);
            }
            Streams::decide(state, command, now, entropy)
        }
    }
    // Nothing dies yet, by whatever it shows.
    let signs = ["for letters", "it died and is", "have to be read", "dead: 0"];
    notices::<Twisted<Lenient>>(|fault| {
        let words = fault.to_string();
        signs.iter().any(|sign| words.contains(sign))
    });
}

/// What is out in the partitions of a poll comes back, so that whoever polls may have it.
#[test]
fn a_message_that_another_holds_is_handed_out() {
    #[derive(Debug)]
    struct Robs;
    impl Twist for Robs {
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
    impl Twist for Trusts {
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
    impl Twist for Pleases {
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
    impl Twist for Stores {
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
    impl Twist for Holds {
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
    impl Twist for Greedy {
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
fn a_letter_that_is_replayed_twice() {
    #[derive(Debug)]
    struct Again;
    impl Twist for Again {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            decided
                .changes
                .retain(|change| !matches!(change, Change::Group(GroupChange::Replayed(..))));
            decided
        }
    }
    objects::<Again>("replayed before: true");
}

#[test]
fn a_group_whose_traces_stay() {
    #[derive(Debug)]
    struct Traces;
    impl Twist for Traces {
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

#[test]
fn a_message_that_nobody_is_ever_handed() {
    #[derive(Debug)]
    struct Starves;
    impl Twist for Starves {
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

#[track_caller]
fn brokers_notice<D: Meddle>() {
    let meddled = |seed| {
        fault(&mut Brokered::<Streams, D>::new(Dice::new(seed)), seed, STEPS_OF_BROKERS).is_some()
    };
    assert!(SEEDS.into_iter().any(meddled), "the world did not notice");
}

#[test]
fn the_store_as_it_is_breaks_nothing() {
    for seed in 0..6 {
        let mut world = Brokered::<Streams, Honest>::new(Dice::new(seed));
        assert_eq!(fault(&mut world, seed, STEPS_OF_BROKERS), None);
    }
}

/// Two brokers hand out the same message.
#[test]
fn a_store_that_does_not_compare_versions() {
    #[derive(Debug)]
    struct Trusting;
    impl Meddle for Trusting {
        fn commit(mut steps: Vec<Step>, memory: &Memory) -> Vec<Step> {
            for step in &mut steps {
                if matches!(step.key, handoff_streams::Key::Position(..)) {
                    step.expected = memory.version(&step.key);
                }
            }
            steps
        }
    }
    brokers_notice::<Trusting>();
}

/// A partition is polled by one who has it no more.
#[test]
fn a_store_that_does_not_compare_who_is_in_a_group() {
    #[derive(Debug)]
    struct Blind;
    impl Meddle for Blind {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            let members = |step: &Step| matches!(step.key, handoff_streams::Key::Members(_));
            steps.retain(|step| !members(step) || !step.changes.is_empty());
            steps
        }
    }
    brokers_notice::<Blind>();
}

#[test]
fn a_store_that_loses_a_lease() {
    #[derive(Debug)]
    struct Loses;
    impl Meddle for Loses {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            for step in &mut steps {
                for change in &mut step.changes {
                    if let Change::Group(GroupChange::Moved(_, _, moves)) = change {
                        moves.retain(|one| !matches!(one, Move::Lease { .. }));
                    }
                }
            }
            steps
        }
    }
    brokers_notice::<Loses>();
}

/// The words a violation has are for people; that it is one of the oracle's is for this.
#[test]
fn what_the_oracle_says_is_a_violation() {
    let violation = Violation::Look("two have it".to_owned());
    assert!(matches!(Fault::from(violation), Fault::Streams(_)));
}
