//! One session.
//!
//! ```text
//!  socket ──▶ frames ──▶ reserve memory ──▶ decode ──▶ the room's mailbox
//!                                                            │
//!  socket ◀── output ◀──────── line: answers and notifications, in order
//! ```
//!
//! * Everything happens in one poll, with one waker: whatever wakes the session, it does what it
//!   can. A session that says nothing holds no buffer.
//! * Requests are handed to the room without waiting for answers, up to [`REQUESTS_MAX`]; the room
//!   answers in order. What is refused before it reaches the room keeps its place among them.
//! * Memory for a request and its answer is reserved before the request is decoded, out of what all
//!   sessions share, and given back when the answer is out. While there is none the session is not
//!   read. One session may hold a share of it only.
//! * Who does not read is closed: when its line is full, and when nothing of what is ready for it
//!   could be written for [`Parts::stall_max`](super::Parts::stall_max). Who holds memory that
//!   others wait for must take [`ANSWERED_BYTES_MIN`] in that time, or everything there is.
//! * A client may close its side after its requests and still gets every answer. The session then
//!   ends.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use handoff_sevent::primitive::{Reader, Unreadable};
use handoff_sevent::{Answer, ErrorCode, Frames, MessageCode, Received, Request};
use handoff_types::{Room, Sight};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use super::Door;
use super::output::Output;
use super::pending::{Kind, Pending, Step};
use super::translate;
use super::wire::Wire;
use crate::auth::Caller;
use crate::rooms::RoomError;
use crate::rooms::events::{Item, Pipe, Question, Reply};

/// Requests of one session that have no answer yet.
const REQUESTS_MAX: usize = 256;

/// How long a session that was closed here may take to close its side: closed with something
/// unread, the kernel would take back what was written last.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a session that holds memory takes at least in each [`Parts::stall_max`](super::Parts::stall_max):
/// 2 KiB a second with the usual 30 s, so that the longest list is out within the hour.
const ANSWERED_BYTES_MIN: usize = 64 << 10;

/// What a decoded request takes at most for each octet of it: a list of empty strings.
const DECODED_FACTOR: usize = size_of::<String>();

/// What a small answer takes, its words included.
const SMALL_ANSWER: usize = 1024;

/// An id in a list, as it is kept and as it grows.
const ID_BYTES: usize = 2 * size_of::<i32>();

/// Options that name types.
const EVENT_TYPE: u8 = 2;
const EVENT_TYPES: u8 = 4;

/// One session may hold this part of what is reserved for all; a single request may be larger.
const SHARE: usize = 16;

/// A session and its connection.
pub(super) struct Connection {
    wire: Wire,
    door: Arc<Door>,
    frames: Frames,
    pipe: Pipe,
    /// None until it is known who it is.
    sight: Option<Sight>,
    /// The client has closed its side.
    is_closed: bool,
    /// Nothing the client says matters any more.
    is_deaf: bool,
    /// Answers are owed to these, in this order.
    pending: VecDeque<Pending>,
    /// A message that waits for memory.
    waiting: Option<(Bytes, usize)>,
    /// Questions that wait for a place in the room's mailbox.
    asking: VecDeque<Question>,
    output: Output,
    memory: PollSemaphore,
    memory_max: usize,
    /// What is reserved now.
    reserved: usize,
    /// An upper bound of what the filter takes on the wire.
    filter_bytes: usize,
    /// Who was let in; none before that.
    caller: Option<Caller>,
    /// Until when the next thing must have happened, if there is such a bound.
    alarm: Option<Pin<Box<Sleep>>>,
    /// What was written since the alarm was set.
    taken: usize,
    stage: Stage,
}

/// Where the session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody knows who it is yet.
    Stranger,
    /// It works.
    Session,
    /// Everything is written; our side is being closed.
    Closing,
    /// It is closed, and the other side is not yet.
    Farewell,
}

/// Whether something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Made,
    None,
    /// The connection is gone, or must be.
    Over,
}

impl Connection {
    pub(super) fn new(wire: Wire, door: Arc<Door>) -> Self {
        let settings = door.room.settings();
        let frames = Frames::new(settings.frame_bytes_max);
        let pipe = door.room.pipe();
        let memory = PollSemaphore::new(Arc::clone(&door.memory));
        let memory_max = door.memory_max;
        let mut connection = Self {
            wire,
            door,
            frames,
            pipe,
            sight: None,
            is_closed: false,
            is_deaf: false,
            pending: VecDeque::new(),
            waiting: None,
            asking: VecDeque::new(),
            output: Output::default(),
            memory,
            memory_max,
            reserved: 0,
            filter_bytes: 0,
            caller: None,
            alarm: None,
            taken: 0,
            stage: Stage::Stranger,
        };
        match connection.door.gate.admit(None) {
            Ok(caller) => connection.welcome(caller.sight(Room::Events)),
            Err(_) => {
                connection.alarm = Some(Box::pin(sleep(connection.door.greeting_max())));
                false
            }
        };
        connection
    }

    /// Serves the session until it ends. When told to stop, requests that were taken are answered
    /// and the session is closed.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = poll_fn(|context| self.poll(context)) => return,
            () = stop.cancelled() => {}
        }
        self.ignore_input();
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let wrote = self.write(context);
            let steps = [
                self.ask(context),
                self.understand(context),
                self.read(context),
                self.close(context),
            ];
            if wrote == Progress::Over || steps.contains(&Progress::Over) {
                return Poll::Ready(());
            }
            // Writing goes as far as it can by itself; only what the others did gives it more.
            if !steps.contains(&Progress::Made) {
                break;
            }
        }
        let alarm = self.alarm.as_mut();
        alarm.map_or(Poll::Pending, |alarm| alarm.as_mut().poll(context)).map(|()| self.late())
    }

    /// Takes what the room has for the session and writes what the socket takes.
    fn write(&mut self, context: &mut Context<'_>) -> Progress {
        let mut progress = Progress::None;
        if matches!(self.stage, Stage::Closing | Stage::Farewell) {
            return progress;
        }
        loop {
            while !self.output.is_full() {
                match self.pipe.outbox().poll_next(context) {
                    Poll::Ready(Ok(Item::Told(told))) if self.is_still_welcome() => {
                        self.output.tell(told);
                    }
                    // Who is not let in any more hears of nothing.
                    Poll::Ready(Ok(Item::Told(_))) => return Progress::Over,
                    Poll::Ready(Ok(Item::Answer(reply))) => self.answered(*reply),
                    // It did not read, or the room is gone: there is nothing left to wait for.
                    Poll::Ready(Err(_)) if self.output.is_empty() => return Progress::Over,
                    Poll::Ready(Err(ended)) => {
                        if ended.is_slow() {
                            return Progress::Over;
                        }
                        break;
                    }
                    Poll::Pending => break,
                }
                progress = Progress::Made;
            }
            if self.output.is_empty() {
                // TLS may still hold some of it.
                return match self.wire.poll_flush(context) {
                    Poll::Ready(Err(_)) => Progress::Over,
                    Poll::Ready(Ok(())) | Poll::Pending => progress,
                };
            }
            let (wire, taken) = (&mut self.wire, &mut self.taken);
            let written = self.output.poll_write(|slices| {
                wire.poll_write(context, slices).map_ok(|count| {
                    *taken += count;
                    count
                })
            });
            match written {
                Poll::Ready(Ok(freed)) => {
                    let wanted = if self.reserved > 0 { ANSWERED_BYTES_MIN } else { 1 };
                    if self.output.is_empty() || self.taken >= wanted {
                        self.alarm.take_if(|_| self.stage == Stage::Session);
                    }
                    self.release(freed);
                    progress = Progress::Made;
                }
                Poll::Ready(Err(_)) => return Progress::Over,
                Poll::Pending => {
                    let stall_max = self.door.stall_max;
                    if self.alarm.is_none() {
                        self.alarm = Some(Box::pin(sleep(stall_max)));
                        self.taken = 0;
                    }
                    return progress;
                }
            }
        }
    }

    /// Hands questions to the room.
    fn ask(&mut self, context: &mut Context<'_>) -> Progress {
        let mut progress = Progress::None;
        while !self.asking.is_empty() {
            let ready = match self.pipe.poll_ready(context) {
                Poll::Ready(ready) => ready,
                Poll::Pending => break,
            };
            let Some(question) = self.asking.pop_front() else { break };
            if ready.and_then(|()| self.pipe.ask(question)).is_err() {
                // The room has stopped. What it answered before is in the line.
                self.asking.clear();
                self.ignore_input();
            }
            progress = Progress::Made;
        }
        progress
    }

    /// Takes messages that have arrived, as far as there is memory and patience for them.
    fn understand(&mut self, context: &mut Context<'_>) -> Progress {
        let mut progress = Progress::None;
        while self.takes_requests() {
            if self.waiting.is_none() {
                match self.frames.next() {
                    Ok(Some(frame)) => {
                        let bytes = self.cost(&frame).min(self.memory_max);
                        self.waiting = Some((frame, bytes));
                    }
                    Ok(None) => break,
                    Err(broken) => {
                        self.know(0, 0, broken.into());
                        self.ignore_input();
                        return Progress::Made;
                    }
                }
            }
            let Some(&(_, bytes)) = self.waiting.as_ref() else { break };
            if self.reserved > 0 && self.reserved + bytes > self.memory_max / SHARE {
                break;
            }
            let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
            let Poll::Ready(Some(permit)) = self.memory.poll_acquire_many(context, permits) else {
                break;
            };
            permit.forget();
            self.reserved += bytes;
            if let Some((frame, bytes)) = self.waiting.take() {
                self.message(&frame, bytes);
            }
            self.ask(context);
            progress = Progress::Made;
        }
        progress
    }

    fn read(&mut self, context: &mut Context<'_>) -> Progress {
        let wants = match self.stage {
            Stage::Stranger | Stage::Session => {
                self.takes_requests() && self.waiting.is_none() && !self.is_closed
            }
            Stage::Closing => false,
            Stage::Farewell => true,
        };
        if !wants {
            return Progress::None;
        }
        let listens = self.stage != Stage::Farewell;
        let frames = &mut self.frames;
        let read = self.wire.poll_read(context, |octets| {
            if listens {
                frames.extend(octets);
            }
        });
        match read {
            Poll::Ready(Ok(0)) if listens => {
                self.is_closed = true;
                Progress::Made
            }
            Poll::Ready(Ok(0) | Err(_)) => Progress::Over,
            Poll::Ready(Ok(_)) => Progress::Made,
            Poll::Pending => Progress::None,
        }
    }

    /// Closes our side when nothing more will be said, and waits for the other.
    fn close(&mut self, context: &mut Context<'_>) -> Progress {
        match self.stage {
            Stage::Stranger | Stage::Session => {
                let said = self.pending.is_empty() && self.output.is_empty();
                // With nothing pending everything that arrived whole was taken.
                let heard = self.is_deaf || (self.is_closed && self.waiting.is_none());
                if !(said && heard) {
                    return Progress::None;
                }
                self.stage = Stage::Closing;
                self.alarm = Some(Box::pin(sleep(FAREWELL)));
                Progress::Made
            }
            Stage::Closing => match self.wire.poll_shutdown(context) {
                Poll::Ready(Ok(())) if self.is_closed => Progress::Over,
                Poll::Ready(Ok(())) => {
                    self.stage = Stage::Farewell;
                    Progress::Made
                }
                Poll::Ready(Err(_)) => Progress::Over,
                Poll::Pending => Progress::None,
            },
            Stage::Farewell => Progress::None,
        }
    }

    /// Something took too long.
    fn late(&mut self) {
        if self.stage == Stage::Session {
            self.door.room.count_slow();
        }
    }

    /// Whether another message can be understood now.
    fn takes_requests(&self) -> bool {
        matches!(self.stage, Stage::Stranger | Stage::Session)
            && !self.is_deaf
            && self.pending.len() < REQUESTS_MAX
            && self.asking.is_empty()
            && !self.pending.back().is_some_and(|last| last.kind.is_long())
    }

    /// What a message and its answer may take.
    fn cost(&self, frame: &Bytes) -> usize {
        let settings = self.door.room.settings();
        let bounds = &settings.bounds;
        let all = || self.door.room.events().saturating_mul(ID_BYTES);
        let code = frame.first().copied().and_then(MessageCode::from_octet);
        let answer = match code {
            Some(MessageCode::ListEvents) => all(),
            Some(MessageCode::DeleteEvent) if names_types(frame) => all(),
            // What was asked for, but no more than a filter can hold.
            Some(MessageCode::GetFilter) => self
                .filter_bytes
                .min(settings.filter_entries_max.saturating_mul(bounds.type_bytes_max)),
            Some(MessageCode::GetEvent) => bounds
                .description_bytes_max
                .saturating_add(bounds.types_max.saturating_mul(bounds.type_bytes_max)),
            _ => 0,
        };
        let decoded = frame.len().saturating_mul(DECODED_FACTOR);
        answer.saturating_add(decoded).saturating_add(SMALL_ANSWER)
    }

    fn message(&mut self, frame: &Bytes, reserved: usize) {
        let code = frame.first().copied().unwrap_or_default();
        let received = match Request::decode(frame) {
            Ok(received) => received,
            Err(malformed) => {
                self.know(code, reserved, malformed.into());
                if self.stage == Stage::Stranger {
                    self.ignore_input();
                }
                return;
            }
        };
        if self.stage == Stage::Stranger && !self.recognise(&received, code, reserved) {
            return;
        }
        if !self.is_still_welcome() {
            let message = "the token was revoked or has expired".to_owned();
            let code_of_error = ErrorCode::InvalidProperty;
            let denied = Answer::Error { last_id: code, code: code_of_error, message };
            self.know(code, reserved, denied);
            return self.ignore_input();
        }
        let Some(sight) = self.sight.clone() else { return };
        self.request(received.request, sight, code, reserved, frame.len());
    }

    /// Looks at the token of the first message. Whether somebody may come in.
    fn recognise(&mut self, received: &Received, code: u8, reserved: usize) -> bool {
        let words = match self.door.gate.admit(received.token.as_deref()) {
            Ok(caller) if self.welcome(caller.sight(Room::Events)) => {
                self.caller = Some(caller);
                return true;
            }
            Ok(_) => "the token does not allow events".to_owned(),
            Err(denied) => format!("{denied}; send one as option 100 of the first message"),
        };
        let denied =
            Answer::Error { last_id: code, code: ErrorCode::InvalidProperty, message: words };
        self.know(code, reserved, denied);
        self.ignore_input();
        false
    }

    /// A token that was revoked or has expired ends the session at the next word.
    fn is_still_welcome(&self) -> bool {
        self.caller.as_ref().is_none_or(|caller| self.door.gate.still_admits(caller))
    }

    fn welcome(&mut self, sight: Option<Sight>) -> bool {
        let Some(sight) = sight else { return false };
        self.stage = Stage::Session;
        self.alarm = None;
        self.sight = Some(sight.clone());
        self.pending.push_back(Pending { code: 0, reserved: 0, kind: Kind::Opening });
        self.asking.push_back(Question::Open(sight));
        true
    }

    fn request(&mut self, request: Request, sight: Sight, code: u8, reserved: usize, bytes: usize) {
        let asked = match request {
            Request::RegisterEvent { event, types } => {
                match translate::registration(event, types) {
                    Ok(event) => (Kind::Asked, Question::Register(event, sight)),
                    Err(refused) => {
                        return self.know(code, reserved, translate::error(code, &refused));
                    }
                }
            }
            Request::ListEvents { types } => Kind::listing(types, sight),
            Request::DeleteEvent(selection) => {
                Kind::deleting(translate::selection(selection), sight)
            }
            Request::Subscribe(selection) => {
                self.filter_bytes = self.filter_bytes.saturating_add(bytes * DECODED_FACTOR);
                (Kind::Asked, Question::Subscribe(translate::selection(selection)))
            }
            Request::Unsubscribe(selection) => {
                (Kind::Asked, Question::Unsubscribe(translate::selection(selection)))
            }
            Request::Filter(selection) => {
                self.filter_bytes = bytes * DECODED_FACTOR;
                (Kind::Asked, Question::Replace(translate::selection(selection)))
            }
            Request::GetFilter => (Kind::Asked, Question::Filter),
            Request::GetEvent { id } => (Kind::Asked, Question::View(id, sight)),
        };
        let (kind, question) = asked;
        self.pending.push_back(Pending { code, reserved, kind });
        self.asking.push_back(question);
    }

    /// An answer that the room is not needed for keeps its place.
    fn know(&mut self, code: u8, reserved: usize, answer: Answer) {
        if self.pending.is_empty() {
            self.output.answer(answer, reserved);
            return;
        }
        self.pending.push_back(Pending { code, reserved, kind: Kind::Known(Box::new(answer)) });
    }

    /// The room has answered the oldest question.
    fn answered(&mut self, reply: Result<Reply, RoomError>) {
        let Some(first) = self.pending.front_mut() else { return };
        match first.take(reply) {
            Step::Begun => {
                self.pending.pop_front();
            }
            Step::Refused(answer) => {
                self.output.answer(answer, 0);
                let owed: usize = self.pending.drain(..).map(|pending| pending.reserved).sum();
                self.release(owed);
                self.asking.clear();
                self.ignore_input();
            }
            Step::Answered(answer) => {
                self.output.answer(answer, first.reserved);
                self.pending.pop_front();
            }
            Step::Again(question) => self.asking.push_front(question),
        }
        while let Some(Pending { kind: Kind::Known(_), .. }) = self.pending.front() {
            if let Some(Pending { kind: Kind::Known(answer), reserved, .. }) =
                self.pending.pop_front()
            {
                self.output.answer(*answer, reserved);
            }
        }
    }

    /// Nothing the client says from now on matters.
    fn ignore_input(&mut self) {
        self.is_deaf = true;
        self.waiting = None;
    }

    fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.reserved);
        self.reserved -= bytes;
        self.door.memory.add_permits(bytes);
    }
}

/// Whether a message has an option that names types, as far as that can be told without reading it.
fn names_types(frame: &[u8]) -> bool {
    let mut reader = Reader::new(frame.get(1..).unwrap_or_default());
    let mut next = || -> Result<u8, Unreadable> {
        let option = reader.byte()?;
        if option != 0 {
            let octets = reader.varint_unsigned()?;
            reader.take(usize::try_from(octets).unwrap_or(usize::MAX))?;
        }
        Ok(option)
    };
    loop {
        match next() {
            Ok(EVENT_TYPE | EVENT_TYPES) => return true,
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.release(self.reserved);
    }
}
