//! One timer for the requests of a connection, one after the other.
//!
//! A timer of its own for each request has to be made, put into the runtime's wheel and taken out of
//! it again, mostly for nothing. One that is only ever put off stays where it is.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use tokio::time::{Instant, Sleep, sleep_until};

/// Where a connection's timer is when no request has it.
#[derive(Debug, Default)]
pub(super) struct Alarms(Mutex<Option<Pin<Box<Sleep>>>>);

/// A timer that goes back when it is not needed any more.
#[derive(Debug)]
pub(super) struct Alarm<'a> {
    alarms: &'a Alarms,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// It is too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late;

impl Alarms {
    /// Sets an alarm. HTTP/2 has several requests at once: those after the first have their own.
    pub(super) fn set(&self, at: Instant) -> Alarm<'_> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sleep = match kept {
            Some(mut sleep) => {
                sleep.as_mut().reset(at);
                sleep
            }
            None => Box::pin(sleep_until(at)),
        };
        Alarm { alarms: self, sleep: Some(sleep) }
    }
}

impl Alarm<'_> {
    /// Waits for something until the alarm.
    ///
    /// # Errors
    /// [`Late`]
    ///
    /// # Cancel safety
    /// That of what is waited for.
    pub(super) async fn before<F: Future>(&mut self, what: F) -> Result<F::Output, Late> {
        let mut what = pin!(what);
        poll_fn(|context| {
            if let Poll::Ready(output) = what.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().poll(context).map(|()| Err(Late)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        *self.alarms.0.lock().unwrap_or_else(PoisonError::into_inner) = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::{Alarms, Late};
    use std::future::{pending, ready};
    use std::time::Duration;
    use tokio::time::{Instant, advance};

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_for_each_who_sets_it_at_its_own_time() {
        let (alarms, begun) = (Alarms::default(), Instant::now());
        let after = |secs| begun + Duration::from_secs(secs);
        assert_eq!(alarms.set(after(5)).before(ready(7)).await, Ok(7));
        assert_eq!(alarms.set(after(5)).before(advance(Duration::from_secs(1))).await, Ok(()));
        assert_eq!(alarms.set(after(9)).before(pending::<()>()).await, Err(Late));
        assert_eq!(begun.elapsed(), Duration::from_secs(9), "put off, it rings later");
        let (mut one, mut other) = (alarms.set(after(12)), alarms.set(after(10)));
        assert_eq!(other.before(pending::<()>()).await, Err(Late));
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        assert_eq!(one.before(pending::<()>()).await, Err(Late));
        assert_eq!(begun.elapsed(), Duration::from_secs(12));
    }
}
