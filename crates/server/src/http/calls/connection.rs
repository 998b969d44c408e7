//! One connection of a client.
//!
//! Whatever the client says goes to the room in order, and whatever the room says to it comes back over
//! its line in order, the answers to its pings among it: a way that carries those carries the rest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use handoff_calls::wire::{self, FRAMES_MAX, Many, Pong, Up};
use handoff_calls::{ChannelName, ClientId};
use handoff_types::{Room, Sight};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_websockets::{CloseCode, Error, Message};

use super::frames::{ask_of, frame_of, refused};
use crate::auth::Caller;
use crate::http::access::Key;
use crate::http::front::Door;
use crate::http::problem::Problem;
use crate::http::websocket::{End, WebSocket, farewell};
use crate::rooms::RoomError;
use crate::rooms::calls::{CallsRoom, Ended, Line, Sayings, Told, weight};

/// Pings that may be under way.
const PINGS_MAX: usize = 1_024;

/// A connection of a client.
pub(super) struct Connection {
    room: CallsRoom,
    sight: Sight,
    door: Door,
    key: Key,
    line: Arc<Line>,
    /// Who it is, once it has said so.
    client: Option<ClientId>,
    /// The numbers of pings that are not answered yet.
    pings: VecDeque<u64>,
    /// The answer to `init` was given: it says more than others.
    greeted: bool,
    /// The client reads messages of several frames.
    many: bool,
}

impl Connection {
    pub(super) fn new(
        room: CallsRoom,
        (sight, caller): (Sight, &Caller),
        door: Door,
        key: Key,
    ) -> Self {
        let line = Arc::new(Line::new(room.settings().line_bytes_max, caller.name()));
        let (client, pings, greeted, many) = (None, VecDeque::new(), false, false);
        Self { room, sight, door, key, line, client, pings, greeted, many }
    }

    /// Serves it to its end.
    pub(super) async fn serve(mut self, mut socket: WebSocket) {
        let end = self.converse(&mut socket).await;
        if let Some(client) = self.client {
            self.room.disconnect(client, &self.line).await;
        }
        if let Some(end) = end {
            farewell(socket, end, self.door.app.limits().stall_max).await;
        }
    }

    /// Carries frames both ways. Why it ends; none if the client has gone.
    async fn converse(&mut self, socket: &mut WebSocket) -> Option<End> {
        let limits = self.door.app.limits();
        let silence = |room: &CallsRoom| Duration::from_micros(room.settings().client_timeout.0);
        let mut until = Instant::now() + limits.header_time_max;
        let line = Arc::clone(&self.line);
        let door = self.door.clone();
        loop {
            // All of these can be dropped at any time: they take nothing unless they are done.
            tokio::select! {
                biased;
                () = door.stop.cancelled() => return Some(End::stopping()),
                told = line.take() => {
                    let told = match told {
                        Ok(told) => told,
                        Err((why, words)) => return Some(end_of(why, words)),
                    };
                    match timeout(limits.stall_max, self.pass_on(socket, told)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => return None,
                    }
                }
                said = socket.next() => {
                    until = Instant::now() + silence(&self.room);
                    match said {
                        None => return None,
                        Some(Err(Error::Protocol(why))) => {
                            return Some(End::protocol(format!("no frame: {why}")));
                        }
                        Some(Err(Error::PayloadTooLong { len, max_len })) => {
                            let words = format!("a frame of {len} bytes; {max_len} are taken");
                            return Some(End { code: CloseCode::MESSAGE_TOO_BIG, words });
                        }
                        Some(Err(_)) => return None,
                        Some(Ok(message)) if message.is_text() => {
                            if let Err(end) = self.hear(message.into_payload().into()).await {
                                return Some(end);
                            }
                        }
                        Some(Ok(message)) if message.is_close() => return None,
                        Some(Ok(message)) if message.is_binary() => {
                            return Some(End::protocol("frames are text"));
                        }
                        // The library answers pings of WebSocket itself.
                        Some(Ok(_)) => {}
                    }
                }
                () = sleep_until(until) => {
                    return Some(End::policy("the client was silent for too long"));
                }
            }
        }
    }

    /// Tells the client.
    async fn pass_on(&mut self, socket: &mut WebSocket, told: VecDeque<Told>) -> Result<(), Error> {
        let now = self.room.now().steady;
        let mut many = Many::default();
        for one in told {
            if !(self.many && many.fits(weight(&one)))
                && let Some(text) = many.take()
            {
                socket.feed(Message::text(Bytes::from(text))).await?;
            }
            match one {
                Told::Notice(notice) => {
                    let pong = match notice {
                        handoff_calls::Notice::Pong { .. } => self.pong(),
                        _ => Pong::default(),
                    };
                    many.push(&frame_of(&notice, pong, now));
                }
                Told::Refused { call, error } => {
                    let problem = Problem::of(&self.door.app, Room::Calls, error);
                    many.push(&refused(call, problem.code.text(), &problem.detail));
                }
            }
        }
        if let Some(text) = many.take() {
            socket.feed(Message::text(Bytes::from(text))).await?;
        }
        socket.flush().await
    }

    fn pong(&mut self) -> Pong {
        let n = self.pings.pop_front().unwrap_or(0);
        if std::mem::replace(&mut self.greeted, true) {
            return Pong { n, ..Pong::default() };
        }
        let settings = self.room.settings();
        let millis = |time: Duration| u64::try_from(time.as_millis()).ok();
        Pong {
            n,
            ping_interval_ms: millis(settings.ping_interval),
            ping_timeout_ms: millis(settings.ping_timeout),
            body_bytes_max: Some(settings.body_bytes_max as u64),
            many: true,
        }
    }

    /// The client said something, or several things.
    async fn hear(&mut self, text: Bytes) -> Result<(), End> {
        let frames: Result<Vec<Up<&RawValue>>, _> = match wire::is_many(&text) {
            true => serde_json::from_slice(&text),
            false => serde_json::from_slice(&text).map(|one| vec![one]),
        };
        let frames = frames.map_err(|bad| End::protocol(format!("no frame: {bad}")))?;
        if frames.len() > FRAMES_MAX {
            let words = format!("{} frames in a message; {FRAMES_MAX} are taken", frames.len());
            return Err(End::protocol(words));
        }
        let mut said = Sayings::default();
        for frame in &frames {
            self.hear_one(frame, &text, &mut said).await?;
        }
        self.say_all(&mut said).await
    }

    async fn hear_one(
        &mut self,
        frame: &Up<&RawValue>,
        text: &Bytes,
        said: &mut Sayings,
    ) -> Result<(), End> {
        let client = self.introduced(frame)?;
        match frame {
            Up::Init(_) => self.note_ping(0)?,
            Up::Ping(ping) => self.note_ping(ping.n)?,
            Up::Request(request) => {
                if let Err(error) = self.in_sight(&request.channel) {
                    self.line.push(Told::Refused { call: request.id, error });
                    return Ok(());
                }
            }
            _ => {}
        }
        let (call, ask) = ask_of(frame, text, client);
        if let Up::Init(_) = frame {
            self.say_all(said).await?;
            let introduced = self.room.introduce(ask).await;
            return introduced.map_err(|error| match error {
                RoomError::Closed(_) => End::stopping(),
                error => End::policy(error.to_string()),
            });
        }
        said.push(call, ask);
        Ok(())
    }

    /// Says to the room what was heard.
    async fn say_all(&mut self, said: &mut Sayings) -> Result<(), End> {
        let Some(client) = self.client else { return Ok(()) };
        match self.room.say(client, said).await {
            Ok(refused) => {
                for (call, error) in refused {
                    self.line.push(Told::Refused { call, error });
                }
                Ok(())
            }
            Err(_) => Err(End::stopping()),
        }
    }

    /// Who it is: whoever says anything has said so first.
    fn introduced(&mut self, frame: &Up<&RawValue>) -> Result<ClientId, End> {
        match (frame, self.client) {
            (Up::Init(init), known) => {
                if known.is_some_and(|known| known != init.client) {
                    return Err(End::policy("a connection is of one client"));
                }
                for serves in &init.serves {
                    let seen = self.in_sight(&serves.channel);
                    seen.map_err(|error| End::policy(error.to_string()))?;
                }
                if !self.room.connect(init.client, &self.line) {
                    return Err(End::policy("the client is another token's"));
                }
                self.client = Some(init.client);
                self.many = init.many;
                Ok(init.client)
            }
            (_, Some(known)) => Ok(known),
            (_, None) => Err(End::policy("the first frame is init")),
        }
    }

    fn note_ping(&mut self, n: u64) -> Result<(), End> {
        if !self.key.fits(&self.door) {
            return Err(End::policy("the token is revoked or expired"));
        }
        if self.pings.len() >= PINGS_MAX {
            return Err(End::policy("too many pings that are not answered"));
        }
        self.pings.push_back(n);
        Ok(())
    }

    fn in_sight(&self, channel: &ChannelName) -> Result<(), RoomError> {
        match self.sight.sees(channel.as_str()) {
            true => Ok(()),
            false => Err(RoomError::ChannelOutOfSight(channel.clone())),
        }
    }
}

fn end_of(why: Ended, words: String) -> End {
    match why {
        Ended::Stopped => End::stopping(),
        Ended::Slow | Ended::Replaced | Ended::Refused => End::policy(words),
    }
}
