//! What the process is told from outside.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Signals, and the token that means the same as the first of them.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    stop: CancellationToken,
}

impl Signals {
    pub(super) fn new(stop: CancellationToken) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stop,
        })
    }

    /// The server is told to stop.
    ///
    /// # Cancel safety
    /// A signal that has come is not lost.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// And again: it shall not take its time.
    ///
    /// # Cancel safety
    /// As [`Self::stop`].
    pub(super) async fn hurry(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The server is told to stop; or, if it was, to hurry.
    ///
    /// # Cancel safety
    /// As [`Self::stop`].
    pub(super) async fn stop_or_hurry(&mut self, told: bool) {
        match told {
            false => self.stop().await,
            true => self.hurry().await,
        }
    }

    /// What comes first of stopping and reloading.
    ///
    /// # Cancel safety
    /// As [`Self::stop`].
    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            () = self.stop.cancelled() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }
}

/// What the server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Stop,
    Reload,
}
