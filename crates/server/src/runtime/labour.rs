//! A task whose end is waited for in more than one place.

use tokio::task::JoinHandle;

/// A task at work. Dropped, it ends wherever it is.
#[derive(Debug)]
pub(crate) struct Labour {
    task: JoinHandle<()>,
    over: bool,
}

impl Labour {
    pub(crate) fn of(task: JoinHandle<()>) -> Self {
        Self { task, over: false }
    }

    /// Waits until it has ended, however it did. A panic has been reported by itself.
    ///
    /// # Cancel safety
    /// It may be waited for again, also after it has ended.
    pub(crate) async fn ended(&mut self) {
        if !self.over {
            drop((&mut self.task).await);
            self.over = true;
        }
    }
}

impl Drop for Labour {
    fn drop(&mut self) {
        self.task.abort();
    }
}
