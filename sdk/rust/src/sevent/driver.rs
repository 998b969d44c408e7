//! The task that owns a connection.
//!
//! It waits for whatever comes first: room for a notification that is held, a request, the socket
//! taking octets, the socket giving some, time. All of these are cancel safe: a queue gives an item or
//! keeps it, a socket takes or gives octets or does not, and what was read is in `frames` before
//! anything else is awaited.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use handoff_sevent::{Answer, Frames, MessageCode, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use super::{Ended, Error, Notification, Options, Trouble, expected};
use crate::connect::{Stream, later};

/// No more requests are taken while this many octets wait for the socket.
const OUT_BYTES: usize = 256 << 10;

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A request and who wants its answer.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Answer, Error>>,
}

/// A request that was written, or is about to be.
struct Asked {
    expected: MessageCode,
    /// Where it ends in everything that is ever written.
    end: u64,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

pub(super) struct Driver {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    frames: Frames,
    out: BytesMut,
    /// Octets that ever went into `out`, and those that ever left it.
    queued: u64,
    written: u64,
    /// Whether something was written that TLS may still hold.
    unflushed: bool,
    token: Option<String>,
    request_bytes_max: u32,
    requests_max: usize,
    commands: mpsc::Receiver<Command>,
    /// Whether there is still a `Session`.
    asking: bool,
    /// In the order of their answers.
    asked: VecDeque<Asked>,
    notify: mpsc::Sender<Notification>,
    /// A notification for which there was no room. Nothing is read meanwhile.
    held: Option<Notification>,
    silence_max: Duration,
    /// Twice in `silence_max`.
    ticks: Interval,
    /// Ticks since something was heard.
    quiet: u32,
    ended: Arc<OnceLock<Ended>>,
}

impl Driver {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        options: &Options,
        commands: mpsc::Receiver<Command>,
        notify: mpsc::Sender<Notification>,
        ended: Arc<OnceLock<Ended>>,
    ) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let half = (options.silence_max / 2).max(Duration::from_millis(1));
        let mut ticks = interval_at(later(Instant::now(), half), half);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            reader,
            writer,
            frames: Frames::new(options.frame_bytes_max),
            out: BytesMut::new(),
            queued: 0,
            written: 0,
            unflushed: false,
            token: options.token.clone(),
            request_bytes_max: options.request_bytes_max,
            requests_max: options.requests_max,
            commands,
            asking: true,
            asked: VecDeque::new(),
            notify,
            held: None,
            silence_max: options.silence_max,
            ticks,
            quiet: 0,
            ended,
        }
    }

    pub(super) async fn run(mut self) {
        let ended = match self.drive().await {
            Ok(()) => {
                // Best effort: nobody is left to be told.
                drop(timeout(FAREWELL, self.writer.shutdown()).await);
                Ended::Stopped
            }
            Err(ended) => ended,
        };
        // Said first: whoever is told of the end below may ask for the reason.
        drop(self.ended.set(ended.clone()));
        self.commands.close();
        for asked in self.asked.drain(..) {
            let trouble = Trouble::Ended(ended.clone());
            // A message is carried out only if all of it has arrived.
            let error = if asked.end <= self.written {
                Error::Unknown(trouble)
            } else {
                Error::NotSent(trouble)
            };
            drop(asked.reply.send(Err(error)));
        }
        while let Some(command) = self.commands.recv().await {
            let trouble = Trouble::Ended(ended.clone());
            drop(command.reply.send(Err(Error::NotSent(trouble))));
        }
    }

    /// Works until nobody is interested any more, or the session ends.
    async fn drive(&mut self) -> Result<(), Ended> {
        loop {
            self.take_messages()?;
            let listening = !self.notify.is_closed();
            if !self.asking && !listening {
                return Ok(());
            }
            let room = self.asked.len() < self.requests_max && self.out.len() < OUT_BYTES;
            let writing = self.unflushed || !self.out.is_empty();
            let holding = self.held.is_some();
            tokio::select! {
                () = give(&self.notify, &mut self.held), if holding => {}
                () = self.notify.closed(), if listening => {}
                command = self.commands.recv(), if self.asking && room => match command {
                    Some(command) => self.ask(command),
                    None => self.asking = false,
                },
                count = write(&mut self.writer, &mut self.out), if writing => {
                    let count = count?;
                    self.unflushed = count > 0;
                    self.written += u64::try_from(count).unwrap_or_default();
                }
                count = self.reader.read_buf(self.frames.buffer_mut()), if !holding => {
                    if count? == 0 {
                        let whole = self.frames.pending() == 0;
                        return Err(if whole { Ended::Closed } else { Ended::Cut });
                    }
                    self.quiet = 0;
                }
                // While nothing is read, silence means nothing.
                _ = self.ticks.tick(), if !holding => self.listen_for_life()?,
            }
        }
    }

    /// A network may go silent without a word. If nothing was heard for a while the server is
    /// asked something; if that is not answered within `silence_max` either, the session is over.
    ///
    /// Ticks are counted and not time: after the process was stopped for an hour there is one tick,
    /// and then whatever arrived meanwhile is read.
    fn listen_for_life(&mut self) -> Result<(), Ended> {
        self.quiet += 1;
        if self.quiet >= 2 && self.asked.is_empty() {
            let (reply, _) = oneshot::channel();
            self.ask(Command { request: Request::GetFilter, reply });
        }
        if self.quiet >= 4 { Err(Ended::Silent(self.silence_max)) } else { Ok(()) }
    }

    /// Hands out what has arrived, up to a notification for which there is no room.
    fn take_messages(&mut self) -> Result<(), Ended> {
        while self.held.is_none() {
            let frame = match self.frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return Err(Ended::protocol(error.to_string())),
            };
            match Answer::decode(&frame) {
                Ok(Answer::Notify { id, types, event, timestamp }) => {
                    self.notify(Notification { id, types, event, timestamp });
                }
                Ok(answer) => self.answer(answer)?,
                Err(malformed) => {
                    return Err(Ended::protocol(format!(
                        "message {} cannot be read: {malformed}",
                        malformed.code
                    )));
                }
            }
        }
        Ok(())
    }

    fn notify(&mut self, notification: Notification) {
        match self.notify.try_send(notification) {
            // Whoever dropped the receiver wants none.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(notification)) => self.held = Some(notification),
        }
    }

    fn answer(&mut self, answer: Answer) -> Result<(), Ended> {
        let Some(asked) = self.asked.pop_front() else {
            return Err(match answer {
                Answer::Error { code, message, .. } => Ended::Dismissed { code, message },
                other => Ended::protocol(format!("{:?} to no request", other.code())),
            });
        };
        let result = match answer {
            Answer::Error { code, message, .. } => Err(Error::Refused { code, message }),
            answer if answer.code() == asked.expected => Ok(answer),
            other => {
                let (got, expected) = (other.code(), asked.expected);
                // It has no answer either.
                self.asked.push_front(asked);
                return Err(Ended::protocol(format!("{got:?} where {expected:?} was due")));
            }
        };
        // Whoever gave the request up does not want its answer.
        drop(asked.reply.send(result));
        Ok(())
    }

    fn ask(&mut self, command: Command) {
        let Command { request, reply } = command;
        let max = self.request_bytes_max;
        let before = self.out.len();
        let fits = self.put(&request);
        if !fits {
            self.out.truncate(before);
            drop(reply.send(Err(Error::TooLarge { max })));
            return;
        }
        self.token = None;
        self.queued += u64::try_from(self.out.len() - before).unwrap_or_default();
        self.asked.push_back(Asked { expected: expected(&request), end: self.queued, reply });
    }

    /// Appends a request. Not if it is too large, though something may then have been appended.
    fn put(&mut self, request: &Request) -> bool {
        let max = usize::try_from(self.request_bytes_max).unwrap_or(usize::MAX);
        // Before it is written, because writing takes as much memory again.
        if octets_at_least(request) > max {
            return false;
        }
        let before = self.out.len();
        request.encode(self.token.as_deref().map(str::as_bytes), &mut self.out);
        self.out.len() - before <= max
    }
}

/// Waits for room for a notification, or for nobody wanting it any more.
async fn give(notify: &mpsc::Sender<Notification>, held: &mut Option<Notification>) {
    let place = notify.reserve().await;
    if let (Ok(place), Some(notification)) = (place, held.take()) {
        place.send(notification);
    }
}

/// Writes some of what there is, or makes sure that what was written is on its way.
async fn write(writer: &mut WriteHalf<Box<dyn Stream>>, out: &mut BytesMut) -> io::Result<usize> {
    if out.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    match writer.write_buf(out).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// No encoding of the request is shorter than this.
fn octets_at_least(request: &Request) -> usize {
    let names = |types: &[String]| types.iter().map(|name| name.len() + 1).sum::<usize>();
    match request {
        Request::RegisterEvent { event, types } => event.description.len() + names(types),
        Request::ListEvents { types } => types.as_deref().map_or(0, names),
        Request::DeleteEvent(selection)
        | Request::Subscribe(selection)
        | Request::Unsubscribe(selection)
        | Request::Filter(selection) => selection.ids.len() + names(&selection.types),
        Request::GetFilter | Request::GetEvent { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use handoff_sevent::Request;
    use tokio::io::{AsyncReadExt as _, BufStream, duplex};
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::timeout;

    use super::{Command, Driver};
    use crate::sevent::Options;

    /// TLS may keep what the socket did not take; so does this stream.
    #[tokio::test]
    async fn what_a_stream_keeps_is_sent_on_its_way() {
        let (ours, mut theirs) = duplex(1000);
        let (commands, queued) = mpsc::channel(1);
        let (notify, _notifications) = mpsc::channel(1);
        let stream = Box::new(BufStream::new(ours));
        let ended = Arc::new(OnceLock::new());
        tokio::spawn(Driver::new(stream, &Options::new(), queued, notify, ended).run());
        for _ in 0..3 {
            let (reply, _) = oneshot::channel();
            commands.send(Command { request: Request::GetFilter, reply }).await.unwrap();
            let mut read = [0; 3];
            let arrived = timeout(Duration::from_secs(30), theirs.read_exact(&mut read)).await;
            arrived.expect("it is kept").unwrap();
            assert_eq!(read, [2, 11, 0]);
        }
    }
}
