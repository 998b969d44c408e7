//! Where a group is in a partition: one thing for every message.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::PartitionId;
use handoff_streams::groups::{LeaseId, MemberId, MessageStatus};
use handoff_types::Steady;

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Pending {
        until: Steady,
        said: Said,
    },
    Out {
        member: MemberId,
        lease: LeaseId,
        deadline: Steady,
    },
    Processed,
    /// Where its letter is.
    Dead(PartitionId, u64),
}

/// What was said when a message came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Exactly(Option<String>),
    /// Words that nobody promised, for one of the reasons there are.
    Because(Why),
}

/// Why a message came back that nobody answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Silent,
    Over,
    Left,
    Anew,
}

/// A message, and how often it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) is: Is,
    pub(crate) attempt: u32,
}

impl Cell {
    const FRESH: Self =
        Self { is: Is::Pending { until: Steady(0), said: Said::Exactly(None) }, attempt: 0 };

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.is, Is::Processed | Is::Dead(..))
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.is, Is::Pending { .. })
    }

    /// The same as people see it.
    pub(crate) fn is_seen_as(&self, status: &MessageStatus, now: Steady) -> bool {
        match (&self.is, status) {
            (Is::Pending { until, said }, MessageStatus::Pending { attempt, wait, error }) => {
                let same = match said {
                    Said::Exactly(said) => said == error,
                    Said::Because(_) => error.is_some(),
                };
                same && *attempt == self.attempt && *wait == until.since(now)
            }
            (
                Is::Out { member, lease, deadline },
                MessageStatus::Processing { attempt, member: of, lease: under, left },
            ) => {
                (member, lease, self.attempt) == (of, under, *attempt)
                    && *left == deadline.since(now)
            }
            (Is::Processed, MessageStatus::Processed) => true,
            (Is::Dead(at, offset), MessageStatus::Dead { letter }) => {
                *letter == Some((*at, *offset))
            }
            _ => false,
        }
    }
}

/// A partition of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Everything below was finished when it began, but for what is dead.
    pub(crate) floor: u64,
    /// Nothing from here on was looked at.
    pub(crate) next: u64,
    cells: BTreeMap<u64, Cell>,
    pub(crate) last_lease: u64,
    /// Who finished a message, under which lease.
    pub(crate) finishers: BTreeMap<u64, BTreeSet<(MemberId, LeaseId)>>,
    pub(crate) dead: u64,
    pub(crate) lost: u64,
}

impl Place {
    pub(crate) fn at(offset: u64) -> Self {
        Self { floor: offset, next: offset, ..Self::default() }
    }

    /// Whether nothing ever happened here.
    pub(crate) fn is_untouched(&self) -> bool {
        self.next == 0 && self.last_lease == 0 && self.cells.is_empty()
    }

    pub(crate) fn cell(&self, offset: u64) -> Cell {
        match self.cells.get(&offset) {
            Some(cell) => cell.clone(),
            None if offset < self.floor => Cell { is: Is::Processed, attempt: 0 },
            None => Cell::FRESH,
        }
    }

    pub(crate) fn set(&mut self, offset: u64, is: Is) {
        let attempt = self.cell(offset).attempt;
        self.cells.insert(offset, Cell { is, attempt });
    }

    pub(crate) fn put(&mut self, offset: u64, is: Is, attempt: u32) {
        self.cells.insert(offset, Cell { is, attempt });
    }

    /// The first offset that is not finished.
    pub(crate) fn committed(&self) -> u64 {
        let mut open = (self.floor..self.next).filter(|offset| !self.cell(*offset).is_finished());
        open.next().unwrap_or(self.next)
    }

    /// How many that were looked at are not finished.
    pub(crate) fn open(&self) -> usize {
        (self.floor..self.next).filter(|offset| !self.cell(*offset).is_finished()).count()
    }

    /// Messages that are out.
    pub(crate) fn out(&self) -> Vec<(u64, MemberId, LeaseId, Steady, u32)> {
        let out = self.cells.iter().filter_map(|(offset, cell)| match cell.is {
            Is::Out { member, lease, deadline } => {
                Some((*offset, member, lease, deadline, cell.attempt))
            }
            _ => None,
        });
        out.collect()
    }

    /// What a member holds comes back, to be handed out at once.
    pub(crate) fn give_back(&mut self, who: MemberId, why: Why) {
        for (offset, member, ..) in self.out() {
            if member == who {
                self.set(offset, Is::Pending { until: Steady(0), said: Said::Because(why) });
            }
        }
    }

    /// The group is sent elsewhere.
    pub(crate) fn begin(&mut self, at: u64) {
        self.cells.retain(|offset, cell| *offset < at && matches!(cell.is, Is::Dead(..)));
        (self.floor, self.next) = (at, at);
    }

    /// How many runs of messages there are of which the same is known.
    pub(crate) fn runs(&self) -> usize {
        let mut runs = 0;
        let mut before: Option<Cell> = None;
        for offset in self.committed()..self.next {
            let cell = self.cell(offset);
            // Nothing is remembered of what is finished but that it is.
            let known = match cell.is_finished() {
                true => Cell { is: Is::Processed, attempt: 0 },
                false => cell,
            };
            runs += usize::from(before.as_ref() != Some(&known));
            before = Some(known);
        }
        runs
    }
}
