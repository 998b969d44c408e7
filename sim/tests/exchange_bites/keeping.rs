//! What is kept, what is forgotten, and when anybody is told.

use std::sync::Arc;

use bytes::Bytes;
use handoff_exchange::{Action, Ask, Change, Exchange, Key, Place, Seq, State};
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::exchange::{Exchanging, Parts};
use handoff_store_embedded::Persist;
use handoff_types::Sequence;

use crate::twisted::journal::{Hasty, fulfilled, hurried};
use crate::{Twist, bite, decide, notices, objects};

bite!(what_nobody_knows_is_forgotten_in_time, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(command.ask, Ask::Retain { .. })
        && let Some((seq, one)) =
            state.messages_from(Seq(0)).find(|(_, one)| one.place == Place::Unknown)
    {
        decided.changes.push(Change::Forgotten(seq));
        decided.actions.push(Action::Move {
            database: one.database,
            seq,
            from: one.spot(),
            to: None,
            gone: Some(Box::new(one.clone())),
            process: None,
        });
    }
    decided
});

bite!(what_waits_is_forgotten_in_time, "message Seq", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    if matches!(command.ask, Ask::Retain { .. })
        && let Some((seq, one)) =
            state.messages_from(Seq(0)).find(|(_, one)| one.place == Place::Messages)
    {
        decided.changes.push(Change::Forgotten(seq));
        decided.actions.push(Action::Move {
            database: one.database,
            seq,
            from: one.spot(),
            to: None,
            gone: Some(Box::new(one.clone())),
            process: None,
        });
    }
    decided
});

bite!(nothing_is_ever_forgotten, "should be", |state, command, now, entropy| {
    match command.ask {
        Ask::Retain { .. } => crate::instead(handoff_exchange::Reply::More(false)),
        _ => decide(state, command, now, entropy),
    }
});

bite!(files_do_not_follow, "move of", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    decided.actions.retain(|one| !matches!(one, Action::Move { .. }));
    decided
});

bite!(nobody_rings, "rings", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    decided.actions.retain(|one| !matches!(one, Action::Ring(_)));
    decided
});

bite!(nobody_settles, "is settled", |state, command, now, entropy| {
    let mut decided = decide(state, command, now, entropy);
    decided.actions.retain(|one| !matches!(one, Action::Settle { .. }));
    decided
});

#[test]
fn how_often_a_message_was_tried_is_not_written_down() {
    #[derive(Debug)]
    struct Forgetful;
    impl Twist<Exchange> for Forgetful {
        fn encode(change: &Change, out: &mut Vec<u8>) {
            let mut change = change.clone();
            if let Change::Placed { silences, .. } = &mut change {
                *silences = 0;
            }
            Exchange::encode_change(&change, out);
        }
    }
    objects::<Forgetful>("the state read back");
}

#[test]
fn a_checkpoint_without_processes() {
    #[derive(Debug)]
    struct Partial;
    impl Twist<Exchange> for Partial {
        fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
            let mut less = State::default();
            for key in state.keys_from(&Key::Counters) {
                if !matches!(key, Key::Process(_)) {
                    state.aggregate(&key).into_iter().for_each(|one| less.put(one));
                }
            }
            Exchange::snapshot(&less, from, bytes_max)
        }
    }
    objects::<Partial>("the state read back");
}

#[test]
fn a_body_is_stored_otherwise_than_it_came() {
    #[derive(Debug)]
    struct Careless;
    impl Twist<Exchange> for Careless {
        fn body(change: &Change) -> Option<Bytes> {
            let body = Exchange::body(change)?;
            Some(body.to_ascii_uppercase().into())
        }
    }
    objects::<Careless>("the body of");
}

#[test]
fn an_answer_before_what_it_says_is_durable() {
    #[derive(Debug)]
    struct Early;
    impl Hasty for Early {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            (journal.append(permit, entry).0, fulfilled(journal))
        }
    }
    impl Parts for Early {
        type Rooms = Exchanging<Exchange>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Early>(|_| true);
}
