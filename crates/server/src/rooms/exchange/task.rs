//! The task that owns the room.

mod chores;
mod notices;
mod taking_in;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_exchange::{Action, Ask, Begun, Command, Exchange, Reply, Seq, State};
use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::folders::{Folders, filed};
use handoff_store_embedded::{Applied, Host};
use handoff_types::{Now, Room as RoomName, Steady};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::chores::Chores;
use super::ExchangeRoom;
use super::directory::{Directory, touched};
use super::filer::Filer;
use super::lag::Lag;
use super::mailbox::{Asker, Done, MAILBOX_MAX, Question, Shared, Shown, is_new, weight};
use super::reading::Reading;
use super::releases::{Effect, Releases, Then};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::RoomError;
use crate::runtime::{Checkpoints, Labour, Watermark};
use crate::settings;
use crate::telemetry::Metrics;

/// Questions taken in one turn.
const ASKS_AT_ONCE: usize = 256;

/// Decisions released in one turn.
const RELEASED_AT_ONCE: usize = 4096;

/// The operator's clock may be set at any time, so nobody waits for it longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long after the journal refused something that nobody asked for it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How long a question waits for the journal's queue when nothing of this room is in it.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// How long new messages wait for space in the ring before they are refused.
const FULL_MAX: Duration = Duration::from_secs(10);

/// Questions that wait for the journal; above that what is new waits in its mailbox.
const HELD_MAX: usize = 1024;

/// A request to store so many bytes is bulk, and so much of it is on its way to the disk at once,
/// about: whoever sends one small message waits for this much, however much others send.
const BULK_BYTES: usize = 64 << 10;
const BULK_AT_ONCE: usize = 2 << 20;

/// What the room is made of.
#[derive(Debug)]
pub struct Parts {
    /// The room on its storage.
    pub host: Host<Exchange>,
    /// Its files.
    pub folders: Folders,
    /// Its checkpoints.
    pub checkpoints: Checkpoints<Exchange>,
    /// What time it is.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// What the operator decided.
    pub settings: settings::Exchange,
    /// Whether the disk has space for new messages.
    pub watermark: Arc<Watermark>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// The room's task.
#[derive(Debug)]
pub struct Work {
    task: Labour,
    stop: CancellationToken,
    resumed: Option<oneshot::Receiver<Infallible>>,
}

impl Work {
    /// Waits until processes of before the start are taken care of and the room answers.
    ///
    /// # Cancel safety
    /// It may be waited for again.
    pub async fn resumed(&mut self) {
        if let Some(resumed) = &mut self.resumed {
            // Dropped at the other end, by a room that answers or by one that is gone, which shows
            // elsewhere.
            drop(resumed.await);
            self.resumed = None;
        }
    }

    /// Waits until the room has ended. Unless it was told to, that is a mistake of ours.
    ///
    /// # Cancel safety
    /// It may be waited for again.
    pub async fn ended(&mut self) {
        self.task.ended().await;
    }

    /// Lets the room answer what it was asked and end. Its storage is given back.
    ///
    /// # Cancel safety
    /// Dropped, the room ends all the same.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.ended().await;
    }
}

impl ExchangeRoom {
    /// Puts the room to work.
    ///
    /// # Errors
    /// When the system gives no thread for the files.
    pub fn start(parts: Parts) -> io::Result<(Self, Work)> {
        let (asks, mailbox) = mpsc::channel(MAILBOX_MAX);
        let (news, new) = mpsc::channel(MAILBOX_MAX);
        let orders = parts.folders.orders();
        let reading = Reading::new(parts.folders.bodies(), parts.settings.reads_max);
        let directory = Directory::of(parts.host.state());
        let shared = Arc::new(Shared::new(parts.settings, directory, orders));
        let (resumed, on_resumed) = oneshot::channel();
        let stop = CancellationToken::new();
        let clock = parts.clock.clone();
        let filer = Filer::start(parts.folders, asks.clone(), Arc::clone(&shared), clock.clone())?;
        let room = Room {
            filer,
            reading: reading.clone(),
            chores: Chores::new(clock.steady()),
            host: parts.host,
            checkpoints: parts.checkpoints,
            clock: clock.clone(),
            dice: parts.dice,
            settings: shared.settings(),
            watermark: parts.watermark,
            metrics: Arc::clone(&parts.metrics),
            shared: Arc::clone(&shared),
            mailbox,
            news: new,
            releases: Releases::default(),
            held: VecDeque::new(),
            bulk: VecDeque::new(),
            full_since: None,
            full_max: FULL_MAX,
            lag: Lag::new(clock.steady()),
            checkpoint_at: None,
        };
        let task = Labour::of(tokio::spawn(room.run(stop.clone(), resumed)));
        let work = Work { task, stop, resumed: Some(on_resumed) };
        let metrics = parts.metrics;
        Ok((Self { mailbox: asks, news, shared, reading, clock, metrics }, work))
    }
}

struct Room {
    /// What others read by, to be closed at the end.
    reading: Reading,
    host: Host<Exchange>,
    checkpoints: Checkpoints<Exchange>,
    chores: Chores,
    clock: Clock,
    dice: Dice,
    settings: Arc<settings::Exchange>,
    watermark: Arc<Watermark>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    mailbox: mpsc::Receiver<Question>,
    /// What is new comes by a mailbox of its own, which is left alone while too much of it waits.
    news: mpsc::Receiver<Question>,
    releases: Releases,
    /// Questions the journal had no room for. They are the next ones.
    held: VecDeque<(Box<Ask>, Option<Asker>)>,
    /// Large requests that wait until fewer of them are on their way to the disk.
    bulk: VecDeque<(Box<Ask>, Option<Asker>)>,
    /// Since when the ring has had no space for anything new.
    full_since: Option<Instant>,
    /// How long it may have been.
    full_max: Duration,
    lag: Lag,
    checkpoint_at: Option<Instant>,
    /// Behind everything that its thread may wait for: it is waited for when this is dropped.
    filer: Filer,
}

impl Room {
    async fn run(mut self, stop: CancellationToken, resumed: oneshot::Sender<Infallible>) {
        tokio::select! {
            () = self.resume() => {}
            () = stop.cancelled() => {}
        }
        drop(resumed);
        let mut asks = Vec::with_capacity(ASKS_AT_ONCE);
        let mut new_asks = Vec::with_capacity(ASKS_AT_ONCE);
        let (mut stopping, mut drained, mut news_drained) = (false, false, false);
        let mut alarm = std::pin::pin!(sleep(Duration::ZERO));
        loop {
            let wait = self.turn(stopping);
            let waits = !self.held.is_empty() || !self.bulk.is_empty() || !self.releases.is_empty();
            if drained && news_drained && !waits {
                break;
            }
            let busy = wait.is_zero();
            if !busy {
                alarm.as_mut().reset(Instant::now() + wait);
            }
            let takes = !self.releases.is_choked();
            let takes_news = takes && self.held.len() + self.bulk.len() < HELD_MAX;
            // Each of these can be dropped at any time: they take nothing, but `recv_many`, which
            // takes only when it is done.
            tokio::select! {
                biased;
                () = self.releases.ready(), if !busy => {}
                taken = self.mailbox.recv_many(&mut asks, ASKS_AT_ONCE), if takes && !drained => {
                    drained = taken == 0;
                    if takes_news {
                        // So that whoever only looks, and looks all the time, keeps nobody out.
                        let more = std::iter::from_fn(|| self.news.try_recv().ok());
                        asks.extend(more.take(ASKS_AT_ONCE));
                    }
                    self.take_all(&mut asks);
                }
                taken = self.news.recv_many(&mut new_asks, ASKS_AT_ONCE),
                    if takes_news && !news_drained =>
                {
                    news_drained = taken == 0;
                    self.take_all(&mut new_asks);
                }
                () = self.shared.bell.notified() => {
                    self.settings = self.shared.settings();
                    if self.shared.hurried.load(Ordering::Acquire) {
                        self.full_max = Duration::ZERO;
                    }
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    // No checkpoint frees the ring from now on.
                    self.full_max = Duration::ZERO;
                    self.filer.tell();
                    self.mailbox.close();
                    self.news.close();
                }
                () = tokio::task::yield_now(), if busy => {}
                () = &mut alarm, if !busy => {}
            }
        }
        self.shared.bells.ring_all();
        self.reading.close().await;
        // It waits for its thread, which may wait for a disk.
        let filer = self.filer;
        drop(tokio::task::spawn_blocking(move || drop(filer)).await);
    }

    /// Takes care of what was under way when the server ended. The journal may refuse for a while;
    /// nothing is answered before.
    async fn resume(&mut self) {
        // After a kill the last round is written once more. Until that is on disk nobody can read
        // what it holds, and it must not look as if a disk had failed.
        drop(self.host.journal().barrier(RoomName::Exchange).await);
        let mut asks = Vec::new();
        let mut later = Vec::new();
        while !self.decide_unasked(Ask::Opened) {
            // It may be full of what only a checkpoint lets it forget. That waits for files, and
            // whoever writes them asks where they belong.
            let now = self.clock.now();
            let pause = self.checkpoint(now).min(REFUSED_PAUSE);
            let takes = later.len() < ASKS_AT_ONCE;
            tokio::select! {
                () = self.releases.ready() => {}
                _ = self.mailbox.recv_many(&mut asks, ASKS_AT_ONCE), if takes => {}
                () = sleep(pause) => {}
            }
            let (mut looks, rest): (Vec<_>, Vec<_>) =
                asks.drain(..).partition(|ask| matches!(ask, Question::Look(_)));
            later.extend(rest);
            self.take_all(&mut looks);
            while !self.release() {}
        }
        self.take_all(&mut later);
        self.shared.orders.compare();
    }

    /// Does what can be done now, a bounded part of it, and says how long nothing will have to be
    /// done unasked.
    fn turn(&mut self, stopping: bool) -> Duration {
        let mut wait = WAIT_MAX;
        if !self.release() {
            wait = Duration::ZERO;
        }
        let now = self.clock.now();
        self.measure(now.steady);
        for (ask, to) in std::mem::take(&mut self.held) {
            self.take_in_turn(ask, to, now);
        }
        while self.held.is_empty()
            && self.releases.bulk() < BULK_AT_ONCE
            && let Some((ask, to)) = self.bulk.pop_front()
        {
            let back = self.take(ask, to, now);
            self.held.extend(back);
        }
        if !self.held.is_empty() && (self.releases.is_empty() || self.full_since.is_some()) {
            wait = wait.min(BUSY_PAUSE);
        }
        if stopping {
            return wait;
        }
        wait = wait.min(self.unasked(now));
        wait.min(self.checkpoint(now))
    }

    /// Releases what is durable; whether that was all of it.
    fn release(&mut self) -> bool {
        for _ in 0..RELEASED_AT_ONCE {
            let Some((effect, outcome)) = self.releases.next() else { return true };
            let Effect { shown, actions, then, .. } = effect;
            if outcome.is_ok() {
                self.shared.show(shown);
                self.perform(&actions);
            }
            let outcome = outcome.map_err(RoomError::from);
            match then {
                Then::Nothing => {}
                Then::Answer(to, answer) => drop(to.send(outcome.and(answer))),
                Then::Tell(tell) => tell(outcome),
                Then::TakenIn(path, taken) if taken && outcome.is_ok() => {
                    self.shared.orders.taken_in(&path);
                }
                Then::TakenIn(path, _) => self.shared.orders.not_taken_in(&path),
            }
        }
        false
    }

    fn perform(&mut self, actions: &[Action]) {
        if actions.is_empty() {
            return;
        }
        self.shared.orders.take(self.host.state(), actions);
        for action in actions {
            match action {
                Action::Ring(device) => self.shared.ring(*device),
                Action::Log(entry) => self.say(entry),
                Action::Move { .. } | Action::Settle { .. } => {}
            }
        }
    }

    /// How far the folders are behind.
    fn measure(&mut self, now: Steady) {
        let unfiled = self.shared.orders.behind().bodies;
        let behind = self.lag.behind(unfiled, now);
        self.shared.behind.store(behind.0, Ordering::Release);
    }

    /// Whether the folders are so far behind that nothing new is taken.
    fn check_files(&self) -> Result<(), RoomError> {
        let behind = Duration::from_micros(self.shared.behind.load(Ordering::Acquire));
        match behind > self.settings.files_behind_max {
            true => Err(RoomError::FilesBehind(behind.as_secs())),
            false => Ok(()),
        }
    }

    /// Looks every turn whether a checkpoint is due, and goes on with one in its own time.
    fn checkpoint(&mut self, now: Now) -> Duration {
        if let Some(left) =
            self.checkpoint_at.map(|at| at.saturating_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return left;
        }
        let wait = self.checkpoints.step(&mut self.host, now).unwrap_or(WAIT_MAX);
        let under_way = self.checkpoints.is_under_way();
        self.checkpoint_at = under_way.then(|| Instant::now() + wait);
        wait
    }

    /// Takes questions in order. If the journal has no room for something new, what is new waits
    /// behind it; what finishes or only looks does not. Bulk waits for bulk.
    fn take_all(&mut self, asks: &mut Vec<Question>) {
        let now = self.clock.now();
        let _written_together = self.host.hold();
        for question in asks.drain(..) {
            match question {
                Question::Do(ask, to) => self.take_in_turn(ask, to, now),
                Question::Look(look) => {
                    let tell = look(self.host.state(), now);
                    self.wait_for_all(Then::Tell(tell));
                }
                Question::Glance(look) => look(self.host.state(), now)(Ok(())),
                Question::TakeIn(offered) => self.take_in(*offered, now),
            }
        }
    }

    fn take_in_turn(&mut self, ask: Box<Ask>, to: Option<Asker>, now: Now) {
        let lets_pass = !self.bulk.is_empty() || self.releases.bulk() >= BULK_AT_ONCE;
        if !self.held.is_empty() && is_new(&ask) {
            self.held.push_back((ask, to));
        } else if lets_pass && is_new(&ask) && weight(self.host.state(), &ask) >= BULK_BYTES {
            self.bulk.push_back((ask, to));
        } else {
            let back = self.take(ask, to, now);
            self.held.extend(back);
        }
    }

    /// Takes a question, or gives it back if it has to wait.
    fn take(
        &mut self,
        mut ask: Box<Ask>,
        to: Option<Asker>,
        now: Now,
    ) -> Option<(Box<Ask>, Option<Asker>)> {
        let new = is_new(&ask);
        if new && let Err(why) = self.watermark.check().and_then(|()| self.check_files()) {
            refuse(to, why);
            return None;
        }
        self.add_notices(&mut ask, now);
        let bytes = weight(self.host.state(), &ask);
        let purpose = if new { Purpose::Accept } else { Purpose::Finish };
        let before = touched(self.host.state(), &ask);
        let command = Command { ask: *ask, rules: self.settings.rules() };
        match self.apply(&command, bytes, purpose, now) {
            Ok(applied) => {
                if new {
                    self.full_since = None;
                }
                let after = touched(self.host.state(), &command.ask);
                let changed = applied.sequence.is_some();
                let keys = before.into_iter().chain(after.filter(|after| Some(*after) != before));
                let shown = keys.filter(|_| changed).map(|key| {
                    let now = self.host.state().aggregate(&key);
                    Shown { key, now }
                });
                let shown = shown.collect();
                self.count(&command.ask, &applied.reply, now);
                let answer = self.answer(applied.reply);
                let then = to.map_or(Then::Nothing, |to| Then::Answer(to, answer));
                let bulk = if new && bytes >= BULK_BYTES { bytes } else { 0 };
                let effect = Effect { shown, actions: applied.actions, then, bulk };
                self.releases.push(applied.ticket, effect);
                None
            }
            Err(refused) => self.put_off(refused, Box::new(command.ask), to),
        }
    }

    /// A question the journal had no room for: it waits, or whoever asked is told.
    fn put_off(
        &mut self,
        refused: Refused,
        ask: Box<Ask>,
        to: Option<Asker>,
    ) -> Option<(Box<Ask>, Option<Asker>)> {
        match refused {
            // Its own queue empties by itself, and soon.
            Refused::Busy { .. } => Some((ask, to)),
            // What is written is on its way to files, and the ring has space again when it is
            // there. If that takes long, whoever waits is told.
            Refused::Full { .. } if self.may_wait_for_space() => Some((ask, to)),
            // Nobody who could ask again.
            _ if to.is_none() && !self.full_max.is_zero() => {
                self.chores.again(ask);
                None
            }
            refused => {
                refuse(to, refused.into());
                None
            }
        }
    }

    /// Whether the ring has been full for so short a time that nobody need know.
    fn may_wait_for_space(&mut self) -> bool {
        let now = Instant::now();
        now.saturating_duration_since(*self.full_since.get_or_insert(now)) < self.full_max
    }

    /// The answer, and what it takes to read the bodies it speaks of.
    fn answer(&self, reply: Reply) -> Result<Done, RoomError> {
        let state = self.host.state();
        let handed = match &reply {
            Reply::Refused(refusal) => return Err(refusal.clone().into()),
            Reply::Begun(Begun::Started { messages, .. }) => {
                let found = messages.iter().filter_map(|one| Some((*one, place(state, one.seq)?)));
                found.collect()
            }
            _ => Vec::new(),
        };
        Ok(Done { reply, handed })
    }

    /// Something waits for everything that was decided so far.
    fn wait_for_all(&mut self, then: Then) {
        let ticket = self.host.journal().barrier(RoomName::Exchange);
        let effect = Effect { shown: Vec::new(), actions: Vec::new(), then, bulk: 0 };
        self.releases.push(ticket, effect);
    }

    fn apply(
        &mut self,
        command: &Command,
        bytes: usize,
        purpose: Purpose,
        now: Now,
    ) -> Result<Applied<Exchange>, Refused> {
        self.host.apply_made(command, bytes as u64, purpose, (now, self.dice.roll()))
    }
}

/// Where the body of a message is.
pub(super) fn place(state: &State, seq: Seq) -> Option<handoff_store_embedded::folders::Filed> {
    filed(state, seq, state.message(seq)?)
}

/// Whoever has gone does not want to know.
fn refuse(to: Option<Asker>, error: RoomError) {
    if let Some(to) = to {
        drop(to.send(Err(error)));
    }
}
