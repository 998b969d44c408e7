//! Proof that the streams worlds can fail: rooms and stores that break one rule each, and the
//! oracle, or the world around it, must notice within some seeds.

mod twisted;

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Entry, Journal, Permit, Ticket};
use handoff_sim::dice::Dice;
use handoff_sim::driver::{Fault, World, drive, noticed};
use handoff_sim::history::{History, Keep};
use handoff_sim::streams::brokers::{Brokered, Honest, Meddle};
use handoff_sim::streams::{Parts, Sound, Streamed, Streaming, Violation};
use handoff_store_embedded::Persist;
use handoff_streams::memory::Memory;
use handoff_streams::port::{Loaded, Step};
use handoff_streams::{
    Action, Aggregate, Change, Command, Message, Produced, Refusal, Reply, State, Status, Streams,
};
use handoff_types::{Entropy, Machine, Now, Room, Sequence, Span};
use twisted::journal::{Hasty, fulfilled, hurried};
use twisted::room::{DecidedBy, Twist};

/// What the room decides.
type Decided = DecidedBy<Streams>;

/// The room with a twist.
type Twisted<T> = twisted::room::Twisted<Streams, T>;

const SEEDS: std::ops::Range<u64> = 0..8;

const STEPS: u64 = 200;

impl<T: Twist<Streams>> Parts for Twisted<T> {
    type Rooms = Streaming<Self>;
}

fn fault(world: &mut dyn World, seed: u64) -> Option<Fault> {
    let history = History::new(Keep::Last);
    drive("twisted", world, seed, STEPS, history).err().map(|failure| failure.fault)
}

/// The first broken promise that is the one expected.
#[track_caller]
fn notices<P: Parts>(expected: impl Fn(&Fault) -> bool) {
    if let Err(found) = noticed(SEEDS, STEPS, Streamed::<P>::new, expected) {
        panic!("the world did not notice: {found:#?}");
    }
}

#[track_caller]
fn objects<T: Twist<Streams>>(expected: impl Fn(&Violation) -> bool) {
    notices::<Twisted<T>>(|fault| matches!(fault, Fault::Streams(one) if expected(one)));
}

fn answer(violation: &Violation) -> bool {
    matches!(violation, Violation::Answer { .. })
}

fn look(violation: &Violation) -> bool {
    matches!(violation, Violation::Look(_))
}

fn message(words: &'static str) -> impl Fn(&Violation) -> bool {
    move |violation| matches!(violation, Violation::Message { why, .. } if why.contains(words))
}

fn says(words: &'static str) -> impl Fn(&Fault) -> bool {
    move |fault| matches!(fault, Fault::Invariant(what) if what.contains(words))
}

/// The same command with each of its messages changed.
fn changed(command: &Command, change: impl Fn(&mut Message)) -> Command {
    let mut command = command.clone();
    if let Command::Produce { produce, .. } = &mut command {
        produce.messages.iter_mut().for_each(change);
    }
    command
}

/// The answers to messages, changed.
fn results(decided: &mut Decided) -> &mut [Produced] {
    match &mut decided.reply {
        Reply::Produced { results, .. } => results,
        _ => &mut [],
    }
}

#[test]
fn the_room_as_it_is_breaks_nothing() {
    for seed in SEEDS {
        assert_eq!(fault(&mut Streamed::<Sound>::new(Dice::new(seed)), seed), None);
    }
}

#[test]
fn a_repetition_that_is_stored_again() {
    #[derive(Debug)]
    struct Twice;
    impl Twist<Streams> for Twice {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let repeated = results(&mut decided).iter().any(|one| one.status == Status::Duplicate);
            let Command::Produce { produce, bounds } = command else { return decided };
            if !repeated {
                return decided;
            }
            let mut produce = produce.clone();
            produce.producer = None;
            let again = Command::Produce { produce, bounds: *bounds };
            Streams::decide(state, &again, now, entropy)
        }
    }
    objects::<Twice>(answer);
}

#[test]
fn duplicate_said_of_what_is_not_stored() {
    #[derive(Debug)]
    struct Hides;
    impl Twist<Streams> for Hides {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if results(&mut decided).iter().any(|one| one.status == Status::StoredLate) {
                decided.changes.clear();
                decided.actions.clear();
                for one in results(&mut decided) {
                    *one = Produced { status: Status::Duplicate, place: None };
                }
            }
            decided
        }
    }
    objects::<Hides>(answer);
}

#[test]
fn a_gap_that_is_not_told() {
    #[derive(Debug)]
    struct Keeps;
    impl Twist<Streams> for Keeps {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if let Reply::Produced { missing, .. } = &mut decided.reply {
                missing.clear();
            }
            decided
        }
    }
    objects::<Keeps>(answer);
}

#[test]
fn a_sequence_for_two_messages() {
    #[derive(Debug)]
    struct Lenient;
    impl Twist<Streams> for Lenient {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if let Reply::Refused(Refusal::SequenceReused { place, .. }) = decided.reply {
                let one = Produced { status: Status::Duplicate, place: Some(place) };
                let Command::Produce { produce, .. } = command else { return decided };
                let results = vec![one; produce.messages.len()];
                decided.reply = Reply::Produced { results, missing: Vec::new(), waits: true };
            }
            decided
        }
    }
    objects::<Lenient>(answer);
}

#[test]
fn an_offset_that_is_left_out() {
    #[derive(Debug)]
    struct Skips;
    impl Twist<Streams> for Skips {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            for change in &mut decided.changes {
                if let Change::Appended { base, .. } = change {
                    *base += 1;
                }
            }
            decided
        }
    }
    objects::<Skips>(look);
}

#[test]
fn a_request_that_is_stored_in_part() {
    #[derive(Debug)]
    struct Halves;
    impl Twist<Streams> for Halves {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            let appended = |change: &Change| matches!(change, Change::Appended { .. });
            if decided.changes.iter().filter(|change| appended(change)).count() > 1 {
                let first = decided.changes.iter().position(appended);
                first.map(|at| decided.changes.remove(at));
            }
            decided
        }
    }
    objects::<Halves>(look);
}

#[test]
fn a_payload_that_is_not_the_one_sent() {
    #[derive(Debug)]
    struct Garbles;
    impl Twist<Streams> for Garbles {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let counted =
                matches!(command, Command::Produce { produce, .. } if produce.producer.is_some());
            let garbled = changed(command, |message| {
                if message.deliver_at.is_none() && !counted {
                    message.payload = message.payload.iter().rev().copied().collect();
                }
            });
            Streams::decide(state, &garbled, now, entropy)
        }
    }
    objects::<Garbles>(message("payload"));
}

#[test]
fn a_message_without_its_end() {
    #[derive(Debug)]
    struct Immortal;
    impl Twist<Streams> for Immortal {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let counted =
                matches!(command, Command::Produce { produce, .. } if produce.producer.is_some());
            let immortal = changed(command, |message| {
                if message.deliver_at.is_none() && !counted {
                    message.ttl = None;
                }
            });
            Streams::decide(state, &immortal, now, entropy)
        }
    }
    objects::<Immortal>(message("headers"));
}

#[test]
fn messages_of_a_key_that_change_places() {
    #[derive(Debug)]
    struct Turns;
    impl Twist<Streams> for Turns {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut turned = command.clone();
            if let Command::Produce { produce, .. } = &mut turned
                && produce.producer.is_none()
            {
                produce.messages.reverse();
                let mut decided = Streams::decide(state, &turned, now, entropy);
                results(&mut decided).reverse();
                return decided;
            }
            Streams::decide(state, command, now, entropy)
        }
    }
    objects::<Turns>(answer);
}

#[test]
fn a_key_that_goes_elsewhere() {
    #[derive(Debug)]
    struct Strays;
    impl Twist<Streams> for Strays {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let counted =
                matches!(command, Command::Produce { produce, .. } if produce.producer.is_some());
            let astray = changed(command, |message| {
                if message.key.is_some() && message.deliver_at.is_none() && !counted {
                    message.partition.get_or_insert(0);
                }
            });
            Streams::decide(state, &astray, now, entropy)
        }
    }
    objects::<Strays>(answer);
}

#[test]
fn messages_without_a_key_that_always_go_to_the_first() {
    #[derive(Debug)]
    struct Fills;
    impl Twist<Streams> for Fills {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let counted =
                matches!(command, Command::Produce { produce, .. } if produce.producer.is_some());
            let first = changed(command, |message| {
                if message.key.is_none() && message.deliver_at.is_none() && !counted {
                    message.partition.get_or_insert(0);
                }
            });
            Streams::decide(state, &first, now, entropy)
        }
    }
    objects::<Fills>(answer);
}

#[test]
fn a_timestamp_of_another_time() {
    #[derive(Debug)]
    struct Lags;
    impl Twist<Streams> for Lags {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            match command {
                Command::Produce { produce, .. } if produce.producer.is_none() => {
                    let wall = now.wall - Span::from_millis(5);
                    Streams::decide(state, command, Now { wall, ..now }, entropy)
                }
                _ => Streams::decide(state, command, now, entropy),
            }
        }
    }
    objects::<Lags>(|_| true);
}

#[test]
fn a_message_that_comes_too_early() {
    #[derive(Debug)]
    struct Eager;
    impl Twist<Streams> for Eager {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let ahead = Now { wall: now.wall + Span::from_secs(5), ..now };
            match command {
                Command::Tick { .. } => Streams::decide(state, command, ahead, entropy),
                _ => Streams::decide(state, command, now, entropy),
            }
        }
    }
    objects::<Eager>(answer);
}

#[test]
fn a_message_that_is_delivered_twice() {
    #[derive(Debug)]
    struct Forgets;
    impl Twist<Streams> for Forgets {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if matches!(command, Command::Tick { .. }) {
                decided.changes.retain(|change| !matches!(change, Change::Unscheduled(_)));
            }
            decided
        }
    }
    objects::<Forgets>(look);
}

#[test]
fn a_message_that_is_not_delivered_and_gone() {
    #[derive(Debug)]
    struct Drops;
    impl Twist<Streams> for Drops {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if matches!(command, Command::Tick { .. }) {
                decided.changes.retain(|change| !matches!(change, Change::Appended { .. }));
                decided.actions.clear();
            }
            decided
        }
    }
    objects::<Drops>(|_| true);
}

#[test]
fn a_cancelled_message_that_still_waits() {
    #[derive(Debug)]
    struct Ignores;
    impl Twist<Streams> for Ignores {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            if matches!(command, Command::CancelScheduled { .. }) {
                decided.changes.clear();
            }
            decided
        }
    }
    objects::<Ignores>(look);
}

#[test]
fn readers_that_are_told_of_more_than_there_is() {
    #[derive(Debug)]
    struct Boasts;
    impl Twist<Streams> for Boasts {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            for action in &mut decided.actions {
                if let Action::Published { end, .. } = action {
                    *end += 1;
                }
            }
            decided
        }
    }
    objects::<Boasts>(|violation| matches!(violation, Violation::Actions(_)));
}

#[test]
fn a_number_of_a_topic_that_is_used_again() {
    #[derive(Debug)]
    struct Recycles;
    impl Twist<Streams> for Recycles {
        fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
            let mut decided = Streams::decide(state, command, now, entropy);
            decided.changes.retain(|change| !matches!(change, Change::NextTopic(_)));
            decided
        }
    }
    objects::<Recycles>(|_| true);
}

#[test]
fn a_batch_that_is_not_kept() {
    #[derive(Debug)]
    struct Empties;
    impl Twist<Streams> for Empties {
        fn body(change: &Change) -> Option<Bytes> {
            let batch = Streams::body(change)?;
            Some(batch.slice(..batch.len() - 1))
        }
    }
    objects::<Empties>(message("not a sound record batch"));
}

#[test]
fn a_change_that_is_written_otherwise() {
    #[derive(Debug)]
    struct Miswrites;
    impl Twist<Streams> for Miswrites {
        fn encode(change: &Change, out: &mut Vec<u8>) {
            let mut change = change.clone();
            if let Change::Sequenced { stored, .. } = &mut change {
                stored.pop();
            }
            Streams::encode_change(&change, out);
        }
    }
    notices::<Twisted<Miswrites>>(says("the state read back"));
}

#[test]
fn a_checkpoint_without_the_last_timestamps() {
    #[derive(Debug)]
    struct Timeless;
    impl Twist<Streams> for Timeless {
        fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
            let mut timeless = state.clone();
            let keys: Vec<_> = state.keys_from(&handoff_streams::Key::Counters).collect();
            for key in keys {
                if let Some(Aggregate::Partition(mut partition)) = state.aggregate(&key) {
                    partition.last = handoff_types::Wall(0);
                    timeless.put(&key, Some(Aggregate::Partition(partition)));
                }
            }
            Streams::snapshot(&timeless, from, bytes_max)
        }
    }
    notices::<Twisted<Timeless>>(says("the state read back"));
}

#[test]
fn an_answer_before_it_is_durable() {
    #[derive(Debug)]
    struct Early;
    impl Hasty for Early {
        fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
            if entry.room != Room::Streams {
                return journal.append(permit, entry);
            }
            (journal.append(permit, entry).0, fulfilled(journal))
        }
    }
    impl Parts for Early {
        type Rooms = Streaming<Streams>;
        fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
            hurried::<Self>(journal)
        }
    }
    notices::<Early>(|_| true);
}

#[track_caller]
fn brokers_notice<D: Meddle>() {
    let meddled = |seed| fault(&mut Brokered::<Streams, D>::new(Dice::new(seed)), seed).is_some();
    assert!(SEEDS.into_iter().any(meddled), "the world did not notice");
}

#[test]
fn the_store_as_it_is_breaks_nothing() {
    for seed in SEEDS {
        assert_eq!(fault(&mut Brokered::<Streams, Honest>::new(Dice::new(seed)), seed), None);
    }
}

#[test]
fn a_store_that_does_not_compare_versions() {
    #[derive(Debug)]
    struct Trusting;
    impl Meddle for Trusting {
        fn commit(mut steps: Vec<Step>, memory: &Memory) -> Vec<Step> {
            steps.iter_mut().for_each(|step| step.expected = memory.version(&step.key));
            steps
        }
    }
    brokers_notice::<Trusting>();
}

#[test]
fn a_store_that_does_not_compare_what_was_only_looked_at() {
    #[derive(Debug)]
    struct Forgetful;
    impl Meddle for Forgetful {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            steps.retain(|step| !step.changes.is_empty());
            steps
        }
    }
    brokers_notice::<Forgetful>();
}

#[test]
fn a_store_that_loads_what_is_gone() {
    #[derive(Debug)]
    struct Empty;
    impl Meddle for Empty {
        fn load(mut loaded: Vec<Loaded>) -> Vec<Loaded> {
            for one in &mut loaded {
                if matches!(one.aggregate, Some(Aggregate::Sequences(_))) {
                    one.aggregate = None;
                }
            }
            loaded
        }
    }
    brokers_notice::<Empty>();
}

#[test]
fn a_store_that_loses_a_change() {
    #[derive(Debug)]
    struct Loses;
    impl Meddle for Loses {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            for step in &mut steps {
                step.changes.retain(|change| !matches!(change, Change::Sequenced { .. }));
            }
            steps
        }
    }
    brokers_notice::<Loses>();
}
