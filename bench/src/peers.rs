//! NATS and Redis, if they are installed: started here on free ports.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use handoff_probe::now;

/// How long a peer may take until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// A peer and how it makes messages durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    NatsAlways,
    NatsDefault,
    RedisAlways,
    RedisEverysec,
    RedisMemory,
}

impl Peer {
    /// Those that keep messages.
    pub(crate) const ALL: [Self; 4] =
        [Self::NatsAlways, Self::NatsDefault, Self::RedisAlways, Self::RedisEverysec];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NatsAlways => "NATS JetStream, sync always",
            Self::NatsDefault => "NATS JetStream, default (not durable)",
            Self::RedisAlways => "Redis Streams, appendfsync always",
            Self::RedisEverysec => "Redis Streams, everysec (not durable)",
            Self::RedisMemory => "Redis",
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::NatsAlways => "nats_always",
            Self::NatsDefault => "nats_default",
            Self::RedisAlways => "redis_always",
            Self::RedisEverysec => "redis_everysec",
            Self::RedisMemory => "redis",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::NatsAlways | Self::NatsDefault => "nats-server",
            Self::RedisAlways | Self::RedisEverysec | Self::RedisMemory => "redis-server",
        }
    }

    /// Where its program is.
    pub(crate) fn find(self, dir: Option<&Path>) -> Option<PathBuf> {
        find(self.program(), dir)
    }
}

/// Where a program is: in a directory, or on the PATH.
pub(crate) fn find(program: &str, dir: Option<&Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = dir.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    dirs.map(|dir| dir.join(program)).find(|program| program.is_file())
}

/// A peer at work. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn start(peer: Peer, program: &Path, dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new(program);
        match peer {
            Peer::NatsAlways | Peer::NatsDefault => {
                let sync = match peer {
                    Peer::NatsAlways => "sync_interval: always",
                    _ => "",
                };
                let config = format!(
                    "listen: 127.0.0.1:{port}\njetstream {{ store_dir: {:?}, max_file_store: 20GB, {sync} }}\n",
                    dir.join("store").display().to_string()
                );
                let file = dir.join("nats.conf");
                fs::write(&file, config)?;
                command.arg("-c").arg(file);
            }
            Peer::RedisAlways | Peer::RedisEverysec | Peer::RedisMemory => {
                let (log, sync) = match peer {
                    Peer::RedisAlways => ("yes", "always"),
                    Peer::RedisMemory => ("no", "no"),
                    _ => ("yes", "everysec"),
                };
                command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", log, "--appendfsync", sync, "--dir"]).arg(dir);
            }
        }
        let log = fs::File::create(dir.join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let running = Self { child, address };
        let begun = now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > START_MAX {
                return Err(io::Error::other(format!("{} does not listen", peer.program())));
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
