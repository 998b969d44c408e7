//! The task that owns the room.

mod again;
mod chores;
mod taking_in;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_exchange::{Action, Ask, Begun, Command, Exchange, Reply, Seq, State};
use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::folders::{Behind, Folders, filed};
use handoff_store_embedded::{Applied, Host};
use handoff_types::{Now, Room as RoomName, Steady};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::chores::Chores;
use super::ExchangeRoom;
use super::directory::{Directory, touched};
use super::effects::{Effect, Then};
use super::filer::Filer;
use super::lag::Lag;
use super::mailbox::{Asker, Done, MAILBOX_MAX, Question, Shared, Shown, is_new, weight};
use super::pace::Pace;
use super::reading::Reading;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::RoomError;
use crate::rooms::intake::{Intake, TAKEN_AT_ONCE};
use crate::rooms::line::{BULK_BYTES, FULL_MAX, Line};
use crate::rooms::releases::Releases;
use crate::rooms::work::{Resumed, Work};
use crate::runtime::{Checkpoints, Watermark};
use crate::settings;
use crate::telemetry::Metrics;

/// Decisions released in one turn.
const RELEASED_AT_ONCE: usize = 4096;

/// The operator's clock may be set at any time, so nobody waits for it longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long after the journal refused something that nobody asked for it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// What is new waits once the folders are this part of `exchange.files_behind_secs_max` behind, or
/// will be before what is already there has files: the other part is for the sync that follows.
const SLOW: u32 = 2;

/// How what is new is received.
enum Door {
    Open,
    /// It waits until files are written.
    Slow,
}

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

impl ExchangeRoom {
    /// Puts the room to work.
    ///
    /// # Errors
    /// When the system gives no thread for the files.
    pub fn start(parts: Parts) -> io::Result<(Self, Work)> {
        let (asks, news, intake) = Intake::new(MAILBOX_MAX);
        let orders = parts.folders.orders();
        let reading = Reading::new(parts.folders.bodies(), parts.settings.reads_max);
        let directory = Directory::of(parts.host.state());
        let shared = Arc::new(Shared::new(parts.settings, directory, orders));
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
            intake,
            releases: Releases::default(),
            line: Line::default(),
            lag: Lag::new(clock.steady()),
            pace: Pace::new(),
        };
        let work = Work::start(|stop, resumed| room.run(stop, resumed));
        let metrics = parts.metrics;
        Ok((Self { mailbox: asks, news, shared, reading, clock, metrics }, work))
    }
}

/// A question that may change the state, and who asks.
type Asked = (Box<Ask>, Option<Asker>);

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
    intake: Intake<Question>,
    releases: Releases<Effect>,
    line: Line<Asked>,
    lag: Lag,
    pace: Pace,
    /// Behind everything that its thread may wait for: it is waited for when this is dropped.
    filer: Filer,
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
                () = self.intake.take(&mut asks, takes, takes_news) => self.take_all(&mut asks),
                () = self.shared.bell.notified() => {
                    self.settings = self.shared.settings();
                    if self.shared.hurried.load(Ordering::Acquire) {
                        self.line.hurry();
                    }
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    // No checkpoint frees the ring from now on.
                    self.line.hurry();
                    self.filer.tell();
                    self.intake.close();
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
            let takes = later.len() < TAKEN_AT_ONCE;
            tokio::select! {
                () = self.releases.ready() => {}
                () = self.intake.take(&mut asks, takes, false) => {}
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
        for asked in self.line.take_held() {
            self.take_in_turn(asked, now);
        }
        while let Some(asked) = self.line.take_bulk(self.releases.bulk()) {
            let back = self.take(asked, now);
            self.line.hold(back);
        }
        wait = wait.min(self.line.pause(self.releases.is_empty()).unwrap_or(WAIT_MAX));
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
            let Effect { shown, actions, then } = effect;
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
        let Behind { bodies, unwritten, written, .. } = self.shared.orders.behind();
        self.pace.look(unwritten, written, self.shared.toil.so_far(now));
        let behind = self.lag.behind(bodies, now);
        self.shared.behind.store(behind.0, Ordering::Release);
    }

    /// Whether the folders are so far behind that what is new waits for them, or is refused.
    fn door(&self) -> Result<Door, RoomError> {
        self.watermark.check()?;
        let behind = Duration::from_micros(self.shared.behind.load(Ordering::Acquire));
        let most = self.settings.files_behind_max;
        if behind <= most {
            let late = behind.max(Duration::from_micros(self.pace.ahead().0));
            let slow = late > most / SLOW && !self.line.is_hurried();
            return Ok(if slow { Door::Slow } else { Door::Open });
        }
        // A disk that only takes its time is waited for as long as a ring without space is.
        let stuck = self.shared.files_stuck.load(Ordering::Acquire);
        if !stuck && behind <= most + FULL_MAX && !self.line.is_hurried() {
            return Ok(Door::Slow);
        }
        match self.shared.files_full.load(Ordering::Acquire) {
            true => Err(RoomError::FilesFull(behind.as_secs())),
            false => Err(RoomError::FilesBehind(behind.as_secs())),
        }
    }

    /// Looks every turn whether a checkpoint is due, and goes on with one in its own time.
    fn checkpoint(&mut self, now: Now) -> Duration {
        self.checkpoints.turn(&mut self.host, now).unwrap_or(WAIT_MAX)
    }

    /// Takes questions in order. If the journal has no room for something new, what is new waits
    /// behind it; what finishes or only looks does not. Bulk waits for bulk.
    fn take_all(&mut self, asks: &mut Vec<Question>) {
        let now = self.clock.now();
        let _written_together = self.host.hold();
        for question in asks.drain(..) {
            match question {
                Question::Do(ask, to) => self.take_in_turn((ask, to), now),
                Question::Look(look) => {
                    let tell = look(self.host.state(), now);
                    self.wait_for_all(Then::Tell(tell));
                }
                Question::Glance(look) => look(self.host.state(), now)(Ok(())),
                Question::TakeIn(offered) => self.take_in(*offered, now),
            }
        }
    }

    fn take_in_turn(&mut self, asked: Asked, now: Now) {
        let state = self.host.state();
        let is_bulk = |(ask, _): &Asked| is_new(ask) && weight(state, ask) >= BULK_BYTES;
        let on_the_way = self.releases.bulk();
        let next = self.line.pass(asked, on_the_way, |(ask, _)| is_new(ask), is_bulk);
        if let Some(asked) = next {
            let back = self.take(asked, now);
            self.line.hold(back);
        }
    }

    /// Takes a question, or gives it back if it has to wait.
    fn take(&mut self, (ask, to): Asked, now: Now) -> Option<Asked> {
        let new = is_new(&ask);
        if new {
            match self.door() {
                Ok(Door::Open) => {}
                Ok(Door::Slow) => return Some((ask, to)),
                Err(why) => {
                    refuse(to, why);
                    return None;
                }
            }
        }
        let bytes = weight(self.host.state(), &ask);
        let purpose = if new { Purpose::Accept } else { Purpose::Finish };
        let before = touched(self.host.state(), &ask);
        let command = Command { ask: *ask, rules: self.settings.rules() };
        match self.apply(&command, bytes, purpose, now) {
            Ok(applied) => {
                if new {
                    self.line.accepted();
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
                let effect = Effect { shown, actions: applied.actions, then };
                self.releases.push_bulk(applied.ticket, effect, bulk);
                None
            }
            Err(refused) => self.put_off(refused, (Box::new(command.ask), to)),
        }
    }

    /// A question the journal had no room for: it waits, or whoever asked is told.
    fn put_off(&mut self, refused: Refused, (ask, to): Asked) -> Option<Asked> {
        if self.line.may_wait(&refused) {
            return Some((ask, to));
        }
        // Nobody who could ask again.
        if to.is_none() && !self.line.is_hurried() {
            self.chores.again.put(self.host.state(), *ask);
        } else {
            refuse(to, refused.into());
        }
        None
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
        let effect = Effect { shown: Vec::new(), actions: Vec::new(), then };
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
