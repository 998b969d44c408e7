//! What must become of messages, letters among them.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_streams::groups::{Body, GroupName, MessageStatus, ReplayOutcome, Replayed};
use handoff_streams::{Header, Message, PartitionId, Place, Produce, Produced, Status};

use super::place::Is;
use super::{Asked, Oracle, Violation, no_answer};

/// A message that dies.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) partition: PartitionId,
    pub(super) offset: u64,
    pub(super) attempt: u32,
    /// None: words of the room.
    pub(super) error: Option<String>,
    /// Whether the message was read.
    pub(super) has_body: bool,
}

impl Oracle {
    /// Messages are stored as answered, each at the end of its partition; what is known to be stored
    /// is not stored again.
    pub(super) fn produced(
        &mut self,
        asked: &Asked,
        produce: &Produce,
        results: &[Produced],
    ) -> Result<(), Violation> {
        let topic = self.topics.get(&produce.topic).copied();
        let Some((topic, partitions)) = topic.filter(|_| results.len() == produce.messages.len())
        else {
            return Err(no_answer(asked, "there is an answer for each message".to_owned()));
        };
        for (n, (message, result)) in (0..).zip(produce.messages.iter().zip(results)) {
            let sequence = produce.producer.map(|(id, first)| (id, first + n));
            let before = sequence.and_then(|sequence| self.sent.get(&sequence).copied());
            if let Some((partition, offset)) = before {
                let place = Some(Place::At(partition, offset));
                if *result != (Produced { status: Status::Duplicate, place }) {
                    return Err(no_answer(asked, format!("message {n} is stored at {place:?}")));
                }
                continue;
            }
            let stored = matches!(
                result.status,
                Status::Stored | Status::StoredAfterGap | Status::StoredLate
            );
            let Some(Place::At(at, offset)) = result.place.filter(|_| stored) else {
                return Err(no_answer(asked, format!("message {n} was never stored")));
            };
            let fits = at.topic == topic && at.number < partitions;
            let log = self.logs.get_mut(&at).filter(|log| fits && log.end() == offset);
            let Some(log) = log else {
                return Err(no_answer(asked, format!("message {n} does not belong there")));
            };
            log.append(message, asked.now.wall.0, false);
            if let Some(sequence) = sequence {
                self.sent.insert(sequence, (at, offset));
            }
        }
        Ok(())
    }

    /// Messages die, and for each there is a letter, where people are told it is.
    pub(super) fn bury(
        &mut self,
        asked: &Asked,
        name: &GroupName,
        deaths: &[Death],
    ) -> Result<(), Violation> {
        let Some(group) = self.groups.get(name) else { return Ok(()) };
        let (dead_letter, bereft) = (group.settings.dead_letter.clone(), group.bereft);
        let seen = asked.look.topics.get(&dead_letter).copied();
        if (!deaths.is_empty() || bereft)
            && !self.topics.contains_key(&dead_letter)
            && let Some((id, partitions)) = seen
        {
            self.open(asked, &dead_letter, id, partitions, partitions == 1)?;
        }
        let Some((topic, partitions)) = self.topics.get(&dead_letter).copied() else {
            return match deaths {
                [] => Ok(()),
                _ => Err(Violation::Look(format!("there is no topic {dead_letter} for letters"))),
            };
        };
        let mut letters: BTreeMap<(PartitionId, u64), Message> = BTreeMap::new();
        let mut any: BTreeMap<(PartitionId, u64), bool> = BTreeMap::new();
        for death in deaths {
            let Death { partition, offset, .. } = death;
            let at = |why: &str| Violation::Message {
                partition: *partition,
                offset: *offset,
                why: why.to_owned(),
            };
            let seen = asked.look.groups.get(name).and_then(|group| group.places.get(partition));
            let status = usize::try_from(*offset).ok().and_then(|n| seen?.statuses.get(n));
            let Some(MessageStatus::Dead { letter: Some(letter) }) = status else {
                return Err(at(&format!("it died and is {status:?}")));
            };
            let number = partition.number % partitions.max(1);
            if letter.0 != (PartitionId { topic, number }) {
                return Err(at(&format!("its letter is not in {letter:?}")));
            }
            if letters.insert(*letter, self.letter(name, death)).is_some() {
                return Err(at("its letter is another's"));
            }
            any.insert(*letter, death.error.is_none());
            if let Some(group) = self.groups.get_mut(name) {
                let place = group.place(*partition);
                place.set(*offset, Is::Dead(letter.0, letter.1));
                place.dead += 1;
            }
        }
        // Whoever lost a topic may have letters of it.
        if bereft {
            for number in 0..partitions {
                let id = PartitionId { topic, number };
                let end = asked.look.logs.get(&id).map_or(0, |(_, end)| *end);
                let from = self.logs.get(&id).map_or(end, super::Log::end);
                for offset in from..end {
                    if let Some(message) = letters.remove(&(id, offset)) {
                        let any = any.get(&(id, offset)).copied().unwrap_or(false);
                        self.store(id, &message, asked, any);
                    } else if let Some(log) = self.logs.get_mut(&id) {
                        log.append_unknown(asked.now.wall.0);
                    }
                }
            }
        }
        for ((id, offset), message) in letters {
            if self.logs.get(&id).map(super::Log::end) != Some(offset) {
                let why = "a letter is not at the end of its partition".to_owned();
                return Err(Violation::Message { partition: id, offset, why });
            }
            let any = any.get(&(id, offset)).copied().unwrap_or(false);
            self.store(id, &message, asked, any);
        }
        Ok(())
    }

    fn store(&mut self, id: PartitionId, message: &Message, asked: &Asked, any_error: bool) {
        if let Some(log) = self.logs.get_mut(&id) {
            log.append(message, asked.now.wall.0, any_error);
        }
    }

    /// The letter of a message: what it was, and what is known of its death.
    fn letter(&self, group: &GroupName, death: &Death) -> Message {
        let Death { partition, offset, attempt, error, has_body } = death;
        let kept = self.logs.get(partition).and_then(|log| log.get(*offset));
        let kept = kept.filter(|_| *has_body);
        let topic = self.topics.iter().find(|(_, (id, _))| *id == partition.topic);
        let topic = topic.map_or(String::new(), |(name, _)| name.to_string());
        let mut headers: Vec<Header> =
            kept.into_iter().flat_map(|kept| kept.own_headers()).collect();
        let mut say = |name: &'static str, value: String| {
            let name = Bytes::from_static(name.as_bytes());
            headers.push(Header { name, value: Bytes::from(value) });
        };
        say("handoff.origin-topic", topic);
        say("handoff.origin-partition", partition.number.to_string());
        say("handoff.origin-offset", offset.to_string());
        if let Some(kept) = kept {
            say("handoff.origin-timestamp", kept.timestamp.div_euclid(1_000).to_string());
        }
        say("handoff.group", group.to_string());
        say("handoff.attempt", attempt.to_string());
        say("handoff.error", error.clone().unwrap_or_default());
        if kept.is_none() {
            say("handoff.lost", "the message was not kept any more when it died".to_owned());
        }
        Message {
            key: kept.and_then(|kept| kept.key.clone()),
            payload: kept.map(|kept| kept.payload.clone()).unwrap_or_default(),
            headers,
            ..Message::default()
        }
    }

    /// Letters go back to where they came from, each once.
    pub(super) fn replayed(
        &mut self,
        asked: &Asked,
        name: &GroupName,
        letters: &[Body],
        results: &[Replayed],
    ) -> Result<(), Violation> {
        let named = results.iter().map(|one| one.letter);
        if !named.eq(letters.iter().map(|one| (one.partition, one.offset))) {
            return Err(no_answer(asked, "there is an answer for each letter".to_owned()));
        }
        for (body, result) in letters.iter().zip(results) {
            let letter = (body.partition, body.offset);
            let known = self.groups.get(name);
            let before = known.is_some_and(|group| group.replayed.contains(&letter));
            let back = body.record.as_ref().and_then(|_| self.back(name, letter));
            let unknown = self.logs.get(&letter.0).is_some_and(|log| log.get(letter.1).is_none());
            match (&result.outcome, back) {
                (ReplayOutcome::Stored(at, _), None) if unknown && !before => {
                    if let Some(log) = self.logs.get_mut(at) {
                        log.append_unknown(asked.now.wall.0);
                    }
                    if let Some(group) = self.groups.get_mut(name) {
                        group.replayed.insert(letter);
                    }
                }
                (ReplayOutcome::Already, _) if before => {}
                (ReplayOutcome::Not(_), None) if !before => {}
                (ReplayOutcome::Stored(at, offset), Some((home, message))) if !before => {
                    let end = self.logs.get(&home).map(super::Log::end);
                    if (*at, Some(*offset)) != (home, end) {
                        let why = format!("letter {letter:?} goes to {home} at {end:?}");
                        return Err(no_answer(asked, why));
                    }
                    self.store(home, &message, asked, false);
                    if let Some(group) = self.groups.get_mut(name) {
                        group.replayed.insert(letter);
                    }
                }
                (outcome, back) => {
                    let why = format!(
                        "letter {letter:?}, replayed before: {before}, goes to {:?}, not {outcome:?}",
                        back.map(|(home, _)| home)
                    );
                    return Err(no_answer(asked, why));
                }
            }
        }
        Ok(())
    }

    /// Where a letter goes back to, and what then is there; none if it does not.
    fn back(
        &self,
        group: &GroupName,
        (at, offset): (PartitionId, u64),
    ) -> Option<(PartitionId, Message)> {
        let kept = self.logs.get(&at)?.get(offset)?;
        let text = |name: &str| {
            let mut headers = kept.headers.iter();
            let header = headers.find(|header| header.name == name.as_bytes())?;
            str::from_utf8(&header.value).ok()
        };
        let whole = text("handoff.lost").is_none() && text("handoff.group")? == group.as_str();
        let topic = text("handoff.origin-topic")?.parse().ok()?;
        let (topic, partitions) = *self.topics.get(&topic)?;
        let number = text("handoff.origin-partition")?.parse().ok()?;
        let mut headers: Vec<Header> = kept.own_headers().collect();
        let name = Bytes::from_static(b"handoff.replay-for");
        headers.push(Header { name, value: Bytes::from(group.to_string()) });
        let message = Message {
            key: kept.key.clone(),
            payload: kept.payload.clone(),
            headers,
            ..Message::default()
        };
        (whole && number < partitions).then_some((PartitionId { topic, number }, message))
    }
}
