//! How a process ends: what its database decided, if anybody says so.
//!
//! ```text
//!                 PROCESSED   INCORRECT   DEADLOCK    replies      notices
//!  committed      Log         Error       Messages    Messages     Messages
//!  rolled back    Messages    Messages    Messages    gone         gone
//!  nobody says    Unknown     Error       Messages    Unknown      Messages
//!    committed      Log                                 Messages
//!    rolled back    Messages                            gone
//! ```

use std::collections::BTreeMap;

use super::Draft;
use super::draft::{About, Back};
use crate::{
    Ask, Cancelled, Change, DatabaseNo, Happened, Outcome, Phase, Place, Process, ProcessId, Reply,
    Seq, Served, Standing, Status, Step,
};

impl Draft<'_> {
    pub(super) fn commit(&mut self, process: &Process) -> Result<(), Cancelled> {
        let id = process.id;
        match process.phase {
            Phase::Ready => {
                self.spread(process, Place::Log);
                for prepared in &process.from_erp {
                    self.hand(prepared.seq, Place::Messages, id);
                }
                self.turn(process, Phase::Cleanup, "", true);
                Ok(())
            }
            Phase::Unknown => {
                self.decide_late(process, true);
                Ok(())
            }
            Phase::Cleanup | Phase::Failed | Phase::Done | Phase::Resolved { committed: true } => {
                Ok(())
            }
            Phase::Started => Err(Cancelled::NotPrepared(id)),
            phase @ (Phase::RolledBack
            | Phase::Interrupted
            | Phase::Expired
            | Phase::Resolved { committed: false }) => Err(Cancelled::Contradicts { id, phase }),
        }
    }

    pub(super) fn rollback(&mut self, process: &Process, words: &str) -> Result<(), Cancelled> {
        let id = process.id;
        match process.phase {
            Phase::Started => {
                self.give_up(process, words);
                Ok(())
            }
            Phase::Ready => {
                for served in &process.to_erp {
                    self.give_back(served.seq, Back::InVain, id);
                }
                for prepared in &process.from_erp {
                    self.drop_reply(prepared.seq, id);
                }
                self.turn(process, Phase::RolledBack, words, true);
                self.log(process.database, Happened::RolledBack, About::process(id), words);
                Ok(())
            }
            Phase::Unknown => {
                self.decide_late(process, false);
                Ok(())
            }
            Phase::RolledBack
            | Phase::Interrupted
            | Phase::Expired
            | Phase::Resolved { committed: false } => Ok(()),
            phase @ (Phase::Cleanup
            | Phase::Failed
            | Phase::Done
            | Phase::Resolved { committed: true }) => Err(Cancelled::Contradicts { id, phase }),
        }
    }

    pub(super) fn interrupt(&mut self, process: &Process, words: &str) -> Result<(), Cancelled> {
        let id = process.id;
        match process.phase {
            Phase::Started => {
                self.give_up(process, words);
                Ok(())
            }
            Phase::RolledBack
            | Phase::Interrupted
            | Phase::Expired
            | Phase::Resolved { committed: false } => Ok(()),
            Phase::Ready | Phase::Unknown => Err(Cancelled::Ready(id)),
            phase @ (Phase::Cleanup
            | Phase::Failed
            | Phase::Done
            | Phase::Resolved { committed: true }) => Err(Cancelled::Past { id, phase }),
        }
    }

    /// What is worth writing down of a call that was not followed.
    pub(super) fn note_cancelled(&mut self, ask: &Ask, cancelled: &Cancelled) {
        let Ask::Process { database, id, step } = ask else { return };
        match cancelled {
            Cancelled::Contradicts { .. } => {
                self.note_contradiction(*database, *id, matches!(step, Step::Commit));
            }
            Cancelled::Ready(_) => {
                let words = "an interruption came when the process was ready; it was not followed";
                self.log_once(*database, Happened::TooLate, About::process(*id), words);
            }
            _ => {}
        }
    }

    /// Once a process: whoever contradicts himself may do so for hours.
    fn note_contradiction(&mut self, database: DatabaseNo, id: ProcessId, committed: bool) {
        let Some(process) = self.state.process(database, id) else { return };
        if process.contradicted {
            return;
        }
        let said = if committed { "committed" } else { "rolled back" };
        let is = process.phase.text();
        let words = format!("the ERP says that it has {said}, and the process is {is}");
        self.change(Change::Contradicted(id.number));
        self.log(database, Happened::Contradiction, About::process(id), &words);
    }

    pub(super) fn resolve(&mut self, database: DatabaseNo, outcomes: &[Outcome]) -> Reply {
        let mut said: BTreeMap<ProcessId, bool> = BTreeMap::new();
        let results = outcomes.iter().map(|outcome| {
            let Outcome { id, committed } = *outcome;
            let Some(process) = self.state.process(database, id) else {
                return Err(Cancelled::NoProcess(id));
            };
            match said.insert(id, committed) {
                // The same again, in one breath.
                Some(before) if before == committed => return Ok(()),
                Some(_) => return Err(Cancelled::Contradicts { id, phase: process.phase }),
                None => {}
            }
            let result = match committed {
                true => self.commit(process),
                false => self.rollback(process, "reported by the ERP"),
            };
            if let Err(Cancelled::Contradicts { .. }) = result {
                self.note_contradiction(database, id, committed);
            }
            result
        });
        Reply::Resolved(results.collect())
    }

    /// The ERP stops before anything was decided.
    fn give_up(&mut self, process: &Process, words: &str) {
        for served in &process.to_erp {
            self.give_back(served.seq, Back::Untried, process.id);
        }
        self.turn(process, Phase::Interrupted, words, false);
        self.log(process.database, Happened::Interrupted, About::process(process.id), words);
    }

    /// The ERP was not heard of in time.
    pub(super) fn expire(&mut self, process: &Process) {
        let (id, database) = (process.id, process.database);
        let before = self.moves();
        match process.phase {
            Phase::Started => {
                for served in &process.to_erp {
                    self.give_back(served.seq, Back::InVain, id);
                }
                let words = "the ERP was not heard of in time; its messages are served again";
                let moves = self.moves() > before;
                self.turn(process, Phase::Expired, words, moves);
                self.log(database, Happened::Expired, About::process(id), words);
            }
            Phase::Ready => {
                self.spread(process, Place::Unknown);
                for prepared in &process.from_erp {
                    let to = if prepared.notice { Place::Messages } else { Place::Unknown };
                    self.hand(prepared.seq, to, id);
                }
                let words = "the ERP did not say whether its database committed; \
                             its messages are in Unknown until it does, or you do";
                self.turn(process, Phase::Unknown, words, true);
                self.log(database, Happened::Unknown, About::process(id), words);
            }
            _ => {}
        }
    }

    /// What nobody knew is said.
    fn decide_late(&mut self, process: &Process, committed: bool) {
        let id = process.id;
        for Served { seq, status, .. } in &process.to_erp {
            let message = self.state.message(*seq).filter(|one| one.place == Place::Unknown);
            let Some(message) = message.filter(|_| *status == Some(Status::Processed)) else {
                continue;
            };
            let to = if committed { Place::Log } else { Place::Messages };
            self.place((*seq, message), (to, Standing::Free), Some(id.number));
        }
        for prepared in process.from_erp.iter().filter(|prepared| !prepared.notice) {
            match committed {
                true => self.hand(prepared.seq, Place::Messages, id),
                false => self.drop_reply(prepared.seq, id),
            }
        }
        let words = if committed { "it had committed" } else { "it had been rolled back" };
        self.turn(process, Phase::Resolved { committed }, words, true);
        self.log(process.database, Happened::Resolved, About::process(id), words);
    }

    /// The requests of a process that was ready, each by its verdict.
    fn spread(&mut self, process: &Process, processed: Place) {
        let id = process.id;
        for Served { seq, status, error } in &process.to_erp {
            let Some(message) = self.state.message(*seq) else { continue };
            match status {
                Some(Status::Deadlock) => self.give_back(*seq, Back::Failed, id),
                Some(Status::Incorrect) => {
                    let words = error.as_deref().unwrap_or("the ERP cannot process it");
                    let aside = (Place::Error, Standing::Aside(words.into()));
                    self.place((*seq, message), aside, Some(id.number));
                }
                Some(Status::Processed) | None => {
                    self.place((*seq, message), (processed, Standing::Free), Some(id.number));
                }
            }
        }
    }

    /// A reply goes where it belongs.
    fn hand(&mut self, seq: Seq, to: Place, id: ProcessId) {
        let Some(message) = self.state.message(seq) else { return };
        // A device may have it already.
        if matches!(message.place, Place::Prepared | Place::Unknown) {
            self.place((seq, message), (to, Standing::Free), Some(id.number));
        }
    }

    /// A reply was never sent.
    fn drop_reply(&mut self, seq: Seq, id: ProcessId) {
        let Some(message) = self.state.message(seq) else { return };
        if matches!(message.place, Place::Prepared | Place::Unknown) {
            self.forget(seq, message, Some(id.number));
        }
    }
}
