//! NATS and BullMQ, by clients of their own: a process each, which measures and says what came of it as
//! one line of JSON.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::{Figures, PAYLOAD_BYTES};
use crate::peers::find;

/// What a client says.
#[derive(Debug, Deserialize)]
struct Said {
    p50_micros: f64,
    rate: f64,
}

impl Said {
    fn of(name: &str, output: &[u8]) -> io::Result<Figures> {
        let Self { p50_micros, rate } = serde_json::from_slice(output)
            .map_err(|error| io::Error::other(format!("{name} says no figures: {error}")))?;
        Ok(Figures { p50_micros, rate })
    }
}

/// `bench/clients/nats`
#[derive(Debug)]
pub(super) struct Nats {
    client: PathBuf,
    address: SocketAddr,
    how: &'static str,
}

impl Nats {
    pub(super) fn new(client: &Path, address: SocketAddr, how: &'static str) -> Self {
        Self { client: client.to_owned(), address, how }
    }

    pub(super) fn measure(&self, many: usize, time: Duration) -> io::Result<Figures> {
        let output = Command::new(&self.client)
            .args([self.address.to_string(), self.how.to_owned(), many.to_string()])
            .args([time.as_secs_f64().to_string(), PAYLOAD_BYTES.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        Said::of("NATS", &output.stdout)
    }
}

/// A script for Node, which finds the package beside the other peers.
const BULL: &str = include_str!("../../clients/bullmq.mjs");

/// BullMQ.
#[derive(Debug)]
pub(super) struct Bull {
    node: PathBuf,
    dir: PathBuf,
}

impl Bull {
    pub(super) fn find(peers: Option<&Path>) -> Option<Self> {
        let node = find("node", peers)?;
        let dir = peers.unwrap_or(Path::new(".")).to_owned();
        dir.join("node_modules/bullmq").is_dir().then_some(Self { node, dir })
    }

    pub(super) fn measure(
        &self,
        redis: SocketAddr,
        many: usize,
        time: Duration,
    ) -> io::Result<Figures> {
        let mut child = Command::new(&self.node)
            .args(["--input-type=module", "-"])
            .args([redis.port().to_string(), many.to_string()])
            .args([time.as_secs_f64().to_string(), PAYLOAD_BYTES.to_string()])
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(BULL.as_bytes())?;
        }
        Said::of("BullMQ", &child.wait_with_output()?.stdout)
    }
}
