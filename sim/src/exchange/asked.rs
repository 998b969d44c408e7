//! What is asked of the exchange, with its answer, and all that people can look at right behind it.

use std::collections::BTreeMap;
use std::fmt;

use handoff_exchange::{
    Action, Admin, Aggregate, Ask, Begun, Cancelled, Command, Company, Counts, Database,
    DatabaseNo, Device, DeviceNo, Key, Message, Process, Refusal, Reply, Route, Seq, State, Step,
    Subsystem, Unfit,
};
use handoff_types::entropy::mix;
use handoff_types::{Machine, Now, Steady};

use super::workload::Who;

/// Something that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When it was decided.
    pub(super) now: Now,
    pub(super) who: Who,
    pub(super) what: What,
    pub(super) look: Look,
}

/// What was asked, and the answer.
#[derive(Clone, Debug)]
pub(super) enum What {
    Command {
        command: Box<Command>,
        reply: Reply,
        actions: Vec<Action>,
    },
    /// A device looks for its messages.
    Fetch {
        device: DeviceNo,
        found: Vec<Seq>,
    },
}

/// What people see.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) companies: Vec<Company>,
    pub(super) subsystems: Vec<Subsystem>,
    pub(super) databases: Vec<Database>,
    pub(super) devices: Vec<Device>,
    pub(super) routes: Vec<Route>,
    pub(super) messages: BTreeMap<Seq, Message>,
    pub(super) processes: BTreeMap<u64, Process>,
    /// What waits for devices, in the order they see it.
    pub(super) inboxes: BTreeMap<DeviceNo, Vec<Seq>>,
    pub(super) counts: BTreeMap<DatabaseNo, Counts>,
    pub(super) live: BTreeMap<DatabaseNo, u64>,
    pub(super) unknown: BTreeMap<DatabaseNo, Vec<u64>>,
    pub(super) unsettled: Vec<u64>,
    pub(super) deadline: Option<Steady>,
}

impl Look {
    pub(super) fn at<M: Machine<State = State>>(state: &State, now: Now) -> Self {
        let databases: Vec<Database> = state.databases().cloned().collect();
        let devices: Vec<Device> = state.devices().cloned().collect();
        let inbox = |device: &Device| {
            let seqs: Vec<Seq> = state.inbox(device.no).map(|(seq, _)| seq).collect();
            (!seqs.is_empty()).then_some((device.no, seqs))
        };
        let live = |one: &Database| Some((one.no, state.live(one.no)?.id.number));
        let unknown = |one: &Database| {
            let numbers: Vec<u64> = state.unknown(one.no).map(|one| one.id.number).collect();
            (!numbers.is_empty()).then_some((one.no, numbers))
        };
        Self {
            companies: state.companies().cloned().collect(),
            subsystems: state.subsystems().cloned().collect(),
            routes: state.routes().collect(),
            messages: state.messages_from(Seq(0)).map(|(seq, one)| (seq, one.clone())).collect(),
            processes: state
                .processes_below(u64::MAX)
                .map(|one| (one.id.number, one.clone()))
                .collect(),
            inboxes: devices.iter().filter_map(inbox).collect(),
            counts: databases.iter().map(|one| (one.no, state.counts(one.no))).collect(),
            live: databases.iter().filter_map(live).collect(),
            unknown: databases.iter().filter_map(unknown).collect(),
            unsettled: state.unsettled().map(|one| one.id.number).collect(),
            deadline: M::next_deadline(state, now),
            databases,
            devices,
        }
    }
}

/// A hash of everything in a state.
pub(super) fn hash(state: &State) -> u64 {
    let mut sum = Sum(0xcbf2_9ce4_8422_2325);
    for key in state.keys_from(&Key::Counters) {
        sum.bytes(&key.to_bytes());
        match state.aggregate(&key) {
            Some(Aggregate::Message(_, message)) => sum.message(&message),
            Some(Aggregate::Process(process)) => sum.process(&process),
            Some(other) => sum.bytes(format!("{other:?}").as_bytes()),
            None => sum.number(u64::MAX),
        }
    }
    sum.0
}

/// Numbers and texts, folded into one.
struct Sum(u64);

impl Sum {
    fn number(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.number(u64::from_le_bytes(word));
        }
    }

    fn message(&mut self, message: &Message) {
        let Message { id, way, database, device, subsystem, kind, created, received, .. } = message;
        self.bytes(id.as_str().as_bytes());
        self.number(*way as u64);
        self.number(u64::from(database.0) << 32 | u64::from(device.0));
        self.number(u64::from(subsystem.0));
        self.bytes(kind.as_ref().map_or("", |kind| kind.as_str()).as_bytes());
        self.number(created.0.cast_unsigned());
        self.number(received.0.cast_unsigned());
        let Message { by_created, bytes, crc, digest, attempts, silences, .. } = message;
        self.number(u64::from(*by_created) << 32 | u64::from(*bytes));
        self.number(u64::from(*crc));
        self.number(*digest);
        self.number(u64::from(*attempts) << 32 | u64::from(*silences));
        self.number(message.place as u64);
        self.number(message.since.0.cast_unsigned());
        self.bytes(format!("{:?}", message.standing).as_bytes());
    }

    fn process(&mut self, process: &Process) {
        self.bytes(format!("{process:?}").as_bytes());
    }
}

impl Asked {
    /// A name for the kind of it.
    pub(super) fn kind(&self) -> &'static str {
        match &self.what {
            What::Command { command, .. } => kind(command),
            What::Fetch { .. } => "fetch",
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Command { command, reply, .. } => write!(f, "{}: {reply:?}", words(command)),
            What::Fetch { device, found } => write!(f, "device {} finds {found:?}", device.0),
        }
    }
}

/// A name for the kind of a command.
pub(super) fn kind(command: &Command) -> &'static str {
    match &command.ask {
        Ask::Admin(admin) => match admin {
            Admin::PutCompany { .. } => "put company",
            Admin::RemoveCompany(_) => "remove company",
            Admin::PutSubsystem { .. } => "put subsystem",
            Admin::RemoveSubsystem(_) => "remove subsystem",
            Admin::PutDatabase { .. } => "put database",
            Admin::RemoveDatabase(_) => "remove database",
            Admin::DatabaseToken { .. } => "database token",
            Admin::PutDevice { .. } => "put device",
            Admin::RemoveDevice { .. } => "remove device",
            Admin::DeviceCode { .. } => "device code",
            Admin::BlockDevice { .. } => "block device",
            Admin::PutRoute { .. } => "put route",
            Admin::RemoveRoute { .. } => "remove route",
        },
        Ask::Activate { .. } => "activate",
        Ask::Post { .. } => "post",
        Ask::Ack { .. } => "ack",
        Ask::Begin { .. } => "begin",
        Ask::Process { step, .. } => match step {
            Step::Narrow(_) => "narrow",
            Step::Prepare { .. } => "prepare",
            Step::Commit => "commit",
            Step::Rollback(_) => "rollback",
            Step::Interrupt(_) => "interrupt",
            Step::Heartbeat => "heartbeat",
        },
        Ask::Resolve { .. } => "resolve",
        Ask::Requeue { .. } => "requeue",
        Ask::Damaged { .. } => "damaged",
        Ask::TakeIn { .. } => "take in",
        Ask::Settled { .. } => "settled",
        Ask::Stuck { .. } => "stuck",
        Ask::Opened => "opened",
        Ask::Tick => "tick",
        Ask::Remind => "remind",
        Ask::Retain { .. } => "retain",
    }
}

/// A command in words, without bodies.
pub(super) fn words(command: &Command) -> String {
    match &command.ask {
        Ask::Post { device, messages } => {
            let ids: Vec<&str> = messages.iter().map(|one| one.id.as_str()).collect();
            let bytes: usize = messages.iter().map(|one| one.payload.len()).sum();
            format!("device {} posts {ids:?}, {bytes} bytes", device.0)
        }
        Ask::TakeIn { database, device, message } => {
            format!("{} of device {} is found in {}", message.id, device.0, database.0)
        }
        Ask::Process { database, id, step: Step::Prepare { verdicts, messages, digest } } => {
            let verdicts: Vec<String> = verdicts
                .iter()
                .map(|one| format!("{} {}", one.message, one.status.text()))
                .collect();
            let replies = messages.iter().map(|one| format!("{} to {}", one.message.id, one.to));
            let replies: Vec<String> = replies.collect();
            format!(
                "database {} prepares {}: {verdicts:?}, {replies:?}, {digest:x}",
                database.0, id.number
            )
        }
        Ask::Process { database, id, step } => {
            format!("database {}, process {}: {step:?}", database.0, id.number)
        }
        other => format!("{other:?}"),
    }
}

/// A name for what was refused, or could not be had.
pub(super) fn why(reply: &Reply) -> Option<&'static str> {
    Some(match reply {
        Reply::Refused(refusal) => match refusal {
            Refusal::NotFound { .. } => "not found",
            Refusal::Taken { .. } => "taken",
            Refusal::InUse { .. } => "in use",
            Refusal::Full { .. } => "full",
            Refusal::WrongCode => "wrong code",
            Refusal::Blocked => "blocked",
            Refusal::NoRoute { .. } => "no route",
            Refusal::IdReused(_) => "id reused",
            Refusal::IdTwice(_) => "id twice",
            Refusal::NoMessage(_) => "no message",
            Refusal::NotAside(_) => "not aside",
            Refusal::Invalid(_) => "invalid",
            _ => "another",
        },
        Reply::Cancelled(cancelled) => why_cancelled(cancelled),
        Reply::Begun(Begun::Busy { .. }) => "busy",
        _ => return None,
    })
}

/// The same of one outcome.
pub(super) fn why_cancelled(cancelled: &Cancelled) -> &'static str {
    match cancelled {
        Cancelled::NoProcess(_) => "no process",
        Cancelled::Past { .. } => "past",
        Cancelled::NotPrepared(_) => "not prepared",
        Cancelled::Ready(_) => "ready",
        Cancelled::PreparedOtherwise(_) => "prepared otherwise",
        Cancelled::Contradicts { .. } => "contradicts",
        Cancelled::Unfit(unfit) => match unfit {
            Unfit::NotServed(_) => "not served",
            Unfit::Twice(_) => "named twice",
            Unfit::NoVerdict(_) => "no verdict",
            Unfit::NoDevice { .. } => "no device",
            Unfit::IdUsed(_) => "id used",
            Unfit::TooMany(_) => "too many",
            Unfit::QueueFull { .. } => "queue full",
            _ => "unfit",
        },
        _ => "cancelled",
    }
}
