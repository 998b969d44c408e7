//! A Prometheus server of one's own: it scrapes itself and sends what it finds by remote write. Stopped
//! when it is dropped.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::clock;
use crate::http::Http;
use crate::prey::Prey;
use crate::relay::wait;
use crate::served::PATIENCE;

/// A running server.
#[derive(Debug)]
pub struct Prometheus {
    prey: Prey,
    /// Where it is asked.
    pub http: SocketAddr,
}

impl Prometheus {
    /// Starts one that scrapes itself every second and sends to this address, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// When there is no `prometheus` on the path, or it does not become ready.
    pub fn start(place: &Path, to: SocketAddr) -> io::Result<Self> {
        // Free now; whoever takes it meanwhile makes the start fail with words.
        let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = place.join("prometheus.yml");
        fs::write(
            &config,
            format!(
                "global: {{ scrape_interval: 1s }}\n\
                 scrape_configs: [{{ job_name: self, static_configs: [{{ targets: ['{http}'] }}] }}]\n\
                 remote_write: [{{ url: 'http://{to}/api/v1/write', queue_config: {{ batch_send_deadline: 500ms }} }}]\n"
            ),
        )?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", place.join("tsdb").display()));
        command.arg(format!("--web.listen-address={http}"));
        let prey = Prey::start(&mut command, &place.join("prometheus.stderr"));
        let prey = prey.map_err(|error| {
            let words = format!("no prometheus ({error}); scripts/test prometheus installs it");
            io::Error::new(error.kind(), words)
        })?;
        let over = clock() + PATIENCE;
        while !is_ready(http) {
            if clock() >= over {
                return Err(io::Error::other(format!("it is not ready: {}", prey.last_words())));
            }
            wait(Duration::from_millis(50));
        }
        Ok(Self { prey, http })
    }

    /// Tells it to end, which sends what is left, and waits until it has.
    ///
    /// # Errors
    /// When it does not end with success.
    pub fn stop(mut self) -> io::Result<()> {
        self.prey.terminate()?;
        let status = self.prey.ended()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("it ended, {status}: {}", self.prey.last_words())))
    }
}

fn is_ready(http: SocketAddr) -> bool {
    let asked =
        Http::connect(http, PATIENCE).and_then(|mut http| http.ask("GET", "/-/ready", None));
    asked.is_ok_and(|answer| answer.status == 200)
}
