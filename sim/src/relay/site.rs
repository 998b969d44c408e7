//! One agent, its directory, and who waits for its answers.

use std::sync::Arc;

use handoff_log::disk::{Crash, Disk, Faults, Faulty, Open, read_full_at, write_all_at};
use handoff_relay_agent::{Answer, ByHand};

use super::Plan;
use super::oracle::{PutId, SiteId};

pub(super) struct Site {
    pub(super) id: SiteId,
    /// The number of its life, of all that there were.
    pub(super) life: u64,
    pub(super) disk: Crash,
    pub(super) faults: Faults,
    pub(super) plan: Plan,
    pub(super) agent: Option<ByHand>,
    pub(super) answers: Vec<(PutId, Answer)>,
    /// Its directory as it was once.
    pub(super) older: Option<Crash>,
}

impl Site {
    /// The first, on an empty disk.
    pub(super) fn new(plan: Plan) -> Self {
        Self::on(SiteId(0), Crash::new(), plan)
    }

    /// One that begins on this disk.
    pub(super) fn on(id: SiteId, disk: Crash, plan: Plan) -> Self {
        let (_, faults) = Faulty::new(Arc::new(disk.clone()));
        let (agent, answers, older) = (None, Vec::new(), None);
        Self { id, life: 0, disk, faults, plan, agent, answers, older }
    }

    /// What is in its spool.
    pub(super) fn spool(&self) -> Vec<String> {
        self.disk.list("spool").unwrap_or_default()
    }

    /// Whether nothing is in its memory.
    pub(super) fn is_idle(&self) -> bool {
        self.agent.as_ref().is_none_or(|agent| agent.memory_bytes() == 0)
    }

    /// A copy of its directory as it is, in the middle of whatever its agent does.
    pub(super) fn copied(&self) -> std::io::Result<Crash> {
        copied(&self.disk.seen())
    }
}

/// A copy of a directory of an agent, all of it durable.
pub(super) fn copied(from: &dyn Disk) -> std::io::Result<Crash> {
    let to = Crash::new();
    for dir in ["spool", "quarantine"] {
        to.create_dir(dir)?;
        for name in from.list(dir).unwrap_or_default() {
            let path = format!("{dir}/{name}");
            let file = from.open(&path, Open::Read)?;
            let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
            read_full_at(&*file, &mut bytes, 0)?;
            write_all_at(&*to.open(&path, Open::Create)?, &bytes, 0)?;
        }
    }
    to.sync_all()?;
    Ok(to)
}
