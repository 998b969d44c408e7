//! One connection, from the greeting to the end.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use handoff_relay::session::{Hello, Message, Reason};
use handoff_relay::{Name, Origin, Received, Receiver, SegmentKey, ShardId};
use handoff_types::{Room, Span};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Door;
use super::agents::SessionView;
use super::blocks::{Busy, Claim};
use super::delivery::{Content, Delivered, Lane, Parcel, deliver};
use super::line::Line;
use super::machine::{Made, Taken, take};
use super::sinks::Failure;
use crate::auth::Caller;

/// What a message may have without asking for memory that all connections share.
const OWN_BYTES: usize = 64 << 10;

/// How often a connection is looked at: silence, tokens that were revoked.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Holds a conversation.
pub(super) async fn hold(
    door: Arc<Door>,
    mut line: Line,
    peer: SocketAddr,
    stop: CancellationToken,
) {
    let greeting_max = *door.greeting_max.borrow();
    let hello = match stop.run_until_cancelled(timeout(greeting_max, line.first())).await {
        Some(Ok(Ok(Message::Hello(hello)))) => hello,
        Some(Ok(Ok(_))) => {
            return refuse(&door, line, "greeting", no("the first message is no greeting")).await;
        }
        Some(Ok(Err(error))) => {
            debug!(%peer, error = &error as &dyn std::error::Error, "no greeting");
            if error.kind() == io::ErrorKind::Other {
                refuse(&door, line, "greeting", no(&format!("the greeting {error}"))).await;
            }
            return;
        }
        Some(Err(_)) | None => return,
    };
    match Session::open(door, line, hello, peer, stop).await {
        Some(session) => session.run().await,
        None => debug!(%peer, "an agent was sent away"),
    }
}

fn no(words: &str) -> (Reason, Span, String) {
    (Reason::Permanent, Span::ZERO, words.to_owned())
}

async fn refuse(
    door: &Door,
    line: Line,
    why: &'static str,
    (reason, retry_after, words): (Reason, Span, String),
) {
    door.metrics().refused(why);
    line.farewell(&Message::Refuse { reason, retry_after, words }).await;
}

/// Why a conversation ends.
#[derive(Debug)]
enum End {
    /// The agent left, or the connection broke.
    Left(io::Error),
    /// Somebody here wants it to end: the server stops, or another connection speaks for the block.
    Told,
    /// It is refused from now on.
    Refused(Message),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Left(error)
    }
}

struct Session {
    door: Arc<Door>,
    line: Line,
    stop: CancellationToken,
    claim: Claim,
    caller: Caller,
    origin: Arc<Origin>,
    /// For people.
    id: u64,
    backlog: bool,
    /// Not there while it decodes.
    receiver: Option<Box<Receiver>>,
    lanes: Vec<Lane>,
    deliveries: JoinSet<Delivered>,
    /// Memory for the message that arrives.
    intake: Option<OwnedSemaphorePermit>,
    /// The part of it that backlogs may have.
    intake_old: Option<OwnedSemaphorePermit>,
    heard: Instant,
    /// Since when the message that arrives has been arriving.
    begun: Option<Instant>,
    /// Whether the agent said that the block is complete.
    is_complete: bool,
}

impl Session {
    /// Greets. None if the agent was sent away.
    async fn open(
        door: Arc<Door>,
        mut line: Line,
        hello: Hello,
        peer: SocketAddr,
        stop: CancellationToken,
    ) -> Option<Self> {
        let settings = door.settings();
        let caller = match admitted(&door, &hello) {
            Ok(caller) => caller,
            Err(words) => {
                info!(agent = %hello.origin.agent, %peer, words, "an agent was sent away");
                let unauthorized = (Reason::Unauthorized, door.again(), words);
                refuse(&door, line, "unauthorized", unauthorized).await;
                return None;
            }
        };
        let claimed = door.blocks.claim(&hello.origin, settings.blocks_max).await;
        let (claim, kept) = match claimed {
            Ok(claimed) => claimed,
            Err(busy) => {
                let words = match busy {
                    Busy::Spoken => "another connection of this block is still there".to_owned(),
                    Busy::Full(max) => format!("relay.blocks_max allows {max} blocks at once"),
                };
                refuse(&door, line, "blocks", (Reason::RetryAfter, door.again(), words)).await;
                return None;
            }
        };
        let marks = match door.sinks.marks(&hello.origin, hello.shards).await {
            Ok(marks) => marks,
            Err(Failure { words, .. }) => {
                refuse(&door, line, "sinks", (Reason::RetryAfter, door.again(), words)).await;
                return None;
            }
        };
        let mark = |shard: ShardId| {
            let of = |sink: &Vec<Option<u32>>| sink.get(usize::from(shard)).copied().flatten();
            marks.iter().map(of).min().flatten()
        };
        let fresh = || Receiver::new(&hello, settings.limits()).map(Box::new);
        let greeted = match kept.map_or_else(fresh, Ok) {
            Ok(mut receiver) => {
                let answer = receiver.greeted(&hello, mark);
                (matches!(answer, Message::HelloAck(_)), answer, Some(receiver))
            }
            Err(refusal) => (false, refusal, None),
        };
        let (true, answer, receiver) = greeted else {
            door.metrics().refused("greeting");
            door.sinks.left(&hello.origin);
            line.farewell(&greeted.1).await;
            return None;
        };
        line.allow(settings.frame_bytes_max);
        if line.say(&answer).await.is_err() {
            door.sinks.left(&hello.origin);
            claim.release(receiver);
            return None;
        }
        let missing = missing(&hello, mark);
        if missing > 0 {
            warn!(
                agent = %hello.origin.agent, block = %hello.origin.block, missing,
                "an agent was confirmed segments that are not here: this data directory is another one, or older"
            );
            door.metrics().missing(missing);
        }
        let session = SessionView {
            origin: hello.origin.clone(),
            backlog: hello.backlog,
            peer,
            since: door.clock.wall(),
            marks: hello.shards.ids().map(mark).collect(),
        };
        let id = door.agents.came(session, missing, settings.agents_max);
        let lane = |shard: ShardId| Lane {
            marks: marks
                .iter()
                .map(|sink| sink.get(usize::from(shard)).copied().flatten())
                .collect(),
            ..Lane::default()
        };
        let lanes = hello.shards.ids().map(lane).collect();
        Some(Self {
            line,
            stop,
            claim,
            caller,
            origin: Arc::new(hello.origin),
            id,
            backlog: hello.backlog,
            receiver,
            lanes,
            deliveries: JoinSet::new(),
            intake: None,
            intake_old: None,
            heard: Instant::now(),
            begun: None,
            is_complete: false,
            door,
        })
    }

    /// Talks until either side has enough; what was handed over is answered first.
    async fn run(mut self) {
        let end = match self.talk().await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        while let Some(done) = self.deliveries.join_next().await {
            // Whoever is gone learns it from the next greeting.
            if self.settle(done).await.is_err() {
                debug!(agent = %self.origin.agent, "a confirmation was not sent");
            }
        }
        let Self { door, line, claim, origin, id, receiver, is_complete, .. } = self;
        match end {
            End::Left(error) => {
                debug!(agent = %origin.agent, error = &error as &dyn std::error::Error, "an agent left");
            }
            End::Told => {}
            End::Refused(message) => line.farewell(&message).await,
        }
        door.agents.left(&origin.agent, id, door.clock.wall());
        door.sinks.left(&origin);
        claim.release(receiver.filter(|_| !is_complete));
    }

    async fn talk(&mut self) -> Result<std::convert::Infallible, End> {
        let mut look = Instant::now() + LOOK_EVERY;
        loop {
            while let Some(message) = self.line.message().map_err(malformed)? {
                self.begun = None;
                self.take(message).await?;
                (self.intake, self.intake_old) = (None, None);
            }
            self.ask_for_memory().await?;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(End::Told),
                () = self.claim.told_to_leave() => return Err(End::Told),
                Some(done) = self.deliveries.join_next() => self.settle(done).await?,
                read = self.line.fill() => {
                    if read? == 0 {
                        return Err(End::Left(io::ErrorKind::UnexpectedEof.into()));
                    }
                    self.heard = Instant::now();
                }
                () = sleep_until(look) => {
                    look = Instant::now() + LOOK_EVERY;
                    self.look()?;
                }
            }
        }
    }

    /// Looks whether the agent is still there and still welcome.
    fn look(&self) -> Result<(), End> {
        let settings = self.door.settings();
        if self.heard.elapsed() > settings.silence_max {
            return Err(End::Left(io::ErrorKind::TimedOut.into()));
        }
        if self.begun.is_some_and(|begun| begun.elapsed() > settings.frame_time_max) {
            return Err(End::Left(io::ErrorKind::TimedOut.into()));
        }
        if !self.door.gate.still_admits(&self.caller) {
            return Err(End::Refused(Message::Refuse {
                reason: Reason::Unauthorized,
                retry_after: self.door.again(),
                words: "the token was revoked or has expired".to_owned(),
            }));
        }
        Ok(())
    }

    /// A large message is read once there is memory for it.
    async fn ask_for_memory(&mut self) -> Result<(), End> {
        let Some(bytes) = self.line.begun() else { return Ok(()) };
        self.begun.get_or_insert_with(Instant::now);
        if bytes <= OWN_BYTES || self.intake.is_some() {
            return Ok(());
        }
        let max = self.door.intake_max;
        // Half of it is for what is new: a backlog holds its part until its turn comes.
        if self.backlog {
            let intake = Arc::clone(&self.door.intake_old);
            self.intake_old = self.permits(intake, bytes, max / 2).await?;
        }
        let intake = Arc::clone(&self.door.intake);
        let bytes = if self.backlog { bytes.min(max / 2) } else { bytes };
        self.intake = self.permits(intake, bytes, max).await?;
        Ok(())
    }

    /// So many bytes, or all there are.
    async fn permits(
        &mut self,
        of: Arc<Semaphore>,
        bytes: usize,
        max: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, End> {
        let many = u32::try_from(bytes.min(max)).unwrap_or(u32::MAX);
        // Nobody closes it.
        Ok(self.meanwhile(of.acquire_many_owned(many)).await?.ok())
    }

    /// Waits for something, and goes on confirming meanwhile. The agent hears that somebody is there.
    async fn meanwhile<T>(&mut self, wanted: impl Future<Output = T>) -> Result<T, End> {
        let mut wanted = pin!(wanted);
        loop {
            tokio::select! {
                biased;
                got = &mut wanted => {
                    self.heard = Instant::now();
                    return Ok(got);
                }
                () = self.stop.cancelled() => return Err(End::Told),
                () = self.claim.told_to_leave() => return Err(End::Told),
                Some(done) = self.deliveries.join_next() => self.settle(done).await?,
                () = sleep(LOOK_EVERY) => self.line.say(&Message::Pong).await?,
            }
        }
    }

    /// A message of the agent.
    async fn take(&mut self, message: Message) -> Result<(), End> {
        let bytes = match &message {
            Message::Segment { bytes, .. } | Message::KeyFrame { bytes, .. } => bytes.len(),
            Message::Status(status) => {
                let now = self.door.clock.wall();
                self.door.agents.told(&self.origin.agent, status.clone(), now);
                return Ok(());
            }
            _ => 0,
        };
        let is_heavy = bytes > 0;
        // Its turn lasts until it is known how much it is.
        let turn = if self.backlog && is_heavy { self.turn().await? } else { None };
        let taken = self.decode(message).await?;
        if is_heavy {
            self.door.metrics().received(bytes, self.backlog);
            self.count(&taken);
        }
        drop(turn);
        match taken {
            Taken::Made(key, made) => {
                let content = self.fitting(made).await?;
                self.hand_over(Parcel { key, content });
                Ok(())
            }
            Taken::Unfit(key, unfit) => {
                let content = Content::Unfit(Failure::never(format!("it carries what {unfit}")));
                self.hand_over(Parcel { key, content });
                Ok(())
            }
            Taken::Other(received) => match received {
                Received::Nothing => Ok(()),
                Received::Answer(answer) => {
                    if let Message::Reject { reason, words, .. } = &answer {
                        self.note_reject(*reason, words);
                    }
                    Ok(self.line.say(&answer).await?)
                }
                Received::Skipped(key) => {
                    self.hand_over(Parcel { key, content: Content::Skipped });
                    Ok(())
                }
                Received::Ended => {
                    self.is_complete = true;
                    Ok(())
                }
                // Samples come as `Made` or `Unfit`.
                Received::Samples(_) | Received::Broken(_) => {
                    let words = match received {
                        Received::Broken(words) => words,
                        _ => "a segment was lost on its way",
                    };
                    Err(malformed(handoff_relay::Malformed(words)))
                }
            },
        }
    }

    /// Samples with the memory that they take, unless they are too large.
    async fn fitting(&mut self, made: Made) -> Result<Content, End> {
        let (bytes, most) = (made.v2.len(), self.door.sinks.bytes_max());
        if bytes > most {
            let words = format!(
                "the segment has {bytes} bytes as a message; relay.message_bytes_max allows {most}"
            );
            return Ok(Content::Unfit(Failure { reason: Reason::TooLarge, words }));
        }
        let (pending, max) = (Arc::clone(&self.door.pending), self.door.pending_max);
        let pending = self.permits(pending, made.bytes(), max).await?;
        Ok(Content::Samples { made, _pending: pending })
    }

    /// Gives a message to the receiver, on a thread that may compute if there is something to decode.
    async fn decode(&mut self, message: Message) -> Result<Taken, End> {
        let (forms, benches) = (self.door.sinks.forms(), self.door.pool.benches());
        let is_heavy = matches!(message, Message::Segment { .. } | Message::KeyFrame { .. });
        if !is_heavy {
            let Some(receiver) = &mut self.receiver else { return Err(End::Told) };
            return Ok(benches.with(|bench| take(receiver, &message, forms, bench))?);
        }
        let seat = self.meanwhile(Arc::clone(&self.door.pool.seats).acquire_owned()).await?;
        let Some(mut receiver) = self.receiver.take() else { return Err(End::Told) };
        let work = move || {
            let taken = benches.with(|bench| take(&mut receiver, &message, forms, bench));
            drop(seat);
            (receiver, taken)
        };
        let (receiver, taken) = spawn_blocking(work).await.map_err(io::Error::other)?;
        self.receiver = Some(receiver);
        Ok(taken?)
    }

    /// Waits until it is the turn of this backlog, behind those who came before it.
    async fn turn(&mut self) -> Result<Option<OwnedSemaphorePermit>, End> {
        let came = Instant::now();
        // Nobody closes it.
        let turn = self.meanwhile(Arc::clone(&self.door.turn).acquire_owned()).await?.ok();
        loop {
            let wait = self.door.pacer().wait(self.door.clock.steady());
            if wait == Span::ZERO {
                break;
            }
            self.meanwhile(sleep(Duration::from_micros(wait.0))).await?;
        }
        self.door.metrics().paced(came.elapsed());
        Ok(turn)
    }

    /// Counts what goes to the sinks. Its bytes there count, not those on the way: of a series that was
    /// named before only numbers come, and the first segment of a block names them all.
    fn count(&self, taken: &Taken) {
        let Taken::Made(_, made) = taken else { return };
        let (bytes, now) = (made.bytes(), self.door.clock.steady());
        let mut pacer = self.door.pacer();
        if self.backlog { pacer.backlog(bytes, now) } else { pacer.fresh(bytes, now) }
    }

    /// Puts a segment behind those of its shard that are on their way.
    fn hand_over(&mut self, parcel: Parcel) {
        let shard = parcel.key.shard;
        if let Some(lane) = self.lanes.get_mut(usize::from(shard)) {
            lane.waiting.push_back(parcel);
            self.send(shard);
        }
    }

    /// Sends what waits in a lane, if nothing of it is on its way.
    fn send(&mut self, shard: ShardId) {
        let Some(lane) = self.lanes.get_mut(usize::from(shard)) else { return };
        if let Some(parcels) = lane.next() {
            let (sinks, origin) = (Arc::clone(&self.door.sinks), Arc::clone(&self.origin));
            self.deliveries.spawn(deliver(sinks, origin, shard, parcels, lane.marks.clone()));
        }
    }

    /// A delivery has ended.
    async fn settle(&mut self, done: Result<Delivered, JoinError>) -> Result<(), End> {
        let Delivered { shard, marks, upto, stored, failed } = done.map_err(io::Error::other)?;
        if let Some(lane) = self.lanes.get_mut(usize::from(shard)) {
            lane.settle(marks, failed.is_some());
        }
        if let Some(key) = upto {
            let now = self.door.clock.wall();
            self.door.agents.stored(&self.origin.agent, self.id, key, stored, now);
            self.door.metrics().stored(stored.segments, stored.samples);
            let answer = self.receiver.as_mut().and_then(|receiver| receiver.stored(key));
            if let Some(answer) = answer {
                self.line.say(&answer).await?;
            }
        }
        match failed {
            Some((key, Failure { reason, words })) => self.refuse(key, reason, words).await,
            None => {
                self.send(shard);
                Ok(())
            }
        }
    }

    /// A segment is not taken.
    async fn refuse(&mut self, key: SegmentKey, reason: Reason, words: String) -> Result<(), End> {
        self.note_reject(reason, &words);
        let retry_after = if reason.is_permanent() { Span::ZERO } else { self.door.again() };
        let refused =
            |receiver: &mut Box<Receiver>| receiver.refused(key, reason, retry_after, words);
        match self.receiver.as_mut().and_then(refused) {
            Some(answer) => Ok(self.line.say(&answer).await?),
            None => Ok(()),
        }
    }

    fn note_reject(&self, reason: Reason, words: &str) {
        self.door.metrics().rejected(reason);
        self.door.agents.rejected(&self.origin.agent, words);
    }
}

fn malformed(malformed: handoff_relay::Malformed) -> End {
    End::Refused(Message::Refuse {
        reason: Reason::Permanent,
        retry_after: Span::ZERO,
        words: format!("a message {malformed}"),
    })
}

/// Who it is, or why they are not let in.
fn admitted(door: &Door, hello: &Hello) -> Result<Caller, String> {
    let token = Some(hello.token.as_bytes()).filter(|token| !token.is_empty());
    let caller = door.gate.admit(token).map_err(|denied| denied.to_string())?;
    let agent: &Name = &hello.origin.agent;
    match caller.sight(Room::Relay) {
        Some(sight) if sight.sees(agent.as_str()) => Ok(caller),
        Some(_) => Err(format!("the token is not for an agent of the name {agent}")),
        None => Err("the token sees nothing of the relay".to_owned()),
    }
}

/// Segments that the agent was confirmed once and that are not here.
fn missing(hello: &Hello, mark: impl Fn(ShardId) -> Option<u32>) -> u64 {
    let of = |(shard, first): (ShardId, &u32)| {
        let next = mark(shard).map_or(0, |mark| u64::from(mark) + 1);
        u64::from(*first).saturating_sub(next)
    };
    (0..).zip(&hello.first).map(of).sum()
}
