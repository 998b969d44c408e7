//! What an event takes of memory, all told, counted by the allocator and not by the system.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use handoff_events::{
    Bounds, CatchUp, Command, Events, Period, Publishing, Registration, Reply, Schedule, State,
    Tardiness,
};
use handoff_types::{Entropy, Machine, Now, Sight, Span, Steady, Wall};

/// Bytes in use, as a common allocator spends them: a word of its own for each piece, pieces in
/// steps of sixteen bytes, none below thirty-two (glibc).
static IN_USE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn spent(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it came. `realloc` is left to its
// default: a new piece, a copy, and the old one given back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(spent(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(spent(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What one takes does not depend on how many there are: maps and sets of a million have nodes as
/// full as those of a quarter.
const EVENTS: u32 = 250_000;
const BYTES_MAX: usize = 300;

fn apply(state: &mut State, command: &Command, now: Now) -> Reply {
    let decision = Events::decide(state, command, now, Entropy(0));
    for change in &decision.changes {
        Events::evolve(state, change);
    }
    decision.reply
}

fn register(number: u32) -> Command {
    Command::Register {
        event: Registration {
            description: "x".repeat(32),
            types: vec!["backup".to_owned()],
            // Periods of one hour to a day, so that the timer is in no order of its own.
            schedule: Schedule::every_secs(f64::from(3_600 + number % 82_801)).unwrap(),
            repeat: -1,
            publish: None,
        },
        bounds: Bounds {
            period_min: Span::from_millis(100),
            period_max: Period::MAX,
            description_bytes_max: 64 << 10,
            types_max: 64,
            type_bytes_max: 256,
            events_max: 10_000_000,
        },
        sight: Sight::All,
    }
}

/// The only test of its process: nobody else allocates.
#[test]
fn an_event_takes_at_most_three_hundred_bytes() {
    let begin = IN_USE.load(Ordering::Relaxed);
    let each = |when: &str| {
        let bytes = (IN_USE.load(Ordering::Relaxed) - begin) / EVENTS as usize;
        println!("{bytes} bytes an event {when}");
        assert!(bytes <= BYTES_MAX, "{bytes} bytes an event {when}");
    };
    let mut state = State::default();
    let mut now = Now { wall: Wall(1_800_000_000_000_000), steady: Steady(0) };
    for number in 0..EVENTS {
        apply(&mut state, &register(number), now);
    }
    assert_eq!(state.len(), EVENTS as usize);
    each("once they are registered");
    // Occurrences move events about in the timer; what it takes must not grow with that.
    let late_max = Span::from_secs(10);
    let tardiness = Tardiness { catch_up: CatchUp::Skip, catch_up_max: 0, late_max };
    let publishing = Publishing { pending_max: 1_000, letters_max: 10_000 };
    for _ in 0..2 {
        now.steady = now.steady + Span::from_secs(86_400);
        now.wall = now.wall + Span::from_secs(86_400);
        let resume = Command::Resume { limit: 1_000, tardiness, publishing };
        while let Reply::Ticked { more: true, .. } = apply(&mut state, &resume, now) {}
        each("after all of them occurred");
    }
    assert!(state.totals().skipped >= 2 * u64::from(EVENTS));
    drop(state);
    let left = IN_USE.load(Ordering::Relaxed).saturating_sub(begin);
    assert!(left < 64 << 10, "{left} bytes are left behind");
}
