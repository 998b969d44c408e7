//! Random producing against a second account of the rules, written from the specification with sets
//! of numbers, and random commands of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::{
    Command, Message, PartitionId, Place, Produce, Produced, ProducerId, Refusal, Registration,
    Reply, Scope, Status,
};
use handoff_types::{Sight, Span};
use proptest::prelude::*;

use crate::room::{ME, Room, SETTINGS, at, text, topic};

/// Everything a producer ever stored, and what of it the room may still know.
#[derive(Default)]
struct Account {
    stored: BTreeMap<u64, (u8, u64)>,
    /// In the order they were stored.
    history: Vec<u64>,
    floor: u64,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Is(Status, Option<u64>),
    Reused(u64),
    TooOld(u64),
}

impl Account {
    fn gaps(&self) -> Vec<(u64, u64)> {
        let Some(last) = self.stored.keys().next_back() else { return Vec::new() };
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for number in (self.floor..*last).filter(|number| !self.stored.contains_key(number)) {
            match gaps.last_mut() {
                Some((_, end)) if *end + 1 == number => *end = number,
                _ => gaps.push((number, number)),
            }
        }
        gaps
    }

    fn send(
        &mut self,
        number: u64,
        content: u8,
        offset: u64,
        (remembered, gaps): (usize, usize),
    ) -> (Answer, Option<(u64, u64)>) {
        let window = &self.history[self.history.len().saturating_sub(remembered)..];
        if window.contains(&number) {
            let (before, offset) = self.stored[&number];
            return match before == content {
                true => (Answer::Is(Status::Duplicate, Some(offset)), None),
                false => (Answer::Reused(number), None),
            };
        }
        let last = self.stored.keys().next_back().copied();
        let (status, gap) = match last {
            None => {
                self.floor = number;
                (Status::Stored, None)
            }
            Some(last) if number == last + 1 => (Status::Stored, None),
            Some(last) if number > last => (Status::StoredAfterGap, Some((last + 1, number - 1))),
            Some(_) if number < self.floor => return (Answer::TooOld(number), None),
            Some(_) if self.stored.contains_key(&number) => {
                return (Answer::Is(Status::Duplicate, None), None);
            }
            Some(_) => (Status::StoredLate, None),
        };
        self.stored.insert(number, (content, offset));
        self.history.push(number);
        while self.gaps().len() > gaps {
            self.floor = self.gaps()[0].1 + 1;
        }
        (Answer::Is(status, Some(offset)), gap)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// One partition, so that the account needs no partitioner.
    #[test]
    fn sequences_mean_what_the_specification_says(
        remembered in 0u32..6,
        gaps in 0u32..4,
        requests in prop::collection::vec((0u64..40, prop::collection::vec(0u8..2, 1..6)), 1..40),
    ) {
        let mut room = Room::with(1);
        room.bounds.remembered_max = remembered;
        room.bounds.missing_max = gaps;
        let mut account = Account::default();
        let mut end = 0;
        for (first, contents) in requests {
            let messages: Vec<Message> = contents.iter().map(|n| text(&n.to_string())).collect();
            let decided = room.send("orders", Some((ME, first)), &messages);
            // The account is told message by message and taken back if one is refused.
            let (stored, history, floor) =
                (account.stored.clone(), account.history.clone(), account.floor);
            let mut next = end;
            let mut answers = Vec::new();
            let mut missing = Vec::new();
            for (number, content) in (first..).zip(&contents) {
                let limits = (remembered as usize, gaps as usize);
                let (answer, gap) = account.send(number, *content, next, limits);
                let refused = !matches!(answer, Answer::Is(..));
                if matches!(answer, Answer::Is(status, _) if status != Status::Duplicate) {
                    next += 1;
                }
                answers.push(answer);
                missing.extend(gap);
                if refused {
                    break;
                }
            }
            match decided.reply {
                Reply::Produced { results, missing: named, .. } => {
                    end = next;
                    let said: Vec<_> = results.iter().map(|result| {
                        let place = result.place.map(|_| at(result).1);
                        Answer::Is(result.status, place)
                    }).collect();
                    prop_assert_eq!(said, answers);
                    let named: Vec<_> =
                        named.iter().map(|range| (*range.start(), *range.end())).collect();
                    prop_assert_eq!(named, missing);
                }
                Reply::Refused(refusal) => {
                    let said = match refusal {
                        Refusal::SequenceReused { sequence, .. } => Answer::Reused(sequence),
                        Refusal::SequenceTooOld { sequence, .. } => Answer::TooOld(sequence),
                        other => panic!("{other:?}"),
                    };
                    prop_assert_eq!(Some(said), answers.pop());
                    account = Account { stored, history, floor };
                }
                other => panic!("{other:?}"),
            }
            prop_assert_eq!(room.ends("orders"), [end]);
            if let Some(sequences) = room.state.sequences(ME, None) {
                let missing: Vec<_> =
                    sequences.missing.iter().map(|r| (*r.start(), *r.end())).collect();
                prop_assert_eq!(missing, account.gaps());
                prop_assert_eq!(sequences.floor, Some(account.floor));
            }
        }
    }

    /// Whatever is asked: the room's own checks after each command (dense offsets, replay and
    /// reload give the live state), each sequence stored at most once, the bounds kept.
    #[test]
    fn any_commands_keep_what_is_promised(steps in prop::collection::vec(step(), 1..60)) {
        let mut room = Room::new();
        let mut places: BTreeSet<(PartitionId, u64)> = BTreeSet::new();
        for step in steps {
            if let Step::Wait(seconds) = step {
                room.pass(Span::from_secs(seconds));
                continue;
            }
            let command = step.command(&room);
            let decided = room.apply(&command);
            if let Reply::Produced { results, .. } = decided.reply {
                for Produced { status, place } in results {
                    if let (true, Some(Place::At(id, offset))) =
                        (status != Status::Duplicate, place)
                    {
                        prop_assert!(places.insert((id, offset)), "an offset is given once");
                    }
                }
            }
            let counts = room.state.counts();
            prop_assert!(counts.topics <= room.bounds.topics_max);
            prop_assert!(counts.partitions <= room.bounds.partitions_max);
            prop_assert!(counts.producers <= room.bounds.producers_max);
            prop_assert!(counts.scheduled <= room.bounds.scheduled_max);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u32),
    Alter(u8, u64),
    Grow(u8, u32),
    Delete(u8),
    Produce(u8, Option<(u8, u64)>, Vec<(Option<u8>, Option<u32>, Option<u64>)>),
    Register(u8, Option<Scope>),
    Cancel(usize),
    Trim(usize, u64),
    Tick(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let message = (
        prop::option::of(0u8..5),
        prop::option::weighted(0.2, 0u32..4),
        prop::option::weighted(0.3, 0u64..100),
    );
    let scope = prop_oneof![Just(Scope::Producer), Just(Scope::Topic)];
    prop_oneof![
        2 => (0u8..3, 1u32..5).prop_map(|(n, p)| Step::Create(n, p)),
        1 => (0u8..3, 0u64..3).prop_map(|(n, r)| Step::Alter(n, r)),
        1 => (0u8..3, 1u32..8).prop_map(|(n, p)| Step::Grow(n, p)),
        1 => (0u8..3).prop_map(Step::Delete),
        9 => (0u8..3, prop::option::of((0u8..7, 0u64..20)), prop::collection::vec(message, 1..5))
            .prop_map(|(n, p, m)| Step::Produce(n, p, m)),
        1 => (0u8..7, prop::option::of(scope)).prop_map(|(p, s)| Step::Register(p, s)),
        1 => (0usize..5).prop_map(Step::Cancel),
        1 => (0usize..5, 0u64..20).prop_map(|(p, b)| Step::Trim(p, b)),
        2 => (0usize..6).prop_map(Step::Tick),
        2 => prop_oneof![0u64..50, Just(8 * 86_400)].prop_map(Step::Wait),
    ]
}

impl Step {
    fn command(self, room: &Room) -> Command {
        let name = |n: u8| topic(&format!("t{n}"));
        let bounds = room.bounds;
        match self {
            Self::Create(n, partitions) => {
                let topic =
                    handoff_streams::TopicSpec { name: name(n), partitions, settings: SETTINGS };
                Command::CreateTopic { topic, bounds }
            }
            Self::Alter(n, bytes) => {
                let settings =
                    handoff_streams::TopicSettings { retention_bytes: Some(bytes), ..SETTINGS };
                Command::AlterTopic { name: name(n), settings }
            }
            Self::Grow(n, partitions) => Command::GrowTopic { name: name(n), partitions, bounds },
            Self::Delete(n) => Command::DeleteTopic { name: name(n) },
            Self::Produce(n, producer, messages) => {
                let messages = messages.into_iter().map(|(key, partition, after)| Message {
                    key: key.map(|key| vec![key].into()),
                    partition,
                    deliver_at: after.map(|after| room.now.wall + Span::from_secs(after)),
                    ..text("payload")
                });
                let producer = producer.map(|(id, first)| (ProducerId(id.into()), first));
                let produce = Produce { topic: name(n), producer, messages: messages.collect() };
                Command::Produce { produce, bounds }
            }
            Self::Register(id, scope) => {
                let producer = Some(ProducerId(id.into()));
                let registration = Registration { producer, name: None, scope };
                Command::RegisterProducer { registration, sight: Sight::All, bounds }
            }
            Self::Cancel(n) => {
                let waiting = room.state.scheduled(None, &Sight::All, None).nth(n);
                let id = waiting.map_or(handoff_streams::ScheduledId(0), |one| one.id);
                Command::CancelScheduled { id, sight: Sight::All }
            }
            Self::Trim(n, below) => {
                let partition = room.state.partitions().nth(n).map(|(id, _)| id);
                Command::Trim { partition: partition.unwrap_or_default(), below, bytes: below }
            }
            Self::Tick(limit) => Command::Tick { limit, bytes_max: 60, bounds },
            Self::Wait(_) => unreachable!("waiting asks nothing"),
        }
    }
}
