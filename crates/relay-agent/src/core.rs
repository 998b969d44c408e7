//! The one task that owns the machines. Everything else tells it what happened, and is told what to do.
//!
//! ```text
//!  Ask ─────▶ keeper.send ─▶ a promise, answered when it ends
//!  Line ────▶ Sender, RefillSender ─▶ ack · reject · doubt
//!  Done ────▶ spooled · sealed · read
//!  time ────▶ tick: segments close, promises end, blocks rotate, lines are tried again
//! ```
//!
//! It never waits for anything but the next of these. One turn behind each round of news does all that
//! can be done now.

mod backlog;
mod links;
mod roads;
mod spooling;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use handoff_relay::codec::Workbench;
use handoff_relay::refill::RefillError;
use handoff_relay::{
    Batch, BlockId, DeliveryManager, DeliveryManagerKeeper, DeliveryRules, Mode, Name, Outcome,
    Pledge, SendError, SenderRules,
};
use handoff_types::{Now, Span, Steady};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub(crate) use self::links::modest;

use self::backlog::Backlog;
use self::links::Link;
use self::roads::{Dial, Road, Roads};
use self::spooling::{Filed, Sealing};
use crate::clock::Outside;
use crate::line::{Heard, LineId};
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::shelf::{Done, Order, Sealed, Shelf};

/// News that wait. Whoever sends samples waits for a place here before anything else is done for it.
pub(crate) const MAILBOX: usize = 512;

/// News that are taken in before the next turn.
const AT_ONCE: usize = 64;

/// The longest pause between two turns: clocks are looked at that often.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often the disk is looked at, and old files for their age.
const LOOK_EVERY: Span = Span::from_secs(15);

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody sends samples.
    Send(Ask),
    /// Something was heard of a line.
    Line(LineId, Heard),
    /// Something ordered is done.
    Disk(Done),
}

/// Samples, and who waits for what becomes of them.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) batch: Box<Batch>,
    pub(crate) answer: oneshot::Sender<Result<Outcome, SendError>>,
    /// The room that the batch was admitted to, until it is encoded.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Why the core ends before it is told to.
#[derive(Debug)]
pub(crate) struct DiskFailed(pub(crate) RefillError);

/// What it begins with.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) agent: Name,
    /// Destinations by their place, which is that of their names.
    pub(crate) dial: Dial,
    pub(crate) outside: Outside,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shelf: Shelf,
    pub(crate) sealed: Vec<Sealed>,
    pub(crate) bench: Workbench,
}

/// The core.
pub(crate) struct Core {
    agent: Name,
    rules: DeliveryRules,
    session: SenderRules,
    promise: Mode,
    stop_time_max: Duration,
    spool_age_max: Span,
    spool_bytes_max: u64,
    outside: Outside,
    metrics: Arc<Metrics>,
    bench: Workbench,
    keeper: DeliveryManagerKeeper,
    /// Who waits for which promise.
    waiting: BTreeMap<Pledge, oneshot::Sender<Result<Outcome, SendError>>>,
    roads: Roads,
    links: Vec<Link>,
    backlog: Backlog,
    shelf: Shelf,
    /// Where each block that is in memory is written.
    filed: BTreeMap<BlockId, Filed>,
    /// Files to be sealed.
    sealing: Vec<Sealing>,
    /// Blocks whose frames are on their way to the disk.
    writing: BTreeSet<BlockId>,
    /// The spool had no room: not before then.
    spool_again: Steady,
    look_again: Steady,
    /// When destinations are told how it is.
    tell_again: Steady,
    present: Option<BlockId>,
    stopping: bool,
    failed: Option<RefillError>,
}

impl Core {
    /// Begins with a new block, beside what was found.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, agent, dial, outside, metrics, shelf, sealed, bench } = parts;
        let now = outside.now();
        let rules = settings.rules;
        let keeper = DeliveryManagerKeeper::new(rules.clone(), now, outside.roll());
        let tokens = settings.destinations.iter().map(|one| one.token.clone());
        let roads = rules.destinations.iter().zip(tokens).map(|(name, token)| {
            Road::new(name.clone(), token, settings.backoff, Arc::clone(&metrics))
        });
        let roads = Roads::new(roads.collect(), dial);
        let mut backlog = Backlog::default();
        for file in sealed {
            backlog.add(file, &agent, &roads);
        }
        Self {
            agent,
            session: settings.session,
            promise: settings.promise,
            stop_time_max: settings.stop_time_max,
            spool_age_max: settings.spool.age_max,
            spool_bytes_max: settings.spool.bytes_max,
            outside,
            metrics,
            bench,
            keeper,
            rules,
            waiting: BTreeMap::new(),
            roads,
            links: Vec::new(),
            backlog,
            shelf,
            filed: BTreeMap::new(),
            sealing: Vec::new(),
            writing: BTreeSet::new(),
            spool_again: now.steady,
            look_again: now.steady,
            tell_again: now.steady,
            present: None,
            stopping: false,
            failed: None,
        }
    }

    /// Works until it is told to stop and nothing is in memory any more, or the time for that is over.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn run(
        mut self,
        mut mailbox: mpsc::Receiver<Event>,
        stop: CancellationToken,
    ) -> Result<Shelf, DiskFailed> {
        let mut news = Vec::with_capacity(AT_ONCE);
        let mut over = None;
        loop {
            let now = self.outside.now();
            self.turn(now);
            if let Some(failed) = self.failed.take() {
                return Err(DiskFailed(failed));
            }
            if self.has_stopped(now) {
                info!("everything is confirmed or on disk");
                return Ok(self.shelf);
            }
            if over.is_some_and(|over| over <= now.steady) {
                let bytes = self.keeper.present().bytes();
                warn!(bytes, "agent.stop_secs_max is over: what is in memory is left");
                return Ok(self.shelf);
            }
            let pause = self.pause(now.steady);
            // Each may be dropped: what was not received stays in the queue, a pause is a pause.
            tokio::select! {
                biased;
                () = stop.cancelled(), if !self.stopping => {
                    over = Some(self.begin_to_stop());
                }
                _ = mailbox.recv_many(&mut news, AT_ONCE) => {}
                () = sleep(pause) => {}
            }
            let now = self.outside.now();
            for event in news.drain(..) {
                self.take(event, now);
            }
        }
    }

    /// Something happened.
    pub(crate) fn take(&mut self, event: Event, now: Now) {
        match event {
            Event::Send(ask) => self.send(ask, now),
            Event::Line(line, heard) => self.heard(line, heard, now),
            Event::Disk(done) => self.done(done, now),
        }
    }

    /// Whether it was told to stop and is done; then files are left as the next start likes them.
    pub(crate) fn has_stopped(&mut self, now: Now) -> bool {
        let over = self.stopping && self.keeper.has_stopped(now.steady) && self.writing.is_empty();
        if over {
            self.say_farewell();
        }
        over
    }

    /// All that can be done now.
    pub(crate) fn turn(&mut self, now: Now) {
        self.keeper.tick(now, self.outside.roll(), &mut self.bench);
        self.note_block();
        self.open_links();
        self.drive_links(now);
        self.tell_status(now);
        self.spool(now);
        self.answer_ended();
        self.retire();
        self.seal(now.steady);
        self.drive_backlog(now);
        if self.look_again <= now.steady && self.shelf.order(Order::Look) {
            self.look_again = now.steady + LOOK_EVERY;
            self.give_up_old_files(now);
        }
        self.note_disk();
        let counted = &self.metrics.counted;
        let leaving = self.keeper.leaving().map_or(0, DeliveryManager::bytes);
        let memory = self.keeper.present().bytes() + leaving;
        counted.memory_bytes.set(i64::try_from(memory).unwrap_or(i64::MAX));
        counted.waiting.set(i64::try_from(self.waiting.len()).unwrap_or(i64::MAX));
        counted.backlog_files.set(i64::try_from(self.backlog.len()).unwrap_or(i64::MAX));
    }

    fn note_block(&mut self) {
        let present = self.keeper.present().block();
        if self.present.replace(present) != Some(present) {
            self.metrics.counted.blocks.inc();
        }
    }

    pub(crate) fn pause(&self, now: Steady) -> Duration {
        let links = self.links.iter().filter_map(Link::next_deadline);
        let next =
            [self.keeper.next_deadline(), self.backlog.next_deadline(), self.roads.next(now)];
        let next = links.chain(next.into_iter().flatten()).min();
        let pause = next.map_or(PAUSE_MAX, |next| Duration::from_micros(next.since(now).0));
        // What is due and waits for a disk is heard of when that is done.
        let waits = self.spool_again > now || !self.writing.is_empty();
        pause.clamp(Duration::from_millis(if waits { 20 } else { 1 }), PAUSE_MAX)
    }

    fn send(&mut self, ask: Ask, now: Now) {
        let Ask { batch, answer, room } = ask;
        let entropy = self.outside.roll();
        let sent = self.keeper.send(&batch, self.promise, now, entropy, &mut self.bench);
        drop((batch, room));
        match sent {
            Ok((pledge, None)) => {
                self.waiting.insert(pledge, answer);
            }
            // Whoever is gone does not hear it.
            Ok((_, Some(outcome))) => {
                answer.send(Ok(outcome)).ok();
            }
            Err(error) => {
                answer.send(Err(error)).ok();
            }
        }
    }

    fn answer_ended(&mut self) {
        for (pledge, outcome) in self.keeper.take_ended() {
            if let Some(answer) = self.waiting.remove(&pledge) {
                answer.send(Ok(outcome)).ok();
            }
        }
    }

    fn heard(&mut self, line: LineId, heard: Heard, now: Now) {
        if !self.heard_of_link(line, &heard, now) {
            self.heard_of_courier(line, heard, now);
        }
    }

    /// What is asked of the disk makes no sense, by a mistake of ours: the next start finds out what
    /// is there.
    fn fail(&mut self, error: RefillError) {
        error!(error = &error as &dyn std::error::Error, "a refill file cannot be written");
        self.failed.get_or_insert(error);
    }

    /// Begins to stop, and says until when.
    pub(crate) fn begin_to_stop(&mut self) -> Steady {
        info!("stopping");
        self.stopping = true;
        let within = Span(u64::try_from(self.stop_time_max.as_micros()).unwrap_or(u64::MAX));
        let now = self.outside.now().steady;
        self.keeper.shutdown(within, now, &mut self.bench);
        now + within
    }
}
