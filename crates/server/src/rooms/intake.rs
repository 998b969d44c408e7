//! Where questions come in.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::mpsc::{self, Receiver, Sender};

/// Questions taken at once, of each kind.
pub(super) const TAKEN_AT_ONCE: usize = 256;

/// What a room is asked. What is new comes by a mailbox of its own, which is left alone while too much
/// of it waits: whoever finishes something or only looks does not stand behind it.
#[derive(Debug)]
pub(super) struct Intake<Q> {
    asks: Receiver<Q>,
    news: Receiver<Q>,
    asks_over: bool,
    news_over: bool,
}

impl<Q> Intake<Q> {
    /// Two mailboxes of this size: the ends for those who ask, first not for what is new, and the
    /// room's.
    pub(super) fn new(many: usize) -> (Sender<Q>, Sender<Q>, Self) {
        let (ask, asks) = mpsc::channel(many);
        let (tell, news) = mpsc::channel(many);
        (ask, tell, Self { asks, news, asks_over: false, news_over: false })
    }

    /// Waits for questions and puts some behind those in `taken`. For ever, if none are to be taken
    /// or none will come.
    ///
    /// # Cancel safety
    /// Takes nothing unless it is done.
    pub(super) async fn take(&mut self, taken: &mut Vec<Q>, takes: bool, takes_news: bool) {
        poll_fn(|context| {
            if takes
                && !self.asks_over
                && let Poll::Ready(many) = self.asks.poll_recv_many(context, taken, TAKEN_AT_ONCE)
            {
                self.asks_over = many == 0;
                if takes_news {
                    // So that whoever only looks, and looks all the time, keeps nobody out.
                    let more = std::iter::from_fn(|| self.news.try_recv().ok());
                    taken.extend(more.take(TAKEN_AT_ONCE));
                }
                return Poll::Ready(());
            }
            if takes_news
                && !self.news_over
                && let Poll::Ready(many) = self.news.poll_recv_many(context, taken, TAKEN_AT_ONCE)
            {
                self.news_over = many == 0;
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    /// Nobody asks anything from now on. What was asked is still to be taken.
    pub(super) fn close(&mut self) {
        self.asks.close();
        self.news.close();
    }

    /// Whether all that was asked is taken, and nobody will ask.
    pub(super) fn is_over(&self) -> bool {
        self.asks_over && self.news_over
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::{Intake, TAKEN_AT_ONCE};

    /// What is taken at this moment, if anything is.
    fn take(intake: &mut Intake<u32>, takes: bool, takes_news: bool) -> Option<Vec<u32>> {
        let mut taken = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        let done = pin!(intake.take(&mut taken, takes, takes_news)).poll(&mut context);
        (done == Poll::Ready(())).then_some(taken)
    }

    #[test]
    fn what_is_new_is_left_alone_and_nothing_else_is() {
        let (ask, tell, mut intake) = Intake::new(8);
        tell.try_send(1).unwrap();
        assert_eq!(take(&mut intake, true, false), None);
        ask.try_send(2).unwrap();
        assert_eq!(take(&mut intake, false, false), None);
        assert_eq!(take(&mut intake, true, false), Some(vec![2]));
        assert_eq!(take(&mut intake, true, true), Some(vec![1]));
    }

    #[test]
    fn whoever_asks_all_the_time_keeps_nobody_out() {
        let (ask, tell, mut intake) = Intake::new(2 * TAKEN_AT_ONCE);
        tell.try_send(u32::MAX).unwrap();
        (0..300).for_each(|one| ask.try_send(one).unwrap());
        let taken = take(&mut intake, true, true).unwrap();
        assert_eq!((taken.len(), taken.last()), (TAKEN_AT_ONCE + 1, Some(&u32::MAX)));
    }

    #[test]
    fn what_was_asked_before_the_end_is_taken() {
        let (ask, tell, mut intake) = Intake::new(8);
        ask.try_send(1).unwrap();
        tell.try_send(2).unwrap();
        intake.close();
        assert!(ask.try_send(3).is_err() && tell.try_send(3).is_err());
        let mut taken = Vec::new();
        while let Some(more) = take(&mut intake, true, true) {
            assert!(!intake.is_over() || more.is_empty());
            taken.extend(more);
        }
        assert_eq!((taken, intake.is_over()), (vec![1, 2], true));
    }
}
