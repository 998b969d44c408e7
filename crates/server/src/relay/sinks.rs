//! Where samples go. Each sink has its own mark of every shard: the last segment that it has, durably.

mod callback;
mod topic;
mod write;

use std::sync::{Mutex, PoisonError};

use handoff_relay::session::Reason;
use handoff_relay::{Origin, Shards};
use handoff_types::Wall;

use self::callback::CallbackSink;
pub(crate) use self::callback::{Answer, Ask, Asked, Post, Programs};
use self::topic::TopicSink;
use self::write::WriteSink;
use super::delivery::Parcel;
use super::machine::{Forms, Made};
use crate::clock::Clock;
use crate::rooms::streams::StreamsRoom;
use crate::settings;

/// Why a sink does not take something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) words: String,
}

impl Failure {
    pub(super) fn later(words: impl Into<String>) -> Self {
        Self { reason: Reason::RetryAfter, words: words.into() }
    }

    pub(super) fn never(words: impl Into<String>) -> Self {
        Self { reason: Reason::Permanent, words: words.into() }
    }
}

/// What a sink has of a shard after a delivery, and why not more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) mark: Option<u32>,
    pub(super) failed: Option<Failure>,
}

/// A sink that takes one segment after the other, and nothing behind one that it does not take.
trait OneByOne: Sync {
    /// Gives it a segment that is above its mark. What it has then.
    fn give(
        &self,
        origin: &Origin,
        parcel: &Parcel,
        made: &Made,
    ) -> impl Future<Output = Result<Option<u32>, Failure>> + Send;

    /// Gives it what is above its mark. What never comes counts as taken.
    fn deliver(
        &self,
        origin: &Origin,
        parcels: &[Parcel],
        mut mark: Option<u32>,
    ) -> impl Future<Output = Reached> + Send {
        async move {
            for parcel in parcels {
                let wanted = Some(parcel.key.segment);
                let given = match parcel.made().filter(|_| mark < wanted) {
                    Some(made) => self.give(origin, parcel, made).await,
                    None => Ok(wanted),
                };
                match given {
                    Ok(has) => mark = mark.max(has),
                    Err(failed) => return Reached { mark, failed: Some(failed) },
                }
            }
            Reached { mark, failed: None }
        }
    }
}

/// One sink.
#[derive(Debug)]
enum Sink {
    Topic(TopicSink),
    Write(Box<WriteSink>),
    Callback(CallbackSink),
}

impl Sink {
    fn name(&self) -> String {
        match self {
            Self::Topic(sink) => format!("topic {}", sink.name()),
            Self::Write(sink) => format!("remote write {}", sink.name()),
            Self::Callback(_) => "callback".to_owned(),
        }
    }
}

/// A sink as people see it.
#[derive(Clone, Debug)]
pub(crate) struct SinkView {
    /// What it is.
    pub(crate) name: String,
    /// Why it does not take anything, and since when; none if it does.
    pub(crate) trouble: Option<(Wall, String)>,
}

/// Since when a sink takes nothing, and why.
type Trouble = Option<(Wall, String)>;

/// All of them.
#[derive(Debug)]
pub(super) struct Sinks {
    sinks: Vec<(Sink, Mutex<Trouble>)>,
    clock: Clock,
}

impl Sinks {
    /// Those that the settings name; none if there are none.
    pub(super) fn new(
        settings: &settings::Relay,
        topics: Option<StreamsRoom>,
        clock: &Clock,
    ) -> Result<Option<Self>, String> {
        let mut sinks = Vec::new();
        if let (Some(url), Some(room)) = (&settings.write_url, topics.clone()) {
            let sink = WriteSink::new(url, settings, room)?;
            sinks.push((Sink::Write(Box::new(sink)), Mutex::default()));
        }
        if let (Some(name), Some(room)) = (settings.topic(), topics) {
            let name = name.parse().map_err(|bad| format!("relay.topic: {bad}"))?;
            sinks.push((Sink::Topic(TopicSink::new(room, name, settings)), Mutex::default()));
        }
        if settings.callback {
            sinks.push((Sink::Callback(CallbackSink::new(settings)), Mutex::default()));
        }
        let clock = clock.clone();
        Ok((!sinks.is_empty()).then_some(Self { sinks, clock }))
    }

    /// What they want of a segment.
    pub(super) fn forms(&self) -> Forms {
        let mut forms = Forms::default();
        for (sink, _) in &self.sinks {
            match sink {
                Sink::Topic(_) | Sink::Callback(_) => forms.v2 = true,
                Sink::Write(_) => forms.v1 = true,
            }
        }
        forms
    }

    /// The largest message that all of them take.
    pub(super) fn bytes_max(&self) -> usize {
        let of = |sink: &Sink| match sink {
            Sink::Topic(sink) => sink.bytes_max(),
            Sink::Callback(sink) => sink.bytes_max(),
            // The database says so itself.
            Sink::Write(_) => usize::MAX,
        };
        self.sinks.iter().map(|(sink, _)| of(sink)).min().unwrap_or(usize::MAX)
    }

    pub(super) fn views(&self) -> Vec<SinkView> {
        let view = |(sink, trouble): &(Sink, Mutex<Trouble>)| SinkView {
            name: sink.name(),
            trouble: trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        self.sinks.iter().map(view).collect()
    }

    /// Where a program that takes samples stands, if one may.
    pub(super) fn programs(&self) -> Option<Programs> {
        self.sinks.iter().find_map(|(sink, _)| match sink {
            Sink::Callback(sink) => Some(sink.programs()),
            Sink::Topic(_) | Sink::Write(_) => None,
        })
    }

    /// What each has of the shards of a block, sink by sink. It is durable.
    pub(super) async fn marks(
        &self,
        origin: &Origin,
        shards: Shards,
    ) -> Result<Vec<Vec<Option<u32>>>, Failure> {
        let mut marks = Vec::with_capacity(self.sinks.len());
        for (number, (sink, _)) in self.sinks.iter().enumerate() {
            let found = match sink {
                Sink::Topic(sink) => sink.marks(origin, shards).await,
                Sink::Write(sink) => sink.marks(origin, shards).await,
                Sink::Callback(sink) => sink.marks(origin, shards).await,
            };
            self.note(number, found.as_ref().err());
            marks.push(found?);
        }
        Ok(marks)
    }

    /// Gives a sink what is above its mark, in order.
    pub(super) async fn deliver(
        &self,
        number: usize,
        origin: &Origin,
        parcels: &[Parcel],
        mark: Option<u32>,
    ) -> Reached {
        let reached = match self.sinks.get(number) {
            Some((Sink::Topic(sink), _)) => sink.deliver(origin, parcels, mark).await,
            Some((Sink::Write(sink), _)) => sink.deliver(origin, parcels, mark).await,
            Some((Sink::Callback(sink), _)) => sink.deliver(origin, parcels, mark).await,
            None => Reached { mark, failed: Some(Failure::later("there is no such sink")) },
        };
        self.note(number, reached.failed.as_ref());
        reached
    }

    /// Nobody sends the block any more.
    pub(super) fn left(&self, origin: &Origin) {
        for (sink, _) in &self.sinks {
            match sink {
                Sink::Topic(_) | Sink::Write(_) => {}
                Sink::Callback(sink) => sink.left(origin),
            }
        }
    }

    /// Remembers how a sink is.
    fn note(&self, number: usize, failed: Option<&Failure>) {
        let Some((sink, trouble)) = self.sinks.get(number) else { return };
        let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match (failed.filter(|failed| !failed.reason.is_permanent()), &mut *trouble) {
            (None, None) => {}
            (None, place @ Some(_)) => {
                *place = None;
                tracing::info!(sink = sink.name(), "it takes samples again");
            }
            (Some(failed), Some((_, words))) => words.clone_from(&failed.words),
            (Some(failed), place @ None) => {
                *place = Some((self.clock.wall(), failed.words.clone()));
                tracing::warn!(sink = sink.name(), words = failed.words, "it takes no samples");
            }
        }
    }
}
