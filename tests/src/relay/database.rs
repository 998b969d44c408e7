//! A database that takes remote write, in this process: it keeps what it takes, says what it is told to
//! say, and can stand before a real one.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::samples::{Taken, read_v1};
use crate::http::Http;
use crate::served::PATIENCE;

/// What it does with whoever writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It takes what comes.
    Yes,
    /// It takes nothing, and says so with this status.
    Status(u16),
    /// It takes what comes, and hangs up without a word, once; then as before.
    NothingOnce,
}

#[derive(Debug)]
struct State {
    says: Says,
    /// Who answers in its place.
    behind: Option<SocketAddr>,
    taken: BTreeMap<Taken, u64>,
    /// What it answered, one after the other, and how many requests came.
    answers: Vec<u16>,
    tokens: Vec<Option<String>>,
}

/// The database.
#[derive(Debug)]
pub struct Database {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Database {
    /// One that takes what comes.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = State {
            says: Says::Yes,
            behind: None,
            taken: BTreeMap::new(),
            answers: Vec::new(),
            tokens: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), state) = (stream, Arc::clone(&held)) else { return };
                thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(Self { address, state })
    }

    /// One that passes everything on to another, and its answers back.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn before(real: SocketAddr) -> io::Result<Self> {
        let database = Self::new()?;
        database.state().behind = Some(real);
        Ok(database)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where samples are written.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Changes what it says.
    pub fn say(&self, says: Says) {
        self.state().says = says;
    }

    /// What it took, and how often.
    #[must_use]
    pub fn taken(&self) -> BTreeMap<Taken, u64> {
        self.state().taken.clone()
    }

    /// The statuses of all requests that came, 0 for those that were not answered.
    #[must_use]
    pub fn answers(&self) -> Vec<u16> {
        self.state().answers.clone()
    }

    /// What those who wrote showed as their token.
    #[must_use]
    pub fn tokens(&self) -> Vec<Option<String>> {
        self.state().tokens.clone()
    }
}

/// Serves one connection; whatever goes wrong ends it.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (token, body) = request(&mut reader)?;
        let (says, behind) = {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.says, state.behind)
        };
        let (status, words) = match (says, behind) {
            (Says::Status(status), _) => (status, "as it was told".to_owned()),
            (_, Some(real)) => passed_on(real, &body)?,
            (Says::Yes | Says::NothingOnce, None) => (204, String::new()),
        };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if (200..300).contains(&status) {
            for sample in read_v1(&body)? {
                *state.taken.entry(sample).or_default() += 1;
            }
        }
        state.tokens.push(token);
        let is_silent = says == Says::NothingOnce;
        state.answers.push(if is_silent { 0 } else { status });
        if is_silent {
            state.says = Says::Yes;
            return None;
        }
        drop(state);
        let length = words.len();
        write!(writer, "HTTP/1.1 {status} -\r\ncontent-length: {length}\r\n\r\n{words}").ok()?;
    }
}

/// The token and the body of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(Option<String>, Vec<u8>)> {
    let (mut length, mut token) = (0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "authorization" => token = Some(value.trim().to_owned()),
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((token, body))
}

fn passed_on(real: SocketAddr, body: &[u8]) -> Option<(u16, String)> {
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    let mut http = Http::connect(real, PATIENCE).ok()?;
    http.send_octets("POST", "/api/v1/write", &headers, body).ok()?;
    let answer = http.answer().ok()?;
    Some((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}
