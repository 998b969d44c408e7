//! What is asked of the streams room, with its answer, on its way to whoever asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use handoff_streams::{
    Action, Aggregate, Command, Key, Message, PartitionId, Place, Produced, Refusal, Reply, State,
};
use handoff_types::Now;

/// Something that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When it was decided.
    pub(super) now: Now,
    pub(super) command: Command,
    pub(super) reply: Reply,
    pub(super) actions: Vec<Action>,
    /// Everything there is right behind it.
    pub(super) look: Look,
    /// What whoever decided it looked at, if that was a part of what there is.
    pub(super) among: Option<BTreeSet<Key>>,
}

impl Asked {
    /// Whether whoever decided it knew of an aggregate.
    pub(super) fn knew(&self, key: &Key) -> bool {
        self.among.as_ref().is_none_or(|among| among.contains(key))
    }
}

/// Everything there is to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look(pub(super) BTreeMap<Key, Aggregate>);

impl Look {
    pub(super) fn at(state: &State) -> Self {
        let keys = state.keys_from(&Key::Counters);
        Self(keys.filter_map(|key| state.aggregate(&key).map(|found| (key, found))).collect())
    }

    /// A hash of it (FNV-1a of what it is in words).
    pub(super) fn hash(state: &State) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        for key in state.keys_from(&Key::Counters) {
            let found = state.aggregate(&key);
            if fmt::write(&mut hash, format_args!("{key:?}{found:?}")).is_err() {
                unreachable!("hashing does not fail");
            }
        }
        hash.0
    }
}

struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

/// A name for the kind of a command.
pub(crate) fn kind(command: &Command) -> &'static str {
    match command {
        Command::CreateTopic { .. } => "create topic",
        Command::AlterTopic { .. } => "alter topic",
        Command::GrowTopic { .. } => "grow topic",
        Command::DeleteTopic { .. } => "delete topic",
        Command::Produce { produce, .. } if produce.producer.is_some() => "produce in sequence",
        Command::Produce { .. } => "produce",
        Command::RegisterProducer { .. } => "register producer",
        Command::CancelScheduled { .. } => "cancel",
        Command::Trim { .. } => "trim",
        Command::Tick { .. } => "tick",
        Command::Group(_) => "group",
    }
}

/// A name for a refusal.
pub(crate) fn why(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoTopic(_) => "no topic",
        Refusal::TopicExists(_) => "topic exists",
        Refusal::Partitions(_) => "partitions",
        Refusal::NoPartition { .. } => "no partition",
        Refusal::Limit(_) => "limit",
        Refusal::Message { .. } => "message",
        Refusal::Empty => "empty",
        Refusal::SequenceReused { .. } => "sequence reused",
        Refusal::SequenceTooOld { .. } => "sequence too old",
        Refusal::SequenceRange => "sequence range",
        Refusal::ScopeFixed(_) => "scope fixed",
        Refusal::NoScheduled(_) => "not scheduled",
        Refusal::TooFarAhead { .. } => "too far ahead",
        _ => "another",
    }
}

/// A command in words, without what is the same every time.
pub(crate) fn words(command: &Command) -> String {
    match command {
        Command::CreateTopic { topic, .. } => {
            let (name, partitions, settings) = (&topic.name, topic.partitions, topic.settings);
            format!("create {name} with {partitions} partitions, {:?}", settings.compression)
        }
        Command::AlterTopic { name, settings } => format!("alter {name}: {settings:?}"),
        Command::GrowTopic { name, partitions, .. } => format!("grow {name} to {partitions}"),
        Command::DeleteTopic { name } => format!("delete {name}"),
        Command::Produce { produce, .. } => {
            let from = produce.producer.map(|(id, first)| format!(" by {id} from {first}"));
            let messages: Vec<String> = produce.messages.iter().map(short).collect();
            let from = from.unwrap_or_default();
            format!("produce to {}{from}: {}", produce.topic, messages.join(", "))
        }
        Command::RegisterProducer { registration, sight, .. } => {
            format!("register {registration:?} for {sight:?}")
        }
        Command::CancelScheduled { id, sight } => format!("cancel {id} for {sight:?}"),
        Command::Trim { partition, below, .. } => format!("trim {partition} below {below}"),
        Command::Tick { limit, bytes_max, .. } => format!("tick {limit}, {bytes_max} bytes"),
        Command::Group(command) => format!("group {}: {command:?}", command.group()),
    }
}

/// A message in words.
pub(super) fn short(message: &Message) -> String {
    let mut words = format!("{} bytes", message.payload.len());
    if let Some(key) = &message.key {
        words += &format!(" of {}", key.escape_ascii());
    }
    if let Some(partition) = message.partition {
        words += &format!(" to {partition}");
    }
    if let Some(at) = message.deliver_at {
        words += &format!(" at {}", at.0);
    }
    words
}

fn result(produced: &Produced) -> String {
    match produced.place {
        Some(Place::At(PartitionId { number, .. }, offset)) => {
            format!("{:?} {number}:{offset}", produced.status)
        }
        Some(Place::Scheduled(id)) => format!("{:?} {:.8}", produced.status, id.to_string()),
        None => format!("{:?}", produced.status),
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", words(&self.command))?;
        match &self.reply {
            Reply::Produced { results, missing, .. } => {
                let results: Vec<String> = results.iter().map(result).collect();
                write!(f, "{}", results.join(", "))?;
                if missing.is_empty() { Ok(()) } else { write!(f, ", missing {missing:?}") }
            }
            reply => write!(f, "{reply:?}"),
        }
    }
}
