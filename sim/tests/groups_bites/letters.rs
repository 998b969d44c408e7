//! Messages that die, and their letters.

use bytes::Bytes;
use handoff_streams::groups::{GroupChange, GroupCommand, Step as Move};
use handoff_streams::{Action, Change, Command, State, Streams};
use handoff_types::{Entropy, Machine, Now};

use crate::{Decided, Twist, Twisted, altered, commits, found, moves, notices, objects, sweeps};

#[test]
fn a_letter_without_a_verdict() {
    #[derive(Debug)]
    struct Undead;
    impl Twist<Streams> for Undead {
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
    impl Twist<Streams> for Unburied {
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
    impl Twist<Streams> for Garbles {
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

#[test]
fn one_attempt_too_many() {
    #[derive(Debug)]
    struct Lenient;
    impl Twist<Streams> for Lenient {
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

#[test]
fn a_letter_that_is_replayed_twice() {
    #[derive(Debug)]
    struct Again;
    impl Twist<Streams> for Again {
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
fn a_letter_that_comes_back_to_everybody() {
    #[derive(Debug)]
    struct Tells;
    impl Twist<Streams> for Tells {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let command = found(command, |fact| fact.only_for = None);
            Streams::decide(state, &command, now, entropy)
        }
    }
    objects::<Tells>("nobody should get it");
}
