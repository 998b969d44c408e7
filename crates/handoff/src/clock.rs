//! What time it is: asked here and nowhere else in the program.

use std::time::{Duration, Instant, SystemTime};

/// The operator's clock.
#[expect(clippy::disallowed_methods, reason = "the composition root's clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// A moment to measure from.
#[expect(clippy::disallowed_methods, reason = "measures how long a disk takes")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}

/// Time since boot, with the time the machine slept and without it. None where nobody knows.
#[cfg(target_os = "linux")]
pub(crate) fn since_boot() -> Option<(Duration, Duration)> {
    use rustix::time::{ClockId, Timespec, clock_gettime};
    let duration = |time: Timespec| {
        let secs = u64::try_from(time.tv_sec).ok()?;
        Some(Duration::new(secs, u32::try_from(time.tv_nsec).ok()?))
    };
    Some((
        duration(clock_gettime(ClockId::Boottime))?,
        duration(clock_gettime(ClockId::Monotonic))?,
    ))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn since_boot() -> Option<(Duration, Duration)> {
    None
}
