//! The task that owns the room.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_calls::{Ask, Calls, Command, Notice, Reply};
use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::{Applied, Host};
use handoff_types::{Now, Room as RoomName};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::CallsRoom;
use super::lines::{Ended, Letter, Line as ToClient, QUIET_MAX, Told};
use super::mailbox::{Asker, MAILBOX_MAX, Question, Shared, Tell, is_new, stands_in_line, weight};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::RoomError;
use crate::rooms::intake::{Intake, TAKEN_AT_ONCE};
use crate::rooms::line::{BULK_BYTES, Line};
use crate::rooms::releases::Releases;
use crate::rooms::work::{Resumed, Work};
use crate::runtime::{Checkpoints, Watermark};
use crate::settings;
use crate::telemetry::Metrics;

/// Decisions released in one turn.
const RELEASED_AT_ONCE: usize = 4096;

/// Nobody waits for anything longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long after the journal refused something that nobody asked for it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Ticks in one turn.
const TICKS_AT_ONCE: usize = 16;

/// What the room is made of.
#[derive(Debug)]
pub struct Parts {
    /// The room on its storage.
    pub host: Host<Calls>,
    /// Its checkpoints.
    pub checkpoints: Checkpoints<Calls>,
    /// What time it is.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// What the operator decided.
    pub settings: settings::Calls,
    /// Whether the disk has space for new calls.
    pub watermark: Arc<Watermark>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl CallsRoom {
    /// Puts the room to work.
    #[must_use]
    pub fn start(parts: Parts) -> (Self, Work) {
        let (asks, news, intake) = Intake::new(MAILBOX_MAX);
        let shared = Arc::new(Shared::new(parts.settings));
        let clock = parts.clock.clone();
        let room = Room {
            host: parts.host,
            checkpoints: parts.checkpoints,
            clock: parts.clock,
            dice: parts.dice.clone(),
            settings: shared.settings(),
            watermark: parts.watermark,
            metrics: parts.metrics,
            shared: Arc::clone(&shared),
            intake,
            releases: Releases::default(),
            line: Line::default(),
            post: Vec::new(),
            quiet: Vec::new(),
            quiet_until: None,
            not_before: None,
        };
        let work = Work::start(|stop, resumed| room.run(stop, resumed));
        (Self { mailbox: asks, news, shared, clock, dice: parts.dice }, work)
    }
}

/// A question that may change the state, and who asks.
type Asked = (Box<Ask>, Asker);

/// What is done once a decision is durable.
struct Effect {
    notices: Vec<Notice>,
    then: Then,
}

/// Who hears of it besides.
enum Then {
    Answer(Asker, Result<Reply, RoomError>),
    Tell(Tell),
}

struct Room {
    host: Host<Calls>,
    checkpoints: Checkpoints<Calls>,
    clock: Clock,
    dice: Dice,
    settings: Arc<settings::Calls>,
    watermark: Arc<Watermark>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    intake: Intake<Question>,
    releases: Releases<Effect>,
    line: Line<Asked>,
    /// What clients are told when this turn is over, each by one ring of its bell.
    post: Vec<Letter>,
    /// Lines with something that nobody waits for, which are rung when that has waited for long enough.
    quiet: Vec<Arc<ToClient>>,
    quiet_until: Option<Instant>,
    /// Nothing is done unasked before this: the journal refused.
    not_before: Option<Instant>,
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
                    self.intake.close();
                }
                () = tokio::task::yield_now(), if busy => {}
                () = &mut alarm, if !busy => {}
            }
        }
        self.shared.waits.ring_all();
        self.shared.lines.end_all();
    }

    /// Takes care of what was under way when the server ended, and describes the channels that the
    /// configuration names. The journal may refuse for a while; nothing is answered before.
    async fn resume(&mut self) {
        // After a kill the last round is written once more. Until that is on disk nobody can read
        // what it holds, and it must not look as if a disk had failed.
        drop(self.host.journal().barrier(RoomName::Calls).await);
        let settings = Arc::clone(&self.settings);
        let declared = settings.channels.iter().map(|one| Ask::SetChannel {
            channel: one.name.clone(),
            settings: one.settings(&settings.channel),
        });
        // Offers of calls in memory wait for no disk, so what says from where on their tokens are new is on
        // it before the first. If the journal loses it, it was not said.
        while !self.open().await {
            sleep(REFUSED_PAUSE).await;
        }
        for ask in declared {
            while self.decide_unasked(ask.clone()).is_none() {
                self.wait_for_the_journal().await;
            }
        }
        while !self.releases.is_empty() {
            self.releases.ready().await;
            while !self.release() {}
        }
    }

    /// Says that the room is open, and whether that is on disk.
    async fn open(&mut self) -> bool {
        let (to, mut told) = oneshot::channel();
        let mut asker = Some(Asker::Waiting(to));
        while let Some(waiting) = asker.take() {
            if let Err(back) = self.decide_for(Ask::Opened, waiting) {
                asker = Some(back);
                self.wait_for_the_journal().await;
            }
        }
        loop {
            match told.try_recv() {
                Ok(said) => return said.is_ok(),
                Err(TryRecvError::Closed) => return false,
                Err(TryRecvError::Empty) => {
                    self.releases.ready().await;
                    while !self.release() {}
                }
            }
        }
    }

    async fn wait_for_the_journal(&mut self) {
        let pause = self.checkpoint(self.clock.now()).min(REFUSED_PAUSE);
        tokio::select! {
            () = self.releases.ready() => {}
            () = sleep(pause) => {}
        }
        while !self.release() {}
    }

    /// Does what can be done now, a bounded part of it, and says how long nothing will have to be
    /// done unasked.
    fn turn(&mut self, stopping: bool) -> Duration {
        let wait = self.toil(stopping);
        self.post();
        wait.min(self.ring_quiet())
    }

    /// Rings those who were told only what nobody waits for, once that is long ago. How long it may wait yet.
    fn ring_quiet(&mut self) -> Duration {
        let Some(until) = self.quiet_until else { return WAIT_MAX };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.quiet_until = None;
            self.quiet.drain(..).for_each(|line| line.ring());
            return WAIT_MAX;
        }
        left
    }

    fn toil(&mut self, stopping: bool) -> Duration {
        let mut wait = WAIT_MAX;
        if !self.release() {
            wait = Duration::ZERO;
        }
        let now = self.clock.now();
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
        wait = wait.min(self.unasked());
        wait.min(self.checkpoint(now))
    }

    /// Releases what is durable; whether that was all of it.
    fn release(&mut self) -> bool {
        for _ in 0..RELEASED_AT_ONCE {
            let Some((effect, outcome)) = self.releases.next() else { return true };
            self.perform(effect, outcome.map_err(RoomError::from), true);
        }
        false
    }

    /// Tells clients what they are to hear.
    fn post(&mut self) {
        if self.post.is_empty() {
            return;
        }
        self.shared.lines.tell_all(&mut self.post, &mut self.quiet);
        if self.quiet_until.is_none() && !self.quiet.is_empty() {
            self.quiet_until = Some(Instant::now() + QUIET_MAX);
        }
    }

    /// `written` if it is on disk now: then somebody may wait to hear just that.
    fn perform(
        &mut self,
        Effect { notices, then }: Effect,
        outcome: Result<(), RoomError>,
        written: bool,
    ) {
        if outcome.is_ok() {
            notices.into_iter().for_each(|notice| self.tell(notice, written));
        }
        match then {
            Then::Answer(asker, answer) => self.answer(asker, outcome.and(answer)),
            Then::Tell(tell) => tell(outcome),
        }
    }

    fn tell(&mut self, notice: Notice, written: bool) {
        if let Notice::Ended { call, outcome, .. } = &notice {
            self.metrics.calls().ended(outcome);
            self.shared.waits.ring(*call);
        }
        if let Some(to) = notice.to() {
            let awaited = match notice {
                Notice::Registered { .. } => written,
                Notice::Acknowledged { .. } | Notice::Taken { .. } => false,
                _ => true,
            };
            self.post.push(Letter { to, told: Told::Notice(notice), awaited });
        }
    }

    fn answer(&mut self, asker: Asker, answer: Result<Reply, RoomError>) {
        match (asker, answer) {
            // Whoever has gone does not want to know.
            (Asker::Waiting(to), answer) => drop(to.send(answer)),
            (Asker::Client(client, Some(call)), Err(error)) => {
                let told = Told::Refused { call, error };
                self.post.push(Letter { to: client, told, awaited: true });
            }
            (Asker::Client(client, None), Err(error)) => {
                self.post();
                self.shared.lines.end(client, Ended::Refused, &error.to_string());
            }
            (Asker::Client(..) | Asker::Nobody, _) => {}
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
                Question::Do(ask, asker) => self.take_in_turn((ask, asker), now),
                Question::Said(client, said) => {
                    for (call, ask) in said {
                        self.take_in_turn((ask, Asker::Client(client, call)), now);
                    }
                }
                Question::Look(look) => {
                    let tell = look(self.host.state(), now);
                    let ticket = self.host.journal().barrier(RoomName::Calls);
                    let effect = Effect { notices: Vec::new(), then: Then::Tell(tell) };
                    self.releases.push(ticket, effect);
                }
                Question::Glance(look) => look(self.host.state(), now)(Ok(())),
            }
        }
        self.post();
    }

    fn take_in_turn(&mut self, asked: Asked, now: Now) {
        let state = self.host.state();
        let is_bulk = |(ask, _): &Asked| is_new(ask) && weight(state, ask) >= BULK_BYTES;
        let on_the_way = self.releases.bulk();
        let next = self.line.pass(asked, on_the_way, |(ask, _)| stands_in_line(ask), is_bulk);
        if let Some(asked) = next {
            let back = self.take(asked, now);
            self.line.hold(back);
        }
    }

    /// Takes a question, or gives it back if it has to wait.
    fn take(&mut self, (ask, asker): Asked, now: Now) -> Option<Asked> {
        let new = is_new(&ask);
        if new && let Err(why) = self.watermark.check() {
            self.answer(asker, Err(why));
            return None;
        }
        let bytes = weight(self.host.state(), &ask);
        let light = ask.is_light(self.host.state());
        let purpose = if new { Purpose::Accept } else { Purpose::Finish };
        let command = Command { ask: *ask, rules: self.settings.rules() };
        match self.apply(&command, bytes, purpose, now) {
            Ok(applied) => {
                if new {
                    self.line.accepted();
                }
                self.count(&command.ask, &applied.reply);
                let first = matches!(applied.reply, Reply::Registered { again: false, .. });
                let answer = match applied.reply {
                    Reply::Refused(refusal) => Err(refusal.into()),
                    reply => Ok(reply),
                };
                let then = Then::Answer(asker, answer);
                let effect = Effect { notices: applied.actions, then };
                if applied.unwritten && (light || first) {
                    self.perform(effect, Ok(()), false);
                } else {
                    let bulk = if new && bytes >= BULK_BYTES { bytes } else { 0 };
                    self.releases.push_bulk(applied.ticket, effect, bulk);
                }
                None
            }
            Err(refused) if self.line.may_wait(&refused) => Some((Box::new(command.ask), asker)),
            Err(refused) => {
                self.answer(asker, Err(refused.into()));
                None
            }
        }
    }

    /// Does what is due, some of it. How long until more is.
    fn unasked(&mut self) -> Duration {
        let at = Instant::now();
        if let Some(left) = self.not_before.map(|until| until.saturating_duration_since(at))
            && !left.is_zero()
        {
            return left;
        }
        self.not_before = None;
        for _ in 0..TICKS_AT_ONCE {
            if self.releases.is_choked() {
                return REFUSED_PAUSE;
            }
            let now = self.clock.now();
            let Some(due) = self.host.next_deadline(now) else { return WAIT_MAX };
            let left = Duration::from_micros(due.since(now.steady).0);
            if !left.is_zero() {
                return left;
            }
            match self.decide_unasked(Ask::Tick) {
                Some(Reply::More(true)) => {}
                Some(_) => return WAIT_MAX,
                None => {
                    self.not_before = Some(at + REFUSED_PAUSE);
                    return REFUSED_PAUSE;
                }
            }
        }
        Duration::ZERO
    }

    /// Decides something that nobody waits for. None if the journal took nothing: it stays due.
    fn decide_unasked(&mut self, ask: Ask) -> Option<Reply> {
        self.decide_for(ask, Asker::Nobody).ok()
    }

    /// The same for somebody who is to know when it is durable, and who is given back if the journal took
    /// nothing.
    fn decide_for(&mut self, ask: Ask, asker: Asker) -> Result<Reply, Asker> {
        let now = self.clock.now();
        let bytes = weight(self.host.state(), &ask);
        let command = Command { ask, rules: self.settings.rules() };
        let Ok(applied) = self.apply(&command, bytes, Purpose::Finish, now) else {
            return Err(asker);
        };
        let reply = applied.reply;
        let then = Then::Answer(asker, Ok(Reply::Done));
        let effect = Effect { notices: applied.actions, then };
        if applied.unwritten {
            self.perform(effect, Ok(()), false);
        } else {
            self.releases.push(applied.ticket, effect);
        }
        if let Reply::Refused(refusal) = &reply {
            tracing::warn!(error = refusal as &dyn std::error::Error, "a channel stays as it was");
        }
        Ok(reply)
    }

    fn apply(
        &mut self,
        command: &Command,
        bytes: usize,
        purpose: Purpose,
        now: Now,
    ) -> Result<Applied<Calls>, Refused> {
        self.host.apply_made(command, bytes as u64, purpose, (now, self.dice.roll()))
    }

    fn count(&self, ask: &Ask, reply: &Reply) {
        let metrics = self.metrics.calls();
        match (ask, reply) {
            (Ask::Request(_), Reply::Registered { again, .. }) => metrics.requested(*again),
            (Ask::Request(_), Reply::Refused(_)) => metrics.refused(),
            (Ask::Respond { .. }, Reply::Taken(Err(_))) => {
                self.shared.late.fetch_add(1, Ordering::Relaxed);
                metrics.late();
            }
            _ => {}
        }
    }
}
