//! NATS and Redis, if they are installed: started here on free ports, spoken to in their own words
//! by the same loop that speaks to us.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use handoff_probe::now;

use crate::load::Wire;

/// How long a peer may take until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// A peer and how it makes messages durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    NatsAlways,
    NatsDefault,
    RedisAlways,
    RedisEverysec,
}

impl Peer {
    pub(super) const ALL: [Self; 4] =
        [Self::NatsAlways, Self::NatsDefault, Self::RedisAlways, Self::RedisEverysec];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NatsAlways => "NATS JetStream, sync always",
            Self::NatsDefault => "NATS JetStream, default (not durable)",
            Self::RedisAlways => "Redis Streams, appendfsync always",
            Self::RedisEverysec => "Redis Streams, everysec (not durable)",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::NatsAlways => "nats_always",
            Self::NatsDefault => "nats_default",
            Self::RedisAlways => "redis_always",
            Self::RedisEverysec => "redis_everysec",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::NatsAlways | Self::NatsDefault => "nats-server",
            Self::RedisAlways | Self::RedisEverysec => "redis-server",
        }
    }

    /// Where its program is.
    pub(super) fn find(self, dir: Option<&Path>) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = dir.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
        dirs.map(|dir| dir.join(self.program())).find(|program| program.is_file())
    }
}

/// A peer at work. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Running {
    pub(super) fn start(peer: Peer, program: &Path, dir: &Path) -> io::Result<Self> {
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
            Peer::RedisAlways | Peer::RedisEverysec => {
                let sync = match peer {
                    Peer::RedisAlways => "always",
                    _ => "everysec",
                };
                command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", sync, "--dir"]).arg(dir);
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

/// JetStream: publish with a reply, an acknowledgement comes back.
#[derive(Debug)]
pub(super) struct Nats {
    request: Vec<u8>,
}

impl Nats {
    pub(super) fn new(bytes: usize) -> Self {
        let payload = "n".repeat(bytes);
        let request = format!("PUB bench.a inbox.a {bytes}\r\n{payload}\r\n").into_bytes();
        Self { request }
    }

    /// Makes the stream.
    pub(super) fn create(address: SocketAddr) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let config = r#"{"name":"bench","subjects":["bench.*"],"storage":"file","num_replicas":1,"retention":"limits"}"#;
        let create = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB inbox.b 1\r\nPUB $JS.API.STREAM.CREATE.bench inbox.b {}\r\n{config}\r\n",
            config.len()
        );
        stream.write_all(create.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::Error::other("NATS made no stream"));
            }
            if line.starts_with('{') {
                return match line.contains("\"error\"") {
                    true => Err(io::Error::other(line)),
                    false => Ok(()),
                };
            }
        }
    }
}

impl Wire for Nats {
    fn greet(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(b"CONNECT {\"verbose\":false}\r\nSUB inbox.a 1\r\nPING\r\n")?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        while !line.starts_with("PONG") {
            line.clear();
            reader.read_line(&mut line)?;
        }
        Ok(())
    }

    /// It asks whether we live; a run is shorter than its patience.
    fn aside(&self, heard: &[u8]) -> usize {
        if heard.starts_with(b"PING\r\n") { 6 } else { 0 }
    }

    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>> {
        let Some(end) = heard.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(heard.get(..end).unwrap_or_default());
        let Some(bytes) = line.strip_prefix("MSG").and_then(|rest| rest.trim().rsplit(' ').next())
        else {
            return Err(io::Error::other(format!("NATS says {line}")));
        };
        let bytes: usize = bytes.parse().map_err(io::Error::other)?;
        let whole = end + 1 + bytes + 2;
        let Some(body) = heard.get(end + 1..whole) else { return Ok(None) };
        if body.windows(7).any(|window| window == b"\"error\"") {
            return Err(io::Error::other(String::from_utf8_lossy(body).into_owned()));
        }
        Ok(Some(whole))
    }
}

/// `XADD`
#[derive(Debug)]
pub(super) struct Redis {
    request: Vec<u8>,
}

impl Redis {
    pub(super) fn new(bytes: usize) -> Self {
        let payload = "r".repeat(bytes);
        let request = format!(
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n${bytes}\r\n{payload}\r\n"
        );
        Self { request: request.into_bytes() }
    }
}

impl Wire for Redis {
    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>> {
        let Some(end) = heard.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(heard.get(..end).unwrap_or_default());
        let Some(bytes) = line.strip_prefix('$') else {
            return Err(io::Error::other(format!("Redis says {line}")));
        };
        let bytes: usize = bytes.trim().parse().map_err(io::Error::other)?;
        let whole = end + 1 + bytes + 2;
        Ok((heard.len() >= whole).then_some(whole))
    }
}
