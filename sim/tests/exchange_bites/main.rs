//! Proof that the world of the exchange can fail: rooms that break one rule each, and the oracle, or
//! the world around it, must notice within some seeds.

mod begins;
mod devices;
mod endings;
mod keeping;
mod prepares;
#[path = "../twisted/mod.rs"]
mod twisted;

use std::cell::Cell;

use handoff_exchange::{
    Action, Ask, Change, Command, Exchange, Happened, Message, Place, Process, ProcessId, Seq,
    State, Step,
};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, World, drive, noticed};
use handoff_sim::exchange::{Exchanged, Exchanging, Parts, Sound, Violation};
use handoff_sim::history::{History, Keep};
use handoff_types::{Entropy, Machine, Now};
use twisted::room::{DecidedBy, Twist};

/// What the room decides.
type Decided = DecidedBy<Exchange>;

/// The room with a twist.
type Twisted<T> = twisted::room::Twisted<Exchange, T>;

/// Most are noticed by the first of them; what is rare may take all.
const SEEDS: std::ops::Range<u64> = 0..120;

const STEPS: u64 = 320;

impl<T: Twist<Exchange>> Parts for Twisted<T> {
    type Rooms = Exchanging<Self>;
}

fn fault(world: &mut dyn World, seed: u64) -> Option<Fault> {
    let history = History::new(Keep::Last);
    drive("twisted", world, seed, STEPS, history).err().map(|failure| failure.fault)
}

/// The first broken promise that is the one expected.
#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    if let Err(found) = noticed(SEEDS, STEPS, Exchanged::<P>::new, expected) {
        panic!("the world did not notice: {found:#?}");
    }
}

/// The oracle objects with these words, or the world does.
#[track_caller]
fn objects<T: Twist<Exchange>>(words: &str) {
    notices::<Twisted<T>>(|fault| fault.to_string().contains(words));
}

/// How a room decides.
type Decide = fn(&State, &Command, Now, Entropy) -> Decided;

thread_local! {
    /// One room for all that decide otherwise: a type for each would be a server for each to compile.
    static DECIDE: Cell<Decide> = const { Cell::new(Exchange::decide) };
}

/// A room that decides as it is told.
#[derive(Debug)]
struct Bite;

impl Twist<Exchange> for Bite {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        DECIDE.get()(state, command, now, entropy)
    }
}

/// The oracle objects with these words to a room that decides so, or the world does.
#[track_caller]
fn objects_to(decide: Decide, words: &str) {
    DECIDE.set(decide);
    objects::<Bite>(words);
}

/// A room that decides otherwise, and the words in which that is noticed.
macro_rules! bite {
    ($promise:ident, $words:literal, |$state:ident, $command:ident, $now:ident, $entropy:ident| $decide:expr) => {
        #[test]
        fn $promise() {
            fn decides(
                $state: &handoff_exchange::State,
                $command: &handoff_exchange::Command,
                $now: handoff_types::Now,
                $entropy: handoff_types::Entropy,
            ) -> crate::Decided {
                $decide
            }
            crate::objects_to(decides, $words);
        }
    };
}
use bite;

/// What a step is about, if it is one.
fn step(command: &Command) -> Option<(ProcessId, &Step)> {
    match &command.ask {
        Ask::Process { id, step, .. } => Some((*id, step)),
        _ => None,
    }
}

fn commits(command: &Command) -> bool {
    matches!(step(command), Some((_, Step::Commit)))
}

fn rolls_back(command: &Command) -> bool {
    matches!(step(command), Some((_, Step::Rollback(_))))
}

fn ticks(command: &Command) -> bool {
    command.ask == Ask::Tick
}

/// The process a step is about.
fn process<'a>(state: &'a State, command: &Command) -> Option<&'a Process> {
    state.process_by_number(step(command)?.0.number)
}

/// The state with some messages otherwise.
fn with_messages(state: &State, change: impl Fn(&mut Message)) -> State {
    let mut state = state.clone();
    let all: Vec<(Seq, Message)> =
        state.messages_from(Seq(0)).map(|(seq, one)| (seq, one.clone())).collect();
    for (seq, mut message) in all {
        change(&mut message);
        state.put(handoff_exchange::Aggregate::Message(seq, Box::new(message)));
    }
    state
}

/// The state with some processes otherwise.
fn with_processes(state: &State, change: impl Fn(&mut Process)) -> State {
    let mut state = state.clone();
    let all: Vec<Process> = state.processes_below(u64::MAX).cloned().collect();
    for mut process in all {
        change(&mut process);
        state.put(handoff_exchange::Aggregate::Process(Box::new(process)));
    }
    state
}

/// Messages go elsewhere than was decided, and so do their files.
fn replace(decided: &mut Decided, from: Place, to: Place) {
    let mut moved = Vec::new();
    for change in &mut decided.changes {
        if let Change::Placed { seq, place, standing, .. } = change
            && *place == from
        {
            (*place, *standing) = (to, handoff_exchange::Standing::Free);
            moved.push(*seq);
        }
    }
    decided.actions.retain_mut(|action| match action {
        Action::Move { seq, from, to: Some(spot), .. } if moved.contains(seq) => {
            spot.place = to;
            from.place != to
        }
        _ => true,
    });
}

/// Nobody is told of something.
fn silence(decided: &mut Decided, of: Happened) {
    decided.actions.retain(|one| !matches!(one, Action::Log(entry) if entry.what == of));
    decided.changes.retain(|one| !matches!(one, Change::Logged(entry) if entry.what == of));
}

/// What is answered instead of what was decided.
fn instead(reply: handoff_exchange::Reply) -> Decided {
    Decided { reply, changes: Vec::new(), actions: Vec::new() }
}

#[test]
fn the_room_as_it_is_breaks_nothing() {
    for seed in 0..3 {
        assert_eq!(fault(&mut Exchanged::<Sound>::new(Dice::new(seed)), seed), None);
    }
}

/// The words a violation has are for people; that it is one of the oracle's is for this.
#[test]
fn what_the_oracle_says_is_a_violation() {
    let violation = Violation::ServedAgain { seq: 1 };
    assert!(matches!(Fault::from(violation), Fault::Exchange(_)));
}

/// The room as it is, for twists that change what is asked.
fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
    Exchange::decide(state, command, now, entropy)
}
