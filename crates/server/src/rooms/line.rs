//! Questions that stand in line for the journal.
//!
//! * What the journal has no room for waits, and what is new waits behind it; what finishes something
//!   or only looks does not.
//! * Large requests let small ones pass while much of them is on its way to the disk: what is decided
//!   becomes durable in that order, so whoever sends one small message waits for all before it.
//! * A ring without space is waited for a while only; then whoever asks is told.

use std::collections::VecDeque;
use std::time::Duration;

use handoff_log::journal::Refused;
use tokio::time::Instant;

/// How long what is new waits for space in the ring before it is refused: whoever sends faster than
/// the disk takes is slowed.
pub(super) const FULL_MAX: Duration = Duration::from_secs(10);

/// Questions that stand in line; above that what is new waits in its mailbox.
pub(super) const HELD_MAX: usize = 1024;

/// A request to store so many bytes is bulk.
pub(super) const BULK_BYTES: usize = 64 << 10;

/// Bytes of bulk that are on their way to the disk, about; above that more of it waits, and what is
/// small passes. It keeps the disk busy.
const BULK_AT_ONCE: usize = 2 << 20;

/// How long a question waits for the journal's queue when nothing of its room is in it.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The line of a room whose questions are of this kind.
#[derive(Debug)]
pub(super) struct Line<Q> {
    /// Questions the journal had no room for. They are the next ones.
    held: VecDeque<Q>,
    /// Large requests that wait until fewer of them are on their way to the disk.
    bulk: VecDeque<Q>,
    /// Since when the ring has had no space for anything new.
    full_since: Option<Instant>,
    /// How long it may have been.
    full_max: Duration,
}

impl<Q> Default for Line<Q> {
    fn default() -> Self {
        let (held, bulk) = (VecDeque::new(), VecDeque::new());
        Self { held, bulk, full_since: None, full_max: FULL_MAX }
    }
}

impl<Q> Line<Q> {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.bulk.is_empty()
    }

    /// Whether something new may come.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() + self.bulk.len() < HELD_MAX
    }

    /// Gives a question back if it is its turn, else it stands in line. `on_the_way` is the bulk that
    /// is not durable yet.
    pub(super) fn pass(
        &mut self,
        question: Q,
        on_the_way: usize,
        is_new: impl FnOnce(&Q) -> bool,
        is_bulk: impl FnOnce(&Q) -> bool,
    ) -> Option<Q> {
        let lets_pass = !self.bulk.is_empty() || on_the_way >= BULK_AT_ONCE;
        if !self.held.is_empty() && is_new(&question) {
            self.held.push_back(question);
        } else if lets_pass && is_bulk(&question) {
            self.bulk.push_back(question);
        } else {
            return Some(question);
        }
        None
    }

    /// A question has to wait, if there is one.
    pub(super) fn hold(&mut self, question: Option<Q>) {
        self.held.extend(question);
    }

    /// All that had to wait, to be asked again in that order.
    pub(super) fn take_held(&mut self) -> VecDeque<Q> {
        std::mem::take(&mut self.held)
    }

    /// A large request whose turn it is.
    pub(super) fn take_bulk(&mut self, on_the_way: usize) -> Option<Q> {
        let may = self.held.is_empty() && on_the_way < BULK_AT_ONCE;
        if may { self.bulk.pop_front() } else { None }
    }

    /// Whether what the journal refused should wait, so that nobody need know.
    pub(super) fn may_wait(&mut self, refused: &Refused) -> bool {
        match refused {
            // Its own queue empties by itself, and soon.
            Refused::Busy { .. } => true,
            // What is written is on its way to its place, and the ring has space again when it is
            // there.
            Refused::Full { .. } => {
                let now = Instant::now();
                let since = *self.full_since.get_or_insert(now);
                now.saturating_duration_since(since) < self.full_max
            }
            _ => false,
        }
    }

    /// The journal took something new.
    pub(super) fn accepted(&mut self) {
        self.full_since = None;
    }

    /// Nobody waits for space from now on.
    pub(super) fn hurry(&mut self) {
        self.full_max = Duration::ZERO;
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.full_max.is_zero()
    }

    /// When those that wait are to be asked again, if nothing else happens; `alone` if nothing of the
    /// room is on its way to the disk.
    pub(super) fn pause(&self, alone: bool) -> Option<Duration> {
        let waits = !self.held.is_empty() && (alone || self.full_since.is_some());
        waits.then_some(BUSY_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::{BULK_AT_ONCE, HELD_MAX, Line};

    /// A question: whether it is new, and whether it is bulk.
    type Question = (bool, bool);

    const LOOK: Question = (false, false);
    const SMALL: Question = (true, false);
    const LARGE: Question = (true, true);

    fn pass(line: &mut Line<Question>, question: Question, on_the_way: usize) -> bool {
        line.pass(question, on_the_way, |one| one.0, |one| one.1).is_some()
    }

    #[test]
    fn what_is_new_waits_behind_what_is_held_and_a_look_does_not() {
        let mut line = Line::default();
        assert!(pass(&mut line, SMALL, 0));
        line.hold(Some(SMALL));
        assert!(!pass(&mut line, LARGE, 0) && pass(&mut line, LOOK, 0));
        assert_eq!(line.take_bulk(0), None, "it passes nothing that is held");
        assert_eq!(line.take_held(), [SMALL, LARGE]);
        assert!(line.is_empty());
    }

    #[test]
    fn bulk_lets_others_pass_and_keeps_its_order() {
        let mut line = Line::default();
        assert!(!pass(&mut line, LARGE, BULK_AT_ONCE) && pass(&mut line, SMALL, BULK_AT_ONCE));
        assert!(!pass(&mut line, LARGE, 0), "it would overtake the first");
        assert_eq!(line.take_bulk(BULK_AT_ONCE), None);
        assert_eq!((line.take_bulk(0), line.take_bulk(0)), (Some(LARGE), Some(LARGE)));
        assert!(line.is_empty() && pass(&mut line, LARGE, 0));
    }

    #[test]
    fn a_long_line_takes_nothing_new() {
        let mut line = Line::default();
        for _ in 0..HELD_MAX {
            assert!(line.has_room());
            line.hold(Some(SMALL));
        }
        assert!(!line.has_room());
    }
}
