//! What the room is asked.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use handoff_streams::groups::{
    Candidate, Group, GroupCommand, GroupFigures, GroupId, GroupName, GroupReply, GroupSettings,
    GroupView, MemberId, MessageStatus, Order, Reads, Spot, Start,
};
use handoff_streams::{
    Bounds, Counts, Durability, PartitionId, Produce, Produced, ProducerId, Registration,
    Scheduled, ScheduledId, Scope, Topic, TopicId, TopicName, TopicSpec, TopicView,
};
use handoff_types::{Sight, Span, Steady, Wall};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::bells::Bells;
use super::ends::Catalogue;
use super::quota::Quotas;
use crate::rooms::RoomError;
use crate::settings;

/// Questions of each kind that wait for the room.
pub(super) const MAILBOX_MAX: usize = 1024;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// Store messages.
    Produce(Produce),
    /// A new topic.
    Create(TopicSpec),
    /// Other settings.
    Alter(TopicName, Alteration),
    /// More partitions.
    Grow(TopicName, u32),
    /// A topic goes.
    Delete(TopicName),
    /// A producer says who it is.
    Register(Registration, Sight),
    /// A message that waits is not wanted any more.
    Cancel(ScheduledId, Sight),
    /// Which topics are there?
    Topics {
        /// Whose.
        sight: Sight,
        /// Those behind this one.
        after: Option<TopicName>,
        /// How many at most.
        limit: usize,
    },
    /// One topic.
    Topic(TopicName),
    /// What waits for its time in a topic?
    Scheduled {
        /// Which topic.
        topic: TopicName,
        /// Those behind this one.
        after: Option<(Wall, ScheduledId)>,
        /// How many at most.
        limit: usize,
    },
    /// Something of a group.
    Group(Box<GroupCommand>),
    /// Other settings of a group, and where it begins in topics that are new to it.
    AlterGroup(GroupName, Box<GroupAlteration>, Vec<Spot>),
    /// What may a member be handed? It counts as a sign of life.
    Look {
        /// Of which group.
        group: GroupName,
        /// Who.
        member: MemberId,
        /// How many messages at most.
        most: usize,
        /// Whether it would wait: when there may be more is of interest then.
        waits: bool,
    },
    /// A group as it is.
    OneGroup(GroupName),
    /// Which groups are there?
    Groups {
        /// Whose.
        sight: Sight,
        /// Those behind this one.
        after: Option<GroupName>,
        /// How many at most.
        limit: usize,
    },
    /// A group, its members and where it is.
    ShowGroup(GroupName, Sight),
    /// What is a message for a group?
    Status(GroupName, PartitionId, u64),
    /// Which of these letters were replayed?
    Replayed(GroupName, Vec<Spot>),
    /// How is the room?
    Stats,
}

impl Question {
    /// Whether it asks for something that was not promised before.
    pub(super) fn is_new(&self) -> bool {
        match self {
            Self::Produce(_) | Self::Create(_) | Self::Grow(..) | Self::Register(..) => true,
            Self::Group(command) => stores(command),
            _ => false,
        }
    }

    /// Whether it takes space that it does not give back.
    pub(super) fn takes_space(&self) -> bool {
        match self {
            Self::Produce(_) | Self::Create(_) | Self::Grow(..) => true,
            Self::Group(command) => stores(command),
            _ => false,
        }
    }
}

/// Whether a command stores messages that nobody was promised.
pub(super) fn stores(command: &GroupCommand) -> bool {
    match command {
        GroupCommand::Create { .. } | GroupCommand::Replay { .. } => true,
        GroupCommand::Commit { produce, .. } => !produce.is_empty(),
        _ => false,
    }
}

/// What is to become of a group's settings. What is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAlteration {
    /// What members that name no topics read.
    pub topics: Option<Vec<TopicName>>,
    /// Where it begins in topics that are new to it.
    pub start: Option<Start>,
    /// What waits for what.
    pub order: Option<Order>,
    /// How often a message is handed out.
    pub max_attempts: Option<u32>,
    /// Where dead letters go.
    pub dead_letter: Option<TopicName>,
    /// How long a member has for what it was handed.
    pub lease: Option<Span>,
    /// How long a message waits for its second attempt.
    pub backoff: Option<Span>,
    /// How long at most.
    pub backoff_max: Option<Span>,
    /// How far apart what is out may be.
    pub in_flight_max: Option<u32>,
}

impl GroupAlteration {
    /// The settings once they are altered.
    pub(super) fn apply(self, settings: &GroupSettings) -> GroupSettings {
        let before = settings.clone();
        GroupSettings {
            topics: self.topics.unwrap_or(before.topics),
            start: self.start.unwrap_or(before.start),
            order: self.order.unwrap_or(before.order),
            max_attempts: self.max_attempts.unwrap_or(before.max_attempts),
            dead_letter: self.dead_letter.unwrap_or(before.dead_letter),
            lease: self.lease.unwrap_or(before.lease),
            backoff: self.backoff.unwrap_or(before.backoff),
            backoff_max: self.backoff_max.unwrap_or(before.backoff_max),
            in_flight_max: self.in_flight_max.unwrap_or(before.in_flight_max),
        }
    }
}

/// What a member may be handed, as things are.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) group: GroupId,
    pub(crate) generation: u64,
    /// For how long it may be silent.
    pub(crate) session: Span,
    /// What it has.
    pub(crate) assigned: Vec<PartitionId>,
    /// What may be read for it.
    pub(crate) candidates: Vec<Candidate>,
    /// When there may be more, if nothing else happens.
    pub(crate) ready_at: Option<Steady>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListed {
    /// The group.
    pub group: Group,
    /// Grows whenever partitions change hands.
    pub generation: u64,
    /// How many members it has.
    pub members: usize,
    /// Messages it has still to finish, in topics that are in sight.
    pub lag: u64,
}

/// What is to become of a topic's settings. What is none stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alteration {
    /// `Some(None)`: never for their age.
    pub retention: Option<Option<Span>>,
    /// `Some(None)`: never for their size.
    pub retention_bytes: Option<Option<u64>>,
    /// When a producer is answered.
    pub durability: Option<Durability>,
    /// How batches are compressed.
    pub compression: Option<handoff_streams::Compression>,
}

/// What became of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// One for each, in order.
    pub results: Vec<Produced>,
    /// Sequences that are missing because of gaps seen in this request.
    pub missing: Vec<RangeInclusive<u64>>,
}

/// A producer that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its GUID.
    pub producer: ProducerId,
    /// What its sequences count.
    pub scope: Scope,
    /// The last sequence stored.
    pub last: Option<u64>,
    /// The same per topic in sight.
    pub last_by_topic: Vec<(TopicName, u64)>,
}

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The topic.
    pub topic: Topic,
    /// Messages it keeps.
    pub messages: u64,
    /// Their bytes, about.
    pub bytes: u64,
}

/// A message that waits, without what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub id: ScheduledId,
    /// When it is delivered.
    pub due: Wall,
    /// Its key.
    pub key: Option<bytes::Bytes>,
    /// Bytes of key, payload and headers.
    pub bytes: usize,
}

impl From<&Scheduled> for Waiting {
    fn from(scheduled: &Scheduled) -> Self {
        let message = &scheduled.message;
        let headers = message.headers.iter().map(|h| h.name.len() + h.value.len()).sum::<usize>();
        let key = message.key.as_ref().map_or(0, bytes::Bytes::len);
        Self {
            id: scheduled.id,
            due: scheduled.due,
            key: message.key.clone(),
            bytes: message.payload.len() + key + headers,
        }
    }
}

/// The answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To messages.
    Stored(Stored),
    /// A topic as it is now, or was.
    Topic(Topic),
    /// A producer.
    Registered(Box<Registered>),
    /// It does not wait any more.
    Cancelled,
    /// A page of topics, and whether there are more.
    Topics(Vec<Listed>, bool),
    /// A topic with its partitions.
    View(Box<TopicView>),
    /// A page of what waits, and whether there is more.
    Scheduled(Vec<Waiting>, bool),
    /// Something of a group.
    Group(GroupReply),
    /// These messages have to be read first; then it is to be asked again with them.
    Wants(Reads, Box<GroupCommand>),
    /// What a member may be handed.
    Look(Box<Look>),
    /// A group as it is, if there is one.
    OneGroup(Option<Box<Group>>),
    /// A page of groups, and whether there are more.
    Groups(Vec<GroupListed>, bool),
    /// A group with all that is known of it.
    GroupView(Box<GroupView>),
    /// What a message is for a group.
    Status(MessageStatus),
    /// Which letters were replayed.
    Replayed(Vec<bool>),
    /// How the room is.
    Stats(Counts, GroupFigures),
}

/// Where the answer goes.
pub(super) type Asker = oneshot::Sender<Result<Answer, RoomError>>;

/// What is allowed to another room that hands messages over, instead of what is allowed to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handing {
    /// The largest message.
    pub(crate) message_bytes_max: usize,
    /// Producers there may be, all together.
    pub(crate) producers_max: usize,
    /// How long one is remembered at least.
    pub(crate) producer_idle: Span,
    /// How many places are remembered of each.
    pub(crate) remembered_max: u32,
}

impl Handing {
    /// Messages of one request, and headers of a message, whatever clients may have.
    pub(crate) const MESSAGES: usize = 64;
    const HEADERS: usize = 8;

    pub(super) fn over(self, bounds: Bounds) -> Bounds {
        Bounds {
            message_bytes_max: self.message_bytes_max,
            producers_max: self.producers_max.max(bounds.producers_max),
            producer_idle: self.producer_idle.max(bounds.producer_idle),
            remembered_max: self.remembered_max,
            batch_messages_max: bounds.batch_messages_max.max(Self::MESSAGES),
            headers_max: bounds.headers_max.max(Self::HEADERS),
            ..bounds
        }
    }
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) question: Question,
    /// None: a client asks.
    pub(super) handing: Option<Handing>,
    pub(super) to: Asker,
}

/// What becomes visible of topics.
#[derive(Debug)]
pub(super) enum Shown {
    /// It is there, with so many partitions.
    There(TopicId, TopicName, u32),
    /// It is gone.
    Gone(TopicId),
}

/// What the room and its handles share besides the mailbox.
#[derive(Debug)]
pub(super) struct Shared {
    settings: RwLock<Arc<settings::Streams>>,
    /// What readers may see.
    pub(super) catalogue: Arc<Catalogue>,
    /// What tokens may send.
    pub(super) quotas: Quotas,
    /// Readers that wait for more.
    pub(super) waiting: AtomicUsize,
    /// Who waits for something of a group.
    pub(super) bells: Arc<Bells>,
    /// Bytes of messages on their way to members that are left: `streams.delivery_bytes_max`.
    pub(super) deliveries: Arc<Semaphore>,
    /// How many that were in the beginning.
    pub(super) deliveries_max: usize,
    /// One answer of each member beside that, of members that wait for theirs or use it.
    own_turns: Mutex<BTreeMap<MemberId, Weak<Semaphore>>>,
    /// Nobody is to wait for space any more.
    pub(super) hurried: AtomicBool,
    /// Settings have changed, or the room is to hurry.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(settings: settings::Streams, catalogue: Arc<Catalogue>) -> Self {
        let deliveries_max = settings.delivery_bytes_max.min(Semaphore::MAX_PERMITS);
        let deliveries = Arc::new(Semaphore::new(deliveries_max));
        Self {
            deliveries_max,
            bells: Arc::default(),
            deliveries,
            own_turns: Mutex::default(),
            settings: RwLock::new(Arc::new(settings)),
            catalogue,
            quotas: Quotas::default(),
            waiting: AtomicUsize::new(0),
            hurried: AtomicBool::new(false),
            bell: Notify::new(),
        }
    }

    pub(super) fn settings(&self) -> Arc<settings::Streams> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The turn of a member that nobody else has.
    pub(super) fn own_turn(&self, member: MemberId) -> Arc<Semaphore> {
        let mut turns = self.own_turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&member).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(member, Arc::downgrade(&turn));
        turn
    }

    pub(super) fn set_settings(&self, settings: settings::Streams) {
        let mut place = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
        drop(place);
        self.bell.notify_one();
    }
}
