//! Proof that the worlds of groups can fail: rooms and stores that break one rule each, and the
//! oracle, or the world around it, must notice within some seeds.

mod brokers;
mod letters;
mod members;
mod messages;
#[path = "../twisted/mod.rs"]
mod twisted;

use std::sync::Arc;

use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, World, drive, noticed};
use handoff_sim::groups::{Grouped, Grouping, Parts, Sound, Violation};
use handoff_sim::history::{History, Keep};
use handoff_streams::groups::{Fact, GroupChange, GroupCommand, Step as Move};
use handoff_streams::{Change, Command, State, Streams};
use handoff_types::{Machine, Sequence};
use twisted::journal::{Hasty, fulfilled, hurried};
use twisted::room::{DecidedBy, Twist};

/// What the room decides.
type Decided = DecidedBy<Streams>;

/// The room with a twist.
type Twisted<T> = twisted::room::Twisted<Streams, T>;

const SEEDS: std::ops::Range<u64> = 0..12;

const STEPS: u64 = 200;

/// A step of two brokers is smaller.
const STEPS_OF_BROKERS: u64 = 600;

impl<T: Twist<Streams>> Parts for Twisted<T> {
    type Rooms = Grouping<Self>;
}

fn fault(world: &mut dyn World, seed: u64, steps: u64) -> Option<Fault> {
    let history = History::new(Keep::Last);
    drive("twisted", world, seed, steps, history).err().map(|failure| failure.fault)
}

/// The first broken promise that is the one expected.
#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    if let Err(found) = noticed(SEEDS, STEPS, Grouped::<P>::new, expected) {
        panic!("the world did not notice: {found:#?}");
    }
}

/// The oracle objects with these words, or the world does.
#[track_caller]
fn objects<T: Twist<Streams>>(words: &str) {
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
