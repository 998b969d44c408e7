//! The task that owns the room.

mod declaring;
mod groups;
mod sweeping;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::{Applied, Host};
use handoff_streams::{
    Action, Bounds, Command, Compression, Durability, Produce, Reply, State, Streams, TopicName,
    TopicSettings,
};
use handoff_types::{Now, Room as RoomName, Sight, Wall};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::sweeping::Sweeps;
pub(super) use self::sweeping::read as read_dying;
use super::StreamsRoom;
use super::chores::{Chores, Done, Trim};
use super::effects::Effect;
use super::ends::Publisher;
use super::mailbox::{
    Alteration, Answer, Ask, Asker, Listed, MAILBOX_MAX, Question, Registered, Shared, Shown,
    Stored, Waiting,
};
use super::reading::Reading;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::RoomError;
use crate::rooms::intake::{Intake, TAKEN_AT_ONCE};
use crate::rooms::line::{BULK_BYTES, Line};
use crate::rooms::releases::Releases;
use crate::rooms::work::{Resumed, Work};
use crate::runtime::{Checkpoints, MoverThread, Watermark};
use crate::settings;

/// Decisions released in one turn.
const RELEASED_AT_ONCE: usize = 4096;

/// Messages that become due in one record, and their bytes.
const TICK_MESSAGES: usize = 1024;
const TICK_BYTES: usize = 4 << 20;

/// The operator's clock may be set at any time, so nobody waits for it longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long after the journal refused something that nobody asked for it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How long after a tick that changed nothing the next one is.
const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// What a message takes beside its bytes, as far as admission is concerned.
const MESSAGE_BYTES: usize = 48;

const NO_SETTINGS: TopicSettings = TopicSettings {
    retention: None,
    retention_bytes: None,
    durability: Durability::Fsync,
    compression: Compression::None,
};

/// What the room is made of.
#[derive(Debug)]
pub struct Parts {
    /// The room on its storage.
    pub host: Host<Streams>,
    /// Its checkpoints.
    pub checkpoints: Checkpoints<Streams>,
    /// What time it is.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// What the operator decided.
    pub settings: settings::Streams,
    /// Whether the disk has space for new messages.
    pub watermark: Arc<Watermark>,
}

impl StreamsRoom {
    /// Puts the room to work.
    ///
    /// # Errors
    /// When the system gives no thread for what moves messages to their place.
    pub fn start(mut parts: Parts) -> io::Result<(Self, Work)> {
        let moving = parts.host.bulk().take_moving();
        if let Some(moving) = &moving {
            // The next checkpoint asks for what is left by then.
            moving.be_patient(parts.checkpoints.bytes());
        }
        let mover =
            moving.map(|moving| MoverThread::start(RoomName::Streams, moving)).transpose()?;
        let (asks, news, intake) = Intake::new(MAILBOX_MAX);
        let publisher = Publisher::of(parts.host.state());
        let shared = Arc::new(Shared::new(parts.settings, publisher.catalogue()));
        let reading = Reading::new(parts.host.reader(), parts.host.lanes());
        let room = Room {
            mover,
            reading: reading.clone(),
            chores: Chores::new(parts.host.lanes(), parts.host.state()),
            host: parts.host,
            checkpoints: parts.checkpoints,
            clock: parts.clock.clone(),
            dice: parts.dice,
            settings: shared.settings(),
            watermark: parts.watermark,
            shared: Arc::clone(&shared),
            intake,
            publisher,
            releases: Releases::default(),
            line: Line::default(),
            tick_at: None,
            sweeps: Sweeps::default(),
            turn: 0,
            is_refused: false,
        };
        let work = Work::start(|stop, resumed| room.run(stop, resumed));
        Ok((Self { mailbox: asks, news, shared, reading, clock: parts.clock }, work))
    }
}

struct Room {
    /// None if somebody else moves.
    mover: Option<MoverThread>,
    /// What others read by, to be closed at the end.
    reading: Reading,
    host: Host<Streams>,
    checkpoints: Checkpoints<Streams>,
    chores: Chores,
    clock: Clock,
    dice: Dice,
    settings: Arc<settings::Streams>,
    watermark: Arc<Watermark>,
    shared: Arc<Shared>,
    intake: Intake<Ask>,
    publisher: Publisher,
    releases: Releases<Effect>,
    line: Line<Ask>,
    /// Not before this, because the journal refused.
    tick_at: Option<Instant>,
    sweeps: Sweeps,
    /// Grows with every poll, so that no partition starves behind another.
    turn: u64,
    is_refused: bool,
}

impl Room {
    async fn run(mut self, stop: CancellationToken, resumed: Resumed) {
        tokio::select! {
            () = self.resume() => {}
            () = stop.cancelled() => {}
        }
        drop(resumed);
        let mut asks = Vec::with_capacity(2 * TAKEN_AT_ONCE);
        let mut stopping = false;
        let mut alarm = std::pin::pin!(sleep(Duration::ZERO));
        loop {
            let wait = self.turn(stopping);
            let waits = !self.line.is_empty() || !self.releases.is_empty();
            if self.intake.is_over() && !waits {
                break;
            }
            let busy = wait.is_zero();
            if !busy {
                alarm.as_mut().reset(Instant::now() + wait);
            }
            let takes = !self.releases.is_choked();
            let takes_news = takes && self.line.has_room();
            // Each of these can be dropped at any time: they take nothing, but what takes questions
            // takes only when it is done.
            tokio::select! {
                biased;
                () = self.releases.ready(), if !busy => {}
                () = self.intake.take(&mut asks, takes, takes_news) => {
                    let now = self.clock.now();
                    self.take_all(&mut asks.drain(..), now);
                }
                done = self.chores.done() => self.done(done),
                read = self.sweeps.read() => self.bury(read),
                () = self.shared.bell.notified() => {
                    self.settings = self.shared.settings();
                    if self.shared.hurried.load(Ordering::Acquire) {
                        self.line.hurry();
                    }
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    // No checkpoint frees the ring from now on, and nobody asks what was moved.
                    self.line.hurry();
                    self.chores.tell_to_end();
                    if let Some(mover) = &self.mover {
                        mover.tell();
                    }
                    self.intake.close();
                }
                () = tokio::task::yield_now(), if busy => {}
                () = &mut alarm, if !busy => {}
            }
        }
        self.publisher.close();
        self.sweeps.end();
        self.shared.bells.ring_all();
        self.reading.close().await;
        self.chores.end().await;
        // It waits for its thread, which may wait for a disk.
        let mover = self.mover;
        drop(tokio::task::spawn_blocking(move || drop(mover)).await);
    }

    /// Does what can be done now, a bounded part of it, and says how long nothing will have to be
    /// done unasked.
    fn turn(&mut self, stopping: bool) -> Duration {
        let mut wait = WAIT_MAX;
        if !self.release() {
            wait = Duration::ZERO;
        }
        let now = self.clock.now();
        let held = self.line.take_held();
        if !held.is_empty() {
            self.take_all(&mut held.into_iter(), now);
        }
        while let Some(ask) = self.line.take_bulk(self.releases.bulk()) {
            let back = self.take(ask, now);
            self.line.hold(back);
        }
        wait = wait.min(self.line.pause(self.releases.is_empty()).unwrap_or(WAIT_MAX));
        if stopping {
            return wait;
        }
        wait = wait.min(self.tick(now));
        wait = wait.min(self.chores.step(self.host.state(), &self.settings, now));
        wait.min(self.checkpoint(now))
    }

    /// Releases what is durable; whether that was all of it.
    fn release(&mut self) -> bool {
        for _ in 0..RELEASED_AT_ONCE {
            let Some((effect, outcome)) = self.releases.next() else { return true };
            let Effect { shown, actions, answer } = effect;
            if outcome.is_ok() {
                self.perform(shown, &actions);
            }
            if let Some((to, answer)) = answer {
                give(to, outcome.map_err(RoomError::from).and(answer));
            }
        }
        false
    }

    fn perform(&mut self, shown: Option<Shown>, actions: &[Action]) {
        match shown {
            Some(Shown::There(id, name, partitions)) => {
                self.publisher.show(id, &name, partitions);
                self.shared.bells.ring_all();
            }
            Some(Shown::Gone(id)) => {
                self.publisher.hide(id);
                self.shared.bells.ring_all();
            }
            None => {}
        }
        let mut removed = Vec::new();
        for action in actions {
            match *action {
                Action::Published { partition, end, last } => {
                    self.publisher.publish(partition, end, last);
                    self.shared.bells.ring_partition(partition);
                }
                Action::Drop { partition, below } => {
                    self.publisher.trim(partition, below);
                    self.shared.bells.ring_partition(partition);
                    self.chores.drop_below(partition, below);
                }
                Action::Made(id) => {
                    if let Some(topic) = self.host.state().topic_by_id(id) {
                        self.publisher.show(id, &topic.name, topic.partitions);
                    }
                }
                Action::Remove(partition) => removed.push(partition),
            }
        }
        if !removed.is_empty() {
            self.chores.remove(&removed);
        }
    }

    /// Delivers what is due and forgets who was idle. How long until more is.
    fn tick(&mut self, now: Now) -> Duration {
        if let Some(left) = self.tick_at.map(|at| at.saturating_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return left;
        }
        self.tick_at = None;
        let due = self.host.next_deadline(now);
        let Some(wait) = due.map(|due| Duration::from_micros(due.since(now.steady).0)) else {
            return WAIT_MAX;
        };
        if !wait.is_zero() || self.releases.is_choked() {
            return wait.max(IDLE_PAUSE);
        }
        let swept = match self.sweep(now) {
            Ok(swept) => swept,
            Err(refused) => return self.refused_tick(&refused),
        };
        let bounds = self.settings.bounds;
        let command = Command::Tick { limit: TICK_MESSAGES, bytes_max: TICK_BYTES, bounds };
        match self.apply(&command, TICK_BYTES, Purpose::Finish, now) {
            Ok(applied) => {
                self.accepted();
                let ticked = applied.sequence.is_some();
                if ticked {
                    self.wait_for(applied, None);
                }
                if ticked || swept {
                    return Duration::ZERO;
                }
                // What is due waits for a disk, and that it was read is said; or for a clock.
                let pause = if self.sweeps.are_under_way() { REFUSED_PAUSE } else { IDLE_PAUSE };
                self.tick_at = Some(Instant::now() + pause);
                pause
            }
            Err(refused) => self.refused_tick(&refused),
        }
    }

    fn refused_tick(&mut self, refused: &Refused) -> Duration {
        if !matches!(refused, Refused::Busy { .. }) {
            self.refused(refused);
        }
        self.tick_at = Some(Instant::now() + REFUSED_PAUSE);
        REFUSED_PAUSE
    }

    /// A chore is done: what is past its time goes, what belongs to nobody goes.
    fn done(&mut self, done: Done) {
        let now = self.clock.now();
        match done {
            Done::Listed(lanes) => self.chores.sweep(lanes),
            Done::Left(left) => self.chores.keep(left),
            Done::Looked(trims) => {
                for Trim { partition, below, bytes } in trims {
                    let command = Command::Trim { partition, below, bytes };
                    match self.apply(&command, 0, Purpose::Finish, now) {
                        Ok(applied) => self.wait_for(applied, None),
                        // The next look finds the same.
                        Err(refused) => return self.refused(&refused),
                    }
                }
            }
        }
    }

    /// The journal took nothing that was due. Nothing is lost: it stays due.
    fn refused(&mut self, refused: &Refused) {
        if !std::mem::replace(&mut self.is_refused, true) {
            warn!(error = %refused, "the journal takes nothing of streams; what is due waits");
        }
    }

    fn accepted(&mut self) {
        if std::mem::take(&mut self.is_refused) {
            info!("the journal takes streams again");
        }
    }

    /// Looks every turn whether a checkpoint is due, and goes on with one in its own time.
    fn checkpoint(&mut self, now: Now) -> Duration {
        self.checkpoints.turn(&mut self.host, now).unwrap_or(WAIT_MAX)
    }

    /// Takes questions in order. If the journal has no room for something new, what is new waits
    /// behind it; what finishes or only looks does not. Bulk waits for bulk.
    fn take_all(&mut self, asks: &mut dyn Iterator<Item = Ask>, now: Now) {
        let _written_together = self.host.hold();
        for ask in asks {
            let is_new = |ask: &Ask| ask.question.is_new();
            let is_bulk = |ask: &Ask| is_bulk(&ask.question);
            if let Some(ask) = self.line.pass(ask, self.releases.bulk(), is_new, is_bulk) {
                let back = self.take(ask, now);
                self.line.hold(back);
            }
        }
    }

    /// Takes a question, or gives it back if it has to wait.
    fn take(&mut self, Ask { question, handing, to }: Ask, now: Now) -> Option<Ask> {
        let bounds = self.settings.bounds;
        let bounds = handing.map_or(bounds, |handing| handing.over(bounds));
        if question.takes_space()
            && let Err(low) = self.watermark.check()
        {
            give(to, Err(low));
            return None;
        }
        let (command, bytes, purpose) = match question {
            Question::Produce(produce) => {
                let bytes = weight(&produce);
                (Command::Produce { produce, bounds }, bytes, Purpose::Accept)
            }
            Question::Create(topic) => {
                let bytes = partitions_weight(topic.partitions, &bounds);
                (Command::CreateTopic { topic, bounds }, bytes, Purpose::Accept)
            }
            Question::Alter(name, alteration) => {
                let settings = self.altered(&name, alteration);
                (Command::AlterTopic { name, settings }, 0, Purpose::Finish)
            }
            Question::Grow(name, partitions) => {
                let bytes = partitions_weight(partitions, &bounds);
                (Command::GrowTopic { name, partitions, bounds }, bytes, Purpose::Accept)
            }
            Question::Delete(name) => {
                let topic = self.host.state().topic(&name);
                let bytes = partitions_weight(topic.map_or(0, |topic| topic.partitions), &bounds);
                (Command::DeleteTopic { name }, bytes, Purpose::Finish)
            }
            Question::Register(registration, sight) => {
                let command = Command::RegisterProducer { registration, sight, bounds };
                (command, 0, Purpose::Accept)
            }
            Question::Cancel(id, sight) => {
                (Command::CancelScheduled { id, sight }, 0, Purpose::Finish)
            }
            Question::Group(command) => {
                return self.take_group(*command, to, now);
            }
            Question::AlterGroup(name, alteration, begin) => {
                let command = self.altered_group(name, *alteration, begin);
                return self.take_group(command, to, now);
            }
            Question::Look { group, member, most, waits } => {
                return self.look_for(group, member, (most, waits), to, now);
            }
            question => {
                self.look(question, to, now);
                return None;
            }
        };
        match self.apply(&command, bytes, purpose, now) {
            Ok(applied) => {
                if purpose == Purpose::Accept {
                    self.line.accepted();
                }
                self.wait_for_bulk(applied, Some(to), bytes);
                None
            }
            Err(refused) => {
                let held = self.put_off(&refused, asked_again(command), to)?;
                Some(Ask { handing, ..held })
            }
        }
    }

    /// A question the journal had no room for: it waits, or whoever asked is told.
    fn put_off(&mut self, refused: &Refused, question: Question, to: Asker) -> Option<Ask> {
        if self.line.may_wait(refused) {
            return Some(Ask { question, handing: None, to });
        }
        give(to, Err(refused.clone().into()));
        None
    }

    /// A topic's settings once they are altered.
    fn altered(&self, name: &TopicName, alteration: Alteration) -> TopicSettings {
        let topic = self.host.state().topic(name);
        // Without a topic the room refuses whatever they are.
        let mut settings = topic.map_or(NO_SETTINGS, |topic| topic.settings);
        let Alteration { retention, retention_bytes, durability, compression } = alteration;
        settings.retention = retention.unwrap_or(settings.retention);
        settings.retention_bytes = retention_bytes.unwrap_or(settings.retention_bytes);
        settings.durability = durability.unwrap_or(settings.durability);
        settings.compression = compression.unwrap_or(settings.compression);
        settings
    }

    /// Lets what was decided wait until it is durable, whatever of it has to.
    fn wait_for(&mut self, applied: Applied<Streams>, to: Option<Asker>) {
        self.wait_for_bulk(applied, to, 0);
    }

    /// The same for something of so many bytes, if those are many.
    fn wait_for_bulk(&mut self, applied: Applied<Streams>, mut to: Option<Asker>, bytes: usize) {
        let bulk = if bytes >= BULK_BYTES { bytes } else { 0 };
        let Applied { reply, actions, ticket, .. } = applied;
        let mut shown = None;
        let mut at_once = false;
        let answer = match reply {
            Reply::Produced { results, missing, waits } => {
                at_once = !waits;
                Ok(Answer::Stored(Stored { results, missing }))
            }
            Reply::Created(topic) | Reply::Altered(topic) => {
                shown = Some(Shown::There(topic.id, topic.name.clone(), topic.partitions));
                Ok(Answer::Topic(topic))
            }
            Reply::Deleted(topic) => {
                shown = Some(Shown::Gone(topic.id));
                Ok(Answer::Topic(topic))
            }
            Reply::Registered { producer, scope, last, last_by_topic } => {
                let registered = Registered { producer, scope, last, last_by_topic };
                Ok(Answer::Registered(Box::new(registered)))
            }
            Reply::Cancelled(_) | Reply::Trimmed { .. } | Reply::Ticked { .. } => {
                Ok(Answer::Cancelled)
            }
            Reply::Group(reply) => Ok(Answer::Group(reply)),
            Reply::Refused(refusal) => Err(RoomError::from(refusal)),
        };
        if at_once && let Some(to) = to.take() {
            give(to, answer);
            let effect = Effect { shown, actions, answer: None };
            return self.releases.push_bulk(ticket, effect, bulk);
        }
        let answer = to.map(|to| (to, answer));
        self.releases.push_bulk(ticket, Effect { shown, actions, answer }, bulk);
    }

    /// A question that changes nothing. The answer waits for all of what it shows; figures do not:
    /// somebody may be looking because the disk does not answer.
    fn look(&mut self, question: Question, to: Asker, now: Now) {
        let state = self.host.state();
        let answer = match question {
            Question::Topics { sight, after, limit } => {
                Ok(topics(state, &sight, after.as_ref(), limit))
            }
            Question::Topic(name) => match state.view(&name, &Sight::All) {
                Some(view) => Ok(Answer::View(Box::new(view))),
                None => Err(handoff_streams::Refusal::NoTopic(name).into()),
            },
            Question::Scheduled { topic, after, limit } => scheduled(state, topic, after, limit),
            // It is a step on the way to something that waits for the disk itself.
            Question::OneGroup(name) => {
                let group = state.group(&name).cloned().map(Box::new);
                return give(to, Ok(Answer::OneGroup(group)));
            }
            Question::Groups { sight, after, limit } => {
                Ok(groups::list(state, &sight, after.as_ref(), limit))
            }
            Question::ShowGroup(name, sight) => groups::show(state, name, &sight, now),
            Question::Status(name, partition, offset) => {
                groups::status(state, name, partition, offset, now)
            }
            Question::Replayed(name, letters) => groups::replayed(state, name, &letters),
            _ => return give(to, Ok(Answer::Stats(state.counts(), state.group_figures()))),
        };
        let ticket = self.host.journal().barrier(RoomName::Streams);
        let answer = Some((to, answer));
        let effect = Effect { shown: None, actions: Vec::new(), answer };
        self.releases.push(ticket, effect);
    }

    fn apply(
        &mut self,
        command: &Command,
        bytes: usize,
        purpose: Purpose,
        now: Now,
    ) -> Result<Applied<Streams>, Refused> {
        self.host.apply_made(command, bytes as u64, purpose, (now, self.dice.roll()))
    }
}

/// Whoever has gone does not want to know.
fn give(to: Asker, answer: Result<Answer, RoomError>) {
    drop(to.send(answer));
}

/// The question a command was made of. Only what is admitted before it is decided comes back.
fn asked_again(command: Command) -> Question {
    match command {
        Command::Produce { produce, .. } => Question::Produce(produce),
        Command::CreateTopic { topic, .. } => Question::Create(topic),
        Command::AlterTopic { name, settings } => {
            let alteration = Alteration {
                retention: Some(settings.retention),
                retention_bytes: Some(settings.retention_bytes),
                durability: Some(settings.durability),
                compression: Some(settings.compression),
            };
            Question::Alter(name, alteration)
        }
        Command::GrowTopic { name, partitions, .. } => Question::Grow(name, partitions),
        Command::DeleteTopic { name } => Question::Delete(name),
        Command::RegisterProducer { registration, sight, .. } => {
            Question::Register(registration, sight)
        }
        Command::CancelScheduled { id, sight } => Question::Cancel(id, sight),
        Command::Group(command) => Question::Group(Box::new(command)),
        Command::Trim { .. } | Command::Tick { .. } => Question::Stats,
    }
}

/// What changes of so many partitions take, about. More than may be are refused by the room, so they
/// need not be admitted.
fn partitions_weight(partitions: u32, bounds: &Bounds) -> usize {
    const EACH: usize = 64;
    EACH.saturating_mul((partitions as usize).min(bounds.partitions_max))
}

/// Whether a question is about so many bytes that it should let others pass.
fn is_bulk(question: &Question) -> bool {
    matches!(question, Question::Produce(produce) if weight(produce) >= BULK_BYTES)
}

/// What storing messages takes, about.
fn weight(produce: &Produce) -> usize {
    let weigh = |message: &handoff_streams::Message| {
        let headers = message.headers.iter();
        message.payload.len()
            + message.key.as_ref().map_or(0, bytes::Bytes::len)
            + headers.map(|header| header.name.len() + header.value.len() + 8).sum::<usize>()
            + MESSAGE_BYTES
    };
    produce.messages.iter().map(weigh).sum()
}

fn topics(state: &State, sight: &Sight, after: Option<&TopicName>, limit: usize) -> Answer {
    let mut found = state.topics(sight, after);
    let listed = found.by_ref().take(limit).map(|topic| {
        let partitions = (0..topic.partitions).filter_map(|number| {
            state.partition(handoff_streams::PartitionId { topic: topic.id, number })
        });
        let count = |(messages, bytes), partition: &handoff_streams::Partition| {
            (messages + (partition.end - partition.start), bytes + partition.bytes)
        };
        let (messages, bytes) = partitions.fold((0, 0), count);
        Listed { topic: topic.clone(), messages, bytes }
    });
    let listed = listed.collect();
    Answer::Topics(listed, found.next().is_some())
}

fn scheduled(
    state: &State,
    name: TopicName,
    after: Option<(Wall, handoff_streams::ScheduledId)>,
    limit: usize,
) -> Result<Answer, RoomError> {
    let Some(topic) = state.topic(&name) else {
        return Err(handoff_streams::Refusal::NoTopic(name).into());
    };
    let mut found = state.scheduled(Some(topic.id), &Sight::All, after);
    let listed = found.by_ref().take(limit).map(Waiting::from).collect();
    Ok(Answer::Scheduled(listed, found.next().is_some()))
}
