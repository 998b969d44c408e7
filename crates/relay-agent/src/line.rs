//! One connection to a destination: bytes on one side, messages on the other.
//!
//! A line decides nothing. It says when it is there, hands on what it hears, writes what it is given,
//! and says once why it is gone. Its queue has a number; whoever fills it looks for room first and is
//! told when some was made.

use std::sync::Arc;
use std::time::Duration;

use handoff_relay::session::{Frames, Message, encode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::core::Event;
use crate::way::{Stream, Way};

/// Messages that wait to be written. They are references: what is in memory is bounded elsewhere.
const QUEUE: usize = 256;

/// Room that is kept for what must be said whatever waits: pings, skips, the end.
const SPARE: usize = 16;

/// Messages that are written at once.
const AT_ONCE: usize = 32;

/// How long a destination may take nothing of what is written.
const STALL_MAX: Duration = Duration::from_secs(30);

/// What is written at once, and known to be taken then.
const CHUNK: usize = 256 << 10;

/// A buffer that grew beyond this for a key frame does not stay.
const BUFFER_KEPT: usize = 1 << 20;

/// Which line; no two are alike.
pub(crate) type LineId = u64;

/// What is heard of a line.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It is there.
    Up,
    /// The destination said something.
    Message(Message),
    /// It took a part of what it was given, so there is room again.
    Taken,
    /// It is gone, and why.
    Down(String),
}

/// A line that is there or on its way to be.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: LineId,
    pub(crate) up: bool,
    queue: mpsc::Sender<Message>,
    /// Nobody's if it is driven by hand.
    task: Option<AbortOnDropHandle<()>>,
}

impl Line {
    /// Begins to connect.
    pub(crate) fn open(id: LineId, way: Option<Arc<Way>>, events: mpsc::Sender<Event>) -> Self {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let task = tokio::spawn(async move {
            let why = match way {
                Some(way) => talk(id, &way, outgoing, &events).await,
                None => "there is no way to it".to_owned(),
            };
            // A core that is gone needs no news.
            drop(events.send(Event::Line(id, Heard::Down(why))).await);
        });
        Self { id, up: false, queue, task: Some(AbortOnDropHandle::new(task)) }
    }

    /// A line that whoever has the other end of its queue drives.
    pub(crate) fn by_hand(id: LineId) -> (Self, mpsc::Receiver<Message>) {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        (Self { id, up: false, queue, task: None }, outgoing)
    }

    /// Whether another segment may be given to it.
    pub(crate) fn has_room(&self) -> bool {
        self.up && self.queue.capacity() > SPARE
    }

    /// Says something. False if it cannot be said: then the line is gone or about to be.
    pub(crate) fn say(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }

    /// Says what is left to say and ends.
    pub(crate) fn finish(self) {
        drop(self.queue);
        if let Some(task) = self.task {
            drop(task.detach());
        }
    }
}

/// Says something if there is a line. One that is gone is heard of.
pub(crate) fn tell(line: Option<&Line>, message: Message) {
    if let Some(line) = line {
        line.say(message);
    }
}

async fn talk(
    id: LineId,
    way: &Way,
    outgoing: mpsc::Receiver<Message>,
    events: &mpsc::Sender<Event>,
) -> String {
    let stream = match way.connect().await {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    if events.send(Event::Line(id, Heard::Up)).await.is_err() {
        return String::new();
    }
    let (reader, writer) = split(stream);
    // Whichever ends first ends the connection, so nothing is lost that the other could still do.
    tokio::select! {
        why = listen(id, reader, events) => why,
        why = speak(id, writer, outgoing, events) => why,
    }
}

async fn listen(
    id: LineId,
    mut reader: ReadHalf<Box<dyn Stream>>,
    events: &mpsc::Sender<Event>,
) -> String {
    // A destination has nothing long to say: the bound of a greeting is enough for all of it.
    let mut frames = Frames::default();
    let mut bytes = vec![0; 8 << 10];
    loop {
        let room = frames.room().min(bytes.len());
        let read = match reader.read(bytes.get_mut(..room).unwrap_or_default()).await {
            Ok(0) => return "it closed the connection".to_owned(),
            Ok(read) => read,
            Err(error) => return error.to_string(),
        };
        frames.push(bytes.get(..read).unwrap_or_default());
        loop {
            let message = match frames.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(malformed) => return format!("what it says {malformed}"),
            };
            if events.send(Event::Line(id, Heard::Message(message))).await.is_err() {
                return String::new();
            }
        }
    }
}

async fn speak(
    id: LineId,
    mut writer: WriteHalf<Box<dyn Stream>>,
    mut outgoing: mpsc::Receiver<Message>,
    events: &mpsc::Sender<Event>,
) -> String {
    let mut messages = Vec::with_capacity(AT_ONCE);
    let mut bytes = Vec::new();
    while outgoing.recv_many(&mut messages, AT_ONCE).await > 0 {
        let mut segments = false;
        for message in messages.drain(..) {
            segments |= matches!(message, Message::Segment { .. } | Message::KeyFrame { .. });
            encode(&message, &mut bytes);
            drop(message);
        }
        for chunk in bytes.chunks(CHUNK) {
            match timeout(STALL_MAX, writer.write_all(chunk)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "it takes nothing of what is sent".to_owned(),
            }
            if segments && events.send(Event::Line(id, Heard::Taken)).await.is_err() {
                return String::new();
            }
        }
        bytes.clear();
        bytes.shrink_to(BUFFER_KEPT);
    }
    drop(timeout(STALL_MAX, writer.shutdown()).await);
    String::new()
}
