//! A Redis server of one's own: in a directory that goes with it, on a free port of this machine. Stopped
//! when it is dropped, also by a panic, and when whoever started it is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// A server that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a start is tried: a port may be taken meanwhile.
const STARTS_MAX: usize = 20;

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Every write is on disk before it is answered.
    pub append_only: bool,
    /// Whether it is part of a cluster.
    pub cluster: bool,
    /// The certificate and its key, PEM, if it speaks TLS and nothing else.
    pub tls: Option<(String, String)>,
    /// What else its command line says.
    pub more: Vec<String>,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    // Dropped last: the server lives in it.
    child: Option<Child>,
    port: u16,
    setup: Setup,
    place: Place,
}

impl Server {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Panics
    /// When that does not succeed; the words say why.
    #[must_use]
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    /// When that does not succeed; the words say why.
    #[must_use]
    pub fn with(setup: Setup) -> Self {
        let place = Place::temporary().expect("the temporary directory takes files");
        let mut server = Self { child: None, port: 0, setup, place };
        server.go_on();
        server
    }

    /// Starts it again, where it was, on the same port if that is free.
    ///
    /// # Panics
    /// When it does not start.
    pub fn go_on(&mut self) {
        let mut last = String::new();
        for _ in 0..STARTS_MAX {
            if self.port == 0 {
                self.port = free_port();
            }
            match self.try_start() {
                Ok(child) => {
                    self.child = Some(child);
                    return;
                }
                Err(words) => {
                    if words.contains("Address already in use") {
                        self.port = 0;
                    }
                    last = words;
                }
            }
        }
        panic!("Redis does not start: {last}");
    }

    fn try_start(&self) -> Result<Child, String> {
        let mut redis = Command::new("setpriv");
        redis.args(["--pdeathsig", "KILL", "redis-server"]);
        let port = self.port.to_string();
        match &self.setup.tls {
            None => drop(redis.args(["--port", &port])),
            Some((certificate, key)) => {
                let (beside, own) = ("server.pem", "server.key");
                for (name, pem) in [(beside, certificate), (own, key)] {
                    std::fs::write(self.place.path().join(name), pem).expect("it takes files");
                }
                redis.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"]);
                redis.args(["--tls-cert-file", beside, "--tls-key-file", own]);
                redis.args(["--tls-ca-cert-file", beside]);
            }
        }
        redis.args(["--bind", "127.0.0.1", "--save", ""]);
        redis.args(["--appendonly", if self.setup.append_only { "yes" } else { "no" }]);
        redis.args(["--appendfsync", "always", "--dir"]).arg(self.place.path());
        redis.args(["--cluster-enabled", if self.setup.cluster { "yes" } else { "no" }]);
        redis.args(&self.setup.more).current_dir(self.place.path());
        redis.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = redis.spawn().expect(
            "there is no Redis server: apt-get install redis-server, or scripts/test redis",
        );
        let lines = lines(&mut child);
        let mut words = Vec::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("Ready to accept") => return Ok(child),
                Ok(line) => words.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("Redis says nothing: {words:?}"),
                Err(RecvTimeoutError::Disconnected) => {
                    drop(child.wait());
                    return Err(words.join("\n"));
                }
            }
        }
    }

    /// Its address, as clients write it.
    #[must_use]
    pub fn address(&self) -> String {
        let scheme = if self.setup.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// A connection of one's own.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn connect(&self) -> Wire {
        Wire::connect(self.socket())
    }

    /// What a command answers.
    ///
    /// # Panics
    /// When the server does not answer.
    #[must_use = "an answer that nobody looks at; drop it if that is meant"]
    pub fn ask(&self, words: &[&str]) -> Said {
        self.connect().ask(words)
    }

    /// Kills it, as if the machine's memory had gone.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(child.id(), Signal::KILL);
        drop(child.wait());
    }

    /// Freezes it: its sockets stay open and nothing comes.
    pub fn freeze(&self) {
        self.child.iter().for_each(|child| signal(child.id(), Signal::STOP));
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.child.iter().for_each(|child| signal(child.id(), Signal::CONT));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.thaw();
        self.kill();
    }
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (said, lines) = sync_channel(256);
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            // Whoever asks listens to the first lines; the rest must not fill the pipe.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                drop(said.try_send(line));
            }
        });
    }
    lines
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // One that is gone already does not mind.
        kill_process(pid, signal).unwrap_or_default();
    }
}

/// A port of this machine that nobody has, and not Redis' own.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are free ports");
        let port = listener.local_addr().expect("it has an address").port();
        // A clustered server takes the port that is 10000 further, too.
        if port != 6379 && port < 55_000 {
            return port;
        }
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A word, or bytes as text.
    Text(String),
    /// It refuses.
    Refused(String),
    /// A number.
    Number(i64),
    /// Nothing.
    Nothing,
    /// Several.
    List(Vec<Said>),
}

impl Said {
    /// Its text, or nothing.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Its texts.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::List(all) => all.iter().map(Self::text).collect(),
            _ => Vec::new(),
        }
    }
}

/// A connection that knows bytes and nothing else.
#[derive(Debug)]
pub struct Wire {
    reader: BufReader<TcpStream>,
}

impl Wire {
    /// Connects.
    ///
    /// # Panics
    /// When that does not succeed.
    #[must_use]
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes options");
        Self { reader: BufReader::new(stream) }
    }

    /// Sends a command.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn send(&mut self, words: &[&str]) {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.reader.get_mut().write_all(bytes.as_bytes()).expect("the server listens");
    }

    /// Sends a command and reads its answer.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn ask(&mut self, words: &[&str]) -> Said {
        self.send(words);
        self.hear()
    }

    /// The next thing that the server says.
    ///
    /// # Panics
    /// When the connection is gone, or nothing comes for long.
    pub fn hear(&mut self) -> Said {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the server speaks");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" => Said::Text(rest.to_owned()),
            "-" => Said::Refused(rest.to_owned()),
            ":" => Said::Number(rest.parse().expect("a number")),
            "$" if rest == "-1" => Said::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.reader.read_exact(&mut bytes).expect("the server speaks");
                bytes.truncate(bytes.len() - 2);
                Said::Text(String::from_utf8(bytes).expect("text"))
            }
            "*" if rest == "-1" => Said::Nothing,
            "*" => {
                let count: usize = rest.parse().expect("a count");
                Said::List((0..count).map(|_| self.hear()).collect())
            }
            _ => panic!("this is no answer: {line:?}"),
        }
    }
}
