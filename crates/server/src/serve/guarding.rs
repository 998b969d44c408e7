//! Guards the Redis of `calls.redis_url` for every peer there, as long as the server runs.
//!
//! It is nobody's condition: a Redis that is away is waited for, beside the rooms.

use std::time::Duration;

use handoff_store_redis::{Address, BadAddress, Guardian, Options};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::runtime::Labour;
use crate::settings::Calls;

/// How long a Redis that cannot be used is left alone, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// What is to be guarded, and how.
#[derive(Debug)]
pub(super) struct Guarding {
    url: String,
    options: Options,
}

impl Guarding {
    /// Nothing, if the settings name no Redis or want no calls.
    ///
    /// # Errors
    /// [`BadAddress`], when it can be none.
    pub(super) fn prepared(settings: &Calls) -> Result<Option<Self>, BadAddress> {
        let url = settings.redis_url.clone().filter(|_| settings.enabled);
        let Some(url) = url else { return Ok(None) };
        url.parse::<Address>()?;
        let options = Options {
            rules: settings.rules(),
            ping_interval: settings.ping_interval,
            ping_timeout: settings.ping_timeout,
            ..Options::default()
        };
        Ok(Some(Self { url, options }))
    }

    /// Puts a guardian to work.
    pub(super) fn begin(self) -> Begun {
        let stop = CancellationToken::new();
        let task = Labour::of(tokio::spawn(self.guard(stop.clone())));
        Begun { task, stop }
    }

    async fn guard(self, stop: CancellationToken) {
        let Some(guardian) = stop.run_until_cancelled(self.connected()).await else { return };
        stop.cancelled().await;
        guardian.stop().await;
    }

    /// A guardian, once the server can be used. From then on it minds lost connections itself.
    async fn connected(&self) -> Guardian {
        let (mut pause, most) = PAUSE;
        let mut told = false;
        loop {
            match Guardian::start(&self.url, self.options.clone()).await {
                Ok(guardian) => {
                    if told {
                        info!("the Redis of calls.redis_url can be used now");
                    }
                    return guardian;
                }
                Err(error) if !told => {
                    told = true;
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "the Redis of calls.redis_url cannot be used; it is tried again");
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(most);
        }
    }
}

/// A guardian at work.
pub(super) struct Begun {
    task: Labour,
    stop: CancellationToken,
}

impl Begun {
    /// Ends it. Once this is ready its connections are closed.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        self.task.ended().await;
    }
}

#[cfg(test)]
mod tests {
    use super::Guarding;
    use crate::settings::Calls;

    fn with(url: Option<&str>, enabled: bool) -> Calls {
        Calls { redis_url: url.map(str::to_owned), enabled, ..Calls::default() }
    }

    #[test]
    fn an_address_that_is_none_is_said_before_anything_starts() {
        let error = Guarding::prepared(&with(Some("localhost:6379"), true)).unwrap_err();
        assert!(error.to_string().contains("redis://"), "{error}");
    }

    #[test]
    fn nothing_is_guarded_where_there_is_no_redis_or_no_room() {
        assert!(Guarding::prepared(&with(None, true)).unwrap().is_none());
        let url = Some("redis://localhost");
        assert!(Guarding::prepared(&with(url, false)).unwrap().is_none());
        assert!(Guarding::prepared(&with(url, true)).unwrap().is_some());
    }
}
