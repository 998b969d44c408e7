//! A Prometheus server of one's own: it scrapes itself and sends what it finds by remote write. Stopped
//! when it is dropped.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

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
        let http = free()?;
        let config = format!(
            "global: {{ scrape_interval: 1s }}\n\
             scrape_configs: [{{ job_name: self, static_configs: [{{ targets: ['{http}'] }}] }}]\n\
             remote_write: [{{ url: 'http://{to}/api/v1/write', queue_config: {{ batch_send_deadline: 500ms }} }}]\n"
        );
        Self::with(place, http, &config, &[])
    }

    /// Starts one that scrapes nobody and takes remote write, also of samples that are older than what
    /// it has.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn sink(place: &Path) -> io::Result<Self> {
        let config = "storage: { tsdb: { out_of_order_time_window: 30m } }\n";
        Self::with(place, free()?, config, &["--web.enable-remote-write-receiver"])
    }

    /// The same that takes nothing that is older than what it has of a series.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn strict(place: &Path) -> io::Result<Self> {
        Self::with(place, free()?, "global: {}\n", &["--web.enable-remote-write-receiver"])
    }

    fn with(place: &Path, http: SocketAddr, text: &str, flags: &[&str]) -> io::Result<Self> {
        let config = place.join("prometheus.yml");
        fs::write(&config, text)?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", place.join("tsdb").display()));
        command.arg(format!("--web.listen-address={http}"));
        let prey = Prey::start(command.args(flags), &place.join("prometheus.stderr"));
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

    /// All samples of the ten minutes before a time, in seconds, by series.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn samples(&self, until: f64) -> io::Result<BTreeMap<String, String>> {
        let path = format!("/api/v1/query?query=%7Bjob%3D%22self%22%7D%5B10m%5D&time={until}");
        let answer = Http::connect(self.http, PATIENCE)?.ask("GET", &path, None)?.json()?;
        let found = answer.pointer("/data/result").and_then(Value::as_array);
        let found = found.ok_or_else(|| io::Error::other(answer.to_string()))?;
        let text = |series: &Value, of: &str| series.get(of).map(Value::to_string);
        let one = |series| Some((text(series, "metric")?, text(series, "values")?));
        Ok(found.iter().filter_map(one).collect())
    }

    /// Waits until it has exactly these samples before a time.
    ///
    /// # Panics
    /// When it does not for too long.
    #[track_caller]
    pub fn wait_for(&self, samples: &BTreeMap<String, String>, until: f64) {
        let over = clock() + PATIENCE;
        loop {
            let found = self.samples(until).unwrap_or_default();
            if found == *samples {
                return;
            }
            let differs =
                samples.iter().find(|(series, values)| found.get(*series) != Some(values));
            let there = differs.and_then(|(series, _)| found.get(series));
            assert!(clock() < over, "{differs:?}, there {there:?}; {} series", found.len());
            wait(Duration::from_millis(200));
        }
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

/// Free now; whoever takes it meanwhile makes the start fail with words.
///
/// # Errors
/// Whatever the operating system answers.
pub fn free() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn is_ready(http: SocketAddr) -> bool {
    let asked =
        Http::connect(http, PATIENCE).and_then(|mut http| http.ask("GET", "/-/ready", None));
    asked.is_ok_and(|answer| answer.status == 200)
}
