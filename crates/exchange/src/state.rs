//! What the room knows.
//!
//! Aggregates, and indices that are functions of them: a state put together from aggregates equals
//! the one that lived through the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use handoff_types::entropy::mix;
use handoff_types::{Steady, Wall};
use hashbrown::HashTable;

use crate::dense::Dense;
use crate::log::LOG_KEPT;
use crate::queue::Queue;
use crate::runs::Runs;
use crate::{
    Aggregate, Company, CompanyNo, Counters, Database, DatabaseNo, Device, DeviceNo, Digest,
    EntityId, Key, Kind, LogEntry, Message, MessageId, Phase, Place, Process, ProcessId, Route,
    Seq, Standing, Subsystem, SubsystemNo, Way,
};

/// Who sent a message: ids are unique for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sender {
    Device(DeviceNo),
    Database(DatabaseNo),
}

/// How many messages of a database are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting for the database.
    pub to_erp: u64,
    /// Waiting for devices.
    pub to_devices: u64,
    /// In Prepared.
    pub prepared: u64,
    /// In Log.
    pub log: u64,
    /// In Unknown.
    pub unknown: u64,
    /// In Error.
    pub error: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
}

/// Everything the room knows.
#[derive(Clone, Debug, Default)]
pub struct State {
    counters: Counters,
    companies: BTreeMap<CompanyNo, Company>,
    subsystems: BTreeMap<SubsystemNo, Subsystem>,
    databases: BTreeMap<DatabaseNo, Database>,
    devices: BTreeMap<DeviceNo, Device>,
    routes: BTreeMap<(CompanyNo, SubsystemNo), DatabaseNo>,
    /// By their [`Seq`].
    messages: Dense<Message>,
    processes: BTreeMap<u64, Box<Process>>,
    log: BTreeMap<u64, LogEntry>,
    index: Index,
    kinds: Kinds,
}

/// Two states are equal if their aggregates are: the rest follows.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.counters == other.counters
            && self.companies == other.companies
            && self.subsystems == other.subsystems
            && self.databases == other.databases
            && self.devices == other.devices
            && self.routes == other.routes
            && self.messages == other.messages
            && self.processes == other.processes
            && self.log == other.log
    }
}

impl Eq for State {}

#[derive(Clone, Debug, Default)]
struct Index {
    company_ids: BTreeMap<EntityId, CompanyNo>,
    subsystem_ids: BTreeMap<EntityId, SubsystemNo>,
    database_ids: BTreeMap<EntityId, DatabaseNo>,
    databases_of: BTreeSet<(CompanyNo, DatabaseNo)>,
    device_ids: BTreeMap<(CompanyNo, EntityId), DeviceNo>,
    device_tokens: BTreeMap<Digest, DeviceNo>,
    database_tokens: BTreeMap<Digest, DatabaseNo>,
    codes: BTreeMap<Digest, DeviceNo>,
    /// By a hash of sender and id. A state of parts of different ages may have two of one id for a
    /// while.
    ids: HashTable<Seq>,
    queues: BTreeMap<DatabaseNo, Queue>,
    inboxes: BTreeMap<DeviceNo, Runs<Seq>>,
    counts: BTreeMap<DatabaseNo, Counts>,
    /// How many messages of any place a device has sent or is sent.
    of_device: BTreeMap<DeviceNo, u64>,
    /// Messages that are over, by since when.
    over: Runs<(Wall, Seq)>,
    live: BTreeMap<DatabaseNo, u64>,
    deadlines: BTreeSet<(Steady, u64)>,
    unknown: BTreeSet<(DatabaseNo, u64)>,
    unsettled: BTreeSet<u64>,
    /// Processes that are over, by since when.
    ended: BTreeSet<(Wall, u64)>,
}

/// The types of messages: messages of one type share its text.
#[derive(Clone, Debug, Default)]
struct Kinds {
    known: BTreeSet<Kind>,
    /// So many more and those that no message has are forgotten.
    room: usize,
}

impl Kinds {
    fn share(&mut self, kind: Kind) -> Kind {
        if let Some(known) = self.known.get(&kind) {
            return known.clone();
        }
        if self.room == 0 {
            self.known.retain(Kind::is_shared);
            self.room = self.known.len().max(64);
        }
        self.room -= 1;
        self.known.insert(kind.clone());
        kind
    }
}

impl State {
    /// The numbers that are next.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// All companies.
    pub fn companies(&self) -> impl Iterator<Item = &Company> {
        self.companies.values()
    }

    /// A company.
    #[must_use]
    pub fn company(&self, no: CompanyNo) -> Option<&Company> {
        self.companies.get(&no)
    }

    /// A company by its id.
    #[must_use]
    pub fn company_by_id(&self, id: &EntityId) -> Option<&Company> {
        self.company(*self.index.company_ids.get(id)?)
    }

    /// All subsystems.
    pub fn subsystems(&self) -> impl Iterator<Item = &Subsystem> {
        self.subsystems.values()
    }

    /// A subsystem.
    #[must_use]
    pub fn subsystem(&self, no: SubsystemNo) -> Option<&Subsystem> {
        self.subsystems.get(&no)
    }

    /// A subsystem by its id.
    #[must_use]
    pub fn subsystem_by_id(&self, id: &EntityId) -> Option<&Subsystem> {
        self.subsystem(*self.index.subsystem_ids.get(id)?)
    }

    /// All databases.
    pub fn databases(&self) -> impl Iterator<Item = &Database> {
        self.databases.values()
    }

    /// A database.
    #[must_use]
    pub fn database(&self, no: DatabaseNo) -> Option<&Database> {
        self.databases.get(&no)
    }

    /// A database by its id.
    #[must_use]
    pub fn database_by_id(&self, id: &EntityId) -> Option<&Database> {
        self.database(*self.index.database_ids.get(id)?)
    }

    /// The database whose ERP shows the token of this digest.
    #[must_use]
    pub fn database_by_token(&self, token: &Digest) -> Option<&Database> {
        self.database(*self.index.database_tokens.get(token)?)
    }

    /// All devices.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.values()
    }

    /// The devices of a company, by their ids.
    pub fn devices_of(&self, company: CompanyNo) -> impl Iterator<Item = &Device> {
        let of = self.index.device_ids.iter().filter(move |((whose, _), _)| *whose == company);
        of.filter_map(|(_, no)| self.device(*no))
    }

    /// A device.
    #[must_use]
    pub fn device(&self, no: DeviceNo) -> Option<&Device> {
        self.devices.get(&no)
    }

    /// A device by its company and id.
    #[must_use]
    pub fn device_by_id(&self, company: CompanyNo, id: &EntityId) -> Option<&Device> {
        self.device(*self.index.device_ids.get(&(company, id.clone()))?)
    }

    /// The device that shows the token of this digest, locked out or not.
    #[must_use]
    pub fn device_by_token(&self, token: &Digest) -> Option<&Device> {
        self.device(*self.index.device_tokens.get(token)?)
    }

    /// The device that the code of this digest activates, expired or not.
    #[must_use]
    pub fn device_by_code(&self, code: &Digest) -> Option<&Device> {
        self.device(*self.index.codes.get(code)?)
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.routes.iter().map(|((company, subsystem), database)| Route {
            company: *company,
            subsystem: *subsystem,
            database: *database,
        })
    }

    /// Where a company's subsystem sends to.
    #[must_use]
    pub fn route(&self, company: CompanyNo, subsystem: SubsystemNo) -> Option<DatabaseNo> {
        self.routes.get(&(company, subsystem)).copied()
    }

    /// A message.
    #[must_use]
    pub fn message(&self, seq: Seq) -> Option<&Message> {
        self.messages.get(seq.0)
    }

    /// Messages from one on, in the order they were received.
    pub fn messages_from(&self, seq: Seq) -> impl Iterator<Item = (Seq, &Message)> {
        self.messages.from(seq.0).map(|(seq, message)| (Seq(seq), message))
    }

    /// How many messages there are, those that are over included.
    #[must_use]
    pub fn message_count(&self) -> u64 {
        self.messages.len() as u64
    }

    /// How many messages of a database are where.
    #[must_use]
    pub fn counts(&self, database: DatabaseNo) -> Counts {
        self.index.counts.get(&database).copied().unwrap_or_default()
    }

    /// How many messages were sent by a device or to it and are known.
    #[must_use]
    pub fn count_of_device(&self, device: DeviceNo) -> u64 {
        self.index.of_device.get(&device).copied().unwrap_or(0)
    }

    /// The messages that wait for a device, in order.
    pub fn inbox(&self, device: DeviceNo) -> impl Iterator<Item = (Seq, &Message)> {
        let seqs = self.index.inboxes.get(&device).into_iter().flat_map(Runs::iter);
        seqs.filter_map(|seq| Some((seq, self.message(seq)?)))
    }

    /// How many messages wait for a device.
    #[must_use]
    pub fn inbox_len(&self, device: DeviceNo) -> u64 {
        self.index.inboxes.get(&device).map_or(0, |inbox| inbox.len() as u64)
    }

    /// A message that a device sent.
    #[must_use]
    pub fn sent_by_device(&self, device: DeviceNo, id: &MessageId) -> Option<(Seq, &Message)> {
        self.by_sender(Sender::Device(device), id)
    }

    /// A message that a database sent.
    #[must_use]
    pub fn sent_by_database(
        &self,
        database: DatabaseNo,
        id: &MessageId,
    ) -> Option<(Seq, &Message)> {
        self.by_sender(Sender::Database(database), id)
    }

    pub(crate) fn by_sender(&self, sender: Sender, id: &MessageId) -> Option<(Seq, &Message)> {
        let is = |seq: &Seq| {
            self.message(*seq)
                .is_some_and(|message| sender_of(message) == sender && message.id == *id)
        };
        let seq = *self.index.ids.find(hash(sender, id), is)?;
        Some((seq, self.message(seq)?))
    }

    /// A process by its id; none if the database has no such process.
    #[must_use]
    pub fn process(&self, database: DatabaseNo, id: ProcessId) -> Option<&Process> {
        let process = self.processes.get(&id.number)?;
        (process.id == id && process.database == database).then_some(process)
    }

    /// A process by its number.
    #[must_use]
    pub fn process_by_number(&self, number: u64) -> Option<&Process> {
        self.processes.get(&number).map(|process| &**process)
    }

    /// Processes below a number, the latest first.
    pub fn processes_below(&self, number: u64) -> impl Iterator<Item = &Process> {
        self.processes.range(..number).rev().map(|(_, process)| &**process)
    }

    /// The process that keeps a database busy.
    #[must_use]
    pub fn live(&self, database: DatabaseNo) -> Option<&Process> {
        self.process_by_number(*self.index.live.get(&database)?)
    }

    /// All live processes, by when they are given up.
    pub fn deadlines(&self) -> impl Iterator<Item = (Steady, &Process)> {
        let found = |(deadline, number): &(Steady, u64)| {
            Some((*deadline, self.process_by_number(*number)?))
        };
        self.index.deadlines.iter().filter_map(found)
    }

    /// The processes of a database that nobody decided.
    pub fn unknown(&self, database: DatabaseNo) -> impl Iterator<Item = &Process> {
        let from = (database, 0)..=(database, u64::MAX);
        self.index.unknown.range(from).filter_map(|(_, number)| self.process_by_number(*number))
    }

    /// The processes that decided something the folders do not show.
    pub fn unsettled(&self) -> impl Iterator<Item = &Process> {
        self.index.unsettled.iter().filter_map(|number| self.process_by_number(*number))
    }

    /// Entries of the log below a number, the latest first.
    pub fn log_below(&self, number: u64) -> impl Iterator<Item = &LogEntry> {
        self.log.range(..number).rev().map(|(_, entry)| entry)
    }

    /// The databases of a company.
    pub fn databases_of(&self, company: CompanyNo) -> impl Iterator<Item = &Database> {
        let from = (company, DatabaseNo(0))..=(company, DatabaseNo(u32::MAX));
        self.index.databases_of.range(from).filter_map(|(_, no)| self.database(*no))
    }

    /// Messages that are over, those longest over first.
    pub(crate) fn over(&self) -> impl ExactSizeIterator<Item = (Wall, Seq)> {
        self.index.over.iter()
    }

    /// Processes that are over, those longest over first.
    pub(crate) fn ended(&self) -> impl ExactSizeIterator<Item = (Wall, u64)> {
        self.index.ended.iter().copied()
    }

    pub(crate) fn queue(&self, database: DatabaseNo) -> Option<&Queue> {
        self.index.queues.get(&database)
    }

    /// The keys of all aggregates from one on.
    pub fn keys_from(&self, from: &Key) -> impl Iterator<Item = Key> {
        let from = *from;
        let counters = std::iter::once(Key::Counters).filter(move |key| *key >= from);
        let rest = self
            .companies
            .keys()
            .map(|no| Key::Company(*no))
            .chain(self.subsystems.keys().map(|no| Key::Subsystem(*no)))
            .chain(self.databases.keys().map(|no| Key::Database(*no)))
            .chain(self.devices.keys().map(|no| Key::Device(*no)))
            .chain(self.routes.keys().map(|(company, of)| Key::Route(*company, *of)))
            .skip_while(move |key| *key < from);
        let log = match from {
            Key::Log(number) => Bound::Included(number),
            key if key > Key::Log(0) => Bound::Excluded(u64::MAX),
            _ => Bound::Unbounded,
        };
        let processes = match from {
            Key::Process(number) => Bound::Included(number),
            key if key > Key::Process(0) => Bound::Excluded(u64::MAX),
            _ => Bound::Unbounded,
        };
        let messages = match from {
            Key::Message(seq) => seq.0,
            _ => 0,
        };
        let log = self.log.range((log, Bound::Unbounded)).map(|(number, _)| Key::Log(*number));
        let processes = self.processes.range((processes, Bound::Unbounded));
        let processes = processes.map(|(number, _)| Key::Process(*number));
        let messages = self.messages.from(messages).map(|(seq, _)| Key::Message(Seq(seq)));
        counters.chain(rest).chain(log).chain(processes).chain(messages)
    }

    /// An aggregate.
    #[must_use]
    pub fn aggregate(&self, key: &Key) -> Option<Aggregate> {
        Some(match key {
            Key::Counters => Aggregate::Counters(self.counters),
            Key::Company(no) => Aggregate::Company(self.company(*no)?.clone()),
            Key::Subsystem(no) => Aggregate::Subsystem(self.subsystem(*no)?.clone()),
            Key::Database(no) => Aggregate::Database(self.database(*no)?.clone()),
            Key::Device(no) => Aggregate::Device(self.device(*no)?.clone()),
            Key::Route(company, subsystem) => Aggregate::Route(Route {
                company: *company,
                subsystem: *subsystem,
                database: self.route(*company, *subsystem)?,
            }),
            Key::Log(number) => Aggregate::Log(self.log.get(number)?.clone()),
            Key::Process(number) => {
                Aggregate::Process(Box::new(self.process_by_number(*number)?.clone()))
            }
            Key::Message(seq) => Aggregate::Message(*seq, Box::new(self.message(*seq)?.clone())),
        })
    }

    /// Puts an aggregate in place of whatever there is.
    pub fn put(&mut self, aggregate: Aggregate) {
        match aggregate {
            Aggregate::Counters(counters) => self.counters = counters,
            Aggregate::Company(company) => self.put_company(company),
            Aggregate::Subsystem(subsystem) => self.put_subsystem(subsystem),
            Aggregate::Database(database) => self.put_database(database),
            Aggregate::Device(device) => self.put_device(device),
            Aggregate::Route(route) => {
                self.routes.insert((route.company, route.subsystem), route.database);
            }
            Aggregate::Message(seq, message) => self.put_message(seq, *message),
            Aggregate::Process(process) => self.put_process(process),
            Aggregate::Log(entry) => self.note(entry),
        }
    }

    pub(crate) fn put_company(&mut self, company: Company) {
        self.remove_company(company.no);
        self.index.company_ids.insert(company.id.clone(), company.no);
        self.companies.insert(company.no, company);
    }

    pub(crate) fn remove_company(&mut self, no: CompanyNo) {
        if let Some(gone) = self.companies.remove(&no) {
            forget(&mut self.index.company_ids, &gone.id, no);
        }
    }

    pub(crate) fn put_subsystem(&mut self, subsystem: Subsystem) {
        self.remove_subsystem(subsystem.no);
        self.index.subsystem_ids.insert(subsystem.id.clone(), subsystem.no);
        self.subsystems.insert(subsystem.no, subsystem);
    }

    pub(crate) fn remove_subsystem(&mut self, no: SubsystemNo) {
        if let Some(gone) = self.subsystems.remove(&no) {
            forget(&mut self.index.subsystem_ids, &gone.id, no);
        }
    }

    pub(crate) fn put_database(&mut self, database: Database) {
        self.remove_database(database.no);
        self.index.database_ids.insert(database.id.clone(), database.no);
        self.index.databases_of.insert((database.company, database.no));
        database.token.map(|token| self.index.database_tokens.insert(token, database.no));
        self.databases.insert(database.no, database);
    }

    pub(crate) fn remove_database(&mut self, no: DatabaseNo) {
        if let Some(gone) = self.databases.remove(&no) {
            forget(&mut self.index.database_ids, &gone.id, no);
            self.index.databases_of.remove(&(gone.company, no));
            forget_some(&mut self.index.database_tokens, gone.token.as_ref(), no);
        }
    }

    pub(crate) fn put_device(&mut self, device: Device) {
        self.remove_device(device.no);
        self.index.device_ids.insert((device.company, device.id.clone()), device.no);
        device.token.map(|token| self.index.device_tokens.insert(token, device.no));
        device.code.map(|code| self.index.codes.insert(code.digest, device.no));
        self.devices.insert(device.no, device);
    }

    pub(crate) fn remove_device(&mut self, no: DeviceNo) {
        if let Some(gone) = self.devices.remove(&no) {
            forget(&mut self.index.device_ids, &(gone.company, gone.id), no);
            forget_some(&mut self.index.device_tokens, gone.token.as_ref(), no);
            forget_some(&mut self.index.codes, gone.code.as_ref().map(|code| &code.digest), no);
        }
    }

    pub(crate) fn set_counters(&mut self, counters: Counters) {
        self.counters = counters;
    }

    pub(crate) fn put_route(&mut self, route: Route) {
        self.routes.insert((route.company, route.subsystem), route.database);
    }

    pub(crate) fn remove_route(&mut self, company: CompanyNo, subsystem: SubsystemNo) {
        self.routes.remove(&(company, subsystem));
    }

    pub(crate) fn put_message(&mut self, seq: Seq, mut message: Message) {
        self.remove_message(seq);
        message.kind = message.kind.map(|kind| self.kinds.share(kind));
        self.index.enlist(seq, &message);
        let sender = sender_of(&message);
        let id = message.id;
        self.messages.insert(seq.0, message);
        let messages = &self.messages;
        let hash_of = |seq: &Seq| match messages.get(seq.0) {
            Some(message) => hash(sender_of(message), &message.id),
            None => 0,
        };
        self.index.ids.insert_unique(hash(sender, &id), seq, hash_of);
    }

    pub(crate) fn remove_message(&mut self, seq: Seq) {
        let Some(gone) = self.messages.remove(seq.0) else { return };
        self.index.delist(seq, &gone);
        let found = self.index.ids.find_entry(hash(sender_of(&gone), &gone.id), |one| *one == seq);
        if let Ok(entry) = found {
            entry.remove();
        }
    }

    /// Changes a message in a way that leaves its sender and id as they are.
    pub(crate) fn change_message(&mut self, seq: Seq, with: impl FnOnce(&mut Message)) {
        let Some(message) = self.messages.get_mut(seq.0) else { return };
        self.index.delist(seq, message);
        with(message);
        self.index.enlist(seq, message);
    }

    pub(crate) fn put_process(&mut self, process: Box<Process>) {
        self.remove_process(process.id.number);
        self.index.enrol(&process);
        self.processes.insert(process.id.number, process);
    }

    pub(crate) fn remove_process(&mut self, number: u64) {
        if let Some(gone) = self.processes.remove(&number) {
            self.index.strike(&gone);
        }
    }

    pub(crate) fn change_process(&mut self, number: u64, with: impl FnOnce(&mut Process)) {
        let Some(process) = self.processes.get_mut(&number) else { return };
        self.index.strike(process);
        with(process);
        self.index.enrol(process);
    }

    /// Notes an entry and forgets those too far behind the latest. By number and not by count:
    /// parts of different ages leave gaps, and what lies before one is too old.
    pub(crate) fn note(&mut self, entry: LogEntry) {
        self.log.insert(entry.number, entry);
        let latest = self.log.last_key_value().map_or(0, |(number, _)| *number);
        let kept_from = latest.saturating_sub(LOG_KEPT - 1);
        while self.log.first_key_value().is_some_and(|(number, _)| *number < kept_from) {
            self.log.pop_first();
        }
    }
}

impl Index {
    fn enlist(&mut self, seq: Seq, message: &Message) {
        *self.of_device.entry(message.device).or_default() += 1;
        self.count(message, |count| *count += 1, |bytes, more| *bytes += more);
        match (message.place, message.way) {
            (Place::Messages, Way::ToErp) => {
                self.queues.entry(message.database).or_default().insert(seq, message);
            }
            (Place::Messages, Way::ToDevice) => {
                self.inboxes.entry(message.device).or_default().insert(seq);
            }
            (Place::Log | Place::Error, _) => {
                self.over.insert((message.since, seq));
            }
            (Place::Prepared | Place::Unknown, _) => {}
        }
    }

    fn delist(&mut self, seq: Seq, message: &Message) {
        if let Some(count) = self.of_device.get_mut(&message.device) {
            *count -= 1;
            if *count == 0 {
                self.of_device.remove(&message.device);
            }
        }
        self.count(message, |count| *count -= 1, |bytes, less| *bytes -= less);
        match (message.place, message.way) {
            (Place::Messages, Way::ToErp) => {
                if let Some(queue) = self.queues.get_mut(&message.database) {
                    queue.remove(seq, message);
                    if queue.is_empty() {
                        self.queues.remove(&message.database);
                    }
                }
            }
            (Place::Messages, Way::ToDevice) => {
                if let Some(inbox) = self.inboxes.get_mut(&message.device) {
                    inbox.remove(seq);
                    if inbox.is_empty() {
                        self.inboxes.remove(&message.device);
                    }
                }
            }
            (Place::Log | Place::Error, _) => {
                self.over.remove((message.since, seq));
            }
            (Place::Prepared | Place::Unknown, _) => {}
        }
    }

    fn count(
        &mut self,
        message: &Message,
        one: impl FnOnce(&mut u64),
        bytes: impl FnOnce(&mut u64, u64),
    ) {
        let counts = self.counts.entry(message.database).or_default();
        bytes(&mut counts.bytes, message.bytes.into());
        one(match (message.place, message.way) {
            (Place::Messages, Way::ToErp) => &mut counts.to_erp,
            (Place::Messages, Way::ToDevice) => &mut counts.to_devices,
            (Place::Prepared, _) => &mut counts.prepared,
            (Place::Log, _) => &mut counts.log,
            (Place::Unknown, _) => &mut counts.unknown,
            (Place::Error, _) => &mut counts.error,
        });
        if *counts == Counts::default() {
            self.counts.remove(&message.database);
        }
    }

    fn enrol(&mut self, process: &Process) {
        let number = process.id.number;
        if process.phase.is_live() {
            self.live.insert(process.database, number);
            self.deadlines.insert((process.deadline, number));
        }
        if process.phase == Phase::Unknown {
            self.unknown.insert((process.database, number));
        }
        if !process.settled && !process.phase.is_live() {
            self.unsettled.insert(number);
        }
        if process.phase.is_over() && process.settled {
            self.ended.insert((process.ended.unwrap_or(process.started), number));
        }
    }

    fn strike(&mut self, process: &Process) {
        let number = process.id.number;
        if process.phase.is_live() {
            forget(&mut self.live, &process.database, number);
            self.deadlines.remove(&(process.deadline, number));
        }
        self.unknown.remove(&(process.database, number));
        self.unsettled.remove(&number);
        self.ended.remove(&(process.ended.unwrap_or(process.started), number));
    }
}

/// Removes a name unless somebody else has it by now.
fn forget<K: Ord, V: PartialEq>(names: &mut BTreeMap<K, V>, name: &K, whose: V) {
    if names.get(name).is_some_and(|found| *found == whose) {
        names.remove(name);
    }
}

fn forget_some<K: Ord, V: PartialEq>(names: &mut BTreeMap<K, V>, name: Option<&K>, whose: V) {
    if let Some(name) = name {
        forget(names, name, whose);
    }
}

pub(crate) fn sender_of(message: &Message) -> Sender {
    match message.way {
        Way::ToErp => Sender::Device(message.device),
        Way::ToDevice => Sender::Database(message.database),
    }
}

/// The same for ever is not asked of it: it is never written.
fn hash(sender: Sender, id: &MessageId) -> u64 {
    let start = match sender {
        Sender::Device(no) => u64::from(no.0) << 1,
        Sender::Database(no) => u64::from(no.0) << 1 | 1,
    };
    id.as_str().as_bytes().chunks(8).fold(mix(start), |hash, chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

impl Standing {
    /// Whether it is served when its turn comes.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }
}
