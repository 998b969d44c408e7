//! Proof that the world of calls can fail: rooms and journals that break one rule each, and the oracle,
//! or the world around it, must notice within some seeds.

mod twisted;

use std::sync::Arc;

use handoff_calls::{Ask, Calls, Change, Command, Late, Notice, Outcome, Reply, State};
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::calls::{Called, Calling, Parts, Sound, Violation};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, drive};
use handoff_sim::history::{History, Keep};
use handoff_store_embedded::Persist;
use handoff_types::{Entropy, Machine, Now, Room, Sequence};
use twisted::journal::{Hasty, fulfilled, hurried};
use twisted::room::{DecidedBy, Twist};

/// What the room decides.
type Decided = DecidedBy<Calls>;

/// The room with a twist.
type Twisted<T> = twisted::room::Twisted<Calls, T>;

/// Most are noticed by the first of them; what is rare may take all.
const SEEDS: std::ops::Range<u64> = 0..80;

const STEPS: u64 = 400;

impl<T: Twist<Calls>> Parts for Twisted<T> {
    type Rooms = Calling<Self>;
}

/// The first broken promise that is the one expected.
#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    let mut found = Vec::new();
    for seed in SEEDS {
        let mut world = Called::<P>::new(Dice::new(seed));
        let history = History::new(Keep::Last);
        found.extend(drive("twisted", &mut world, seed, STEPS, history).err().map(|it| it.fault));
        if found.last().is_some_and(&expected) {
            return;
        }
    }
    panic!("the world did not notice: {found:#?}");
}

#[track_caller]
fn objects<T: Twist<Calls>>(expected: impl Fn(&Violation) -> bool) {
    notices::<Twisted<T>>(|fault| matches!(fault, Fault::Calls(one) if expected(one)));
}

#[test]
fn a_sound_room_breaks_nothing() {
    for seed in 1000..1010 {
        let mut world = Called::<Sound>::new(Dice::new(seed));
        let history = History::new(Keep::Last);
        if let Err(failure) = drive("sound", &mut world, seed, STEPS, history) {
            panic!("{failure}");
        }
    }
}

/// An end that is told and not written.
#[derive(Debug)]
struct ForgetsEnds;

impl Twist<Calls> for ForgetsEnds {
    fn written<'a>(state: &State, changes: &'a [Change]) -> Vec<&'a Change> {
        let mut written = Calls::written(state, changes);
        written.retain(|change| !matches!(change, Change::Ended { .. }));
        written
    }
}

#[test]
fn an_end_that_is_not_written_is_noticed() {
    notices::<Twisted<ForgetsEnds>>(
        |fault| matches!(fault, Fault::Invariant(what) if what.contains("read back")),
    );
}

/// A result under an old fence counts.
#[derive(Debug)]
struct TakesLateResults;

impl Twist<Calls> for TakesLateResults {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        if decided.reply == Reply::Taken(Err(Late::Fenced)) {
            decided.reply = Reply::Taken(Ok(()));
        }
        decided
    }
}

#[test]
fn a_late_result_that_counts_is_noticed() {
    objects::<TakesLateResults>(|one| matches!(one, Violation::Fence { .. }));
}

/// Every offer has the same fence.
#[derive(Debug)]
struct OneFence;

impl Twist<Calls> for OneFence {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        for change in &mut decided.changes {
            if let Change::Offered { fence, .. } = change {
                *fence = 1;
            }
        }
        for notice in &mut decided.actions {
            if let Notice::Offer(offer) = notice {
                offer.fence = 1;
            }
        }
        decided
    }
}

#[test]
fn a_fence_that_is_given_twice_is_noticed() {
    objects::<OneFence>(|one| matches!(one, Violation::Fence { fence: 1, .. }));
}

/// A server that begins gives fences again that another gave to calls in memory.
#[derive(Debug)]
struct BeginsAnew;

impl Twist<Calls> for BeginsAnew {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        if command.ask == Ask::Opened {
            decided.changes.retain(|change| !matches!(change, Change::Fences { .. }));
        }
        decided
    }
}

#[test]
fn a_server_that_gives_fences_of_another_again_is_noticed() {
    objects::<BeginsAnew>(
        |one| matches!(one, Violation::Fence { why, .. } if why.contains("another call")),
    );
}

/// Whoever runs a call is lost a moment after it began.
#[derive(Debug)]
struct ShortLeases;

impl Twist<Calls> for ShortLeases {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        for change in &mut decided.changes {
            if let Change::Accepted { until, .. } | Change::Extended { until, .. } = change {
                *until = now.steady;
            }
        }
        decided
    }
}

#[test]
fn an_executor_that_is_given_up_too_early_is_noticed() {
    objects::<ShortLeases>(|one| matches!(one, Violation::Begun { .. }));
}

/// What is asked for again is told another end.
#[derive(Debug)]
struct TellsAnotherEnd;

impl Twist<Calls> for TellsAnotherEnd {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        if let (Ask::Request(_), Reply::Registered { again: true, .. }) =
            (&command.ask, &decided.reply)
        {
            for notice in &mut decided.actions {
                if let Notice::Ended { outcome, .. } = notice {
                    *outcome = Outcome::Cancelled;
                }
            }
        }
        decided
    }
}

#[test]
fn a_call_that_ends_twice_is_noticed() {
    objects::<TellsAnotherEnd>(|one| matches!(one, Violation::EndedTwice { .. }));
}

/// A call that waits for its time waits for ever.
#[derive(Debug)]
struct NeverTriesAgain;

impl Twist<Calls> for NeverTriesAgain {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        let mut decided = Calls::decide(state, command, now, entropy);
        for change in &mut decided.changes {
            if let Change::Returned { after: Some(after), .. } = change {
                *after = handoff_types::Steady(u64::MAX);
            }
        }
        decided
    }
}

#[test]
fn a_call_that_never_ends_is_noticed() {
    notices::<Twisted<NeverTriesAgain>>(
        |fault| matches!(fault, Fault::Invariant(what) if what.contains("never end")),
    );
}

/// Answers do not wait for the disk.
#[derive(Debug)]
struct AnswersTooEarly;

impl Hasty for AnswersTooEarly {
    fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        let (sequence, _) = journal.append(permit, entry);
        (sequence, fulfilled(journal))
    }

    fn barrier(journal: &dyn Journal, _: Room) -> Ticket {
        fulfilled(journal)
    }
}

impl Parts for AnswersTooEarly {
    type Rooms = Calling<Calls>;

    fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        hurried::<Self>(journal)
    }
}

#[test]
fn an_answer_before_the_disk_has_it_is_noticed() {
    notices::<AnswersTooEarly>(|fault| {
        matches!(fault, Fault::Calls(_))
            || matches!(fault, Fault::Invariant(what) if what.contains("told of"))
    });
}
