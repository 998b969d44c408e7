//! Proof that the worlds of groups can fail: rooms and stores that break one rule each, and the
//! oracle, or the world around it, must notice within some seeds.

mod brokers;
mod letters;
mod members;
mod messages;
#[path = "../twisted/mod.rs"]
mod twisted;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, World, drive};
use handoff_sim::groups::{Grouped, Grouping, Parts, Sound, Violation};
use handoff_sim::history::{History, Keep};
use handoff_store_embedded::{Frame, Persist, Undecodable};
use handoff_streams::groups::{Fact, GroupChange, GroupCommand, Step as Move};
use handoff_streams::{Action, Change, Command, Reply, State, Streams};
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

/// What a poll knows of messages, changed.
fn found(command: &Command, change: impl Fn(&mut Fact)) -> Command {
    let mut command = command.clone();
    if let Command::Group(GroupCommand::Poll { found, .. }) = &mut command {
        found.iter_mut().flat_map(|one| &mut one.facts).for_each(change);
    }
    command
}

/// The words a violation has are for people; that it is one of the oracle's is for this.
#[test]
fn what_the_oracle_says_is_a_violation() {
    let violation = Violation::Look("two have it".to_owned());
    assert!(matches!(Fault::from(violation), Fault::Streams(_)));
}
