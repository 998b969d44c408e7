//! The floor of lateness: one thread that writes the same octets to the same number of sockets
//! at the same times, each batch of what is due after one synced write to the same disk, because an
//! occurrence is durable before it is told. Nothing else: no filters, no journal, no bounds.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::BytesMut;
use handoff_probe::now;
use handoff_sevent::{Answer, Event};

use super::listeners::{Due, wall_micros};
use super::{DESCRIPTION_BYTES, Fan, PERIOD_SECS, RAW_BYTES};

/// Between the last session and the first occurrence.
const LEAD: Duration = Duration::from_millis(200);

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = RAW_BYTES / BLOCK_BYTES as u64;

/// The thread. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Plain {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
    begin: Arc<AtomicBool>,
    rate: u32,
}

impl Plain {
    /// Waits for sessions.
    pub(super) fn start(disk: File, sessions: u32, rate: u32, fan: Fan) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let [stop, begin] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let thread = {
            let (stop, begin) = (Arc::clone(&stop), Arc::clone(&begin));
            thread::spawn(move || serve(&listener, &disk, sessions, (rate, fan), (&begin, &stop)))
        };
        Ok(Self { address, stop, thread: Some(thread), begin, rate })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets occurrences begin, and says when each is due.
    pub(super) fn begin(&self) -> Vec<Due> {
        let first = wall_micros() + i64::try_from(LEAD.as_micros()).unwrap_or(0);
        self.begin.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        (0..self.rate)
            .map(|n| {
                let offset = 1e6 * f64::from(n) / f64::from(self.rate);
                #[expect(clippy::cast_possible_truncation, reason = "below a million")]
                let next = first + offset as i64;
                Due { id: i32::try_from(n).unwrap_or(0), next }
            })
            .collect()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.begin.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Clients that went away first break its writes; nobody asks any more.
            drop(thread.join());
        }
    }
}

fn serve(
    listener: &TcpListener,
    disk: &File,
    sessions: u32,
    (rate, fan): (u32, Fan),
    (begin, stop): (&AtomicBool, &AtomicBool),
) -> io::Result<()> {
    let frames: Vec<BytesMut> = (0..rate).map(frame).collect();
    let mut all: Vec<TcpStream> = Vec::new();
    for _ in 0..sessions {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut asked = [0; 256];
        let read = stream.read(&mut asked)?;
        if read == 0 {
            return Ok(());
        }
        let mut answer = BytesMut::new();
        Answer::FilterUpdated.encode(&mut answer);
        stream.write_all(&answer)?;
        all.push(stream);
    }
    while !begin.load(Ordering::Acquire) {
        thread::park();
    }
    let first = now() + LEAD;
    let due = |n: u64| first + Duration::from_secs_f64(n as f64 / f64::from(rate));
    let block = [0x5a; BLOCK_BYTES];
    let (mut next, mut place) = (0_u64, 0);
    while !stop.load(Ordering::Acquire) {
        while now() < due(next) {
            thread::park_timeout(due(next).saturating_duration_since(now()));
        }
        let from = next;
        while due(next) <= now() {
            next += 1;
        }
        disk.write_all_at(&block, place * BLOCK_BYTES as u64)?;
        disk.sync_data()?;
        place = (place + 1) % BLOCKS;
        for n in from..next {
            let place = n % u64::from(rate);
            let to = match fan {
                Fan::One => place % u64::from(sessions)..place % u64::from(sessions) + 1,
                Fan::All => 0..u64::from(sessions),
            };
            let frame = usize::try_from(place).ok().and_then(|place| frames.get(place));
            for stream in to.filter_map(|to| all.get(usize::try_from(to).ok()?)) {
                let mut stream: &TcpStream = stream;
                stream.write_all(frame.map(|frame| &**frame).unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

fn frame(n: u32) -> BytesMut {
    let mut octets = BytesMut::new();
    let description = format!("{:width$}", "a reminder", width = DESCRIPTION_BYTES);
    let event = Event { description, period: PERIOD_SECS, repeat: -1 };
    let types = vec!["to-all".to_owned()];
    let id = i32::try_from(n).unwrap_or(0);
    Answer::Notify { id, types, event, timestamp: 0 }.encode(&mut octets);
    octets
}
