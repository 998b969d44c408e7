//! The task that owns the room.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_events::{
    Action, Command, Events, Id, Notification, Publication, Reply as MachineReply, SessionId,
    Sessions, Tardiness,
};
use handoff_log::journal::{Purpose, Refused, Ticket};
use handoff_store_embedded::{Applied, Host};
use handoff_types::{Now, Room as RoomName, Span, Steady};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::held::Held;
use super::mailbox::{Ask, Asker, Listing, MAILBOX_MAX, Question, Shared};
use super::outbox::Outbox;
use super::publishing::Publisher;
use super::releases::{Effect, Releases, Tell};
use super::{EventsRoom, Reply, RoomError, Stats, Told};
use crate::clock::{Clock, StepWatch};
use crate::dice::Dice;
use crate::rooms::streams::StreamsRoom;
use crate::rooms::work::{Resumed, Work};
use crate::runtime::{Checkpoints, Watermark};
use crate::settings;
use crate::sevent;
use crate::telemetry::Metrics;

/// Questions taken in one turn.
const ASKS_AT_ONCE: usize = 256;

/// Events that occur in one record, and records in one turn.
const TICK_EVENTS: usize = 256;
const TICKS_AT_ONCE: usize = 4;

/// Events caught up with in one record at start.
const RESUME_EVENTS: usize = 1024;

/// Events looked at in one turn after the operator's clock was set back.
const RESCHEDULE_EVENTS: usize = 1024;

/// Events deleted in one record.
const DELETE_EVENTS: usize = 1024;

/// Dead letters retried or deleted in one record, and shown in one turn.
const LETTERS: usize = 1024;

/// Events whose occurrences are handed over again in one turn at start, and answers of topics taken
/// in one turn.
const HAND_OVER_EVENTS: usize = 1024;
const ANSWERS_AT_ONCE: usize = 64;

/// Ids, and events with all that is known of them, given in one turn; the latter up to so many bytes
/// of words.
const LIST_PIECE: usize = 8192;
const PAGE_PIECE: usize = 256;
const PAGE_BYTES: usize = 256 << 10;

/// Lines written to in one turn, and bytes written to one of them, give or take those of one
/// occurrence. Then the sessions have a turn: a burst must not fill the line of one that reads.
const TOLD_AT_ONCE: usize = 4096;
const TOLD_BYTES: usize = 256 << 10;

/// The operator's clock may be set at any time, so nobody waits for it longer than this.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long after the journal refused an occurrence it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How long occurrences wait when too much of what happened is on its way to the disk.
const CHOKED_PAUSE: Duration = Duration::from_millis(5);

/// How long after an occurrence that did not happen it is tried again.
const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// What the room is made of.
#[derive(Debug)]
pub struct Parts {
    /// The room on its storage.
    pub host: Host<Events>,
    /// Its checkpoints.
    pub checkpoints: Checkpoints<Events>,
    /// What time it is.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// What the operator decided.
    pub settings: settings::Events,
    /// Whether the disk has space for new events.
    pub watermark: Arc<Watermark>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where events are published; none if this server has no topics.
    pub topics: Option<StreamsRoom>,
}

impl EventsRoom {
    /// Puts the room to work.
    #[must_use]
    pub fn start(parts: Parts) -> (Self, Work) {
        let (asks, mailbox) = mpsc::channel(MAILBOX_MAX);
        let shared = Arc::new(Shared::new(parts.settings));
        let room = Room {
            host: parts.host,
            checkpoints: parts.checkpoints,
            clock: parts.clock,
            dice: parts.dice,
            settings: shared.settings(),
            watermark: parts.watermark,
            metrics: parts.metrics,
            shared: Arc::clone(&shared),
            mailbox,
            sessions: Sessions::default(),
            members: HashMap::new(),
            releases: Releases::default(),
            held: Held::default(),
            publisher: Publisher::new(parts.topics),
            hand_over: Some(Id::default()),
            steps: StepWatch::default(),
            // The clock may have been set back while nobody was there to see it.
            reschedule: Some(Id::default()),
            tick_at: None,
            is_refused: false,
        };
        let work = Work::start(|stop, resumed| room.run(stop, resumed));
        (Self { mailbox: asks, shared }, work)
    }
}

struct Room {
    host: Host<Events>,
    checkpoints: Checkpoints<Events>,
    clock: Clock,
    dice: Dice,
    settings: Arc<settings::Events>,
    watermark: Arc<Watermark>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    mailbox: mpsc::Receiver<Ask>,
    sessions: Sessions,
    members: HashMap<SessionId, Arc<Outbox>>,
    releases: Releases,
    held: Held,
    publisher: Publisher,
    /// From where on what waits has not been handed over since the start.
    hand_over: Option<Id>,
    steps: StepWatch,
    /// Where rescheduling after a step of the clock goes on.
    reschedule: Option<Id>,
    /// Not before this, because the journal refused.
    tick_at: Option<Instant>,
    is_refused: bool,
}

impl Room {
    async fn run(mut self, stop: CancellationToken, resumed: Resumed) {
        let now = self.clock.now();
        self.hand_over(now);
        tokio::select! {
            () = self.resume() => {}
            () = stop.cancelled() => {}
        }
        drop(resumed);
        let mut asks = Vec::with_capacity(ASKS_AT_ONCE);
        let (mut stopping, mut drained) = (false, false);
        let mut alarm = std::pin::pin!(sleep(Duration::ZERO));
        loop {
            let wait = self.turn(stopping);
            if drained && self.releases.is_empty() {
                break;
            }
            let busy = wait.is_zero();
            if !busy {
                alarm.as_mut().reset(Instant::now() + wait);
            }
            let takes = !self.releases.is_choked() && !drained;
            // Each of these can be dropped at any time: they take nothing, but `recv_many`, which
            // takes only when it is done. While there is more to release the others still have
            // their turn, and so do the sessions.
            tokio::select! {
                biased;
                () = self.releases.ready(), if !busy => {}
                taken = self.mailbox.recv_many(&mut asks, ASKS_AT_ONCE), if takes => {
                    drained = taken == 0;
                    self.take_all(&mut asks);
                }
                () = self.publisher.answered(), if !stopping => {}
                () = self.shared.bell.notified() => self.settings = self.shared.settings(),
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.mailbox.close();
                }
                () = tokio::task::yield_now(), if busy => {}
                () = &mut alarm, if !busy => {}
            }
        }
        self.members.values().for_each(|outbox| outbox.stop());
    }

    /// Catches up with what was missed while the server was down. The journal may refuse for a
    /// while; nothing else is done before.
    async fn resume(&mut self) {
        let (mut told, mut skipped) = (0, 0);
        loop {
            let tardiness = self.tardiness();
            let publishing = self.settings.publishing;
            let command = Command::Resume { limit: RESUME_EVENTS, tardiness, publishing };
            let now = self.clock.now();
            match self.apply(&command, Purpose::Finish, now) {
                Ok(Applied { reply, actions, ticket, .. }) => {
                    self.accepted();
                    // How long these are held is known when all of them are.
                    self.occur(actions, ticket, Steady(u64::MAX));
                    let MachineReply::Ticked { more, told: t, skipped: s, .. } = reply else {
                        break;
                    };
                    (told, skipped) = (told + t, skipped + s);
                    if !more {
                        break;
                    }
                }
                Err(refused) => {
                    self.refused(&refused);
                    // It may be full of what only a checkpoint lets it forget.
                    sleep(self.checkpoint(now).min(REFUSED_PAUSE)).await;
                }
            }
            self.release(now);
            tokio::task::yield_now().await;
        }
        self.held.keep_all_until(self.clock.now().steady + span(self.settings.catch_up_wait));
        if told + skipped > 0 {
            let held = self.held.len();
            info!(told, held, skipped, "caught up with occurrences that were missed");
        }
    }

    /// Does what can be done now, a bounded part of it, and says how long nothing will have to be
    /// done unasked.
    fn turn(&mut self, stopping: bool) -> Duration {
        for outbox in self.shared.left() {
            if let Some(session) = outbox.id() {
                self.close(session);
            }
        }
        let now = self.clock.now();
        self.held.expire(now.steady);
        self.shared.events.store(self.host.state().len(), Ordering::Relaxed);
        let mut wait = WAIT_MAX;
        if !self.release(now) {
            wait = Duration::ZERO;
        }
        if stopping {
            return wait;
        }
        wait = wait.min(self.tick(now));
        wait = wait.min(self.publish(now));
        if self.steps.look(now) {
            info!("the clock was set back; what waits for it is scheduled anew");
            self.reschedule = Some(Id::default());
        }
        if let Some(from) = self.reschedule {
            wait = wait.min(self.reschedule(from, now));
        }
        wait.min(self.checkpoint(now))
    }

    /// Releases what is durable; whether that was all of it.
    fn release(&mut self, now: Now) -> bool {
        let (mut told, mut bytes) = (0, 0);
        while told < TOLD_AT_ONCE && bytes < TOLD_BYTES {
            let Some((effect, outcome)) = self.releases.next() else { return true };
            match effect {
                Effect::Answer(asker, answer) => {
                    told += 1;
                    give(asker, outcome.map_err(RoomError::from).and(answer));
                }
                Effect::Tell(tells) => {
                    told += tells.iter().map(|tell| tell.to.len()).sum::<usize>();
                    bytes += tells.iter().map(|tell| tell.told.frame.len()).sum::<usize>();
                    // Without an outcome the journal has stopped, and what happened shows at the
                    // next start.
                    if outcome.is_ok() {
                        self.tell(tells, now);
                    }
                }
                Effect::Publish(publications) => {
                    told += publications.len();
                    if outcome.is_ok() {
                        self.publisher.add(publications);
                    }
                }
            }
        }
        false
    }

    fn tell(&mut self, tells: Vec<Tell>, now: Now) {
        for Tell { told, to } in tells {
            for session in &to {
                let fits = self.members.get(session).is_none_or(|outbox| outbox.tell(&told));
                if !fits {
                    self.shared.slow.fetch_add(1, Ordering::Relaxed);
                    self.close(*session);
                    debug!(session = session.0, "a session did not read and was ended");
                }
            }
            if !told.notification.late {
                let Span(lateness) = now.wall.since(told.notification.due);
                self.metrics.told(to.len() as u64, Duration::from_micros(lateness));
            }
        }
    }

    /// Lets happen what is due. How long until more is.
    fn tick(&mut self, now: Now) -> Duration {
        if let Some(left) = self.tick_at.map(|at| at.saturating_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return left;
        }
        self.tick_at = None;
        let mut happened = true;
        for _ in 0..TICKS_AT_ONCE {
            // What is due stays due: nothing is lost by letting the disk catch up.
            if self.releases.is_choked() {
                return CHOKED_PAUSE;
            }
            let due = self.host.next_deadline(now);
            let Some(wait) = due.map(|due| duration(due.since(now.steady))) else {
                return WAIT_MAX;
            };
            if !wait.is_zero() {
                return wait;
            }
            let (tardiness, publishing) = (self.tardiness(), self.settings.publishing);
            let command = Command::Tick { limit: TICK_EVENTS, tardiness, publishing };
            match self.apply(&command, Purpose::Finish, now) {
                Ok(Applied { actions, ticket, sequence, .. }) => {
                    self.accepted();
                    happened = sequence.is_some();
                    let until = now.steady + span(self.settings.catch_up_wait);
                    self.occur(actions, ticket, until);
                }
                Err(refused) => {
                    self.refused(&refused);
                    self.tick_at = Some(Instant::now() + REFUSED_PAUSE);
                    return REFUSED_PAUSE;
                }
            }
        }
        if happened { Duration::ZERO } else { IDLE_PAUSE }
    }

    /// Looks up who is told, and lets that wait until it is durable.
    fn occur(&mut self, actions: Vec<Action>, ticket: Ticket, held_until: Steady) {
        let (mut tells, mut publications) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Notify(notification) => {
                    tells.extend(self.notify(notification, held_until));
                }
                Action::Forget(id) => self.sessions.forget(id),
                Action::Publish(publication) => publications.push(publication),
            }
        }
        let ticket = self.tell_when(Some(ticket), tells);
        self.publish_when(ticket, publications);
    }

    /// Occurrences are handed over once a ticket is fulfilled, or whatever was put into the queue
    /// before.
    fn publish_when(&mut self, ticket: Option<Ticket>, publications: Vec<Publication>) {
        if !publications.is_empty() {
            self.releases.push(ticket, Effect::Publish(publications), 0);
        }
    }

    /// Hands over again what no topic answered before the last end. It is on disk already.
    /// Before anything new is, or the journal did not take even a question.
    fn hand_over(&mut self, now: Now) -> Duration {
        while let Some(from) = self.hand_over {
            let command = Command::HandOver { from, limit: HAND_OVER_EVENTS };
            match self.apply(&command, Purpose::Finish, now) {
                Ok(Applied { reply, actions, ticket, .. }) => {
                    self.occur(actions, ticket, now.steady);
                    self.hand_over = match reply {
                        MachineReply::HandedOver { next } => next,
                        _ => None,
                    };
                }
                Err(refused) => {
                    self.refused(&refused);
                    return REFUSED_PAUSE;
                }
            }
        }
        WAIT_MAX
    }

    /// Takes what topics have answered and sends what is next. How long until more can be done.
    fn publish(&mut self, now: Now) -> Duration {
        let mut wait = self.hand_over(now);
        for taken in 0.. {
            let Some(command) = self.publisher.next_answer(self.settings.publishing) else { break };
            if taken >= ANSWERS_AT_ONCE {
                wait = Duration::ZERO;
                break;
            }
            match self.apply(&command, Purpose::Finish, now) {
                Ok(Applied { actions, ticket, .. }) => {
                    self.publisher.take_answer();
                    self.occur(actions, ticket, now.steady);
                }
                Err(refused) => {
                    self.refused(&refused);
                    wait = REFUSED_PAUSE;
                    break;
                }
            }
        }
        self.publisher.send(self.host.state());
        wait
    }

    /// Occurrences are told once a ticket is fulfilled, in pieces that can be told in one turn.
    /// Gives the ticket back if nobody is told.
    fn tell_when(&mut self, mut ticket: Option<Ticket>, tells: Vec<Tell>) -> Option<Ticket> {
        let (mut piece, mut bytes, mut lines) = (Vec::new(), 0, 0);
        for tell in tells {
            bytes += tell.told.frame.len();
            lines += tell.to.len();
            piece.push(tell);
            if bytes >= TOLD_BYTES || lines >= TOLD_AT_ONCE {
                let piece = std::mem::take(&mut piece);
                self.releases.push(ticket.take(), Effect::Tell(piece), bytes);
                (bytes, lines) = (0, 0);
            }
        }
        if !piece.is_empty() {
            self.releases.push(ticket.take(), Effect::Tell(piece), bytes);
        }
        ticket
    }

    fn notify(&mut self, notification: Notification, held_until: Steady) -> Option<Tell> {
        let to = self.sessions.matching(&notification);
        let hold = notification.late && self.held_left() > 0;
        if to.is_empty() && !hold {
            return None;
        }
        let frame = sevent::notify_frame(&notification);
        let told = Arc::new(Told { notification, frame });
        if hold {
            self.held.keep(Arc::clone(&told), held_until, &to);
        }
        (!to.is_empty()).then_some(Tell { told, to })
    }

    fn reschedule(&mut self, from: Id, now: Now) -> Duration {
        let command = Command::Reschedule { from, limit: RESCHEDULE_EVENTS };
        match self.apply(&command, Purpose::Finish, now) {
            Ok(Applied { reply: MachineReply::Rescheduled { count, next }, .. }) => {
                if count > 0 {
                    info!(count, "events wait for another time than before");
                }
                self.reschedule = next;
                if next.is_some() { Duration::ZERO } else { WAIT_MAX }
            }
            Ok(_) => {
                self.reschedule = None;
                WAIT_MAX
            }
            Err(_) => REFUSED_PAUSE,
        }
    }

    /// The journal took no occurrence. Nothing is lost: what is due stays due.
    fn refused(&mut self, refused: &Refused) {
        if !std::mem::replace(&mut self.is_refused, true) {
            warn!(error = %refused, "the journal takes no occurrences; they wait");
        }
    }

    fn accepted(&mut self) {
        if std::mem::take(&mut self.is_refused) {
            info!("the journal takes occurrences again");
        }
    }

    /// Looks every turn whether a checkpoint is due, and goes on with one in its own time.
    fn checkpoint(&mut self, now: Now) -> Duration {
        self.checkpoints.turn(&mut self.host, now).unwrap_or(WAIT_MAX)
    }

    fn take_all(&mut self, asks: &mut Vec<Ask>) {
        let now = self.clock.now();
        for ask in asks.drain(..) {
            self.take(ask, now);
        }
    }

    fn take(&mut self, Ask { question, session, to }: Ask, now: Now) {
        match question {
            Question::Register(event, sight) => {
                let bytes =
                    event.description.len() + event.types.iter().map(String::len).sum::<usize>();
                if let Err(low) = self.watermark.check() {
                    return self.refuse(to, low);
                }
                let bounds = self.settings.bounds;
                let command = Command::Register { event, bounds, sight };
                self.change(&command, Purpose::Accept, to, now, bytes);
            }
            Question::Delete(selection, sight) => {
                let command = Command::Delete { selection, sight, limit: DELETE_EVENTS };
                self.change(&command, Purpose::Finish, to, now, 0);
            }
            Question::List(listing) => self.show(to, Ok(self.list(&listing))),
            Question::Page(listing) => self.show(to, Ok(self.page(&listing, now))),
            Question::View(id, sight) => {
                let id_there = u32::try_from(id).ok().and_then(Id::new);
                let view = id_there.and_then(|id| self.host.state().view(id, &sight, now));
                let view = view.map(|view| Reply::View(Box::new(view)));
                self.show(to, view.ok_or(RoomError::NoEvent(id.into())));
            }
            Question::DeadLetters { sight, from, limit } => {
                let letters = self.host.state().letters(&sight, from, limit.min(LETTERS));
                self.show(to, Ok(Reply::DeadLetters(letters)));
            }
            Question::RetryLetters(letters, sight) => {
                let command = Command::RetryLetters { letters, sight, limit: LETTERS };
                self.change(&command, Purpose::Finish, to, now, 0);
            }
            Question::DeleteLetters(letters, sight) => {
                let command = Command::DeleteLetters { letters, sight, limit: LETTERS };
                self.change(&command, Purpose::Finish, to, now, 0);
            }
            Question::Stats => give(to, Ok(Reply::Stats(Box::new(self.stats())))),
            question => self.take_of_session(question, session, to),
        }
    }

    fn take_of_session(&mut self, question: Question, session: Option<Arc<Outbox>>, to: Asker) {
        let Some(outbox) = session else { return self.refuse(to, no_session()) };
        if let Question::Open(sight) = question {
            let opened = self.open(&outbox, sight);
            return match opened {
                Ok(()) => self.show(to, Ok(Reply::Done)),
                Err(error) => self.refuse(to, error),
            };
        }
        let Some(id) = outbox.id().filter(|id| self.members.contains_key(id)) else {
            return self.refuse(to, no_session());
        };
        let (sessions, state) = (&mut self.sessions, self.host.state());
        let changed = match question {
            Question::Subscribe(selection) => sessions.subscribe(id, &selection, state),
            Question::Unsubscribe(selection) => sessions.unsubscribe(id, &selection, state),
            Question::Replace(selection) => sessions.replace(id, &selection, state),
            Question::Everything => {
                sessions.subscribe_to_everything(id);
                Ok(())
            }
            _ => {
                let filter = sessions.filter(id).cloned().unwrap_or_default();
                return self.show(to, Ok(Reply::Filter(Box::new(filter))));
            }
        };
        let changed = changed.map(|()| Reply::Done).map_err(RoomError::from);
        self.show(to, changed);
        // Behind the answer, so that it never comes before it.
        let given = self.held.give(id, &self.sessions).into_iter();
        let tells = given.map(|told| Tell { told, to: vec![id] }).collect();
        self.tell_when(None, tells);
    }

    fn open(&mut self, outbox: &Arc<Outbox>, sight: handoff_types::Sight) -> Result<(), RoomError> {
        if outbox.has_left() {
            return Err(no_session());
        }
        if self.members.len() >= self.settings.sessions_max {
            return Err(RoomError::Sessions(self.members.len()));
        }
        let id = self.sessions.open(sight, self.settings.filter_entries_max);
        outbox.set_id(id);
        self.members.insert(id, Arc::clone(outbox));
        Ok(())
    }

    fn close(&mut self, session: SessionId) {
        if self.members.remove(&session).is_some() {
            self.sessions.close(session);
            self.held.forget(session);
        }
    }

    /// A command that may change something. The answer waits for it.
    fn change(&mut self, command: &Command, purpose: Purpose, to: Asker, now: Now, bytes: usize) {
        match self.apply(command, purpose, now) {
            Ok(Applied { reply, actions, ticket, .. }) => {
                let mut publications = Vec::new();
                for action in actions {
                    match action {
                        Action::Forget(id) => self.sessions.forget(id),
                        Action::Publish(publication) => publications.push(publication),
                        Action::Notify(_) => {}
                    }
                }
                let answer = match reply {
                    MachineReply::Registered(registered) => Ok(Reply::Registered(registered)),
                    MachineReply::Deleted { ids, more } => Ok(Reply::Deleted { ids, more }),
                    MachineReply::Refused(refusal) => Err(refusal.into()),
                    MachineReply::Letters { numbers, more } => Ok(Reply::Letters { numbers, more }),
                    MachineReply::Ticked { .. }
                    | MachineReply::Rescheduled { .. }
                    | MachineReply::HandedOver { .. }
                    | MachineReply::Answered { .. } => Ok(Reply::Done),
                };
                self.releases.push(Some(ticket), Effect::Answer(to, answer), bytes);
                self.publish_when(None, publications);
            }
            Err(refused) => self.refuse(to, refused.into()),
        }
    }

    /// An answer that shows state waits for all of it.
    fn show(&mut self, to: Asker, answer: Result<Reply, RoomError>) {
        let ticket = self.host.journal().barrier(RoomName::Events);
        self.releases.push(Some(ticket), Effect::Answer(to, answer), 0);
    }

    /// A refusal that shows no state waits for nothing, but in a session's line it keeps its place.
    fn refuse(&mut self, to: Asker, error: RoomError) {
        match to {
            Asker::Line(_) => self.releases.push(None, Effect::Answer(to, Err(error)), 0),
            Asker::Waiting(_) => give(to, Err(error)),
        }
    }

    fn list(&self, listing: &Listing) -> Reply {
        let state = self.host.state();
        let limit = listing.limit.min(LIST_PIECE);
        let ids = state.list(listing.types.as_deref(), &listing.sight, listing.from, limit);
        let next = ids.last().filter(|_| ids.len() == limit).and_then(|last| after(*last));
        Reply::Ids { next, new: state.next_id(), ids }
    }

    fn page(&self, listing: &Listing, now: Now) -> Reply {
        let state = self.host.state();
        let limit = listing.limit.min(PAGE_PIECE);
        let ids = state.list(listing.types.as_deref(), &listing.sight, listing.from, limit);
        let is_last = ids.len() < limit;
        let (mut views, mut bytes, mut next) = (Vec::new(), 0, None);
        for id in ids {
            if bytes >= PAGE_BYTES {
                return Reply::Views { views, next };
            }
            let view = state.view(id, &listing.sight, now);
            bytes += view.as_ref().map_or(0, |view| view.description.len());
            views.extend(view);
            next = after(id);
        }
        Reply::Views { views, next: next.filter(|_| !is_last) }
    }

    fn stats(&self) -> Stats {
        let state = self.host.state();
        Stats {
            events: state.len() as u64,
            sessions: self.members.len() as u64,
            held: self.held.len() as u64,
            publish_waiting: state.waiting(),
            dead_letters: state.dead() as u64,
            totals: state.totals(),
            slow_sessions: self.shared.slow.load(Ordering::Relaxed),
        }
    }

    fn apply(
        &mut self,
        command: &Command,
        purpose: Purpose,
        now: Now,
    ) -> Result<Applied<Events>, Refused> {
        self.host.apply(command, Vec::new(), purpose, (now, self.dice.roll()))
    }

    /// What is missed, and how much more of it can be told late.
    fn tardiness(&self) -> Tardiness {
        let settings = &self.settings;
        let catch_up_max = self.held_left();
        Tardiness { catch_up: settings.catch_up, catch_up_max, late_max: settings.late_max }
    }

    fn held_left(&self) -> u64 {
        self.settings.catch_up_max.saturating_sub(self.held.len() as u64)
    }
}

fn give(to: Asker, answer: Result<Reply, RoomError>) {
    match to {
        Asker::Line(outbox) => outbox.answer(answer),
        // Whoever has gone does not want to know.
        Asker::Waiting(to) => drop(to.send(answer)),
    }
}

fn no_session() -> RoomError {
    RoomError::Closed("the session has ended".to_owned())
}

fn after(id: Id) -> Option<Id> {
    Id::new(id.number() + 1)
}

fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0)
}
