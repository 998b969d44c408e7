//! The real binary as a process: started, ready, asked, ended.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::prey::{Lair, Prey, Said};

/// A server that says nothing for so long hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary that lies beside this program, built with the same profile.
///
/// # Panics
/// When it is not there; the words say how to build it.
#[must_use]
pub fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap_or_default();
    let found = here.ancestors().skip(1).take(2).map(|dir| dir.join("handoff"));
    let found = found.into_iter().find(|path| path.is_file());
    found.expect("there is no handoff beside this program: cargo build -p handoff, same profile")
}

/// How a server is started: on free ports, with a directory of its own.
#[must_use]
pub fn lair(place: &Path) -> Lair {
    Lair::new(program(), place)
        .verb("serve")
        .with("--json")
        .with("--listen=127.0.0.1:0")
        .with("--events-listen=127.0.0.1:0")
        .with("--relay-listen=127.0.0.1:0")
}

/// A server that is ready. Dropped, it is killed.
#[derive(Debug)]
pub struct Served {
    /// The process.
    pub prey: Prey,
    /// Where HTTP is.
    pub http: SocketAddr,
    /// Where sevent is.
    pub events: SocketAddr,
    /// Where agents of the relay come to, if they are received.
    pub relay: Option<SocketAddr>,
}

impl Served {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// With its last words when it ends before that.
    pub fn start(lair: &Lair) -> io::Result<Self> {
        Self::ready(lair.start()?)
    }

    /// Waits until a server is ready.
    ///
    /// # Errors
    /// With its last words when it ends before that.
    pub fn ready(mut prey: Prey) -> io::Result<Self> {
        let line = match prey.listen(PATIENCE) {
            Said::Line(line) => line,
            Said::Silent => return Err(io::Error::other("the server says nothing")),
            Said::Gone => {
                let status = prey.ended()?;
                let words = prey.last_words();
                return Err(io::Error::other(format!("the server ended, {status}: {words}")));
            }
        };
        let ready: Value = serde_json::from_str(&line)?;
        let address = |name: &str| {
            let text = ready.get("listeners").and_then(|all| all.get(name)?.as_str());
            text.and_then(|text| text.parse().ok())
                .ok_or_else(|| io::Error::other(format!("no {name} listener in {line}")))
        };
        let (http, events) = (address("http")?, address("events")?);
        Ok(Self { prey, http, events, relay: address("relay").ok() })
    }

    /// Tells it to end and waits until it has.
    ///
    /// # Errors
    /// When it does not end with success.
    pub fn stop(mut self) -> io::Result<()> {
        self.prey.terminate()?;
        let status = self.prey.ended()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the server ended, {status}: {}", self.prey.last_words())))
    }
}
