//! Sessions that listen: one thread, one `epoll`, as little as possible between the socket and
//! the clock.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handoff_probe::{Load, now};
use handoff_sevent::{Answer, Frames, Request, Selection};
use rustix::event::epoll;

use super::register::Session;
use crate::samples::Samples;

/// Messages are small here.
const FRAME_BYTES_MAX: u32 = 1 << 20;
const PERIOD_MICROS: i64 = 1_000_000;
/// What comes before this is the start and not measured.
const WARM_UP: Duration = Duration::from_millis(1_500);
/// So long a stretch has its own percentiles: whoever lends us the processors takes them away for
/// tens of milliseconds now and then, and the median stretch is one in which nobody did.
const STRETCH: Duration = Duration::from_millis(250);
const WAKE_UP: epoll::EventFlags = epoll::EventFlags::IN;

/// An event that occurs once a second, and when next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) id: i32,
    /// Microseconds since the Unix epoch.
    pub(super) next: i64,
}

/// What listening gave.
#[derive(Debug)]
pub(super) struct Lateness {
    /// How late each notification was.
    pub(super) load: Load,
    /// Within what 99 of 100 came, in each stretch of a quarter second, in milliseconds.
    pub(super) stretches: Samples,
    /// Notifications that were not the next of their event to their session.
    pub(super) disorder: u64,
}

#[derive(Debug)]
struct Listener {
    stream: TcpStream,
    frames: Frames,
    /// Which occurrence of each event came last.
    seen: HashMap<i32, i64>,
}

/// Sessions that listen.
#[derive(Debug)]
pub(super) struct Listeners {
    address: SocketAddr,
    count: u32,
    all: Vec<Listener>,
}

impl Listeners {
    pub(super) fn connect(address: SocketAddr, count: u32) -> io::Result<Self> {
        Ok(Self { address, count, all: Vec::new() })
    }

    /// Opens every session anew, with a filter of one type.
    pub(super) fn subscribe(&mut self, name: impl Fn(u32) -> String) -> io::Result<()> {
        self.all.clear();
        for number in 0..self.count {
            let mut session = Session::open(self.address)?;
            let types = vec![name(number)];
            let answer = session.ask(&Request::Subscribe(Selection { ids: Vec::new(), types }))?;
            if answer != Answer::FilterUpdated {
                return Err(io::Error::other(format!("a subscription is answered {answer:?}")));
            }
            let stream = session.into_stream();
            stream.set_nonblocking(true)?;
            let frames = Frames::new(FRAME_BYTES_MAX);
            self.all.push(Listener { stream, frames, seen: HashMap::new() });
        }
        Ok(())
    }

    /// Listens for a while.
    pub(super) fn listen(&mut self, dues: &[Due], time: Duration) -> io::Result<Lateness> {
        let dues: HashMap<i32, i64> = dues.iter().map(|due| (due.id, due.next)).collect();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, listener) in self.all.iter().enumerate() {
            epoll::add(&poll, &listener.stream, epoll::EventData::new_u64(number as u64), WAKE_UP)?;
        }
        let mut latencies: Vec<Vec<Duration>> = Vec::new();
        let mut disorder = 0;
        let mut events = Vec::with_capacity(1024);
        let mut piece = vec![0; 64 << 10];
        let begun = now();
        let over = WARM_UP + time;
        while begun.elapsed() < over {
            events.clear();
            let patience = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&patience))?;
            for event in &events {
                let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                let Some(listener) = self.all.get_mut(number) else { continue };
                let read = match listener.stream.read(&mut piece) {
                    Ok(0) => return Err(io::Error::other("the server closed a session")),
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                };
                let at = wall_micros();
                let measured = begun.elapsed().checked_sub(WARM_UP);
                listener.frames.extend(piece.get(..read).unwrap_or_default());
                while let Some(frame) = listener.frames.next().map_err(io::Error::other)? {
                    let answer = Answer::decode(&frame).map_err(io::Error::other)?;
                    let Answer::Notify { id, .. } = answer else { continue };
                    let Some(next) = dues.get(&id) else { continue };
                    // The first tells which occurrence it is; the others follow one by one.
                    let number = match listener.seen.get(&id) {
                        None => (at - next).div_euclid(PERIOD_MICROS),
                        Some(last) => last + 1,
                    };
                    listener.seen.insert(id, number);
                    let late = at - (next + number * PERIOD_MICROS);
                    if late < -PERIOD_MICROS / 2 {
                        disorder += 1;
                    }
                    let Some(measured) = measured else { continue };
                    let stretch = (measured.as_millis() / STRETCH.as_millis()) as usize;
                    latencies.resize_with(latencies.len().max(stretch + 1), Vec::new);
                    if let Some(stretch) = latencies.get_mut(stretch) {
                        stretch.push(Duration::from_micros(u64::try_from(late).unwrap_or(0)));
                    }
                }
            }
        }
        let elapsed = begun.elapsed().saturating_sub(WARM_UP);
        let p99 =
            |stretch: &Vec<Duration>| Load::of(stretch.clone(), STRETCH).micros_at(0.99) / 1e3;
        let stretches = latencies.iter().map(p99).collect();
        let load = Load::of(latencies.concat(), elapsed);
        Ok(Lateness { load, stretches, disorder })
    }
}

#[expect(clippy::disallowed_methods, reason = "lateness is against the clock the server reads")]
pub(super) fn wall_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
