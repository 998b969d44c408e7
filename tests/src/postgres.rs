//! A PostgreSQL server of one's own: initialised in a directory that goes with it, on a free port of
//! this machine, with `fsync` on. Stopped when it is dropped, also by a panic, and when whoever
//! started it is killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// A server that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a start is tried: a port may be taken meanwhile, and a server that was killed still
/// holds memory until the last of its processes is gone.
const STARTS_MAX: usize = 50;

const USER: &str = "handoff";

/// What its user says to be let in.
pub const PASSWORD: &str = "not-a-secret";

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    // Dropped last: the server lives in it.
    running: Option<Running>,
    port: u16,
    programs: PathBuf,
    place: Place,
}

#[derive(Debug)]
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
    /// Initialises and starts a server.
    ///
    /// # Panics
    /// When that does not succeed; the words say why.
    #[must_use]
    pub fn start() -> Self {
        let programs = programs();
        let place = Place::temporary().expect("the temporary directory takes files");
        if let Some((user, group)) = owner() {
            chown(place.path(), Some(user), Some(group)).expect("root gives a directory away");
        }
        let password = place.path().join("password");
        fs::write(&password, PASSWORD).expect("the directory takes files");
        let mut initdb = command(&programs.join("initdb"), place.path());
        initdb.args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8"]);
        // Nothing was acknowledged yet that a crash might lose.
        initdb.args(["--locale", "C", "--no-sync", "--pwfile"]).arg(&password);
        initdb.arg("--pgdata").arg(place.path().join("data"));
        run(initdb);
        let mut server = Self { running: None, port: 0, programs, place };
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
                Ok(running) => {
                    self.running = Some(running);
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
        panic!("PostgreSQL does not start: {last}");
    }

    fn try_start(&self) -> Result<Running, String> {
        let here = self.place.path();
        let mut postgres = command(&self.programs.join("postgres"), here);
        postgres.arg("-D").arg(here.join("data")).args(["-p", &self.port.to_string()]);
        postgres.arg("-k").arg(here);
        for set in [
            "listen_addresses=127.0.0.1",
            "fsync=on",
            "synchronous_commit=on",
            "full_page_writes=on",
            "shared_buffers=32MB",
            "max_connections=80",
            "lc_messages=C",
            "max_wal_size=256MB",
        ] {
            postgres.args(["-c", set]);
        }
        let mut child = postgres.stderr(Stdio::piped()).spawn().expect("postgres can be started");
        let (said, lines) = sync_channel(4096);
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                // Whoever asks listens to the first lines; the rest must not fill the pipe.
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    drop(said.try_send(line));
                }
            });
        }
        let mut running = Running { child, lines };
        let mut words = Vec::new();
        loop {
            match running.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("ready to accept") => return Ok(running),
                Ok(line) => words.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("PostgreSQL says nothing: {words:?}"),
                Err(RecvTimeoutError::Disconnected) => {
                    drop(running.child.wait());
                    return Err(words.join("\n"));
                }
            }
        }
    }

    /// A new database of its own; gives its address.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn database(&self) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
        self.sql(&self.address("postgres"), &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    /// The address of a database.
    #[must_use]
    pub fn address(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// What a statement answers, rows by lines and columns by `|`.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use = "an answer that nobody looks at; drop it if that is meant"]
    pub fn ask(&self, address: &str, sql: &str) -> String {
        let mut psql = command(&self.programs.join("psql"), self.place.path());
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, address]);
        run(psql).trim().to_owned()
    }

    /// Does what a statement says.
    ///
    /// # Panics
    /// When it is refused.
    pub fn sql(&self, address: &str, sql: &str) {
        drop(self.ask(address, sql));
    }

    /// Kills every process of it, as if the machine's memory had gone.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let all = [vec![running.child.id()], children(running.child.id())].concat();
        for id in all {
            signal(id, Signal::KILL);
        }
        drop(running.child.wait());
    }

    /// Stops it in order.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // Whoever is still connected is cut off.
        signal(running.child.id(), Signal::INT);
        drop(running.child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // One that is gone already does not mind.
        kill_process(pid, signal).unwrap_or_default();
    }
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Behind the name, which may contain anything: state, then the parent.
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent(*id) == Some(of)).collect()
}

/// Where the newest server is installed.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path)));
    let installed = newest.max().map(|(_, path)| path.join("bin"));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let all = installed.into_iter().chain(std::env::split_paths(&on_path));
    let found = all.into_iter().find(|path| path.join("initdb").is_file());
    found.expect(
        "there is no PostgreSQL server: apt-get install postgresql, or scripts/test postgres",
    )
}

/// Whose the server is: it refuses to be root's.
fn owner() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let postgres = users.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = postgres.expect("Debian's package makes a user postgres").split(':').skip(2);
    let mut number = || fields.next()?.parse::<u32>().ok();
    Some((number()?, number()?))
}

/// A program as that user. It ends with the thread that started it.
fn command(program: &Path, here: &Path) -> Command {
    let mut command = Command::new("setpriv");
    // SIGQUIT: PostgreSQL ends at once and takes its processes along.
    command.args(["--pdeathsig", "QUIT"]);
    if let Some((user, group)) = owner() {
        command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
        command.arg("--clear-groups");
    }
    command.arg(program).current_dir(here).env("LC_ALL", "C").env("HOME", here);
    command.env("PGCONNECT_TIMEOUT", "30").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn run(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut said = String::new();
    let stderr = child.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut words = String::new();
            drop(stderr.read_to_string(&mut words));
            words
        })
    });
    if let Some(mut stdout) = child.stdout.take() {
        drop(stdout.read_to_string(&mut said));
    }
    let words = stderr.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let status = child.wait().expect("it ends");
    let program: Vec<&OsStr> = command.get_args().collect();
    assert!(status.success(), "{program:?}: {status}\n{said}{words}");
    said
}

/// A port of this machine that nobody has, and not PostgreSQL's own.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there are free ports");
        let port = listener.local_addr().expect("it has an address").port();
        if port != 5432 {
            return port;
        }
    }
}
