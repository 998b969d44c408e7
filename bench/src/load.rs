//! One thread, one `epoll`, any number of connections with requests under way on each.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use handoff_probe::{Load, now};
use rustix::event::epoll;

/// Bytes that one turn reads.
const PIECE_BYTES: usize = 256 << 10;
/// Nobody answers for so long: it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests and answers of one protocol.
pub(crate) trait Wire {
    /// What is said before the first request, and heard.
    fn greet(&mut self, _stream: &mut TcpStream) -> io::Result<()> {
        Ok(())
    }

    /// Appends the next request.
    fn request(&mut self, out: &mut Vec<u8>);

    /// How many bytes at the front of `heard` are one whole answer; none if it is not whole yet.
    fn answer(&mut self, heard: &[u8]) -> io::Result<Option<usize>>;

    /// How many bytes at the front of `heard` are no answer to anything.
    fn aside(&self, _heard: &[u8]) -> usize {
        0
    }
}

struct Connection {
    stream: TcpStream,
    to_say: Vec<u8>,
    said: usize,
    heard: Vec<u8>,
    asked: VecDeque<Instant>,
    waits_to_say: bool,
}

/// What is offered, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) connections: usize,
    /// Requests under way on each.
    pub(crate) window: usize,
    pub(crate) time: Duration,
    /// No more requests than this.
    pub(crate) requests_max: usize,
}

impl Offer {
    pub(crate) fn of(connections: usize, window: usize, time: Duration) -> Self {
        Self { connections, window, time, requests_max: usize::MAX }
    }
}

/// Asks until time is over, then waits for the answers that are owed. They count as calls, and so
/// does the time they take.
pub(crate) fn drive(address: SocketAddr, offer: Offer, wire: &mut impl Wire) -> io::Result<Load> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(offer.connections);
    for number in 0..offer.connections {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        wire.greet(&mut stream)?;
        stream.set_nonblocking(true)?;
        epoll::add(
            &poll,
            &stream,
            epoll::EventData::new_u64(number as u64),
            epoll::EventFlags::IN,
        )?;
        connections.push(Connection {
            stream,
            to_say: Vec::new(),
            said: 0,
            heard: Vec::new(),
            asked: VecDeque::new(),
            waits_to_say: false,
        });
    }
    let mut latencies = Vec::new();
    let mut events = Vec::with_capacity(1024);
    let mut piece = vec![0; PIECE_BYTES];
    let begun = now();
    let (mut asked, mut owed) = (0, 0);
    for (number, connection) in connections.iter_mut().enumerate() {
        while connection.asked.len() < offer.window && asked < offer.requests_max {
            wire.request(&mut connection.to_say);
            connection.asked.push_back(now());
            (asked, owed) = (asked + 1, owed + 1);
        }
        connection.say(&poll, number)?;
    }
    while owed > 0 {
        events.clear();
        let patience = rustix::event::Timespec {
            tv_sec: i64::try_from(PATIENCE.as_secs()).unwrap_or(30),
            tv_nsec: 0,
        };
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&patience))?;
        if events.is_empty() {
            return Err(io::Error::other(format!("{owed} requests were never answered")));
        }
        for event in &events {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(connection) = connections.get_mut(number) else { continue };
            let flags = event.flags;
            if flags.contains(epoll::EventFlags::IN) {
                connection.hear(&mut piece)?;
                let heard_at = now();
                let mut at = 0;
                loop {
                    at += wire.aside(connection.heard.get(at..).unwrap_or_default());
                    let heard = connection.heard.get(at..).unwrap_or_default();
                    let Some(bytes) = wire.answer(heard)? else { break };
                    at += bytes;
                    let Some(since) = connection.asked.pop_front() else {
                        return Err(io::Error::other("an answer nobody asked for"));
                    };
                    latencies.push(heard_at - since);
                    owed -= 1;
                    if heard_at - begun < offer.time && asked < offer.requests_max {
                        wire.request(&mut connection.to_say);
                        connection.asked.push_back(now());
                        (asked, owed) = (asked + 1, owed + 1);
                    }
                }
                connection.heard.drain(..at);
            }
            connection.say(&poll, number)?;
        }
    }
    Ok(Load::of(latencies, begun.elapsed()))
}

impl Connection {
    fn hear(&mut self, piece: &mut [u8]) -> io::Result<()> {
        match self.stream.read(piece) {
            Ok(0) => Err(io::Error::other("the server closed a connection")),
            Ok(read) => {
                self.heard.extend_from_slice(piece.get(..read).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "what is not written now is written later")]
    fn say(&mut self, poll: &impl std::os::fd::AsFd, number: usize) -> io::Result<()> {
        while let Some(rest) = self.to_say.get(self.said..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(written) => self.said += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.wait_to_say(poll, number, true);
                }
                Err(error) => return Err(error),
            }
        }
        self.to_say.clear();
        self.said = 0;
        self.wait_to_say(poll, number, false)
    }

    fn wait_to_say(
        &mut self,
        poll: &impl std::os::fd::AsFd,
        number: usize,
        waits: bool,
    ) -> io::Result<()> {
        if self.waits_to_say != waits {
            self.waits_to_say = waits;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, waits);
            epoll::modify(poll, &self.stream, epoll::EventData::new_u64(number as u64), flags)?;
        }
        Ok(())
    }
}
