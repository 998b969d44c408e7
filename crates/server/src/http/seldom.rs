//! A future that seldom has anything to say, beside one that has all the time.
//!
//! Whoever waits for several things asks each of them again whenever one of them calls. What calls
//! once in seconds is then asked for every request, mostly for nothing. Here it is asked when it has
//! called itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Asks a future only when it has called.
#[derive(Debug)]
pub(super) struct Seldom<F> {
    future: F,
    bell: Option<(Arc<Bell>, Waker)>,
}

/// Whether a future has called, and whom it calls.
#[derive(Debug)]
struct Bell {
    has_rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the task, which may look at once.
        self.has_rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Seldom<F> {
    pub(super) const fn new(future: F) -> Self {
        Self { future, bell: None }
    }
}

impl<F: Future + Unpin> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let known = this.bell.as_ref().filter(|(bell, _)| bell.task.will_wake(context.waker()));
        match known {
            Some((bell, _)) if !bell.has_rung.swap(false, Ordering::AcqRel) => {
                return Poll::Pending;
            }
            Some(_) => {}
            None => {
                let task = context.waker().clone();
                let bell = Arc::new(Bell { has_rung: AtomicBool::new(false), task });
                let waker = Waker::from(Arc::clone(&bell));
                this.bell = Some((bell, waker));
            }
        }
        let Some((_, waker)) = &this.bell else { return Poll::Pending };
        Pin::new(&mut this.future).poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use super::Seldom;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Calls(AtomicU32);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_future_is_asked_when_it_has_called_or_somebody_else_asks() {
        let (asked, kept) = (Cell::new(0), RefCell::new(None::<Waker>));
        let future = poll_fn(|context: &mut Context<'_>| {
            asked.set(asked.get() + 1);
            kept.replace(Some(context.waker().clone()));
            Poll::<()>::Pending
        });
        let mut seldom = pin!(Seldom::new(future));
        let (one, other) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
        let (first, second) = (Waker::from(Arc::clone(&one)), Waker::from(Arc::clone(&other)));
        let mut ask = |waker: &Waker| {
            assert!(seldom.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            asked.get()
        };

        assert_eq!(ask(&first), 1);
        assert_eq!(ask(&first), 1, "it has not called");
        assert_eq!(ask(&second), 2, "it has to know who asks now");
        assert_eq!(ask(&second), 2);
        kept.borrow().as_ref().unwrap().wake_by_ref();
        assert_eq!((one.0.load(Ordering::Relaxed), other.0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(ask(&second), 3, "it has called");
        assert_eq!(ask(&second), 3, "once");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_calls_is_heard() {
        let seconds = std::time::Duration::from_secs;
        let begun = tokio::time::Instant::now();
        let mut timer = tokio::time::interval_at(begun + seconds(5), seconds(1));
        let timer = Box::pin(async move { timer.tick().await });
        let mut others = tokio::time::interval(seconds(1));
        let busy = async {
            loop {
                others.tick().await;
            }
        };
        tokio::select! {
            () = busy => unreachable!("it never ends"),
            _ = Seldom::new(timer) => {}
        }
        assert_eq!(begun.elapsed(), seconds(5));
    }
}
