//! Whoever asks a command to stop is heard while it works.

use tokio::sync::watch;

/// Becomes true when somebody asks to stop. It is heard also while a command runs.
pub(super) fn listen() -> watch::Receiver<bool> {
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        asked_to_stop().await;
        tell.send_replace(true);
        // As long as it is kept, nobody takes its end for a signal.
        tell.closed().await;
    });
    told
}

#[cfg(unix)]
async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        drop(tokio::signal::ctrl_c().await);
        return;
    };
    // Both may be dropped: nothing follows.
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn asked_to_stop() {
    drop(tokio::signal::ctrl_c().await);
}
