//! How long what has no file will take to get one.
//!
//! What comes in large pieces may be more than can be written in time while its oldest is still young,
//! so how far the folders *are* behind does not say how far they *will* be. The rate of writing is
//! measured, and says it. It is what is written in a second *of work*: whoever writes has nothing to do
//! while few bodies come, and a rate that fell then would keep them few. Syncs are not part of it: one
//! is for many files or few, so after a quiet time it would say that files take long.
//!
//! ```text
//!  work    ├──────────┤    ├────────────────┤         ├───────
//!  files    40          │   310               │ sync │  …
//!           rate = files / work of the last seconds of work, older work counting less and less
//! ```

use handoff_types::Span;

/// The rate is looked at after so much work, at least.
const LOOK_AFTER: Span = Span::from_millis(20);

/// When so much work is known, all of it counts half.
const KNOWN_MAX: Span = Span::from_secs(2);

/// What is believed before anything is known: as if a slow disk had worked for a moment.
const BELIEVED: (Span, u64) = (Span::from_millis(100), 100);

/// So much work without a file is a disk that stands still.
const IN_VAIN: Span = Span::from_secs(1);

/// The rate at which files are written.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bodies that have no file.
    unwritten: u64,
    /// Work, and the files that came of it.
    known: (Span, u64),
    /// How much work had been done when it was looked at, and how many files had been written.
    looked: (Span, u64),
    /// Work since then, if nothing came of it.
    vain: Span,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { unwritten: 0, known: BELIEVED, looked: (Span::ZERO, 0), vain: Span::ZERO }
    }

    /// So many bodies were taken.
    pub(super) fn take(&mut self, many: usize) {
        self.unwritten += many as u64;
    }

    /// So many bodies have no file; so many files were written so far, in so much work.
    pub(super) fn look(&mut self, unwritten: usize, written: u64, worked: Span) {
        self.unwritten = unwritten as u64;
        let (before, written_before) = self.looked;
        let took = Span(worked.0.saturating_sub(before.0));
        let more = written.saturating_sub(written_before);
        if more == 0 {
            self.vain = if took >= IN_VAIN { took } else { Span::ZERO };
            return;
        }
        self.vain = Span::ZERO;
        if took < LOOK_AFTER {
            return;
        }
        self.looked = (worked, written);
        let (work, files) = self.known;
        let half = u64::from(work >= KNOWN_MAX);
        self.known = (Span((work.0 >> half) + took.0), (files >> half) + more);
    }

    /// How long those that have no file will take.
    pub(super) fn ahead(&self) -> Span {
        let (work, files) = self.known;
        let micros = u128::from(self.unwritten) * u128::from(work.0) / u128::from(files.max(1));
        Span(u64::try_from(micros).unwrap_or(u64::MAX).saturating_add(self.vain.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use handoff_types::Span;

    #[test]
    fn what_has_no_file_takes_as_long_as_files_took_before() {
        let mut pace = Pace::new();
        pace.take(3_000);
        assert_eq!(pace.ahead(), Span::from_secs(3), "believed of a slow disk");
        pace.look(0, 100_000, Span::from_secs(20));
        pace.take(4_000);
        let ahead = pace.ahead();
        assert!(ahead < Span::from_millis(810) && ahead > Span::from_millis(790), "{ahead:?}");
        pace.take(4_000);
        assert!(pace.ahead() > Span::from_millis(1_580), "what came since counts at once");
    }

    #[test]
    fn a_moment_says_nothing() {
        let mut pace = Pace::new();
        pace.look(1_000, 1, Span::from_millis(19));
        assert_eq!(pace.ahead(), Span::from_secs(1));
        pace.look(1_000, 10_000, Span::from_millis(100));
        assert!(pace.ahead() < Span::from_millis(20), "{:?}", pace.ahead());
    }

    /// Devices that were slowed for a moment stayed slow for good: what was filed in a second was
    /// what had come in it, so the rate fell with them.
    #[test]
    fn whoever_has_little_to_write_is_not_slow() {
        let mut pace = Pace::new();
        for turn in 1..1_000 {
            pace.look(0, 100 * turn, Span(10_000 * turn));
        }
        pace.take(10_000);
        let ahead = pace.ahead();
        assert!(ahead < Span::from_millis(1_010), "100 files in 10 ms of work: {ahead:?}");
    }

    #[test]
    fn a_disk_that_has_become_slow_is_known_to_be_after_seconds() {
        let mut pace = Pace::new();
        pace.look(0, 200_000, Span::from_secs(10));
        let (mut work, mut files) = (10_000_000, 200_000);
        for _ in 0..100 {
            (work, files) = (work + 100_000, files + 100);
            pace.look(1_000, files, Span(work));
        }
        let ahead = pace.ahead();
        assert!(ahead > Span::from_millis(900), "1,000 a second by now: {ahead:?}");
    }

    #[test]
    fn a_disk_that_stands_still_writes_nothing_in_time() {
        let mut pace = Pace::new();
        pace.look(0, 100_000, Span::from_secs(10));
        pace.look(10, 100_000, Span::from_secs(18));
        assert!(pace.ahead() >= Span::from_secs(8), "{:?}", pace.ahead());
        pace.look(10, 100_001, Span::from_millis(18_001));
        assert!(pace.ahead() < Span::from_secs(1), "and it goes on as fast as it is");
    }
}
