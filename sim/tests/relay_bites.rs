//! Proof that the world of the relay can fail: receivers, disks, lines and promises that break one rule
//! each, and the oracle must notice within some seeds.

use bytes::Bytes;
use handoff_relay::Mode;
use handoff_relay::session::{Message, Reason};
use handoff_relay_agent::Settings;
use handoff_sim::driver::{Fault, noticed};
use handoff_sim::relay::{Relayed, Sound, Twist, Violation};
use handoff_types::Entropy;

const SEEDS: std::ops::Range<u64> = 0..60;

const STEPS: u64 = 400;

/// The first broken promise that is the one expected.
#[track_caller]
fn objects<T: Twist>(expected: impl Fn(&Violation) -> bool) {
    let relay = |fault: &Fault| matches!(fault, Fault::Relay(one) if expected(one));
    if let Err(found) = noticed(SEEDS, STEPS, Relayed::<T>::new, relay) {
        panic!("the world did not notice: {found:#?}");
    }
}

#[test]
fn a_sound_relay_breaks_nothing() {
    let found = noticed(1000..1006, STEPS, Relayed::<Sound>::new, |_| false);
    assert_eq!(found, Err(Vec::new()));
}

/// Marks are forgotten with the connection.
#[derive(Debug)]
struct ForgetsMarks;

impl Twist for ForgetsMarks {
    const FORGETS: bool = true;

    fn mark(_: Option<u32>) -> Option<u32> {
        None
    }
}

#[test]
fn a_receiver_that_forgets_its_marks_is_noticed() {
    objects::<ForgetsMarks>(|one| matches!(one, Violation::Doubled { .. }));
}

/// The next segment counts as taken too.
#[derive(Debug)]
struct MarksTooHigh;

impl Twist for MarksTooHigh {
    fn mark(mark: Option<u32>) -> Option<u32> {
        mark.map(|mark| mark + 1)
    }
}

#[test]
fn a_mark_that_is_too_high_is_noticed() {
    objects::<MarksTooHigh>(|one| {
        matches!(one, Violation::OutOfOrder { .. } | Violation::Lost { .. })
    });
}

/// Confirmed before it is stored.
#[derive(Debug)]
struct ConfirmsEarly;

impl Twist for ConfirmsEarly {
    const CONFIRMS_EARLY: bool = true;
}

#[test]
fn what_is_confirmed_before_it_is_stored_is_noticed() {
    objects::<ConfirmsEarly>(|one| {
        matches!(
            one,
            Violation::Lost { .. } | Violation::NotDelivered { .. } | Violation::OutOfOrder { .. }
        )
    });
}

/// A sink that keeps nothing of what it confirms.
#[derive(Debug)]
struct Drops;

impl Twist for Drops {
    const DROPS: bool = true;
}

#[test]
fn a_sink_that_keeps_nothing_is_noticed() {
    objects::<Drops>(|one| matches!(one, Violation::Lost { .. } | Violation::NotDelivered { .. }));
}

/// A value that arrives as another one.
#[derive(Debug)]
struct Garbles;

impl Twist for Garbles {
    fn value(bits: u64) -> u64 {
        (f64::from_bits(bits) + 1.0).to_bits()
    }
}

#[test]
fn another_value_than_was_sent_is_noticed() {
    objects::<Garbles>(|one| matches!(one, Violation::Unasked { .. } | Violation::Doubled { .. }));
}

/// Durable is said of what is in memory.
#[derive(Debug)]
struct PromisesMemory;

impl Twist for PromisesMemory {
    fn settings(settings: &mut Settings) {
        settings.promise = Mode::Memory;
    }
}

#[test]
fn a_promise_that_memory_is_enough_for_is_noticed() {
    objects::<PromisesMemory>(|one| {
        matches!(one, Violation::Lost { why: "was promised", .. } | Violation::NotDelivered { .. })
    });
}

/// Delivered is said of what is on disk.
#[derive(Debug)]
struct PromisesDisk;

impl Twist for PromisesDisk {
    fn settings(settings: &mut Settings) {
        if settings.promise == Mode::Delivered {
            settings.promise = Mode::Durable;
        }
    }
}

#[test]
fn delivery_that_is_said_of_what_is_on_disk_is_noticed() {
    objects::<PromisesDisk>(|one| matches!(one, Violation::NotDelivered { .. }));
}

/// A sink that is down says that it never takes it.
#[derive(Debug)]
struct RefusesForGood;

impl Twist for RefusesForGood {
    fn reason() -> Reason {
        Reason::Permanent
    }
}

#[test]
fn a_segment_that_is_passed_by_for_nothing_is_noticed() {
    objects::<RefusesForGood>(|one| matches!(one, Violation::PassedBy(_)));
}

/// Bytes change on their way.
#[derive(Debug)]
struct Flips;

impl Twist for Flips {
    fn carried(message: Message) -> Message {
        match message {
            Message::Segment { key, bytes } if key.segment == 2 => {
                let mut bytes = bytes.to_vec();
                if let Some(last) = bytes.last_mut() {
                    *last ^= 1;
                }
                Message::Segment { key, bytes: Bytes::from(bytes) }
            }
            other => other,
        }
    }
}

#[test]
fn bytes_that_change_on_their_way_are_noticed() {
    objects::<Flips>(|one| matches!(one, Violation::PassedBy(_)));
}

/// An agent that gives up what is a second old.
#[derive(Debug)]
struct Impatient;

impl Twist for Impatient {
    fn settings(settings: &mut Settings) {
        settings.spool.age_max = handoff_types::Span::from_secs(1);
    }
}

#[test]
fn a_file_that_is_given_up_is_noticed() {
    objects::<Impatient>(|one| matches!(one, Violation::Lost { .. } | Violation::PassedBy(_)));
}

/// A disk that says it has synced.
#[derive(Debug)]
struct Lies;

impl Twist for Lies {
    const LIES: bool = true;
}

#[test]
fn a_disk_that_only_says_it_has_synced_is_noticed() {
    objects::<Lies>(|one| matches!(one, Violation::Lost { why: "was promised", .. }));
}

/// An agent that goes on with the numbers that it, or another, gave before.
#[derive(Debug)]
struct NumbersAgain;

impl Twist for NumbersAgain {
    fn roll(nth: u64, entropy: Entropy) -> Entropy {
        if nth == 0 { Entropy(7) } else { entropy }
    }
}

#[test]
fn a_start_that_gives_the_numbers_of_another_block_again_is_noticed() {
    objects::<NumbersAgain>(|one| {
        matches!(one, Violation::Lost { .. } | Violation::NotDelivered { .. })
    });
}
