//! What is wrong with what is asked, by the names of refusals.

use std::collections::BTreeSet;

use handoff_streams::groups::{GroupCommand, GroupSettings, Verdict};
use handoff_streams::{Bounds, Command, Produce, TopicName};

use super::{Asked, Oracle};

type Objections = BTreeSet<&'static str>;

impl Oracle {
    /// All that may be said against it.
    pub(super) fn objections(&self, asked: &Asked) -> Objections {
        let mut wrong = self.strict_objections(asked);
        match &asked.command {
            // What is known of a sequence is judged in another world.
            Command::Produce { produce, .. } if produce.producer.is_some() => {
                wrong.insert("sequence too old");
            }
            Command::CancelScheduled { .. } => {
                wrong.insert("not scheduled");
            }
            Command::Group(GroupCommand::Commit { produce, .. }) if !produce.is_empty() => {
                if produce.iter().any(|request| request.producer.is_some()) {
                    wrong.insert("sequence too old");
                }
                if self.may_be_fenced(asked) {
                    wrong.insert("fenced");
                }
            }
            _ => {}
        }
        wrong
    }

    /// All because of which it must be refused.
    pub(super) fn strict_objections(&self, asked: &Asked) -> Objections {
        let mut wrong = BTreeSet::new();
        let no_topic = |name: &TopicName| !self.topics.contains_key(name);
        let mut object = |holds: bool, objection: &'static str| {
            if holds {
                wrong.insert(objection);
            }
        };
        match &asked.command {
            Command::CreateTopic { topic, .. } => {
                object(!no_topic(&topic.name), "topic exists");
            }
            Command::GrowTopic { name, partitions, .. } => match self.topics.get(name) {
                None => object(true, "no topic"),
                Some((_, count)) => object(partitions < count, "partitions"),
            },
            Command::DeleteTopic { name } => object(no_topic(name), "no topic"),
            Command::Produce { produce, .. } => object(no_topic(&produce.topic), "no topic"),
            Command::Group(command) => return self.of_group(command, asked),
            _ => {}
        }
        wrong
    }

    fn of_group(&self, command: &GroupCommand, asked: &Asked) -> Objections {
        let mut wrong = BTreeSet::new();
        let no_topic = |name: &TopicName| !self.topics.contains_key(name);
        let known = self.groups.get(command.group());
        let mut object = |holds: bool, objection: &'static str| {
            if holds {
                wrong.insert(objection);
            }
        };
        let now = asked.now.steady;
        match (command, known) {
            (GroupCommand::Create { settings, .. }, _) => {
                object(known.is_some(), "group exists");
                object(is_wrong(settings), "settings");
                object(settings.topics.iter().any(no_topic), "no topic");
            }
            (GroupCommand::Alter { settings, .. }, Some(group)) => {
                let letters = &settings.dead_letter;
                let read = group.members.values().any(|member| member.topics.contains(letters));
                object(is_wrong(settings) || read, "settings");
                let others = settings.topics != group.settings.topics;
                object(others && settings.topics.iter().any(no_topic), "no topic");
            }
            (GroupCommand::Join { join, .. }, known) => {
                let dead = known
                    .map_or(join.group.dead_letter(), |known| known.settings.dead_letter.clone());
                object(join.topics.contains(&dead), "settings");
                object(join.topics.iter().any(no_topic), "no topic");
                if join.topics.is_empty() {
                    match known {
                        None => object(true, "no group"),
                        Some(known) => {
                            let topics = &known.settings.topics;
                            object(topics.is_empty(), "no topics");
                            let all = !topics.is_empty() && topics.iter().all(no_topic);
                            object(all, "no topic");
                        }
                    }
                }
            }
            (_, None) => object(true, "no group"),
            (GroupCommand::Leave { member, .. }, Some(group)) => {
                object(!group.members.contains_key(member), "member gone");
            }
            (
                GroupCommand::Heartbeat { member, .. } | GroupCommand::Poll { member, .. },
                Some(group),
            ) => object(!group.is_alive(*member, now), "member gone"),
            (GroupCommand::Commit { results, produce, bounds, .. }, Some(_)) => {
                let wrong = self.of_commit(results, produce, bounds);
                if self.must_be_fenced(asked) {
                    return wrong.into_iter().chain(["fenced"]).collect();
                }
                return wrong;
            }
            (
                GroupCommand::Delete { .. }
                | GroupCommand::Sweep { .. }
                | GroupCommand::Seek { .. }
                | GroupCommand::Replay { .. },
                Some(_),
            ) => {}
        }
        wrong
    }

    fn of_commit(&self, results: &[Verdict], produce: &[Produce], bounds: &Bounds) -> Objections {
        let mut wrong = BTreeSet::new();
        if results.len() > bounds.batch_messages_max {
            wrong.insert("limit");
        }
        if results.iter().any(|one| one.from > one.to) {
            wrong.insert("backwards");
        }
        let twice = results.iter().enumerate().any(|(n, one)| {
            let others = results.iter().skip(n + 1);
            let same = others.filter(|other| other.partition == one.partition);
            same.clone().any(|other| other.from <= one.to && one.from <= other.to)
        });
        if twice {
            wrong.insert("twice");
        }
        if produce.iter().any(|request| !self.topics.contains_key(&request.topic)) {
            wrong.insert("no topic");
        }
        wrong
    }
}

fn is_wrong(settings: &GroupSettings) -> bool {
    settings.max_attempts == 0
        || settings.backoff > settings.backoff_max
        || settings.topics.contains(&settings.dead_letter)
}
