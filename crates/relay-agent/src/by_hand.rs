//! An agent that is turned by hand: the same core, the same rules, the same files, and no socket, thread
//! or clock. Whoever has it says what time it is, when the disk works, and what is heard of a line. For
//! simulators and tests.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use handoff_log::disk::Disk;
use handoff_relay::codec::Workbench;
use handoff_relay::refill::{RefillError, Spool};
use handoff_relay::session::Message;
use handoff_relay::{Batch, Outcome, SendError};
use handoff_types::Span;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Outside;
use crate::core::{Ask, Core, Event, Parts};
use crate::line::{Heard, Line, LineId};
use crate::metrics::Metrics;
use crate::run::{AgentError, check};
use crate::settings::Settings;
use crate::shelf::{self, Keeper, Shelf, Tools};

/// Connections that were begun and not asked for.
const CALLS: usize = 4_096;

/// A connection that the agent wants, and what it says there.
#[derive(Debug)]
pub struct Call {
    /// Its number; no two have the same.
    pub line: u64,
    /// Whom it is for, by the place of its name.
    pub to: usize,
    said: mpsc::Receiver<Message>,
}

impl Call {
    /// What the agent has said since it was asked last.
    pub fn said(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }

    /// Whether the agent is done with it and everything was heard.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.said.is_closed() && self.said.is_empty()
    }
}

/// What becomes of samples that were sent.
#[derive(Debug)]
pub struct Answer(oneshot::Receiver<Result<Outcome, SendError>>);

impl Answer {
    /// The answer, once.
    pub fn look(&mut self) -> Option<Result<Outcome, SendError>> {
        self.0.try_recv().ok()
    }
}

/// The agent.
pub struct ByHand {
    core: Core,
    keeper: Keeper,
    metrics: Arc<Metrics>,
    outside: Outside,
    calls: Receiver<Call>,
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHand").finish_non_exhaustive()
    }
}

impl ByHand {
    /// Reads the spool of a disk and begins.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn open(
        mut settings: Settings,
        disk: Arc<dyn Disk>,
        outside: Outside,
    ) -> Result<Self, AgentError> {
        let (agent, _) = check(&mut settings)?;
        let unreadable = |fault: RefillError| AgentError::Spool { path: "spool".into(), fault };
        let spool = Spool::open(disk, "spool", "quarantine", settings.spool);
        let spool = spool.map_err(|fault| unreadable(fault.into()))?;
        let opening = shelf::open(&spool, settings.refill).map_err(unreadable)?;
        let names = settings.destinations.iter().map(|one| one.name.as_str());
        let metrics = Arc::new(Metrics::new(names));
        metrics.give_up(crate::metrics::GIVEN_UP_DAMAGED, opening.damaged);
        let limits = settings.refill;
        let tools = Tools { spool, limits, free: Box::new(|| Ok(u64::MAX)), free_min: 0 };
        let (shelf, keeper) = Shelf::by_hand(tools, opening.files);
        let memory = |fault| AgentError::System { what: "memory", fault };
        let (begun, calls) = sync_channel(CALLS);
        let dial = move |line: LineId, to| {
            let (own, said) = Line::by_hand(line);
            // Nobody takes so many: it is as if the line never came up.
            drop(begun.try_send(Call { line, to, said }));
            own
        };
        let core = Core::new(Parts {
            settings,
            agent,
            dial: Box::new(dial),
            outside: outside.clone(),
            metrics: Arc::clone(&metrics),
            shelf,
            sealed: opening.sealed,
            bench: Workbench::new().map_err(memory)?,
        });
        Ok(Self { core, keeper, metrics, outside, calls })
    }

    /// Sends samples.
    pub fn send(&mut self, batch: Batch) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { batch: Box::new(batch), answer, room: None };
        self.core.take(Event::Send(ask), self.outside.now());
        Answer(answered)
    }

    /// Lets the core do all that can be done now.
    pub fn turn(&mut self) {
        self.core.turn(self.outside.now());
    }

    /// Lets the disk do the next thing that was ordered. False if nothing was.
    pub fn work(&mut self) -> bool {
        let Some(done) = self.keeper.work_once() else { return false };
        self.core.take(Event::Disk(done), self.outside.now());
        true
    }

    /// Connections that were begun since it was asked last.
    pub fn calls(&mut self) -> Vec<Call> {
        self.calls.try_iter().collect()
    }

    /// A connection is there.
    pub fn up(&mut self, line: u64) {
        self.core.take(Event::Line(line, Heard::Up), self.outside.now());
    }

    /// Something was said to the agent.
    pub fn hear(&mut self, line: u64, message: Message) {
        self.core.take(Event::Line(line, Heard::Message(message)), self.outside.now());
    }

    /// A connection is gone.
    pub fn down(&mut self, line: u64) {
        let why = Heard::Down("it is gone".to_owned());
        self.core.take(Event::Line(line, why), self.outside.now());
    }

    /// Begins to stop.
    pub fn stop(&mut self) {
        self.core.begin_to_stop();
    }

    /// Whether it was told to stop and is done but for what the disk was asked to do.
    pub fn has_stopped(&mut self) -> bool {
        self.core.has_stopped(self.outside.now())
    }

    /// How long nothing need be done, unless something happens.
    #[must_use]
    pub fn pause(&self) -> Span {
        let pause = self.core.pause(self.outside.now().steady);
        Span(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX))
    }

    /// Whether the disk fails what must be written.
    #[must_use]
    pub fn disk_fails(&self) -> bool {
        self.metrics.disk_fails()
    }

    /// Bytes of segments in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::try_from(self.metrics.counted.memory_bytes.get()).unwrap_or(0)
    }

    /// Bytes of segments and snapshots written to refill files.
    #[must_use]
    pub fn spooled_bytes(&self) -> u64 {
        self.metrics.counted.spooled_bytes.get()
    }

    /// Segments or files that will not be delivered.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.metrics.given_up()
    }
}
