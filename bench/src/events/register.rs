//! Registers events, in the ways that are measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use handoff_probe::{Load, now};
use handoff_sevent::{Answer, Event, Frames, Request, Selection};

use super::{DAY_SECS, DESCRIPTION_BYTES, IDLE_TYPE, PERIOD_SECS};

/// Sessions that register at once.
const SESSIONS: u32 = 8;
/// Requests a session has underway.
const WINDOW: u32 = 256;
/// An answer may list every event there is.
const FRAME_BYTES_MAX: u32 = 64 << 20;

/// One session that asks and waits.
#[derive(Debug)]
pub(super) struct Session {
    stream: TcpStream,
    frames: Frames,
    out: BytesMut,
}

impl Session {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, frames: Frames::new(FRAME_BYTES_MAX), out: BytesMut::new() })
    }

    fn put(&mut self, request: &Request) {
        request.encode(None, &mut self.out);
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut piece = [0; 64 << 10];
        loop {
            if let Some(frame) = self.frames.next().map_err(io::Error::other)? {
                return Answer::decode(&frame).map_err(io::Error::other);
            }
            let read = self.stream.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.frames.extend(piece.get(..read).unwrap_or_default());
        }
    }

    fn registered(&mut self) -> io::Result<i32> {
        match self.answer()? {
            Answer::EventRegistration { id, .. } => Ok(id),
            other => Err(io::Error::other(format!("a registration is answered {other:?}"))),
        }
    }

    pub(super) fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.put(request);
        self.send()?;
        self.answer()
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

fn event(name: &str, period: f64) -> Request {
    let description = format!("{:width$}", "a reminder", width = DESCRIPTION_BYTES);
    Request::RegisterEvent {
        event: Event { description, period, repeat: -1 },
        types: vec![name.to_owned()],
    }
}

/// One session, one request at a time.
pub(super) fn one_at_a_time(address: SocketAddr, time: Duration) -> io::Result<Load> {
    let mut session = Session::open(address)?;
    let request = event("warm", DAY_SECS);
    let mut latencies = Vec::new();
    let begun = now();
    while begun.elapsed() < time {
        let asked = now();
        session.put(&request);
        session.send()?;
        session.registered()?;
        latencies.push(asked.elapsed());
    }
    Ok(Load::of(latencies, begun.elapsed()))
}

/// Several sessions, each with many requests underway. How long it takes.
pub(super) fn pipelined(address: SocketAddr, events: u32) -> io::Result<Duration> {
    let begun = now();
    let threads: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let share = events / SESSIONS + u32::from(number < events % SESSIONS);
            thread::spawn(move || register_share(address, share))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a session's thread panicked"))??;
    }
    Ok(begun.elapsed())
}

/// A full window goes out, then half a window whenever half a window was answered.
fn register_share(address: SocketAddr, share: u32) -> io::Result<()> {
    let mut session = Session::open(address)?;
    let request = event(IDLE_TYPE, DAY_SECS);
    let (mut sent, mut answered) = (0, 0);
    while answered < share {
        while sent < share && sent - answered < WINDOW {
            session.put(&request);
            sent += 1;
        }
        session.send()?;
        let until = answered + ((sent - answered) / 2).max(1);
        while answered < until {
            session.registered()?;
            answered += 1;
        }
    }
    Ok(())
}

/// Events that occur once a second, registered evenly over one second.
pub(super) struct Batch {
    count: u32,
    name: Box<dyn Fn(u32) -> String>,
}

impl Batch {
    pub(super) fn paced(count: u32, name: impl Fn(u32) -> String + 'static) -> Self {
        Self { count, name: Box::new(name) }
    }
}

/// Registers a batch and gives the ids.
pub(super) fn paced(address: SocketAddr, batch: &Batch) -> io::Result<Vec<i32>> {
    let mut session = Session::open(address)?;
    let begun = now();
    let mut ids = Vec::new();
    let mut sent = 0;
    while sent < batch.count {
        let due = f64::from(batch.count) * begun.elapsed().as_secs_f64();
        let before = sent;
        while sent < batch.count && f64::from(sent) <= due {
            session.put(&event(&(batch.name)(sent), PERIOD_SECS));
            sent += 1;
        }
        session.send()?;
        for _ in before..sent {
            ids.push(session.registered()?);
        }
        thread::park_timeout(Duration::from_micros(500));
    }
    Ok(ids)
}

/// Deletes every event of these types.
pub(super) fn delete_types(address: SocketAddr, types: Vec<String>) -> io::Result<()> {
    let mut session = Session::open(address)?;
    match session.ask(&Request::DeleteEvent(Selection { ids: Vec::new(), types }))? {
        Answer::DeletedEvents { .. } => Ok(()),
        other => Err(io::Error::other(format!("a deletion is answered {other:?}"))),
    }
}
