//! Looks at the room. Each is a bounded piece of work; what is longer is made of several.

use handoff_exchange::{
    Counts, DatabaseNo, DeviceNo, Happened, LogEntry, Message, MessageId, Phase, Place, Process,
    ProcessId, Seq, State, Status, Way,
};
use handoff_store_embedded::folders::Filed;
use handoff_types::{Now, Wall};

use super::ExchangeRoom;
use super::mailbox::{Look, Question, Tell};
use super::task::place;
use crate::rooms::RoomError;

/// Messages, processes and entries looked at in one turn.
const LOOKED_AT: usize = 4096;

/// A process as people and ERPs see it.
#[derive(Clone, Debug)]
pub(crate) struct ProcessView {
    pub(crate) id: ProcessId,
    pub(crate) phase: Phase,
    pub(crate) started: Wall,
    /// While it is live, by the operator's clock.
    pub(crate) deadline: Option<Wall>,
    pub(crate) ready: Option<Wall>,
    pub(crate) ended: Option<Wall>,
    pub(crate) words: Option<Box<str>>,
    pub(crate) settled: bool,
    pub(crate) contradicted: bool,
    pub(crate) to_erp: Vec<(Seq, Option<MessageId>, Option<Status>)>,
    pub(crate) from_erp: Vec<(Seq, Option<MessageId>, bool)>,
}

/// A message as people see it.
#[derive(Clone, Debug)]
pub(crate) struct MessageView {
    pub(crate) seq: Seq,
    pub(crate) message: Message,
    pub(crate) device: String,
    pub(crate) subsystem: String,
    /// Of the process that has it.
    pub(crate) process: Option<ProcessId>,
}

/// Which messages are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) database: DatabaseNo,
    pub(crate) place: Option<Place>,
    pub(crate) device: Option<DeviceNo>,
    pub(crate) way: Option<Way>,
    pub(crate) after: Option<Seq>,
    pub(crate) limit: usize,
}

/// A page, and where the next one goes on.
#[derive(Clone, Debug)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<u64>,
}

/// What is to be given to a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) files: Vec<Filed>,
    /// Whether there is more.
    pub(crate) more: bool,
}

/// Figures of a database.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) counts: Counts,
    pub(crate) live: Option<ProcessView>,
    pub(crate) unknown: u64,
}

/// Figures of the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Companies there are.
    pub companies: u64,
    /// Subsystems there are.
    pub subsystems: u64,
    /// Databases there are.
    pub databases: u64,
    /// Devices there are.
    pub devices: u64,
    /// Messages known, those that are over included.
    pub messages: u64,
    /// Messages of all databases by where they are.
    pub counts: Counts,
    /// Processes that are started.
    pub started: u64,
    /// Processes that are ready to commit.
    pub ready: u64,
    /// Processes that nobody decided.
    pub unknown: u64,
    /// Processes whose files are not where they belong.
    pub unsettled: u64,
    /// Bodies that have no file yet.
    pub unfiled: u64,
    /// Files that are to be moved or removed.
    pub to_move: u64,
    /// How far the folders are behind, in microseconds.
    pub behind_micros: u64,
    /// Files cannot be written for the moment.
    pub stuck: bool,
    /// The list of processes cannot be written for the moment.
    pub list_stuck: bool,
    /// Files that are nobody's, as the last comparison found.
    pub foreign: u64,
    /// Devices that wait for messages.
    pub waiting: u64,
}

impl ExchangeRoom {
    /// Looks at the state. The answer waits until all of it is durable.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        see: impl FnOnce(&State, Now) -> T + Send + 'static,
    ) -> Result<T, RoomError> {
        self.seen(see, Question::Look).await
    }

    async fn seen<T: Send + 'static>(
        &self,
        see: impl FnOnce(&State, Now) -> T + Send + 'static,
        question: fn(Look) -> Question,
    ) -> Result<T, RoomError> {
        let (to, seen) = tokio::sync::oneshot::channel();
        let look: Look = Box::new(move |state, now| {
            let found = see(state, now);
            let tell: Tell = Box::new(move |outcome: Result<(), RoomError>| {
                drop(to.send(outcome.map(|()| found)));
            });
            tell
        });
        self.mailbox.send(question(look)).await.map_err(|_| super::stopping())?;
        seen.await.map_err(|_| super::stopping())?
    }

    /// The next messages for a device, as many as fit.
    pub(crate) async fn inbox(
        &self,
        device: DeviceNo,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Inbox, RoomError> {
        self.look(move |state, _| {
            let mut inbox = Inbox::default();
            let mut bytes = 0_u64;
            for (seq, message) in state.inbox(device) {
                let with = bytes.saturating_add(message.bytes.into());
                let full = inbox.files.len() >= limit || with > bytes_max;
                if full && !inbox.files.is_empty() {
                    inbox.more = true;
                    break;
                }
                bytes = with;
                inbox.files.extend(place(state, seq));
            }
            inbox
        })
        .await
    }

    /// How many messages wait for a device, and how many are known of it.
    pub(crate) async fn device_counts(&self, device: DeviceNo) -> Result<(u64, u64), RoomError> {
        self.look(move |state, _| (state.inbox_len(device), state.count_of_device(device))).await
    }

    /// A process.
    pub(crate) async fn process(
        &self,
        database: DatabaseNo,
        id: ProcessId,
    ) -> Result<Option<ProcessView>, RoomError> {
        self.look(move |state, now| {
            state.process(database, id).map(|process| view(state, process, now))
        })
        .await
    }

    /// Processes whose outcome nobody reported: those that wait for it, and those that did not get
    /// it in time.
    pub(crate) async fn in_doubt(
        &self,
        database: DatabaseNo,
    ) -> Result<Vec<ProcessView>, RoomError> {
        self.look(move |state, now| {
            let ready = state.live(database).filter(|process| process.phase == Phase::Ready);
            let all = state.unknown(database).chain(ready);
            all.take(1_000).map(|process| view(state, process, now)).collect()
        })
        .await
    }

    /// Processes of a database below a number, the latest first.
    pub(crate) async fn processes(
        &self,
        database: DatabaseNo,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Page<ProcessView>, RoomError> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut from = below.unwrap_or(u64::MAX);
        loop {
            let wanted = limit - page.items.len();
            let (found, last) = self
                .look(move |state, now| {
                    let mut found = Vec::new();
                    let mut last = None;
                    for process in state.processes_below(from).take(LOOKED_AT) {
                        last = Some(process.id.number);
                        if process.database == database {
                            found.push(view(state, process, now));
                            if found.len() == wanted {
                                break;
                            }
                        }
                    }
                    let more =
                        last.is_some_and(|last| state.processes_below(last).next().is_some());
                    (found, last.filter(|_| more))
                })
                .await?;
            page.items.extend(found);
            match last {
                Some(last) if page.items.len() < limit => from = last,
                last => {
                    page.next = last;
                    return Ok(page);
                }
            }
        }
    }

    /// Entries of the log of a database, or of all, below a number, the latest first.
    pub(crate) async fn log(
        &self,
        database: DatabaseNo,
        below: Option<u64>,
        limit: usize,
        what: Vec<Happened>,
    ) -> Result<Page<LogEntry>, RoomError> {
        let below = below.unwrap_or(u64::MAX);
        self.look(move |state, _| {
            let wanted = |entry: &&LogEntry| {
                entry.database == database && (what.is_empty() || what.contains(&entry.what))
            };
            let mut found = state.log_below(below).filter(wanted);
            let items: Vec<LogEntry> = found.by_ref().take(limit).cloned().collect();
            let next = items.last().map(|last| last.number).filter(|_| found.next().is_some());
            Page { items, next }
        })
        .await
    }

    /// Messages of a database, in the order they were received.
    pub(crate) async fn messages(&self, wanted: Wanted) -> Result<Page<MessageView>, RoomError> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut from = wanted.after.map_or(Some(0), |after| after.0.checked_add(1));
        while let Some(first) = from {
            let left = wanted.limit - page.items.len();
            let (found, next) = self
                .look(move |state, _| {
                    let mut found = Vec::new();
                    let mut messages = state.messages_from(Seq(first));
                    for (seq, message) in messages.by_ref().take(LOOKED_AT) {
                        if fits(&wanted, message) {
                            found.push(message_view(state, seq, message));
                            if found.len() == left {
                                break;
                            }
                        }
                    }
                    (found, messages.next().map(|(seq, _)| seq.0))
                })
                .await?;
            page.items.extend(found);
            if page.items.len() >= wanted.limit {
                page.next = next.and(page.items.last().map(|last| last.seq.0));
                return Ok(page);
            }
            from = next;
        }
        Ok(page)
    }

    /// A message of a database, and where its body is.
    pub(crate) async fn message(
        &self,
        database: DatabaseNo,
        seq: Seq,
    ) -> Result<Option<(MessageView, Option<Filed>)>, RoomError> {
        self.look(move |state, _| {
            let message = state.message(seq).filter(|message| message.database == database)?;
            Some((message_view(state, seq, message), place(state, seq)))
        })
        .await
    }

    /// Figures of a database.
    pub(crate) async fn figures(&self, database: DatabaseNo) -> Result<Figures, RoomError> {
        self.look(move |state, now| Figures {
            counts: state.counts(database),
            live: state.live(database).map(|process| view(state, process, now)),
            unknown: state.unknown(database).count() as u64,
        })
        .await
    }

    /// Figures of the room at this moment. It does not wait for the disk.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn stats(&self) -> Result<Stats, RoomError> {
        let mut stats = self.seen(|state, _| stats(state), Question::Glance).await?;
        let behind = self.shared.orders.behind();
        stats.unfiled = behind.bodies as u64;
        stats.to_move = behind.orders as u64;
        stats.behind_micros = self.shared.behind.load(std::sync::atomic::Ordering::Acquire);
        stats.stuck = self.shared.files_stuck.load(std::sync::atomic::Ordering::Acquire);
        stats.list_stuck = self.shared.list_stuck.load(std::sync::atomic::Ordering::Acquire);
        stats.foreign = self.shared.compared().as_ref().map_or(0, |found| found.foreign);
        stats.waiting = self.waiting();
        Ok(stats)
    }
}

fn stats(state: &State) -> Stats {
    let mut stats = Stats {
        companies: state.companies().count() as u64,
        subsystems: state.subsystems().count() as u64,
        databases: state.databases().count() as u64,
        devices: state.devices().count() as u64,
        messages: state.message_count(),
        unsettled: state.unsettled().count() as u64,
        ..Stats::default()
    };
    for database in state.databases() {
        let Counts { to_erp, to_devices, prepared, log, unknown, error, bytes } =
            state.counts(database.no);
        stats.counts.to_erp += to_erp;
        stats.counts.to_devices += to_devices;
        stats.counts.prepared += prepared;
        stats.counts.log += log;
        stats.counts.unknown += unknown;
        stats.counts.error += error;
        stats.counts.bytes += bytes;
        stats.unknown += state.unknown(database.no).count() as u64;
        match state.live(database.no).map(|process| process.phase) {
            Some(Phase::Ready) => stats.ready += 1,
            Some(_) => stats.started += 1,
            None => {}
        }
    }
    stats
}

fn fits(wanted: &Wanted, message: &Message) -> bool {
    message.database == wanted.database
        && wanted.place.is_none_or(|place| message.place == place)
        && wanted.device.is_none_or(|device| message.device == device)
        && wanted.way.is_none_or(|way| message.way == way)
}

fn message_view(state: &State, seq: Seq, message: &Message) -> MessageView {
    let device = state.device(message.device).map(|device| device.id.to_string());
    let subsystem = state.subsystem(message.subsystem).map(|one| one.id.to_string());
    let process = match message.standing {
        handoff_exchange::Standing::Served(number) => state.process_by_number(number),
        _ => None,
    };
    MessageView {
        seq,
        message: message.clone(),
        device: device.unwrap_or_default(),
        subsystem: subsystem.unwrap_or_default(),
        process: process.map(|process| process.id),
    }
}

fn view(state: &State, process: &Process, now: Now) -> ProcessView {
    let id_of = |seq: Seq| state.message(seq).map(|message| message.id);
    let live = process.phase.is_live();
    ProcessView {
        id: process.id,
        phase: process.phase,
        started: process.started,
        deadline: live.then(|| super::wall_of(process.deadline, now)),
        ready: process.ready,
        ended: process.ended,
        words: process.words.clone(),
        settled: process.settled,
        contradicted: process.contradicted,
        to_erp: process.to_erp.iter().map(|one| (one.seq, id_of(one.seq), one.status)).collect(),
        from_erp: process
            .from_erp
            .iter()
            .map(|one| (one.seq, id_of(one.seq), one.notice))
            .collect(),
    }
}
