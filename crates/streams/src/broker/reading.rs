//! Reading what groups need: what a member may be handed, and what may die.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use handoff_types::Outcome;

use super::{Broker, Rules};
use crate::batch::{self, Record};
use crate::groups::{Body, Candidate, Fact, Found, GroupName, MemberId, Reads};
use crate::port::{Batches, Failed, Store};
use crate::{PartitionId, Streams};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Bytes of a batch, decompressed.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Messages that were read, by where they are.
pub type Records = BTreeMap<(PartitionId, u64), Record>;

/// What was found where something was to be read.
#[derive(Debug, Default)]
struct Run {
    records: Vec<Record>,
    /// The first offset that is kept, if some were not.
    kept: u64,
    damaged: Option<(u64, u64)>,
}

impl<S: Store, M: Rules> Broker<S, M> {
    /// Reads what a member may be handed, about as much as it wants: what a poll is asked with, and
    /// the messages for its answer. `turn` grows from poll to poll.
    ///
    /// # Errors
    /// [`Failed`], with nothing done.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn find(
        &self,
        group: &GroupName,
        member: MemberId,
        (max_messages, max_bytes): (usize, usize),
        turn: u64,
    ) -> Result<(Vec<Found>, Records), Failed> {
        let now = self.store().now();
        let needs = |state: &_| Streams::needs_of_candidates(state, group, member);
        let candidates = self
            .look(needs, |state| state.candidates(group, member, max_messages, now, turn))
            .await?;
        let (mut found, mut records) = (Vec::new(), Records::new());
        let mut bytes = 0;
        for candidate in candidates {
            if records.len() >= max_messages || bytes >= max_bytes {
                break;
            }
            let one = self.find_in(&candidate, max_messages - records.len(), &mut records).await?;
            bytes += one.facts.iter().map(|fact| fact.bytes as usize).sum::<usize>();
            found.push(one);
        }
        Ok((found, records))
    }

    async fn find_in(
        &self,
        candidate: &Candidate,
        most: usize,
        records: &mut Records,
    ) -> Result<Found, Failed> {
        let partition = candidate.partition;
        let mut found = Found { partition, ..Found::default() };
        let fresh = candidate.next..=candidate.next.saturating_add(candidate.count.max(1) - 1);
        let fresh = (candidate.count > 0).then_some(fresh);
        let waiting = candidate.waiting.iter().map(|(first, last)| *first..=*last);
        for offsets in waiting.chain(fresh) {
            let left = most.saturating_sub(found.facts.len());
            if left == 0 || found.damaged.is_some() {
                break;
            }
            let run = self.read_run(partition, offsets, left).await?;
            found.kept = found.kept.max(run.kept);
            found.damaged = run.damaged;
            for record in run.records {
                found.facts.push(Fact::of(&record));
                records.insert((partition, record.offset), record);
            }
        }
        Ok(found)
    }

    /// Reads messages that may die. One that is not kept any more, or is damaged, is given as such.
    ///
    /// # Errors
    /// [`Failed`], with nothing done.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn bodies(&self, reads: &Reads) -> Result<Vec<Body>, Failed> {
        let mut bodies = Vec::new();
        for (partition, offsets) in reads {
            let mut read: BTreeMap<u64, Record> = BTreeMap::new();
            let mut offset = *offsets.start();
            while offset <= *offsets.end() {
                let run = self.read_run(*partition, offset..=*offsets.end(), usize::MAX).await?;
                read.extend(run.records.into_iter().map(|record| (record.offset, record)));
                // Behind damage it goes on; behind the end it does not.
                let Some((_, behind)) = run.damaged else { break };
                offset = behind.max(offset + 1);
            }
            bodies.extend(offsets.clone().map(|offset| Body {
                partition: *partition,
                offset,
                record: read.remove(&offset),
            }));
        }
        Ok(bodies)
    }

    /// Reads offsets up to the first that is not there.
    async fn read_run(
        &self,
        partition: PartitionId,
        offsets: RangeInclusive<u64>,
        most: usize,
    ) -> Result<Run, Failed> {
        let mut run = Run::default();
        let mut offset = *offsets.start();
        while offset <= *offsets.end() && run.records.len() < most {
            match self.store().read(partition, offset, READ_BYTES).await? {
                Batches::Some(batches) => {
                    let before = offset;
                    for batch in batches {
                        let records = batch::records(&batch, BATCH_BYTES_MAX).map_err(|bad| {
                            Failed { outcome: Outcome::NotApplied, why: bad.to_string() }
                        })?;
                        for record in
                            records.into_iter().filter(|one| offsets.contains(&one.offset))
                        {
                            if record.offset == offset && run.records.len() < most {
                                offset += 1;
                                run.records.push(record);
                            }
                        }
                    }
                    if offset == before {
                        break;
                    }
                }
                Batches::End { .. } => break,
                Batches::Trimmed { start } => {
                    run.kept = start;
                    offset = start.max(offset + 1);
                }
                Batches::Corrupt { from, to } => {
                    run.damaged = Some((from, to));
                    break;
                }
            }
        }
        Ok(run)
    }
}
