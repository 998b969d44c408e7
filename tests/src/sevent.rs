//! A sevent client that knows only octets: written from the protocol's page, it shares no code
//! with the server or the client library.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Message codes.
pub mod code {
    #![allow(missing_docs, reason = "the names are those of the protocol")]
    pub const ERROR: u8 = 1;
    pub const REGISTER_EVENT: u8 = 2;
    pub const EVENT_REGISTRATION: u8 = 3;
    pub const LIST_EVENTS: u8 = 4;
    pub const LISTED_EVENTS: u8 = 5;
    pub const DELETE_EVENT: u8 = 6;
    pub const DELETED_EVENTS: u8 = 7;
    pub const SUBSCRIBE: u8 = 8;
    pub const UNSUBSCRIBE: u8 = 9;
    pub const FILTER_UPDATED: u8 = 10;
    pub const GET_FILTER: u8 = 11;
    pub const FILTER: u8 = 12;
    pub const GET_EVENT: u8 = 13;
    pub const EVENT_INFO: u8 = 14;
    pub const NOTIFY: u8 = 15;
}

/// Option codes.
pub mod option {
    #![allow(missing_docs, reason = "the names are those of the protocol")]
    pub const EVENT_ID: u8 = 1;
    pub const EVENT_TYPE: u8 = 2;
    pub const EVENT_IDS: u8 = 3;
    pub const EVENT_TYPES: u8 = 4;
    pub const TOKEN: u8 = 100;
}

/// A 32-bit number, seven bits an octet, the lowest first.
#[must_use]
pub fn varint(number: i32) -> Vec<u8> {
    let mut rest = number.cast_unsigned();
    let mut octets = Vec::new();
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or(0);
        rest >>= 7;
        if rest == 0 {
            octets.push(low);
            return octets;
        }
        octets.push(low | 0x80);
    }
}

fn length(octets: &[u8]) -> Vec<u8> {
    varint(i32::try_from(octets.len()).unwrap_or(i32::MAX))
}

/// Length and text.
#[must_use]
pub fn varstring(text: &str) -> Vec<u8> {
    [length(text.as_bytes()), text.as_bytes().to_vec()].concat()
}

/// Count and numbers.
#[must_use]
pub fn ids(numbers: &[i32]) -> Vec<u8> {
    let count = varint(i32::try_from(numbers.len()).unwrap_or(i32::MAX));
    numbers.iter().fold(count, |octets, number| [octets, varint(*number)].concat())
}

/// Count and texts.
#[must_use]
pub fn names(texts: &[&str]) -> Vec<u8> {
    let count = varint(i32::try_from(texts.len()).unwrap_or(i32::MAX));
    texts.iter().fold(count, |octets, text| [octets, varstring(text)].concat())
}

/// Description, period, repeat.
#[must_use]
pub fn event(description: &str, period: f64, repeat: i32) -> Vec<u8> {
    [varstring(description), period.to_be_bytes().to_vec(), varint(repeat)].concat()
}

/// A whole message.
#[must_use]
pub fn message(code: u8, options: &[(u8, Vec<u8>)], body: &[u8]) -> Vec<u8> {
    let mut content = vec![code];
    for (id, octets) in options {
        content.push(*id);
        content.extend(length(octets));
        content.extend(octets);
    }
    content.push(0);
    content.extend(body);
    [length(&content), content].concat()
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which.
    pub code: u8,
    /// In the order they came.
    pub options: Vec<(u8, Vec<u8>)>,
    /// What is behind the options.
    pub body: Vec<u8>,
}

/// Octets being taken apart. `None` wherever the protocol is broken.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<i32> {
        let mut number = 0_u64;
        for place in 0..5 {
            let octet = self.octet()?;
            number |= u64::from(octet & 0x7f) << (7 * place);
            if octet & 0x80 == 0 {
                return u32::try_from(number).ok().map(u32::cast_signed);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let count = usize::try_from(self.varint()?).ok()?;
        String::from_utf8(self.take(count)?.to_vec()).ok()
    }

    fn double(&mut self) -> Option<f64> {
        Some(f64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn time(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// What EventInfo and Notify tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The event's id.
    pub id: i32,
    /// Its types.
    pub types: Vec<String>,
    /// For people.
    pub description: String,
    /// Seconds.
    pub period: f64,
    /// What is left.
    pub repeat: i32,
    /// Unix seconds.
    pub timestamp: i64,
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(content);
        let code = cursor.octet()?;
        let mut options = Vec::new();
        loop {
            let id = cursor.octet()?;
            if id == 0 {
                return Some(Self { code, options, body: cursor.0.to_vec() });
            }
            let count = usize::try_from(cursor.varint()?).ok()?;
            options.push((id, cursor.take(count)?.to_vec()));
        }
    }

    fn option(&self, id: u8) -> Option<&[u8]> {
        let mut found = self.options.iter().filter(|(option, _)| *option == id);
        let (_, octets) = found.next()?;
        found.next().is_none().then_some(octets)
    }

    /// The one EventID option.
    #[must_use]
    pub fn id(&self) -> Option<i32> {
        let mut cursor = Cursor(self.option(option::EVENT_ID)?);
        cursor.varint().filter(|_| cursor.0.is_empty())
    }

    /// The one EventIDs option.
    #[must_use]
    pub fn ids(&self) -> Option<Vec<i32>> {
        let mut cursor = Cursor(self.option(option::EVENT_IDS)?);
        let count = cursor.varint()?;
        let ids = (0..count).map(|_| cursor.varint()).collect::<Option<Vec<i32>>>()?;
        cursor.0.is_empty().then_some(ids)
    }

    /// The one EventTypes option.
    #[must_use]
    pub fn types(&self) -> Option<Vec<String>> {
        let mut cursor = Cursor(self.option(option::EVENT_TYPES)?);
        let count = cursor.varint()?;
        let types = (0..count).map(|_| cursor.text()).collect::<Option<Vec<String>>>()?;
        cursor.0.is_empty().then_some(types)
    }

    /// What an EventInfo or a Notify tells.
    #[must_use]
    pub fn told(&self) -> Option<Told> {
        let (id, types) = (self.id()?, self.types()?);
        let mut cursor = Cursor(&self.body);
        let description = cursor.text()?;
        let period = cursor.double()?;
        let repeat = cursor.varint()?;
        let timestamp = cursor.time()?;
        cursor.0.is_empty().then_some(Told { id, types, description, period, repeat, timestamp })
    }

    /// What an Error says: the request's code, the error's, the words.
    #[must_use]
    pub fn error(&self) -> Option<(u8, u8, String)> {
        let (last, rest) = self.body.split_first()?;
        let (error, words) = rest.split_first()?;
        let words = String::from_utf8(words.to_vec()).ok()?;
        (self.code == code::ERROR && self.options.is_empty()).then_some((*last, *error, words))
    }
}

/// A session.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    notified: VecDeque<Message>,
}

impl Peer {
    /// Begins a session. Nothing is waited for longer than `patience`.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn connect(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, received: Vec::new(), notified: VecDeque::new() })
    }

    /// Sends octets as they are.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        self.stream.write_all(octets)
    }

    /// A second way to send.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends nothing any more; answers still come.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn half_close(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// The next message of any kind; `None` when the session has ended in order.
    ///
    /// # Errors
    /// When octets are no message, the session breaks off inside one, or patience ends.
    pub fn message(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.cut()? {
                return Ok(Some(message));
            }
            if !self.fill()? {
                return if self.received.is_empty() {
                    Ok(None)
                } else {
                    Err(ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// Octets as they come, until the session ends or there are at least `least`.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn octets(&mut self, least: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < least && self.fill()? {}
        Ok(std::mem::take(&mut self.received))
    }

    /// The next answer. Notifications that come before it are kept.
    ///
    /// # Errors
    /// As [`Self::message`]; the end of the session is one too.
    pub fn answer(&mut self) -> io::Result<Message> {
        loop {
            match self.message()? {
                Some(message) if message.code == code::NOTIFY => self.notified.push_back(message),
                Some(message) => return Ok(message),
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// The next notification; none may be lost between answers.
    ///
    /// # Errors
    /// As [`Self::message`]; an answer nobody waits for is one too.
    pub fn notification(&mut self) -> io::Result<Message> {
        if let Some(message) = self.notified.pop_front() {
            return Ok(message);
        }
        match self.message()? {
            Some(message) if message.code == code::NOTIFY => Ok(message),
            other => Err(io::Error::other(format!("a notification was expected: {other:?}"))),
        }
    }

    /// Notifications that came between answers so far.
    pub fn notified(&mut self) -> Vec<Message> {
        self.notified.drain(..).collect()
    }

    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn ask(&mut self, code: u8, options: &[(u8, Vec<u8>)], body: &[u8]) -> io::Result<Message> {
        self.send(&message(code, options, body))?;
        self.answer()
    }

    /// How long a read waits from now on.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    fn cut(&mut self) -> io::Result<Option<Message>> {
        let mut cursor = Cursor(&self.received);
        let Some(size) = cursor.varint() else { return Ok(None) };
        let broken = || io::Error::other("the server sent what is no message");
        let size = usize::try_from(size).map_err(|_| broken())?;
        let Some(content) = cursor.take(size) else { return Ok(None) };
        let message = Message::parse(content).ok_or_else(broken)?;
        let rest = cursor.0.to_vec();
        self.received = rest;
        Ok(Some(message))
    }

    fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; 16 << 10];
        let read = match self.stream.read(&mut piece) {
            Ok(read) => read,
            // Whoever is killed with unread requests resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error),
        };
        self.received.extend(piece.get(..read).unwrap_or_default());
        Ok(read > 0)
    }
}
