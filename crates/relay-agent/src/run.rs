//! The whole agent, from settings to the last byte: one straight line.
//!
//! ```text
//!  check ─▶ bind ─▶ HTTP says "opening" ─▶ read the spool ─▶ core ─▶ ready
//!                                                                    │
//!  the shelf finishes ◀─ answers go out ◀─ confirmed or on disk ◀─ nothing new ◀─ stop
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_log::directory::{self, Lock};
use handoff_log::disk::{Disk, Real};
use handoff_relay::codec::Workbench;
use handoff_relay::refill::{RefillError, Spool};
use handoff_relay::{BadName, BadRules, Name};
use handoff_types::Code;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Outside;
use crate::core::{Core, DiskFailed, MAILBOX, Parts};
use crate::http;
use crate::line::Line;
use crate::metrics::{Metrics, Phase};
use crate::settings::Settings;
use crate::shelf::{self, Shelf, Tools};
use crate::way::Way;

/// Connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 256;

/// How long answers that are due may take to go out when the time to stop is over already.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What the composition root does for the agent.
pub struct Hooks {
    /// Time and chance.
    pub outside: Outside,
    /// The agent's listener speaks TLS with this; it must offer HTTP/1.1.
    pub tls: Option<Arc<ServerConfig>>,
    /// Called once, when everything is up.
    pub ready: Box<dyn FnOnce(SocketAddr) + Send>,
    /// Stops the agent.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// Why an agent does not start, or ended otherwise than it was asked to. Each says what happened, why,
/// and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Others reach the listener, and everybody may send.
    #[error(
        "agent.listen is {0}, which others can reach, and agent.token_file is not set: everybody could send samples; set agent.token_file, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    /// The address is taken.
    #[error(
        "agent.listen {address} is taken by another program; `ss -ltnp 'sport = :{}'` shows which: stop it, or choose another address with --listen or agent.listen",
        address.port()
    )]
    Taken {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error(
        "agent.listen {address} cannot be listened on: {fault}; give an address of this machine"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system answered.
        #[source]
        fault: io::Error,
    },
    /// The agent or a destination has a name that nobody may have.
    #[error("`{name}` is no name for {what}: {why}")]
    Name {
        /// What it should name.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        why: BadName,
    },
    /// The rules do not make sense together.
    #[error(transparent)]
    Rules(#[from] BadRules),
    /// A destination cannot be talked to.
    #[error("destination {name}: {why}")]
    Way {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// The spool cannot be read.
    #[error(
        "the refill files in {path} cannot be read: {fault}; look at the disk and at who may read them"
    )]
    Spool {
        /// Where.
        path: String,
        /// What the disk answered.
        #[source]
        fault: RefillError,
    },
    /// The system gave no thread or no memory.
    #[error("the system gives no {what}: {fault}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it answered.
        #[source]
        fault: io::Error,
    },
    /// The disk failed a refill file.
    #[error(
        "the disk failed the refill files: {0}; look at the kernel log and at the disk, then start again: what was acknowledged is there"
    )]
    DiskFailed(#[source] RefillError),
    /// A part of the agent is gone.
    #[error(
        "the agent ended by a mistake of ours; the log says where. Start again: nothing that was acknowledged is lost"
    )]
    Gone,
}

impl AgentError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Exposed(_) => Code::AuthRequired,
            Self::Taken { .. } => Code::PortTaken,
            Self::Listen { .. } => Code::AddressUnusable,
            Self::Name { .. } | Self::Rules(_) | Self::Way { .. } => Code::ConfigInvalid,
            Self::Directory(error) => error.code(),
            Self::Spool { .. } | Self::DiskFailed(_) | Self::System { .. } => Code::DiskFault,
            Self::Gone => Code::Internal,
        }
    }
}

/// Runs an agent until [`Hooks::stop`].
///
/// Told to stop, it takes nothing new; what no destination confirms within half of
/// `agent.stop_secs_max` goes to disk, and then it ends.
///
/// # Errors
/// [`AgentError`]
///
/// # Cancel safety
/// Dropped, everything ends at once, as if the process were killed.
pub async fn run(mut settings: Settings, hooks: Hooks) -> Result<(), AgentError> {
    let Hooks { outside, tls, ready, stop } = hooks;
    let (agent, ways) = check(&mut settings)?;
    let (listener, address) = bind(settings.listen)?;
    let names = settings.destinations.iter().map(|one| one.name.as_str());
    let metrics = Arc::new(Metrics::new(names));
    let (events, mailbox) = mpsc::channel(MAILBOX);
    let closing = CancellationToken::new();
    let door = http::Door::new(&settings, Arc::clone(&metrics), events.clone());
    let door = tokio::spawn(http::serve(listener, tls, door, closing.clone()));

    let begun = settings.clone();
    let opened = spawn_blocking(move || open(&begun)).await.map_err(|_| AgentError::Gone)??;
    let (tools, opening, _lock) = opened;
    metrics.give_up(crate::metrics::GIVEN_UP_DAMAGED, opening.damaged);
    info!(files = opening.sealed.len(), "the spool was read");
    let thread = |fault| AgentError::System { what: "thread", fault };
    let shelf = Shelf::start(tools, opening.files, events.clone()).map_err(thread)?;
    let bench = Workbench::new().map_err(|fault| AgentError::System { what: "memory", fault })?;
    let stop_time_max = settings.stop_time_max;
    let core = Core::new(Parts {
        settings,
        agent,
        dial: Box::new(move |line, to| Line::open(line, ways.get(to).cloned(), events.clone())),
        outside,
        metrics: Arc::clone(&metrics),
        shelf,
        sealed: opening.sealed,
        bench,
    });
    let core = tokio::spawn(core.run(mailbox, stop.clone()));
    metrics.set_phase(Phase::Ready);
    ready(address);
    let watch = {
        let (metrics, stop) = (Arc::clone(&metrics), stop.clone());
        tokio::spawn(async move {
            stop.cancelled().await;
            metrics.set_phase(Phase::Stopping);
        })
    };
    let ended = core.await.map_err(|_| AgentError::Gone)?;
    watch.abort();
    metrics.set_phase(Phase::Stopping);
    closing.cancel();
    let patience = stop_time_max.max(LAST_WORDS);
    if timeout(LAST_WORDS, door).await.is_err() {
        warn!("some who sent samples did not listen to the answer");
    }
    let mut shelf = ended.map_err(|DiskFailed(error)| AgentError::DiskFailed(error))?;
    let finish = spawn_blocking(move || shelf.close().map(std::thread::JoinHandle::join));
    if timeout(patience, finish).await.is_err() {
        warn!("the disk did not finish in time; the next start goes on from what is there");
    }
    info!("stopped");
    Ok(())
}

/// Checks what can be checked without touching anything.
pub(crate) fn check(settings: &mut Settings) -> Result<(Name, Vec<Arc<Way>>), AgentError> {
    // One order for all: that of refill files.
    settings.destinations.sort_by(|one, other| one.name.cmp(&other.name));
    let address = settings.listen;
    if !address.ip().to_canonical().is_loopback() && settings.token.is_none() {
        return Err(AgentError::Exposed(address));
    }
    let named = |what, text: &str| {
        let bad = |why| AgentError::Name { what, name: text.to_owned(), why };
        Name::try_from(text).map_err(bad)
    };
    let agent = named("an agent", &settings.name)?;
    let mut ways = Vec::new();
    settings.rules.destinations.clear();
    for one in &settings.destinations {
        settings.rules.destinations.push(named("a destination", &one.name)?);
        let way = Way::new(one.address.clone(), one.ca_file.as_deref());
        let bad = |why| AgentError::Way { name: one.name.clone(), why };
        ways.push(Arc::new(way.map_err(bad)?));
    }
    settings.rules.check()?;
    Ok((agent, ways))
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), AgentError> {
    let listen = || -> io::Result<(TcpListener, SocketAddr)> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        // Whoever is accepted inherits it: a peer that is gone without a word is noticed some day.
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|fault| match fault.kind() {
        io::ErrorKind::AddrInUse => AgentError::Taken { address },
        _ => AgentError::Listen { address, fault },
    })
}

/// Takes the data directory and reads every file of the spool.
fn open(settings: &Settings) -> Result<(Tools, shelf::Opening, Lock), AgentError> {
    let path = settings.data_dir.display().to_string();
    let unreadable = |fault: RefillError| AgentError::Spool { path: path.clone(), fault };
    let disk = Real::new(&settings.data_dir).map_err(|fault| unreadable(fault.into()))?;
    let lock = Lock::take(&settings.data_dir)?;
    let looking = Real::new(&settings.data_dir).map_err(|fault| unreadable(fault.into()))?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let spool = Spool::open(disk, "spool", "quarantine", settings.spool);
    let spool = spool.map_err(|fault| unreadable(fault.into()))?;
    let opening = shelf::open(&spool, settings.refill).map_err(unreadable)?;
    let tools = Tools {
        spool,
        limits: settings.refill,
        free: Box::new(move || looking.free_bytes()),
        free_min: settings.disk_free_min,
    };
    Ok((tools, opening, lock))
}
