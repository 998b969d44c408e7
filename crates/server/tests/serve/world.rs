//! A server in this process.

use std::path::Path;
use std::time::Duration;

use handoff_server::serve::{Hooks, Listeners, ServeError, run};
use handoff_server::settings::Settings;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Whoever takes longer than this hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Settings for a directory: free ports, a small journal.
pub(crate) fn settings(data_dir: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.server.data_dir = data_dir.to_owned();
    settings.server.listen.set_port(0);
    settings.server.disk_free_min = Some(0);
    settings.events.listen.set_port(0);
    settings.relay.listen.set_port(0);
    settings.log.limits.journal_file_bytes = 1 << 20;
    settings.log.limits.journal_bytes_max = 16 << 20;
    settings.log.limits.journal_reserve_bytes = 2 << 20;
    settings
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) at: Listeners,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(settings: Settings) -> Self {
        match Self::try_start(settings).await {
            Ok(served) => served,
            Err(error) => panic!("the server did not start: {error}"),
        }
    }

    /// Starts a server and waits until it is ready, or says why it is not.
    pub(crate) async fn try_start(settings: Settings) -> Result<Self, ServeError> {
        Self::start_with(settings, Hooks::none()).await
    }

    /// The same, with hooks of which only `ready` is not used.
    pub(crate) async fn start_with(settings: Settings, hooks: Hooks) -> Result<Self, ServeError> {
        let (said, ready) = oneshot::channel();
        let stop = hooks.stop.clone();
        let hooks = Hooks { ready: Box::new(move |at| said.send(*at).unwrap()), ..hooks };
        let task = tokio::spawn(run(settings, hooks));
        match timeout(PATIENCE, ready).await.unwrap() {
            Ok(at) => Ok(Self { at, stop, task }),
            Err(_) => Err(task.await.unwrap().unwrap_err()),
        }
    }

    /// Tells the server to stop.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.cancel();
    }

    /// Stops the server and waits until it has.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }
}
