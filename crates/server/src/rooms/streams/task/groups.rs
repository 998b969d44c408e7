//! What the room is asked of groups.

use handoff_log::journal::{Purpose, Refused};
use handoff_store_embedded::Applied;
use handoff_streams::groups::{
    Body, GroupCommand, GroupId, GroupName, GroupRefusal, GroupReply, GroupSettings, MemberId,
    Spot, Start,
};
use handoff_streams::{Command, PartitionId, Refusal, Reply, State, Streams};
use handoff_types::{Now, Sight};
use tracing::warn;

use super::super::mailbox::{
    Answer, Ask, Asker, GroupAlteration, GroupListed, Look, Question, stores,
};
use super::super::reading::weight;
use super::{MESSAGE_BYTES, Room, give};
use crate::rooms::RoomError;
use crate::settings;

/// What a verdict, a fact or a place takes of a record, about.
const EACH_BYTES: usize = 96;

impl Room {
    /// Takes a command of groups, or gives it back if it has to wait.
    pub(super) fn take_group(&mut self, command: GroupCommand, to: Asker, now: Now) -> Option<Ask> {
        let purpose = purpose(&command);
        let command = Command::Group(command);
        match self.decide_group(&command, purpose, now) {
            Ok(applied) => {
                if purpose == Purpose::Accept {
                    self.line.accepted();
                }
                match (applied.reply, command) {
                    (Reply::Group(GroupReply::Wants(reads)), Command::Group(command)) => {
                        give(to, Ok(Answer::Wants(reads, Box::new(command))));
                    }
                    (reply, _) => self.wait_for(Applied { reply, ..applied }, Some(to)),
                }
                None
            }
            Err(refused) => {
                let Command::Group(command) = command else { return None };
                self.put_off(&refused, Question::Group(Box::new(command)), to)
            }
        }
    }

    /// Decides a command of groups and wakes whoever waits for what it changes.
    pub(super) fn decide_group(
        &mut self,
        command: &Command,
        purpose: Purpose,
        now: Now,
    ) -> Result<Applied<Streams>, Refused> {
        let Command::Group(asked) = command else { return self.apply(command, 0, purpose, now) };
        let before = self.generation(asked.group());
        let applied = self.apply(command, group_weight(asked), purpose, now)?;
        if applied.sequence.is_some() {
            self.ring(asked, before);
        }
        Ok(applied)
    }

    fn generation(&self, name: &GroupName) -> Option<(GroupId, u64)> {
        let state = self.host.state();
        let group = state.group(name)?;
        Some((group.id, state.members(group.id)?.generation))
    }

    fn ring(&self, command: &GroupCommand, before: Option<(GroupId, u64)>) {
        let Some((id, _)) = before else { return };
        let bells = &self.shared.bells;
        if self.generation(command.group()) != before {
            return bells.ring_group(id);
        }
        match command {
            GroupCommand::Commit { results, .. } => {
                let mut last = None;
                for result in results {
                    if last.replace(result.partition) != Some(result.partition) {
                        bells.ring_position(id, result.partition);
                    }
                }
            }
            GroupCommand::Seek { to, .. } => {
                to.iter().for_each(|(partition, _)| bells.ring_position(id, *partition));
            }
            // Whoever beats or is handed something takes nothing from others that they could have.
            GroupCommand::Heartbeat { .. } | GroupCommand::Poll { .. } => {}
            _ => bells.ring_group(id),
        }
    }

    /// What a member may be handed, if it is one. It was heard of, and that may give partitions out
    /// anew; the answer waits for nothing, because what is handed out by it does.
    pub(super) fn look_for(
        &mut self,
        group: GroupName,
        member: MemberId,
        (most, waits): (usize, bool),
        to: Asker,
        now: Now,
    ) -> Option<Ask> {
        let generation = u64::MAX;
        let beat = GroupCommand::Heartbeat { group: group.clone(), member, generation };
        let applied = match self.decide_group(&Command::Group(beat), Purpose::Finish, now) {
            Ok(applied) => applied,
            Err(refused) => {
                let question = Question::Look { group, member, most, waits };
                return self.put_off(&refused, question, to);
            }
        };
        if matches!(applied.reply, Reply::Refused(_)) {
            self.wait_for(applied, Some(to));
            return None;
        }
        if applied.sequence.is_some() {
            self.wait_for(applied, None);
        }
        self.turn = self.turn.wrapping_add(1);
        let looked = look(self.host.state(), &group, member, (most, waits), now, self.turn);
        give(to, looked);
        None
    }

    /// A group's settings once they are altered.
    pub(super) fn altered_group(
        &self,
        name: GroupName,
        alteration: GroupAlteration,
        begin: Vec<Spot>,
    ) -> GroupCommand {
        let group = self.host.state().group(&name);
        // Without a group the room refuses whatever they are.
        let settings = match group {
            Some(group) => alteration.apply(&group.settings),
            None => alteration.apply(&GroupSettings::of(&name, Vec::new())),
        };
        GroupCommand::Alter { name, settings, begin }
    }

    /// A declared group, if it is missing.
    pub(super) fn declare_group(&self, declared: &settings::DeclaredGroup) -> Option<Command> {
        let state = self.host.state();
        let settings = declared.settings();
        if let Some(group) = state.group(&declared.name) {
            if group.settings != settings {
                warn!(
                    group = %declared.name,
                    "a group is not as it is declared and stays as it is; `handoff group alter` changes it"
                );
            }
            return None;
        }
        let topics = settings.topics.iter().filter_map(|name| state.topic(name));
        let places = topics.flat_map(|topic| {
            let partitions = state.partitions_of(topic.id);
            partitions.map(|(number, one)| (PartitionId { topic: topic.id, number }, *one))
        });
        // What was read back is on disk, so these are the ends.
        let begin = places.map(|(id, one)| match settings.start {
            Start::Earliest => (id, one.start),
            Start::Latest => (id, one.end),
        });
        let begin = begin.collect();
        let (name, limits) = (declared.name.clone(), self.settings.group_bounds);
        Some(Command::Group(GroupCommand::Create { name, settings, begin, limits }))
    }
}

/// Whether a command finishes what was promised, or asks for more.
fn purpose(command: &GroupCommand) -> Purpose {
    match command {
        GroupCommand::Join { .. } | GroupCommand::Poll { .. } => Purpose::Accept,
        command if stores(command) => Purpose::Accept,
        _ => Purpose::Finish,
    }
}

/// What a command takes of the journal, about.
fn group_weight(command: &GroupCommand) -> usize {
    let bodies = |bodies: &[Body]| -> usize {
        let records = bodies.iter().map(|body| body.record.as_ref().map_or(0, weight));
        records.map(|bytes| bytes + MESSAGE_BYTES + 4 * EACH_BYTES).sum()
    };
    match command {
        GroupCommand::Create { begin, .. } | GroupCommand::Alter { begin, .. } => {
            begin.len() * EACH_BYTES
        }
        GroupCommand::Join { join, .. } => (join.begin.len() + join.topics.len()) * EACH_BYTES,
        GroupCommand::Poll { found, .. } => {
            found.iter().map(|found| EACH_BYTES * (1 + found.facts.len())).sum()
        }
        GroupCommand::Commit { results, produce, bodies: read, .. } => {
            let produced: usize = produce.iter().map(super::weight).sum();
            let errors = results.iter().map(|one| one.error.as_ref().map_or(0, String::len));
            produced + bodies(read) + results.len() * EACH_BYTES + errors.sum::<usize>()
        }
        GroupCommand::Sweep { bodies: read, .. } | GroupCommand::Replay { letters: read, .. } => {
            bodies(read)
        }
        GroupCommand::Seek { to, .. } => to.len() * EACH_BYTES,
        GroupCommand::Delete { .. }
        | GroupCommand::Leave { .. }
        | GroupCommand::Heartbeat { .. } => 0,
    }
}

fn no_group(name: GroupName) -> RoomError {
    Refusal::from(GroupRefusal::NoGroup(name)).into()
}

fn look(
    state: &State,
    name: &GroupName,
    who: MemberId,
    (most, waits): (usize, bool),
    now: Now,
    turn: u64,
) -> Result<Answer, RoomError> {
    let group = state.group(name).ok_or_else(|| no_group(name.clone()))?;
    let gone = || RoomError::from(Refusal::from(GroupRefusal::MemberGone(who)));
    let members = state.members(group.id).ok_or_else(gone)?;
    let member = members.members.get(&who).ok_or_else(gone)?;
    Ok(Answer::Look(Box::new(Look {
        group: group.id,
        generation: members.generation,
        session: member.session,
        assigned: member.assigned.clone(),
        candidates: state.candidates(name, who, most, now, turn),
        ready_at: waits.then(|| state.ready_at(name, who, now)).flatten(),
    })))
}

pub(super) fn list(
    state: &State,
    sight: &Sight,
    after: Option<&GroupName>,
    limit: usize,
) -> Answer {
    let mut found = state.groups(sight, after);
    let listed = found.by_ref().take(limit).map(|group| {
        let members = state.members(group.id);
        GroupListed {
            group: group.clone(),
            generation: members.map_or(0, |members| members.generation),
            members: members.map_or(0, |members| members.members.len()),
            lag: state.group_lag(group, sight),
        }
    });
    let listed = listed.collect();
    Answer::Groups(listed, found.next().is_some())
}

pub(super) fn show(
    state: &State,
    name: GroupName,
    sight: &Sight,
    now: Now,
) -> Result<Answer, RoomError> {
    match state.group_view(&name, sight, now) {
        Some(view) => Ok(Answer::GroupView(Box::new(view))),
        None => Err(no_group(name)),
    }
}

pub(super) fn status(
    state: &State,
    name: GroupName,
    partition: PartitionId,
    offset: u64,
    now: Now,
) -> Result<Answer, RoomError> {
    let status = state.message_status(&name, partition, offset, now);
    status.map(Answer::Status).ok_or_else(|| no_group(name))
}

pub(super) fn replayed(
    state: &State,
    name: GroupName,
    letters: &[Spot],
) -> Result<Answer, RoomError> {
    let Some(group) = state.group(&name) else { return Err(no_group(name)) };
    let known = |(partition, offset): &Spot| {
        state.letters(group.id, *partition).is_some_and(|letters| letters.contains(*offset))
    };
    Ok(Answer::Replayed(letters.iter().map(known).collect()))
}
