//! What time does to groups: members that were silent go, leases that are over come back, and what
//! was tried too often dies.
//!
//! What may die is read first, beside the room. Meanwhile the room works, so what is due is found
//! out again when it was read.

use std::collections::HashSet;

use handoff_log::journal::{Purpose, Refused};
use handoff_streams::groups::{Body, GroupCommand, GroupName, Reads};
use handoff_streams::{Command, PartitionId, Streams};
use handoff_types::Now;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use super::super::reading::{Pick, ReadFault, Reading, weight};
use super::{REFUSED_PAUSE, Room};

/// Groups swept in one turn.
const SWEPT_AT_ONCE: usize = 16;

/// Bytes of messages that die in one sweep, give or take one.
const BYTES: usize = 4 << 20;

/// Groups whose messages are read at once.
const READS_MAX: usize = 4;

/// Messages that are read because they may die.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    reading: JoinSet<(GroupName, Vec<Body>)>,
    groups: HashSet<GroupName>,
}

impl Sweeps {
    /// Whether something is being read.
    pub(super) fn are_under_way(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Waits until something was read; for ever if nothing is.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn read(&mut self) -> (GroupName, Vec<Body>) {
        loop {
            match self.reading.join_next().await {
                Some(Ok(read)) => {
                    self.groups.remove(&read.0);
                    return read;
                }
                // A panic there has been reported by itself; what was to be read is due again.
                Some(Err(_)) if self.reading.is_empty() => self.groups.clear(),
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Nothing is read any more.
    pub(super) fn end(&mut self) {
        self.reading.abort_all();
    }

    fn begin(&mut self, reading: Reading, group: GroupName, reads: Reads) {
        if self.groups.insert(group.clone()) {
            self.reading.spawn(async move {
                let bodies = read(&reading, &reads, BYTES).await;
                let bodies = match bodies {
                    Ok(bodies) => bodies,
                    Err(error) => {
                        warn!(%group, %error, "messages that are to become dead letters cannot be read; they wait");
                        sleep(REFUSED_PAUSE).await;
                        Vec::new()
                    }
                };
                (group, bodies)
            });
        }
    }
}

/// Reads messages that may die, a bounded part of them. One that is not kept any more, or was lost,
/// is given as such.
pub(in super::super) async fn read(
    reading: &Reading,
    reads: &Reads,
    bytes_max: usize,
) -> Result<Vec<Body>, ReadFault> {
    let mut bodies = Vec::new();
    let mut left = bytes_max;
    for (partition, offsets) in reads {
        if left == 0 && !bodies.is_empty() {
            break;
        }
        let (first, last) = (*offsets.start(), *offsets.end());
        let picked = reading.pick(pick(*partition, (first, last), left.max(1))).await?;
        let mut records = picked.records.into_iter().peekable();
        for offset in first..=last.min(picked.next.saturating_sub(1)) {
            let record = records.next_if(|record| record.offset == offset);
            left = left.saturating_sub(record.as_ref().map_or(0, weight));
            bodies.push(Body { partition: *partition, offset, record });
        }
    }
    Ok(bodies)
}

fn pick(partition: PartitionId, run: (u64, u64), bytes_max: usize) -> Pick {
    let end = run.1.saturating_add(1);
    Pick { partition, runs: vec![run], end, limit: usize::MAX, bytes_max, past_damage: true }
}

impl Room {
    /// Does what is due in groups, a bounded part of it. Whether anything was done.
    pub(super) fn sweep(&mut self, now: Now) -> Result<bool, Refused> {
        let due = self.host.state().groups_due(now);
        let due = due.filter(|name| !self.sweeps.groups.contains(*name));
        let due: Vec<GroupName> = due.take(SWEPT_AT_ONCE).cloned().collect();
        let mut swept = false;
        for group in due {
            swept |= self.sweep_group(group, Vec::new(), now)?;
        }
        Ok(swept)
    }

    /// Messages of a group that may die were read.
    pub(super) fn bury(&mut self, (group, bodies): (GroupName, Vec<Body>)) {
        let now = self.clock.now();
        self.tick_at = None;
        // What the journal does not take now is read again.
        if let Err(refused) = self.sweep_group(group, bodies, now)
            && !matches!(refused, Refused::Busy { .. })
        {
            self.refused(&refused);
        }
    }

    /// Whether anything was done.
    fn sweep_group(
        &mut self,
        group: GroupName,
        bodies: Vec<Body>,
        now: Now,
    ) -> Result<bool, Refused> {
        let state = self.host.state();
        let due = state.due(&group, now);
        if due.is_empty() {
            return Ok(false);
        }
        let bounds = self.settings.bounds;
        let read = !bodies.is_empty();
        let sweep = GroupCommand::Sweep { group: group.clone(), due, bodies, bounds };
        let command = Command::Group(sweep);
        let reads = Streams::reads(state, &command, now);
        // What was read may be enough for this sweep; what was not is read for the next.
        if !reads.is_empty() && !read && self.sweeps.groups.len() < READS_MAX {
            self.sweeps.begin(self.reading.clone(), group, reads);
        }
        let applied = self.decide_group(&command, Purpose::Finish, now)?;
        let done = applied.sequence.is_some();
        if done {
            self.wait_for(applied, None);
        }
        Ok(done)
    }
}
