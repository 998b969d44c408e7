//! What the room is asked.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, PoisonError, RwLock};

use handoff_streams::{
    Counts, Durability, Produce, Produced, ProducerId, Registration, Scheduled, ScheduledId, Scope,
    Topic, TopicId, TopicName, TopicSpec, TopicView,
};
use handoff_types::{Sight, Span, Wall};
use tokio::sync::{Notify, oneshot};

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
    /// How is the room?
    Stats,
}

impl Question {
    /// Whether it asks for something that was not promised before.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::Produce(_) | Self::Create(_) | Self::Grow(..) | Self::Register(..))
    }
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
    /// How the room is.
    Stats(Counts),
}

/// Where the answer goes.
pub(super) type Asker = oneshot::Sender<Result<Answer, RoomError>>;

/// A question on its way.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) question: Question,
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
    /// Nobody is to wait for space any more.
    pub(super) hurried: AtomicBool,
    /// Settings have changed, or the room is to hurry.
    pub(super) bell: Notify,
}

impl Shared {
    pub(super) fn new(settings: settings::Streams, catalogue: Arc<Catalogue>) -> Self {
        Self {
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

    pub(super) fn set_settings(&self, settings: settings::Streams) {
        let mut place = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
        drop(place);
        self.bell.notify_one();
    }
}
