//! Dead letters: shown, and sent back.

use std::sync::Arc;

use handoff_streams::groups::{
    Body, Group, GroupCommand, GroupName, GroupReply, Letter, ReplayOutcome, Replayed, Spot,
};
use handoff_streams::{PartitionId, TopicName};
use handoff_types::{Sight, Wall};

use super::super::ends::Visible;
use super::super::mailbox::{Answer, Question};
use super::super::reading::{Browse, Page, ReadFault};
use super::super::{StreamsRoom, unexpected};
use super::unreadable;
use crate::rooms::RoomError;

/// Bytes of letters in a page, give or take one.
const PAGE_BYTES: usize = 1 << 20;

/// Letters that are replayed in one decision, and their bytes.
const REPLAYED_AT_ONCE: usize = 500;
const REPLAYED_BYTES: usize = 2 << 20;

/// Results that are told one by one.
const RESULTS_MAX: usize = 10_000;

/// A dead letter, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct LetterAt {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) letter: Letter,
    /// When it was written.
    pub(crate) timestamp: Wall,
    pub(crate) replayed: bool,
}

/// A page of letters.
#[derive(Clone, Debug, Default)]
pub(crate) struct LetterPage {
    pub(crate) letters: Vec<LetterAt>,
    /// The place from which to go on; none: that is all.
    pub(crate) next: Option<(u32, u64)>,
}

/// Which letters are to go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Those of a partition, from the first to the last.
    Range {
        partition: u32,
        from: u64,
        to: u64,
    },
}

/// What became of letters that were to go back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Letters {
    pub(crate) replayed: u64,
    pub(crate) already: u64,
    /// The first of them.
    pub(crate) results: Vec<Replayed>,
}

impl StreamsRoom {
    /// Dead letters of a group from a place on, the oldest of each partition first.
    ///
    /// # Errors
    /// [`RoomError`]
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn letters(
        &self,
        group: &Group,
        sight: &Sight,
        from: (u32, u64),
        limit: usize,
    ) -> Result<LetterPage, RoomError> {
        let Ok(topic) = self.visible(&group.settings.dead_letter) else {
            return Ok(LetterPage::default());
        };
        let mut page = LetterPage::default();
        let (mut number, mut offset, mut bytes) = (from.0, from.1, PAGE_BYTES);
        while let Some(ends) = topic.partition(number) {
            let (start, end) = (ends.start(), ends.end());
            offset = offset.max(start);
            let left = limit.saturating_sub(page.letters.len());
            if left == 0 || bytes == 0 {
                page.next = Some((number, offset));
                break;
            }
            if offset >= end {
                (number, offset) = (number + 1, 0);
                continue;
            }
            let read = self.read_letters(&topic, number, (offset, end), (left, bytes)).await?;
            offset = read.found.next;
            for record in read.records {
                bytes = bytes.saturating_sub(super::super::reading::weight(&record));
                let own = Letter::of(&record).filter(|letter| letter.group == group.name);
                if let Some(letter) = own.filter(|letter| sight.sees(letter.topic.as_str())) {
                    let (partition, timestamp) = (number, record.timestamp);
                    let offset = record.offset;
                    let replayed = false;
                    page.letters.push(LetterAt { partition, offset, letter, timestamp, replayed });
                }
            }
        }
        self.mark_replayed(group.name.clone(), topic.id, &mut page.letters).await?;
        Ok(page)
    }

    async fn mark_replayed(
        &self,
        group: GroupName,
        topic: handoff_streams::TopicId,
        letters: &mut [LetterAt],
    ) -> Result<(), RoomError> {
        let place = |one: &LetterAt| (PartitionId { topic, number: one.partition }, one.offset);
        let places: Vec<Spot> = letters.iter().map(place).collect();
        match self.ask(Question::Replayed(group, places)).await? {
            Answer::Replayed(known) => {
                for (letter, replayed) in letters.iter_mut().zip(known) {
                    letter.replayed = replayed;
                }
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends dead letters of a group back to where they came from, for this group alone. A part of
    /// them may have gone when this fails; those are not sent again.
    ///
    /// # Errors
    /// [`RoomError`]
    ///
    /// # Cancel safety
    /// Dropped, some may have gone.
    pub(crate) async fn replay(
        &self,
        group: &Group,
        sight: &Sight,
        which: Which,
    ) -> Result<Letters, RoomError> {
        let mut done = Letters::default();
        let name: &TopicName = &group.settings.dead_letter;
        let Ok(topic) = self.visible(name) else { return Ok(done) };
        let numbers = match which {
            Which::All => 0..topic.count(),
            Which::Range { partition, .. } => partition..partition.saturating_add(1),
        };
        for number in numbers {
            let Some(ends) = topic.partition(number) else {
                let (topic, count) = (name.clone(), topic.count());
                let none =
                    handoff_streams::Refusal::NoPartition { topic, partition: number, count };
                return Err(none.into());
            };
            // What dies from now on is not meant.
            let (mut at, mut end) = (ends.start(), ends.end());
            if let Which::Range { from, to, .. } = which {
                at = at.max(from);
                end = end.min(to.saturating_add(1));
            }
            while at < end {
                let bounds = (REPLAYED_AT_ONCE, REPLAYED_BYTES);
                let page = self.read_letters(&topic, number, (at, end), bounds).await?;
                at = page.found.next.max(at + 1);
                let partition = PartitionId { topic: topic.id, number };
                let own = page.records.into_iter().filter(|record| {
                    let letter = Letter::of(record);
                    letter.is_some_and(|letter| {
                        letter.group == group.name && sight.sees(letter.topic.as_str())
                    })
                });
                let bodies: Vec<Body> = own
                    .map(|record| Body { partition, offset: record.offset, record: Some(record) })
                    .collect();
                if !bodies.is_empty() {
                    self.replay_page(group.name.clone(), bodies, &mut done).await?;
                }
            }
        }
        Ok(done)
    }

    async fn replay_page(
        &self,
        group: GroupName,
        letters: Vec<Body>,
        done: &mut Letters,
    ) -> Result<(), RoomError> {
        let bounds = self.settings().bounds;
        let results = match self.tell(GroupCommand::Replay { group, letters, bounds }).await? {
            GroupReply::Replayed(results) => results,
            other => return Err(unexpected(&Answer::Group(other))),
        };
        for result in results {
            match result.outcome {
                ReplayOutcome::Stored(..) => done.replayed += 1,
                ReplayOutcome::Already => done.already += 1,
                ReplayOutcome::Not(_) => {}
            }
            if done.results.len() < RESULTS_MAX {
                done.results.push(result);
            }
        }
        Ok(())
    }

    async fn read_letters(
        &self,
        topic: &Arc<Visible>,
        number: u32,
        (from, end): (u64, u64),
        (limit, bytes_max): (usize, usize),
    ) -> Result<Page, RoomError> {
        let partition = PartitionId { topic: topic.id, number };
        let (since, key) = (None, None);
        let browse = Browse { partition, from, end, since, key, limit, bytes_max };
        match self.reading.browse(browse, |page| page).await {
            Ok(page) => Ok(page),
            Err(ReadFault::Trimmed { start }) => {
                let mut page = Page::default();
                page.found.next = start.clamp(from.saturating_add(1), end.max(from + 1));
                Ok(page)
            }
            Err(fault) => Err(unreadable(fault)),
        }
    }
}
