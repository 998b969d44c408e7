//! Occurrences on their way to topics.
//!
//! The room keeps what it hands over until the topic has answered, so nothing here has to be
//! remembered: whatever is dropped is handed over again after the next start. A topic knows what it
//! has by producer and sequence.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use handoff_events::{Command, Handed, Publication, Publishing, State};
use handoff_log::journal::Refused;
use handoff_streams::{Header, Message, Place, Produce, ProducerId, Refusal, TopicName};
use serde::Serialize;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::RoomError;
use crate::http::stamp;
use crate::rooms::streams::{Stored, StreamsRoom};

/// Occurrences on their way at once.
const AT_ONCE: usize = 64;

/// How long to wait before a topic that could not be asked is asked again: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What is on its way, and what came back.
#[derive(Debug)]
pub(super) struct Publisher {
    /// None: there are no topics in this server, and what waits goes on waiting.
    topics: Option<StreamsRoom>,
    line: VecDeque<Publication>,
    tasks: JoinSet<(Publication, Answer)>,
    answers: VecDeque<(Publication, Answer)>,
}

/// What the topic said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has it.
    Has,
    /// It will not.
    Refuses(String),
}

impl Publisher {
    pub(super) fn new(topics: Option<StreamsRoom>) -> Self {
        Self { topics, line: VecDeque::new(), tasks: JoinSet::new(), answers: VecDeque::new() }
    }

    /// Puts what is durable now into line.
    pub(super) fn add(&mut self, publications: Vec<Publication>) {
        if self.topics.is_some() {
            self.line.extend(publications);
        }
    }

    /// Sends as many as may be on their way. What is not wanted any more is left out.
    pub(super) fn send(&mut self, state: &State) {
        let Some(topics) = &self.topics else { return };
        while self.tasks.len() < AT_ONCE {
            let Some(publication) = self.line.pop_front() else { break };
            if state.is_on_its_way(&publication) {
                let topics = topics.clone();
                self.tasks.spawn(async move {
                    let answer = hand_over(&topics, &publication).await;
                    (publication, answer)
                });
            }
        }
    }

    /// Waits for an answer; for ever if nothing is on its way.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(super) async fn answered(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(answer)) => self.answers.push_back(answer),
            Some(Err(error)) => say_panic(&error),
            None => std::future::pending().await,
        }
    }

    /// What the room is to be told next: an answer stays until it was taken.
    pub(super) fn next_answer(&self, publishing: Publishing) -> Option<Command> {
        let (publication, answer) = self.answers.front()?;
        let Publication { id, handed: Handed { sequence, .. }, .. } = *publication;
        Some(match answer {
            Answer::Has => Command::Published { id, sequence },
            Answer::Refuses(why) => {
                Command::PublishRefused { id, sequence, why: why.clone(), publishing }
            }
        })
    }

    /// The room has it.
    pub(super) fn take_answer(&mut self) {
        if let Some((Publication { id, source, handed }, Answer::Refuses(why))) =
            self.answers.pop_front()
        {
            let (topic, number) = (&*source.topic, handed.number);
            debug!(event_id = %id, topic, number, why, "an occurrence became a dead letter");
        }
    }
}

/// One that panicked shows again at the next start.
fn say_panic(error: &JoinError) {
    if !error.is_cancelled() {
        warn!(error = error as &dyn std::error::Error, "an occurrence was not handed over");
    }
}

/// Asks until there is an answer.
async fn hand_over(topics: &StreamsRoom, publication: &Publication) -> Answer {
    let Ok(topic) = publication.source.topic.parse::<TopicName>() else {
        return Answer::Refuses(format!("{} is no name of a topic", publication.source.topic));
    };
    let mut pause = PAUSE_MIN;
    loop {
        let producer = Some((ProducerId(publication.source.producer), publication.handed.sequence));
        let messages = vec![message(publication)];
        let asked = Produce { topic: topic.clone(), producer, messages };
        match answer_of(topics.produce(asked).await) {
            Ok((answer, place)) => {
                topics.settled(&topic, place).await;
                return answer;
            }
            Err(error) => {
                debug!(%topic, error = &error as &dyn std::error::Error, "the topic did not answer");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What an answer means; an error if there is none yet.
fn answer_of(stored: Result<Stored, RoomError>) -> Result<(Answer, Option<Place>), RoomError> {
    match stored {
        Ok(stored) => {
            let place = stored.results.first().and_then(|result| result.place);
            Ok((Answer::Has, place))
        }
        // Nobody else is this producer: the sequence is there, written by another version perhaps.
        Err(RoomError::Stream(Refusal::SequenceReused { place, .. })) => {
            Ok((Answer::Has, Some(place)))
        }
        Err(RoomError::Stream(refusal)) => Ok((Answer::Refuses(refusal.to_string()), None)),
        Err(RoomError::Journal(refused @ Refused::TooLarge { .. })) => {
            Ok((Answer::Refuses(refused.to_string()), None))
        }
        Err(error) => Err(error),
    }
}

/// What a topic gets of an occurrence.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    version: u32,
    id: u32,
    description: &'a str,
    types: Vec<&'a str>,
    at: String,
    late: bool,
    number: u64,
}

/// The same bytes every time, or a repetition would be another message.
fn message(publication: &Publication) -> Message {
    let Publication { id, source, handed } = publication;
    let payload = Payload {
        version: 1,
        id: id.number(),
        description: &source.description,
        types: source.types.iter().map(|name| &**name).collect(),
        at: stamp(handed.due),
        late: handed.late,
        number: handed.number,
    };
    let id = Bytes::from(id.to_string());
    let key = source.key.as_deref().map(|key| Bytes::copy_from_slice(key.as_bytes()));
    Message {
        key: Some(key.unwrap_or_else(|| id.clone())),
        // Text, numbers and a flag: there is always JSON for them.
        payload: serde_json::to_vec(&payload).unwrap_or_default().into(),
        headers: vec![Header { name: Bytes::from_static(b"event-id"), value: id }],
        ..Message::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Publication, RoomError, Stored, answer_of, message};
    use handoff_events::{Handed, Id, Source};
    use handoff_log::journal::Refused;
    use handoff_streams::{PartitionId, Place, Produced, Refusal, Status, TopicId};
    use handoff_types::{Room, Wall};
    use std::sync::Arc;

    fn publication(key: Option<&str>) -> Publication {
        let source = Source {
            producer: 1,
            topic: "t".into(),
            key: key.map(Into::into),
            description: "night \"backup\"".into(),
            types: ["a".into(), "b".into()].into(),
        };
        let due = Wall(1_798_761_600_000_000);
        let handed = Handed { sequence: 2, number: 7, due, late: true };
        Publication { id: Id::new(9).unwrap(), source: Arc::new(source), handed }
    }

    #[test]
    fn a_message_says_what_happened_and_has_the_id_for_a_key() {
        let message = message(&publication(None));
        assert_eq!(
            std::str::from_utf8(&message.payload).unwrap(),
            r#"{"version":1,"id":9,"description":"night \"backup\"","types":["a","b"],"at":"2027-01-01T00:00:00Z","late":true,"number":7}"#
        );
        assert_eq!(message.key.as_deref(), Some(&b"9"[..]));
        let headers: Vec<_> = message.headers.iter().map(|h| (&*h.name, &*h.value)).collect();
        assert_eq!(headers, [(&b"event-id"[..], &b"9"[..])]);
        assert_eq!(super::message(&publication(Some("k"))).key.as_deref(), Some(&b"k"[..]));
    }

    #[test]
    fn only_what_the_topic_said_is_an_answer() {
        let place = Place::At(PartitionId { topic: TopicId(1), number: 0 }, 5);
        for status in [Status::Stored, Status::Duplicate, Status::StoredAfterGap] {
            let results = vec![Produced { status, place: Some(place) }];
            let (answer, found) = answer_of(Ok(Stored { results, missing: vec![] })).unwrap();
            assert_eq!((answer, found), (Answer::Has, Some(place)), "{status:?}");
        }
        let reused = Refusal::SequenceReused { sequence: 2, place };
        assert_eq!(answer_of(Err(reused.into())).unwrap().0, Answer::Has);
        for refusal in [
            Refusal::NoTopic("t".parse().unwrap()),
            Refusal::SequenceTooOld { sequence: 1, floor: 2 },
            Refusal::Limit("streams.producers_max".to_owned()),
        ] {
            let words = refusal.to_string();
            assert_eq!(answer_of(Err(refusal.into())).unwrap().0, Answer::Refuses(words));
        }
        let busy = || Refused::Busy { room: Room::Streams, waiting: 1, limit: 1 };
        assert!(answer_of(Err(busy().into())).is_err(), "it is asked again");
        assert!(answer_of(Err(RoomError::Closed("closed".to_owned()))).is_err());
        assert!(answer_of(Err(RoomError::DiskLow { free: 1, min: 2 })).is_err());
    }
}
