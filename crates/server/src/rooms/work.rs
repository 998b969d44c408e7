//! A room's task, as whoever started it sees it.

use std::convert::Infallible;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::runtime::Labour;

/// What a room drops once it has taken care of what was under way before the start, and answers.
pub(super) type Resumed = oneshot::Sender<Infallible>;

/// A room's task. Dropped, it ends wherever it is.
#[derive(Debug)]
pub struct Work {
    task: Labour,
    stop: CancellationToken,
    resumed: Option<oneshot::Receiver<Infallible>>,
}

impl Work {
    /// Puts a room to work: it runs until it is told to end, and has answered what it was asked.
    pub(super) fn start<F>(run: impl FnOnce(CancellationToken, Resumed) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (resumed, on_resumed) = oneshot::channel();
        let stop = CancellationToken::new();
        let task = Labour::of(tokio::spawn(run(stop.clone(), resumed)));
        Self { task, stop, resumed: Some(on_resumed) }
    }

    /// Waits until the room has taken care of what was under way before the start, and answers.
    ///
    /// # Cancel safety
    /// It may be waited for again.
    pub async fn resumed(&mut self) {
        if let Some(resumed) = &mut self.resumed {
            // Dropped at the other end, by a room that answers or by one that is gone, which shows
            // elsewhere.
            drop(resumed.await);
            self.resumed = None;
        }
    }

    /// Waits until the room has ended. Unless it was told to, that is a mistake of ours.
    ///
    /// # Cancel safety
    /// It may be waited for again.
    pub async fn ended(&mut self) {
        self.task.ended().await;
    }

    /// Lets the room answer what it was asked and end. Its storage is given back.
    ///
    /// # Cancel safety
    /// Dropped, the room ends all the same.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.ended().await;
    }
}
