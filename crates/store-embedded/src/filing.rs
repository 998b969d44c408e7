//! The side of whoever puts a room's bodies into files of their own, as [`crate::Moving`] puts them
//! into segments.

use std::sync::Arc;

use handoff_exchange::Seq;
use handoff_types::Sequence;

use crate::books::Shared;

/// Takes the bodies of one room from the journal. There is one.
#[derive(Debug)]
pub struct Filing {
    pub(crate) shared: Arc<Shared>,
    /// Records up to this one may have been filed before, by a process or a sync that failed:
    /// nobody knows what their files hold.
    pub(crate) unsure: Sequence,
}

impl Filing {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let unsure = shared.last().unwrap_or(Sequence::NONE);
        Self { shared, unsure }
    }

    /// The first message whose body is durable and was never filed: those after it were not either.
    pub(crate) fn unwritten_from(&self) -> Option<Seq> {
        self.shared.unmoved_after(self.unsure).map(Seq)
    }
}
